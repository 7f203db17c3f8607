package llo

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/ir/target"
)

// testTarget has round numbers.
var testTarget = &target.Target{Name: "test", MatmulBF16: 10, MatmulF32: 5, PushBF16: 4, PushF32: 2, BranchDelay: 2, Granule: granule}

// granule of the targets whose dumps are kept.
const granule = 32

// assemble writes bundles as a dump does: one a line, `LABEL: instructions / regions`.
func assemble(lines ...string) string {
	var b strings.Builder
	b.WriteString("= control target key start\nLB: loop body\n= control target key end\n\n")
	for i, l := range lines {
		ins, regions, _ := strings.Cut(l, " / ")
		addr := "0"
		if i > 0 {
			addr = fmt.Sprintf("%#x", i)
		}
		fmt.Fprintf(&b, "%6s   : > { %s }", addr, ins)
		for j, r := range strings.Fields(regions) {
			b.WriteString([]string{" /* ", " :: "}[min(j, 1)] + "Start region " + r)
		}
		if regions != "" {
			b.WriteString(" */")
		}
		b.WriteString("\n")
	}
	return b.String()
}

func execute(t *testing.T, o Options, top bool, lines ...string) (*trace, error) {
	t.Helper()
	bundles, err := parseBundles(assemble(lines...))
	require.NoError(t, err)
	p, err := decode("file", bundles, testTarget)
	if err != nil {
		return nil, err
	}
	m := &machine{program: p, delaySlots: testTarget.BranchDelay, granule: testTarget.Granule, limit: 1000, top: top, scalars: func(i int) ([]int64, bool) {
		v, ok := o.Scalars[fmt.Sprint(i)]
		return v, ok
	}}
	return m.run()
}

// Each case ends in a branch over six bundles that is taken if the register p1 holds; so 12 executed bundles past the case mean false, 6 true.
func TestScalarSemantics(t *testing.T) {
	cases := []struct {
		name, program string
		want          bool
	}{
		{"add", "%s1_s1 = smov 40 | %s2_s2 = sadd.s32 2, %s1_s1 | %p1_p1 = scmp.eq.s32.totalorder %s2_s2, 42", true},
		{"newer move", "%s1_s1 = smov.u32 40 /* materialized constant */ | %p1_p1 = scmp.ne.s32.totalorder %s1_s1, 40", false},
		{"wraps", "%s1_s1 = smov 4294967295 | %s2_s2 = sadd.s32 %s1_s1, 1 | %p1_p1 = scmp.eq.s32.totalorder %s2_s2, 0", true},
		{"signed", "%s1_s1 = smov 4294967295 | %p1_p1 = scmp.lt.s32.totalorder %s1_s1, 1", true},
		{"unsigned", "%s1_s1 = smov 4294967295 | %p1_p1 = scmp.lt.u32.totalorder %s1_s1, 1", false},
		{"mul", "%s1_s1 = smul.u32 65537, 65537 | %p1_p1 = scmp.eq.s32.totalorder %s1_s1, 131073", true},
		{"high word", "%s1_s1 = smulhi.u32 2863311531, 7 | %p1_p1 = scmp.eq.s32.totalorder %s1_s1, 4", true},
		{"high word, signed", "%s1_s1 = smulhi.s32 4294967295, 7 | %p1_p1 = scmp.lt.s32.totalorder %s1_s1, 0", true},
		{"sub", "%s1_s1 = ssub.s32 3, 5 | %p1_p1 = scmp.eq.s32.totalorder %s1_s1, 4294967294", true},
		{"logic", "%s1_s1 = sand.u32 12, 10 | %s2_s2 = sxor.u32 %s1_s1, 1 | %s3_s3 = sor.u32 %s2_s2, 16 | %p1_p1 = scmp.eq.s32.totalorder %s3_s3, 25", true},
		{"shifts", "%s1_s1 = sshll.u32 4294967288, 1 | %s2_s2 = sshra.s32 %s1_s1, 2 | %s3_s3 = sshrl.u32 %s2_s2, 28 | %p1_p1 = scmp.eq.s32.totalorder %s3_s3, 15", true},
		{"quotient", "%5 = sdivrem.u32 185, 62 /* kDiv */ | %s1_s1 = spop.drf %5 | %p1_p1 = scmp.eq.s32.totalorder %s1_s1, 2", true},
		{"remainder", "%5 = sdivrem.u32 185, 62 /* kRem */ | %s1_s1 = spop.drf %5 | %p1_p1 = scmp.eq.s32.totalorder %s1_s1, 61", true},
		{"quotient, then remainder", "%5 = sdivrem.u32 185, 62 /* kDivAndRem */ | %s1_s1 = spop.drf %5 | %s2_s2 = spop.drf %5 | %s3_s3 = sadd.s32 %s1_s1, %s1_s1 | %s4_s4 = sadd.s32 %s3_s3, %s2_s2 | %p1_p1 = scmp.eq.s32.totalorder %s4_s4, 65", true},
		{"quotients in order", "%5 = sdivrem.u32 9, 3 /* kDiv */ | %6 = sdivrem.u32 9, 2 /* kDiv */ | %s1_s1 = spop.drf %5 | %s2_s2 = spop.drf %6 | %p1_p1 = scmp.lt.s32.totalorder %s1_s1, %s2_s2", true},
		{"quotient of nothing", "%p2_p2 = scmp.eq.s32.totalorder 0, 1 | %5 = sdivrem.u32 (%p2_p2), 9, 2 /* kDiv */ | %6 = sdivrem.u32 9, 3 /* kDiv */ | %s1_s1 = spop.drf %6 | %p1_p1 = scmp.eq.s32.totalorder %s1_s1, 3", true},
		{"carry", "%p1_p1 = sc.u32 4294967295, 1", true},
		{"no carry", "%p1_p1 = sc.u32 4294967294, 1", false},
		{"min max", "%s1_s1 = smin.u32 4294967295, 7 | %s2_s2 = smax.s32 4294967295, %s1_s1 | %p1_p1 = scmp.eq.s32.totalorder %s2_s2, 7", true},
		{"select", "%p2_p2 = scmp.gt.s32.totalorder 1, 2 | %s1_s1 = scalar_select /*predicate=*/%p2_p2, /*on_true=*/1, /*on_false=*/9 | %p1_p1 = scmp.ge.s32.totalorder %s1_s1, 9", true},
		{"predicates", "%p2_p2 = scmp.eq.s32.totalorder 0, 0 | %p3_p3 = pneg %p2_p2 | %p4_p4 = por %p3_p3, %p2_p2 | %p1_p1 = pnand %p4_p4, %p3_p3", true},
		{"unknown and false", "%p2_p2 = scmp.eq.s32.totalorder 0, 1 | %s1_s1 = sld [smem:[#allocation1]] | %p3_p3 = scmp.eq.s32.totalorder %s1_s1, 0 | %p1_p1 = pand %p3_p3, %p2_p2", false},
		{"number of the core", "%s1_s1 = sld [smem:[#allocation1]] /* megacore core id :: core id */ | %p1_p1 = scmp.eq.s32.totalorder %s1_s1, 0", true},
		{"memory", "%s1_s1 = smov 3 | %0 = sst [smem:[#allocation1 + $0x2]] %s1_s1 | %s2_s2 = sld [smem:[#allocation1 + $0x2]] | %p1_p1 = scmp.eq.s32.totalorder %s2_s2, 3", true},
		{"computed address", "%s1_s1 = scalar_lea.smem [#allocation1], 3 | %0 = sst [smem:[#allocation1 + $0x5]] /*sx=*/7 | %s3_s3 = scalar_lea.smem %s1_s1, 1 [#allocation1] | %s2_s2 = sld [smem:[%s3_s3 + $0x1]] | %p1_p1 = scmp.eq.s32.totalorder %s2_s2, 7", true},
		{"addresses of one base", "%s1_s1 = smov [#allocation1] | %s2_s2 = sshll.u32 %s1_s1, 4 | %s3_s3 = scalar_lea.vmem %s2_s2, 64 | %p1_p1 = scmp.lt.s32.totalorder %s2_s2, %s3_s3", true},
		{"reads before writes", "%s1_s1 = smov 1 ;; %s2_s2 = smov 2 | %s1_s1 = smov %s2_s2 ;; %s2_s2 = smov %s1_s1 | %p1_p1 = scmp.eq.s32.totalorder %s2_s2, 1", true},
		{"guard holds", "%p2_p2 = scmp.eq.s32.totalorder 0, 0 | %s1_s1 = smov 1 | %s1_s1 = smov (%p2_p2), 2 | %p1_p1 = scmp.eq.s32.totalorder %s1_s1, 2", true},
		{"guard fails", "%p2_p2 = scmp.eq.s32.totalorder 0, 0 | %s1_s1 = smov 1 | %s1_s1 = smov (!%p2_p2), 2 | %p1_p1 = scmp.eq.s32.totalorder %s1_s1, 2", false},
		{"guard that is never", "%s1_s1 = smov 1 | %s1_s1 = smov (0), 2 | %p1_p1 = scmp.eq.s32.totalorder %s1_s1, 1", true},
		{"guard that is always", "%s1_s1 = smov 1 | %s1_s1 = smov (!0), 2 | %p1_p1 = scmp.eq.s32.totalorder %s1_s1, 2", true},
		{"guard with other value", "%p2_p2 = scmp.eq.s32.totalorder 0, 0 | %s3_s3 = smov 5 | %s1_s1 = smov (!%p2_p2, %s3_s3), 2 | %p1_p1 = scmp.eq.s32.totalorder %s1_s1, 5", true},
		{"alias", "%s1_s1 = smov 5 ;; %s2_s1 = int_to_ptr.vmem [resolvable:$true] %s1_s1 | %p1_p1 = scmp.eq.s32.totalorder %s2_s1, 5", true},
		{"move of an address", "%s1_s1 = smov 5 | %s2_s2 = int_to_ptr.hbm [resolvable:$false] %s1_s1 | %p1_p1 = scmp.eq.s32.totalorder %s2_s2, 5", true},
		{"unknown store elsewhere", "%s1_s1 = sld [smem:[#allocation9]] | %0 = sst [smem:[#allocation2]] 4 | %0 = sst [smem:[#allocation1 + %s1_s1]] 3 | %s2_s2 = sld [smem:[#allocation2]] | %p1_p1 = scmp.eq.s32.totalorder %s2_s2, 4", true},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			body := strings.Split(c.program, " | ")
			n := int64(len(body))
			lines := append(body, "%0 = sbr.rel (%p1_p1) target = $region7", "", "", "", "", "", "", "/ 7")
			lines[len(lines)-1] = " / 7"
			tr, err := execute(t, Options{}, false, lines...)
			require.NoError(t, err)
			if c.want {
				require.Equal(t, n+1+2+1, tr.bundles, "branch, two delay slots, target")
			} else {
				require.Equal(t, n+1+6+1, tr.bundles)
			}
		})
	}
}

// What is not known stays not known, and a branch on it is an error that says where.
func TestUnknown(t *testing.T) {
	for name, program := range map[string]string{
		"load":               "%s1_s1 = sld [smem:[#allocation1]] | %p1_p1 = scmp.eq.s32.totalorder %s1_s1, 0",
		"unknown operation":  "%s1_s1 = smystery.u32 1, 2 | %p1_p1 = scmp.eq.s32.totalorder %s1_s1, 0",
		"vector to scalar":   "%s1_s1 = spop %v3 | %p1_p1 = scmp.eq.s32.totalorder %s1_s1, 0",
		"never written":      "%s1_s1 = smov 1 | %p2_p2 = pneg %p1_p1",
		"floats":             "%p1_p1 = scmp.lt.f32.partialorder 1, 2",
		"two bases":          "%p1_p1 = scmp.lt.s32.totalorder [#allocation1], [#allocation2]",
		"unknown guard":      "%p1_p1 = scmp.eq.s32.totalorder 0, 0 | %s1_s1 = sld [smem:[#allocation1]] | %p2_p2 = scmp.eq.s32.totalorder %s1_s1, 0 | %p1_p1 = scmp.eq.s32.totalorder (%p2_p2), 0, 1",
		"overwritten":        "%s1_s1 = sld [smem:[#allocation9]] | %0 = sst [smem:[#allocation1]] 4 | %0 = sst [smem:[#allocation1 + %s1_s1]] 3 | %s2_s2 = sld [smem:[#allocation1]] | %p1_p1 = scmp.eq.s32.totalorder %s2_s2, 4",
		"overwritten by DMA": "%0 = sst [smem:[#allocation1]] 4 | %0 = dma.hbm_to_smem %s5_s5, 1, [#allocation1], [#allocation3] | %s2_s2 = sld [smem:[#allocation1]] | %p1_p1 = scmp.eq.s32.totalorder %s2_s2, 4",
		"zero divisor":       "%5 = sdivrem.u32 9, 0 /* kDiv */ | %s1_s1 = spop.drf %5 | %p1_p1 = scmp.eq.s32.totalorder %s1_s1, 1",
		"doubtful division":  "%s1_s1 = sld [smem:[#allocation1]] | %p2_p2 = scmp.eq.s32.totalorder %s1_s1, 0 | %5 = sdivrem.u32 (%p2_p2), 9, 3 /* kDiv */ | %6 = sdivrem.u32 9, 3 /* kDiv */ | %s2_s2 = spop.drf %6 | %p1_p1 = scmp.eq.s32.totalorder %s2_s2, 3",
		"carry of unknown":   "%s1_s1 = sld [smem:[#allocation1]] | %p1_p1 = sc.u32 %s1_s1, 1",
	} {
		t.Run(name, func(t *testing.T) {
			lines := append(strings.Split(program, " | "), "%0 = sbr.rel (%p1_p1) target = $region7", "", "", "", " / 7")
			_, err := execute(t, Options{}, false, lines...)
			require.ErrorContains(t, err, "schedule not understood: file:")
			require.ErrorContains(t, err, "on a predicate that only a run would tell")
		})
	}
}

func TestLoopsAndDelays(t *testing.T) {
	tr, err := execute(t, Options{}, false,
		"%s1_s1 = smov 0",
		"%s1_s1 = sadd.s32 %s1_s1, 1 ;; %1 = vdelay 3 / 4",
		"%p1_p1 = scmp.lt.s32.totalorder %s1_s1, 10",
		"%2 = sbr.rel (%p1_p1) target = $region4",
		"", "", "")
	require.NoError(t, err)
	require.Equal(t, []int64{1, 10, 10, 10, 10, 10, 1}, tr.counts)
	require.EqualValues(t, 52, tr.bundles)
	require.EqualValues(t, 52+10*3, tr.cycles)

	_, err = execute(t, Options{}, false, "%1 = sbr.rel target = $region4 / 4", "", "")
	require.ErrorContains(t, err, "still running after 1000 bundles")
	_, err = execute(t, Options{}, false, "%1 = sbr.rel target = $region4 / 4")
	require.ErrorContains(t, err, "ends in the delay slots of a branch")
	_, err = execute(t, Options{}, false, "%1 = sbr.rel target = $region4", "%1 = sbr.rel target = $region4", "", " / 4")
	require.ErrorContains(t, err, "branch taken in the delay slots of another")
}

// A matmul that comes while its unit is held waits; other units and the weight port do not hold it up.
func TestMatrixUnits(t *testing.T) {
	tr, err := execute(t, Options{}, false,
		"%1 = vmatmul.mubr.bf16.gmra.mxu0 %v1", // issues at 1, holds unit 0 to 11
		"%1 = vmatmul.mubr.bf16.gmra.mxu1 %v1", // 2, unit 1 to 12
		"%1 = vmatmul.mubr.f32.gmra.mxu0 %v1",  // waits for 11, to 16
		"%1 = vmatmul.mubr.f32.gmra.mxu0 %v1",  // waits for 16, to 21
		"%1 = vmatpush1.bf16.msra.mxu0 %v1",    // 17, port to 21
		"%1 = vmatpush1.bf16.msra.mxu0 %v1",    // waits for 21
		"%1 = vmatprep.mubr.bf16.mxu0 %v1",     // 22
	)
	require.NoError(t, err)
	require.Equal(t, []int64{0, 0, 8, 4, 0, 3, 0}, tr.waits)
	require.EqualValues(t, 22, tr.cycles)
	require.Equal(t, []int64{20, 10}, tr.busy[:2])
}

// The top-level program falls through a forward branch on the runtime's state; a loop on it is an error there too.
func TestTopLevel(t *testing.T) {
	unknown := []string{"%s1_s1 = sld [smem:[#allocation1]] / 4", "%p1_p1 = scmp.eq.s32.totalorder %s1_s1, 0"}
	tr, err := execute(t, Options{}, true, append(unknown, "%2 = sbr.rel (%p1_p1) target = $region5", "", "", "", " / 5")...)
	require.NoError(t, err)
	require.EqualValues(t, 7, tr.bundles)
	_, err = execute(t, Options{}, true, append(unknown, "%2 = sbr.rel (%p1_p1) target = $region4", "", "")...)
	require.ErrorContains(t, err, "schedule not understood")
}

func TestTransfers(t *testing.T) {
	tr, err := execute(t, Options{}, false,
		"%p1_p1 = scmp.eq.s32.totalorder 0, 0",
		"%1 = dma.hbm_to_vmem [thread:$0]  (!%p1_p1), /*hbm=*/%s1_s1, /*size_in_granules=*/100, /*vmem=*/%s2_s2, /*dst_syncflagno=*/%s3_s3",
		"%1 = dma.hbm_to_vmem [thread:$0]  (%p1_p1), /*hbm=*/%s1_s1, /*size_in_granules=*/10, /*vmem=*/%s2_s2, /*dst_syncflagno=*/%s3_s3",
		"%1 = dma.vmem_to_hbm /*vmem=*/%s1_s1, /*size_in_granules=*/2, /*hbm=*/%s2_s2, /*dst_syncflagno=*/%s3_s3",
		"%1 = dma.hbm_to_hbm %s1_s1, 1, %s2_s2, %s3_s3",
		"%1 = dma.vmem_to_vmem %s1_s1, 50, %s2_s2, %s3_s3",
		"%1 = dma.hbm_to_vmem %s1_s1, %s9_s9, %s2_s2, [#allocation4]",
		"%1 = dma.done.wait [#allocation4], 7",
	)
	require.NoError(t, err)
	require.EqualValues(t, (10+2+2+7)*granule, tr.hbmBytes)
	tr, err = execute(t, Options{}, false, "%1 = dma.hbm_to_vmem %s1_s1, %s9_s9, %s2_s2, [#allocation4]")
	require.NoError(t, err)
	require.EqualValues(t, -1, tr.hbmBytes)
}

// An op costs its cycles times its calls, through calls within loops and within ops.
func TestCalls(t *testing.T) {
	dir := t.TempDir()
	write := func(op string, lines ...string) {
		use := "== CAPACITY:\nMXU, SALU\n2 2\n== UTILIZATION:\n" + strings.Repeat("0 1\n", len(lines))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "12-"+op+"-02-final_bundles.txt"), []byte(assemble(lines...)), 0o644))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "12-"+op+"-00-final_hlo-static-per-bundle-utilization.txt"), []byte(use), 0o644))
	}
	write("TLP",
		"%1 = inlined_call /* <late-initialization> */",
		"%s1_s1 = smov 0",
		"%s1_s1 = sadd.s32 %s1_s1, 1 ;; %1 = inlined_call %s3_s3 /* %outer.1 = fusion(%a, %b) */ / 4",
		"%p1_p1 = scmp.lt.s32.totalorder %s1_s1, 3",
		"%2 = sbr.rel (%p1_p1) target = $region4", "", "",
		"%1 = inlined_call /* %leaf = copy(%a) */")
	write("outer.1", "%1 = inlined_call /* %leaf = copy(%a) */", "%1 = inlined_call /* %leaf = copy(%a) */", "")
	write("leaf", "", "", "", "", "%1 = vdelay 5")
	r, err := Options{}.Analyze(dir, testTarget)
	require.NoError(t, err)
	require.EqualValues(t, 2+3*5+1, r.TopLevel)
	require.Equal(t, r.TopLevel+3*3+7*10, r.Cycles)
	require.Equal(t, "leaf", r.Ops[0].Name)
	require.EqualValues(t, 7, r.Ops[0].Calls)
	require.EqualValues(t, 10, r.Ops[0].Cycles)
	require.EqualValues(t, 3, r.Ops[1].Calls)
	require.EqualValues(t, -1, r.VMEM)
	require.Equal(t, []Slot{{"MXU", 0, 10}, {"SALU", 5, 10}}, r.Ops[0].Slots)

	// A second way to the same op multiplies what that op calls.
	write("other", "%1 = inlined_call /* %outer.1 = fusion(%a, %b) */", "")
	write("TLP", "%1 = inlined_call /* %outer.1 = fusion(%a, %b) */", "%1 = inlined_call /* %other = fusion(%a) */", "%1 = inlined_call /* %other = fusion(%a) */")
	r, err = Options{}.Analyze(dir, testTarget)
	require.NoError(t, err)
	require.EqualValues(t, 3+3*3+2*2+6*10, r.Cycles)
	require.EqualValues(t, 3+3*3+2*2+6*5, r.Bundles)

	write("leaf", "%1 = inlined_call /* %outer.1 = fusion(%a, %b) */")
	_, err = Options{}.Analyze(dir, testTarget)
	require.ErrorContains(t, err, "outer.1 calls itself through TLP, outer.1, leaf")
}

func TestDecodeErrors(t *testing.T) {
	for ins, want := range map[string]string{
		"%1 = sbr.rel (%p1_p1) target = $region9": "branch to region 9, which does not start anywhere",
		"%1 = sbr.abs (%p1_p1) 17":                "branch without a region",
		"%1 = sbr.rel (%s1_s1) target = $region4": "is not a predicate register",
		"%1 = shalt":                                       "control transfer of an unknown kind",
		"%s1_s1 = sadd.s32 1":                              "want 2 operands",
		"%s1_s1 = sadd.s32 1, ":                            "missing operand",
		"%1 = sst [smem:[#allocation1 3":                   "address is not closed",
		"%1 = vdelay many":                                 "not a number of cycles",
		"%1 = vmatmul.bf16.mxu9 %v1":                       `matrix unit "mxu9"`,
		"%s1_s1 = int_to_ptr.hbm":                          "missing operand",
		"%1 = dma.hbm_to_vmem %s1_s1, 3":                   "want source, size, destination",
		"%1 = inlined_call":                                "no comment tells which op",
		"%s1_s1 = inlined_call_operand.hbm [shape: f32[]]": "operand without an index",
	} {
		_, err := execute(t, Options{}, false, "", ins+" / 4", "")
		require.ErrorContains(t, err, "schedule not understood: file:0x1: ", ins)
		require.ErrorContains(t, err, want, ins)
	}
}
