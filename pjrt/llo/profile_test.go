package llo

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A profile adds up to the hot part of its op, and names the part of the capacity that is filled.
func TestProfile(t *testing.T) {
	dir := unpack(t, archive(t, "p6_v6e_0.0.51"))
	r, err := Options{Columns: 100}.Analyze(dir, lookup(t, "v6e"))
	require.NoError(t, err)
	op := r.Ops[0]
	p := op.Profile
	require.Len(t, p.Columns, 100)
	require.Len(t, p.Slots, len(op.Slots))
	require.GreaterOrEqual(t, op.Hot[0].First, p.First)
	require.LessOrEqual(t, op.Hot[0].Last, p.Last)
	require.GreaterOrEqual(t, p.Cycles, op.Hot[0].Cycles)
	require.LessOrEqual(t, p.Cycles, op.Cycles)
	var bundles int
	var cycles, spills, fills int64
	next := p.First
	for _, c := range p.Columns {
		require.GreaterOrEqual(t, c.First, next)
		next = c.First + 1
		bundles += c.Bundles
		cycles += c.Cycles
		spills += c.Spills
		fills += c.Fills
		for i, use := range c.Use {
			require.True(t, 0 <= use && use <= 1, "%s %v", p.Slots[i], use)
		}
		require.NotEmpty(t, c.Files)
	}
	require.Equal(t, p.Bundles, bundles)
	require.Equal(t, p.Cycles, cycles)
	require.Positive(t, spills)
	require.LessOrEqual(t, spills, op.Spills)
	require.LessOrEqual(t, fills, op.Fills)

	without, err := Options{}.Analyze(dir, lookup(t, "v6e"))
	require.NoError(t, err)
	require.Nil(t, without.Ops[0].Profile)
	r.Ops[0].Profile = nil
	require.Equal(t, without.Ops[0], r.Ops[0], "a profile changes no figure")
}

// A column of bundles of which half run in a loop weighs each by how often it runs.
func TestProfileWeights(t *testing.T) {
	p := &program{code: []code{{addr: 0, cycles: 1}, {addr: 1, cycles: 1}, {addr: 2, cycles: 1}, {addr: 3, cycles: 1}}}
	tr := &trace{counts: []int64{1, 10, 6, 4}, waits: []int64{0, 2, 0, 0}}
	use := &utilization{slots: []string{"VALU", slotSpill}, capacity: []int64{4, 1}, rows: [][]int64{{4, 0}, {2, 1}, {4, 0}, {1, 0}}}
	bundles := []bundle{{}, {ins: []instruction{{op: "vadd", loc: `"solve":1:1`}, {op: "sphi"}}}, {ins: []instruction{{op: "vadd"}}}, {}}
	got := profile(p, bundles, tr, use, 1)
	require.Equal(t, &Profile{First: 1, Last: 2, Bundles: 2, Runs: 10, Cycles: 18, Slots: use.slots, Columns: []Column{{
		First: 1, Bundles: 2, Cycles: 18, Runs: 16, Use: []float64{.6875, .625}, Stall: .1111, Spills: 10, Files: map[string]int64{"solve": 10, "": 6},
	}}}, got)
	fine := profile(p, bundles, tr, use, 100)
	require.Len(t, fine.Columns, 2)
	require.Equal(t, got, fine.Merged(1), "as if it had been counted so")
	require.Same(t, fine, fine.Merged(2))
	require.Nil(t, profile(p, bundles, tr, use, 0))
}

// The table of addresses that an op with many operands gets is none of its operands; it holds the values of those that are single
// words, and the addresses of the others, from which scalar memory is filled.
func TestAddressTable(t *testing.T) {
	branch := []string{"%p1_p1 = scmp.eq.s32.totalorder %s2_s2, 7", "%2 = sbr.rel (%p1_p1) target = $region9", "", "", "", "", " / 9"}
	table := "%s1_s1 = inlined_call_operand.smem [shape: u32[36], index: -1, kind: input, shape index: {}]"
	_, err := execute(t, Options{Scalars: map[string][]int64{"0": {7}}}, false, append([]string{table, "%s2_s2 = sld [smem:[%s1_s1]]"}, branch...)...)
	require.NoError(t, err)
	fill := []string{table, "%s3_s3 = sld [smem:[%s1_s1 + 5]]", "%1 = dma.hbm_to_smem %s3_s3, 3, [#allocation3], [#allocation4]", "%s2_s2 = sld [smem:[#allocation3 + 2]]"}
	_, err = execute(t, Options{Scalars: map[string][]int64{"5": {1, 2, 7}}}, false, append(fill, branch...)...)
	require.NoError(t, err)
	_, err = execute(t, Options{}, false, append(fill, branch...)...)
	require.ErrorContains(t, err, "only a run would tell")
	_, err = execute(t, Options{}, false, strings.Replace(table, "u32[36]", "f32[2,2]", 1))
	require.ErrorContains(t, err, "table of shape")

	lines := []string{
		"%s1_s1 = inlined_call_operand.smem [shape: u32[36], index: -1, kind: input, shape index: {}]",
		"%s2_s2 = sld [smem:[%s1_s1 + %s3_s3]]",
		"%1 = dma.hbm_to_vmem %s2_s2, 3, %s4_s4, [#allocation4]",
	}
	tr, err := execute(t, Options{}, false, lines...)
	require.NoError(t, err)
	require.EqualValues(t, 3*granule, tr.hbmBytes)
	_, err = execute(t, Options{}, false, append(lines, "%p1_p1 = scmp.eq.s32.totalorder %s2_s2, 0", "%2 = sbr.rel (%p1_p1) target = $region9", "", "", "", "", " / 9")...)
	require.ErrorContains(t, err, "only a run would tell")
	require.NotContains(t, err.Error(), "-1")
	_, err = execute(t, Options{}, false, "%s1_s1 = inlined_call_operand.smem [shape: u32[36], index: -2, kind: input, shape index: {}]")
	require.ErrorContains(t, err, "operand without an index")
}

func TestWithoutNumber(t *testing.T) {
	for name, want := range map[string]string{"fused.7": "fused", "fused": "fused", "a.b": "a.b", "a.1.22": "a.1", ".3": ".3"} {
		require.Equal(t, want, withoutNumber(name))
	}
}
