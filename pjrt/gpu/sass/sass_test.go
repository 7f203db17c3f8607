package sass

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/ir/target"
)

// h100 has the round numbers of public microbenchmarks, by which the figures of these tests were made, in place of those that a device told since.
func h100(t *testing.T) *target.GPU {
	g, err := target.LookupGPU("h100")
	require.NoError(t, err)
	own := *g
	own.Copy, own.Clock = 3e12, 1.755e9
	own.Timing = &target.GPUTiming{
		DRAM: 620, Shared: 30, Fragment: 33, Store: 20, GlobalStore: 30, Shuffle: 24, Special: 22, SystemReg: 25, Vector: 4, Integer: 5, Uniform: 12, Double: 10,
		Matmul: 33, MatmulUse: .62, Barrier: 18, Release: 12, Launch: 2.2,
	}
	return &own
}

// listing writes instructions with control codes as nvdisasm does.
func listing(lines ...string) string {
	text := ""
	for _, l := range lines {
		text += l + "\n"
	}
	return text
}

const usage = "REG:32 STACK:8 SHARED:0"

// Two instructions, by hand: a load of shared memory sets scoreboard 0, and what waits for it (bit 52 of the control code) comes 30 + 4 cycles
// after it; a second warp overlaps the load.
func TestByHand(t *testing.T) {
	text := listing(
		"/*0000*/ LDS R1, [R2] ; /* 0x0000000000000000 */", "/* 0x000e220000000000 */", // stall 1, sets 0
		"/*0010*/ @!P0 FFMA R3, R1, R1, RZ ; /* 0x0000000000000000 */", "/* 0x001fe20000000000 */", // waits for 0, stall 1
		"/*0020*/ EXIT ; /* 0x0000000000000000 */", "/* 0x000fea0003800000 */",
		"/*0030*/ NOP ; /* 0x0000000000000000 */", "/* 0x000fc00000000000 */")
	c, err := Parse(text, usage)
	require.NoError(t, err)
	require.Equal(t, 3, c.Instructions())
	require.Equal(t, []int{32, 8}, []int{c.Registers, c.Stack})
	require.Equal(t, []int{0, 7, 1}, []int{c.instrs[0].sets, c.instrs[1].sets, c.instrs[1].waits})
	require.False(t, c.instrs[1].always)
	one, err := c.Model(Launch{Programs: 1, Warps: 4}, h100(t))
	require.NoError(t, err)
	require.Equal(t, 35.0, one.Cycles, "34 for the load, 1 to the exit")
	require.Equal(t, 1.0, one.Busy[vector])
	two, err := c.Model(Launch{Programs: 1, Warps: 8}, h100(t))
	require.NoError(t, err)
	require.Less(t, two.Cycles, 2*one.Cycles-20)
}

// What limits residence, and what bounds a time.
func TestBounds(t *testing.T) {
	c, err := Parse(listing("/*0000*/ EXIT ; /* 0x0000000000000000 */", "/* 0x000fea0003800000 */"), "REG:255")
	require.NoError(t, err)
	for _, x := range []struct {
		launch Launch
		limit  int
	}{
		{Launch{Programs: 1, Warps: 4}, 2},                    // registers
		{Launch{Programs: 1, Warps: 1}, 8},                    // registers
		{Launch{Programs: 1, Warps: 1, Shared: 100 << 10}, 2}, // shared memory
		{Launch{Programs: 1, Warps: 1, Shared: 113 << 10}, 2}, // with 1 KiB reserved for each, all of an SM's
		{Launch{Programs: 1, Warps: 1, Shared: 227 << 10}, 1}, // the most that a program may have
	} {
		r, err := c.Model(x.launch, h100(t))
		require.NoError(t, err)
		require.Equal(t, x.limit, r.Limit)
	}
	r, err := c.Model(Launch{Programs: 1, Warps: 1, Bytes: 3e6}, h100(t))
	require.NoError(t, err)
	require.Equal(t, 1.0, r.Time)
	require.Greater(t, r.DRAM, r.Issue)
}

func TestRefused(t *testing.T) {
	_, err := Parse("nothing", usage)
	require.ErrorContains(t, err, "holds no instruction")
	text := listing("/*0000*/ EXIT ; /* 0x0000000000000000 */", "/* 0x000fea0003800000 */")
	_, err = Parse(text, "")
	require.ErrorContains(t, err, "names no registers")
	c, err := Parse(text, usage)
	require.NoError(t, err)
	_, err = c.Model(Launch{}, h100(t))
	require.ErrorContains(t, err, "a launch of 0 programs")
	b200, err := target.LookupGPU("b200")
	require.NoError(t, err)
	_, err = c.Model(Launch{Programs: 1, Warps: 1}, b200)
	require.ErrorContains(t, err, "no times are modelled for b200")
}
