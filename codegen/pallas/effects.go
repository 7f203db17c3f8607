package pallas

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gdngen/gdngen/codegen/pallas/loops"
	"github.com/gdngen/gdngen/codegen/pallas/naming"
	"github.com/gdngen/gdngen/codegen/pallas/pytext"
	"github.com/gdngen/gdngen/ir"
)

// effect writes a store, a copy or a wait as a statement.
func (p *printer) effect(n *loops.Node) statement {
	if n.In.Op == ir.OpStore {
		p.nameStored(n)
	}
	o := p.operands(n)
	switch n.In.Op {
	case ir.OpStore:
		refType, val := n.In.Args[1].Type, n.In.Args[0].Type
		// access takes operands as a load has them: the reference, then the starts
		at, err := o.access(refType, val.Shape, o.texts[2:])
		if err != nil {
			p.fail(n, err)
		}
		value := o.full(0).s
		target := p.ref(storedTo(n)).s
		if base, ok := strings.CutSuffix(target, ".bitcast(jnp.uint32)"); ok && refType.DType == ir.U32 {
			return p.storeWords(n, base, refType.Rank(), val.Shape[0], value, func(d int) string { return o.start(d, o.texts[2:]).s })
		}
		return statement{value: element(target, at, refType.Rank()-val.Rank()) + " = " + value}
	case ir.OpDMAStart, ir.OpDMAWait:
		method := map[ir.Op]string{ir.OpDMAStart: "start", ir.OpDMAWait: "wait"}[n.In.Op]
		sides := []string{o.texts[0].s, o.texts[1].s}
		for i := range sides {
			if len(n.In.Args) == 3 {
				sides[i] = view(sides[i], "")
				continue
			}
			counts, err := ir.BlockCounts(n.In.Args[i].Type, n.In.Attrs.Dims)
			if err != nil {
				p.fail(n, err)
			}
			sides[i] = view(sides[i], p.blockSlices(o.texts[3+i].s, n.In.Attrs.Dims, counts))
		}
		args := append(sides, view(o.texts[2].s, ""))
		if n.Call != "" {
			args = append(args, p.ref(n.Args[len(n.Args)-1]).s)
		}
		if p.acts {
			return statement{value: call("act", args...).s}
		}
		p.need(method)
		return statement{value: call("_"+method, args...).s}
	}
	p.fail(n, fmt.Errorf("no statement"))
	return statement{}
}

// blockSlices returns the index of block number at, given block sizes and counts. Dimensions after the last one of several blocks are
// omitted.
func (p *printer) blockSlices(at string, block, counts []int) string {
	first, last := -1, 0
	for d, n := range counts {
		if n > 1 {
			last = d
			if first < 0 {
				first = d
			}
		}
	}
	at = "(" + at + ")"
	var parts []string
	for d := last; d >= 0; d-- {
		n, size := at, block[d]
		switch {
		case counts[d] == 1 && last > 0:
			parts = append(parts, ":")
			continue
		case d > first && first >= 0:
			n, at = fmt.Sprintf("(%s %% %d)", at, counts[d]), fmt.Sprintf("(%s // %d)", at, counts[d])
		}
		n = strings.TrimSuffix(strings.TrimPrefix(n, "("), ")")
		if size > 1 {
			p.need("block")
			parts = append(parts, fmt.Sprintf("_block(%s, %d)", n, size))
			continue
		}
		parts = append(parts, fmt.Sprintf("pl.ds(%s, %d)", n, size))
	}
	slices.Reverse(parts)
	return strings.Join(parts, ", ")
}

// storedTo returns the reference of a store. A stored constant is not among the node's arguments.
func storedTo(n *loops.Node) loops.Ref {
	if _, ok := loops.Constant(n.In.Args[0]); ok {
		return n.Args[0]
	}
	return n.Args[1]
}

// nameStored names a reference after the first value stored to it.
func (p *printer) nameStored(n *loops.Node) {
	x := storedTo(n).Item
	if x.Param == 0 || p.k.names[x] != "" {
		return
	}
	base := "zeros"
	if _, ok := loops.Constant(n.In.Args[0]); !ok {
		base = p.base(n.Args[0].Item)
		if name := p.names[n.Args[0].Item]; name != "" {
			base = name
		}
	}
	base = naming.Plain(naming.Unnumbered(base))
	if all := p.k.held.In(x); len(all) > 1 {
		if base = naming.Both(all); base == "" || len(base) > 18 { // too long to help
			base = "parts"
		}
	}
	if !strings.HasPrefix(base, n.Stage) {
		base = n.Stage + "_" + base
	}
	p.k.nameRef(x, base)
}

// storeWords writes u32 words to pairs of bf16 rows through a helper, since interpret mode has no stores through a bitcast.
func (p *printer) storeWords(n *loops.Node, base string, rank, rows int, value string, start func(d int) string) statement {
	p.need("store_words")
	p.flags["interpret"] = true
	var lead []string
	for d := range rank - 2 {
		lead = append(lead, start(d))
	}
	step := n.In.Attrs.Step(rank - 2)
	return statement{value: fmt.Sprintf("_store_words(%s, %s, %d, %s, interpret)", view(base, strings.Join(lead, ", ")), start(rank-2), step, value)}
}

// when writes a condition's body as a function under pl.when.
func (p *printer) when(n *loops.Node) statement {
	defer func(taken map[string]bool) {
		for _, name := range p.full { // except names made at the start of the function
			taken[name] = true
		}
		p.taken = taken
	}(p.taken)
	p.taken = maps.Clone(p.taken) // names within are local
	cond := p.ref(n.Args[0]).s
	if p.k != nil && p.k.inLine != nil && n == p.k.inLine.Begins {
		step := p.ref(n.Args[0].Item.Maker.Args[0]).s
		cond = fmt.Sprintf("lax.rem(%s - 1, row_steps) == 0 if row_steps else %[1]s == 1", step)
	}
	s := statement{lines: []string{"@pl.when(" + cond + ")", "def _():"}}
	for _, b := range p.nodes(n.Body) {
		for _, t := range b.text() {
			s.lines = append(s.lines, "    "+t)
		}
	}
	return s
}

// copies writes the function of places that starts or awaits copies; a kernel that bundles its references has one function per copied
// array.
func (p *printer) copies(n *loops.Node) []statement {
	defer func(taken map[string]bool) { p.taken, p.acts = taken, false }(p.taken)
	alone := p.k.bundle && !p.phased
	if name := "_copies"; alone {
		if of := loops.Copied(n.Body); len(of) == 1 {
			name = "_copy_" + strings.NewReplacer("refs.", "", "initial_", "").Replace(p.name(of[0]))
		}
		p.names[n.Defs[0]] = p.m.fresh(name)
	}
	name := p.name(n.Defs[0])
	p.taken, p.acts = maps.Clone(p.taken), true
	outer := map[string]bool{}
	for _, b := range n.Body {
		loops.EachRef(b, func(r *loops.Ref) { outer[p.names[r.Item]] = true })
	}
	hints := []string{"act: Callable"}
	for _, x := range n.Params {
		base := "x"
		if m := x.Maker; m != nil {
			base = cmp.Or(p.names[m.Defs[0]], p.base(m.Defs[0]))
		}
		if p.names[x] = base; outer[base] {
			p.names[x] = p.fresh(base)
		}
		hints = append(hints, p.name(x)+": jax.Array")
	}
	var lines []string
	for _, b := range p.nodes(n.Body) {
		for _, t := range b.text() {
			lines = append(lines, "    "+t)
		}
	}
	if alone {
		lines = slices.Concat([]string{header(name, append(hints, "refs: "+p.k.class), "None"), `    """Begins the copies of a step, or waits for them."""`}, lines)
		p.m.funcs = append(p.m.funcs, pytext.OwnNames(strings.Join(lines, "\n")))
		return nil
	}
	return []statement{{lines: append([]string{header(name, hints, "None")}, lines...)}}
}

// copy writes a call of such a function, under its condition if it has one.
func (p *printer) copy(n *loops.Node) statement {
	p.need(n.Note)
	args := p.refs(n.Args)
	list := []string{args[0].s, "_" + n.Note}
	last := len(args) - len(n.Params)
	for _, a := range args[1:last] {
		list = append(list, a.s)
	}
	if strings.HasPrefix(list[0], "_") {
		list = append(list, "refs")
	}
	if last == len(args) {
		return statement{value: call(list[0], list[1:]...).s}
	}
	return statement{value: call("pl.when", args[last].s).s + "(" + call("functools.partial", list...).s + ")"}
}
