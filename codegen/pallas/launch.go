package pallas

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gdngen/gdngen/codegen/mosaic"
	"github.com/gdngen/gdngen/codegen/pallas/loops"
	"github.com/gdngen/gdngen/ir"
)

// launch writes the pallas_call.
func (m *module) launch(k *kernel, kernel string, interpret bool, args []string, scratch []*loops.Item) (string, error) {
	g := k.In.Attrs.Grid
	name := m.fresh("_" + k.name)
	results := make([]ir.Type, len(g.Outs))
	copy(results, g.Outs)
	result := "tuple[" + strings.TrimSuffix(strings.Repeat("jax.Array, ", len(results)), ", ") + "]"
	if len(results) == 1 {
		result = "jax.Array"
	}
	pinnedIn, pinnedOut := mosaic.Pinned(k.In, m.outside)
	together := !g.Bounded() && (len(pinnedIn) == 0 || len(pinnedIn) == len(args)) // operands need no names
	hints := []string{strings.Join(args, ": jax.Array, ") + ": jax.Array, *"}
	doc := strings.Join(args, ", ")
	if together {
		hints[0] = "*args: jax.Array"
	}
	hints = append(hints, "interpret: bool")
	var b []string
	add := func(f string, a ...any) { b = append(b, fmt.Sprintf(f, a...)) }
	if len(pinnedIn)+len(pinnedOut) > 0 { // memory spaces hold inside jit alone
		m.helpers["functools"] = true
		add(`@functools.partial(jax.jit, static_argnames="interpret")`)
	}
	add("%s", header(name, hints, result))
	add(`    """Runs the kernel on %s."""`, doc)
	f := kernel
	if interpret {
		f = "functools.partial(" + kernel + ", interpret=interpret)"
		m.helpers["functools"] = true
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
	for _, i := range pinnedIn {
		m.helpers["pin"] = true
		args[i] = "_pin(" + args[i] + ", interpret)"
	}
	switch {
	case together && len(pinnedIn) > 0:
		args = []string{"*(_pin(x, interpret) for x in args)"}
	case together:
		args = []string{"*args"}
	}
	outs := m.outShapes(g, pinnedOut)
	ins, outSpecs := k.windows()
	b = append(b, nameSpecs(ins, outSpecs)...)
	sc := scratchShapes(scratch)
	outText, outSpecText := tuple(outs), "["+strings.Join(outSpecs, ", ")+"]"
	if len(outs) == 1 {
		outText, outSpecText = outs[0], outSpecs[0]
	}
	params := "dimension_semantics=" + tuple(sem)
	if limit := vmemLimit(k.In); limit > 0 {
		params += fmt.Sprintf(", vmem_limit_bytes=%d << 20", limit>>20)
	}
	if mosaic.Inside(g) {
		params += ", disable_bounds_checks=True"
	}
	gridArgs := []string{"grid=" + tuple(dims), "in_specs=[" + strings.Join(ins, ", ") + "]", "out_specs=" + outSpecText}
	switch {
	case k.bundle && len(sc) > 0:
		gridArgs = append(gridArgs, "scratch_shapes=list("+k.class+"._field_defaults.values())")
	case len(sc) > 0:
		gridArgs = append(gridArgs, "scratch_shapes=["+strings.Join(sc, ", ")+"]")
	}
	if g.Tables > 0 {
		gridArgs = []string{fmt.Sprintf("grid_spec=pltpu.PrefetchScalarGridSpec(num_scalar_prefetch=%d, %s)", g.Tables, strings.Join(gridArgs, ", "))}
	}
	all := append([]string{f, "out_shape=" + outText}, gridArgs...)
	if len(g.Alias) > 0 {
		var al []string
		for _, a := range g.Alias {
			al = append(al, fmt.Sprintf("%d: %d", g.Tables+a[1], a[0]))
		}
		all = append(all, "input_output_aliases={"+strings.Join(al, ", ")+"}")
	}
	all = append(all, "compiler_params=pltpu.CompilerParams("+params+")", fmt.Sprintf("name=%q", k.name), "interpret=interpret")
	add("    return pl.pallas_call(%s)(%s)", strings.Join(all, ", "), strings.Join(args, ", "))
	m.funcs = append(m.funcs, strings.Join(b, "\n"))
	return name, nil
}

// nameSpecs names the windows that several operands or results have, and gives the statements that do.
func nameSpecs(all ...[]string) (statements []string) {
	of := map[string]string{}
	for i, specs := range all {
		for j, s := range specs {
			same := func(t string) bool { return t == s }
			if of[s] == "" && (slices.ContainsFunc(specs[j+1:], same) || slices.ContainsFunc(slices.Concat(all[i+1:]...), same)) {
				of[s] = fmt.Sprintf("block_%d", len(of)+1)
				statements = append(statements, "    "+of[s]+" = "+s)
			}
			if of[s] != "" {
				specs[j] = of[s]
			}
		}
	}
	return statements
}

// outShapes are the types of a kernel's results.
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

// windows are the BlockSpecs of a kernel's operands and results. What the kernel copies itself has none.
func (k *kernel) windows() (ins, outs []string) {
	g := k.In.Attrs.Grid
	for i, w := range g.In {
		if k.In.Body.Params[g.Tables+i].Type.Space == ir.HBM {
			ins = append(ins, "pl.BlockSpec(memory_space=pl.ANY)")
			continue
		}
		ins = append(ins, spec(g, w, true))
	}
	for i, w := range g.Out {
		if w.Whole(g.Outs[i]) {
			outs = append(outs, "pl.BlockSpec(memory_space=pltpu.HBM)")
			continue
		}
		outs = append(outs, spec(g, w, false))
	}
	return ins, outs
}

// scratchShapes are the types of scratch.
func scratchShapes(scratch []*loops.Item) (out []string) {
	for _, x := range scratch {
		shape := listShape(x)
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

// spec is the BlockSpec of a window.
func spec(g *ir.Grid, w ir.Window, input bool) string {
	var params, at []string
	used := map[int]bool{}
	for _, x := range w.Index {
		if x.Axis >= 0 {
			used[x.Axis] = true
		}
	}
	for i, d := range g.Dims {
		n := d.Name
		if !used[i] {
			n = "_" + n
		}
		params = append(params, n)
	}
	tables := false
	for _, x := range w.Index {
		tables = tables || x.Table >= 0
	}
	for i := range g.Tables {
		n := tableName(i)
		if !tables {
			n = "_" + n
		}
		params = append(params, n)
	}
	for _, x := range w.Index {
		s := strconv.Itoa(x.Const)
		if x.Axis >= 0 {
			s = g.Dims[x.Axis].Name
			lo, hi := x.Shift, g.Dims[x.Axis].Size-1+x.Shift
			if x.Shift > 0 {
				s = fmt.Sprintf("%s + %d", s, x.Shift)
			} else if x.Shift < 0 {
				s = fmt.Sprintf("%s - %d", s, -x.Shift)
			}
			switch clampHi := x.Max >= 0 && hi > x.Max; {
			case lo < 0 && clampHi:
				s = fmt.Sprintf("jnp.clip(%s, 0, %d)", s, x.Max)
			case lo < 0:
				s = fmt.Sprintf("jnp.maximum(%s, 0)", s)
			case clampHi:
				s = fmt.Sprintf("jnp.minimum(%s, %d)", s, x.Max)
			}
			if x.Down {
				if x.Shift != 0 && !strings.HasPrefix(s, "jnp.") {
					s = "(" + s + ")"
				}
				s = fmt.Sprintf("%d - %s", x.Max, s)
			}
			if x.Const != 0 {
				s = fmt.Sprintf("%d + %s", x.Const, s)
			}
		}
		if x.Table >= 0 {
			s = tableName(x.Table) + "[" + s + "]"
		}
		at = append(at, s)
	}
	mode := ""
	if input {
		mode = buffers(g, w)
	}
	return fmt.Sprintf("pl.BlockSpec(%s, lambda %s: %s%s)", shapeText(w.Block), strings.Join(params, ", "), tuple(at), mode)
}

// buffers gives a window that is read once one buffer.
func buffers(g *ir.Grid, w ir.Window) string {
	blocks := 1
	for _, x := range w.Index {
		if x.Axis >= 0 && g.Dims[x.Axis].Seq {
			return ""
		}
		if x.Axis >= 0 {
			blocks *= g.Dims[x.Axis].Size
		}
	}
	if blocks == 1 {
		return ", pipeline_mode=pl.Buffered(1)"
	}
	return fmt.Sprintf(", pipeline_mode=pl.Buffered(min(%d, 2))", blocks)
}

func gridDoc(g *ir.Grid) string {
	var s []string
	for _, d := range g.Dims {
		s = append(s, fmt.Sprintf("%s: %d", d.Name, d.Size))
	}
	return strings.Join(s, ", ")
}

func tableName(i int) string {
	if i == 0 {
		return "table"
	}
	return fmt.Sprintf("table_%d", i+1)
}

// vmemLimit is what the kernel asks for, 0 for the compiler's default: its windows and scratch, and room for spills.
func vmemLimit(kernel *ir.Instr) int {
	const def, room, most = 16 << 20, 16 << 20, 64 << 20
	n := mosaic.VMEMBytes(kernel)
	if n+room/2 <= def {
		return 0
	}
	return max(min(n+n/4+room, most), n) &^ (1<<20 - 1)
}
