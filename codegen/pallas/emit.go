package pallas

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/gdngen/gdngen/codegen"
	"github.com/gdngen/gdngen/codegen/mosaic"
	"github.com/gdngen/gdngen/codegen/pallas/chains"
	"github.com/gdngen/gdngen/codegen/pallas/helpers"
	"github.com/gdngen/gdngen/codegen/pallas/lists"
	"github.com/gdngen/gdngen/codegen/pallas/loops"
	"github.com/gdngen/gdngen/codegen/pallas/naming"
	"github.com/gdngen/gdngen/codegen/pallas/pytext"
	"github.com/gdngen/gdngen/codegen/pallas/share"
	"github.com/gdngen/gdngen/codegen/pallas/sizes"
	"github.com/gdngen/gdngen/codegen/tpu"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/passes"
	"github.com/gdngen/gdngen/ir/target"
)

// Backend writes modules of tiled kernels as Python for JAX.
type Backend struct{}

// Name returns "pallas".
func (Backend) Name() string { return "pallas" }

// Supports returns an error for ops that have no form in Python.
func (Backend) Supports(op ir.Op) error { return Supports(op) }

// Emit writes a module as a Python module with one function, main, which takes the module's parameters and returns its results. It errs
// if the module does not verify or has an unsupported op. The target is ignored: the Pallas compiler knows the device.
func (Backend) Emit(m *ir.Module, _ *target.Target) (*codegen.Artifact, error) {
	c, err := write(program{name: "main", Module: m})
	if err != nil {
		return nil, err
	}
	for i, f := range c.funcs {
		c.funcs[i] = sizes.Unpack(f)
	}
	pre := c.preamble()
	if c.helpers["interleave"] {
		pre += "\n\n" + helpers.Pipeline
	}
	text := pytext.Format("\"\"\"Kernels of " + m.Name + ".\"\"\"\n\n" + imports(c.body()+pre) + "\n" + pre + "\n\n" + c.body() + "\n")
	if err := runs(map[string]string{"module.py": text}); err != nil {
		return nil, err
	}
	return &codegen.Artifact{Text: text}, nil
}

// code is the Python text of modules.
type code struct {
	*module
}

// body returns kernels, calls and the functions around them.
func (c *code) body() string { return strings.Join(c.funcs, "\n\n\n") }

// program is a module, and the name of the Python function that runs it.
type program struct {
	name string
	*ir.Module
	segments *loops.Segments // of packed sequences
	scale    float64         // of q
	of       Facts           // what its kernels are for
	rows     bool            // for any number of batch rows
}

// Facts name what a kernel computes, for its name and metadata; empty fields are left out.
type Facts struct {
	Rule         string
	Keys, Values int // heads
	Chunk        int // tokens; 0: token by token
}

// name returns the name of a kernel in profiles.
func (f Facts) name(kernel string) string {
	if f.Rule == "" {
		return kernel
	}
	name := fmt.Sprintf("%s_%s_%dx%d", strings.ReplaceAll(f.Rule, "-", "_"), kernel, f.Keys, f.Values)
	if f.Chunk > 0 {
		name += fmt.Sprintf("_chunk%d", f.Chunk)
	}
	return name
}

// metadata returns the same facts as a Python dict.
func (f Facts) metadata() string {
	return fmt.Sprintf(`{"rule": %q, "heads": "%dx%d", "chunk": "%d"}`, f.Rule, f.Keys, f.Values, max(f.Chunk, 1))
}

// write writes the kernels of modules, and the functions around them, whose first parameter is the sizes.
func write(programs ...program) (*code, error) {
	mod := &module{helpers: map[string]bool{"Sizes": true}, taken: map[string]bool{}}
	kernels := 0
	for _, p := range programs {
		mod.taken[p.name] = true
		for _, in := range p.Body.Instrs {
			if in.Op == ir.OpKernel || in.Op == ir.OpGrid {
				kernels++
			}
		}
	}
	mod.single, mod.scale, mod.rows, mod.of = kernels == 1, programs[0].scale, programs[0].rows, programs[0].of
	for _, m := range pipelineNames.FindAllStringSubmatch(helpers.Pipeline, -1) {
		mod.taken[m[1]] = true
	}
	for _, p := range programs {
		if err := mod.program(p); err != nil {
			return nil, err
		}
	}
	return &code{mod}, nil
}

// pipelineNames matches the names that helpers.Pipeline defines.
var pipelineNames = regexp.MustCompile(`(?m)^(?:def )?(_\w+)\b`)

func (mod *module) program(prog program) error {
	m, tasks, scheds, err := schedule(prog.Module)
	if err != nil {
		return fmt.Errorf("pallas: %w", err)
	}
	if err := m.Verify(); err != nil {
		return err
	}
	mod.tasks, mod.scheds, mod.hints = tasks, scheds, map[*ir.Value]string{}
	mod.outside = mosaic.Outside(m)
	for i, y := range m.Body.Yield {
		for y.Def != nil && y.Def.Op != ir.OpKernel && len(y.Def.Args) > 0 {
			y = y.Def.Args[0]
			if y.Def != nil && y.Def.Op == ir.OpCompare { // the condition of a select
				break
			}
		}
		if mod.hints[y] == "" {
			mod.hints[y] = m.Results[i]
		}
	}
	of := map[*ir.Value]*loops.Item{}
	p := mod.printer(nil, loops.NewUsage(), map[*loops.Item]string{}, nil)
	var params []string
	for _, v := range m.Params() {
		x := &loops.Item{Typ: v.Type}
		of[v] = x
		p.names[x] = p.fresh(v.Name)
		params = append(params, p.names[x])
	}
	nodes := prog.segments.Fold(loops.ToNodes(m.Body.Instrs, of, nil))
	p.Resolve(nodes, map[*loops.Item]bool{})
	var results []string
	for _, y := range m.Body.Yield {
		if x := of[y]; x != nil {
			p.keep[x] = true
		}
	}
	stmts := p.nodes(nodes)
	if p.failed != nil {
		return p.failed
	}
	for _, y := range m.Body.Yield {
		if c, ok := loops.Constant(y); ok {
			results = append(results, filled(y.Type, c, scalarText(y.Type.DType, c)).s)
			continue
		}
		results = append(results, p.name(of[y]))
	}
	if last := len(stmts) - 1; last >= 0 && len(results) <= 2 {
		if i := slices.Index(results, stmts[last].name); i >= 0 {
			results[i], stmts = stmts[last].value, stmts[:last]
		}
	}
	f := []string{header(prog.name, sized, lists.Arrays(len(results))), `    """Brings the inputs into the order of the kernels and the outputs back."""`, "    " + sizes.Unpacked}
	for i, v := range m.Params() {
		if x := of[v]; p.Uses[x] == 0 && !p.keep[x] {
			params[i] = "_"
		}
	}
	f = append(f, "    "+lists.Targets(params)+" = args")
	for _, s := range stmts {
		for _, t := range s.text() {
			f = append(f, "    "+t)
		}
	}
	f = append(f, "    return "+strings.Join(results, ", "))
	mod.funcs = append(mod.funcs, strings.Join(f, "\n"))
	return nil
}

// schedule orders the bodies of kernels so that loops can be found in them: all heads interleaved, or head by head if steps overlap by a
// schedule. It returns the new module, the place of each instruction, and the schedule per kernel.
func schedule(m *ir.Module) (*ir.Module, map[*ir.Instr]tpu.Place, map[string]ir.Sched, error) {
	m, err := passes.Clone(m)
	if err != nil {
		return nil, nil, nil, err
	}
	scheds, waves := map[string]ir.Sched{}, map[string]bool{}
	for _, in := range m.Body.Instrs {
		g := in.Attrs.Grid
		if in.Op != ir.OpKernel || len(g.Dims) == 0 || g.Points() == 0 {
			continue
		}
		s := ir.Sched{Steps: 1, Lags: []int{0}, Lock: math.MaxInt16}
		if g.Sched != nil {
			s = *g.Sched
			s.Lock, s.Stagger = 1, min(s.Stagger*groupsDistance, groupsDistance)
		}
		g.Sched = &s
		chains.Name(in.Body, s.Waves...)
		for _, w := range s.Waves {
			waves[w] = true
		}
		scheds[g.Name] = s
	}
	m, tasks, err := tpu.Places(m)
	for in, t := range tasks {
		if waves[in.Task.Stage] {
			in.Task.Stage = naming.Gradients
		}
		if waves[t.Task.Stage] {
			t.Task.Stage = naming.Gradients
			tasks[in] = t
		}
	}
	return m, tasks, scheds, err
}

// groupsDistance is a distance between interleaved groups of heads that exceeds the number of groups; it is the largest that a schedule
// takes.
const groupsDistance = 64

// imports returns the import lines that a text needs.
func imports(text string) string { return pytext.Imports(share.Code(text)) }

// preamble returns the constants and helper functions that the kernels use.
func (c *code) preamble() string {
	return "Ref = Any  # jax.Ref or a view of one, which has no type\n" + strings.Replace(helpers.Text(c.helpers), "{scale}", floatText(c.scale), 1)
}
