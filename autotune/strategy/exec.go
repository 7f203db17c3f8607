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

// Question is one line of JSON sent to a proposer.
type Question struct {
	Ask       int                           `json:"ask"` // number of the requested candidate
	Spec      string                        `json:"spec"`
	Targets   []string                      `json:"targets"`
	Seed      uint64                        `json:"seed"`
	Precision string                        `json:"precision"`          // the lowest that a candidate may compute in
	Axes      []Choice                      `json:"axes,omitempty"`     // in the first line to a process: the axes of a variant
	Judged    []*journal.Candidate          `json:"judged"`             // since the previous line; in the first line all
	Champions map[string]*journal.Candidate `json:"champions"`          // by target
	Hot       map[string][]journal.Stage    `json:"hot"`                // cycles of the champions by stage, largest first
	Moves     map[string][]string           `json:"moves"`              // by target: untried changes of the champion, each axis=value
	Pending   []string                      `json:"pending"`            // variants in flight
	Expected  float64                       `json:"expected,omitempty"` // least gain, as a share, that an answer must expect

	// Directive is set in the first line to a process, if the session has demands.
	Directive *Demand `json:"directive,omitempty"`
	// Escalation is set if the search stagnates: the answer should be of a cell without a candidate.
	Escalation *Escalation `json:"escalation,omitempty"`
}

// Demand is a session's requirements on an outside proposer: a directive's text, and the axes it may change.
type Demand struct {
	Name  string   `json:"name,omitempty"` // of a preset
	Axes  []string `json:"axes,omitempty"` // axes that it may change
	Words string   `json:"words"`          // in Markdown: the preset's text, then the user's
}

// demand returns the demand of a space; nil if it has none.
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

// Choice describes an axis to a proposer.
type Choice struct {
	Name       string    `json:"name"`
	Doc        string    `json:"doc"`
	Group      gdn.Group `json:"group"`
	Structural bool      `json:"structural"` // false: a size, or a number of a schedule
	Values     []string  `json:"values"`
	Default    string    `json:"default"`
}

// Answer is the line that a proposer returns: it sets one of variant, change, ir and done.
type Answer struct {
	Variant    string    `json:"variant"`
	Change     string    `json:"change"` // axis=value,axis=value, applied to the parent or else to the champion, completed with required changes
	IR         string    `json:"ir"`     // text of a module for the spec
	Done       bool      `json:"done"`
	Parent     int       `json:"parent"`
	Hypothesis string    `json:"hypothesis"`
	Gain       float64   `json:"gain"` // expected, as a share of the parent's cycles
	Risk       float64   `json:"risk"`
	Shortlist  []Weighed `json:"shortlist"` // options considered, best first
	Next       Next      `json:"next"`      // plan for later proposals
}

// Next is the proposer's plan for later proposals, in words. It may also be given as an object with a command.
type Next string

// UnmarshalJSON reads a string, or an object with change, gain, risk and command.
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
	Parent  int     `json:"parent"` // 0: the answer's parent
	Gain    float64 `json:"gain"`
	Risk    float64 `json:"risk"`
}

// Limits of a recorded shortlist: options, and characters of a text.
const (
	mostWeighed = 10
	mostWords   = 400
)

// options returns the shortlist in the journal's form.
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

// clip returns a text on one line, cut to the recorded number of characters.
func clip(text string) string {
	r := []rune(strings.Join(strings.Fields(text), " "))
	return string(r[:min(len(r), mostWords)])
}

// moveTexts returns moves as axis=value,axis=value.
func moveTexts(moves []Move) string {
	l := make([]string, len(moves))
	for i, m := range moves {
		l[i] = m.String()
	}
	return strings.Join(l, ",")
}

// AnswerLimit is the default time limit for one answer of an outside proposer.
const AnswerLimit = time.Minute

// maxAnswer bounds an answer in bytes.
const maxAnswer = 16 << 20

// proposer runs a command that proposes. The process starts with the first question and is restarted after it died or
// was late.
type proposer struct {
	space   Space
	command string
	limit   time.Duration

	mu    sync.Mutex
	run   *process
	known int // number of candidates sent to the process
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
		return nil // it is asked once there are verdicts
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

// moves lists the untried changes of a candidate.
func (p *proposer) moves(c *journal.Candidate, judged journal.View, pending []gdn.Variant) (l []string) {
	v, err := p.space.from(c)
	if err != nil { // a text of a program
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

// changedBy makes the changes axis=value of a text one after another. A change that is refused alone is made with its requirements.
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

// read turns an answer into a proposal. An invalid answer is a Fault.
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
	lines chan string // closed when the process closes its output
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
				sent = nil // the process ends: its exit status says why
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
	p.out.Close() // other holders of the write end do not matter
	for range p.lines {
	}
	<-p.Reaped()
}

// tail keeps the last bytes written to it.
type tail struct {
	mu   sync.Mutex
	text []byte
}

// lastLine returns the last non-blank line of a text.
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
