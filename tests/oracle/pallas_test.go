package oracle

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/codegen/pallas"
	"github.com/gdngen/gdngen/codegen/route"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/build"
	"github.com/gdngen/gdngen/gdn/truth"
	"github.com/gdngen/gdngen/internal/rotate"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/array"
	"github.com/gdngen/gdngen/ir/interp"
	"github.com/gdngen/gdngen/ir/target"
)

// quickJAX has JAX run on the CPU, and XLA compile rather than optimise: kernels run a few chunks. On two cores XLA waits forever where loops that
// solve triangles run side by side, so they do not, and it has more threads than cores.
var quickJAX = []string{"JAX_PLATFORMS=cpu", "PJRT_NPROC=8", "XLA_FLAGS=--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true --xla_cpu_multi_thread_eigen=false --xla_cpu_enable_concurrency_optimized_scheduler=false"}

// inputClasses are what every generated file is run on: realistic inputs, correlated keys, one key throughout, strong resets; and of a decay a
// channel adjacent channels of 0 and -30, channels that are cleared, all at the bound.
var inputClasses = []string{"random", "cos.75", "cos.99", "identical", "reset.cos.9", "beta2", "mixed", "cleared", "bound"}

// pallasRows are champions of different structure, each on a work that shows something else: few tokens, sequences, widths that
// fill no registers, raw gates, states turned. With direction=train the gradient is by kernels; plain asks for that in plain JAX.
var pallasRows = []struct {
	name, spec, variant string
	plain, vmap         bool
}{
	{name: "merge-neumann", spec: "b=2,t=40,hk=1,hv=2,k=16,v=24,dtype=f32", variant: "merge-neumann,chunk=16", plain: true, vmap: true},
	{name: "merge-newton", spec: "t=50,hk=2,hv=4,k=16,v=16,dtype=f32,l2norm,init,negeig", variant: "merge-newton,chunk=32"},
	{name: "token", spec: "b=2,t=20,hk=1,hv=2,k=16,v=24,dtype=f32,gates=fused,init,state=vk", variant: "token", plain: true},
	{name: "decode", spec: "b=19,t=1,hk=1,hv=2,k=128,v=128,dtype=bf16,gates=fused,init", variant: "decode"},
	{name: "decode-vk", spec: "b=10,t=3,hk=2,hv=6,k=64,v=128,dtype=bf16,gates=fused,gatedtype=bf16,l2norm,negeig,init,state=vk", variant: "decode"},
	{name: "decode-f32", spec: "b=8,t=1,hk=1,hv=2,k=16,v=24,dtype=f32,init", variant: "decode-f32"},
	{name: "forward", spec: "t=40,hk=1,hv=1,k=24,v=16,dtype=f32,final=false", variant: "forward,chunk=16"},
	{name: "ladder", spec: "t=70,hk=1,hv=2,k=16,v=16,dtype=f32,seqs=3,init", variant: "ladder16,chunk=32", plain: true},
	{name: "split-uw", spec: "b=1,t=72,hk=2,hv=2,k=16,v=24,dtype=f32,init", variant: "split-uw,chunk=16"},
	{name: "solve-alone", spec: "t=40,hk=1,hv=2,k=16,v=16,dtype=f32,gates=fused,seqs=3,init,empty=zero,packed", variant: "solve-alone,chunk=16"},
	{name: "chunks2", spec: "t=70,hk=1,hv=2,k=16,v=16,dtype=bf16", variant: "chunks2,chunk=16"},
	{name: "bf16x3", spec: "t=100,hk=1,hv=2,k=64,v=32,dtype=bf16", variant: "bf16x3,chunk=32", plain: true},
	{name: "train", spec: "t=40,hk=1,hv=2,k=16,v=24,dtype=bf16,init,direction=train", variant: "chunk=16,layout=bthd,kq=joined,save=inverse", vmap: true},
	{name: "train-packed", spec: "t=50,hk=1,hv=2,k=16,v=16,gates=fused,seqs=3,init,state=vk,l2norm,direction=train", variant: "split,chunk=16"},
	{name: "tpu-train", spec: "t=150,hk=1,hv=2,k=128,v=128,dtype=bf16,direction=train", variant: "tpu-train,chunk=64"},
	{name: "train-grain", spec: "t=300,hk=1,hv=2,k=128,v=128,dtype=bf16,init,direction=train", variant: "tpu-train-128,chunk=64,chunks=2,prefetch=dma,decay_bf16=rows,grain=60,bwd.grain=60,bwd.state_delay=10"},
	{name: "tpu", spec: "t=300,hk=1,hv=2,k=128,v=128,dtype=bf16,init", variant: "tpu"},
	{name: "tpu-x3", spec: "t=130,hk=1,hv=2,k=128,v=128,dtype=f32,init", variant: "tpu-x3,chunk=64"},
	{name: "tpu-packed", spec: "t=70,hk=1,hv=2,k=128,v=128,dtype=bf16,seqs=3,init,packed", variant: "tpu-packed,chunk=32,mergepairs=0"},
	{name: "tpu-copies", spec: "t=150,hk=1,hv=2,k=128,v=128,dtype=bf16,init", variant: "tpu-long,chunk=32,mergepairs=0,chunks=2,prefetch=dma,hbm=yes"},
	{name: "kda", spec: "b=2,t=40,hk=1,hv=2,k=16,v=24,dtype=f32,rule=kda", variant: "chunk=16", plain: true},
	{name: "kda-train", spec: "t=40,hk=1,hv=2,k=16,v=16,dtype=bf16,gates=fused,gatedtype=bf16,l2norm,init,rule=kda,bound=-5,direction=train", variant: "chunk=16"},
	{name: "kda-packed", spec: "t=50,hk=2,hv=2,k=16,v=24,dtype=f32,gates=fused,negeig,seqs=3,init,state=vk,empty=zero,packed,rule=kda", variant: "chunk=16", plain: true},
	{name: "kda-tpu", spec: "t=150,hk=1,hv=1,k=128,v=128,dtype=bf16,rule=kda,bound=-5,init", variant: "tpu-long,chunk=32,mergepairs=0"},
	{name: "kda-decode", spec: "b=4,t=1,hk=2,hv=2,k=128,v=128,dtype=bf16,gates=fused,l2norm,rule=kda,init", variant: "decode"},
	{name: "gdn2", spec: "t=20,hk=1,hv=1,k=16,v=24,dtype=f32,gates=fused,l2norm,init,rule=gdn2,state=vk", variant: "chunk=8"},
	{name: "gdn2-train", spec: "b=2,t=20,hk=1,hv=1,k=16,v=16,dtype=f32,rule=gdn2,init,direction=train", variant: "chunk=8"},
	{name: "gdn2-packed", spec: "t=40,hk=1,hv=2,k=16,v=16,dtype=f32,seqs=3,init,packed,rule=gdn2,direction=train", variant: "chunk=16"},
	{name: "gdn2-decode", spec: "b=8,t=1,hk=1,hv=2,k=16,v=24,dtype=f32,rule=gdn2,init", variant: "decode-f32", plain: true},
	{name: "gla", spec: "t=40,hk=1,hv=1,k=16,v=24,dtype=f32,rule=gla,init", variant: "chunk=16"},
	{name: "simple-gla", spec: "t=40,hk=1,hv=2,k=16,v=24,dtype=f32,rule=simple-gla,init", variant: "chunk=16"},
	{name: "linear", spec: "t=50,hk=1,hv=2,k=16,v=16,dtype=bf16,seqs=3,rule=linear,init", variant: "chunk=16", plain: true},
	{name: "deltanet", spec: "b=2,t=40,hk=1,hv=2,k=16,v=24,dtype=f32,gates=fused,rule=deltanet", variant: "chunk=16", plain: true},
	{name: "visits", spec: "t=70,hk=1,hv=2,k=16,v=16,dtype=f32,seqs=4,init,empty=zero,packed,rule=kda", variant: "chunk=16,pack=segments"},
	{name: "visits-train", spec: "t=70,hk=1,hv=2,k=128,v=128,dtype=bf16,seqs=3,init,direction=train", variant: "tpu-train,chunk=32,pack=segments,prefetch=dma"},
	{name: "visits-lockstep", spec: "t=70,hk=1,hv=2,k=128,v=128,dtype=bf16,seqs=3,init,direction=train", variant: "tpu-train-long,chunk=32,chunks=2,pack=segments,prefetch=dma"},
	{name: "tpu-packed-copies", spec: "t=70,hk=1,hv=2,k=128,v=128,dtype=bf16,seqs=3,init,packed", variant: "tpu-packed,chunk=32,mergepairs=0,prefetch=dma"},
}

// unknown is a spec of sizes that a file for s was not written for: one more batch row or sequence, tokens that fill no chunk, and three key
// heads with as many value heads, or twice as many; one head of each where kernels are large, since each group of heads is compiled.
func unknown(s gdn.Spec) gdn.Spec {
	if s.Tokens > 1 {
		s.Tokens += s.Tokens/3 + 5
	}
	if s.Seqs > 0 {
		s.Seqs++
	} else {
		s.Batch++
	}
	groups := 3
	if s.K >= 128 {
		groups = 1
	}
	s.HeadsK, s.HeadsV = groups, groups*max(1, 3-s.HeadsV/s.HeadsK)
	return s
}

// Generated files, interpreted by JAX, agree with the Go interpreter and with float64 on ordinary and adversarial inputs, with
// their gradients where the row asks for them, at the sizes that they were written for and at others. Each is run as a program first, which
// is its self-check, and is clean by ruff. Rows rotate by commit, since XLA takes some 15 processor seconds for each size.
func TestPallas(t *testing.T) {
	py := python(t)
	for _, row := range rotate.Sample(11, pallasRows, 5) {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			s, err := gdn.Parse(row.spec)
			require.NoError(t, err)
			v, err := gdn.ParseVariant(row.variant)
			require.NoError(t, err)
			require.Empty(t, v.Unsafe(s))
			precision := v.Fit(s).Precision().String()
			forward := s
			forward.Direction = gdn.Forward
			path := writePallas(t, s, v)
			lint(t, py, path)

			if row.plain {
				s.Direction = gdn.Train
			}
			inputs, specs := map[string]map[string]*array.Array{}, map[string]gdn.Spec{}
			for i, name := range inputClasses {
				class, err := truth.LookupClass(name)
				require.NoError(t, err)
				at := s
				if i%3 == 2 {
					at = unknown(s)
				}
				if class.Supports(at) != nil {
					continue
				}
				specs[name] = at
				inputs[name], err = class.Generate(at, 7)
				require.NoError(t, err)
			}
			got := runPallas(t, py, path, inputs, row.vmap)
			m, err := build.Module(forward, v)
			require.NoError(t, err)
			for name, in := range inputs {
				class, err := truth.LookupClass(name)
				require.NoError(t, err)
				s := specs[name]
				want, err := truth.Reference(s, in)
				require.NoError(t, err)
				for _, o := range s.Outputs() {
					require.Contains(t, got[name], o.Name)
					off, limit, err := class.Error(s, precision, o, got[name], want)
					require.NoError(t, err)
					require.LessOrEqual(t, off, limit, "%s on %s", o.Name, name)
				}
				if s.Batch != forward.Batch || s.Seqs != forward.Seqs {
					continue
				}
				args := map[string]*array.Array{}
				for _, p := range forward.Inputs() {
					args[p.Name] = in[p.Name]
				}
				same, err := interp.Run(m, args, interp.Options{})
				require.NoError(t, err)
				for _, o := range forward.Outputs() {
					limit, err := class.Limit(s, precision, o.Type.DType)
					require.NoError(t, err)
					off := array.Compare(got[name][o.Name], same[o.Name]).RelMax
					require.LessOrEqual(t, off, limit/2, "%s on %s, against the interpreter", o.Name, name)
				}
			}
		})
	}
}

// Gradients through the custom_vjp of generated files, in plain JAX and by kernels, match the backward fixtures at the tolerance of
// float32: grouped value heads, and sequences of which one is empty with values wider than keys. One direction of each by commit.
func TestPallasGradientsOnFixtures(t *testing.T) {
	py := python(t)
	cases, err := truth.ReadCases(filepath.Join("..", "fixtures"))
	require.NoError(t, err)
	done := 0
	for _, c := range cases {
		if c.Class != "backward" {
			continue
		}
		done++
		for _, direction := range rotate.Sample(12+uint64(done), []gdn.Direction{gdn.Forward, gdn.Train}, 1) {
			t.Run(fmt.Sprint(c.Name, "/", direction), func(t *testing.T) {
				t.Parallel()
				v, err := gdn.ParseVariant(map[bool]string{false: "chunk=32,layout=bthd,kq=joined", true: "split,chunk=16"}[c.Spec.Seqs > 0])
				require.NoError(t, err)
				inputs, expected, err := c.Load()
				require.NoError(t, err)
				s := c.Spec
				s.Direction = direction
				path := writePallas(t, s, v)
				lint(t, py, path)
				got := runPallas(t, py, path, map[string]map[string]*array.Array{"case": inputs}, false)["case"]
				passes(t, c, got, expected, "f32")
			})
		}
	}
	require.Equal(t, 2, done)
}

// The kernel for few tokens lowers for a TPU at sizes of every kind: few rows and many, heads as many as lanes, several tokens, a pool. What Mosaic
// refuses, interpreting does not show. Rows rotate by commit.
func TestDecodeLowers(t *testing.T) {
	py := python(t)
	for _, row := range rotate.Sample(16, []struct{ name, spec string }{
		{"kv", "decode,b=2"},
		{"vk", "contest-decode,b=2,l2norm"},
		{"vk-exact", "b=2,t=1,hk=1,hv=1,k=64,v=64,dtype=f32,init,state=vk,rule=gdn2"},
	}, 2) {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			s, err := gdn.Parse(row.spec)
			require.NoError(t, err)
			v, err := gdn.ParseVariant(map[bool]string{true: "decode-f32", false: "decode"}[s.DType == ir.F32])
			require.NoError(t, err)
			text, err := pallas.Source(s, v, route.Modules, pallas.Provenance{Version: "test"})
			require.NoError(t, err)
			dir := t.TempDir()
			require.NoError(t, os.WriteFile(filepath.Join(dir, "kernels.py"), []byte(text), 0o644))
			require.NoError(t, os.WriteFile(filepath.Join(dir, "lower.py"), []byte(lowerDecode), 0o644))
			runJAX(t, dir, absolute(t, py), "lower.py")
		})
	}
}

const lowerDecode = `
import jax
import jax.numpy as jnp
import kernels

name = next(n for n in kernels.__all__ if not n.endswith("_pool"))
for sizes in ((1, 1, 4, 8, 128, 128), (5, 2, 2, 6, 64, 128), (40, 1, 16, 64, 64, 64), (1030, 1, 1, 2, 128, 128), (3, 16, 1, 1, 256, 256)):
    shape = dict(zip("BTQHKV", sizes, strict=True))
    x = {n: jax.ShapeDtypeStruct([shape[a] for a in kernels.AXES[n]], d) for n, d in kernels.DTYPES.items()}
    rule = jax.jit(lambda **x: getattr(kernels, name)(**x, interpret=False))
    rule.trace(**x).lower(lowering_platforms=("tpu",))
    pool, indices = x.pop("initial_state"), jax.ShapeDtypeStruct((sizes[0],), jnp.int32)
    rule = jax.jit(lambda pool, i, x: getattr(kernels, name + "_pool")(**x, pool=pool, indices=i, interpret=False), donate_argnums=0)
    rule.trace(pool, indices, x).lower(lowering_platforms=("tpu",))
`

// A package with kernels for two generations is clean by ruff, and its own tests pass: outputs and gradients of several sizes, packed sequences, decode by
// states and by a pool, refusals, with the kernels of each generation; and eight devices against one, with a sequence in two, four and eight parts.
// Half of its tests rotate by commit.
func TestPallasPackage(t *testing.T) {
	py := python(t)
	s, err := gdn.Parse("b=2,t=40,hk=1,hv=2,k=16,v=24,dtype=f32,init")
	require.NoError(t, err)
	var parts []pallas.Part
	for _, order := range []struct{ target, whole, short, packed string }{
		{"v6e", "chunk=16,layout=bthd,kq=joined", "chunk=8", "split,chunk=16"},
		{"v5e", "chunk=16,kq=joined", "chunk=8", "split,chunk=8"}, // forms of its own but for short ones and decode
	} {
		for _, p := range pallas.Parts(s) {
			text := map[string]string{"short": order.short, "decode": "decode-f32", "packed": order.packed}[p.Name]
			p.Target = order.target
			p.Variant, err = gdn.ParseVariant(cmp.Or(text, order.whole))
			require.NoError(t, err)
			parts = append(parts, p)
		}
	}
	files, dir := writePackage(t, parts)
	lint(t, py, dir)
	pytest := []string{"-m", "pytest", "-q", "-p", "no:cacheprovider"}
	var tests []string
	for name := range strings.Lines(runJAX(t, dir, absolute(t, py), append(pytest, "--collect-only")...)) {
		if strings.Contains(name, "::") {
			tests = append(tests, strings.TrimSpace(name))
		}
	}
	require.NotEmpty(t, tests)
	runJAX(t, dir, absolute(t, py), append(pytest, rotate.Sample(17, tests, (len(tests)+1)/2)...)...)
	callWhereOthersDo(t, py, files)
}

// The package of the bench work, of the forms that a TPU wants, keeps to the rules, and each of its modules can be imported: stages that its files share
// are others than those of small forms.
func TestPallasPackageOfBench(t *testing.T) {
	py := python(t)
	s, err := gdn.Parse("bench")
	require.NoError(t, err)
	for _, names := range []string{"v5e", "v6e", "v6e,v5e"} {
		t.Run(names, func(t *testing.T) {
			targets, err := target.Parse(names)
			require.NoError(t, err)
			var parts []pallas.Part
			for _, target := range targets {
				for _, p := range pallas.Parts(s) {
					form, err := route.Resolve(p.Spec, gdn.Auto, target, nil)
					require.NoError(t, err)
					p.Target, p.Variant = target.Name, pallas.Fit(p.Spec, form.Variant)
					parts = append(parts, p)
				}
			}
			_, dir := writePackage(t, parts)
			lint(t, py, dir)
			runJAX(t, filepath.Join(dir, "src"), absolute(t, py), "-c", "import gdr") // its functions import each module of kernels
		})
	}
}

// writePackage writes a package and gives its files and folder.
func writePackage(t *testing.T, parts []pallas.Part) ([]pallas.File, string) {
	t.Helper()
	files, err := pallas.Package("gdr", parts, route.Modules, pallas.Provenance{Version: "test"})
	require.NoError(t, err)
	dir := filepath.Join(t.TempDir(), "gdr")
	for _, f := range files {
		writeFile(t, dir, f.Path, f.Text)
	}
	return files, dir
}

// writeFile writes a file of a package in dir; path has slashes.
func writeFile(t *testing.T, dir, path, text string) {
	t.Helper()
	path = filepath.Join(dir, filepath.FromSlash(path))
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
}

// callWhereOthersDo installs the wheel of a package by pip, and runs the example that calls it where MaxText calls its own functions.
func callWhereOthersDo(t *testing.T, py string, files []pallas.File) {
	t.Helper()
	name, wheel, err := pallas.Wheel("gdr", files)
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, name), wheel, 0o644))
	runJAX(t, dir, absolute(t, py), "-m", "pip", "install", "--no-deps", "--no-index", "--disable-pip-version-check", "--target", ".", name)
	require.FileExists(t, filepath.Join(dir, "gdr", "py.typed"))
	example, err := filepath.Abs(filepath.Join("..", "..", "examples", "jax", "maxtext_gdn.py"))
	require.NoError(t, err)
	lint(t, py, example)
	copied := filepath.Join(dir, "maxtext_gdn.py") // Python looks for modules in the folder of a program
	text, err := os.ReadFile(example)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(copied, text, 0o644))
	require.Contains(t, runJAX(t, dir, absolute(t, py), copied, "gdr", "--backend", "interpret"), "state: largest error")
}

// longestJAX is much longer than any program of these tests takes.
const longestJAX = 6 * time.Minute

// runJAX runs a program and gives what it prints. XLA can wait for itself forever for all that (once in some hundred programs, on two cores): a
// program that does is run once more.
func runJAX(t *testing.T, dir, program string, args ...string) string {
	t.Helper()
	for again := range 2 {
		ctx, cancel := context.WithTimeout(t.Context(), longestJAX)
		cmd := exec.CommandContext(ctx, program, args...)
		cmd.Dir, cmd.Env, cmd.WaitDelay = dir, append(os.Environ(), quickJAX...), time.Second
		msg, err := cmd.CombinedOutput()
		stuck := ctx.Err() != nil
		cancel()
		if stuck && again == 0 {
			t.Logf("no end after %s, run again: %s", longestJAX, msg)
			continue
		}
		require.NoError(t, err, "%s", msg)
		return string(msg)
	}
	return ""
}

func absolute(t *testing.T, path string) string {
	t.Helper()
	if !strings.ContainsRune(path, filepath.Separator) {
		return path
	}
	path, err := filepath.Abs(path)
	require.NoError(t, err)
	return path
}

// writePallas writes the file of a spec into a folder of its own.
func writePallas(t *testing.T, s gdn.Spec, v gdn.Variant) string {
	t.Helper()
	text, err := pallas.Source(s, v, route.Modules, pallas.Provenance{Version: "test"})
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "gated_delta_rule.py")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	return path
}

// lint runs ruff over a file, or over a folder by its own settings. How lines are broken is for it to find fault with only where one is too long.
// SIM300 takes x.T for a constant.
func lint(t *testing.T, py, path string) {
	t.Helper()
	args := []string{"-m", "ruff", "check", "--extend-select", "E,F,W,I,B,UP,N,C4,SIM,RUF", "--ignore", "E741,N803,N806,N815,SIM300", "--no-cache", "."}
	cmd := exec.Command(absolute(t, py), args...)
	cmd.Dir = path
	if filepath.Ext(path) != "" {
		cmd.Dir = filepath.Dir(path)
		cmd.Args = append(cmd.Args, "--isolated")
	}
	msg, err := cmd.CombinedOutput()
	require.NoError(t, err, "ruff: %s", msg)
}

// runPallas runs a generated file on classes of inputs and gives the outputs of each.
func runPallas(t *testing.T, py, path string, inputs map[string]map[string]*array.Array, vmap bool) map[string]map[string]*array.Array {
	t.Helper()
	dir := t.TempDir()
	in, out := filepath.Join(dir, "in.safetensors"), filepath.Join(dir, "out.safetensors")
	given := &array.File{Tensors: map[string]*array.Array{}}
	for class, tensors := range inputs {
		for name, a := range tensors {
			given.Tensors[class+"/"+name] = a
		}
	}
	require.NoError(t, array.WriteSafetensors(in, given))
	args := []string{"pallas_run.py", path, "--inputs", in, "--out", out}
	if vmap {
		args = append(args, "--vmap")
	}
	require.Contains(t, runJAX(t, "", py, args...), "gradient: error", "the self-check of the file")
	f, err := array.ReadSafetensors(out)
	require.NoError(t, err)
	got := map[string]map[string]*array.Array{}
	for name, a := range f.Tensors {
		class, output, _ := strings.Cut(name, "/")
		if got[class] == nil {
			got[class] = map[string]*array.Array{}
		}
		got[class][output] = a
	}
	return got
}
