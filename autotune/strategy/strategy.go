// Package strategy chooses a search's next candidate. A strategy keeps no state of its own: its next proposal is a
// function of its space, the candidates judged so far and those in flight, so a resumed run continues as if it had
// never stopped. An outside proposer (exec) gets the same information, but need not be deterministic.
package strategy

import (
	"context"
	"fmt"
	"maps"
	"math"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gdngen/gdngen/autotune/journal"
	"github.com/gdngen/gdngen/gdn"
)

// Proposal is a proposed candidate: a variant, the text of a program, or a proposer's fault.
type Proposal struct {
	Variant    gdn.Variant
	Text       Text   // of the variant, or of a variant of another Table
	IR         string // text of a module for the spec, instead of a variant
	Fault      *Fault // instead of both
	Parent     int    // the candidate it was changed from; 0: none
	Moves      []Move // changes of the parent
	Hypothesis string // why it might be better
	Gain       float64
	Risk       float64
	Shortlist  []journal.Option
	Next       string // the proposer's plan for later, in words
	Escalated  bool   // the search asked for a cell without a candidate
	Warning    string // what the user should know
}

// IsVariant reports whether the proposal is a variant.
func (p *Proposal) IsVariant() bool { return p.IR == "" && p.Fault == nil }

// Text is a variant in the journal's form.
type Text struct {
	Variant string // as it was proposed
	Fitted  string // at the sizes of the spec: equal ones are one program
	Cell    string // its structure
}

// TextOf returns the text of a variant for a spec.
func TextOf(v gdn.Variant, s gdn.Spec) Text {
	f := v.Fit(s)
	return Text{v.String(), f.String(), f.Cell()}
}

// Fault is a proposer's failure to propose. It is recorded as a candidate with this verdict.
type Fault struct {
	Verdict journal.Verdict // invalid, timeout or crash
	Reason  string
	Text    string // the proposer's output
}

// Strategy proposes candidates.
type Strategy interface {
	// Next returns a proposal that, fitted to the spec, is neither judged nor pending (an outside proposer may repeat
	// itself). nil means that there is none: for good if nothing is pending, else until more is judged.
	Next(ctx context.Context, judged journal.View, pending []string) *Proposal
	Close() error
}

// Space is the input of strategies: which variants they may propose.
type Space struct {
	Spec    gdn.Spec
	Targets []string
	Seeds   []Seed            // proposed first, in order
	Reserve []Seed            // proposed if no seed has a rank
	Axes    []string          // axes that may change; none: all
	Focus   map[string]string // axes held at a value, also in the seeds
	Least   string            // the lowest precision of proposals; seeds may have others
	Seed    uint64            // of the random order of equal options

	Table     Table   // of axes, if not those of gdn.Variant
	Directive string  // the preset that gave the axes
	Words     string  // further demands on an outside proposer
	Expected  float64 // least gain, as a share, that its proposals must expect

	AnswerLimit time.Duration // of an outside proposer, for one answer; 0: AnswerLimit

	// Estimate estimates a variant's cost without a compiler; nil results mean no estimate, and a nil function that
	// there are no estimates at all. It depends only on the variant, and must be safe for concurrent use.
	Estimate func(gdn.Variant) *Estimate

	admitted *answers // cache of admits: moves from many candidates lead to the same variants
}

// Estimate is the estimated cost of a variant.
type Estimate struct {
	Targets []Guess // in the order of the space's targets
	Size    float64 // of the program, in instructions: compile time grows with it
}

// Guess is the estimated cycles on a target.
type Guess struct {
	Kernel float64
	XLA    float64 // outside of kernels
}

// estimate returns the estimate of a variant, or nil.
func (s Space) estimate(v gdn.Variant) *Estimate {
	if s.Estimate == nil {
		return nil
	}
	return s.Estimate(v)
}

// prepare computes the estimates of variants in parallel, ahead of their use.
func (s Space) prepare(l []gdn.Variant) {
	if s.Estimate == nil {
		return
	}
	var all sync.WaitGroup
	next := make(chan gdn.Variant)
	for range min(runtime.GOMAXPROCS(0), len(l)) {
		all.Go(func() {
			for v := range next {
				s.Estimate(v)
			}
		})
	}
	for _, v := range l {
		next <- v
	}
	close(next)
	all.Wait()
}

// cycles returns the estimated cycles of a variant on the first target, with a small penalty for larger programs; 0 if
// there is no estimate.
func (s Space) cycles(v gdn.Variant) float64 {
	e := s.estimate(v)
	if e == nil {
		return 0
	}
	return (e.Targets[0].Kernel + e.Targets[0].XLA) * math.Pow(e.Size, larger)
}

// larger is the exponent of the penalty on a program's size: 4 % for twice the size.
const larger = .06

// Seed is a variant to start from.
type Seed struct {
	Variant gdn.Variant
	Text    string // of a variant of another table
	Doc     string
}

// row is one kind of strategy. A change of its proposals from the same knowledge raises its version.
type row struct {
	name, doc string
	version   int
	parameter int // default; 0: takes none
	build     func(s Space, parameter int) inner
}

var rows = []row{
	{"model", "model:N, the default: after the seeds, a Gaussian process scores the variants that can be reached from the N best candidates that differ in at least three axes; the most promising is judged next", 5, 4,
		func(s Space, width int) inner { return &model{s, width} }},
	{"elites", "seeds, then mutations and crossings of one champion for each of the best N structural cells (elites:N)", 2, 16,
		func(s Space, width int) inner { return &elites{s, width} }},
	{"random", "seeds, then legal variants drawn evenly", 2, 0, func(s Space, _ int) inner { return &random{s} }},
	{"exhaustive", "seeds, then every structural cell of the axes that change something for the spec", 3, 0, func(s Space, _ int) inner { return newExhaustive(s) }},
}

// execName is the strategy whose parameter is a command.
const execName = "exec"

const execDoc = "an outside proposer (exec:COMMAND): it reads what was judged as JSON lines and answers each with a variant or the text of a program"

// Names returns the strategies' names and descriptions.
func Names() (names, docs []string) {
	for _, r := range rows {
		names, docs = append(names, r.name), append(docs, r.doc)
	}
	return append(names, execName), append(docs, execDoc)
}

// Version returns a strategy's name and version, such as "model 5"; an outside proposer has no version.
func Version(text string) string {
	name, _, _ := strings.Cut(text, ":")
	for _, r := range rows {
		if r.name == name {
			return fmt.Sprintf("%s %d", name, r.version)
		}
	}
	return name
}

// IsOutside reports whether a strategy is an outside proposer, whose proposals can not be recomputed.
func IsOutside(text string) bool {
	name, _, _ := strings.Cut(text, ":")
	return name == execName
}

// Parse returns a strategy by its text, such as exhaustive, model:4 or "exec:python3 propose.py".
func Parse(text string, s Space) (Strategy, error) {
	s, err := s.present()
	if err != nil {
		return nil, err
	}
	if s.Table != nil {
		return parseWalk(text, s)
	}
	s.admitted = &answers{}
	name, argument, given := strings.Cut(text, ":")
	if name == execName {
		if strings.TrimSpace(argument) == "" {
			return nil, fmt.Errorf("strategy %q: which command? exec:COMMAND", text)
		}
		return newPolicy(s, newProposer(s, argument)), nil
	}
	for _, r := range rows {
		if r.name != name {
			continue
		}
		parameter := r.parameter
		if given {
			n, err := strconv.Atoi(argument)
			switch {
			case r.parameter == 0:
				return nil, fmt.Errorf("strategy %q: %s takes no parameter", text, name)
			case err != nil || n < 1 || n > 1000:
				return nil, fmt.Errorf("strategy %q: %s:N takes an N from 1 to 1000 (%s)", text, name, r.doc)
			}
			parameter = n
		}
		return newPolicy(s, r.build(s, parameter)), nil
	}
	if name == gpuName {
		return nil, fmt.Errorf("strategy %q is for GPUs: a run on TPUs that was begun with it is still shown and verified, and can not go on; begin one with model", text)
	}
	names, _ := Names()
	return nil, fmt.Errorf("unknown strategy %q (known: %s)", text, strings.Join(names, " "))
}

// present checks the axes of s and replaces former names, which users and journals may have.
func (s Space) present() (Space, error) {
	if s.Table != nil {
		return s, s.checkTable()
	}
	s.Axes = slices.Clone(s.Axes)
	for i, name := range s.Axes {
		a, err := gdn.LookupAxis(name)
		if err != nil {
			return s, err
		}
		s.Axes[i] = a.Name
	}
	focus := map[string]string{}
	for name, value := range s.Focus {
		a, err := gdn.LookupAxis(name)
		if err != nil {
			return s, err
		}
		var v gdn.Variant
		if err := a.Set(&v, value); err != nil {
			return s, fmt.Errorf("focus: %s can not be %q (values: %s)", name, value, strings.Join(a.Values, " "))
		}
		focus[a.Name] = a.Get(&v)
	}
	s.Focus = focus
	return s, nil
}

// Reaches reports whether a precision is at least as exact as least. f32 and bf16x6 count as equal, since they have the
// same error limits.
func Reaches(precision, least string) bool {
	rank := map[string]int{"f32": 3, "bf16x6": 3, "bf16x3": 2, "bf16x1": 1}
	return rank[precision] >= rank[least]
}

// focus sets the held axes that apply.
func (s Space) focus(v gdn.Variant) gdn.Variant {
	for _, name := range slices.Sorted(maps.Keys(s.Focus)) {
		if w, err := v.With(name, s.Focus[name]); err == nil {
			v = w
		}
	}
	return v
}

// inside reports whether v has the held values on all held axes that apply to it.
func (s Space) inside(v gdn.Variant) bool { return s.focus(v).Fit(s.Spec) == v.Fit(s.Spec) }

// walks reports whether an axis may change.
func (s Space) walks(axis string) bool {
	_, held := s.Focus[axis]
	return !held && (len(s.Axes) == 0 || slices.Contains(s.Axes, axis))
}

// from returns the variant of a candidate as a start of moves. For a spec without packed sequences it resets the
// packing axis: its value has no effect there, but would exclude other choices.
func (s Space) from(c *journal.Candidate) (gdn.Variant, error) {
	v, err := gdn.ParseVariant(c.Variant)
	if err == nil && s.Spec.Seqs == 0 {
		v.Mapping.Pack = gdn.PackGather
	}
	return v, err
}

// admits reports whether v can be built, is inside the space and precise enough, and keeps its numbers as far as is
// known. Seeds that a user names need not be admitted.
func (s Space) admits(v gdn.Variant) bool {
	return s.admitted.of(v, s.fits)
}

func (s Space) fits(v gdn.Variant) bool {
	return v.Check(s.Spec) == nil && s.inside(v) && v.Unsafe(s.Spec) == "" && Reaches(v.Precision().String(), s.Least)
}

// answers caches a function of variants; nil caches nothing.
type answers struct {
	lock  sync.Mutex
	known map[gdn.Variant]bool
}

// mostAnswers bounds the cache, to some 30 MB; then it is emptied.
const mostAnswers = 1 << 16

func (a *answers) of(v gdn.Variant, ask func(gdn.Variant) bool) bool {
	if a == nil {
		return ask(v)
	}
	a.lock.Lock()
	defer a.lock.Unlock()
	yes, ok := a.known[v]
	if !ok {
		if len(a.known) == mostAnswers || a.known == nil {
			a.known = map[gdn.Variant]bool{}
		}
		yes = ask(v)
		a.known[v] = yes
	}
	return yes
}

// single is the result of setting one value.
type single struct {
	Move
	v      gdn.Variant
	needed bool // includes changes that the value requires
}

// singles returns the variants one step from v along an axis that may change: by the move alone or, if that is refused,
// unsafe or without effect, with its requirements, if only axes that may change are involved.
func (s Space) singles(v gdn.Variant) (l []single) {
	fit := v.Fit(s.Spec)
	for _, a := range gdn.Axes {
		if !s.walks(a.Name) {
			continue
		}
		for _, value := range steps(a, v) {
			alone, err := v.With(a.Name, value)
			if err == nil && alone == v {
				continue
			}
			m := Move{a.Name, value}
			if err == nil {
				l = append(l, single{m, alone, false})
				if alone.Check(s.Spec) == nil && alone.Fit(s.Spec) != fit && alone.Unsafe(s.Spec) == "" {
					continue
				}
			}
			x, err := v.Towards(a.Name, value)
			if err == nil && x != alone && !slices.ContainsFunc(changed(v, x), func(m Move) bool { return !s.walks(m.Axis) }) {
				l = append(l, single{m, x, true})
			}
		}
	}
	return l
}

// prepareSingles computes the estimates of the admitted ones.
func (s Space) prepareSingles(l []single) {
	var admitted []gdn.Variant
	for _, x := range l {
		if s.admits(x.v) {
			admitted = append(admitted, x.v)
		}
	}
	s.prepare(admitted)
}

// known returns a function that reports whether a fitted variant, with its text, is judged or pending.
func (s Space) known(judged journal.View, pending []gdn.Variant) func(gdn.Variant, string) bool {
	under := map[gdn.Variant]bool{}
	for _, p := range pending {
		under[p.Fit(s.Spec)] = true
	}
	return func(fitted gdn.Variant, text string) bool {
		_, ok := judged.Fitted(text)
		return ok || under[fitted]
	}
}

// first proposes the first untried seed.
func (s Space) first(seeds []Seed, tried func(gdn.Variant) bool) *Proposal {
	for _, seed := range seeds {
		if v := s.focus(seed.Variant); !tried(v) {
			return &Proposal{Variant: v, Hypothesis: seed.Doc}
		}
	}
	return nil
}
