package irgraph

import (
	"fmt"

	. "github.com/gomlx/gomlx/core/graph"

	"github.com/gdngen/gdngen/ir"
)

// unrolledCount is the largest loop count that is unrolled although the backend has dynamic slices.
const unrolledCount = 2

// buildLoop makes a While, or unrolls. GoMLX's XLA backend does not support a While within another, so inner loops are
// always unrolled.
func buildLoop(b *builder, in *ir.Instr) []*value {
	if b.dynamic && b.inside == 0 && in.Attrs.Count > unrolledCount {
		return b.while(in)
	}
	body := b.hoist(in.Body)
	carried := make([]*value, len(in.Args))
	for i, a := range in.Args {
		carried[i] = b.env[a]
	}
	for i := range in.Attrs.Count {
		b.env[in.Body.Params[0]] = &value{known: &i}
		for j, c := range carried {
			b.env[in.Body.Params[1+j]] = c
		}
		b.block(body)
		next := make([]*value, len(carried))
		for j, y := range in.Body.Yield {
			next[j] = b.env[y]
		}
		carried = next
	}
	return carried
}

// hoist builds the instructions of a body that do not depend on its parameters, and returns the others.
func (b *builder) hoist(body *ir.Block) []*ir.Instr {
	varies := map[*ir.Value]bool{}
	for _, p := range body.Params {
		varies[p] = true
	}
	var rest []*ir.Instr
	for _, in := range body.Instrs {
		moves := in.Body == nil
		for _, a := range in.Args {
			moves = moves && !varies[a]
		}
		if moves {
			b.instr(in)
			continue
		}
		for _, r := range in.Results {
			varies[r] = true
		}
		rest = append(rest, in)
	}
	return rest
}

// while builds a loop whose state is the index, the carried values, and the captured outer values: a closure of the
// XLA backend sees its own parameters only.
func (b *builder) while(in *ir.Instr) []*value {
	state := []*Node{b.fill(ir.T(ir.I32), 0)}
	inner := append([]*ir.Value{}, in.Body.Params...)
	for _, a := range in.Args {
		state = append(state, b.node(a))
	}
	outer := map[*ir.Value]*value{}
	for _, v := range in.Body.Captures() {
		outer[v] = b.env[v]
		if outer[v].known == nil {
			state, inner = append(state, b.node(v)), append(inner, v)
		}
	}
	parameters := func(g *Graph) []*Node {
		ps := make([]*Node, len(state))
		for i, n := range state {
			ps[i] = Parameter(g, fmt.Sprintf("s%d", i), n.Shape())
		}
		return ps
	}
	cond := NewClosure(b.g, func(g *Graph) []*Node {
		ps := parameters(g)
		goes := LessThan(ps[0], b.fill(ir.T(ir.I32), float64(in.Attrs.Count)))
		if u := in.Attrs.Until; u > 0 {
			goes = LogicalAnd(goes, LessThan(ps[0], ps[u]))
		}
		return []*Node{goes}
	})
	step := NewClosure(b.g, func(g *Graph) []*Node {
		b.inside++
		defer func() { b.inside-- }()
		ps := parameters(g)
		for i, p := range ps {
			b.env[inner[i]] = &value{n: p}
		}
		b.block(in.Body.Instrs)
		next := []*Node{Add(ps[0], b.fill(ir.T(ir.I32), 1))}
		for _, y := range in.Body.Yield {
			next = append(next, b.node(y))
		}
		return append(next, ps[len(next):]...)
	})
	out := While(cond, step, state...)
	for v, x := range outer {
		b.env[v] = x
	}
	values := make([]*value, len(in.Results))
	for i := range values {
		values[i] = &value{n: out[1+i]}
	}
	return values
}
