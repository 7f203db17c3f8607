package ptx

import (
	"errors"
	"fmt"

	"github.com/gdngen/gdngen/codegen/stablehlo"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/pjrt/gpu"
	"github.com/gdngen/gdngen/pjrt/gpu/thunk"
)

// probeName is the kernel of the probe: it adds an array to itself, one number per thread.
const (
	probeName    = "gdngen_probe"
	probeThreads = 128
)

// ProbeModule returns a small module with such a call, y = x + x. Its PTX runs on GPUs from compute capability 8.0 on.
func ProbeModule() string {
	text := fmt.Sprintf(`.version 8.0
.target sm_80
.address_size 64
.visible .entry %s(
	.param .u64 x,
	.param .u64 y,
	.param .u64 unused_0,
	.param .u64 unused_1
)
.reqntid 128
{
	.reg .b64 %%rd<5>;
	.reg .b32 %%r<2>;
	.reg .f32 %%f<3>;
	mov.u32 %%r1, %%tid.x;
	mul.wide.u32 %%rd1, %%r1, 4;
	ld.param.u64 %%rd2, [x];
	ld.param.u64 %%rd3, [y];
	add.u64 %%rd2, %%rd2, %%rd1;
	add.u64 %%rd3, %%rd3, %%rd1;
	ld.global.f32 %%f1, [%%rd2];
	add.f32 %%f2, %%f1, %%f1;
	st.global.f32 [%%rd3], %%f2;
	ret;
}
`, probeName)
	m := &module{values: map[string]value{}}
	kind := stablehlo.TensorType(ir.T(ir.F32, probeThreads))
	c := &call{operands: []value{{"%x", kind}}, outputs: []output{{tensor: "y", kind: kind, at: 1, alias: -1}}, free: []int{2, 3}}
	if err := c.place(m.values); err != nil {
		panic(err) // no output has a value
	}
	c.write(&m.text, "%y", &gpu.Launch{Grid: [3]int{1, 1, 1}, PTX: text}, probeName)
	return fmt.Sprintf("module @probe {\n  func.func public @main(%%x: %s) -> (%s) {\n%s    return %%y#0 : %s\n  }\n}\n", kind, kind, m.text.String(), kind)
}

// ErrNotTaken says that a CUDA plugin does not support PTX in StableHLO.
var ErrNotTaken = errors.New("the CUDA plugin takes no PTX")

// Probed returns nil if XLA compiled the probe to exactly a launch of its kernel, else an error that wraps ErrNotTaken.
func Probed(r *thunk.Report) error {
	if r == nil || r.Launches != 1 || len(r.Rows) != 1 || r.Rows[0].Kernel != probeName || r.Rows[0].Block[0] != probeThreads {
		return fmt.Errorf("%w: it compiles a call of %s to something else than a launch of its kernel", ErrNotTaken, Target)
	}
	return nil
}
