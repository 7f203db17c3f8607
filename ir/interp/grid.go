package interp

import (
	"fmt"
	"slices"

	"github.com/gdngen/gdngen/ir"
)

// launch is a grid or kernel with its operands.
type launch struct {
	g      *ir.Grid
	tables [][]int64
	in     []*tensor
	carry  []*tensor // initial
}

// newLaunch takes operands by kind: tables, inputs, initial carries.
func newLaunch(g *ir.Grid, args []*tensor) *launch {
	l := &launch{g: g, in: args[g.Tables : g.Tables+len(g.In)], carry: args[g.Tables+len(g.In):][:len(g.Carry)]}
	for _, t := range args[:g.Tables] {
		l.tables = append(l.tables, t.n)
	}
	return l
}

// point is the id of the p-th point in lexicographic order.
func (l *launch) point(p int) []int {
	id := make([]int, len(l.g.Dims))
	for i := len(id) - 1; i >= 0; i-- {
		id[i] = p % l.g.Dims[i].Size
		p /= l.g.Dims[i].Size
	}
	return id
}

// start returns the first element of a window at a point, along each dimension. Devices do not check
// indices: a window outside its array would access other memory. So it is an error here, at the
// point.
func (l *launch) start(w ir.Window, id, shape []int) ([]int, error) {
	at := make([]int, len(w.Index))
	for d, x := range w.Index {
		i := x.At(id, l.tables)
		if i < 0 || i > shape[d]/w.Block[d]-1 {
			return nil, fmt.Errorf("block %d of %d elements lies outside dimension %d of %v at point %v", i, w.Block[d], d, shape, id)
		}
		at[d] = i * w.Block[d]
	}
	return at, nil
}

// target is start for an output window; nil if several windows share the array and this one writes
// nothing.
func (l *launch) target(i int, id []int) ([]int, error) {
	w := l.g.Out[i]
	if l.g.Into != nil && l.misses(w, id, l.g.Outs[i].Shape) {
		return nil, nil
	}
	return l.start(w, id, l.g.Outs[i].Shape)
}

// source is start for an input window; nil if the window is zero.
func (l *launch) source(i int, id []int) ([]int, error) {
	w := l.g.In[i]
	if l.g.Copies > 0 && l.misses(w, id, l.in[i].shape) {
		return nil, nil
	}
	return l.start(w, id, l.in[i].shape)
}

// misses reports whether a table gives a window a number that is no block of the operand.
func (l *launch) misses(w ir.Window, id, shape []int) bool {
	for d, x := range w.Index {
		if n := x.At(id, l.tables); x.Table >= 0 && (n < 0 || n >= shape[d]/w.Block[d]) {
			return true
		}
	}
	return false
}

// blockNumber numbers the blocks of a window row-major.
func blockNumber(w ir.Window, at, shape []int) int {
	n := 0
	for d, a := range at {
		n = n*(shape[d]/w.Block[d]) + a/w.Block[d]
	}
	return n
}

// blocks returns the number of blocks of a window, and whether they cover the operand.
func blocks(w ir.Window, shape []int) (n int, whole bool) {
	n, whole = 1, true
	for d, s := range shape {
		n *= s / w.Block[d]
		whole = whole && s%w.Block[d] == 0
	}
	return n, whole
}

// groups splits the points into runs along the sequential axis: n runs of size points each. Groups
// may run at the same time, and points of a group one after another, since a carry passes between
// them.
func (l *launch) groups() (n, size int) {
	n, size = l.g.Points(), 1
	if k := len(l.g.Dims); k > 0 && l.g.Dims[k-1].Seq {
		size = l.g.Dims[k-1].Size
	}
	return n / size, size
}

// check verifies before the run that every window lies inside its operand at every point, that the
// output windows cover each output exactly once, and that no two groups share a carry window.
// Violations would run here in one order, and differently on a device. So a builder's
// mistake is an error at a point, instead of a wrong number on one machine.
func (l *launch) check() error {
	for i, w := range l.g.In {
		inside := func(id []int) ([]int, error) { return l.source(i, id) }
		if err := l.eachBlock(w, l.in[i].shape, inside, func([]int, int, int) error { return nil }); err != nil {
			return fmt.Errorf("input %d: %w", i, err)
		}
	}
	written := make([]map[int]int, len(l.g.Out)) // by array, the group that wrote each block
	for i := range l.g.Out {
		if err := l.checkOutput(i, written); err != nil {
			return fmt.Errorf("output %d: %w", i, err)
		}
	}
	for i := range l.g.Carry {
		if err := l.checkCarry(i); err != nil {
			return fmt.Errorf("carry %d: %w", i, err)
		}
	}
	return nil
}

// eachBlock calls visit for the block of a window at each point, by number, with the group of
// the point. If at returns nil there is none.
func (l *launch) eachBlock(w ir.Window, shape []int, at func(id []int) ([]int, error), visit func(id []int, block, group int) error) error {
	_, size := l.groups()
	for p := range l.g.Points() {
		id := l.point(p)
		first, err := at(id)
		if err != nil {
			return err
		}
		if first == nil {
			continue
		}
		if err := visit(id, blockNumber(w, first, shape), p/size); err != nil {
			return err
		}
	}
	return nil
}

// checkOutput verifies the i-th output window, and with the last window of an array that its blocks
// are written.
func (l *launch) checkOutput(i int, written []map[int]int) error {
	w, t, array := l.g.Out[i], l.g.Outs[i], l.g.Array(i)
	n, whole := blocks(w, t.Shape)
	if !whole {
		return fmt.Errorf("blocks of %v do not divide %s", w.Block, t)
	}
	if written[array] == nil {
		written[array] = map[int]int{}
	}
	seen := written[array]
	target := func(id []int) ([]int, error) { return l.target(i, id) }
	if err := l.eachBlock(w, t.Shape, target, func(id []int, block, group int) error {
		if by, ok := seen[block]; ok && by != group {
			return fmt.Errorf("point %v writes a block that another point has written", id)
		}
		seen[block] = group
		return nil
	}); err != nil {
		return err
	}
	alias := slices.ContainsFunc(l.g.Alias, func(a [2]int) bool { return a[0] == array })
	last := l.g.Into == nil || !slices.Contains(l.g.Into[i+1:], array)
	if last && !alias && len(seen) != n {
		return fmt.Errorf("%d of %d blocks are written; without an alias all must be", len(seen), n)
	}
	return nil
}

// checkCarry verifies that the i-th carry passes blocks within a group only: states of two heads
// in one block would depend on which head runs first.
func (l *launch) checkCarry(i int) error {
	w, shape := l.g.Carry[i], l.carry[i].shape
	inside := func(id []int) ([]int, error) { return l.start(w, id, shape) }
	owner := map[int]int{}
	return l.eachBlock(w, shape, inside, func(id []int, block, group int) error {
		if by, ok := owner[block]; ok && by != group {
			return fmt.Errorf("point %v shares a block with one that differs in a parallel axis", id)
		}
		owner[block] = group
		return nil
	})
}

// runGrid runs groups at the same time. Each writes its own blocks of the outputs, as check has
// found, so they need no locks. Of errors the first group's is given, so that a run fails the same
// each time.
func (fr *frame) runGrid(s *step) error {
	g := s.in.Attrs.Grid
	l := newLaunch(g, fr.tensors(s.args))
	if err := l.check(); err != nil {
		return err
	}
	var outs, finals []*tensor
	for _, t := range g.Arrays() {
		outs = append(outs, newLike(t))
	}
	for _, a := range g.Alias {
		outs[a[0]] = l.in[a[1]].clone()
	}
	for _, c := range l.carry {
		finals = append(finals, c.clone())
	}
	n, size := l.groups()
	errs := make([]error, n)
	parallel(n, true, func(group int) {
		inner := &frame{cells: slices.Clone(fr.cells), grid: g, outer: fr.point()}
		errs[group] = inner.gridGroup(s, l, outs, finals, group*size, (group+1)*size)
	})
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	for i, t := range append(outs, finals...) {
		fr.cells[s.results[i]] = cell{t: t}
	}
	return nil
}

// gridGroup runs points lo to hi one after another. It implements the rule of carries, for
// states of batch rows, of heads and of packed sequences: a carried block is read when its
// window's index changes, and written before it changes.
//
//	points of two sequences, by a table   0 0 0 1 1
//	carried block                         read 0, . , . , write 0 and read 1, . , write 1
func (fr *frame) gridGroup(s *step, l *launch, outs, finals []*tensor, lo, hi int) error {
	g := l.g
	inAt, carryAt := make([][]int, len(g.In)), make([][]int, len(g.Carry))
	in, carried := make([]*tensor, len(g.In)), make([]*tensor, len(g.Carry))
	flush := func(i int) {
		if carried[i] != nil {
			write(finals[i], carried[i], carryAt[i])
		}
	}
	for p := lo; p < hi; p++ {
		fr.id = l.point(p)
		for i, w := range g.In {
			at, err := l.source(i, fr.id)
			if err != nil {
				return err
			}
			if at == nil {
				in[i], inAt[i] = newTensor(l.in[i].dt, w.Block), nil
			} else if in[i] == nil || !slices.Equal(at, inAt[i]) {
				in[i], inAt[i] = fetch(w, l.in[i], at), at
			}
			fr.cells[s.body.params[i]] = cell{t: in[i]}
		}
		for i, w := range g.Carry {
			at, err := l.start(w, fr.id, l.carry[i].shape)
			if err != nil {
				return err
			}
			if carried[i] == nil || !slices.Equal(at, carryAt[i]) {
				flush(i)
				carried[i], carryAt[i] = fetch(w, l.carry[i], at), at
			}
			fr.cells[s.body.params[len(g.In)+i]] = cell{t: carried[i]}
		}
		if err := fr.exec(s.body); err != nil {
			return err
		}
		for i := range g.Out {
			at, err := l.target(i, fr.id)
			if err != nil {
				return err
			}
			if at != nil {
				write(outs[g.Array(i)], fr.cells[s.body.yield[i]].t, at)
			}
		}
		for i := range g.Carry {
			carried[i] = fr.cells[s.body.yield[len(g.Out)+i]].t
		}
	}
	for i := range g.Carry {
		flush(i)
	}
	return nil
}

// fetch copies a window.
func fetch(w ir.Window, x *tensor, at []int) *tensor {
	out := newTensor(x.dt, w.Block)
	read(out, x, at, nil)
	return out
}

func (fr *frame) programID(s *step) error {
	t := newTensor(ir.I32, nil)
	t.n[0] = int64(fr.id[s.in.Attrs.Axis])
	fr.cells[s.results[0]] = cell{t: t}
	return nil
}
