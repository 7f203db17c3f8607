package pallas

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/gdngen/gdngen/codegen/pallas/lists"
	"github.com/gdngen/gdngen/codegen/pallas/loops"
	"github.com/gdngen/gdngen/ir"
)

// fresh makes a name that is not taken.
func (p *printer) fresh(base string) string {
	base = strings.Trim(base, "_")
	if base == "" {
		base = "x"
	}
	name := base
	for i := 2; p.taken[name] || pythonWords[name]; i++ {
		name = fmt.Sprintf("%s_%d", base, i)
	}
	p.taken[name] = true
	return name
}

var pythonWords = map[string]bool{"jax": true, "jnp": true, "lax": true, "np": true, "pl": true, "pltpu": true, "in": true, "is": true, "if": true,
	"for": true, "not": true, "and": true, "or": true, "lambda": true, "range": true, "list": true, "sum": true, "from": true, "interpret": true}

func (p *printer) name(x *loops.Item) string {
	if x.Param != 0 {
		if p.k.names[x] == "" {
			p.k.nameRef(x, p.k.unstored(x))
		}
		p.params[x] = true
		return p.k.names[x]
	}
	if p.names[x] == "" {
		p.names[x] = p.fresh(p.base(x))
	}
	return p.names[x]
}

// base is what an item is called, apart from a number: after what it is a form of, or after what made it.
func (p *printer) base(x *loops.Item) string {
	n := x.Maker
	if n == nil {
		if x.Typ.IsRef() {
			return "ref"
		}
		return "x"
	}
	if n.Call == "visits" {
		return [...]string{"table", "marks"}[slices.Index(n.Defs, x)]
	}
	if n.Loop != nil {
		for _, c := range n.Loop.Carries {
			if c.Last == x {
				return p.base(c.Next)
			}
		}
		i := slices.Index(n.Defs, x)
		return plural(p.base(loops.FlatDefs(n.Loop.Body)[i]))
	}
	if n.List != nil {
		return plural(strings.TrimSuffix(p.base(n.List[0].Item), "s"))
	}
	of := func() string {
		if len(n.Args) == 0 {
			return "x"
		}
		a := n.Args[0].Item
		name := p.names[a]
		if a.Param != 0 {
			name = p.name(a)
		}
		if name != "" {
			name = strings.TrimSuffix(strings.TrimRight(baseName(name), "_0123456789"), "_in")
			if len(n.Args[0].At) > 0 {
				name = strings.TrimSuffix(name, "s")
			}
			return name
		}
		return baseName(p.base(a))
	}
	switch n.Call {
	case "finite", "copies":
		return n.Call
	case "feedback":
		return "rounded"
	case "eliminate", "merge":
		return "x"
	}
	switch n.In.Op {
	case ir.OpLoad, ir.OpRefCast, ir.OpConvert, ir.OpBitcast, ir.OpWords, ir.OpHalves, ir.OpBroadcast, ir.OpReshape, ir.OpSlice:
		return of()
	case ir.OpTranspose:
		return strings.TrimSuffix(of(), "_t") + "_t"
	case ir.OpIota:
		return [...]string{"row", "column", "index"}[min(n.In.Attrs.Axis, 2)]
	case ir.OpLog, ir.OpLog2, ir.OpLog1p:
		return "log_" + of()
	case ir.OpSelect:
		if _, ok := loops.Constant(n.In.Args[1]); ok {
			return of()
		}
	}
	if name := step(n, of); name != "" {
		return name
	}
	if n.In.Op == ir.OpMax && of() == "beta" { // each gate has its floor
		return "beta"
	}
	if name := stageNames[n.Stage][n.In.Op]; name != "" {
		return name
	}
	return rules[n.In.Op].name
}

// step is what a number made of a step of the grid is called, and a condition of one; empty for others.
func step(n *loops.Node, of func() string) string {
	if len(n.In.Args) == 0 || len(n.In.Results) != 1 || n.In.Result().Type.Rank() > 0 {
		return ""
	}
	last, known := loops.Constant(n.In.Args[len(n.In.Args)-1])
	op, from := n.In.Op, of()
	steps := from == "step" || from == "here"
	switch {
	case n.In.Result().Type.DType == ir.Bool:
		return "due"
	case !known:
		return ""
	case (op == ir.OpAdd || op == ir.OpSub) && last == 0, op == ir.OpMul && last == 1: // as it stands
		if steps {
			return "here"
		}
		return from
	case op == ir.OpSub && steps:
		return "earlier"
	case op == ir.OpAnd && last == 1 && (steps || from == "earlier"):
		return "parity"
	}
	return ""
}

func plural(s string) string {
	if strings.HasSuffix(s, "s") || strings.HasSuffix(s, "x") {
		return s
	}
	return s + "s"
}

// ref is the text of a reference to an item.
func (p *printer) ref(r loops.Ref) expr {
	e, ok := p.text[r.Item]
	if !ok && loops.IsCast(r.Item) {
		e, _ = p.write(r.Item.Maker)
		ok = true
	}
	if !ok {
		e = expr{p.name(r.Item), atom}
	}
	if len(r.At) == 0 {
		return e
	}
	if r.Item.Typ.IsRef() { // one reference with more dimensions
		at := make([]string, len(r.At))
		for i, f := range r.At {
			at[i] = formText(f).s
		}
		return expr{e.s + "[" + strings.Join(at, ", ") + "]", atom}
	}
	for _, f := range r.At {
		e = expr{e.in(atom) + "[" + formText(f).s + "]", atom}
	}
	return e
}

// operands gives the texts of a node's operands.
func (p *printer) operands(n *loops.Node) *operands {
	o := &operands{in: n.In, ints: n.Ints, p: p}
	arg, small_ := 0, len(n.Ints)
	for _, a := range n.In.Args {
		if c, ok := loops.Constant(a); ok && loops.Small(c) {
			small_--
		} else if !ok {
			arg++
		}
	}
	arg = 0
	for _, a := range n.In.Args {
		c, ok := loops.Constant(a)
		switch {
		case ok && loops.Small(c):
			f := n.Ints[small_]
			small_++
			if name, ok := p.m.constant(a.Type.DType, c); f.IsConst() && ok {
				o.texts = append(o.texts, expr{name, atom})
			} else if f.IsConst() {
				o.texts = append(o.texts, expr{scalarText(a.Type.DType, c), atom})
				if c < 0 {
					o.texts[len(o.texts)-1].prec = precUnary
				}
			} else if a.Type.DType == ir.U32 {
				o.texts = append(o.texts, call("np.uint32", formText(f).s))
			} else {
				o.texts = append(o.texts, formText(f))
			}
		case ok:
			e := expr{scalarText(a.Type.DType, c), atom}
			if strings.HasPrefix(e.s, "-") {
				e.prec = precUnary
			}
			if name, ok := p.m.constant(a.Type.DType, c); ok {
				e = expr{name, atom}
			}
			o.texts = append(o.texts, e)
		default:
			o.texts = append(o.texts, p.ref(n.Args[arg]))
			arg++
		}
	}
	return o
}

// listText is a list of expressions.
func (p *printer) listText(l []expr) string {
	texts := make([]string, len(l))
	for i, e := range l {
		texts[i] = e.s
	}
	return lists.Text(texts, p.length, func() { p.need("woven") })
}

// length is the length of the list of a name, or of an element of it; 0 if there is none, or if lists of several lengths have the name, each
// in its place.
func (p *printer) length(name string) int {
	base, inner, all := name, 0, 0
	for m := indexed.FindStringSubmatch(base); m != nil; m = indexed.FindStringSubmatch(base) {
		base, inner = m[1], inner+1
	}
	for x, n := range p.names {
		if n != base || !x.IsList() {
			continue
		}
		for range inner {
			if x = x.Elems[0]; x == nil || !x.IsList() {
				return 0
			}
		}
		if all > 0 && all != len(x.Elems) {
			return 0
		}
		all = len(x.Elems)
	}
	return all
}

var indexed = regexp.MustCompile(`^(.+)\[[^\[\]]*\]$`)

// unstored is the name of scratch that is read before anything is stored: that of its parts, or of what a step before left.
func (k *kernel) unstored(x *loops.Item) string {
	var parts []string
	for _, e := range x.Elems {
		if name, ok := strings.CutSuffix(baseName(k.names[e]), "_in"); ok && !slices.Contains(parts, name) {
			parts = append(parts, name)
		}
	}
	if len(parts) > 0 {
		return strings.Join(parts, "_") + "_in"
	}
	return "prior"
}
