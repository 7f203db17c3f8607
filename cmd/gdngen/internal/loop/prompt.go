package loop

import (
	_ "embed"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
)

// DefaultPrompt is the template of an iteration's prompt. It has names in double braces and nothing else.
//
//go:embed prompt.md
var DefaultPrompt string

// Directive is the user's instruction for all iterations of a session.
type Directive struct {
	Name string `json:"name,omitempty"` // of a preset or file
	Text string `json:"text"`
}

var variable = regexp.MustCompile(`\{\{([^{}]*)\}\}`)

// Variables returns the names that a template may use, sorted.
func Variables() []string {
	var names []string
	for name := range (&Loop{}).values(1, "") {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// CheckPrompt errs if a template uses an unknown name.
func CheckPrompt(template string) error {
	known := Variables()
	for _, m := range variable.FindAllStringSubmatchIndex(template, -1) {
		if name := template[m[2]:m[3]]; !slices.Contains(known, name) {
			return fmt.Errorf("prompt, line %d: {{%s}} stands for nothing (known: %s)", 1+strings.Count(template[:m[0]], "\n"), name, strings.Join(known, " "))
		}
	}
	return nil
}

var blankLines = regexp.MustCompile(`\n{3,}`)

// render fills a template for an iteration. Text by an agent is data: names in it are not replaced.
func (l *Loop) render(n int, base string) string {
	values := l.values(n, base)
	text := variable.ReplaceAllStringFunc(l.template(), func(name string) string { return values[strings.Trim(name, "{}")] })
	return blankLines.ReplaceAllString(text, "\n\n")
}

func (l *Loop) template() string {
	if l.Prompt != "" {
		return l.Prompt
	}
	return DefaultPrompt
}

// values returns the text for each name.
func (l *Loop) values(n int, base string) map[string]string {
	done := ends(l.records())
	return map[string]string{
		"ITERATION":        fmt.Sprint(n),
		"TOTAL_ITERATIONS": fmt.Sprint(l.Iterations),
		"HEAD_SHA":         base,
		"OBJECTIVE":        l.objective(),
		"FIGURE":           l.figure(done),
		"BOUND":            l.Bound,
		"HOTSPOTS":         orElse(l.hot, "Not known: measure before you change anything."),
		"CONTEXT":          l.context(),
		"JOURNAL":          journalText(done),
		"FAILED":           failedTwice(done),
		"ESCALATION":       l.escalation(done),
		"TARGET":           fmt.Sprintf("an expected gain of %v", Share(l.MinExpected)),
		"MIN_GAIN":         Share(l.MinGain).String(),
		"PROTECTED":        list(l.Protect, "nothing in particular"),
		"CHECKS":           list(append(slices.Clone(l.Checks), l.Measure), ""),
		"DIRECTIVES":       l.directives(),
		"PLACE":            l.place(),
		"BUDGET":           l.budgetText(),
	}
}

// context tells the agent where its code, its judges and known facts are.
func (l *Loop) context() string {
	var b strings.Builder
	line := func(name string, words []string) {
		if len(words) > 0 {
			fmt.Fprintf(&b, "- %s: %s.\n", name, list(words, ""))
		}
	}
	line("The code under work", l.Kernels)
	line("Tests and what else judges, to be read and not changed", l.Protect)
	line("Read before the work", l.References)
	if l.Dir != "" {
		line("The log of all iterations", []string{l.path(LogName)})
	}
	line("Commits that were kept, with verdict, figure and checks", []string{"git log"})
	line("Costs, errors and hot spots of kernels", []string{"gdngen explain", "gdngen check", "gdngen device trace top", "gdngen help"})
	return strings.TrimSpace(b.String())
}

func orElse(text, other string) string {
	if strings.TrimSpace(text) == "" {
		return other
	}
	return strings.TrimSpace(text)
}

func list(words []string, none string) string {
	if len(words) == 0 {
		return none
	}
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = "`" + w + "`"
	}
	return strings.Join(quoted, ", ")
}

func (l *Loop) objective() string {
	return orElse(l.Objective, fmt.Sprintf("Make the figure smaller that `%s` prints, by a change of what is computed, not of how it is counted.", l.Measure))
}

// figure describes the present figure, the first one, and the goal.
func (l *Loop) figure(done []Record) string {
	first, now := 0., 0.
	for _, r := range done {
		if r.Figures == nil {
			continue
		}
		if first == 0 {
			first, now = r.Figures.Before, r.Figures.Before
		}
		if meaning(r.Verdict).Moves {
			now = r.Figures.After
		}
	}
	if first == 0 {
		return "not measured yet"
	}
	text := fmt.Sprintf("%.6g now, %.6g at the start", now, first)
	if l.GoalMFU > 0 {
		text += fmt.Sprintf(", a model flop utilisation of %v is the goal", Share(l.GoalMFU))
	}
	if l.Goal > 0 {
		text += fmt.Sprintf(", %.6g is the goal", l.Goal)
	}
	return text
}

// told is the number of iterations listed in a prompt.
const told = 10

func journalText(done []Record) string {
	if len(done) == 0 {
		return "Nothing yet."
	}
	var b strings.Builder
	for _, r := range done[max(0, len(done)-told):] {
		fmt.Fprintf(&b, "- %d, %s: %s. %s\n", r.Iteration, r.Verdict, orElse(hypothesis(r), "no hypothesis"), clip(r.Reason, 300))
	}
	return strings.TrimSpace(b.String())
}

func hypothesis(r Record) string {
	if r.Plan == nil {
		return ""
	}
	return strings.TrimSuffix(r.Plan.Hypothesis, ".")
}

// failedTwice lists causes of failure that occurred more than once.
func failedTwice(done []Record) string {
	count := map[string]int{}
	var order []string
	for _, r := range done {
		if !meaning(r.Verdict).Fails {
			continue
		}
		key := string(r.Verdict)
		if r.Subject != "" {
			key += " (" + r.Subject + ")"
		}
		if count[key]++; count[key] == 2 {
			order = append(order, key)
		}
	}
	if len(order) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("What failed more than once, and is not to be tried in this way again:\n")
	for _, key := range order {
		fmt.Fprintf(&b, "- %d times %s\n", count[key], key)
	}
	return strings.TrimSpace(b.String())
}

// stuckAfter is the number of judged iterations without a real gain before escalation.
const stuckAfter = 4

// escalation demands a larger step if the last keep gained little with the same hot spots, or if nothing gained for long.
func (l *Loop) escalation(done []Record) string {
	const demand = " A small step does not count now: change the algorithm, the decomposition, or what passes between kernels."
	judged := slices.DeleteFunc(slices.Clone(done), func(r Record) bool { return !meaning(r.Verdict).Fails && r.Verdict != Keep })
	for i, r := range slices.Backward(judged) {
		if r.Verdict != Keep {
			continue
		}
		if gain := r.Figures.Gain(); gain < l.EscalateBelow && (r.HotSpots == "" || sameSpots(r.HotSpots, l.hot)) {
			return fmt.Sprintf("The last gain was %v, under %v, and the hot spots are the same.", Share(gain), Share(l.EscalateBelow)) + demand
		}
		judged = judged[i+1:]
		break
	}
	if len(judged) >= stuckAfter {
		return fmt.Sprintf("The last %d iterations gained nothing.", len(judged)) + demand
	}
	return ""
}

// sameSpots compares the first word of each line: names without figures.
func sameSpots(a, b string) bool {
	names := func(text string) (l []string) {
		for line := range strings.Lines(text) {
			if f := strings.Fields(line); len(f) > 0 {
				l = append(l, f[0])
			}
		}
		return l
	}
	return slices.Equal(names(a), names(b))
}

func (l *Loop) directives() string {
	var b strings.Builder
	for i, d := range l.Directives {
		if i == 0 {
			b.WriteString("## Directives of this session, which are mandatory\n")
		}
		if d.Name != "" {
			fmt.Fprintf(&b, "\n### %s\n", d.Name)
		}
		fmt.Fprintf(&b, "%s\n", strings.TrimSpace(d.Text))
	}
	return strings.TrimSpace(b.String())
}

func (l *Loop) place() string {
	if l.On == "" {
		return ""
	}
	return fmt.Sprintf("Commands that need another machine use `gdngen remote` with GDNGEN_ON=%s, which is set here and for the checks. Use no other place.", l.On)
}

func (l *Loop) budgetText() string {
	text := fmt.Sprintf("You have %v, and may be silent for %v.", l.AgentTimeout, l.AgentIdle)
	if l.Budget > 0 {
		text += fmt.Sprintf(" The whole session has %v, of which %v are left.", l.Budget, max(0, l.Budget-time.Since(l.start)).Round(time.Minute))
	}
	return text
}
