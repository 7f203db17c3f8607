package mosaic

import (
	"fmt"
	"math"
	"strings"

	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/target"
)

// Body returns the Mosaic module of a kernel as text. It errs if a schedule is pending, or if the target does not support the blocks or has too little VMEM.
func Body(kernel *ir.Instr, target *target.Target) (string, error) {
	g := kernel.Attrs.Grid
	if g.Sched != nil || g.Live > 0 {
		return "", fmt.Errorf("mosaic: the schedule of kernel %s is pending: apply the pass pipeline first", g.Name)
	}
	if err := checkWindows(kernel); err != nil {
		return "", err
	}
	if _, err := vmemLimit(kernel, target, false); err != nil {
		return "", err
	}
	e := &emitter{grid: g, target: target, depth: 2, values: map[*ir.Value]value{}, consts: map[string]value{}, facts: facts{}}
	var params []value
	for i := range max(len(g.Dims), 1) { // the compiler needs a grid of at least one axis
		params = append(params, value{fmt.Sprintf("%%i%d", i), scalarType("i32")})
	}
	e.ids = params[:len(params):len(params)]
	for i, p := range kernel.Body.Params {
		t, err := mlirType(p.Type)
		if err != nil {
			return "", fmt.Errorf("mosaic: kernel %s: parameter %d: %w", g.Name, i, err)
		}
		v := value{fmt.Sprintf("%%r%d", i), t}
		e.values[p] = v
		params = append(params, v)
	}
	if err := e.block(kernel.Body); err != nil {
		return "", fmt.Errorf("kernel %s: %w", g.Name, err)
	}
	e.loc = nowhere
	e.do("func.return", "")

	var b strings.Builder
	fmt.Fprintf(&b, "module @%s attributes {stable_mosaic.version = %d : i64} {\n", Name(kernel), Version)
	b.WriteString("  \"stable_mosaic.func.func\"() ({\n")
	fmt.Fprintf(&b, "  ^bb0(%s):\n", list(params, func(v value) string { return v.id + ": " + v.t.String() }))
	b.WriteString(e.head.String())
	b.WriteString(e.out.String())
	semantics, bounds := []string{}, []int{}
	for _, d := range g.Dims {
		s := "parallel"
		if d.Seq {
			s = "arbitrary"
		}
		n := d.Size
		if d.Bound {
			n = math.MinInt64 // an operand gives the number
		}
		semantics, bounds = append(semantics, "#tpu.dimension_semantics<"+s+">"), append(bounds, n)
	}
	if len(g.Dims) == 0 {
		semantics, bounds = []string{"#tpu.dimension_semantics<arbitrary>"}, []int{1}
	}
	windows, transforms := e.windows(kernel, params)
	fmt.Fprintf(&b, "  }) {dimension_semantics = [%s], function_type = (%s) -> (), iteration_bounds = array<i64: %s>, scalar_prefetch = %d : i64, scratch_operands = %d : i64, sym_name = %q, tpu.core_type = #tpu.core_type<tc>, window_params = [%s]} : () -> ()\n",
		strings.Join(semantics, ", "), types(params), ints(bounds), g.Tables, len(g.Scratch), Name(kernel), windows)
	b.WriteString(transforms)
	b.WriteString("}\n")
	return b.String(), nil
}

// Name returns the kernel's symbol.
func Name(kernel *ir.Instr) string {
	if n := kernel.Attrs.Grid.Name; n != "" {
		return n
	}
	return "kernel"
}

// windows returns the window_params entries, and the functions that compute block indices.
func (e *emitter) windows(kernel *ir.Instr, params []value) (entries, funcs string) {
	g := e.grid
	var list []string
	for i, w := range allWindows(g) {
		if kernel.Body.Params[g.Tables+i].Type.Space == ir.HBM {
			list = append(list, "{}")
			continue
		}
		mode := ""
		if i < len(g.In) && fixed(g, w) {
			mode = "pipeline_mode = #tpu.pipeline_mode<synchronous>, "
		}
		list = append(list, fmt.Sprintf("{%stransform_indices = @transform_%d, window_bounds = array<i64: %s>}", mode, i, ints(w.Block)))
		funcs += e.transform(i, w, params[:len(e.ids)+g.Tables])
	}
	return strings.Join(list, ", "), funcs
}

func allWindows(g *ir.Grid) []ir.Window { return append(g.In[:len(g.In):len(g.In)], g.Out...) }

// fixed reports whether a window shows the same block at every point.
func fixed(g *ir.Grid, w ir.Window) bool {
	for _, x := range w.Index {
		if x.Axis >= 0 && g.Dims[x.Axis].Size > 1 {
			return false
		}
	}
	return true
}

// transform returns the text of the function from grid ids and tables to block indices.
func (e *emitter) transform(i int, w ir.Window, params []value) string {
	f := &emitter{depth: 2, consts: map[string]value{}, loc: nowhere}
	results := make([]value, len(w.Index))
	for d, x := range w.Index {
		v := f.int(x.Const)
		if x.Axis >= 0 {
			v = params[x.Axis]
			hi := e.grid.Dims[x.Axis].Size - 1 + x.Shift
			if x.Shift != 0 {
				v = f.op("arith.addi", v.t, "", v, f.int(x.Shift))
			}
			if x.Shift < 0 {
				v = f.op("arith.maxsi", v.t, "", v, f.int(0))
			}
			if x.Max >= 0 && hi > x.Max {
				v = f.op("arith.minsi", v.t, "", v, f.int(x.Max))
			}
			if x.Down {
				v = f.op("arith.subi", v.t, "", f.int(x.Max), v)
			}
			if x.Every > 1 {
				v = f.op("arith.divsi", v.t, "", v, f.int(x.Every))
			}
			if x.Const != 0 {
				v = f.op("arith.addi", v.t, "", v, f.int(x.Const))
			}
		}
		if x.Table >= 0 {
			at := f.op("arith.index_cast", scalarType("index"), "", v)
			v = f.op("memref.load", scalarType("i32"), "", params[len(e.ids)+x.Table], at)
		}
		results[d] = v
	}
	f.do("func.return", "", results...)
	return fmt.Sprintf("  \"stable_mosaic.func.func\"() ({\n  ^bb0(%s):\n%s%s  }) {function_type = (%s) -> (%s), sym_name = \"transform_%d\"} : () -> ()\n",
		list(params, func(v value) string { return v.id + ": " + v.t.String() }), f.head.String(), f.out.String(), types(params), types(results), i)
}
