package windows

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/ir"
)

// The index of a block that counts down is what is left of its greatest.
func TestReversedIndex(t *testing.T) {
	g := &ir.Grid{Dims: []ir.GridDim{{Name: "step", Size: 6}}}
	for shift, want := range map[int]string{0: "5 - step", -1: "5 - jnp.maximum(step - 1, 0)", 1: "5 - jnp.minimum(step + 1, 5)"} {
		x := ir.IndexAxis(0)
		x.Shift = shift
		w := ir.Window{Block: []int{8}, Index: []ir.Index{x.Reversed(6)}}
		require.Contains(t, Spec(g, w, false, "(8,)"), want)
	}
	x := ir.IndexAxis(0)
	x.Shift = 1
	w := ir.Window{Block: []int{8}, Index: []ir.Index{x.Reversed(8)}}
	require.Contains(t, Spec(g, w, false, "(8,)"), "7 - (step + 1)")
}

// An operand that rests while steps pass is one of its step; a result, or an operand of a grid of one step, is not.
func TestEarly(t *testing.T) {
	w := ir.Window{Block: []int{1, 8}, Index: []ir.Index{ir.IndexAxis(0), ir.IndexConst(0)}}
	for steps, want := range map[int]string{1: "lambda b, _c: (b, 0)", 5: "lambda b, c: (b, jnp.minimum(c, 0))"} {
		g := &ir.Grid{Dims: []ir.GridDim{{Name: "b", Size: 2}, {Name: "c", Size: steps, Seq: true}}}
		require.Contains(t, Spec(g, w, true, "(1, 8)"), want)
		require.Contains(t, Spec(g, w, false, "(1, 8)"), "lambda b, _c: (b, 0)")
	}
}

// Blocks of rows one step late are such; others, and those of a step's own or its next, are not.
func TestDelayed(t *testing.T) {
	g := &ir.Grid{Dims: []ir.GridDim{{Name: "b", Size: 2}, {Name: "h", Size: 1}, {Name: "c", Size: 5, Seq: true}}}
	for shift, want := range map[int]bool{-1: true, 0: false, 1: false, -2: false} {
		at := ir.IndexAxis(2)
		at.Shift, at.Max = shift, 3
		w := ir.Window{Block: []int{1, 64, 8}, Index: []ir.Index{ir.IndexAxis(0), at, ir.IndexConst(0)}}
		require.Equal(t, want, Delayed(g, w, []int{2, 256, 8}))
		require.False(t, Delayed(g, w, []int{2, 256, 16})) // blocks of lanes
		heads := ir.Window{Block: []int{1, 64, 8, 8}, Index: append(w.Index[:3:3], ir.IndexConst(0))}
		require.Equal(t, want, Delayed(g, heads, []int{2, 64, 8, 8}))
		require.False(t, Delayed(g, heads, []int{2, 64, 8, 16}))
		w.Index[1].Down = true
		require.False(t, Delayed(g, w, []int{2, 256, 8}))
	}
}

// TestNames: windows that several operands or results have are named after the first of them.
func TestNames(t *testing.T) {
	ins, outs := []string{"a", "a", "b"}, []string{"pl.BlockSpec(memory_space=pl.ANY)"}
	require.Equal(t, []string{"    q_at = a", "    v_at = b", "    anywhere = pl.BlockSpec(memory_space=pl.ANY)"}, Name([]string{"q", "k", "v", "o"}, ins, outs))
	require.Equal(t, []string{"q_at", "q_at", "v_at", "anywhere"}, append(ins, outs...))
	require.Empty(t, Name([]string{"q", "k"}, []string{"a", "b"}), "none is of two")
}

// Batch rows follow one another where each window is of its row, and none or one step late; states rest, and are so.
func TestInLine(t *testing.T) {
	at := func(shift, most int) ir.Index {
		x := ir.IndexAxis(2)
		x.Shift, x.Max = shift, most
		return x
	}
	grid := func(in ...ir.Index) *ir.Grid {
		g := &ir.Grid{Dims: []ir.GridDim{{Name: "b", Size: 3}, {Name: "h", Size: 1}, {Name: "c", Size: 6, Seq: true}}, Outs: []ir.Type{ir.T(ir.F32, 3, 8)}}
		for _, x := range in {
			g.In = append(g.In, ir.Window{Block: []int{1, 8}, Index: []ir.Index{ir.IndexAxis(0), x}})
		}
		g.Out = []ir.Window{{Block: []int{1, 8}, Index: []ir.Index{ir.IndexAxis(0), ir.IndexConst(0)}}}
		return g
	}
	in, out, ok := InLine(grid(at(0, 4), at(-1, 4), at(-1, 0)))
	require.True(t, ok)
	require.Equal(t, []int{0, 1, 1}, in)
	require.Equal(t, []int{1}, out)
	for name, g := range map[string]*ir.Grid{
		"two steps late":         grid(at(-2, 4)),
		"two steps more":         grid(at(0, 3)),
		"a step early":           grid(at(1, 4)),
		"a state of the first":   grid(at(0, 0)),
		"the same for two steps": grid(at(0, 4).Held(2)),
		"of two dimensions":      {Dims: grid().Dims[1:]},
		"of no row":              {Dims: grid().Dims, In: []ir.Window{{Block: []int{8}, Index: []ir.Index{at(0, 4)}}}},
	} {
		_, _, ok := InLine(g)
		require.False(t, ok, name)
	}
}
