package strategy

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gdngen/gdngen/autotune/journal"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/pjrt/child"
)

// Question is one line that a proposer reads.
type Question struct {
	Ask       int                           `json:"ask"` // number of the candidate that is asked for
	Spec      string                        `json:"spec"`
	Targets   []string                      `json:"targets"`
	Seed      uint64                        `json:"seed"`
	Precision string                        `json:"precision"`          // the lowest that a candidate may compute in
	Axes      []Choice                      `json:"axes,omitempty"`     // in the first line to a process: what a variant is made of
	Judged    []*journal.Candidate          `json:"judged"`             // since the line before; in the first line all
	Champions map[string]*journal.Candidate `json:"champions"`          // by target
	Hot       map[string][]journal.Stage    `json:"hot"`                // cycles of the champions by stage, most first
	Moves     map[string][]string           `json:"moves"`              // by target: what of the champion may be changed, each axis=value, and was not tried
	Pending   []string                      `json:"pending"`            // variants under way
	Expected  float64                       `json:"expected,omitempty"` // the share that an answer is to gain at least, by its own expectation

	// Directive is there in the first line to a process, where the session has one.
	Directive *Demand `json:"directive,omitempty"`
	// Escalation is there where the search goes round in circles: the answer should be of a cell
	// without a candidate.
	Escalation *Escalation `json:"escalation,omitempty"`
}

// Demand is what a session demands of its proposer.
type Demand struct {
	Name  string   `json:"name,omitempty"` // of a preset
	Axes  []string `json:"axes,omitempty"` // that it walks
	Words string   `json:"words"`          // in Markdown: those of the preset, then those of the user
}

// demand is that of a space; nil where it has none.
func (s *Space) demand() *Demand {
	d := &Demand{Name: s.Directive, Words: s.Words}
	if preset, err := LookupDirective(s.Directive); err == nil {
		d.Axes = s.Axes
		d.Words = strings.TrimSpace(preset.Words() + "\n" + s.Words)
	}
	if d.Words == "" {
		return nil
	}
	return d
}

// Choice is an axis, as a proposer sees it.
type Choice struct {
	Name       string    `json:"name"`
	Doc        string    `json:"doc"`
	Group      gdn.Group `json:"group"`
	Structural bool      `json:"structural"` // else a size or a number of a schedule
	Values     []string  `json:"values"`
	Default    string    `json:"default"`
}

// Answer is the line that a proposer gives back: one of variant, change, ir and done.
type Answer struct {
	Variant    string    `json:"variant"`
	Change     string    `json:"change"` // axis=value,axis=value of the parent, or without one of the champion, completed with what it needs
	IR         string    `json:"ir"`     // text of a module for the spec
	Done       bool      `json:"done"`
	Parent     int       `json:"parent"`
	Hypothesis string    `json:"hypothesis"`
	Gain       float64   `json:"gain"` // expected, as a share of the parent's cycles
	Risk       float64   `json:"risk"`
	Shortlist  []Weighed `json:"shortlist"` // what was weighed with it, best first
	Next       Next      `json:"next"`      // what is to be tried afterwards
}

// Next is what is to be tried afterwards, in words. It may be written as an option with a command too.
type Next string

// UnmarshalJSON reads a text, or an object with change, gain, risk and command.
func (n *Next) UnmarshalJSON(text []byte) error {
	if json.Unmarshal(text, (*string)(n)) == nil {
		return nil
	}
	var o struct {
		Weighed
		Command string `json:"command"`
	}
	if err := json.Unmarshal(text, &o); err != nil {
		return errors.New("next wants a text, or an object with change, gain, risk and command")
	}
	*n = Next(cmp.Or(o.Change, o.Variant))
	if o.Gain != 0 {
		*n += Next(fmt.Sprintf(" (expected %.3g %% less, risk %.3g %%)", 100*o.Gain, 100*o.Risk))
	}
	if o.Command != "" {
		*n += Next("; `" + o.Command + "`")
	}
	return nil
}

// Weighed is an option that a proposer did not take: a variant, or a change in words.
type Weighed struct {
	Variant string  `json:"variant"`
	Change  string  `json:"change"`
	Parent  int     `json:"parent"` // 0: that of the answer
	Gain    float64 `json:"gain"`
	Risk    float64 `json:"risk"`
}

// The most that is recorded of a shortlist: options, and characters of a text.
const (
	mostWeighed = 10
	mostWords   = 400
)

// options are a shortlist as it is recorded.
func (a *Answer) options(judged journal.View) (l []journal.Option) {
	for _, w := range a.Shortlist[:min(len(a.Shortlist), mostWeighed)] {
		o := journal.Option{Parent: cmp.Or(w.Parent, a.Parent), Change: clip(cmp.Or(w.Change, w.Variant)), Gain: journal.Figure(w.Gain), Risk: journal.Figure(w.Risk)}
		if parent := judged.Candidate(o.Parent); parent != nil && w.Variant != "" {
			from, bad := gdn.ParseVariant(parent.Variant)
			to, err := gdn.ParseVariant(w.Variant)
			if moves := changed(from, to); bad == nil && err == nil && len(moves) > 0 {
				o.Change = moveTexts(moves)
			}
		}
		l = append(l, o)
	}
	return l
}

// clip is a text on one line, of so many characters as are recorded.
func clip(text string) string {
	r := []rune(strings.Join(strings.Fields(text), " "))
	return string(r[:min(len(r), mostWords)])
}

// moveTexts are moves as axis=value,axis=value.
func moveTexts(moves []Move) string {
	l := make([]string, len(moves))
	for i, m := range moves {
		l[i] = m.String()
	}
	return strings.Join(l, ",")
}

// AnswerLimit is how long a proposer may take for an answer, unless a search says otherwise.
const AnswerLimit = time.Minute

// maxAnswer bounds an answer in bytes.
const maxAnswer = 16 << 20

// proposer asks a command. The process starts with the first question and is started anew after it
// died or was late.
type proposer struct {
	space   Space
	command string
	limit   time.Duration

	mu    sync.Mutex
	run   *process
	known int // candidates that the process has been told of
}

func newProposer(s Space, command string) *proposer {
	limit := s.AnswerLimit
	if limit <= 0 {
		limit = AnswerLimit
	}
	return &proposer{space: s, command: command, limit: limit}
}

// Close ends the process.
func (p *proposer) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.drop()
	return nil
}

func (p *proposer) drop() {
	if p.run != nil {
		p.run.stop()
		p.run, p.known = nil, 0
	}
}

func (p *proposer) choose(ctx context.Context, k *knowledge) *Proposal {
	judged, pending := k.View, k.pending
	if judged.Len() == 0 && len(pending) > 0 {
		return nil // it is asked when something is known
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	q := p.question(k)
	if p.run == nil {
		run, err := startProcess(p.command)
		if err != nil {
			return &Proposal{Fault: &Fault{journal.Crash, fmt.Sprintf("the proposer does not start: %v", err), ""}}
		}
		p.run = run
	}
	line, err := p.run.ask(ctx, q, p.limit)
	p.known = judged.Len()
	switch {
	case errors.Is(err, errLate):
		p.drop()
		return &Proposal{Fault: &Fault{journal.Timeout, fmt.Sprintf("the proposer gave nothing within %v", p.limit), line}}
	case ctx.Err() != nil:
		p.drop()
		return nil
	case err != nil:
		said := p.run.noise.String()
		p.drop()
		reason := fmt.Sprintf("the proposer ended: %v", err)
		if last := lastLine(said); last != "" {
			reason += ": " + last
		}
		return &Proposal{Fault: &Fault{journal.Crash, reason, said}}
	}
	return p.read(line, judged)
}

func (p *proposer) question(k *knowledge) *Question {
	judged, pending := k.View, k.pending
	if p.known > judged.Len() {
		p.known = 0
	}
	q := &Question{Ask: judged.Len() + len(pending) + 1, Spec: p.space.Spec.String(), Targets: p.space.Targets, Seed: p.space.Seed, Precision: p.space.Least,
		Judged: judged.Candidates()[p.known:], Champions: map[string]*journal.Candidate{}, Hot: map[string][]journal.Stage{}, Moves: map[string][]string{}, Pending: []string{}, Escalation: k.escalation, Expected: p.space.Expected}
	if p.run == nil {
		q.Judged, q.Directive = judged.Candidates(), p.space.demand()
		for _, a := range gdn.Axes {
			if p.space.walks(a.Name) {
				q.Axes = append(q.Axes, Choice{a.Name, a.Doc, a.Group, a.Structural(), a.Values, a.Default})
			}
		}
	}
	for _, t := range p.space.Targets {
		if c := judged.Champion(t); c != nil {
			q.Champions[t], q.Hot[t], q.Moves[t] = c, c.Cost(t).Stages, p.moves(c, judged, pending)
		}
	}
	for _, v := range pending {
		q.Pending = append(q.Pending, v.String())
	}
	return q
}

// moves lists what of a candidate may be changed, and leads where nobody was.
func (p *proposer) moves(c *journal.Candidate, judged journal.View, pending []gdn.Variant) (l []string) {
	v, err := p.space.from(c)
	if err != nil { // the text of a program
		return nil
	}
	known := p.space.known(judged, pending)
	for _, x := range p.space.singles(v) {
		if fitted := x.v.Fit(p.space.Spec); p.space.admits(x.v) && !known(fitted, fitted.String()) && !slices.Contains(l, x.String()) {
			l = append(l, x.String())
		}
	}
	return l
}

// changedBy makes the changes axis=value of a text one after another, each with what it needs where it is refused alone.
func (s Space) changedBy(v gdn.Variant, text string) (gdn.Variant, error) {
	for change := range strings.SplitSeq(text, ",") {
		m := parseMove(strings.TrimSpace(change))
		w, err := v.With(m.Axis, m.Value)
		if err != nil || !s.admits(w) || w.Fit(s.Spec) == v.Fit(s.Spec) {
			if whole, bad := v.Towards(m.Axis, m.Value); bad == nil && s.admits(whole) {
				w, err = whole, nil
			}
		}
		if err != nil {
			return v, err
		}
		v = w
	}
	return v, nil
}

// read turns an answer into a proposal. Whatever it holds, it is data.
func (p *proposer) read(line string, judged journal.View) *Proposal {
	var a Answer
	bad := func(format string, args ...any) *Proposal {
		p := &Proposal{Hypothesis: a.Hypothesis, Fault: &Fault{journal.Invalid, "the proposer's answer " + fmt.Sprintf(format, args...), line}}
		if judged.Candidate(a.Parent) != nil {
			p.Parent = a.Parent
		}
		return p
	}
	d := json.NewDecoder(strings.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(&a); err != nil {
		return bad("is not what was asked for: %v", err)
	}
	out := &Proposal{Parent: a.Parent, Hypothesis: a.Hypothesis, Gain: a.Gain, Risk: a.Risk, Shortlist: a.options(judged), Next: clip(string(a.Next))}
	parent := judged.Candidate(a.Parent)
	switch {
	case a.Done:
		return nil
	case a.Parent != 0 && parent == nil:
		return bad("names parent %d, which is not judged", a.Parent)
	case len(slices.DeleteFunc([]string{a.Variant, a.Change, a.IR}, func(text string) bool { return text == "" })) != 1:
		return bad("wants one of variant, change, ir and done")
	case a.Gain < p.space.Expected:
		return bad("expects a gain of %.3g %%, and %.3g %% is asked (--min-expected)", 100*a.Gain, 100*p.space.Expected)
	case a.IR != "":
		out.IR = a.IR
		return out
	}
	v, err := gdn.ParseVariant(a.Variant)
	if a.Change != "" {
		if parent == nil {
			parent = judged.Champion(p.space.Targets[0])
		}
		if parent == nil || parent.Variant == "" {
			return bad("changes a candidate that is no variant: name a parent, or give a variant")
		}
		out.Parent = parent.ID
		if v, err = p.space.from(parent); err == nil {
			v, err = p.space.changedBy(v, a.Change)
		}
	}
	if err != nil {
		return bad("has a variant that is none: %v", err)
	}
	out.Variant = v
	if !p.space.inside(v) {
		return bad("has a variant outside of the space that is searched: %s", v)
	}
	if parent != nil {
		if from, err := gdn.ParseVariant(parent.Variant); err == nil {
			out.Moves = changed(from, v)
			for _, m := range out.Moves {
				if len(p.space.Axes) > 0 && !slices.Contains(p.space.Axes, m.Axis) {
					return bad("changes %s, which is not searched", m.Axis)
				}
			}
		}
	}
	return out
}

// process is a running proposer.
type process struct {
	*child.Command
	in    io.WriteCloser
	out   io.Closer
	lines chan string // closed when it closes its output
	noise tail
}

var errLate = errors.New("late")

func startProcess(command string) (*process, error) {
	p := &process{lines: make(chan string)}
	cmd := exec.Command("sh", "-c", command)
	cmd.Stderr = &p.noise
	theirIn, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	out, theirOut, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, theirIn.Close(), in.Close())
	}
	cmd.Stdin, cmd.Stdout = theirIn, theirOut
	p.Command, err = child.StartCommand(cmd)
	theirIn.Close()
	theirOut.Close()
	if err != nil {
		return nil, errors.Join(err, in.Close(), out.Close())
	}
	p.in, p.out = in, out
	go func() {
		defer close(p.lines)
		s := bufio.NewScanner(out)
		s.Buffer(nil, maxAnswer)
		for s.Scan() {
			if strings.TrimSpace(s.Text()) != "" {
				p.lines <- s.Text()
			}
		}
	}()
	return p, nil
}

// ask sends a question and waits for one line.
func (p *process) ask(ctx context.Context, q *Question, limit time.Duration) (string, error) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	sent := make(chan error, 1)
	go func() { sent <- json.NewEncoder(p.in).Encode(q) }()
	for {
		select {
		case line, ok := <-p.lines:
			if ok {
				return line, nil
			}
			select {
			case <-p.Reaped():
				if p.Exit() != nil {
					return "", p.Exit()
				}
			case <-timer.C:
			}
			return "", errors.New("it closed its output")
		case err := <-sent:
			if err != nil {
				sent = nil // it ends: its exit says why
			}
		case <-timer.C:
			return "", errLate
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
}

// stop kills the process with its children and reaps it.
func (p *process) stop() {
	p.in.Close()
	p.Kill()
	p.out.Close() // who else has the other end does not matter
	for range p.lines {
	}
	<-p.Reaped()
}

// tail keeps the end of what is written to it.
type tail struct {
	mu   sync.Mutex
	text []byte
}

// lastLine is the last line of a text that is not blank.
func lastLine(text string) string {
	text = strings.TrimSpace(text)
	return strings.TrimSpace(text[strings.LastIndexByte(text, '\n')+1:])
}

const tailKept = 4 << 10

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, b...)
	if over := len(t.text) - tailKept; over > 0 {
		t.text = append(t.text[:0], t.text[over:]...)
	}
	return len(b), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.text)
}
