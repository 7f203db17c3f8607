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

// Backend emits modules whose grids have been lowered to kernels.
type Backend struct{}

// Name is mosaic.
func (Backend) Name() string { return "mosaic" }

// Supports refuses ops that can not be in a kernel's body.
func (Backend) Supports(op ir.Op) error { return Supports(op) }

// Emit verifies a module and renders it as StableHLO, each kernel as a call of a Mosaic body made for the target.
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

// call prints a kernel as one StableHLO operation, from the operation's name on; its location names it in the schedule.
// operands are the names of the kernel's operands, outside the values that the module's caller has, and hands says whether
// it hands arrays to another kernel or takes them.
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
	if g.Bounded() { // a call has the number of points before all else
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

// colors pins the arrays of a kernel that are to stay in main memory, color 0. Others go wherever the compiler has room.
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

// Outside has the values that are arrays of the module's caller, which are in main memory before or after it: parameters, results, and
// what is the same bytes under another shape, or in the order in which they lie.
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

// lies says whether an instruction names the dimensions of an array in the order in which a TPU has them: where the last ones fill few lanes, the
// first lies along the lanes; and where heads are as many as a tile has rows, [B, T, H] or [T, H] in 32 or 16 bits is blocks of 128 tokens, which lie along the
// lanes, of H rows.
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
	var dims, order []int // those longer than 1
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

// Pinned lists the operands and results of a kernel that are to stay in main memory: those of its windows that are outside. A result that
// takes the memory of an operand is where that is.
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

// Inside says whether all blocks of a kernel are known to lie inside their arrays, whatever its inputs are. Then the compiler need not check
// each copy, which takes some twenty cycles: five of a hundred for a kernel with as many arrays as a backward one. Windows without a table
// have been verified; a kernel that copies blocks itself leaves out those that do not exist (blockAt of codegen/tpu), or has tables made for it.
// A window by a table of the caller's, or as many steps as he says, may reach anywhere, unless the grid says that its tables were made for it.
func Inside(g *ir.Grid) bool {
	copies := slices.ContainsFunc(allWindows(g), func(w ir.Window) bool { return len(w.Block) == 0 })
	return copies || g.Inside || g.Tables == 0 && !g.Bounded()
}

// rotated is a list with its last element first.
func rotated[T any](l []T) []T {
	n := len(l) - 1
	return append([]T{l[n]}, l[:n]...)
}

// Scalars are the operands of a kernel that its call takes in scalar memory, which are before all others.
func Scalars(kernel *ir.Instr) []*ir.Value {
	g := kernel.Attrs.Grid
	l := slices.Clone(kernel.Args[:g.Tables])
	if g.Bounded() {
		l = append([]*ir.Value{kernel.Args[len(kernel.Args)-1]}, l...)
	}
	return l
}

// layout is the row-major layout of an array.
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
