package pallas

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/gdngen/gdngen/codegen/pallas/chains"
	"github.com/gdngen/gdngen/codegen/pallas/lists"
	"github.com/gdngen/gdngen/codegen/pallas/loops"
	"github.com/gdngen/gdngen/codegen/pallas/naming"
	"github.com/gdngen/gdngen/ir"
)

// fresh returns a name that is not taken.
func (p *printer) fresh(base string) string {
	base = strings.Trim(base, "_")
	if base == "" {
		base = "x"
	}
	name := base
	for i := 2; p.taken[name] || naming.PythonWords[name]; i++ {
		name = fmt.Sprintf("%s_%d", base, i)
	}
	p.taken[name] = true
	return name
}

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

// base returns an item's name without a number; with an owner if heads go in pairs.
func (p *printer) base(x *loops.Item) string {
	n := x.Maker
	switch {
	case n == nil:
		return p.begun(x)
	case n.Call == "visits":
		return [...]string{"table", "marks"}[slices.Index(n.Defs, x)]
	case n.Loop != nil:
		for _, c := range n.Loop.Carries {
			if p.carried[c.Item] = c.Init.Item; c.Last == x {
				return p.base(c.Next)
			}
		}
		i := slices.Index(n.Defs, x)
		return naming.Plural(p.base(loops.FlatDefs(n.Loop.Body)[i]), naming.Depth(x))
	case n.List != nil:
		first, depth := p.base(n.List[0].Item), naming.Depth(x)
		name := naming.Singular(first)
		if last := naming.Plain(p.base(n.List[len(n.List)-1].Item)); depth != 1 && last != naming.Plain(first) {
			name = naming.Plain(name) + "_" + naming.Singular(last) // two interleaved lists
		}
		return naming.Plural(name, depth)
	}
	name := p.made(n)
	if n.Call == "" && strings.HasSuffix(n.In.Called(), chains.Odd) {
		name = strings.TrimSuffix(name, chains.Odd) + chains.Odd
	}
	return name
}

// begun names an item that no node made; a value carried by a loop is named after its initial value.
func (p *printer) begun(x *loops.Item) string {
	init := p.carried[x]
	switch {
	case init != nil && p.names[init] != "":
		return naming.Unnumbered(p.names[init])
	case init != nil:
		return p.base(init)
	case x.Typ.IsRef():
		return "ref"
	}
	return "x"
}

// made names the result of a node: after a formula, after the value that it is another form of, or after its op.
func (p *printer) made(n *loops.Node) string {
	of := func() string { return p.operandName(n) }
	switch n.Call {
	case "copies":
		return n.Call
	case "finite":
		return naming.Form(of(), "finite")
	case "feedback":
		return naming.Form(of(), "bf")
	case "eliminate", "merge":
		return "xs"
	}
	if p.k != nil {
		if name := p.k.held.Loaded(n); name != "" {
			return name
		}
	}
	if name := n.In.Called(); name != "" && name != chains.Odd {
		return name
	}
	switch n.In.Op {
	case ir.OpLoad, ir.OpRefCast, ir.OpBitcast:
		return of()
	case ir.OpConvert, ir.OpWords, ir.OpHalves, ir.OpBroadcast, ir.OpSlice, ir.OpReshape:
		if n.In.Op == ir.OpReshape && p.k != nil || !p.formed(n) {
			return of()
		}
		return naming.Form(of(), naming.FormOf(n.In))
	case ir.OpConcat:
		if n.In.Attrs.Axis > 0 && n.In.Attrs.Axis == n.In.Result().Type.Rank()-1 {
			return "joined"
		}
	case ir.OpPack:
		return naming.Plain(of()) + "_words"
	case ir.OpTranspose:
		return strings.TrimSuffix(naming.Plain(of()), "_t") + "_t"
	case ir.OpIota:
		return [...]string{"row", "column", "index"}[min(n.In.Attrs.Axis, 2)]
	case ir.OpLog, ir.OpLog2, ir.OpLog1p:
		return "log_" + of()
	case ir.OpSelect:
		if _, ok := loops.Constant(n.In.Args[1]); ok {
			return of()
		}
	}
	if name := naming.Step(n, of); name != "" {
		return name
	}
	if n.In.Op == ir.OpMax && of() == "beta" { // each gate has its own floor
		return "beta"
	}
	if name := naming.Stages[n.Stage][n.In.Op]; name != "" {
		return name
	}
	return rules[n.In.Op].name
}

// operandName returns the name of a node's first operand.
func (p *printer) operandName(n *loops.Node) string {
	if len(n.Args) == 0 {
		return "x"
	}
	a := n.Args[0].Item
	name := p.names[a]
	if a.Param != 0 {
		name = p.name(a)
	}
	if name == "" {
		return baseName(p.base(a))
	}
	name = strings.TrimSuffix(naming.Unnumbered(baseName(name)), "_in")
	if n.Call == "" && n.In.Op == ir.OpLoad && p.k != nil && p.k.carries(a) {
		name = strings.NewReplacer("final_", "", "initial_", "").Replace(name)
	}
	for range n.Args[0].At {
		name = naming.Singular(name)
	}
	return name
}

// formed reports whether a node makes another form of a named value, so that its name should say which.
func (p *printer) formed(n *loops.Node) bool {
	for n != nil && len(n.Args) > 0 && n.Call == "" && naming.FormOf(n.In) != "" {
		a := n.Args[0].Item
		if p.names[a] != "" {
			return !a.Typ.IsRef()
		}
		n = a.Maker
	}
	return false
}

// ref returns the text of a reference to an item.
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

// operands returns the texts of a node's operands.
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

// listText returns the text of a list of expressions.
func (p *printer) listText(l []expr) string {
	texts := make([]string, len(l))
	for i, e := range l {
		texts[i] = e.s
	}
	return lists.Text(texts, p.length, func() { p.need("woven") })
}

// length returns the length of the list with a name, or of an element of it; 0 if there is none, or if lists of several lengths share
// the name.
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

// carries reports whether a reference is an output; a kernel reads outputs that it carries from chunk to chunk.
func (k *kernel) carries(x *loops.Item) bool {
	g := k.In.Attrs.Grid
	return x.Param > g.Tables+len(g.In) && !x.Scratch
}

// unstored names scratch that is read before a store: after its parts, or after the value that a step before stored.
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
	if x.Param == 0 {
		return "prior"
	}
	name := "prior"
	k.In.Body.Walk(func(in *ir.Instr) {
		if in.Op != ir.OpStore || in.Args[1] != k.In.Body.Params[x.Param-1] {
			return
		}
		if left := ir.NameOf(in.Args[0]); left != "" {
			name = "prior_" + naming.Plain(left)
		}
	})
	return name
}
