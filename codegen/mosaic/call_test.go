package mosaic_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gdngen/gdngen/codegen/mosaic"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/target"
	"github.com/stretchr/testify/require"
)

// Arrays of the caller are pinned to HBM where a kernel says so, under whatever shape; what the module makes itself is not, and a
// result that shares the memory of an operand is pinned with it.
func TestPinned(t *testing.T) {
	text := func(grid string) string {
		return `module m (%x: f32[64,256], %z: f32[64,256]) -> (y, w) {
  %0 = reshape %x : f32[2,32,256]
  %1 = reshape %0 : f32[64,256]
  %2 = add %z, %z : f32[64,256]
  %3, %4 = kernel %1, %2, %z {name=k, dims=(i:2), in=([32,256]@(i,0), [32,256]@(i,0), [32,256]@(i,0)), out=([32,256]@(i,0):f32[64,256], [32,256]@(i,0):f32[64,256])` + grid +
			`} (%a: vmem:f32[32,256], %b: vmem:f32[32,256], %c: vmem:f32[32,256], %o: vmem:f32[32,256], %p: vmem:f32[32,256]) {
    %v = load %a {starts=[0,0]} : f32[32,256]
    store %v, %o {starts=[0,0]}
    store %v, %p {starts=[0,0]}
    yield
  } : f32[64,256], f32[64,256]
  %5 = add %4, %4 : f32[64,256]
  %6 = reshape %3 : f32[64,256]
  yield %6, %5
}
`
	}
	target, err := target.Lookup("v6e")
	require.NoError(t, err)
	for _, c := range []struct {
		grid      string
		ins, outs []int
		config    string
	}{
		{"", nil, nil, ""},
		{", main=1", []int{0, 2}, []int{0}, `"input_memory_space_colors": [{"operand_index": 0, "color": 0}, {"operand_index": 2, "color": 0}], "output_memory_space_colors": [{"color": 0, "shape_index": [0]}]`},
		{", main=1, alias=(1=2)", []int{0, 2}, []int{0, 1}, ""},
		{", main=1, alias=(0=1)", []int{0, 1, 2}, []int{0}, ""},
	} {
		m := parse(t, text(c.grid))
		require.Equal(t, c.grid != "", strings.Contains(m.String(), "main=1"))
		var kernel *ir.Instr
		for _, in := range m.Body.Instrs {
			if in.Op == ir.OpKernel {
				kernel = in
			}
		}
		ins, outs := mosaic.Pinned(kernel, mosaic.Outside(m))
		require.Equal(t, c.ins, ins, c.grid)
		require.Equal(t, c.outs, outs, c.grid)
		a, err := mosaic.Backend{}.Emit(m, target)
		require.NoError(t, err)
		plain := strings.ReplaceAll(a.Text, `\22`, `"`)
		require.Contains(t, plain, c.config)
		require.Equal(t, c.ins != nil, strings.Contains(plain, "memory_space_colors"))
	}
}

// Kernels that hand an array to each other, and keep the caller's in HBM, ask for a quarter more than they need, or 6 MiB; others for
// a quarter and 16 MiB.
func TestRoomForArrays(t *testing.T) {
	for grid, want := range map[string]int{"": 25<<20/4*5 + 16<<20, ", main=1": 25 << 20 / 4 * 5} {
		m := parse(t, strings.ReplaceAll(`module m (%x: f32[64,256]) -> (y) {
  %0 = kernel %x {name=a, dims=(i:1), in=([64,256]@(0,0)), out=([64,256]@(0,0):f32[64,256])GRID, scratch=(vmem:f32[50944,128])} (%a: vmem:f32[64,256], %o: vmem:f32[64,256], %s: vmem:f32[50944,128]) {
    %v = load %a {starts=[0,0]} : f32[64,256]
    store %v, %o {starts=[0,0]}
    yield
  } : f32[64,256]
  %1 = reshape %0 : f32[2,32,256]
  %2 = reshape %1 : f32[64,256]
  %3 = kernel %2 {name=b, dims=(i:1), in=([64,256]@(0,0)), out=([64,256]@(0,0):f32[64,256])GRID, scratch=(vmem:f32[50944,128])} (%b: vmem:f32[64,256], %p: vmem:f32[64,256], %t: vmem:f32[50944,128]) {
    %w = load %b {starts=[0,0]} : f32[64,256]
    store %w, %p {starts=[0,0]}
    yield
  } : f32[64,256]
  yield %3
}
`, "GRID", grid))
		target, err := target.Lookup("tpu7x")
		require.NoError(t, err)
		a, err := mosaic.Backend{}.Emit(m, target)
		require.NoError(t, err)
		n := mosaic.VMEMBytes(kernelOf(m))
		require.Equal(t, 25<<20, n)
		require.Equal(t, 2, strings.Count(a.Text, fmt.Sprintf(`\22size\22: %d}`, want)), grid)
	}
}

// Gates of eight heads are arrays of the caller as blocks of 128 tokens by heads, since that is how they lie, in bf16 too; of other numbers of heads or
// blocks they are copies.
func TestOutsideGates(t *testing.T) {
	for _, c := range []struct {
		array, blocks, dims, turned string
		outside                     bool
	}{
		{"f32[1,512,8]", "[1,1,2,2,128,1,8]", "[0,2,5,3,1,6,4]", "[1,2,1,2,1,8,128]", true},
		{"f32[2,128,8]", "[2,128,8]", "[0,2,1]", "[2,8,128]", true},
		{"f32[1,128,8]", "[1,128,8]", "[0,2,1]", "[1,8,128]", true},
		{"f32[2,256,8]", "[2,2,128,8]", "[1,0,3,2]", "[2,2,8,128]", false}, // rows of the batch behind blocks
		{"f32[1,512,8]", "[8,64,8]", "[0,2,1]", "[8,8,64]", false},
		{"f32[1,512,16]", "[4,128,16]", "[0,2,1]", "[4,16,128]", false},
		{"f32[1,512,16]", "[4,128,2,8]", "[0,2,3,1]", "[4,2,8,128]", false},
		{"bf16[1,512,8]", "[4,128,8]", "[0,2,1]", "[4,8,128]", true}, // tiles of eight rows in bf16 too,
		{"bf16[512,8]", "[4,128,8]", "[0,2,1]", "[4,8,128]", true},   // packed sequences
		{"f32[1,100,8]", "[1,100,8]", "[0,2,1]", "[1,8,100]", false},
	} {
		d, _, _ := strings.Cut(c.array, "[")
		m := parse(t, "module m (%x: "+c.array+") -> (y) {\n  %0 = reshape %x : "+d+c.blocks+"\n  %1 = transpose %0 {dims="+c.dims+"} : "+d+c.turned+"\n  %2 = add %1, %1 : "+d+c.turned+"\n  yield %2\n}\n")
		require.Equal(t, c.outside, mosaic.Outside(m)[m.Body.Instrs[1].Result()], "%+v", c)
	}
}
