package logbook

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Required are the default fields of an entry.
var Required = []string{"hypothesis", "command", "result", "verdict", "next"}

// Rules are the checks of a log.
type Rules struct {
	Fields  []string                // required in every entry
	Last    bool                    // check only the last entry
	Commit  func(name string) error // errs if a commit does not exist; nil: not checked
	Head    func() (string, error)  // returns the message of the newest commit, for "this commit"
	Program func(name string) error // errs if a program does not exist; nil: not checked
}

// Fault is a violation of a rule in an entry.
type Fault struct {
	Line  int    `json:"line"`
	Entry string `json:"entry"`
	Text  string `json:"fault"`
}

func (f Fault) String() string {
	if f.Entry == "" {
		return fmt.Sprintf("line %d: %s", f.Line, f.Text)
	}
	return fmt.Sprintf("line %d, %s: %s", f.Line, f.Entry, f.Text)
}

var (
	pending = regexp.MustCompile(`(?i)\(?\b(pending|tbd|todo|to be (done|determined|filled in))\b\)?|<[a-z _-]+>`)
	sha     = regexp.MustCompile(`^[0-9a-f]{7,64}$`)
	quoted  = regexp.MustCompile("`([^`]+)`")
	nothing = regexp.MustCompile(`(?i)^\s*none\b`)
	setting = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*=`)
)

// NoCommit replaces the commit of an attempt without one.
const NoCommit = "none (failed attempt)"

// Lint lists violations of the rules, and other reasons why a reader could not act on a log.
func Lint(entries []Entry, rules Rules) (faults []Fault) {
	if len(entries) == 0 {
		return []Fault{{1, "", "no entry: an entry begins with a heading such as ## 1. Title"}}
	}
	number := 0
	for i, e := range entries {
		name := e.Title
		if e.Number > 0 {
			name = strings.TrimSpace(fmt.Sprintf("%d %s", e.Number, e.Title))
		}
		add := func(line int, format string, args ...any) {
			faults = append(faults, Fault{line, name, fmt.Sprintf(format, args...)})
		}
		if e.Number > 0 && e.Number <= number {
			add(e.Line, "its number does not follow %d", number)
		}
		number = max(number, e.Number)
		if rules.Last && i < len(entries)-1 {
			faults = nil
			continue
		}
		if e.Title == "" {
			add(e.Line, "a heading without a title")
		}
		for _, want := range rules.Fields {
			if e.Field(strings.ToLower(want)) == nil {
				add(e.Line, "no field %s", want)
			}
		}
		for j, f := range e.Fields {
			if rules.required(f.Name) && slices.ContainsFunc(e.Fields[:j], func(g Field) bool { return g.Name == f.Name }) {
				add(f.Line, "%s twice", f.Name)
			}
			for _, fault := range rules.check(&e, f) {
				add(f.Line, "%s", fault)
			}
		}
	}
	return faults
}

// required reports whether every entry must have the field, once and finished.
func (r *Rules) required(name string) bool {
	return name == "commit" || slices.ContainsFunc(r.Fields, func(want string) bool { return strings.EqualFold(want, name) })
}

// Finished replaces words in a text that Lint takes for an unfinished entry.
func Finished(text string) string {
	return strings.ReplaceAll(pending.ReplaceAllString(text, "open"), "<", "(")
}

// check lists the faults of a field.
func (r *Rules) check(e *Entry, f Field) (faults []string) {
	add := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	text := strings.TrimSpace(f.Text)
	switch m := pending.FindString(text); {
	case text == "" && r.required(f.Name):
		add("%s is empty", f.Name)
	case m != "" && r.required(f.Name):
		add("%s is still to be written: %q", f.Name, m)
	case f.Name == "commit":
		if why := r.commit(e, text); why != "" {
			add("%s", why)
		}
	case f.Name == "command" && r.Program != nil:
		for _, p := range programs(text) {
			if err := r.Program(p); err != nil {
				add("command: %v", err)
			}
		}
	}
	return faults
}

func (r *Rules) commit(e *Entry, text string) string {
	name := strings.Trim(text, "`. ")
	switch {
	case strings.EqualFold(name, NoCommit):
		return ""
	case strings.EqualFold(name, "this commit"):
		if r.Head == nil {
			return ""
		}
		message, err := r.Head()
		if err != nil {
			return err.Error()
		}
		if !strings.Contains(strings.ToLower(message), strings.ToLower(e.Title)) && (e.Number == 0 || !regexp.MustCompile(fmt.Sprintf(`(?i)\b(iteration|entry|#) ?%d\b`, e.Number)).MatchString(message)) {
			return "commit: \"this commit\", and the message of HEAD names neither this title nor this number"
		}
		return ""
	case !sha.MatchString(name):
		return fmt.Sprintf("commit: %q is no commit: want one, \"this commit\" or %q", name, NoCommit)
	case r.Commit != nil:
		if err := r.Commit(name); err != nil {
			return err.Error()
		}
	}
	return ""
}

// programs returns the first words of the commands in a field: of the texts in backquotes, or of the first line.
func programs(text string) (l []string) {
	commands := []string{strings.SplitN(text, "\n", 2)[0]}
	if m := quoted.FindAllStringSubmatch(text, -1); m != nil {
		commands = nil
		for _, x := range m {
			commands = append(commands, x[1])
		}
	}
	for _, c := range commands {
		if nothing.MatchString(c) {
			continue
		}
		for _, word := range strings.Fields(strings.TrimPrefix(strings.TrimSpace(c), "$ ")) {
			if !setting.MatchString(word) {
				l = append(l, word)
				break
			}
		}
	}
	return l
}
