package stablehlo_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/codegen/stablehlo"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/pjrt/pjrttest"
)

// A loop ends where its body says that nothing changes any more; the interpreter goes on, so that such a word can be checked.
func TestLoopEndsEarly(t *testing.T) {
	for _, end := range []float64{-1, 0, 3, 9} {
		p := newProbe()
		used := p.param(ir.I32, []int{}, end)
		count := func(all bool) *ir.Value {
			zero := p.Const(ir.T(ir.I32), 0)
			return p.LoopUntil(5, used, []*ir.Value{zero}, func(b *ir.Builder, i *ir.Value, carried []*ir.Value) []*ir.Value {
				next := b.Add(carried[0], b.Like(i, 1))
				if !all {
					next = b.Select(b.Compare(ir.LT, i, used), next, carried[0])
				}
				return []*ir.Value{next}
			})[0]
		}
		p.try("kept", count(false))
		p.check(t, pjrttest.CPU(t), map[ir.Op]bool{})

		p = newProbe()
		used = p.param(ir.I32, []int{}, end)
		p.try("broken", count(true))
		require.NoError(t, p.Finish(p.m, p.names, p.outs))
		a, err := stablehlo.Backend{}.Emit(p.m, nil)
		require.NoError(t, err)
		prog, err := pjrttest.CPU(t).Compile(a.Text)
		require.NoError(t, err)
		results, err := prog.Run(p.args["p0"])
		require.NoError(t, err)
		require.Equal(t, []int64{int64(min(5, max(0, end)))}, results[0].Int64s())
	}
}

// Arrays of bf16 that a loop only slices and fills stay bf16 through it; one that it also computes with does not. Both agree with the interpreter.
func TestLoopKeepsStoredArrays(t *testing.T) {
	for _, c := range []struct {
		name  string
		whole bool // the body also adds to the whole array
		inner bool // a loop inside puts slices into it too
	}{{"sliced", false, false}, {"whole", true, false}, {"inner", false, true}, {"both", true, true}} {
		t.Run(c.name, func(t *testing.T) {
			p := newProbe()
			x := p.normal(ir.BF16, 32, 4)
			filled := p.Loop(5, []*ir.Value{p.Const(x.Type, 1)}, func(b *ir.Builder, i *ir.Value, carried []*ir.Value) []*ir.Value {
				at := b.Mul(i, b.Const(ir.T(ir.I32), 7)) // the last slice begins earlier than it says
				y := b.Mul(b.RowsAt(x, at, 8), b.RowsAt(carried[0], at, 8))
				y = b.Loop(2, []*ir.Value{y}, func(b *ir.Builder, j *ir.Value, carried []*ir.Value) []*ir.Value {
					return []*ir.Value{b.PutRows(carried[0], b.RowsAt(x, j, 1), j)}
				})[0]
				o := b.PutRows(carried[0], y, at)
				if c.inner {
					o = b.Loop(3, []*ir.Value{i, o}, func(b *ir.Builder, j *ir.Value, carried []*ir.Value) []*ir.Value {
						y := b.Mul(b.RowsAt(x, j, 2), b.RowsAt(carried[1], carried[0], 2))
						return []*ir.Value{b.Add(carried[0], j), b.PutRows(carried[1], y, carried[0])}
					})[1]
				}
				if c.whole {
					o = b.Add(o, o)
				}
				return []*ir.Value{o}
			})
			p.try("filled", filled[0])
			p.try("after", p.Add(filled[0], x))
			p.check(t, pjrttest.CPU(t), map[ir.Op]bool{})
			a, err := stablehlo.Backend{}.Emit(p.m, nil)
			require.NoError(t, err)
			for _, op := range []string{"stablehlo.dynamic_slice %", "stablehlo.dynamic_update_slice %"} {
				require.Contains(t, a.Text, op)
			}
			wide := "(tensor<32x4xf32>, tensor<8x4xf32>, tensor<i32>" // of an update
			require.Equal(t, c.whole, strings.Contains(a.Text, wide), a.Text)
			require.NotContains(t, a.Text, "(tensor<32x4xf32>, tensor<2x4xf32>, tensor<i32>")
			require.Equal(t, c.inner, strings.Contains(a.Text, "(tensor<32x4xbf16>, tensor<2x4xbf16>, tensor<i32>"))
			require.NotContains(t, a.Text, "(tensor<32x4xf32>, tensor<i32>, tensor<i32>) -> tensor<1x4xf32>")
		})
	}
}
