package mosaic

import (
	"fmt"
	"slices"

	"github.com/gdngen/gdngen/ir"
)

func emitProgramID(e *emitter, in *ir.Instr) ([]value, error) {
	a := in.Attrs.Axis
	e.facts[in.Result()] = between(0, e.grid.Dims[a].Size-1)
	return one(e.ids[a]), nil
}

func emitWhen(e *emitter, in *ir.Instr) ([]value, error) {
	loc := e.loc
	c := e.arg(in, 0)
	e.printf("\"stable_mosaic.scf.if\"(%s) ({\n", c.id)
	e.depth++
	if err := e.block(in.Body); err != nil {
		return nil, err
	}
	e.loc = loc
	e.do("scf.yield", "")
	e.depth--
	e.printf("}, {\n")
	e.printf("}) : (i1) -> ()%s\n", loc)
	return nil, nil
}

func emitLoop(e *emitter, in *ir.Instr) ([]value, error) {
	if in.Attrs.Count < 1 {
		return nil, fmt.Errorf("a loop of %d rounds: remove it", in.Attrs.Count)
	}
	init := e.args(in.Args)
	for i, v := range init {
		if v.t.elem == "i1" {
			return nil, fmt.Errorf("carried value %d is bool: carry i32", i)
		}
	}
	loc := e.loc
	args := append([]value{e.int(0), e.int(in.Attrs.Count), e.int(1)}, init...)
	name := e.fresh()
	results := make([]value, len(init))
	left := ""
	if len(init) > 0 {
		left = fmt.Sprintf("%s:%d = ", name, len(init))
	}
	e.printf("%s\"stable_mosaic.scf.for\"(%s) ({\n", left, ids(args))
	params := make([]value, len(in.Body.Params))
	for i, p := range in.Body.Params {
		t, err := mlirType(p.Type)
		if err != nil {
			return nil, err
		}
		params[i] = value{e.fresh(), t}
		e.values[p] = params[i]
	}
	e.facts[in.Body.Params[0]] = between(0, in.Attrs.Count-1)
	e.printf("^bb0(%s):\n", list(params, func(v value) string { return v.id + ": " + v.t.String() }))
	e.depth++
	if err := e.block(in.Body); err != nil {
		return nil, err
	}
	e.loc = loc
	e.do("scf.yield", "", e.args(in.Body.Yield)...)
	e.depth--
	for i, v := range init {
		results[i] = value{fmt.Sprintf("%s#%d", name, i), v.t}
	}
	ts := types(results)
	if len(results) != 1 {
		ts = "(" + ts + ")"
	}
	e.printf("}) : (%s) -> %s%s\n", types(args), ts, loc)
	return slices.Clip(results), nil
}
