package journal

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Each bet alone, none, and several at once.
func TestBets(t *testing.T) {
	had := Cost{Target: "v6e", Score: 1000, Cycles: 900, Wall: 1000, Calls: 3, XLA: 300, Stall: 100, Slot: "XLU", Fill: .4}
	change := func(do func(*Cost)) *Cost {
		c := had
		do(&c)
		return &c
	}
	for _, x := range []struct {
		now  *Cost
		want []string
	}{
		{change(func(*Cost) {}), nil},
		{change(func(c *Cost) { c.Calls = 2 }), []string{"fewer calls (2 instead of 3)"}},
		{change(func(c *Cost) { c.XLA = 200 }), []string{"more work in a call (100 cycles less outside of kernels)"}},
		{change(func(c *Cost) { c.XLA = 291 }), nil}, // less than a hundredth of all
		{change(func(c *Cost) { c.Slot, c.Fill = "MXU", .5 }), []string{"fuller MXU (MXU 50 % full, XLU 40 % before)"}},
		{change(func(c *Cost) { c.Fill = .6 }), nil}, // of another unit
		{change(func(c *Cost) { c.Stall = 50 }), []string{"shorter critical path (5 % of its cycles wait for an MXU, 10 % before)"}},
		{change(func(c *Cost) { c.Wall, c.Score = 920, 920 }), []string{"shorter critical path (2 % of its cycles no slot could fill, 10 % before)"}},
		{change(func(c *Cost) { c.Calls, c.XLA = 1, 0 }), []string{"fewer calls (1 instead of 3)", "more work in a call (300 cycles less outside of kernels)"}},
	} {
		require.Equal(t, x.want, Bets(x.now, &had))
	}
	full := Cost{Score: 1000, Slot: "MXU", Fill: .5}
	require.Equal(t, []string{"fuller MXU (MXU 60 % full, MXU 50 % before)"}, Bets(&Cost{Score: 900, Slot: "MXU", Fill: .6}, &full))
	require.Empty(t, Bets(&Cost{Score: 900, Slot: "MXU", Fill: .505}, &full))
}
