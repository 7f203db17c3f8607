package passes

import (
	"slices"

	"github.com/gdngen/gdngen/ir"
)

// Rewriter copies a module, block by block, letting a callback replace instructions on the way. It embeds a builder that
// appends to the block being written, at the location of the instruction being copied; bodies get their own builder for
// the time of their copy.
//
// Old and new values belong to two modules; a table maps one to the other. A pass that inspects an operand's definition can choose: in.Args
// are old values, args are new ones and show the results of this pass so far.
type Rewriter struct {
	*ir.Builder
	f      Rewrite
	values map[*ir.Value]*ir.Value
}

// Rewrite handles one instruction of the old module. args are the new values of its operands, nil for dropped ones. To replace the
// instruction, it appends others with r's builder methods and returns one new value per old result, and
// true; a result that is not read may be nil. To keep the instruction it returns false, normally without having appended anything:
// it is then copied with Copy, and its body is rewritten in turn.
//
// This one swaps the operands of every add, and keeps everything else:
//
//	func(r *Rewriter, in *ir.Instr, args []*ir.Value) ([]*ir.Value, bool) {
//	if in.Op != ir.OpAdd {
//	return nil, false
//	}
//	return []*ir.Value{r.Add(args[1], args[0])}, true
//	}
type Rewrite func(r *Rewriter, in *ir.Instr, args []*ir.Value) (results []*ir.Value, done bool)

// Transform returns the rewritten module, verified. The old module is not changed and shares nothing with the new one.
//
// So a pass can be compared with its input, and a module shared by two variants is safe.
func Transform(m *ir.Module, f Rewrite) (*ir.Module, error) {
	n, b := ir.NewModule(m.Name)
	r := &Rewriter{Builder: b, f: f, values: map[*ir.Value]*ir.Value{}}
	for _, p := range m.Body.Params {
		r.Set(p, b.Param(p.Name, CloneType(p.Type)))
	}
	// Results and parameters keep their names, which this list uses.
	n.Reuse = slices.Clone(m.Reuse)
	yield := r.Splice(m.Body)
	if err := b.Finish(n, slices.Clone(m.Results), yield); err != nil {
		return nil, err
	}
	return n, nil
}

// Clone returns a copy of a module.
//
// Lists, attributes and grids are copied too, so setting a schedule in the copy does not change the original.
func Clone(m *ir.Module) (*ir.Module, error) {
	return Transform(m, func(*Rewriter, *ir.Instr, []*ir.Value) ([]*ir.Value, bool) { return nil, false })
}

// Inline appends a copy of the instructions of a module to b's block, with args for its parameters, and returns its results.
//
// Inlining a module twice copies it twice. Afterwards b has the task of the last copied instruction, so the caller should set
// the next one.
func Inline(b *ir.Builder, m *ir.Module, args []*ir.Value) []*ir.Value {
	if len(args) != len(m.Body.Params) {
		b.Failf("inline %s: %d operands for %d parameters", m.Name, len(args), len(m.Body.Params))
		return make([]*ir.Value, len(m.Results))
	}
	r := &Rewriter{Builder: b, values: map[*ir.Value]*ir.Value{},
		f: func(*Rewriter, *ir.Instr, []*ir.Value) ([]*ir.Value, bool) { return nil, false }}
	for i, p := range m.Body.Params {
		r.Set(p, args[i])
	}
	return r.Splice(m.Body)
}

// Value returns the new value for an old one. If there is none, it records an error in the builder.
//
// The error is reported here, where the pass requests the value, instead of later at a nil operand.
func (r *Rewriter) Value(old *ir.Value) *ir.Value {
	v := r.values[old]
	if v == nil && old != nil {
		r.Failf("rewrite: a %s value is used but was dropped or not copied yet", old.Type)
	}
	return v
}

// Values is Value for a list.
func (r *Rewriter) Values(old []*ir.Value) []*ir.Value {
	vs := make([]*ir.Value, len(old))
	for i, v := range old {
		vs[i] = r.Value(v)
	}
	return vs
}

// Set maps old to v from here on.
func (r *Rewriter) Set(old, v *ir.Value) { r.values[old] = v }

// Splice rewrites the instructions of an old block into the current one and returns the new yielded values. The block's
// parameters must have been Set. Splicing a block twice copies it twice.
func (r *Rewriter) Splice(old *ir.Block) []*ir.Value {
	for _, in := range old.Instrs {
		r.instr(in)
		if r.Err() != nil {
			return nil
		}
	}
	return r.Values(old.Yield)
}

// instr rewrites one instruction, by the callback or as a copy.
func (r *Rewriter) instr(in *ir.Instr) {
	args := make([]*ir.Value, len(in.Args))
	for i, a := range in.Args {
		// Not with Value: an operand may have been dropped, as dce does with everything that leads to a dropped instruction. A later use reports the error.
		args[i] = r.values[a]
	}
	// Instructions appended by the callback get the task and position of the replaced instruction.
	r.Of(in)
	results, done := r.f(r, in, args)
	if r.Err() != nil {
		return
	}
	if !done {
		results = r.Copy(in, args)
	}
	if len(results) != len(in.Results) {
		r.Failf("rewrite of %s: %d values for %d results", in.Op, len(results), len(in.Results))
		return
	}
	for i, v := range in.Results {
		r.Set(v, results[i])
	}
}

// Copy appends a copy of an old instruction with new operands, its body rewritten, and returns the results.
//
// Only ops whose type does not follow from their operands, such as iota and broadcast, keep the old type. For others it is inferred again, so a pass
// may supply new operands of another shape, and their readers follow.
func (r *Rewriter) Copy(in *ir.Instr, args []*ir.Value) []*ir.Value {
	var body *ir.Block
	if in.Body != nil {
		body = r.Body(in.Body)
	}
	var explicit []ir.Type
	if ir.Ops[in.Op].Explicit {
		for _, v := range in.Results {
			explicit = append(explicit, CloneType(v.Type))
		}
	}
	rs := r.Append(in.Op, slices.Clone(args), CloneAttrs(in.Attrs), body, explicit...)
	if r.Err() != nil {
		return nil
	}
	return rs
}

// Body rewrites an old block to a new one. The new parameters have the given types, or the old types if none are given.
func (r *Rewriter) Body(old *ir.Block, types ...ir.Type) *ir.Block {
	blk := &ir.Block{}
	outer := r.Builder
	// The new builder shares the error of the outer one, so a fault in a body ends the whole pass.
	r.Builder = outer.On(blk)
	defer func() { r.Builder = outer }()
	if len(types) != 0 && len(types) != len(old.Params) {
		r.Failf("rewrite: %d types for %d body parameters", len(types), len(old.Params))
		return blk
	}
	for i, p := range old.Params {
		t := p.Type
		if len(types) > 0 {
			t = types[i]
		}
		r.Set(p, r.Param(p.Name, CloneType(t)))
	}
	blk.Yield = r.Splice(old)
	return blk
}

// CloneType copies a type.
func CloneType(t ir.Type) ir.Type {
	t.Shape = slices.Clone(t.Shape)
	return t
}

// CloneAttrs copies attributes with their slices, so that changing the copy does not change the original.
//
// Otherwise a pass that shifts dimensions in place would change the old module.
func CloneAttrs(a ir.Attrs) ir.Attrs {
	a.Dims, a.Starts = slices.Clone(a.Dims), slices.Clone(a.Starts)
	a.Limits, a.Strides = slices.Clone(a.Limits), slices.Clone(a.Strides)
	if a.Dot != nil {
		a.Dot = &ir.DotDims{LB: slices.Clone(a.Dot.LB), RB: slices.Clone(a.Dot.RB), LC: slices.Clone(a.Dot.LC), RC: slices.Clone(a.Dot.RC)}
	}
	if a.Grid != nil {
		a.Grid = CloneGrid(a.Grid)
	}
	return a
}

// CloneGrid copies a grid.
//
// New fields that are slices or pointers must be copied here, or both grids share them.
func CloneGrid(g *ir.Grid) *ir.Grid {
	n := *g
	windows := func(ws []ir.Window) []ir.Window {
		out := slices.Clone(ws)
		for i, w := range out {
			out[i] = ir.Window{Block: slices.Clone(w.Block), Index: slices.Clone(w.Index)}
		}
		return out
	}
	types := func(ts []ir.Type) []ir.Type {
		out := slices.Clone(ts)
		for i, t := range out {
			out[i] = CloneType(t)
		}
		return out
	}
	n.Dims, n.Alias = slices.Clone(g.Dims), slices.Clone(g.Alias)
	n.In, n.Out, n.Carry = windows(g.In), windows(g.Out), windows(g.Carry)
	n.Into = slices.Clone(g.Into)
	n.Outs, n.Scratch = types(g.Outs), types(g.Scratch)
	if g.Sched != nil {
		s := *g.Sched
		s.Lags, s.Phases = slices.Clone(s.Lags), slices.Clone(s.Phases)
		s.Ends, s.Side = slices.Clone(s.Ends), slices.Clone(s.Side)
		s.With, s.Waves, s.Enter = slices.Clone(s.With), slices.Clone(s.Waves), slices.Clone(s.Enter)
		n.Sched = &s
	}
	return &n
}
