package build

import (
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/build/internal/chunkwise"
	"github.com/gdngen/gdngen/ir"
)

// chunks takes the chunks in flight forward: it loads what internal/chunkwise takes, and describes outputs. Gates that are ready are those of a stream, made
// before its loop.
type chunks struct {
	gated
	rule  *chunkwise.Chunks
	ready *chunkwise.Gates // where not nil, the gates and sums of the chunks in flight
}

func newChunks(t *tiles) *chunks {
	e := &chunks{gated: *newGated(t), rule: &chunkwise.Chunks{Rule: *t.rule(), State: t.state}}
	if t.enters != nil {
		e.rule.Enter = e.enter
	}
	return e
}

// enter is the state before a chunk in flight, where such are visits of sequences: what the one before left, or what its sequence begins with. That before the
// first is there when the step begins.
func (e *chunks) enter(chunk int) *ir.Value {
	if chunk == 0 {
		return e.rule.State
	}
	state := e.enters(chunk, e.rule.State)
	e.b.At(ir.Task{Stage: "state", Chunk: chunk, Head: -1})
	return state
}

// stateFree does the work that needs no state; what an earlier grid made is loaded.
//
// Which grid it is shows in its blocks: one that reads T, or U, makes no T; one that reads P makes none; one without V, which makes T alone, or T and P,
// loads none. So the body of a grid is the same function for all flows. Loads are in this order, which is that of the kernel: keys first, for products
// begin with them, then what an earlier grid made, behind all that this one makes.
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

// fused does everything in one grid, or everything but what an earlier grid made: the body of every grid that carries the state forward.
func (e *chunks) fused() []blockOut { return e.steps(e.stateFree()) }

// intra makes T and P, or U, W and P, for a scan of another grid.
func (e *chunks) intra() []blockOut {
	w := e.stateFree()
	e.b.Stage("keep")
	if e.v.Form == gdn.FormUW {
		return []blockOut{e.made(w.U), e.made(w.W), e.made(w.P)}
	}
	return []blockOut{e.made(w.T), e.made(w.P)}
}

// inverse makes T alone: of a grid that reads K and the gates, and leaves P to the scan, which makes it of the chunk that it has in hand.
func (e *chunks) inverse() []blockOut {
	w := e.stateFree()
	e.b.Stage("keep")
	return []blockOut{e.made(w.T)}
}

// steps takes the chunks in flight through the state, in order, and leaves the state after the last, and those after each, with the grid.
func (e *chunks) steps(w *chunkwise.Work) []blockOut {
	outs := e.rule.Through(w, e.writes)
	e.state, e.after = e.rule.State, e.rule.After
	if outs == nil {
		return nil
	}
	return e.outputs(outs)
}
