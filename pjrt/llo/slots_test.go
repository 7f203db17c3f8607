package llo

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The schedule is that of a grid of 64 steps in a software pipeline of 66. It saves a predicate in a delay slot, and stores to the output
// under the guard of the branch over it.
func TestDelaySlots(t *testing.T) {
	src, err := os.ReadFile(filepath.Join("testdata", "slots_tpu7x.txt"))
	require.NoError(t, err)
	bundles, err := parseBundles(string(src))
	require.NoError(t, err)
	target := lookup(t, "tpu7x")
	p, err := decode("slots", bundles, target)
	require.NoError(t, err)
	slots := map[int64]int{}
	at := map[int64]int{}
	for i, c := range p.code {
		at[c.addr] = i
		if c.branch != nil {
			slots[c.addr] = c.branch.slots
		}
	}
	require.Equal(t, map[int64]int{
		0x15:  3, // rest of the region before, then the next branch
		0x19:  3, // two guarded, one empty
		0x27:  3,
		0x6c:  1, // the region that it skips starts behind one empty bundle
		0x7b:  6, // all kept: the region ends at the sixth
		0xdea: 6,
		0xe08: 6, // backward
	}, slots)

	m := &machine{program: p, delaySlots: target.BranchDelay, granule: target.Granule, limit: 1e5, scalars: func(int) ([]int64, bool) { return nil, false }}
	tr, err := m.run()
	require.NoError(t, err)
	require.EqualValues(t, 66, tr.counts[at[0xc]], "steps of the pipeline")
	require.EqualValues(t, 64, tr.counts[at[0x19]], "steps that may fetch")
	require.EqualValues(t, 64, tr.counts[at[0x1d]], "fetches")
	require.EqualValues(t, 64, tr.counts[at[0x6e]], "steps that compute")
	require.EqualValues(t, 1, tr.counts[at[0x82]], "first step")
	require.EqualValues(t, 64, tr.counts[at[0xdf1]], "stores")

	fixed := *target
	fixed.MostDelay = 0
	p, err = decode("slots", bundles, &fixed)
	require.NoError(t, err)
	m.program = p
	_, err = m.run()
	require.ErrorContains(t, err, "0xdea", "with one slot the predicate of the last step is lost")
}

// The loop hands on in the fourth slot of its branch what it has counted; the region ends there, and behind it is the way out.
func TestSlotsToEndOfRegion(t *testing.T) {
	bundles, err := parseBundles(`     0   :  { %s10_s1 = smov.u32 0 }
   0x1 LB: > { %s11_s2 = sadd.s32 1, %s12_s1  ;;  %s12_s1 = sphi %s10_s1, %s13_s1 } /* Start region 3 */
   0x2   : > { %p14_p0 = scmp.ge.s32.totalorder %s11_s2, 3 }
   0x3   : > { %5 = sbr.rel (!%p14_p0) target = $region3 }
   0x4   : > { }
   0x5   : > { }
   0x6   : > { }
   0x7   : > { %s13_s1 = smov.u32 %s11_s2 } /* End region 3 */
   0x8   :  { }
   0x9   :  { %6 = vsyncpa [#allocation1], 1 }
`)
	require.NoError(t, err)
	target := lookup(t, "tpu7x")
	p, err := decode("loop", bundles, target)
	require.NoError(t, err)
	require.Equal(t, 4, p.code[3].branch.slots)
	m := &machine{program: p, delaySlots: target.BranchDelay, granule: target.Granule, limit: 1e5, scalars: func(int) ([]int64, bool) { return nil, false }}
	tr, err := m.run()
	require.NoError(t, err)
	require.EqualValues(t, 3, tr.counts[3], "rounds")
}

// A row has the slots of a bundle that the compiler prints. Those of the others were read off in the same way; the dumps of v5e that are kept
// name only one.
func TestSlotsOfRows(t *testing.T) {
	for name, dump := range map[string]string{"v6e": "p6_v6e_0.0.51", "tpu7x": "p6_tpu7x_0.0.51"} {
		s, read := lookup(t, name).Slots, 0
		want := map[string]int{"MATMUL": s.Matmul, "MATPUSH": s.Push, "XLU": s.XLU, "VALU": s.VALU, "VPOP": s.Pop, "EUP": s.EUP, "VLOAD": s.Load, "VSTORE": s.Store, "SALU": s.SALU}
		for _, f := range archive(t, dump).Files {
			if !strings.Contains(f.Name, "utilization") {
				continue
			}
			u, err := parseUtilization(string(f.Data))
			require.NoError(t, err)
			for i, slot := range u.slots {
				if n, ok := want[slot]; ok {
					require.EqualValues(t, n, u.capacity[i], "%s %s", name, slot)
					read++
				}
			}
		}
		require.GreaterOrEqual(t, read, len(want), name)
	}
}
