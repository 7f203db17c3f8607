package autotune

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gdngen/gdngen/autotune/journal"
	"github.com/gdngen/gdngen/autotune/judge"
	"github.com/gdngen/gdngen/autotune/objective"
	"github.com/gdngen/gdngen/autotune/promoted"
	"github.com/gdngen/gdngen/autotune/ruler"
	"github.com/gdngen/gdngen/autotune/strategy"
	"github.com/gdngen/gdngen/codegen/triton"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/target"
	"github.com/gdngen/gdngen/pjrt/machine"
)

// Config is a search. The fields of the first group belong to the run: they are written into its header, and Resume
// takes them from there. The other fields may differ from session to session; no decision depends on them.
type Config struct {
	Spec      gdn.Spec            // zero: the preset bench
	Targets   []string            // the first is compiled for first; none: v5e v6e tpu7x
	Ruler     ruler.Ruler         // cost that ranks candidates, on targets that have it; empty: ruler.InOrder
	Objective objective.Objective // what is minimized; zero: cost
	Seed      uint64              //
	Strategy  string              // such as model:4, the default, or exhaustive
	Seeds     []string            // variants proposed first, as text, by name, or auto; none: DefaultSeeds
	Axes      []string            // axes that proposals may change; none: all
	Directive string              // a preset that names the axes
	Words     string              // demands on an outside proposer, in Markdown
	Expected  float64             // least gain, as a share, that its proposals must expect
	Focus     map[string]string   // axes held at a value
	Shapes    []judge.Shape       // further specs, weighed together with Spec; an entry equal to Spec sets its weight (1 by default)
	Guards    map[string]float64  // by target: by what share a champion of another target may be worse there
	Precision string              // the lowest allowed: f32 bf16x6 bf16x3 bf16x1; empty: that of auto for a float32 spec, bf16x1 for others
	Mixed     bool                // the evaluator's workers may have processors of different kinds, which may round differently
	Promoted  []promoted.Row      // the user's champions: those for Spec, Targets and Precision are seeds too, and hashed into the header
	Baseline  bool                // the variant that auto chooses is judged first, as the figure to beat; not on GPUs
	Lookahead int                 // candidates in flight at a time; 0: the number of workers and one, at least 3

	Dir        string           // the folder of the run
	Budget     time.Duration    // of this session, without setup; 0: no limit
	Candidates int              // of the whole run; 0: no limit
	Patience   int              // iterations without a new champion before the session ends; 0: no limit
	Workers    int              // candidates judged in parallel, at most the lookahead; 0: one per core, as memory allows
	Attempts   int              // tries of a gate whose machinery fails before the run pauses; 0: 3
	Failures   int              // consecutive failures (machinery, worker crashes or hangs, proposer) before the run pauses; 0: DefaultFailures, -1: never
	Answer     time.Duration    // time limit for one answer of an outside proposer; 0: strategy.AnswerLimit
	Backoff    time.Duration    // wait before the second attempt, doubled for each further one; 0: 1 s
	Lab        judge.LabOptions // for the default evaluator
	Machine    *machine.Lock    // lock: gates share it, device timing holds it exclusively; nil: one of the run's own
	Evaluator  judge.Evaluator  // nil: a Lab, closed at the end
	Generator  string           // version of the generator; empty: the build's
	Progress   func(Progress)   // called for each recorded candidate
	Warn       func(string)     // called for warnings to the user
	Told       func(string)     // called for steps of the session before its first candidate
	Begun      func(string)     // called once the session has begun: how many candidates are judged at a time, and what limits it

	limit string // why the default number of workers is not larger
}

// Progress is the state of a session.
type Progress struct {
	Candidate *journal.Candidate // recorded just now
	Times     journal.Times      // of the candidate
	Flight    []string           // candidates being judged
	View      journal.View       // of all candidates
	Elapsed   time.Duration      // of this session
	Budget    time.Duration
}

// String returns one line about the candidate.
func (p Progress) String() string {
	c := p.Candidate
	var b strings.Builder
	fmt.Fprintf(&b, "%s #%d %s", p.Elapsed.Round(time.Second), c.ID, c.Verdict)
	for _, cost := range c.Costs {
		if cost.Verdict == "" {
			fmt.Fprintf(&b, " %s %.2f", cost.Target, float64(cost.PerToken))
		}
	}
	fmt.Fprintf(&b, "  %s", cmp.Or(c.Variant, "(no variant)"))
	if !c.Verdict.Ranked() {
		reason, _, _ := strings.Cut(c.Reason, "\n")
		fmt.Fprintf(&b, "  (%s)", reason)
	}
	return b.String()
}

const (
	leastLookahead  = 3
	defaultAttempts = 3
	defaultBackoff  = time.Second
	DefaultFailures = 10 // in a row
	defaultStrategy = "model:4"
	gpuStrategy     = "beam:4"
	maxLookahead    = 256
)

// DefaultTargets are the targets of a search that names none.
var DefaultTargets = []string{"v5e", "v6e", "tpu7x"}

// defaultSpec is the preset of a search without a spec.
const defaultSpec = "bench"

// ConfigError says which part of a Config is invalid.
type ConfigError struct{ Err error }

func (e *ConfigError) Error() string { return e.Err.Error() }
func (e *ConfigError) Unwrap() error { return e.Err }

// session validates the session's part of the configuration, and fills in defaults.
func (c *Config) session() error {
	for _, x := range []struct {
		what string
		n    int64
	}{
		{"budget", int64(c.Budget)}, {"candidates", int64(c.Candidates)}, {"patience", int64(c.Patience)}, {"workers", int64(c.Workers)}, {"attempts", int64(c.Attempts)},
		{"failures", int64(c.Failures + 1)}, {"limit of an answer", int64(c.Answer)}, {"back-off", int64(c.Backoff)},
	} {
		if x.n < 0 {
			return fmt.Errorf("the %s must not be negative; 0 stands for the default", x.what)
		}
	}
	if c.Warn == nil {
		c.Warn = func(string) {}
	}
	if p, ok := c.Evaluator.(interface{ Slots() int }); ok {
		c.Workers, c.limit = p.Slots(), "one for each worker"
	}
	if c.Workers == 0 {
		c.Workers, c.limit = machine.Workers()
	}
	c.Attempts = cmp.Or(c.Attempts, defaultAttempts)
	c.Backoff = cmp.Or(c.Backoff, defaultBackoff)
	if c.Failures = cmp.Or(c.Failures, DefaultFailures); c.Failures < 0 {
		c.Failures = math.MaxInt
	}
	return nil
}

// header validates the run's part of the configuration and writes it out in full.
func (c *Config) header(e judge.Evaluator) (journal.Header, error) {
	by, err := ruler.Parse(c.Ruler)
	if err != nil {
		return journal.Header{}, err
	}
	h := journal.Header{Format: journal.Format, Ruler: by, Objective: c.Objective.String(), Seed: c.Seed, Strategy: c.Strategy, Axes: c.Axes, Focus: c.Focus, Lookahead: c.Lookahead, Precision: c.Precision,
		Targets: c.Targets, Generator: c.generator(), Plugins: e.Plugins(), Mixed: c.Mixed, Words: c.Words, Expected: journal.Figure(c.Expected)}
	if c.Words != "" && !strings.HasPrefix(c.Strategy, "exec:") {
		return h, fmt.Errorf("words are for a proposer: give them with the strategy exec:COMMAND, not %s", cmp.Or(c.Strategy, defaultStrategy))
	}
	if c.Expected != 0 && !strings.HasPrefix(c.Strategy, "exec:") {
		return h, fmt.Errorf("an expected gain is asked of a proposer: give it with the strategy exec:COMMAND, not %s", cmp.Or(c.Strategy, defaultStrategy))
	}
	if c.Spec == (gdn.Spec{}) {
		s, err := gdn.LookupPreset(defaultSpec)
		if err != nil {
			return h, err
		}
		c.Spec = s
	}
	if err := c.Spec.Validate(); err != nil {
		return h, err
	}
	h.Spec = c.Spec.String()
	if err := c.shapes(&h); err != nil {
		return h, err
	}
	if c.Directive != "" {
		d, err := strategy.LookupDirective(c.Directive)
		if err != nil {
			return h, err
		}
		if len(c.Axes) > 0 {
			return h, fmt.Errorf("directive %s names the axes: give it or axes, not both", d.Name)
		}
		h.Directive, h.Axes = d.Name, d.Axes()
	}
	for t, share := range c.Guards {
		if h.Guards == nil {
			h.Guards = map[string]journal.Figure{}
		}
		h.Guards[t] = journal.Figure(share)
	}
	if len(h.Targets) == 0 {
		h.Targets = DefaultTargets
	}
	if h.Lookahead == 0 {
		h.Lookahead = min(max(leastLookahead, c.Workers+1), maxLookahead)
	}
	gpus, err := gpusOf(h.Targets)
	if err != nil {
		return h, err
	}
	if h.Strategy == "" {
		h.Strategy = defaultStrategy
		if gpus != nil {
			h.Strategy = gpuStrategy
		}
	}
	if h.Precision == "" {
		if h.Precision, err = c.floor(h.Targets, gpus != nil); err != nil {
			return h, err
		}
	}
	if gpus != nil {
		if err := c.onGPUs(&h); err != nil {
			return h, err
		}
		return c.finish(h, e)
	}
	rows, own, err := c.promoted(h.Precision, h.Targets)
	if err != nil {
		return h, err
	}
	h.Promoted = promoted.Digest(rows)
	for _, r := range rows {
		c.Warn(fmt.Sprintf("seeds from %s: on %s %v", promoted.File(), r.Target, &r))
	}
	if h.Seeds, h.Reserve, err = c.seeds(h.Precision, h.Targets, own); err != nil {
		return h, err
	}
	return c.finish(h, e)
}

// floor returns the lowest precision of a search that sets none: auto's for a float32 spec, one bf16 pass for others.
func (c *Config) floor(targets []string, gpus bool) (string, error) {
	switch {
	case c.Spec.DType != ir.F32:
		return ir.PrecBF16x1.String(), nil
	case gpus:
		return ir.PrecBF16x3.String(), nil // as auto, by tf32x3
	}
	best, err := champions(c.Spec, gdn.Auto, targets)
	least := ir.PrecF32.String()
	for _, v := range best {
		if p := v.Precision().String(); strategy.Reaches(least, p) {
			least = p
		}
	}
	return least, err
}

// onGPUs fills in the header's fields for GPUs.
func (c *Config) onGPUs(h *journal.Header) error {
	if c.Ruler != "" && c.Ruler != ruler.InOrder {
		return fmt.Errorf("ruler %s is for TPUs: candidates on GPUs are ranked by modelled time", c.Ruler)
	}
	h.Ruler = ruler.Modelled
	if err := triton.Supports(c.Spec); err != nil {
		return err
	}
	table := tritonTable{c.Spec}
	canonical := func(texts []string) (list []string, err error) {
		for _, text := range texts {
			canon, err := table.Canon(text)
			if err != nil {
				return nil, err
			}
			if !slices.Contains(list, canon) {
				list = append(list, canon)
			}
		}
		return list, nil
	}
	all, err := canonical(tritonSeeds)
	if err != nil {
		return err
	}
	if h.Seeds, err = canonical(c.Seeds); err != nil {
		return err
	}
	if len(h.Seeds) == 0 {
		h.Seeds = all
		return nil
	}
	h.Reserve = slices.DeleteFunc(all, func(text string) bool { return slices.Contains(h.Seeds, text) })
	return nil
}

// finish fills in the fields that depend on the evaluator, and checks the header.
func (c *Config) finish(h journal.Header, e judge.Evaluator) (journal.Header, error) {
	for _, g := range e.Gates() {
		h.Gates = append(h.Gates, g.Name)
	}
	h.Gates = append(h.Gates, verdictGate)
	if x, ok := e.(interface{ Estimates() bool }); ok {
		h.Estimates = x.Estimates()
	}
	p, err := newPlan(&h, 0)
	if err != nil {
		return h, err
	}
	h.Proposer, h.Rules = p.proposer(), journal.Rules
	return h, p.strategy.Close()
}

// shapes writes the weighed specs into the header.
func (c *Config) shapes(h *journal.Header) error {
	if len(c.Shapes) == 0 {
		return nil
	}
	all := []judge.Shape{{Spec: c.Spec, Weight: 1}}
	for _, s := range c.Shapes {
		if s.Spec == c.Spec {
			all[0].Weight = s.Weight
		} else {
			all = append(all, s)
		}
	}
	for _, s := range all {
		if err := s.Spec.Validate(); err != nil {
			return err
		}
		h.Shapes = append(h.Shapes, journal.Shape{Spec: s.Spec.String(), Weight: journal.Figure(s.Weight)})
	}
	return nil
}

func (c *Config) generator() string {
	if c.Generator != "" {
		return c.Generator
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}

// plan is a parsed header.
type plan struct {
	*journal.Header
	spec      gdn.Spec
	shapes    []judge.Shape
	targets   []*target.Target
	gpus      []*target.GPU // in place of targets
	ruler     ruler.Ruler
	objective objective.Objective
	space     strategy.Space
	strategy  strategy.Strategy
}

func newPlan(h *journal.Header, answer time.Duration) (*plan, error) {
	p, err := newGround(h)
	if err != nil {
		return nil, err
	}
	if h.Lookahead < 1 || h.Lookahead > maxLookahead {
		return nil, fmt.Errorf("lookahead %d is not from 1 to %d", h.Lookahead, maxLookahead)
	}
	space := strategy.Space{Least: h.Precision, Spec: p.spec, Targets: h.Targets, AnswerLimit: answer, Axes: h.Axes, Focus: h.Focus, Seed: h.Seed, Directive: h.Directive, Words: h.Words, Expected: float64(h.Expected)}
	if p.gpus != nil {
		space.Table = tritonTable{p.spec}
	}
	if space.Seeds, err = p.seedsOf(h.Seeds); err != nil {
		return nil, err
	}
	if space.Reserve, err = p.seedsOf(h.Reserve); err != nil {
		return nil, err
	}
	if h.Estimates {
		space.Estimate = newEstimator(p.spec, p.targets).estimate
	}
	p.space = space
	p.strategy, err = strategy.Parse(h.Strategy, space)
	return p, err
}

// newGround parses the part of a header that judging needs: all but the strategy.
func newGround(h *journal.Header) (*plan, error) {
	p := &plan{Header: h}
	var err error
	if p.spec, err = gdn.Parse(h.Spec); err != nil {
		return nil, err
	}
	if p.gpus, err = gpusOf(h.Targets); err != nil {
		return nil, err
	}
	for i, name := range h.Targets {
		if slices.Contains(h.Targets[:i], name) {
			return nil, fmt.Errorf("target %s is given twice", name)
		}
		if p.gpus != nil {
			continue
		}
		t, err := target.Lookup(name)
		if err != nil {
			return nil, err
		}
		p.targets = append(p.targets, t)
	}
	if p.gpus == nil {
		if p.ruler, err = ruler.Parse(h.RulerName()); err != nil {
			return nil, err
		}
	}
	if p.objective, err = objective.Parse(h.Objective); err != nil {
		return nil, err
	}
	p.shapes = []judge.Shape{{Spec: p.spec, Weight: 1}}
	for i, x := range h.Shapes {
		s, err := gdn.Parse(x.Spec)
		switch {
		case err != nil:
			return nil, err
		case !(x.Weight > 0) || math.IsInf(float64(x.Weight), 0):
			return nil, fmt.Errorf("shape %s: weight %g is not positive", x.Spec, float64(x.Weight))
		case i == 0:
			p.shapes[0].Weight = float64(x.Weight)
		default:
			p.shapes = append(p.shapes, judge.Shape{Spec: s, Weight: float64(x.Weight)})
		}
	}
	for _, s := range p.shapes {
		if err := p.objective.Supports(s.Spec); err != nil {
			return nil, err
		}
		if p.gpus == nil {
			continue
		}
		if err := triton.Supports(s.Spec); err != nil {
			return nil, err
		}
	}
	if p.gpus != nil && p.objective != (objective.Objective{}) {
		return nil, fmt.Errorf("objective %s: errors by class are no objective on GPUs yet: the table of accuracy is for kernels of TPUs", p.objective)
	}
	for t, share := range h.Guards {
		if !slices.Contains(h.Targets, t) {
			return nil, fmt.Errorf("guard: %s is not a target of the run (targets: %s)", t, strings.Join(h.Targets, " "))
		}
		if !(share >= 0) {
			return nil, fmt.Errorf("guard: %s may not be worse by %g", t, float64(share))
		}
	}
	_, err = ir.ParsePrecision(h.Precision)
	return p, err
}

// seedsOf parses the seeds of a header.
func (p *plan) seedsOf(texts []string) (seeds []strategy.Seed, err error) {
	for _, text := range texts {
		if p.gpus != nil {
			canon, err := tritonTable{p.spec}.Canon(text)
			if err != nil {
				return nil, err
			}
			seeds = append(seeds, strategy.Seed{Text: canon, Doc: tritonSeedDoc(canon, p.spec)})
			continue
		}
		v, err := gdn.ParseVariant(text)
		if err != nil {
			return nil, err
		}
		seeds = append(seeds, strategy.Seed{Variant: v, Doc: seedDoc(v, p.spec, p.targets)})
	}
	return seeds, nil
}

// proposer identifies everything that proposals depend on except header and candidates: the versions of strategy
// and policy, the table of choices, and the estimator (by its estimates for the seeds).
func (p *plan) proposer() string {
	choices, estimates := sha256.New(), sha256.New()
	if p.gpus != nil {
		for _, a := range (tritonTable{p.spec}).Axes() {
			fmt.Fprintln(choices, a.Name, a.Values, a.Stages)
		}
		return fmt.Sprintf("%s, policy %d, choices of Triton %x", strategy.WalkVersion(p.Strategy), strategy.PolicyVersion, choices.Sum(nil)[:4])
	}
	for _, a := range gdn.Axes {
		fmt.Fprintln(choices, a.Name, a.Doc, a.Values, a.Default, a.Group, a.Also) // hypotheses quote Doc
	}
	name := fmt.Sprintf("%s, policy %d, choices %x", strategy.Version(p.Strategy), strategy.PolicyVersion, choices.Sum(nil)[:4])
	if p.space.Estimate == nil {
		return name
	}
	for _, seed := range p.space.Seeds {
		if e := p.space.Estimate(seed.Variant); e != nil {
			fmt.Fprintln(estimates, *e)
		}
	}
	return fmt.Sprintf("%s, estimates %x", name, estimates.Sum(nil)[:4])
}

// matches returns why a run can not be resumed, or nil.
func matches(h *journal.Header, generator, proposer string, e judge.Evaluator) error {
	var gates []string
	for _, g := range e.Gates() {
		gates = append(gates, g.Name)
	}
	gates = append(gates, verdictGate)
	var differs []string
	note := func(what string, was, is any) { differs = append(differs, fmt.Sprintf("%s %v, now %v", what, was, is)) }
	if h.Generator != generator {
		note("generator", h.Generator, generator)
	}
	if h.Proposer != proposer {
		note("proposer", h.Proposer, proposer)
	}
	if !maps.Equal(h.Plugins, e.Plugins()) {
		note("plugins", h.Plugins, e.Plugins())
	}
	if !slices.Equal(h.Gates, gates) {
		note("gates", h.Gates, gates)
	}
	if len(differs) > 0 {
		return fmt.Errorf("the run was begun with other tools, whose figures do not compare (%s): start a new run", strings.Join(differs, "; "))
	}
	return nil
}

// objectsDir is where a run keeps its objects.
func objectsDir(dir string) string { return filepath.Join(dir, "objects") }

// PauseError says that the machinery (or, without a gate, the disk) kept failing. The run can be resumed.
type PauseError struct {
	Candidate int
	Gate      string
	Attempts  int
	Err       error
}

func (e *PauseError) Error() string {
	if e.Gate == "" {
		return fmt.Sprintf("the run pauses: %v; nothing is lost: mend it and resume", e.Err)
	}
	return fmt.Sprintf("the run pauses at candidate %d: gate %s failed %d times, last: %v; nothing is lost: mend it and resume", e.Candidate, e.Gate, e.Attempts, e.Err)
}

func (e *PauseError) Unwrap() error { return e.Err }

// ErrExists says that the folder already holds a run.
var ErrExists = errors.New("the folder holds a run already: resume it, or choose another")

// ParseShapes reads entries SPEC=WEIGHT. A spec holds equal signs itself: the weight follows the last one. If the text
// there is not a number, the weight is 1.
func ParseShapes(entries []string) ([]judge.Shape, error) {
	var l []judge.Shape
	for _, entry := range entries {
		text, weight := entry, 1.
		if i := strings.LastIndexByte(entry, '='); i > 0 {
			head := entry[:i]
			// t=4096 is part of a spec, bench=4096 is a weight: the text before it decides.
			if w, err := strconv.ParseFloat(entry[i+1:], 64); err == nil {
				if _, err := gdn.Parse(head); err == nil {
					text, weight = head, w
				}
			}
		}
		if !(weight > 0) {
			return nil, fmt.Errorf("%q: weight %g is not positive", entry, weight)
		}
		s, err := gdn.Parse(text)
		if err != nil {
			return nil, err
		}
		l = append(l, judge.Shape{Spec: s, Weight: weight})
	}
	return l, nil
}
