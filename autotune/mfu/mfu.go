// Package mfu models how well a training step with the rule uses the MXUs of a TPU: it costs the parts and
// pieces of a step of a gdn/model, and sums them. The model flop utilisation of a part is its model flops over the
// flops that fully busy MXUs would do in the modelled time. Model flops count the mathematics, by gdn/model.
package mfu

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/gdngen/gdngen/autotune/measure"
	"github.com/gdngen/gdngen/autotune/ruler"
	"github.com/gdngen/gdngen/codegen/route"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/model"
	"github.com/gdngen/gdngen/internal/terminal"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/target"
	"github.com/gdngen/gdngen/pjrt/llo"
)

// Row is a part or a piece of a training step, or a sum of rows, on a target.
type Row struct {
	Target string      `json:"target"`
	Kind   string      `json:"kind"` // of layer
	Part   string      `json:"part"`
	Pass   string      `json:"pass,omitempty"` // forward or backward; empty: both
	Times  int         `json:"times"`          // runs in a step
	Flops  float64     `json:"model_flops"`    // once
	Cycles int64       `json:"cycles"`         // issue cycles, once
	Bytes  int64       `json:"hbm_bytes"`      // once; -1: unknown
	Ruler  ruler.Ruler `json:"ruler"`          // of the time
	Time   float64     `json:"time"`           // cycles, once: in-order; of issue cycles, the sum over ops of the larger of cycles and traffic at full bandwidth
	Bound  string      `json:"bound,omitempty"`
	MFU    float64     `json:"mfu"`
	Share  float64     `json:"share"`   // of the step's time
	Whole  bool        `json:"whole"`   // a piece, or a sum
	InStep bool        `json:"in_step"` // the step is the sum of these rows, each Times

	Traffic float64 `json:"hbm_cycles"` // of the bytes at full bandwidth, once
	XLA     int64   `json:"glue"`       // cycles outside of kernels, once
	Calls   int64   `json:"calls"`      // ops that run, once
	Spills  int64   `json:"spills"`     // executed, once
	Kernels int     `json:"kernels"`    // distinct kernels to compile; for a sum, of all its modules
}

// Step is a training step on some targets.
type Step struct {
	Model      model.Config `json:"model"`
	Parameters int64        `json:"parameters"`
	Variants   []string     `json:"variants"` // of the rule, by target
	Note       string       `json:"note"`
	Rows       []*Row       `json:"rows"`
}

// Note explains the time to readers of a report.
const Note = "a step is the sum of its layers, each one module forward and one backward with its residual; attention has two, around the core, which is a public kernel. Time is modelled: in-order cycles, the schedule of each module in order with its waits for HBM, one module after another; where latencies are not known, issue cycles: for each op the larger of these and of its HBM traffic at full bandwidth; nothing ran on a TPU"

// NewStep returns the step of a model without rows, and the variant of the rule for each target.
func NewStep(c model.Config, variant string, targets []*target.Target) (*Step, []gdn.Variant, error) {
	r := &Step{Model: c, Parameters: c.Parameters(), Note: Note}
	var rules []gdn.Variant
	for _, t := range targets {
		v, err := Variant(c, variant, t)
		if err != nil {
			return nil, nil, err
		}
		rules, r.Variants = append(rules, v), append(r.Variants, v.String())
	}
	return r, rules, nil
}

// Cost adds the rows of the step on each target; rules are the variants by target.
func (r *Step) Cost(ctx context.Context, x *measure.Instrument, rules []gdn.Variant, targets []*target.Target, forward bool) error {
	for i, t := range targets {
		rows, err := Rows(ctx, x, r.Model, rules[i], t, forward)
		if err != nil {
			return fmt.Errorf("%s: %w", t.Name, err)
		}
		r.Rows = append(r.Rows, rows...)
	}
	return nil
}

// Variant resolves the variant of the rule; auto is the best known for the model's training step on a target.
func Variant(c model.Config, text string, t *target.Target) (gdn.Variant, error) {
	s := c.Spec()
	s.Direction = gdn.Train
	f, err := route.Resolve(s, text, t, nil)
	if err != nil {
		return gdn.Variant{}, err
	}
	return f.Variant, f.Variant.Check(s)
}

// Rows costs the parts and the pieces of a step on a target, and adds their sums.
func Rows(ctx context.Context, x *measure.Instrument, c model.Config, v gdn.Variant, t *target.Target, forward bool) ([]*Row, error) {
	c.VMEM = t.VMEM
	parts, err := partRows(ctx, x, c, v, t, forward, func(*Row) bool { return true })
	if err != nil {
		return nil, err
	}
	var pieces []*Row
	for _, m := range modules(c, forward) {
		if m.Build == nil { // the core of attention, which is costed as a part
			core := func(r *Row) bool { return r.Kind == m.kind && r.Part == m.name && r.Pass == m.pass }
			pieces = append(pieces, parts[slices.IndexFunc(parts, core)])
			continue
		}
		r, err := m.cost(ctx, x, c, v, t)
		if err != nil {
			return nil, err
		}
		r.Whole = true
		pieces = append(pieces, r)
	}
	return sumUp(parts, pieces, t), nil
}

// sumUp returns the rows of parts and pieces with their sums: the parts of a layer by pass, the pieces of a layer, and the step.
func sumUp(parts, pieces []*Row, t *target.Target) []*Row {
	var kinds []string
	for _, r := range pieces {
		if !slices.Contains(kinds, r.Kind) {
			kinds = append(kinds, r.Kind)
		}
	}
	rows, step := slices.Clone(parts), &Row{Target: t.Name, Ruler: ruler.InOrder.On(t.Name), Kind: "step", Part: "all", Times: 1}
	var layers []*Row
	for _, kind := range kinds {
		for _, pass := range model.Passes(false) {
			if apart := sumRows(parts, func(r *Row) bool { return r.Kind == kind && r.Pass == pass }); apart != nil {
				apart.Part, apart.Pass = "apart", pass
				rows = append(rows, apart)
			}
		}
		layer := sumRows(pieces, func(r *Row) bool { return r.Kind == kind })
		layers = append(layers, layer)
		step.add(layer, float64(layer.Times))
	}
	for _, r := range pieces {
		if r.InStep = true; r.Whole {
			rows = append(rows, r)
		}
	}
	rows = append(rows, append(layers, step)...)
	for _, r := range rows {
		r.MFU = r.Flops / (r.Time * t.PeakFlops())
		r.Share = r.Time * float64(r.Times) / step.Time
	}
	return rows
}

// Parts returns the costs of those parts of a training step for which of returns true: it sees kind, part and pass of a
// row. Shares of the step are not set. There are no pieces and no sums.
func Parts(ctx context.Context, x *measure.Instrument, c model.Config, v gdn.Variant, t *target.Target, of func(*Row) bool) ([]*Row, error) {
	rows, err := partRows(ctx, x, c, v, t, false, of)
	for _, r := range rows {
		r.MFU = r.Flops / (r.Time * t.PeakFlops())
	}
	return rows, err
}

// partRows costs the passes of the selected parts.
func partRows(ctx context.Context, x *measure.Instrument, c model.Config, v gdn.Variant, t *target.Target, forward bool,
	of func(*Row) bool) (rows []*Row, err error) {
	c.VMEM = t.VMEM
	for _, p := range model.Parts(c) {
		for i, pass := range p.Passes(forward) {
			if !of(&Row{Target: t.Name, Kind: p.Kind, Part: p.Name, Pass: pass}) {
				continue
			}
			m := newModule(p.Kind, p.Name, pass, p.Layers, p.Flops, p.Build)
			m.Flops += p.Moved[i]
			r, err := m.cost(ctx, x, c, v, t)
			if err != nil {
				return nil, err
			}
			rows = append(rows, r)
		}
	}
	return rows, nil
}

// Module is a pass of a piece of a step, as a program.
type Module struct {
	Name  string
	Times int     // runs in a step
	Flops float64 // model flops, once
	Rule  bool    // it contains the rule, and depends on the variant
	Build func(gdn.Variant) (*ir.Module, error)

	kind, name, pass string
}

// Modules returns the programs of a step: the passes of its pieces, without the core of attention.
func Modules(c model.Config, forward bool) []Module {
	return slices.DeleteFunc(modules(c, forward), func(m Module) bool { return m.Build == nil })
}

// RuleAlone returns the passes of the rule as modules of their own. In a training step they are parts of other modules.
func RuleAlone(c model.Config, forward bool) (l []Module) {
	for _, p := range model.Parts(c) {
		if p.Kind != "rule" || p.Name != "rule" {
			continue
		}
		for _, pass := range p.Passes(forward) {
			l = append(l, newModule(p.Kind, p.Name, pass, p.Layers, p.Flops, p.Build))
		}
	}
	return l
}

func modules(c model.Config, forward bool) (l []Module) {
	for _, pass := range model.Passes(forward) {
		for _, p := range model.Pieces(c) {
			l = append(l, newModule(p.Kind, p.Name, pass, p.Layers, p.Flops, p.Build))
		}
	}
	return l
}

// newModule returns a pass of a piece or part; flops are the forward pass's.
func newModule(kind, name, pass string, times int, flops float64, build func(gdn.Variant, bool) (*ir.Module, error)) Module {
	back := pass == "backward"
	m := Module{Name: kind + ", " + name + " " + pass, Times: times, Flops: flops, Rule: kind == "rule", kind: kind, name: name, pass: pass}
	if back {
		m.Flops *= 2
	}
	if build != nil {
		m.Build = func(v gdn.Variant) (*ir.Module, error) { return build(v, back) }
	}
	return m
}

// cost costs the module with the rule by a variant.
func (m Module) cost(ctx context.Context, x *measure.Instrument, c model.Config, v gdn.Variant, t *target.Target) (*Row, error) {
	r := &Row{Target: t.Name, Kind: m.kind, Part: m.name, Pass: m.pass, Times: m.Times, Flops: m.Flops}
	if m.Build == nil {
		var err error
		if r.Time, err = model.AttentionCycles(c, t, m.pass == "backward"); err != nil {
			return nil, err
		}
		r.Cycles, r.Bytes, r.Bound, r.Ruler = int64(r.Time), -1, "a public kernel, issue cycles", ruler.Issue
		return r, nil
	}
	if err := r.cost(ctx, x, t, func() (*ir.Module, error) { return m.Build(v) }); err != nil {
		return nil, fmt.Errorf("%s: %w", m.Name, err)
	}
	return r, nil
}

// sumRows sums the selected rows, which run equally often, once each; nil without any.
func sumRows(rows []*Row, of func(*Row) bool) *Row {
	var sum *Row
	for _, r := range rows {
		if !of(r) {
			continue
		}
		if sum == nil {
			sum = &Row{Target: r.Target, Ruler: r.Ruler, Kind: r.Kind, Part: "all", Times: r.Times}
		}
		sum.add(r, 1)
	}
	return sum
}

// add adds times runs of a row. If the traffic of one row is unknown, so is the sum's.
func (sum *Row) add(r *Row, times float64) {
	sum.Whole = true
	sum.Flops += times * r.Flops
	sum.Cycles += int64(times) * r.Cycles
	sum.Time += times * r.Time
	sum.Traffic += times * r.Traffic
	sum.XLA += int64(times) * r.XLA
	sum.Calls += int64(times) * r.Calls
	sum.Spills += int64(times) * r.Spills
	sum.Kernels += r.Kernels
	if sum.Bytes < 0 || r.Bytes < 0 {
		sum.Bytes = -1
	} else {
		sum.Bytes += int64(times) * r.Bytes
	}
}

// modelledCost is the static cost of a module with its modelled time.
type modelledCost struct {
	Cycles, Bytes int64
	Ruler         ruler.Ruler
	Time          float64
	Bound         string
}

// cost measures the module of a part and fills the row.
func (r *Row) cost(ctx context.Context, x *measure.Instrument, t *target.Target, build func() (*ir.Module, error)) error {
	m, err := build()
	if err != nil {
		return err
	}
	route, err := route.Lookup("mosaic")
	if err != nil {
		return err
	}
	p, err := measure.OfModule(m, nil, gdn.Variant{}, route)
	if err != nil {
		return err
	}
	if x.Note != nil {
		x.Note("%s: %s, %s %s", t.Name, r.Kind, r.Part, r.Pass)
	}
	c, err := x.Static(ctx, p, t, measure.Options{})
	if err != nil {
		return err
	}
	cost, err := modelled(c.Report, t)
	if err != nil {
		return err
	}
	r.Cycles, r.Bytes, r.Time, r.Bound, r.Ruler = cost.Cycles, cost.Bytes, cost.Time, cost.Bound, cost.Ruler
	r.Traffic, r.Kernels = measure.HBMCycles(max(cost.Bytes, 0), t), len(p.Kernels())
	r.XLA = int64(cost.Time) - p.InKernels(c.Report, cost.Ruler)
	for _, op := range c.Report.Ops {
		r.Calls += op.Calls
		r.Spills += op.Calls * op.Spills
	}
	return nil
}

// fullSlot is the least fill of the fullest slot to count as the bound.
const fullSlot = .7

// modelled returns the time of a report, and its bound: HBM, the fullest unit, or else the order and latencies of the
// instructions. If in-order cycles should be known and are not, it returns a *measure.Refusal.
func modelled(r *llo.Report, t *target.Target) (modelledCost, error) {
	c := modelledCost{Cycles: r.Cycles, Bytes: r.HBMBytes, Ruler: ruler.InOrder.On(t.Name)}
	wall, err := measure.CyclesBy(c.Ruler, r)
	if err != nil {
		return c, err
	}
	var waits float64
	if c.Ruler == ruler.InOrder {
		c.Time, waits = float64(wall), float64(r.Transfers())
	} else {
		c.Time = float64(r.TopLevel)
		for _, op := range r.Ops {
			cycles, traffic := float64(op.Cycles), measure.HBMCycles(max(op.HBMBytes, 0), t)
			c.Time += float64(op.Calls) * max(cycles, traffic)
			waits += float64(op.Calls) * max(0, traffic-cycles)
		}
	}
	full, slot := measure.FullestSlot(r)
	if busy := float64(measure.MXUBusy(r)); busy > full {
		full, slot = busy, "MXU"
	}
	switch part := full / float64(max(r.Cycles, 1)); {
	case waits > c.Time/4:
		c.Bound = "HBM"
	case part >= fullSlot:
		c.Bound = fmt.Sprintf("%s, %.0f %% full", slot, 100*part)
	default:
		c.Bound = fmt.Sprintf("order and latency; %s %.0f %% full", slot, 100*part)
	}
	return c, nil
}

// Write prints a table for each target.
func (r *Step) Write(w io.Writer) {
	c := r.Model
	fmt.Fprintf(w, "model     %s: %d layers of width %d, %.1f M parameters, %d x %d tokens\nrule      %s by %s\n",
		cmp.Or(c.Name, "-"), c.Layers, c.Hidden, float64(r.Parameters)/1e6, c.Batch, c.Tokens, c.Spec(), strings.Join(slices.Compact(slices.Clone(r.Variants)), "\n          and "))
	target := ""
	var t *terminal.Table
	flush := func() {
		if t != nil {
			t.Write(w)
		}
	}
	for _, row := range r.Rows {
		if row.Target != target {
			flush()
			target = row.Target
			fmt.Fprintln(w)
			t = terminal.NewTable(strings.ToUpper(target), "PART", "PASS", ">TIMES", ">MODEL GFLOP", ">ISSUE", ">HBM", ">"+strings.ToUpper(string(row.Ruler)), ">SHARE", ">MFU", "BOUND")
		}
		traffic := "-"
		if row.Bytes >= 0 {
			traffic = terminal.Size(row.Bytes)
		}
		name := row.Part
		if row.Whole {
			name = "= " + name
		}
		t.Add(row.Kind, name, row.Pass, row.Times, fmt.Sprintf("%.2f", row.Flops/1e9), row.Cycles, traffic, int64(row.Time),
			fmt.Sprintf("%.1f%%", 100*row.Share), fmt.Sprintf("%.1f%%", 100*row.MFU), row.Bound)
	}
	flush()
	fmt.Fprintf(w, "\n%s.\n", strings.ToUpper(r.Note[:1])+r.Note[1:])
}
