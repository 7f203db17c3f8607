package mosaic

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"

	"github.com/gdngen/gdngen/codegen"
	"github.com/gdngen/gdngen/codegen/stablehlo"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/passes"
	"github.com/gdngen/gdngen/ir/target"
)

// Backend emits modules of kernels: the grids must have been lowered.
type Backend struct{}

// Name returns "mosaic".
func (Backend) Name() string { return "mosaic" }

// Supports returns an error for ops that can not be in a kernel's body.
func (Backend) Supports(op ir.Op) error { return Supports(op) }

// Emit verifies a module and renders it as StableHLO, with each kernel as a call of a Mosaic body for the target, which must not be nil.
func (Backend) Emit(m *ir.Module, target *target.Target) (*codegen.Artifact, error) {
	if err := m.Verify(); err != nil {
		return nil, err
	}
	a := &codegen.Artifact{}
	var err error
	outside, handed := Outside(m), passes.Handed(m)
	a.Text, err = stablehlo.Emitter{Kernel: func(in *ir.Instr, operands []string) (string, error) {
		body, err := Body(in, target)
		if err != nil {
			return "", err
		}
		a.Kernels = append(a.Kernels, codegen.Kernel{Name: Name(in), Text: body})
		hands := slices.ContainsFunc(slices.Concat(in.Args, in.Results), func(x *ir.Value) bool { return handed[x] })
		return call(in, target, body, operands, outside, hands)
	}}.Emit(m)
	if err != nil {
		return nil, err
	}
	return a, nil
}

// call returns the text of a kernel as one StableHLO operation, without its results; the location names the kernel in the schedule.
// operands are the names of the kernel's operands, outside are the arrays of the module's caller, and hands reports whether the kernel
// passes arrays to another kernel or reads another's.
func call(kernel *ir.Instr, target *target.Target, body string, operands []string, outside map[*ir.Value]bool, hands bool) (string, error) {
	limit, err := vmemLimit(kernel, target, hands && kernel.Attrs.Grid.Main)
	if err != nil {
		return "", err
	}
	config := `{"custom_call_config": {"body": "` + base64.StdEncoding.EncodeToString([]byte(body)) + `", "serialization_format": 1, "needs_layout_passes": true`
	g := kernel.Attrs.Grid
	if Inside(g) {
		config += `, "disable_bounds_checks": true`
	}
	config += colors(kernel, outside) + "}"
	if limit > 0 {
		config += fmt.Sprintf(`, "scoped_memory_configs": [{"memory_space": 1, "offset": 0, "size": %d}]`, limit)
	}
	config += "}"
	args, bounds := kernel.Args, 0
	if g.Bounded() { // the number of points comes before all other operands
		args, operands, bounds = rotated(args), rotated(operands), 1
	}
	attrs := fmt.Sprintf(`backend_config = "%s", kernel_name = %q, operand_layouts = [%s]`,
		strings.ReplaceAll(config, `"`, `\22`), Name(kernel), list(args, func(v *ir.Value) string { return layout(v.Type) }))
	if len(g.Alias) > 0 {
		attrs += ", output_operand_aliases = [" + list(g.Alias, func(a [2]int) string {
			tuple := ""
			if len(g.Outs) > 1 {
				tuple = fmt.Sprint(a[0])
			}
			return fmt.Sprintf("#stablehlo.output_operand_alias<output_tuple_indices = [%s], operand_index = %d, operand_tuple_indices = []>", tuple, bounds+g.Tables+a[1])
		}) + "]"
	}
	attrs += ", result_layouts = [" + list(g.Outs, layout) + "]"
	results := list(g.Outs, stablehlo.TensorType)
	if len(g.Outs) != 1 {
		results = "(" + results + ")"
	}
	return fmt.Sprintf("stablehlo.custom_call @tpu_custom_call(%s) {%s} : (%s) -> %s loc(%q)", strings.Join(operands, ", "), attrs,
		list(args, func(v *ir.Value) string { return stablehlo.TensorType(v.Type) }), results, Name(kernel)), nil
}

// colors pins the kernel's arrays that must stay in HBM: color 0. The compiler places the others.
func colors(kernel *ir.Instr, outside map[*ir.Value]bool) string {
	ins, outs := Pinned(kernel, outside)
	var in, out []string
	shift := 0
	if kernel.Attrs.Grid.Bounded() {
		shift = 1
	}
	for _, i := range ins {
		in = append(in, fmt.Sprintf(`{"operand_index": %d, "color": 0}`, shift+i))
	}
	for _, i := range outs {
		at := ""
		if len(kernel.Results) > 1 {
			at = fmt.Sprintf(`, "shape_index": [%d]`, i)
		}
		out = append(out, `{"color": 0`+at+`}`)
	}
	text := ""
	if len(in) > 0 {
		text += `, "input_memory_space_colors": [` + strings.Join(in, ", ") + "]"
	}
	if len(out) > 0 {
		text += `, "output_memory_space_colors": [` + strings.Join(out, ", ") + "]"
	}
	return text
}

// Outside returns the values that are arrays of the module's caller, in HBM before or after it. These are parameters, results, and
// values that differ from one only in shape or in the order of dimensions as stored.
func Outside(m *ir.Module) map[*ir.Value]bool {
	out := map[*ir.Value]bool{}
	for _, p := range m.Body.Params {
		out[p] = true
	}
	for _, in := range m.Body.Instrs {
		if (in.Op == ir.OpReshape || lies(in)) && out[in.Args[0]] {
			out[in.Result()] = true
		}
	}
	for _, y := range m.Body.Yield {
		for out[y] = true; y.Def != nil && y.Def.Op == ir.OpReshape; out[y] = true {
			y = y.Def.Args[0]
		}
	}
	return out
}

// lies reports whether a transpose only renames dimensions in the order in which a TPU stores the array. There are two cases. If the
// last dimension fills few lanes, the first is stored along the lanes. If there are as many heads as a tile has rows, [B, T, H] or [T,
// H] in 32 or 16 bits is stored as blocks of H rows, with 128 tokens along the lanes.
func lies(in *ir.Instr) bool {
	if in.Op != ir.OpTranspose {
		return false
	}
	shape := in.Args[0].Type.Shape
	if slices.Equal(in.Attrs.Dims, []int{1, 2, 0}) && shape[2] < target.Lanes {
		return true
	}
	array := in.Args[0]
	for array.Def != nil && array.Def.Op == ir.OpReshape {
		array = array.Def.Args[0]
	}
	if n := array.Type.Rank(); n < 2 || n > 3 || array.Type.DType.Bytes() == 1 || array.Type.Shape[n-2]%target.Lanes != 0 || array.Type.Shape[n-1] != target.Sublanes {
		return false
	}
	var dims, order []int // dimensions longer than 1
	place := map[int]int{}
	for i, n := range shape {
		if n > 1 {
			place[i] = len(dims)
			dims = append(dims, n)
		}
	}
	for _, i := range in.Attrs.Dims {
		if shape[i] > 1 {
			order = append(order, place[i])
		}
	}
	n := len(dims)
	if n < 2 || dims[n-2] != target.Lanes || dims[n-1] != target.Sublanes {
		return false
	}
	return slices.IsSorted(order[:n-2]) && order[n-2] == n-1 && order[n-1] == n-2
}

// Pinned returns the indices of operands and results of a kernel that must stay in HBM: windows on arrays in outside. A result that
// reuses an operand's memory is pinned with the operand.
func Pinned(kernel *ir.Instr, outside map[*ir.Value]bool) (ins, outs []int) {
	g := kernel.Attrs.Grid
	if !g.Main {
		return nil, nil
	}
	for i := range g.Outs {
		pinned := outside[kernel.Results[i]]
		for _, a := range g.Alias {
			pinned = pinned || a[0] == i && outside[kernel.Args[g.Tables+a[1]]]
		}
		if pinned {
			outs = append(outs, i)
		}
	}
	for i := range g.In {
		pinned := outside[kernel.Args[g.Tables+i]]
		for _, a := range g.Alias {
			pinned = pinned || a[1] == i && slices.Contains(outs, a[0])
		}
		if pinned {
			ins = append(ins, g.Tables+i)
		}
	}
	return ins, outs
}

// Inside reports whether all blocks of a kernel are known to be inside their arrays for any input. Then the compiler need not check each
// copy. A check takes about twenty cycles: 5 % of a backward kernel with its many arrays. Windows without a table are verified. A kernel
// that copies blocks itself skips invalid ones (blockAt of codegen/tpu), or has tables made by the program. A table or a step count of
// the caller's could exceed an array, unless the grid says that the program made it.
func Inside(g *ir.Grid) bool {
	copies := slices.ContainsFunc(allWindows(g), func(w ir.Window) bool { return len(w.Block) == 0 })
	return copies || g.Inside || g.Tables == 0 && !g.Bounded()
}

// rotated returns a list with its last element first.
func rotated[T any](l []T) []T {
	n := len(l) - 1
	return append([]T{l[n]}, l[:n]...)
}

// Scalars returns the operands that a kernel's call takes in SMEM, before all others.
func Scalars(kernel *ir.Instr) []*ir.Value {
	g := kernel.Attrs.Grid
	l := slices.Clone(kernel.Args[:g.Tables])
	if g.Bounded() {
		l = append([]*ir.Value{kernel.Args[len(kernel.Args)-1]}, l...)
	}
	return l
}

// layout returns the row-major layout of an array.
func layout(t ir.Type) string {
	order := make([]int, t.Rank())
	for i := range order {
		order[i] = t.Rank() - 1 - i
	}
	switch len(order) {
	case 0:
		return "dense<> : tensor<0xindex>"
	case 1:
		return "dense<0> : tensor<1xindex>"
	}
	return fmt.Sprintf("dense<[%s]> : tensor<%dxindex>", ints(order), len(order))
}
