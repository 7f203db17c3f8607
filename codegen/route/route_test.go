package route_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/codegen/pass"
	"github.com/gdngen/gdngen/codegen/route"
	"github.com/gdngen/gdngen/codegen/tpu"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/build"
	"github.com/gdngen/gdngen/gdn/truth"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/array"
	"github.com/gdngen/gdngen/ir/interp"
	"github.com/gdngen/gdngen/ir/target"
)

func spec(t *testing.T, text string) gdn.Spec {
	t.Helper()
	s, err := gdn.Parse(text)
	require.NoError(t, err)
	return s
}

func variant(t *testing.T, text string) gdn.Variant {
	t.Helper()
	v, err := gdn.ParseVariant(text)
	require.NoError(t, err)
	return v
}

// What a route does to a module before it is emitted changes no result of the interpreter.
func TestTransformsKeepResults(t *testing.T) {
	s := spec(t, "t=40,hk=1,hv=2,k=128,v=128,init")
	class, err := truth.LookupClass("random")
	require.NoError(t, err)
	inputs, err := class.Generate(s, 1)
	require.NoError(t, err)
	for _, text := range []string{"default,chunk=16", "bf16x3,chunk=32", "token"} {
		m, err := build.Module(s, variant(t, text))
		require.NoError(t, err)
		want, err := interp.Run(m, inputs, interp.Options{})
		require.NoError(t, err)
		for _, r := range route.Routes {
			n, err := r.Transform(m)
			if r.GPU {
				require.ErrorContains(t, err, "written from a spec")
				continue
			}
			require.NoError(t, err, "%s by %s", r.Name(), text)
			got, err := interp.Run(n, inputs, interp.Options{})
			require.NoError(t, err, "%s by %s", r.Name(), text)
			require.Equal(t, want, got, "%s by %s", r.Name(), text)
		}
	}
}

// Decode steps as kernels agree with the float64 reference: one or a few tokens, both layouts of the state and both of its types,
// states in order or in a pool, of which some sequences have none and the rest stays as it is, with states to start from named, and a
// state after each token of a window.
func TestDecodeKernels(t *testing.T) {
	class, err := truth.LookupClass("reset.cos.9")
	require.NoError(t, err)
	for _, text := range []string{
		"b=4,t=1,init", "b=4,t=1,init,state=vk", "b=1,t=1,init,state=vk,inplace", "b=3,t=3,init,gates=fused", "b=4,t=5,init,state=vk,l2norm",
		"b=4,t=1", "b=4,t=1,init,statedtype=bf16", "b=4,t=2,init,state=vk,statedtype=bf16,gates=fused,gatedtype=bf16",
		"b=5,t=1,init,pool=7", "b=5,t=2,init,pool=7,state=vk,gates=fused,inplace", "b=4,t=1,init,pool=2,inplace,statedtype=bf16",
		"b=5,t=1,init,pool=7,inplace,read", "b=5,t=2,init,pool=12,read,window,inplace", "b=4,t=3,init,pool=15,state=vk,gates=fused,inplace,read,window,statedtype=bf16",
		"b=3,t=5,init,pool=20,state=vk,l2norm,read,window,rule=kda", "b=4,t=1,init,pool=6,state=vk,inplace,read,rule=gla",
		"b=5,t=1,init,pool=7,inplace,gates=fused,l2norm,conv=4,convrows=4,convstate", "b=4,t=1,init,pool=6,read,l2norm,conv=4,convbias,convstate,state=vk,statedtype=bf16",
		"b=4,t=3,init,pool=15,inplace,read,window,gates=fused,l2norm,conv=4,convrows=4,convstate,convbias", "b=3,t=2,init,pool=8,l2norm,read,window,conv=3,convstate,rule=kda,state=vk",
	} {
		s := spec(t, "hk=1,hv=2,k=128,v=128,dtype=bf16,"+text)
		inputs, err := class.Generate(s, 1)
		require.NoError(t, err)
		want, err := truth.Reference(s, inputs)
		require.NoError(t, err)
		for _, name := range []string{"decode", "decode-f32", "token-vector", "cpu-decode"} {
			v := variant(t, name)
			m, err := build.Module(s, v)
			require.NoError(t, err)
			k, err := route.Kernels(m)
			require.NoError(t, err, "%s by %s", s, name)
			got, err := interp.Run(k, inputs, interp.Options{})
			require.NoError(t, err, "%s by %s", s, name)
			for _, o := range s.Outputs() {
				off, limit, err := class.Error(s, v.Precision().String(), o, got, want)
				require.NoError(t, err)
				require.LessOrEqual(t, off, limit, "%s of %s by %s", o.Name, s, name)
			}
		}
	}
}

// A kernel of one point copies its states in pieces: work on the first begins before the last has come, what is made leaves while others come, and no
// bit of its results changes, in place either.
func TestPieces(t *testing.T) {
	class, err := truth.LookupClass("reset.cos.9")
	require.NoError(t, err)
	for _, row := range []struct {
		spec   string
		pieces int
	}{
		{"b=1,hv=4,dtype=bf16", 2},
		{"b=1,hv=8,dtype=bf16,state=vk,gates=fused,inplace", 4},
		{"b=2,hv=4,dtype=bf16,inplace", 4},
		{"b=1,hv=4,dtype=f32", 2},
		{"b=1,hv=4,dtype=bf16,rule=kda,inplace", 2},
		{"b=1,hv=2,dtype=bf16", 0},        // one piece would be all
		{"b=1,hv=4,dtype=bf16,pool=3", 0}, // a state is looked up
		{"b=1,hv=4,dtype=bf16,inplace,l2norm", 2},
	} {
		s := spec(t, "t=1,hk=2,k=128,v=128,init,"+row.spec)
		inputs, err := class.Generate(s, 1)
		require.NoError(t, err)
		m, err := build.Module(s, variant(t, "decode,hbm=yes"))
		require.NoError(t, err, s)
		kernels, err := route.Kernels(m)
		require.NoError(t, err, s)
		tiles, err := pass.Apply(m, pass.Tiles...)
		require.NoError(t, err, s)
		want, err := interp.Run(tiles, inputs, interp.Options{})
		require.NoError(t, err, s)
		got, err := interp.Run(kernels, inputs, interp.Options{})
		require.NoError(t, err, s)
		require.Equal(t, want, got, s)

		came, left, at, pieces := 0, 0, 0, 0 // where the last piece has come, and where the first one leaves
		kernels.Body.Walk(func(in *ir.Instr) {
			if at++; len(in.Attrs.Dims) != 4 || !slices.Equal(in.Args[0].Type.Shape, in.Args[1].Type.Shape) {
				return
			}
			switch leaves := in.Args[1].Type.Space == ir.HBM; {
			case in.Op == ir.OpDMAWait && !leaves:
				pieces, came = pieces+1, at
			case in.Op == ir.OpDMAStart && leaves && left == 0:
				left = at
			}
		})
		require.Equal(t, row.pieces, pieces, s)
		require.True(t, pieces < 4 || left < came, s)
	}
}

// How the steps of a kernel are ordered and overlap changes no bit of its results.
func TestSchedulesKeepResults(t *testing.T) {
	for _, row := range []struct {
		spec, variant, plain string
		changes              []string
	}{
		{"t=700,hk=1,hv=2,k=128,v=128,dtype=bf16,init", "tpu", "phases_before=0,steps=1,head_group=0",
			[]string{"interleave=yes", "interleave=no,prologue_end=100", "interleave=yes,prologue_end=60,state_delay=20,head_group=1", "phases_before=1,prologue_end=80,head_group=4", "interleave=yes,steps=4", "phases_before=1,steps=1,interleave=yes"}},
		{"t=256,hk=2,hv=4,k=64,v=64,dtype=bf16,init,direction=backward", "tpu-train,chunk=64", "bwd.phases_after=0,bwd.phases_before=0,bwd.steps=1,bwd.head_group=0",
			[]string{"bwd.head_skew=2", "bwd.head_skew=1,bwd.head_group=1,bwd.state_delay=10", "bwd.head_skew=3,bwd.phases_before=0,bwd.steps=1", "bwd.head_skew=0,bwd.state_delay=20"}},
	} {
		t.Run(row.variant, func(t *testing.T) {
			t.Parallel()
			s := spec(t, row.spec)
			class, err := truth.LookupClass("cos.9")
			require.NoError(t, err)
			inputs, err := class.Generate(s, 1)
			require.NoError(t, err)
			base := variant(t, row.variant)
			results := func(changes string) any {
				v := base
				for _, c := range strings.Split(changes, ",") {
					name, value, _ := strings.Cut(c, "=")
					v, err = v.With(name, value)
					require.NoError(t, err)
				}
				m, err := build.Module(s, v)
				require.NoError(t, err, changes)
				m, err = route.Kernels(m)
				require.NoError(t, err, changes)
				p, err := ir.Parse(m.String())
				require.NoError(t, err, changes)
				require.Equal(t, m.Hash(), p.Hash(), changes)
				got, err := interp.Run(m, inputs, interp.Options{})
				require.NoError(t, err, changes)
				return got
			}
			want := results(row.plain)
			for _, changes := range row.changes {
				require.Equal(t, want, results(changes), changes)
			}
		})
	}
}

// The chain through the state of a backward kernel has a phase of its own, between what needs no state and what makes none.
func TestBackwardPhases(t *testing.T) {
	for _, name := range []string{"tpu-train", "tpu-train-x3"} {
		_, m, err := build.Training(spec(t, "t=512,hk=1,hv=2,k=128,v=128,dtype=bf16"), variant(t, name))
		require.NoError(t, err)
		m, err = pass.Apply(m, pass.Tiles...)
		require.NoError(t, err)
		_, tasks, err := tpu.Places(m)
		require.NoError(t, err)
		phases := map[string]map[int]bool{}
		for in, task := range tasks {
			if in.Op == ir.OpDot {
				if phases[task.Task.Stage] == nil {
					phases[task.Task.Stage] = map[int]bool{}
				}
				phases[task.Task.Stage][task.Phase] = true
			}
		}
		for stage, phase := range map[string]int{"products": 0, "dq": 2, "dk": 2} {
			require.Equal(t, map[int]bool{phase: true}, phases[stage], "%s: %s", name, stage)
		}
		require.True(t, phases["state"][1] && !phases["state"][2], "%s: %v", name, phases["state"])
	}
}

// In a file states are set in the second step where the first meets none, from a window that is one step late, and results are the same.
func TestLateStates(t *testing.T) {
	class, err := truth.LookupClass("random")
	require.NoError(t, err)
	for _, row := range []struct {
		spec, variant string
		late          bool
	}{
		{"t=300", "tpu-long", true},
		{"b=2,t=32,inplace", "tpu-long", true}, // the second step is the last
		{"t=200", "tpu-long,phases_before=2,chunks=2,prefetch=blocks", true},
		{"t=200", "tpu-long,phases_before=0,chunks=1", false}, // each step meets states
		{"t=200,direction=train", "tpu-train-long", true},
	} {
		s := spec(t, "hk=1,hv=2,k=128,v=128,dtype=bf16,init,"+row.spec)
		inputs, err := class.Generate(s, 1)
		require.NoError(t, err)
		m, err := build.Module(s, variant(t, row.variant+",chunk=32,mergepairs=0"))
		require.NoError(t, err)
		m, err = pass.Apply(m, pass.Tiles...)
		require.NoError(t, err)
		var results []map[string]*array.Array
		for i, schedule := range []func(*ir.Module) (*ir.Module, error){
			tpu.Pipeline,
			func(m *ir.Module) (*ir.Module, error) { k, _, err := tpu.Places(m); return k, err },
		} {
			k, err := schedule(m)
			require.NoError(t, err, row)
			require.Equal(t, i == 1 && row.late, strings.Contains(k.String(), "clamp(c-1,0),0,0)"), row)
			got, err := interp.Run(k, inputs, interp.Options{})
			require.NoError(t, err, row)
			results = append(results, got)
		}
		require.Equal(t, results[0], results[1], row)
	}
}

// Packed sequences by aligned blocks, as kernels whose steps overlap, and as batch rows, agree with the float64 reference: sequences
// that share blocks, long ones, empty ones at either end, both conventions for those, with and without initial states.
func TestPackedKernels(t *testing.T) {
	class, err := truth.LookupClass("reset.cos.9")
	require.NoError(t, err)
	var variants []gdn.Variant
	for _, text := range []string{"tpu-packed,chunks=1,prefetch=dma", "tpu-packed,chunks=2,prefetch=blocks", "tpu-packed,chunks=4,prefetch=blocks", "tpu-packed,chunks=4,prefetch=dma", "tpu-packed,chunks=2,phases_before=2,prefetch=dma", "tpu-packed,phases_before=0", "tpu-long,pack=masked,batch=4", "tpu-long,pack=masked,phases_before=0"} {
		variants = append(variants, variant(t, text+",chunk=32,mergepairs=0"))
	}
	for _, row := range []struct {
		spec string
		cu   []int64
	}{
		{"t=150,seqs=3,init,state=vk,packed,gates=fused,gatedtype=bf16", []int64{0, 40, 41, 150}},
		{"t=150,seqs=7,init,empty=zero,inplace", []int64{0, 0, 64, 64, 96, 99, 150, 150}},
		{"t=150,seqs=7,init,statedtype=bf16", []int64{0, 0, 64, 64, 96, 99, 150, 150}},
		{"t=96,seqs=4,state=vk,l2norm", []int64{0, 5, 20, 20, 96}},
		{"t=33,seqs=1,init,final=false", []int64{0, 33}},
		{"t=64,seqs=9,init,empty=zero,inplace", []int64{0, 1, 2, 3, 4, 31, 32, 33, 63, 64}},
	} {
		s := spec(t, "hk=1,hv=2,k=128,v=128,dtype=bf16,"+row.spec)
		inputs, err := class.Generate(s, 1)
		require.NoError(t, err)
		inputs["cu_seqlens"] = array.FromInt64s(ir.I64, []int{len(row.cu)}, row.cu)
		want, err := truth.Reference(s, inputs)
		require.NoError(t, err)
		for _, v := range variants {
			m, err := build.Module(s, v)
			require.NoError(t, err)
			k, err := route.Kernels(m)
			require.NoError(t, err, s)
			for _, p := range []*ir.Module{m, k} {
				got, err := interp.Run(p, inputs, interp.Options{})
				require.NoError(t, err, s)
				for _, o := range s.Outputs() {
					limit, err := class.Limit(s, v.Precision().String(), o.Type.DType)
					require.NoError(t, err)
					require.LessOrEqual(t, array.Compare(got[o.Name], want[o.Name]).RelMax, limit, "%s of %s by %s", o.Name, s, v)
				}
			}
		}
	}
}

// A kernel that copies the blocks of its tokens itself gives what windows give, to the bit; where nothing is to be copied it is the same
// program.
func TestCopiedTokens(t *testing.T) {
	class, err := truth.LookupClass("random")
	require.NoError(t, err)
	for _, row := range []struct {
		spec, variant string
		same          bool
	}{
		{"t=300", "tpu-long", false},
		{"t=1024,hk=2", "tpu-long,chunk=128", false}, // blocks in parts
		{"t=300,init,l2norm,gates=fused", "tpu-long,phases_before=2,chunks=2", false},
		{"b=2,t=200", "tpu-long,batch=2,chunks=1", false},
		{"t=90", "tpu-long,phases_before=2,chunks=1", false},
		{"b=2,t=200", "tpu-long,batch=1", true},
		{"t=128", "tpu-long", true},
		{"t=200", "tpu,heads=1,layout=bhtd", true},
		{"t=200,seqs=3", "tpu-long", true},
		{"t=200,direction=train", "tpu-train-long", false},
	} {
		text := "hv=2,k=128,v=128,dtype=bf16," + row.spec
		if !strings.Contains(text, "hk=") {
			text += ",hk=1"
		}
		s := spec(t, text)
		inputs, err := class.Generate(s, 1)
		require.NoError(t, err)
		var results []map[string]*array.Array
		var programs []string
		for _, prefetch := range []string{"blocks", "dma"} {
			text := row.variant + ",prefetch=" + prefetch
			if !strings.Contains(text, ",chunk=") {
				text += ",chunk=32,mergepairs=0"
			}
			m, err := build.Module(s, variant(t, text))
			require.NoError(t, err)
			k, err := route.Kernels(m)
			require.NoError(t, err, row)
			got, err := interp.Run(k, inputs, interp.Options{})
			require.NoError(t, err, row)
			results, programs = append(results, got), append(programs, k.String())
		}
		require.Equal(t, row.same, programs[0] == programs[1], row)
		for _, o := range s.Outputs() {
			require.Equal(t, results[0][o.Name].Data, results[1][o.Name].Data, "%s of %v", o.Name, row)
		}
	}
}

// Batch rows that follow one another give the numbers of rows apart to the bit: each begins with its own state, whether the step that begins it is of
// many or few, of one chunk or several, and rows interleaved or not.
func TestChainedRows(t *testing.T) {
	class, err := truth.LookupClass("random")
	require.NoError(t, err)
	for _, row := range []struct{ spec, variant string }{
		{"b=3,t=200,init", "tpu-long,chunks=2,prefetch=dma"},              // rows of four steps, the last of them padded
		{"b=3,t=96,init", "tpu-long,chunks=1,prefetch=dma"},               // of three: no power of two
		{"b=5,t=60,init", "tpu-long,chunks=2,prefetch=dma"},               // of one
		{"b=2,t=64,init", "tpu-long,chunks=1,prefetch=dma"},               // four steps in all: a body for each
		{"b=6,t=90,init", "tpu-long,batch=2,chunks=1,prefetch=dma"},       // rows 0 and 3, 1 and 4, 2 and 5
		{"b=4,t=200", "tpu-long,batch=2,chunks=4,prefetch=dma,hbm=yes"},   // states that begin as zeros
		{"b=3,t=200,init", "tpu,steps=2"},                                 // two chunks a step, one after another
		{"b=3,t=200,init,gates=fused,l2norm,state=vk", "tpu-long"},        // blocks by windows
		{"b=3,t=200,hk=2,hv=4,init", "tpu-long,heads=2,chunks=2"},         // two programs
		{"b=3,t=200,init,direction=train", "tpu-train-long,prefetch=dma"}, // the forward kernel, and what it keeps
		{"b=3,t=200,init,rule=kda", "tpu,batch=1"},
	} {
		text := "k=128,v=128,dtype=bf16," + row.spec
		if !strings.Contains(text, "hk=") {
			text += ",hk=1,hv=2"
		}
		s := spec(t, text)
		inputs, err := class.Generate(s, 1)
		require.NoError(t, err)
		var results []map[string]*array.Array
		var programs []string
		for _, chain := range []string{"no", "yes"} {
			m, err := build.Module(s, variant(t, row.variant+",chunk=32,mergepairs=0,persistent_rows="+chain))
			require.NoError(t, err)
			k, err := route.Kernels(m)
			require.NoError(t, err, row)
			for _, x := range []*ir.Module{m, k} {
				got, err := interp.Run(x, inputs, interp.Options{})
				require.NoError(t, err, row)
				results = append(results, got)
			}
			parsed, err := ir.Parse(m.String())
			require.NoError(t, err, row)
			require.Equal(t, m.String(), parsed.String())
			programs = append(programs, m.String())
		}
		require.NotEqual(t, programs[0], programs[1], row)
		for _, o := range s.Outputs() {
			require.Equal(t, results[0][o.Name].Data, results[2][o.Name].Data, "%s of %v, as built", o.Name, row)
			require.Equal(t, results[1][o.Name].Data, results[3][o.Name].Data, "%s of %v", o.Name, row)
		}
	}
}

// Rows do not follow one another where something else than a state passes from chunk to chunk, or where there is one.
func TestUnchainedRows(t *testing.T) {
	for _, row := range []struct{ spec, variant string }{
		{"b=1,t=200", "tpu-long"},
		{"b=4,t=200", "tpu-long,batch=4"},
		{"b=2,t=200,conv=4,l2norm", "tpu-long"},
		{"b=1,t=200,seqs=3", "tpu-long"},
		{"b=2,t=200,every=64", "tpu-long,chunk=64"},
	} {
		s := spec(t, "hk=1,hv=2,k=128,v=128,dtype=bf16,"+row.spec)
		require.False(t, variant(t, row.variant+",persistent_rows=yes").Fit(s).Mapping.PersistentRows, row)
	}
}

// What a forward kernel keeps for the backward one stays in windows where it copies its other blocks itself: the compiler may leave it in vector memory.
func TestKeptInWindows(t *testing.T) {
	m, err := build.Module(spec(t, "t=200,hk=1,hv=2,k=128,v=128,dtype=bf16,direction=train"), variant(t, "tpu-train-long,chunk=32,mergepairs=0,prefetch=dma"))
	require.NoError(t, err)
	k, err := route.Kernels(m)
	require.NoError(t, err)
	var kernels []*ir.Instr
	for _, in := range k.Body.Instrs {
		if in.Op == ir.OpKernel {
			kernels = append(kernels, in)
		}
	}
	require.Len(t, kernels, 2)
	copied, kept := 0, 0
	for i, w := range kernels[0].Attrs.Grid.Out {
		switch {
		case slices.Contains(kernels[1].Args, kernels[0].Results[i]):
			require.NotEmpty(t, w.Block, "output %d", i)
			kept++
		case len(w.Block) == 0:
			copied++
		}
	}
	require.Equal(t, 3, kept)
	require.Positive(t, copied)
}

func TestProgram(t *testing.T) {
	s, v := spec(t, "t=40,hk=1,hv=2,k=128,v=128"), gdn.DefaultVariant()
	target, err := target.Lookup("v6e")
	require.NoError(t, err)
	for _, r := range route.Routes {
		a, err := route.Program(s, v, r.Name(), target)
		if r.GPU {
			require.ErrorContains(t, err, "written from a spec")
			continue
		}
		require.NoError(t, err, r.Name())
		entry := "@main(%q: tensor<1x40x1x128xf32>, %k:"
		if r.Name() == "pallas" {
			entry = "def main(sizes: _Sizes, *args: jax.Array"
		}
		require.Contains(t, a.Text, entry)
		require.Equal(t, r.TPU, len(a.Kernels) > 0)
		require.NotEmpty(t, r.Doc)
	}
	_, err = route.Program(s, v, "mosaik", target)
	require.ErrorContains(t, err, `unknown backend "mosaik" (known: stablehlo mosaic pallas triton ptx)`)
	_, err = route.Program(s, v, "mosaic", nil)
	require.ErrorContains(t, err, "needs a target")
	v.Chunk = 7
	_, err = route.Program(s, v, "stablehlo", nil)
	require.ErrorContains(t, err, "chunk")
}

// What is there after a step follows from the step before by one pass, and the last step gives the kernels.
func TestAfter(t *testing.T) {
	f := route.NewForm(spec(t, "tiny"), variant(t, "tpu"))
	m, err := f.Build()
	require.NoError(t, err)
	require.Equal(t, []string{"precision", "fold", "cse", "dce", "tile", "cse2", "dce2", "pipeline"}, route.Steps())
	at := m
	for _, step := range route.Steps() {
		p, err := pass.Find(strings.TrimSuffix(step, "2"))
		require.NoError(t, err)
		at, err = p.Run(at)
		require.NoError(t, err)
		after, err := route.After(m, step)
		require.NoError(t, err)
		require.Equal(t, at.String(), after.String(), step)
	}
	kernels, err := f.Kernels()
	require.NoError(t, err)
	require.Equal(t, kernels.String(), at.String())
	plain, err := route.After(m, "batch")
	require.NoError(t, err)
	plain.Body.Walk(func(in *ir.Instr) { require.NotContains(t, []ir.Op{ir.OpGrid, ir.OpKernel}, in.Op) })
	_, err = route.After(m, "nope")
	require.ErrorContains(t, err, "in order")
}
