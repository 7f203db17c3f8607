package mutant

import (
	"slices"

	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/passes"
)

// moves are ops that move values without computing.
var moves = []ir.Op{ir.OpReshape, ir.OpConvert, ir.OpTranspose, ir.OpSlice, ir.OpConcat, ir.OpKeep, ir.OpSelect, ir.OpBroadcast, ir.OpBitcast}

// source returns the origin of a value through moves: a parameter, or the result of another op.
func source(v *ir.Value) *ir.Value {
	for v.Def != nil && len(v.Def.Args) == 1 && slices.Contains(moves, v.Def.Op) {
		v = v.Def.Args[0]
	}
	return v
}

// stateUpdates finds the instructions S' = S x + y by which bodies of grids and loops update a state from chunk to chunk. They are
// additions whose result moves into a carry; one term is a product with a carried value or another such addition.
func stateUpdates(m *ir.Module) map[*ir.Instr]bool {
	found := map[*ir.Instr]bool{}
	seen := map[*ir.Value]bool{}
	var from func(v *ir.Value)
	from = func(v *ir.Value) {
		if seen[v] || v.Def == nil {
			return
		}
		seen[v] = true
		in := v.Def
		switch {
		case slices.Contains(moves, in.Op), in.Op == ir.OpDynUpdate, in.Op == ir.OpPad:
			for _, a := range in.Args {
				from(a)
			}
		case in.Op == ir.OpAdd && in.Task.Stage == "state" && in.Args[0].Def != nil && in.Args[0].Def.Op == ir.OpMul:
			s := source(in.Args[0].Def.Args[0])
			from(in.Args[0].Def.Args[0])
			if s.Def == nil || found[s.Def] || s.Def.Op == ir.OpConst || s.Def.Op == ir.OpSelect {
				found[in] = true
			}
		}
	}
	m.Body.Walk(func(in *ir.Instr) {
		if in.Body == nil {
			return
		}
		carried := in.Body.Yield
		if g := in.Attrs.Grid; g != nil && len(g.Carry) > 0 {
			carried = carried[len(carried)-len(g.Carry):]
		}
		for _, v := range carried {
			from(v)
		}
	})
	return found
}

// updates rewrites the state after each chunk.
func (e *edit) updates(f func(b *ir.Builder, x *ir.Value) *ir.Value) (*ir.Module, error) {
	at := stateUpdates(e.m)
	if len(at) == 0 {
		return nil, &NoPlaceError{e.name, "update of a state"}
	}
	return passes.Transform(e.m, func(r *passes.Rewriter, in *ir.Instr, args []*ir.Value) ([]*ir.Value, bool) {
		if !at[in] {
			return nil, false
		}
		return []*ir.Value{f(r.Builder, r.Copy(in, args)[0])}, true
	})
}

// lastToken leaves the last token of a chunk out of the products that are added to a state.
func (e *edit) lastToken() (*ir.Module, error) {
	dots := map[*ir.Instr]bool{}
	var from func(v *ir.Value)
	from = func(v *ir.Value) {
		if v.Def == nil {
			return
		}
		if v.Def.Op == ir.OpDot {
			dots[v.Def] = true
		} else if v.Def.Op == ir.OpAdd || slices.Contains(moves, v.Def.Op) {
			for _, a := range v.Def.Args {
				from(a)
			}
		}
	}
	for in := range stateUpdates(e.m) {
		from(in.Args[1])
	}
	if len(dots) == 0 {
		return nil, &NoPlaceError{e.name, "product over the tokens of a chunk"}
	}
	return passes.Transform(e.m, func(r *passes.Rewriter, in *ir.Instr, args []*ir.Value) ([]*ir.Value, bool) {
		if !dots[in] {
			return nil, false
		}
		x, axis := args[0], in.Attrs.Dot.LC[0]
		at := r.Iota(ir.T(ir.I32, x.Type.Shape...), axis)
		early := r.Compare(ir.LT, at, r.Like(at, float64(x.Type.Shape[axis]-1)))
		return r.Copy(in, []*ir.Value{r.Select(early, x, r.Like(x, 0)), args[1]}), true
	})
}

// sums splits each product over 32 terms or more, and adds partial sums of 16 terms in bf16.
func (e *edit) sums() (*ir.Module, error) {
	const terms = 16
	n := 0
	m, err := passes.Transform(e.m, func(r *passes.Rewriter, in *ir.Instr, args []*ir.Value) ([]*ir.Value, bool) {
		d := in.Attrs.Dot
		if in.Op != ir.OpDot || len(d.LC) != 1 || in.Args[0].Type.Shape[d.LC[0]] < 2*terms {
			return nil, false
		}
		n++
		var sum *ir.Value
		for at := 0; at < in.Args[0].Type.Shape[d.LC[0]]; at += terms {
			end := min(at+terms, in.Args[0].Type.Shape[d.LC[0]])
			x := r.Dot(r.SliceAxis(args[0], d.LC[0], at, end), r.SliceAxis(args[1], d.RC[0], at, end), *d, in.Attrs.Prec)
			if sum != nil {
				x = r.Add(x, sum)
			}
			sum = r.Convert(r.Convert(x, ir.BF16), ir.F32)
		}
		return []*ir.Value{sum}, true
	})
	if err == nil && n == 0 {
		return nil, &NoPlaceError{e.name, "product over 32 terms"}
	}
	return m, err
}

// stale also carries the state before the last chunk, which all uses except the update's own term then read.
func (e *edit) stale() (*ir.Module, error) {
	var grid *ir.Instr
	e.m.Body.Walk(func(in *ir.Instr) {
		if g := in.Attrs.Grid; g != nil && len(g.Carry) == 1 && in.Op == ir.OpGrid {
			grid = in
		}
	})
	updates := stateUpdates(e.m)
	if grid == nil || len(updates) == 0 {
		return nil, &NoPlaceError{e.name, "grid that carries a state"}
	}
	s := &staleState{old: grid.Body.Params[len(grid.Body.Params)-1], updates: updates}
	return passes.Transform(e.m, func(r *passes.Rewriter, in *ir.Instr, args []*ir.Value) ([]*ir.Value, bool) {
		switch {
		case in == grid:
			return s.grid(r, in, args), true
		case s.now != nil && updates[in]:
			return s.update(r, in, args), true
		}
		return nil, false
	})
}

// staleState rewrites a grid with a second carried state.
type staleState struct {
	old       *ir.Value // the carried state of the module that is edited
	now, last *ir.Value // the state, and the one before
	updates   map[*ir.Instr]bool
	after     *ir.Value // the true state after the chunk, as an update makes it
}

// grid copies the grid with a second carry, which the body reads in place of the first.
func (s *staleState) grid(r *passes.Rewriter, in *ir.Instr, args []*ir.Value) []*ir.Value {
	attrs := passes.CloneAttrs(in.Attrs)
	g := attrs.Grid
	g.Carry = append(g.Carry, passes.CloneGrid(g).Carry[0])
	body := &ir.Block{}
	outer := r.Builder
	r.Builder = outer.On(body)
	for _, p := range in.Body.Params {
		r.Set(p, r.Param(p.Name, passes.CloneType(p.Type)))
	}
	s.now = r.Value(s.old)
	s.last = r.Param("", passes.CloneType(s.old.Type))
	r.Set(s.old, s.last)
	body.Yield = append(r.Splice(in.Body), s.now)
	r.Builder = outer
	n := len(args)
	if g.Bounded() { // the number of points comes last
		args = slices.Insert(slices.Clone(args), n-1, args[n-2])
	} else {
		args = append(slices.Clone(args), args[n-1])
	}
	rs := r.Append(in.Op, args, attrs, body)
	if r.Err() != nil {
		return nil
	}
	return rs[:len(rs)-1]
}

// update copies an update, with its own term computed from the true state.
func (s *staleState) update(r *passes.Rewriter, in *ir.Instr, args []*ir.Value) []*ir.Value {
	mul := in.Args[0].Def
	state := s.after
	if source(mul.Args[0]) == s.old {
		state = s.moved(r, mul.Args[0])
	}
	kept := r.Copy(mul, []*ir.Value{state, r.Value(mul.Args[1])})[0]
	s.after = r.Copy(in, []*ir.Value{kept, args[1]})[0]
	return []*ir.Value{s.after}
}

// moved applies moves of the carried state to the true one.
func (s *staleState) moved(r *passes.Rewriter, v *ir.Value) *ir.Value {
	if v == s.old {
		return s.now
	}
	return r.Copy(v.Def, []*ir.Value{s.moved(r, v.Def.Args[0])})[0]
}
