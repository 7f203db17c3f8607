package llo

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzSchedule runs any text as a schedule: it ends in a trace or an error, and what parses is executed the same twice.
func FuzzSchedule(f *testing.F) {
	f.Add(assemble("%s1_s1 = smov 0", "%s1_s1 = sadd.s32 %s1_s1, 1 / 4", "%p1_p1 = scmp.lt.s32.totalorder %s1_s1, 10", "%2 = sbr.rel (%p1_p1) target = $region4", "", ""))
	f.Add(assemble("%1 = vmatmul.bf16.mxu1 %v2 /* loc(\"a\":1:2 to :3) :: loc(\"b\":1:1) */ ;; %2 = vdelay 4", "%1 = dma.hbm_to_smem [thread:$0] (!%p1_p1), %s1_s1, 1, [#allocation1 + $0x1], %s2_s2 / 1 2"))
	f.Add("     0   :  { %3 = shalt.err (!%p1_p1) /* a /*hbm=*/ b /* \n x */ \n */ } /* Start/End empty region 7 :: End region 2 */\n")
	f.Add("   0x1 PF: >> { %s1_s0 = inlined_call_operand.<no memory space> [shape: s32[1], index: 1, kind: input, shape index: {}] }")
	f.Add("0 : { /* ")
	f.Add("0 : { %s1_s1 = sshll.u32 [#a], 63 ;; %s2_s2 = sshra.s32 %s1_s1, 99 ;; %1 = sst [smem:[%s1_s1 + %s2_s2]] 1 }")
	f.Fuzz(func(t *testing.T, text string) {
		run := func() (*trace, error) {
			bundles, err := parseBundles(text)
			if err != nil {
				return nil, err
			}
			canonicalHash(bundles)
			p, err := decode("fuzz", bundles, testTarget)
			if err != nil {
				return nil, err
			}
			m := &machine{program: p, delaySlots: 2, granule: granule, limit: 100, top: strings.Contains(text, "TLP"), scalars: func(int) ([]int64, bool) { return []int64{1, 2}, true }}
			tr, err := m.run()
			if err == nil {
				report("fuzz", p, bundles, tr, &utilization{}, 0)
			}
			return tr, err
		}
		first, err := run()
		again, err2 := run()
		require.Equal(t, err, err2)
		require.Equal(t, first, again)
	})
}

// FuzzUtilization parses any text as a utilization table.
func FuzzUtilization(f *testing.F) {
	f.Add("== CAPACTIY:\nMXU, XLU\n 2 2\n== UTILIZATION:\n0 0\n1 2\n")
	f.Add("== CAPACITY:\n,\n")
	f.Fuzz(func(t *testing.T, text string) {
		u, err := parseUtilization(text)
		if err == nil {
			require.Len(t, u.capacity, len(u.slots))
			u.executed(make([]int64, len(u.rows)), 1)
		}
	})
}
