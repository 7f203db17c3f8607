package ladder

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gdngen/gdngen/autotune/journal"
	"github.com/gdngen/gdngen/autotune/mfu"
	"github.com/gdngen/gdngen/codegen"
	"github.com/gdngen/gdngen/codegen/route"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/build"
	"github.com/gdngen/gdngen/gdn/truth"
	"github.com/gdngen/gdngen/internal/ratio"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/array"
	"github.com/gdngen/gdngen/ir/target"
	"github.com/gdngen/gdngen/pjrt"
	"github.com/gdngen/gdngen/pjrt/device"
	"github.com/gdngen/gdngen/pjrt/machine"
)

// deviceWarmup is the number of pairs before the measured ones.
const deviceWarmup = 2

// Measured checks numbers like Static, and times kernel, layer, model and guards on a device: base and candidate
// alternately, alone on the machine. Guards for another target than the device's have their static cost.
type Measured struct {
	Static
	Device  *device.Device
	Machine *machine.Lock

	arguments func(*ir.Module) ([]*array.Array, error) // for the current rung
}

// Figures judges a rung on the device; correctness, and guards of other targets, are left to Static.
func (x *Measured) Figures(ctx context.Context, c *Config, r Rung) (*Figures, error) {
	here := x.Device.Target()
	switch {
	case r.Kind == Correct, r.Kind == Guarded && here != nil && here.Name != r.Target:
		return x.Static.Figures(ctx, c, r)
	case r.Model != nil:
		f, err := x.step(ctx, c, r)
		return f, x.failed(err)
	}
	f, err := x.kernel(ctx, c, r)
	return f, x.failed(err)
}

// failed adds the device to an error.
func (x *Measured) failed(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("on %s: %w", x.Device.Info(), err)
}

// kernel times the kernel of a spec.
func (x *Measured) kernel(ctx context.Context, c *Config, r Rung) (*Figures, error) {
	s, err := gdn.Parse(r.Spec)
	if err != nil {
		return nil, err
	}
	f := &Figures{Unit: "ns", Tokens: s.Work()}
	x.arguments = drawn(s, c.Seed)
	one := mfu.Module{Name: r.Name(), Times: 1, Rule: true, Build: func(v gdn.Variant) (*ir.Module, error) { return build.Module(s, v) }}
	return f, x.time(ctx, c, r, f, []mfu.Module{one}, func(text string) (gdn.Variant, error) {
		form, err := route.Resolve(s, text, x.Device.Target(), nil)
		if err != nil {
			return gdn.Variant{}, err
		}
		return form.Variant, form.Variant.Check(s)
	})
}

// step times the modules of a step, and sums them by the number of their runs.
func (x *Measured) step(ctx context.Context, c *Config, r Rung) (*Figures, error) {
	t := x.Device.Target()
	if t == nil {
		var err error
		if t, err = target.Lookup(r.Target); err != nil {
			return nil, err
		}
	}
	f := &Figures{Unit: "ns", Notes: []string{"modules run one after another; the core of attention is not among them"}}
	x.arguments = func(m *ir.Module) ([]*array.Array, error) { return mfu.Arguments(m), nil }
	modules := mfu.Modules(*r.Model, c.Forward)
	err := x.time(ctx, c, r, f, modules, func(text string) (gdn.Variant, error) { return mfu.Variant(*r.Model, carried(c, text, *r.Model, t), t) })
	if err == nil && x.Device.Target() != nil {
		var flops float64
		for _, m := range modules {
			flops += float64(m.Times) * m.Flops
		}
		for _, side := range []*Side{&f.Base, &f.Candidate} {
			if side.Score > 0 {
				side.MFU = flops / (float64(side.Score) * 1e-9 * t.PeakFlops() * t.Clock)
			}
		}
	}
	return f, err
}

// time runs modules with base and candidate alternately and fills the figures: pair i of the step is the sum of the modules' pairs i.
func (x *Measured) time(ctx context.Context, c *Config, r Rung, f *Figures, modules []mfu.Module, suit func(text string) (gdn.Variant, error)) error {
	base, err := suit(c.Base)
	if err != nil {
		return &BaseError{r.Name(), c.Base, err.Error(), journal.Invalid}
	}
	f.Base.Target, f.Candidate.Target = r.Target, r.Target
	f.Base.Variant = base.String()
	candidate, err := suit(c.Variant)
	if err != nil {
		f.Candidate.Verdict, f.Candidate.Reason = journal.Invalid, err.Error()
		return nil
	}
	f.Candidate.Variant = candidate.String()
	if f.Same = base == candidate; f.Same {
		return nil
	}
	whole := make([][2]float64, c.Repeat)
	for _, m := range modules {
		pairs, err := x.pairs(ctx, c, r, m, base, candidate, f)
		if err != nil || f.Candidate.Verdict != "" {
			return err
		}
		var each [2][]float64
		for i, p := range pairs {
			for k := range p {
				took := float64(m.Times) * float64(p[k])
				each[k] = append(each[k], took)
				whole[i][k] += took
			}
		}
		for k, side := range []*Side{&f.Base, &f.Candidate} {
			side.Stages = append(side.Stages, journal.Stage{Name: m.Name, Cycles: int64(ratio.Median(each[k]))})
		}
	}
	var was, is, ratios []float64
	for _, p := range whole {
		was, is, ratios = append(was, p[0]), append(is, p[1]), append(ratios, p[1]/p[0])
	}
	f.Ratio, f.Pairs = ratio.Median(ratios), len(ratios)
	f.Low, f.High = ratio.Interval(ratios)
	f.Base.Score, f.Candidate.Score = int64(ratio.Median(was)), int64(ratio.Median(is))
	for _, side := range []*Side{&f.Base, &f.Candidate} {
		side.Cycles = side.Score
		slices.SortStableFunc(side.Stages, func(a, b journal.Stage) int { return cmp.Compare(b.Cycles, a.Cycles) })
	}
	if r.Model == nil {
		f.Base.Rule, f.Candidate.Rule = f.Base.Score, f.Candidate.Score
		return nil
	}
	for _, m := range mfu.RuleAlone(*r.Model, c.Forward) { // modules of a step contain the rule, and are timed as a whole
		pairs, err := x.pairs(ctx, c, r, m, base, candidate, f)
		if err != nil || f.Candidate.Verdict != "" {
			return err
		}
		for k, side := range []*Side{&f.Base, &f.Candidate} {
			var took []float64
			for _, p := range pairs {
				took = append(took, float64(m.Times)*float64(p[k]))
			}
			side.Rule += int64(ratio.Median(took))
		}
	}
	return nil
}

// pairs times a module. A module without the rule runs once per pair, since base and candidate are equal.
func (x *Measured) pairs(ctx context.Context, c *Config, r Rung, m mfu.Module, base, candidate gdn.Variant, f *Figures) ([][2]time.Duration, error) {
	first, args, err := x.load(ctx, m, base)
	if err != nil {
		if v := refusedBy(err); v != "" {
			return nil, &BaseError{r.Name(), c.Base, m.Name + ": " + err.Error(), v}
		}
		return nil, err
	}
	defer first.Close()
	second := first
	if m.Rule {
		if second, _, err = x.load(ctx, m, candidate); err != nil {
			if v := refusedBy(err); v != "" {
				f.Candidate.Verdict, f.Candidate.Reason = v, m.Name+": "+firstLine(err.Error())
				return nil, nil
			}
			return nil, err
		}
		defer second.Close()
	}
	alone, free, err := x.Machine.Measure(ctx)
	if err != nil {
		return nil, err
	}
	defer free()
	watch := machine.Watch()
	pairs, err := x.Device.Pairs(alone, pjrt.TimeOptions{Warmup: deviceWarmup, Trials: c.Repeat}, first, second, args...)
	if o := watch(); o.Disturb() {
		f.Notes = append(f.Notes, m.Name+": "+o.String())
	}
	if !m.Rule {
		for i, p := range pairs {
			pairs[i][1] = p[0]
		}
	}
	return pairs, err
}

// load compiles a module, and makes arguments for it.
func (x *Measured) load(ctx context.Context, m mfu.Module, v gdn.Variant) (*device.Program, []*array.Array, error) {
	made, err := m.Build(v)
	if err != nil {
		return nil, nil, err
	}
	p, err := x.Device.Load(ctx, made)
	if err != nil {
		return nil, nil, err
	}
	args, err := x.arguments(made)
	return p, args, err
}

// drawn returns a function that makes ordinary inputs of a spec.
func drawn(s gdn.Spec, seed uint64) func(*ir.Module) ([]*array.Array, error) {
	return func(m *ir.Module) (args []*array.Array, err error) {
		class, err := truth.LookupClass("random")
		if err != nil {
			return nil, err
		}
		inputs, err := class.Generate(s, seed)
		if err != nil {
			return nil, err
		}
		for _, p := range m.Params() {
			args = append(args, inputs[p.Name])
		}
		return args, nil
	}
}

// refusedBy returns the verdict for a refusal by a device's compiler, or a backend.
func refusedBy(err error) journal.Verdict {
	if e := (*pjrt.CompileError)(nil); errors.As(err, &e) {
		return journal.CompileReject
	}
	if e := (*codegen.Error)(nil); errors.As(err, &e) {
		return journal.EmitError
	}
	return ""
}
