package mosaic_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gdngen/gdngen/codegen"
	"github.com/gdngen/gdngen/codegen/mosaic"
	"github.com/gdngen/gdngen/ir"
	"github.com/rogpeppe/go-internal/txtar"
	"github.com/stretchr/testify/require"
)

// TestTotality: every op has a rule or a reason, and every op with a rule is in a case that the oracle checks.
func TestTotality(t *testing.T) {
	seen := map[ir.Op]bool{}
	m := parse(t, module(cases()))
	m.Body.Walk(func(in *ir.Instr) { seen[in.Op] = true })
	for op := ir.BadOp + 1; op < ir.NumOps; op++ {
		err := mosaic.Backend{}.Supports(op)
		if err != nil {
			require.Greater(t, len(err.Error()), len("mosaic: : ")+len(op.String())+10, "%s is refused without a reason", op)
			require.True(t, op == ir.OpKernel || !seen[op], "%s is refused and used", op)
			continue
		}
		require.True(t, seen[op], "no case covers %s", op)
	}
	require.Error(t, mosaic.Supports(ir.NumOps))
}

// kernelText wraps a body into a kernel over f32[64,256] with windows of [8,128] and a result of f32[64,256]; extra is more of the grid.
func kernelText(body, block, extra string) string {
	params := fmt.Sprintf("%%a: vmem:f32%s, %%o: vmem:f32%s", block, block)
	if extra != "" {
		params += ", %s: " + strings.TrimSuffix(strings.TrimPrefix(extra, ", scratch=("), ")")
	}
	return fmt.Sprintf(`module m (%%x: f32[64,256]) -> (y) {
  %%0 = kernel %%x {name=k, dims=(i:2), in=(%s@(i,0)), out=(%s@(i,0):f32[64,256])%s} (%s) {
    %s
    yield
  } : f32[64,256]
  yield %%0
}
`, block, block, extra, params, body)
}

// TestRefusals: what the compiler accepts in silence, or refuses without help, is an error that says what to do.
func TestRefusals(t *testing.T) {
	load := "%v = load %a {starts=[0,0]} : f32[8,128]\n"
	for _, c := range []struct{ name, text, want string }{
		{"cumsum", kernelText(load+"%w = cumsum %v {axis=0} : f32[8,128] @gates.c1.h2", "[8,128]", ""), "mosaic: cumsum at gates.c1.h2 (line 4): vector units have no prefix sum"},
		{"rows", kernelText("", "[4,128]", ""), "dimension 0: 4 is neither a multiple of 8 nor the whole 64"},
		{"lanes", kernelText("", "[8,64]", ""), "dimension 1: 64 is neither a multiple of 128 nor the whole 256"},
		{"empty loop", kernelText("loop {count=0} (%i: i32[]) {\nyield\n}", "[8,128]", ""), "a loop of 0 rounds"},
		{"out of bounds", kernelText("loop {count=4} (%i: i32[]) {\n%z = const {value=0} : i32[]\n%v = load %a, %i, %z {starts=[0,0]} : f32[6,128]\nyield\n}", "[8,128]", ""), "elements 0 to 8 are reached"},
		{"below", kernelText("loop {count=4} (%i: i32[]) {\n%z = const {value=0} : i32[]\n%e = const {value=8} : i32[]\n%j = sub %i, %e : i32[]\n%v = load %a, %j, %z {starts=[0,0]} : f32[1,128]\nyield\n}", "[8,128]", ""), "elements -8 to -5 are reached"},
		{"run-time lanes", kernelText("%p = program_id {axis=0} : i32[]\n%z = const {value=0} : i32[]\n%v = load %a, %z, %p {starts=[0,0]} : f32[8,64]", "[8,128]", ""), "not known to be a multiple of 128"},
		{"run-time bf16 rows", kernelText("%p = program_id {axis=0} : i32[]\n%z = const {value=0} : i32[]\n%v = load %s, %p, %z {starts=[0,0]} : bf16[8,128]", "[8,128]", ", scratch=(vmem:bf16[16,128])"), "not known to be a multiple of 8"},
		{"lane steps", kernelText("%v = load %a {starts=[0,0], strides=[1,2]} : f32[8,64]", "[8,128]", ""), "steps are possible along rows only"},
		{"wide steps", kernelText("%v = load %a {starts=[0,0], strides=[2,1]} : f32[4,256]", "[8,256]", ""), "rows of exactly 128 lanes"},
		{"bf16 steps", kernelText("%v = load %s {starts=[0,0], strides=[2,1]} : bf16[8,128]", "[8,128]", ", scratch=(vmem:bf16[16,128])"), "refcast to u32 words"},
		{"rank 3", kernelText("%v = const {value=0} : f32[2,8,128]", "[8,128]", ""), "has rank 3"},
		{"f64", kernelText("%v = const {value=0} : f64[8,128]", "[8,128]", ""), "has no f64"},
		{"bool reference", kernelText("", "[8,128]", ", scratch=(vmem:bool[8,128])"), "can not hold bool"},
		{"scratch in HBM", kernelText("", "[8,128]", ", scratch=(hbm:f32[8,128])"), "scratch lies in vmem or smem"},
		{"reshape", kernelText(load+"%w = reshape %v : f32[16,64]", "[8,128]", ""), "moves elements between rows and lanes"},
		{"step", kernelText(load+"%w = slice %v {starts=[0,0], limits=[8,128], strides=[2,1]} : f32[4,128]", "[8,128]", ""), "load by strides"},
		{"bf16x3", kernelText(load+"%w = dot %v, %v {lb=[], rb=[], lc=[1], rc=[1], prec=bf16x3} : f32[8,8]", "[8,128]", ""), "run the precision pass first"},
		{"far gather", kernelText("%v = load %a {starts=[0,0]} : f32[8,256]\n%i = iota {axis=1} : i32[8,256]\n%w = take %v, %i {axis=1} : f32[8,256]", "[8,256]", ""), "reaches 128 elements"},
		{"vmem", kernelText("", "[8,128]", ", scratch=(vmem:f32[300000,128])"), "needs 146.50 MiB of vector memory, v6e has 128 MiB: put fewer heads, batch rows or chunks in a program, or shorten the chunk; the biggest users: scratch 0"},
		{"pending schedule", strings.Replace(kernelText("", "[8,128]", ""), "dims=(i:2)", "dims=(i:2:seq), steps=1, lags=[0], lock=1", 1), "the schedule of kernel k is pending: apply the pass pipeline first"},
		{"outside", strings.Replace(kernelText("", "[8,128]", ""), "out=([8,128]@(i,0)", "out=([64,128]@(i,0)", 1), "outside"},
		{"grid", `module m (%x: f32[8,128]) -> (y) {
  %0 = grid %x {name=k, dims=(i:1), in=([8,128]@(i,0)), out=([8,128]@(i,0):f32[8,128])} (%a: f32[8,128]) {
    yield %a
  } : f32[8,128]
  yield %0
}
`, "grid"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, err := ir.Parse(c.text)
			if err == nil {
				_, err = mosaic.Backend{}.Emit(m, machine(t, "v6e"))
			}
			require.ErrorContains(t, err, c.want)
		})
	}
	m := parse(t, module([]kernelCase{{name: "rows", in: []string{"f32[8,128]", "i32[8,128]"}, out: []string{"f32[8,128]"}, body: "%r0 = take %v0, %v1 {axis=0} : f32[8,128]"}}))
	_, err := mosaic.Backend{}.Emit(m, machine(t, "v4"))
	require.ErrorContains(t, err, "v4 can not gather along rows")
}

func kernelOf(m *ir.Module) (k *ir.Instr) {
	m.Body.Walk(func(in *ir.Instr) {
		if in.Op == ir.OpKernel {
			k = in
		}
	})
	return k
}

// TestVMEM: windows that move are held twice, sizes fill tiles, and a limit is asked for only above the compiler's own.
func TestVMEM(t *testing.T) {
	m := parse(t, kernelText("", "[8,128]", ", scratch=(vmem:bf16[3,5,100])"))
	require.Equal(t, 4*8*128*4+3*8*128*2, mosaic.VMEMBytes(kernelOf(m)))
	a, err := mosaic.Backend{}.Emit(m, machine(t, "v6e"))
	require.NoError(t, err)
	require.NotContains(t, a.Text, "scoped_memory_configs")
	m = parse(t, kernelText("", "[8,128]", ", scratch=(vmem:f32[40000,128])"))
	a, err = mosaic.Backend{}.Emit(m, machine(t, "v6e"))
	require.NoError(t, err)
	require.Contains(t, a.Text, `\22scoped_memory_configs\22: [{\22memory_space\22: 1, \22offset\22: 0, \22size\22: 42397696}]`)
	_, err = mosaic.Backend{}.Emit(m, machine(t, "v4"))
	require.ErrorContains(t, err, "v4 has 16 MiB")
}

// TestGolden compares emitted kernels with testdata/*.txtar: files in.ir, then one body per target. GDNGEN_UPDATE=1 rewrites them.
func TestGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, f := range files {
		t.Run(filepath.Base(f), func(t *testing.T) {
			ar, err := txtar.ParseFile(f)
			require.NoError(t, err)
			m := parse(t, string(ar.Files[0].Data))
			for i := range ar.Files[1:] {
				want := &ar.Files[i+1]
				a, err := mosaic.Backend{}.Emit(m, machine(t, want.Name))
				require.NoError(t, err)
				var got strings.Builder
				for _, k := range a.Kernels {
					got.WriteString(k.Text)
				}
				if os.Getenv("GDNGEN_UPDATE") == "1" {
					want.Data = []byte(got.String())
				}
				require.Equal(t, string(want.Data), got.String())
			}
			if os.Getenv("GDNGEN_UPDATE") == "1" {
				require.NoError(t, os.WriteFile(f, txtar.Format(ar), 0o644))
			}
		})
	}
}

var _ codegen.Backend = mosaic.Backend{}
