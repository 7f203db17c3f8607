package irgraph

import (
	"errors"
	"fmt"
	"slices"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/graph"

	"github.com/gdngen/gdngen/codegen/pass"
	"github.com/gdngen/gdngen/ir"
)

// Types maps element types of ir to GoMLX's. Semaphores have none.
var Types = map[ir.DType]dtypes.DType{
	ir.F64: dtypes.Float64, ir.F32: dtypes.Float32, ir.F16: dtypes.Float16, ir.BF16: dtypes.BFloat16,
	ir.I64: dtypes.Int64, ir.I32: dtypes.Int32, ir.U32: dtypes.Uint32, ir.U16: dtypes.Uint16, ir.Bool: dtypes.Bool,
}

// Shape returns a value type as a GoMLX shape.
func Shape(t ir.Type) shapes.Shape { return shapes.Make(Types[t.DType], t.Shape...) }

// Supports returns an error for ops that cannot be in a graph.
func Supports(op ir.Op) error {
	if op == ir.BadOp || op >= ir.NumOps {
		return fmt.Errorf("unknown op %s", op)
	}
	if op == ir.OpGrid {
		return nil // batched first
	}
	if r := rules[op]; r.refuse != "" {
		return fmt.Errorf("%s: %s", op, r.refuse)
	}
	return nil
}

// Prepare batches and simplifies a module, and fails if an op has no rule. Build does the same; calling Prepare
// first reports errors where they can be returned.
func Prepare(m *ir.Module) (*ir.Module, error) {
	m, err := pass.Apply(m, pass.Graph...)
	if err != nil {
		return nil, fmt.Errorf("irgraph: %w", err)
	}
	m.Body.Walk(func(in *ir.Instr) {
		if e := Supports(in.Op); e != nil && err == nil {
			err = fmt.Errorf("irgraph: module %s: %w", m.Name, e)
		}
	})
	return m, err
}

// Build adds a prepared module to a graph. inputs are named and typed as the module's parameters; results are
// in the order of the module. It panics with an error, as GoMLX's graph functions do.
func Build(g *graph.Graph, m *ir.Module, inputs map[string]*graph.Node) []*graph.Node {
	return build(g, m, inputs, g.Backend().Capabilities().Operations[compute.OpTypeDynamicSlice])
}

// BuildUnrolled is Build with every loop unrolled, so that GoMLX can differentiate the graph, slowly.
func BuildUnrolled(g *graph.Graph, m *ir.Module, inputs map[string]*graph.Node) []*graph.Node {
	return build(g, m, inputs, false)
}

func build(g *graph.Graph, m *ir.Module, inputs map[string]*graph.Node, dynamic bool) []*graph.Node {
	b := &builder{g: g, env: map[*ir.Value]*value{}, dynamic: dynamic}
	for _, p := range m.Params() {
		n := inputs[p.Name]
		if n == nil {
			panic(fmt.Errorf("irgraph: module %s: input %s is missing, want %v", m.Name, p.Name, p.Type))
		}
		if !n.Shape().Equal(Shape(p.Type)) {
			panic(fmt.Errorf("irgraph: module %s: input %s is %s, want %v", m.Name, p.Name, n.Shape(), p.Type))
		}
		b.env[p] = &value{n: n}
	}
	b.block(m.Body.Instrs)
	out := make([]*graph.Node, len(m.Body.Yield))
	for i, v := range m.Body.Yield {
		out[i] = b.node(v)
	}
	return out
}

// builder translates one module.
type builder struct {
	g       *graph.Graph
	env     map[*ir.Value]*value
	dynamic bool // the backend slices at run time
	inside  int  // depth of While bodies
}

// value is a node, a number known while the graph is built, or a node with replaced parts.
type value struct {
	n     *graph.Node
	known *int
	patch *patch
}

// node returns the node of a value, and creates it if needed. A node created inside a While belongs to its body
// and is not kept.
func (b *builder) node(v *ir.Value) *graph.Node {
	x := b.env[v]
	n := x.n
	switch {
	case n != nil:
		return n
	case x.known != nil:
		n = b.fill(v.Type, float64(*x.known))
	case x.patch != nil:
		n = x.patch.join()
	}
	if b.inside == 0 {
		x.n = n
	}
	return n
}

// fill returns a constant node. GoMLX caches its own scalars (Scalar, ZerosLike, MulScalar, ...) per graph, and one
// created inside a closure is then missing outside. So this package must not use them.
func (b *builder) fill(t ir.Type, v float64) *graph.Node {
	c := graph.Const(b.g, shapes.CastAsDType(v, Types[t.DType]))
	if t.Rank() == 0 {
		return c
	}
	return graph.BroadcastPrefix(c, t.Shape...)
}

func (b *builder) block(instrs []*ir.Instr) {
	for _, in := range instrs {
		b.instr(in)
	}
}

func (b *builder) instr(in *ir.Instr) {
	rule := rules[in.Op]
	switch {
	case rule.refuse != "":
		panic(fmt.Errorf("irgraph: %s: %w", describe(in), errors.New(rule.refuse)))
	case rule.values != nil:
		for i, v := range rule.values(b, in) {
			b.env[in.Results[i]] = v
		}
	default:
		args := make([]*graph.Node, len(in.Args))
		for i, a := range in.Args {
			args[i] = b.node(a)
		}
		n := rule.node(b, in, args)
		if want := Shape(in.Result().Type); !n.Shape().Equal(want) {
			panic(fmt.Errorf("irgraph: %s: built %s, want %s", describe(in), n.Shape(), want))
		}
		b.env[in.Result()] = &value{n: n}
	}
}

// describe formats an instruction for errors.
func describe(in *ir.Instr) string {
	s := in.Op.String()
	for _, a := range in.Args {
		s += " " + a.Type.String()
	}
	if l := in.Task.String(); l != "" {
		s += " at " + l
	}
	return s
}

// constants returns the scalar operands known while the graph is built; ok is true if all are.
func (b *builder) constants(args []*ir.Value) (known []*int, ok bool) {
	ok = true
	for _, a := range args {
		k := b.env[a].known
		known, ok = append(known, k), ok && k != nil
	}
	return known, ok
}

// patch is a base with replaced parts along one axis, in writing order.
type patch struct {
	base  *graph.Node
	axis  int
	parts []part
}

type part struct {
	start int
	n     *graph.Node
}

// write returns a patch with one more part; nil if it partially overlaps another.
func (p *patch) write(start int, n *graph.Node) *patch {
	size := func(n *graph.Node) int { return n.Shape().Dimensions[p.axis] }
	q := &patch{base: p.base, axis: p.axis}
	for _, o := range p.parts {
		switch {
		case o.start == start && size(o.n) == size(n): // replaces an earlier part
		case o.start < start+size(n) && start < o.start+size(o.n):
			return nil
		default:
			q.parts = append(q.parts, o)
		}
	}
	q.parts = append(q.parts, part{start, n})
	return q
}

// join concatenates the parts and the remaining base.
func (p *patch) join() *graph.Node {
	parts := slices.Clone(p.parts)
	slices.SortFunc(parts, func(x, y part) int { return x.start - y.start })
	var all []*graph.Node
	at := 0
	keep := func(until int) {
		if until > at {
			all = append(all, graph.SliceAxis(p.base, p.axis, graph.AxisRange(at, until)))
		}
	}
	for _, q := range parts {
		keep(q.start)
		all = append(all, q.n)
		at = q.start + q.n.Shape().Dimensions[p.axis]
	}
	keep(p.base.Shape().Dimensions[p.axis])
	if len(all) == 1 {
		return all[0]
	}
	return graph.Concatenate(all, p.axis)
}
