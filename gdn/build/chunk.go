package build

import (
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/build/internal/chunkwise"
	"github.com/gdngen/gdngen/ir"
)

// chunks takes the chunks in flight forward: it loads the inputs of internal/chunkwise, and describes outputs. Streams make the gates before their loop, and
// pass them as ready.
type chunks struct {
	gated
	rule  *chunkwise.Chunks
	ready *chunkwise.Gates // gates and sums of the chunks in flight; nil: not made yet
}

func newChunks(t *tiles) *chunks {
	e := &chunks{gated: *newGated(t), rule: &chunkwise.Chunks{Rule: *t.rule(), State: t.state}}
	if t.enters != nil {
		e.rule.Enter = e.enter
	}
	return e
}

// enter returns the state before a visit in flight: the previous visit's final state, or its sequence's initial state. The state before the first visit
// is available when the step begins.
func (e *chunks) enter(chunk int) *ir.Value {
	if chunk == 0 {
		return e.rule.State
	}
	state := e.enters(chunk, e.rule.State)
	e.b.At(ir.Task{Stage: "state", Chunk: chunk, Head: -1})
	return state
}

// stateFree does the work that needs no state; results of an earlier grid are loaded.
//
// Its blocks decide the work: a grid that reads T, or U, makes no T; one that reads P makes none; one without V, which makes T alone, or T and P,
// loads none. So one function is the body of a grid for all flows. The order of loads is the order in the kernel: keys first, since the first products
// need them, then results of an earlier grid, after everything that this grid makes.
func (e *chunks) stateFree() *chunkwise.Work {
	w := &chunkwise.Work{}
	if e.blocks[e.in.q] != nil {
		w.Q = e.productKey(e.in.q)
	}
	w.K = e.productKey(e.in.k)
	if e.blocks[e.in.v] != nil {
		w.V = e.led(e.loadValues())
	}
	if e.ready != nil {
		w.Gates = *e.ready
	} else {
		w.Gates = e.loadGates()
		e.rule.Sums(&w.Gates)
	}
	has := func(o *operand) bool { return o != nil && e.blocks[o] != nil }
	e.rule.Pairs(w, !has(e.in.t) && !has(e.in.u) && e.s.Rule.Writes(), w.Q != nil && !has(e.in.p))
	e.b.Stage("load")
	for _, l := range []struct {
		o  *operand
		to **ir.Value
	}{{e.in.t, &w.T}, {e.in.p, &w.P}, {e.in.u, &w.U}, {e.in.w, &w.W}} {
		if has(l.o) {
			*l.to = e.loadMade(l.o)
		}
	}
	e.rule.Operands(w)
	return w
}

// fused does all work, except for results of an earlier grid: the body of every grid that carries the state forward.
func (e *chunks) fused() []blockOut { return e.steps(e.stateFree()) }

// intra makes T and P, or U, W and P, for the scan in another grid.
func (e *chunks) intra() []blockOut {
	w := e.stateFree()
	e.b.Stage("keep")
	if e.v.Form == gdn.FormUW {
		return []blockOut{e.made(w.U), e.made(w.W), e.made(w.P)}
	}
	return []blockOut{e.made(w.T), e.made(w.P)}
}

// inverse makes T only, in a grid that reads K and the gates; the scan makes P of its current chunk.
func (e *chunks) inverse() []blockOut {
	w := e.stateFree()
	e.b.Stage("keep")
	return []blockOut{e.made(w.T)}
}

// steps takes the chunks in flight through the state, in order, and stores the state after the last one, and after each, in the grid.
func (e *chunks) steps(w *chunkwise.Work) []blockOut {
	outs := e.rule.Through(w, e.writes)
	e.state, e.after = e.rule.State, e.rule.After
	if outs == nil {
		return nil
	}
	return e.outputs(outs)
}
