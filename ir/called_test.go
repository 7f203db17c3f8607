package ir_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/ir"
)

// TestCalled: a name changes neither text nor hash, holds for the op that has it alone, and is that of what a value was before it was cast or turned.
func TestCalled(t *testing.T) {
	build := func(name string) (*ir.Module, *ir.Value) {
		m, b := ir.NewModule("m")
		x := b.Param("x", ir.T(ir.F32, 2, 4))
		y := b.Transpose(b.Convert(b.Mul(x, x).Called(name), ir.BF16), 1, 0)
		require.NoError(t, b.Finish(m, []string{"y"}, []*ir.Value{y}))
		return m, y
	}
	plain, _ := build("")
	m, y := build("square")
	require.Equal(t, plain.String(), m.String())
	require.Equal(t, plain.Hash(), m.Hash())
	require.Equal(t, "square_t", ir.NameOf(y))
	require.Empty(t, y.Def.Called())
	require.Empty(t, ir.NameOf(m.Params()[0]))

	mul := y.Def.Args[0].Def.Args[0].Def
	_, b := ir.NewModule("copy")
	p := b.Param("x", ir.T(ir.F32, 2, 4))
	b.Of(mul)
	require.Equal(t, "square", b.Mul(p, p).Def.Called(), "what stands for an instruction has its name")
	require.Empty(t, b.Add(p, p).Def.Called(), "where it is of the same op")
	require.Nil(t, (*ir.Value)(nil).Called("nothing"))
}
