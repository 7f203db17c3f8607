package ptx_test

import (
	"cmp"
	"errors"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/codegen/ptx"
	"github.com/gdngen/gdngen/codegen/triton"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/ir/array"
	"github.com/gdngen/gdngen/ir/target"
	"github.com/gdngen/gdngen/pjrt/aot"
	"github.com/gdngen/gdngen/pjrt/gpu"
	"github.com/gdngen/gdngen/pjrt/gpu/thunk"
	"github.com/gdngen/gdngen/pjrt/plugins"
)

func TestMain(m *testing.M) {
	aot.RunWorkerIfAsked()
	os.Exit(m.Run())
}

// tools obtains Triton and the CUDA plugin. Where they can not be had the test is skipped and says why, but never in CI.
func tools(t *testing.T) (*gpu.Toolkit, plugins.CUDATools) {
	t.Helper()
	k, err := gpu.Open(t.Context(), plugins.Options{Progress: os.Stderr})
	var c plugins.CUDATools
	if err == nil {
		c, err = plugins.CUDA(t.Context(), plugins.Options{Progress: os.Stderr})
	}
	if err != nil && os.Getenv("CI") == "" {
		t.Skipf("not tested: %v", err)
	}
	require.NoError(t, err)
	return k, c
}

func lookup(t *testing.T, name string) *target.GPU {
	g, err := target.LookupGPU(name)
	require.NoError(t, err)
	return g
}

// module compiles the kernels of a spec and writes StableHLO around them.
func module(t *testing.T, k *gpu.Toolkit, spec, variant string, g *target.GPU) string {
	t.Helper()
	s, err := gdn.Parse(spec)
	require.NoError(t, err)
	v, err := triton.Parse(variant, s)
	require.NoError(t, err)
	source, err := triton.Source(s, v, "vX")
	require.NoError(t, err)
	launches, err := k.Compile(t.Context(), source, s, g)
	require.NoError(t, err)
	text, err := ptx.Module(s, launches, g)
	require.NoError(t, err)
	return text
}

// A module with PTX compiles for GPUs that are not there. It runs one launch for each of the kernels, and copies states only where it must
// not overwrite those that it was given.
func TestCompile(t *testing.T) {
	k, c := tools(t)
	compiler := aot.New(aot.Options{CUDA: c.Path, Toolkit: c.Toolkit})
	defer compiler.Close()
	for name, x := range map[string]struct {
		spec, variant, gpu string
		launches           []string
		aliases            int
	}{
		"decode":      {"contest-decode,b=2", "auto", "h100", []string{"decode"}, 0},
		"in place":    {"contest-decode,b=2,inplace", "auto", "h100", []string{"decode"}, 1},
		"pool":        {"contest-decode,b=2,pool=5", "auto", "h100", []string{"copy", "decode"}, 1},
		"blackwell":   {"contest-decode,b=2", "auto", "b200", []string{"decode"}, 0},
		"parts":       {"contest-prefill,t=64,seqs=2,hk=1,hv=2,k=32,v=32", "part=1,chunk=16", "h100", []string{"prepare", "summarise", "combine", "scan"}, 1},
		"parts, pool": {"contest-prefill,t=64,seqs=2,hk=1,hv=2,k=32,v=32,pool=4,inplace", "part=1,kernels=one,chunk=16", "h100", []string{"summarise", "combine", "scan"}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			g := lookup(t, x.gpu)
			text := module(t, k, x.spec, x.variant, g)
			require.NoError(t, ptx.AssembleAll(t.Context(), c.PTXAS(), text, g))
			require.Equal(t, x.aliases, strings.Count(text, "output_operand_alias<"))
			dir := t.TempDir()
			r, err := compiler.Compile(t.Context(), aot.Request{Topology: g.Name, Module: text, DumpDir: dir})
			require.NoError(t, err)
			p, err := thunk.Read(dir)
			require.NoError(t, err)
			var launches []string
			p.Walk(func(th *thunk.Thunk) {
				if th.Launches() {
					launches = append(launches, regexp.MustCompile(`[.\d]+$`).ReplaceAllString(cmp.Or(th.Kernel, th.Name), ""))
				}
			})
			require.Equal(t, x.launches, launches)
			require.Positive(t, r.Memory.Arguments)
		})
	}
}

// ptxas is asked first: XLA does not look into PTX, and takes a damaged one.
func TestDamaged(t *testing.T) {
	k, c := tools(t)
	g := lookup(t, "h100")
	text := module(t, k, "contest-decode,b=1", "auto", g)
	require.NoError(t, ptx.AssembleAll(t.Context(), c.PTXAS(), text, g))
	damaged := strings.Replace(text, "fma.rn.f32", "fmo.rn.f32", 1)
	require.NotEqual(t, text, damaged)
	err := ptx.AssembleAll(t.Context(), c.PTXAS(), damaged, g)
	var refused *ptx.Error
	require.ErrorAs(t, err, &refused)
	require.Equal(t, "decode", refused.Kernel)
	require.Contains(t, refused.Output, "'fmo'")
	require.NotContains(t, refused.Output, os.TempDir())

	compiler := aot.New(aot.Options{CUDA: c.Path, Toolkit: c.Toolkit})
	defer compiler.Close()
	_, err = compiler.Compile(t.Context(), aot.Request{Topology: g.Name, Module: damaged})
	require.NoError(t, err, "XLA looks into PTX at a compile now: ptxas need not be asked first")
}

// The writes of the table are the stores of the kernels' text.
func TestWrites(t *testing.T) {
	store := regexp.MustCompile(`tl\.store\((\w+)`)
	seen := map[string]bool{}
	for _, x := range [][2]string{
		{"contest-decode", "auto"}, {"contest-prefill,seqs=2", "part=4"}, {"contest-prefill,seqs=2", "part=0"}, {"contest-prefill,seqs=2,pool=4", "kernels=one,part=2"},
	} {
		s, err := gdn.Parse(x[0])
		require.NoError(t, err)
		v, err := triton.Parse(x[1], s)
		require.NoError(t, err)
		source, err := triton.Source(s, v, "vX")
		require.NoError(t, err)
		for part := range strings.SplitSeq(source, "@triton.jit\n") {
			name, _, _ := strings.Cut(strings.TrimPrefix(part, "def "), "(")
			for _, m := range store.FindAllStringSubmatch(part, -1) {
				require.Contains(t, triton.Writes(name), m[1], name)
				seen[name+" "+m[1]] = true
			}
		}
	}
	for _, name := range []string{"decode", "prepare", "summarise", "combine", "scan"} {
		for _, p := range triton.Writes(name) {
			require.True(t, seen[name+" "+p], "%s never stores to %s", name, p)
		}
	}
}

// A launch that the custom call can not stand for is refused, and says why.
func TestRefused(t *testing.T) {
	s, err := gdn.Parse("contest-decode,b=1")
	require.NoError(t, err)
	g := lookup(t, "h100")
	text := ".visible .entry decode(\n\t.param .u64 a,\n\t.param .u64 b,\n\t.param .u64 c,\n\t.param .u64 d\n)\n.reqntid 32\n{\n}\n"
	of := func(change func(*gpu.Launch)) error {
		l := gpu.Launch{Kernel: "decode", Grid: [3]int{1, 1, 1}, Warps: 1, Capability: 90, PTX: text, Arguments: []gpu.Argument{
			{Parameter: "q", Tensor: "q", DType: "BF16", Shape: []int{1, 1, 4, 128}}, {Parameter: "o", Tensor: "o", DType: "BF16", Shape: []int{1, 1, 8, 128}}}}
		change(&l)
		_, err := ptx.Module(s, []gpu.Launch{l}, g)
		return err
	}
	for want, change := range map[string]func(*gpu.Launch){
		"no kernel for h100 writes final_state":          func(*gpu.Launch) {},
		"and 3 and Triton's 2 pointers":                  func(l *gpu.Launch) { l.Arguments = append(slices.Clone(l.Arguments), l.Arguments[0]) },
		"64 bytes of scratch memory":                     func(l *gpu.Launch) { l.Scratch = 64 },
		"2 kernels, and 1 is expected":                   func(l *gpu.Launch) { l.PTX += text },
		"how many threads":                               func(l *gpu.Launch) { l.PTX = strings.Replace(text, ".reqntid", ".maxntid", 1) },
		"no tensor of a type":                            func(l *gpu.Launch) { l.Arguments[0].Scalar = true },
		"reads buffer 1 before a kernel writes it":       func(l *gpu.Launch) { l.Arguments[0].Tensor = "buffer 1" },
		"takes 300000 bytes of shared memory, and h100 ": func(l *gpu.Launch) { l.Shared = 300000 },
	} {
		require.ErrorContains(t, of(change), want)
	}
	_, err = ptx.Kernels(`stablehlo.custom_call @"__gpu$xla.gpu.ptx"() {backend_config = {kernel_data = "x", name = "y"}}`)
	require.ErrorContains(t, err, "1 calls")
}

// What a device gets follows from the platform of its plugin and its kind; a GPU whose plugin takes no PTX, or computes it wrongly, gets an
// error that says so.
func TestOn(t *testing.T) {
	for _, x := range []struct{ platform, kind, capability, gpu string }{
		{"cuda", "NVIDIA H100 80GB HBM3", "9.0", "h100"}, {"CUDA", "NVIDIA B200", "", "b200"}, {"cuda", "NVIDIA H900", "9.0", "gpu90x114"}, {"cuda", "NVIDIA B310", "10.3", "gpu103x114"},
		{"rocm", "NVIDIA H100 80GB HBM3", "", ""}, {"tpu", "TPU v6 lite", "", ""}, {"cpu", "cpu", "", ""},
	} {
		attributes := map[string]string{"compute_capability": x.capability}
		if strings.HasPrefix(x.gpu, "gpu") {
			attributes["core_count"] = "114"
		}
		g, err := ptx.GPUOf(x.platform, x.kind, attributes)
		require.NoError(t, err)
		require.Equal(t, x.gpu == "", g == nil, x)
		if g != nil {
			require.Equal(t, x.gpu, g.Name)
		}
	}
	_, err := ptx.GPUOf("CUDA", "NVIDIA A100-SXM4-80GB", map[string]string{"compute_capability": "8.0"})
	require.ErrorContains(t, err, "compute capability 8.0, and kernels are for 9.0 and 10.x")
	m, err := ptx.On(t.Context(), nil, plugins.Options{}, nil)
	require.NoError(t, err)
	require.Nil(t, m)
	for want, run := range map[string]func(string, *array.Array) (*array.Array, error){
		"no such call":              func(string, *array.Array) (*array.Array, error) { return nil, errors.New("no such call") },
		"the probe gives 1 for 1 +": func(_ string, x *array.Array) (*array.Array, error) { return x, nil },
	} {
		_, err = ptx.On(t.Context(), lookup(t, "b200"), plugins.Options{}, run)
		require.ErrorIs(t, err, ptx.ErrNotTaken)
		require.ErrorContains(t, err, want)
	}
}

// A maker makes each spec once, and says why there is none of another.
func TestMaker(t *testing.T) {
	tools(t)
	m, err := ptx.NewMaker(t.Context(), lookup(t, "h100"), plugins.Options{})
	require.NoError(t, err)
	s, err := gdn.Parse("contest-decode,b=1")
	require.NoError(t, err)
	text, err := m.Text(t.Context(), s)
	require.NoError(t, err)
	begin := time.Now()
	again, err := m.Text(t.Context(), s)
	require.NoError(t, err)
	require.Equal(t, text, again)
	require.Less(t, time.Since(begin), 100*time.Millisecond)
	require.Equal(t, "f32", m.Precision(s), "a decode step has no products of tensor cores")
	require.Equal(t, "bv=4,warps=1", m.Variant(s))
	s.Direction = gdn.Train
	_, err = m.Text(t.Context(), s)
	require.ErrorContains(t, err, "forward pass alone")
}

// The probe compiles for every GPU, to one launch.
func TestProbe(t *testing.T) {
	_, c := tools(t)
	compiler := aot.New(aot.Options{CUDA: c.Path, Toolkit: c.Toolkit})
	defer compiler.Close()
	for _, g := range target.GPUs() {
		text := ptx.ProbeModule()
		require.NoError(t, ptx.AssembleAll(t.Context(), c.PTXAS(), text, g))
		dir := t.TempDir()
		_, err := compiler.Compile(t.Context(), aot.Request{Topology: g.Name, Module: text, DumpDir: dir})
		require.NoError(t, err)
		p, err := thunk.Read(dir)
		require.NoError(t, err)
		require.NoError(t, ptx.Probed(p.Count(nil, g)))
	}
	require.ErrorContains(t, ptx.Probed(&thunk.Report{}), "something else")
}
