package pallas

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gdngen/gdngen/codegen/mosaic"
	"github.com/gdngen/gdngen/codegen/pallas/lists"
	"github.com/gdngen/gdngen/codegen/pallas/loops"
	"github.com/gdngen/gdngen/codegen/pallas/sizes"
	"github.com/gdngen/gdngen/codegen/pallas/windows"
	"github.com/gdngen/gdngen/ir"
)

// sized is the first two parameters of functions around kernels.
var sized = []string{"sizes: _Sizes", "*args: jax.Array"}

// launch writes the pallas_call of a kernel, and returns the name of its function.
func (m *module) launch(k *kernel, kernel string, interpret bool, args []string, scratch []*loops.Item) (string, error) {
	g := k.In.Attrs.Grid
	name := m.fresh("_" + k.name)
	results := make([]ir.Type, len(g.Outs))
	copy(results, g.Outs)
	result := lists.Arrays(len(results))
	pinnedIn, pinnedOut := mosaic.Pinned(k.In, m.outside)
	together := !g.Bounded() && (len(pinnedIn) == 0 || len(pinnedIn) == len(args)) // operands need no names
	var b []string
	add := func(f string, a ...any) { b = append(b, fmt.Sprintf(f, a...)) }
	m.helpers["functools"] = true
	add("@functools.partial(jax.jit, static_argnums=0)") // groups of heads share what is traced; memory spaces are kept only inside jit
	add("%s", header(name, sized, result))
	add(`    """Runs the kernel on %s."""`, strings.Join(args, ", "))
	add("    %s", sizes.Unpacked)
	if !together {
		add("    %s = args", lists.Targets(args))
	}
	f := kernel
	if interpret {
		f = "functools.partial(" + kernel + ", interpret=interpret)"
		m.helpers["functools"] = true
	}
	operands := slices.Clone(args)
	for i := range operands {
		if together {
			operands[i] = fmt.Sprintf("args[%d]", i)
		}
	}
	args = slices.Clone(args)
	dims, sem := []string{}, []string{}
	for _, d := range g.Dims {
		n := strconv.Itoa(d.Size)
		if last := len(args) - 1; d.Bound {
			n, args = args[last], args[:last]
		}
		dims, sem = append(dims, n), append(sem, map[bool]string{true: `"arbitrary"`, false: `"parallel"`}[d.Seq])
	}
	var pinned []string
	for _, i := range pinnedIn {
		m.helpers["pin"] = true
		pinned = append(pinned, args[i])
	}
	switch all := strings.Join(pinned, ", "); {
	case !together && len(pinned) > 1:
		add("    %s = (_pin(x, interpret) for x in (%[1]s))", all)
	case !together && len(pinned) == 1:
		add("    %s = _pin(%[1]s, interpret)", all)
	case together && len(pinnedIn) > 0:
		args = []string{"*(_pin(x, interpret) for x in args)"}
	case together:
		args = []string{"*args"}
	}
	outs := m.outShapes(g, pinnedOut)
	ins, outSpecs := m.windows(k, operands)
	if last := windows.Last(g); last > 0 && strings.Contains(strings.Join(slices.Concat(ins, outSpecs), " "), "last") {
		add("    last = %d", last)
	}
	var names []string
	for _, x := range k.Params[g.Tables:][:len(ins)+len(outSpecs)] {
		names = append(names, baseName(k.names[x]))
	}
	b = append(b, windows.Name(names, ins, outSpecs)...)
	sc := scratchShapes(scratch)
	outText, outSpecText := lists.Tuple(outs), "["+strings.Join(outSpecs, ", ")+"]"
	if len(outs) == 1 {
		outText, outSpecText = outs[0], outSpecs[0]
	}
	params := "dimension_semantics=" + lists.Tuple(sem)
	if limit := vmemLimit(k.In) >> 20; limit > 0 {
		params, m.vmem = params+fmt.Sprintf(", vmem_limit_bytes=%d << 20", limit), max(m.vmem, limit)
	}
	if mosaic.Inside(g) {
		params += ", disable_bounds_checks=True"
	}
	b = append(b, "    grid = "+lists.Tuple(dims), "    out_shape = "+outText)
	gridArgs := []string{"grid=grid", "in_specs=[" + strings.Join(ins, ", ") + "]", "out_specs=" + outSpecText}
	switch {
	case k.bundle && len(sc) > 0:
		gridArgs = append(gridArgs, "scratch_shapes=list("+k.class+"._field_defaults.values())")
	case len(sc) > 0:
		gridArgs = append(gridArgs, "scratch_shapes=["+strings.Join(sc, ", ")+"]")
	}
	if g.Tables > 0 {
		gridArgs = []string{fmt.Sprintf("grid_spec=pltpu.PrefetchScalarGridSpec(num_scalar_prefetch=%d, %s)", g.Tables, strings.Join(gridArgs, ", "))}
	}
	caller, lags := m.caller(k)
	all := slices.Concat([]string{f, "out_shape=out_shape"}, gridArgs, lags)
	if len(g.Alias) > 0 {
		var al []string
		for _, a := range g.Alias {
			al = append(al, fmt.Sprintf("%d: %d", g.Tables+a[1], a[0]))
		}
		all = append(all, "input_output_aliases={"+strings.Join(al, ", ")+"}")
	}
	all = append(append(all, "compiler_params=pltpu.CompilerParams("+params+")"), m.told(k)...)
	add("    return %s%s)(%s)", caller, strings.Join(all, ", "), strings.Join(args, ", "))
	m.funcs = append(m.funcs, strings.Join(b, "\n"))
	return name, nil
}

// told returns the arguments that XLA and profiles read: name, metadata, and cost estimate.
func (m *module) told(k *kernel) []string {
	m.helpers["cost"] = true
	flops, powers := k.Work()
	out := []string{fmt.Sprintf("name=%q", m.of.name(k.name)), fmt.Sprintf("cost_estimate=_cost(grid, %d, %d, args, out_shape)", flops, powers)}
	if m.of.Rule != "" {
		out = append(out, "metadata="+m.of.metadata())
	}
	return append(out, "interpret=interpret")
}

// caller returns the start of a kernel's call and, for back-to-back batch rows, the lags of its windows.
func (m *module) caller(k *kernel) (call string, lags []string) {
	if k.inLine == nil {
		return "pl.pallas_call(", nil
	}
	m.helpers["in_line"], m.helpers["cores"] = true, true
	list := func(lags []int) string { return strings.ReplaceAll(fmt.Sprint(lags), " ", ", ") }
	out := list(k.inLine.Out)
	if len(k.inLine.Out) == 1 { // a single result has a window, not a list
		out = strconv.Itoa(k.inLine.Out[0])
	}
	return "_in_line(pl.pallas_call, ", []string{"lags=(" + list(k.inLine.In) + ", " + out + ")"}
}

// outShapes returns the types of a kernel's results.
func (m *module) outShapes(g *ir.Grid, pinned []int) (outs []string) {
	for i, t := range g.Outs {
		if slices.Contains(pinned, i) {
			m.helpers["pinned"] = true
			outs = append(outs, "_pinned("+shapeText(t.Shape)+", "+dtypes[t.DType]+", interpret)")
			continue
		}
		outs = append(outs, "jax.ShapeDtypeStruct("+shapeText(t.Shape)+", "+dtypes[t.DType]+")")
	}
	return outs
}

// windows returns the BlockSpecs of a kernel's operands, by their names, and of its results. Arrays that the kernel copies itself have
// none.
func (m *module) windows(k *kernel, operands []string) (ins, outs []string) {
	g := k.In.Attrs.Grid
	for i, w := range g.In {
		if k.In.Body.Params[g.Tables+i].Type.Space == ir.HBM {
			ins = append(ins, "pl.BlockSpec(memory_space=pl.ANY)")
			continue
		}
		if k.pipelined && windows.Delayed(g, w, k.In.Args[g.Tables+i].Type.Shape) {
			m.helpers["delayed"] = true
			ins = append(ins, fmt.Sprintf("_delayed(%s, %d)", operands[i], w.Block[1]))
			continue
		}
		ins = append(ins, windows.Spec(g, w, true, shapeText(w.Block)))
	}
	for i, w := range g.Out {
		if w.Whole(g.Outs[i]) {
			outs = append(outs, "pl.BlockSpec(memory_space=pltpu.HBM)")
			continue
		}
		outs = append(outs, windows.Spec(g, w, false, shapeText(w.Block)))
	}
	return ins, outs
}

// scratchShapes returns the Pallas types of scratch.
func scratchShapes(scratch []*loops.Item) (out []string) {
	for _, x := range scratch {
		shape := loops.ListShape(x)
		switch {
		case x.Typ.DType == ir.Sem:
			out = append(out, "pltpu.SemaphoreType.DMA("+shapeText(shape)+")")
		case x.Typ.Space == ir.SMEM:
			out = append(out, "pltpu.SMEM("+shapeText(shape)+", "+dtypes[x.Typ.DType]+")")
		default:
			out = append(out, "pltpu.VMEM("+shapeText(shape)+", "+dtypes[x.Typ.DType]+")")
		}
	}
	return out
}

func gridDoc(g *ir.Grid) string {
	var s []string
	for _, d := range g.Dims {
		s = append(s, fmt.Sprintf("%s: %s%d", d.Name, map[bool]string{true: "at most "}[d.Bound], d.Size))
	}
	return strings.Join(s, ", ")
}

// vmemLimit returns the VMEM in bytes to ask for: windows, scratch and room for spills; 0 if the compiler's default is enough.
func vmemLimit(kernel *ir.Instr) int {
	const def, room, most = 16 << 20, 16 << 20, 64 << 20
	n := mosaic.VMEMBytes(kernel)
	if n+room/2 <= def {
		return 0
	}
	return max(min(n+n/4+room, most), n) &^ (1<<20 - 1)
}
