// Package strategy chooses what a search tries next. A strategy keeps no state of its own: its next
// proposal is a function of its space, the candidates judged so far and those under way, so a
// resumed run goes on as if it had never stopped. A proposer outside of the program (exec) is asked
// with the same knowledge; whether it answers alike is its own affair.
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

// Proposal is something to judge: a variant, the text of a program, or a proposer's fault.
type Proposal struct {
	Variant    gdn.Variant
	Text       Text   // of the variant, or of one of another table of choices
	IR         string // text of a module for the spec, in place of a variant
	Fault      *Fault // in place of both
	Parent     int    // the candidate it was changed from; 0: none
	Moves      []Move // what was changed in it
	Hypothesis string // why it might be better
	Gain       float64
	Risk       float64
	Shortlist  []journal.Option
	Next       string // what is to be tried afterwards, in words
	Escalated  bool   // the search asked for a cell that nobody has visited
	Warning    string // what the user should know
}

// IsVariant says whether the proposal is a variant.
func (p *Proposal) IsVariant() bool { return p.IR == "" && p.Fault == nil }

// Text is a variant as a journal has it.
type Text struct {
	Variant string // as it was proposed
	Fitted  string // at the sizes of the spec: equal ones are one program
	Cell    string // its structure
}

// TextOf is the text of a variant for a spec.
func TextOf(v gdn.Variant, s gdn.Spec) Text {
	f := v.Fit(s)
	return Text{v.String(), f.String(), f.Cell()}
}

// Fault is what a proposer did instead of proposing. It is recorded as a candidate with this
// verdict.
type Fault struct {
	Verdict journal.Verdict // invalid, timeout or crash
	Reason  string
	Text    string // what it said
}

// Strategy proposes candidates.
type Strategy interface {
	// Next gives a proposal that, fitted to the spec, is neither judged nor pending (an outside
	// proposer may repeat itself). It gives nil where there is none: for good where nothing is
	// pending, until more is judged otherwise.
	Next(ctx context.Context, judged journal.View, pending []string) *Proposal
	Close() error
}

// Space is what strategies move in.
type Space struct {
	Spec    gdn.Spec
	Targets []string
	Seeds   []Seed            // proposed first, in order
	Reserve []Seed            // proposed where no seed has a rank
	Axes    []string          // the axes that are walked; none: all
	Focus   map[string]string // axes held at a value, also in the seeds
	Least   string            // the lowest precision that is proposed; seeds may have others
	Seed    uint64            // of the order in which equals are tried

	Table     Table   // of choices, where they are not those of gdn.Variant
	Directive string  // the preset that gave the axes
	Words     string  // what is demanded of an outside proposer beside
	Expected  float64 // the gain, as a share, that its proposals are to expect at least

	AnswerLimit time.Duration // of an outside proposer, for one answer; 0: the constant

	// Estimate guesses what a variant costs without a compiler, nil where it can not; no function:
	// there are no estimates. It is a function of the variant alone, and may be called from several
	// goroutines.
	Estimate func(gdn.Variant) *Estimate

	admitted *answers // of admits: moves from many candidates lead to the same variants
}

// Estimate is what a variant may cost.
type Estimate struct {
	Targets []Guess // in the order of the space's
	Size    float64 // of the program, in instructions: what its compiling grows with
}

// Guess is cycles on a target.
type Guess struct {
	Kernel float64
	XLA    float64 // outside of kernels
}

// estimate is what a variant may cost; nil where there is no estimate.
func (s Space) estimate(v gdn.Variant) *Estimate {
	if s.Estimate == nil {
		return nil
	}
	return s.Estimate(v)
}

// prepare makes the estimates of variants side by side, for those who ask for one after another.
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

// cycles guesses the cycles of a variant on the first target, a larger program counting as a little
// dearer; 0 where there is no estimate.
func (s Space) cycles(v gdn.Variant) float64 {
	e := s.estimate(v)
	if e == nil {
		return 0
	}
	return (e.Targets[0].Kernel + e.Targets[0].XLA) * math.Pow(e.Size, larger)
}

// larger is the power of a program's size that its cost is multiplied by: 4 % for twice the size.
const larger = .06

// Seed is a variant to begin with.
type Seed struct {
	Variant gdn.Variant
	Text    string // of a variant of another table
	Doc     string
}

// row is one kind of strategy. A change that lets it propose something else from the same knowledge
// raises its version.
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

// Names lists the strategies and what they do.
func Names() (names, docs []string) {
	for _, r := range rows {
		names, docs = append(names, r.name), append(docs, r.doc)
	}
	return append(names, execName), append(docs, execDoc)
}

// Version names a strategy and its version, such as "model 5"; the proposals of an outside proposer
// have none.
func Version(text string) string {
	name, _, _ := strings.Cut(text, ":")
	for _, r := range rows {
		if r.name == name {
			return fmt.Sprintf("%s %d", name, r.version)
		}
	}
	return name
}

// IsOutside says whether a strategy is an outside proposer, which can not be asked again.
func IsOutside(text string) bool {
	name, _, _ := strings.Cut(text, ":")
	return name == execName
}

// Parse makes a strategy from its text, such as exhaustive, model:4 or "exec:python3 propose.py".
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

// present checks the axes of s and gives them their present names, since people and journals may
// have former ones.
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

// Reaches says whether a precision is at least another one. An f32 product and bf16x6 count as
// equal, as their limits are.
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

// inside says whether v has the held values on all held axes that apply to it.
func (s Space) inside(v gdn.Variant) bool { return s.focus(v).Fit(s.Spec) == v.Fit(s.Spec) }

// walks says whether an axis may change.
func (s Space) walks(axis string) bool {
	_, held := s.Focus[axis]
	return !held && (len(s.Axes) == 0 || slices.Contains(s.Axes, axis))
}

// from is the variant of a candidate, as moves lead from it. How sequences are packed says nothing where there are none, and yet excludes choices that
// do not go with it: a seed for packed sequences would wall them off. So it is left out there.
func (s Space) from(c *journal.Candidate) (gdn.Variant, error) {
	v, err := gdn.ParseVariant(c.Variant)
	if err == nil && s.Spec.Seqs == 0 {
		v.Mapping.Pack = gdn.PackGather
	}
	return v, err
}

// admits says whether v can be built, is inside the space and precise enough, and keeps its numbers
// as far as is known. Seeds that a user names may be others.
func (s Space) admits(v gdn.Variant) bool {
	return s.admitted.of(v, s.fits)
}

func (s Space) fits(v gdn.Variant) bool {
	return v.Check(s.Spec) == nil && s.inside(v) && v.Unsafe(s.Spec) == "" && Reaches(v.Precision().String(), s.Least)
}

// answers keeps what a function of variants says; nil keeps nothing.
type answers struct {
	lock  sync.Mutex
	known map[gdn.Variant]bool
}

// mostAnswers bounds what is kept, to some 30 MB; then it begins anew.
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

// single is where the choice of one value leads.
type single struct {
	Move
	v      gdn.Variant
	needed bool // with what the choice needs, since it is nothing alone
}

// singles lists where one step along an axis that is walked leads from v: the move alone, and,
// where that is refused, unsafe or fitted to v itself, with what it needs, if only walked axes change.
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

// prepareSingles makes the estimates of those that are admitted.
func (s Space) prepareSingles(l []single) {
	var admitted []gdn.Variant
	for _, x := range l {
		if s.admits(x.v) {
			admitted = append(admitted, x.v)
		}
	}
	s.prepare(admitted)
}

// known tells which fitted variants, with their text, are judged or pending.
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

// first is the first seed that is not tried.
func (s Space) first(seeds []Seed, tried func(gdn.Variant) bool) *Proposal {
	for _, seed := range seeds {
		if v := s.focus(seed.Variant); !tried(v) {
			return &Proposal{Variant: v, Hypothesis: seed.Doc}
		}
	}
	return nil
}
