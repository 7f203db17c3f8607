package stablehlo

import (
	"fmt"
	"strings"

	"github.com/gdngen/gdngen/ir"
)

// A bf16 array that a loop only slices or updates stays bf16 through it: the slices are converted, not the array.

// keep records an array in its own type, and its copy in the carrier type.
func (p *printer) keep(v *ir.Value, name string) {
	if c := p.carrier(v.Type); !c.Equal(v.Type) {
		p.stored[v] = name
		name = p.convert(name, v.Type, c)
	}
	p.names[v] = name
}

// sliced reports whether a block, with its inner blocks, only takes slices of v.
func sliced(body *ir.Block, v *ir.Value) bool {
	only := true
	body.Walk(func(in *ir.Instr) {
		for i, a := range in.Args {
			only = only && (a != v || in.Op == ir.OpDynSlice && i == 0)
		}
		if in.Body != nil {
			only = only && !yields(in.Body, v)
		}
	})
	return only && !yields(body, v)
}

func yields(b *ir.Block, v *ir.Value) bool {
	for _, y := range b.Yield {
		if y == v {
			return true
		}
	}
	return false
}

// refilled returns the values of a carried array in a body that only slices it, updates slices, passes it through such loops, and yields it
// at position j; nil for any other use.
func refilled(body *ir.Block, v *ir.Value, j int) []*ir.Value {
	chain := []*ir.Value{v}
	for _, in := range body.Instrs {
		last := chain[len(chain)-1]
		for i, a := range in.Args {
			if a != last {
				continue
			}
			switch {
			case in.Op == ir.OpDynSlice && i == 0:
			case in.Op == ir.OpDynUpdate && i == 0:
				chain = append(chain, in.Result())
			case in.Op == ir.OpLoop && refilled(in.Body, in.Body.Params[1+i], i) != nil:
				chain = append(chain, in.Results[i])
			default:
				return nil
			}
		}
	}
	for i, y := range body.Yield {
		for k, c := range chain {
			if (y == c) != (i == j && k == len(chain)-1) {
				return nil
			}
		}
	}
	for k, c := range chain { // no other use: of an earlier value, or in an inner body
		used := 0
		body.Walk(func(in *ir.Instr) {
			for _, a := range in.Args {
				if a == c && in.Op != ir.OpDynSlice {
					used++
				}
			}
			if in.Body != nil && yields(in.Body, c) {
				used += len(chain)
			}
		})
		if last := k == len(chain)-1; used > 1 || last && used > 0 {
			return nil
		}
	}
	return chain
}

// emitLoop passes outside values through the loop unchanged, so that its regions refer to nothing outside.
func emitLoop(p *printer, in *ir.Instr, a []string) ([]string, error) {
	body := in.Body
	count := p.splat(float64(in.Attrs.Count), ir.T(ir.I32))
	one := p.splat(1, ir.T(ir.I32))

	// A value that passes through: its value in the body, and the type in which it passes.
	type passing struct {
		value *ir.Value
		init  string
		typ   ir.Type
		chain []*ir.Value // of an array in its own type: its values in the body
	}
	index := ir.T(ir.I32)
	all := []passing{{value: body.Params[0], init: p.splat(0, index), typ: index}}
	for j, v := range body.Params[1:] {
		x := passing{value: v, init: a[j], typ: p.carrier(v.Type)}
		if !x.typ.Equal(v.Type) {
			if x.chain = refilled(body, v, j); x.chain != nil {
				x.init, x.typ = p.own(in.Args[j]), v.Type
			}
		}
		all = append(all, x)
	}
	for _, v := range body.Captures() {
		x := passing{value: v, init: p.names[v], typ: p.carrier(v.Type)}
		if own := p.stored[v]; own != "" && sliced(body, v) {
			x.init, x.typ, x.chain = own, v.Type, []*ir.Value{v}
		}
		all = append(all, x)
	}
	all = append(all, passing{init: count, typ: index}, passing{init: one, typ: index})

	names, header, types := make([]string, len(all)), make([]string, len(all)), make([]string, len(all))
	for i, x := range all {
		names[i] = p.fresh()
		header[i], types[i] = names[i]+" = "+x.init, TensorType(x.typ)
	}
	result := p.fresh()
	p.line("%s:%d = stablehlo.while(%s) : %s", result, len(all), strings.Join(header, ", "), strings.Join(types, ", "))

	type outer struct{ name, stored string }
	before := map[*ir.Value]outer{}
	for i, x := range all {
		if v := x.value; v != nil {
			before[v] = outer{p.names[v], p.stored[v]}
			if delete(p.stored, v); x.chain != nil {
				p.stored[v] = names[i]
			}
			p.names[v] = names[i]
		}
	}
	i, n, step := names[0], names[len(names)-2], names[len(names)-1]
	p.line("cond {")
	p.depth++
	goes := p.compare("LT", i, n, index, "SIGNED")
	if u := in.Attrs.Until; u > 0 {
		goes = p.let("stablehlo.and %s, %s : tensor<i1>", goes, p.compare("LT", i, names[u], index, "SIGNED"))
	}
	p.line("stablehlo.return %s : tensor<i1>", goes)
	p.depth--
	p.line("} do {")
	p.depth++
	if err := p.block(body.Instrs); err != nil {
		return nil, err
	}
	next := append([]string{p.let("stablehlo.add %s, %s : tensor<i32>", i, step)}, names[1:]...)
	for j, v := range body.Yield {
		if next[1+j] = p.names[v]; all[1+j].chain != nil {
			next[1+j] = p.stored[v]
		}
	}
	p.line("stablehlo.return %s : %s", strings.Join(next, ", "), strings.Join(types, ", "))
	p.depth--
	p.line("}")
	for v, o := range before {
		p.names[v] = o.name
		if delete(p.stored, v); o.stored != "" {
			p.stored[v] = o.stored
		}
	}
	out := make([]string, len(in.Results))
	for j := range out {
		out[j] = fmt.Sprintf("%s#%d", result, 1+j)
		if all[1+j].chain != nil {
			p.keep(in.Results[j], out[j])
			out[j] = p.names[in.Results[j]]
		}
	}
	return out, nil
}

// own returns the name of a value in its own type.
func (p *printer) own(v *ir.Value) string {
	if s := p.stored[v]; s != "" {
		return s
	}
	return p.convert(p.names[v], p.carrier(v.Type), v.Type)
}
