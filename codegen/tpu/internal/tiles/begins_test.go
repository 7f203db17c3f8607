package tiles

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/ir"
)

// A condition that Begins makes is read again, of its own axis alone, and no other condition is taken for one.
func TestBegins(t *testing.T) {
	_, b := ir.NewModule("m")
	c, number := b.ProgramID(2), func(x int) *ir.Value { return b.Const(ir.T(ir.I32), float64(x)) }
	for n := 2; n <= 9; n++ {
		cond := Begins(b, c, n)
		require.Equal(t, n, BeginsOf(cond, 2))
		require.Zero(t, BeginsOf(cond, 1))
	}
	for _, cond := range []*ir.Value{
		b.Compare(ir.EQ, c, number(0)),
		b.Compare(ir.EQ, b.And(c, number(3)), number(1)),
		b.Compare(ir.NE, b.And(c, number(3)), number(0)),
		b.Compare(ir.EQ, b.And(number(3), c), number(0)),
		b.Param("x", ir.T(ir.Bool)),
	} {
		require.Zero(t, BeginsOf(cond, 2))
	}
}
