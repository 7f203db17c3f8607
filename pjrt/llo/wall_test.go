package llo

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/ir/target"
)

// generations are the targets of the columns below.
var generations = []string{"v5e", "v6e", "tpu7x"}

// profiled is what the compiler's own static profile of each microkernel says, less its transfers: estimated_cycles minus what its
// critical path spends between the start of a transfer and the wait for it.
var profiled = map[string][3]int64{
	"valu":       {20, 27, 17},
	"exp":        {25, 38, 22},
	"log":        {25, 38, 22},
	"roll":       {131, 146, 137},
	"bcast":      {131, 146, 139},
	"lsum":       {132, 160, 151},
	"d_bf16":     {183, 255, 255},
	"d_bf16_256": {196, 290, 289},
	"d_f32":      {175, 249, 254},
	"t_f32_8":    {297, 203, 191},
	"t_f32":      {301, 208, 200},
	"t_bf16_32":  {302, 148, 135},
	"t_bf16":     {306, 152, 144},
	"tt":         {468, 335, 331},
}

// microkernels are Pallas kernels of one operation, by target and name.
func microkernels(t *testing.T) map[string]string {
	t.Helper()
	files := map[string]string{}
	for _, f := range archive(t, "wall/micro").Files {
		files[f.Name] = string(f.Data)
	}
	return files
}

// An issued instruction of a microkernel.
type issued struct {
	op *vectorOp
	at int64
}

// straight issues a program without branches, in order, as if nothing came from main memory.
func straight(t *testing.T, text string, target *target.Target) (trace []issued, total int64) {
	t.Helper()
	bundles, err := parseBundles(text)
	require.NoError(t, err)
	p, err := decode("file", bundles, target)
	require.NoError(t, err)
	require.Empty(t, p.odd)
	k := clocksOf(target, len(bundles))[0]
	for i := range p.code {
		require.Nil(t, p.code[i].branch)
		k.issue(i, p.code[i].cycles, p.code[i].vector, func(guard) bool { return true }, func(o operand) int64 { return int64(o.val.num) })
		for _, o := range p.code[i].vector {
			trace = append(trace, issued{o, k.now})
		}
	}
	require.Empty(t, k.fault)
	require.Empty(t, k.leftovers())
	return trace, k.now
}

// Microkernels take what the compiler's own profile says, up to waits of the scalar unit, which the model leaves out.
func TestMicrokernels(t *testing.T) {
	files := microkernels(t)
	for name, cycles := range profiled {
		for i, target := range generations {
			_, total := straight(t, files[target+"/"+name], lookup(t, target))
			require.InDelta(t, cycles[i], total, 6, "%s on %s", name, target)
		}
	}
}

// distance is between the last instruction that match one and the first that match the other.
func distance(trace []issued, from, to func(*vectorOp) bool) int64 {
	last, first := int64(-1), int64(-1)
	for _, x := range trace {
		switch {
		case from(x.op):
			last = x.at
		case to(x.op) && first < 0:
			first = x.at
		}
	}
	return first - last
}

// every is the least distance of two instructions that match.
func every(trace []issued, match func(*vectorOp) bool) int64 {
	least, last := int64(-1), int64(-1)
	for _, x := range trace {
		if !match(x.op) {
			continue
		}
		if d := x.at - last; last >= 0 && (least < 0 || d < least) {
			least = d
		}
		last = x.at
	}
	return least
}

// The distances that the machine keeps in microkernels: from the (last) push to the first pop, between pops, between pushes.
func TestDistances(t *testing.T) {
	files := microkernels(t)
	is := func(kinds ...unitKind) func(*vectorOp) bool {
		return func(o *vectorOp) bool {
			for _, k := range kinds {
				if o.kind == k && o.unit == 0 {
					return true
				}
			}
			return false
		}
	}
	for _, row := range []struct {
		kernel, what string
		from, to     func(*vectorOp) bool // to nil: between instructions that match from
		want         [3]int64
	}{
		{"exp", "transcendental", is(onTransc), is(popTransc), [3]int64{6, 13, 10}},
		{"log", "transcendental", is(onTransc), is(popTransc), [3]int64{6, 13, 10}},
		{"roll", "rotate", is(onLanes), is(popLanes), [3]int64{114, 123, 127}},
		{"bcast", "permute", is(onLanes), is(popLanes), [3]int64{114, 123, 127}},
		{"lsum", "sum over lanes", is(onLanes), is(popLanes), [3]int64{115, 137, 141}},
		{"d_bf16", "product of bf16", is(onMatmul), is(popMatmul, popMatmulAddr), [3]int64{125, 192, 211}},
		{"d_f32", "product of f32", is(onMatmul), is(popMatmul, popMatmulAddr), [3]int64{125, 192, 211}},
		{"d_bf16", "weights of bf16", is(onPush), nil, [3]int64{4, 4, 4}},
		{"t_f32_8", "transpose of a register", is(onTranspose), is(popLanes), [3]int64{164, 124, 128}},
		{"t_f32", "transpose of 16 registers", is(onTranspose), is(popLanes), [3]int64{164 - 8*15, 124 - 4*15, 128 - 4*15}},
		{"t_f32", "pushes of a transpose", is(onTranspose), nil, [3]int64{8, 4, 4}},
		{"t_f32", "pops of a transpose", is(popLanes), nil, [3]int64{8, 4, 4}},
	} {
		for i, target := range generations {
			trace, _ := straight(t, files[target+"/"+row.kernel], lookup(t, target))
			got := every(trace, row.from)
			if row.to != nil {
				got = distance(trace, row.from, row.to)
			}
			require.Equal(t, row.want[i], got, "%s on %s", row.what, target)
		}
	}
}

// Kernels against the compiler's own profile: in order without transfers within 4 % of its estimate less what it spends on them, and with
// them. The profile of naive ends within its only step.
func TestWallOfKernels(t *testing.T) {
	for _, row := range []struct {
		kernel             string
		cycles             int64 // throughput, of the kernel alone
		estimated, without int64
	}{
		{"tpu", 51480, 56028, 56028 - 2432 - 529 - 1128},
		{"tpu-x3", 111449, 116401, 116401 - 2432 - 529 - 1128},
		{"p6", 63554, 67380, 67380 - 2481},
		{"naive", 535587, 1310541, 1310541},
	} {
		r, err := Options{}.Analyze(unpack(t, archive(t, "wall/"+row.kernel+"_v6e")), lookup(t, "v6e"))
		require.NoError(t, err)
		op := r.Ops[0]
		require.Equal(t, row.cycles, op.Cycles, row.kernel)
		require.Empty(t, r.Wall.Unknown)
		require.InEpsilon(t, row.without, op.Wall.Latency, .04, row.kernel)
		require.InEpsilon(t, row.estimated, op.Wall.Cycles, .04, row.kernel)
		require.Less(t, op.Wall.Cycles, op.Wall.At85)
		if row.kernel == "tpu" {
			require.InEpsilon(t, row.estimated, op.Wall.Cycles, .02)
			require.InEpsilon(t, 2432+529+1128, op.Wall.Edges, .16, "first fetch and last stores, by the profile")
			require.Zero(t, op.Wall.Inner, "and none between")
		}
		own := r.Wall.Own
		for _, op := range r.Ops {
			own += op.Calls * op.Wall.Own
		}
		require.Equal(t, r.Wall.Cycles, own)
		total := r.Cycles
		for _, part := range r.Parts() {
			require.GreaterOrEqual(t, part.Cycles, int64(0), part.Name)
			total += part.Cycles
		}
		require.Equal(t, r.Wall.Cycles, total)
		var waits int64
		for _, w := range op.Wall.Waits {
			waits += w.Cycles
		}
		require.Equal(t, op.Cycles-op.Stall, op.Wall.Cycles-waits, "%s: what issues is the same", row.kernel)
	}
}

// walk executes bundles as an op of a v6e and gives the clock of peak bandwidth.
func walk(t *testing.T, lines ...string) *clock {
	t.Helper()
	target := lookup(t, "v6e")
	bundles, err := parseBundles(assemble(lines...))
	require.NoError(t, err)
	p, err := decode("file", bundles, target)
	require.NoError(t, err)
	require.Empty(t, p.odd)
	m := &machine{program: p, delaySlots: 4, granule: target.Granule, limit: 1000, clocks: clocksOf(target, len(bundles)),
		scalars: func(int) ([]int64, bool) { return nil, false }}
	_, err = m.run()
	require.NoError(t, err)
	return m.clocks[1]
}

// A copy that is waited for at once costs its fixed part and its bytes: 1 MiB at 1640 GB/s and 1.75 GHz is 1119 cycles.
func TestSynchronousCopy(t *testing.T) {
	start := "%1 = dma.hbm_to_vmem %s1_s1, 32768, %s2_s2, [#allocation4]"
	wait := "%2 = dma.done.wait [#allocation4], 32768"
	k := walk(t, start, wait)
	require.EqualValues(t, 1+546+1119, k.now)
	require.EqualValues(t, 546+1119-1, k.waits[waitRead])
	require.EqualValues(t, 1119, k.channel.busy)

	two := walk(t, start, "%1 = dma.hbm_to_vmem %s1_s1, 16384, %s2_s2, [#allocation4]", "%2 = dma.done.wait [#allocation4], 49152")
	require.EqualValues(t, 1+546+1119+560, two.now, "the second takes the channel after the first")
	hidden := walk(t, start, "%3 = vdelay 3000", wait)
	require.EqualValues(t, 1+3001+1, hidden.now, "what runs meanwhile hides it")
	require.Zero(t, hidden.waits[waitRead])
	write := walk(t, "%1 = dma.vmem_to_hbm %s1_s1, 32768, %s2_s2, [#allocation4]", wait)
	require.EqualValues(t, 1+454+1119, write.now)
}

// Transfers that are under way when an op starts take what of main memory it leaves.
func TestCopyDuringOp(t *testing.T) {
	k := walk(t, "%3 = vdelay 1")
	flag := number(1)
	begin := func() *channel {
		c := newChannel(lookup(t, "v6e"), k.timing, 100)
		c.flags[flag] = []transfer{{granules: 1, done: 1000, passes: 1, kind: waitRead}}
		c.free = 1000
		return c
	}
	c := begin()
	c.yield(0, 800, 200)
	done, kind := c.until(flag, 1)
	require.EqualValues(t, 1200, done)
	require.Equal(t, waitRead, kind)
	c = begin()
	c.yield(0, 2000, 0)
	done, _ = c.until(flag, 1)
	require.EqualValues(t, 1000, done)
	c = begin()
	c.yield(0, 4000, 2000)
	done, _ = c.until(flag, 1)
	require.EqualValues(t, 2000, done, "half of the bandwidth")
}

// A register that a load writes can be used in the next bundle, one that arithmetic writes a bundle later. Guards that do not hold enter
// no results.
func TestInterlocks(t *testing.T) {
	k := walk(t, "%v1_v1 = vld [vmem:[#allocation1]]", "%v2_v2 = vadd.f32 %v1_v1, %v1_v1", "%v3_v3 = vadd.f32 %v2_v2, %v1_v1")
	require.EqualValues(t, 4, k.now)
	require.EqualValues(t, 1, k.waits[waitRegister])
	k = walk(t, "%p1_p1 = scmp.eq.s32.totalorder 0, 1", "%1 = vrcp.f32 (%p1_p1), %v1_v1", "%2 = vrcp.f32 %v2_v2", "%v3_v3 = vpop.erf %2")
	require.EqualValues(t, 3+13, k.now)
	require.Empty(t, k.fault)
	require.Empty(t, k.leftovers())
	for _, op := range transcendentals {
		k = walk(t, "%1 = "+op+".f32 %v1_v1", "%v2_v2 = vpop.erf %1")
		require.EqualValues(t, 1+13, k.now, op)
		require.Empty(t, k.fault, op)
	}
}

// A product of 16 rows of bf16 has four results on v6e, one of 8 rows two: of f32, or from a register that was loaded before.
func TestResultsOfProducts(t *testing.T) {
	for product, results := range map[string]int{"vmatmul.bf16.gmra.mxu1": 4, "vmatmul.f32.gmra.mxu1": 2, "vmatmul.lmr.bf16.gmra.16.mxu1": 2} {
		lines := []string{"%1 = " + product + " %v1_v1"}
		for range results {
			lines = append(lines, "%v2_v2 = vpop.f32.mrf.mxu1")
		}
		k := walk(t, lines...)
		require.Empty(t, k.fault, product)
		require.Empty(t, k.leftovers(), product)
		require.EqualValues(t, 1+192+2*(results-1), k.now, product)
	}
}

// A result that nothing makes, or that nothing takes, is a limit of the model and said.
func TestQueuesOutOfStep(t *testing.T) {
	require.Equal(t, "a result is taken that nothing makes (lane result)", walk(t, "%v1_v1 = vpop.permute.xlu0 %5").fault)
	require.Equal(t, "lane unit 1 has results that nothing takes", walk(t, "%1 = vperm.lane.xlu1 %v1_v1").leftovers())
}

// Generations whose latencies are not known have a throughput.
func TestWithoutTiming(t *testing.T) {
	r, err := offsets.Analyze(unpack(t, archive(t, "varlen_v6e_0.0.51")), lookup(t, "v5p"))
	require.NoError(t, err)
	require.Positive(t, r.Cycles)
	require.Equal(t, Wall{Latency: -1, Cycles: -1, At85: -1, Own: -1, Unknown: "the latencies of v5p are not known: its cycles are throughput alone"}, r.Wall)
	require.EqualValues(t, -1, r.Code.Cold)
}
