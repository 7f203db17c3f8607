package interp

import (
	"fmt"
	"slices"

	"github.com/gdngen/gdngen/ir"
)

// memory is the target of references. Its tensor is mutable; fixed says why it must not be stored
// to.
type memory struct {
	t     *tensor
	fixed string
}

// ref is a view of a memory: the same rows (of the last dimension) under another shape or element
// type.
type ref struct {
	mem *memory
	t   ir.Type
}

// outWindow is an output window of a kernel: its buffer and the buffer's place in the array.
type outWindow struct {
	buf *memory
	at  []int
}

// kernelRun is a running kernel, point after point, with the current targets of its parameters.
type kernelRun struct {
	*launch
	op      *ir.Instr
	bound   []cell      // by parameter, at the next point
	inputs  []*memory   // by input; the output's memory for an alias
	inputAt [][]int     // first elements of the block that each input window holds; nil before the first
	outs    []*tensor   // results
	windows []outWindow // of the outputs
}

// runKernel runs the points one after another, like one core, with one memory for all: scratch
// and buffers keep their content between points, which the rings of a pipelined kernel rely on.
// Copies without a wait are an error at the end: the device would reuse their memory.
func (fr *frame) runKernel(s *step) error {
	args := fr.tensors(s.args)
	r := newKernelRun(s.in, args)
	n, err := r.points(args)
	if err != nil {
		return err
	}
	k := &frame{cells: slices.Clone(fr.cells), grid: r.g, outer: fr.point(), dma: new([]transfer)}
	for p := range r.g.Points() {
		if k.id = r.point(p); r.g.Bounded() && k.id[len(k.id)-1] >= n {
			continue
		}
		if err := r.moveOutputs(k.id); err != nil {
			return err
		}
		if err := r.moveInputs(k.id); err != nil {
			return err
		}
		for i, c := range r.bound { // a point frees the cells after their last read
			k.cells[s.body.params[i]] = c
		}
		if err := k.exec(s.body); err != nil {
			return err
		}
	}
	for i := range r.windows {
		r.flush(i)
	}
	if n := len(*k.dma); n > 0 {
		return fmt.Errorf("%d copies were started and not waited for, the first by %s", n, (*k.dma)[0].by)
	}
	for i, t := range r.outs {
		fr.cells[s.results[i]] = cell{t: t}
	}
	return nil
}

// newKernelRun binds the parameters that are the same at every point: tables, whole arrays, and scratch.
// Unwritten memory is poisoned: on a device it holds an earlier program's data,
// which is often right by chance. An output that is an alias of an input starts with the input's content and shares
// its memory.
func newKernelRun(op *ir.Instr, args []*tensor) *kernelRun {
	g := op.Attrs.Grid
	r := &kernelRun{launch: newLaunch(g, args), op: op, bound: make([]cell, len(op.Body.Params)), inputAt: make([][]int, len(g.In)),
		windows: make([]outWindow, len(g.Out))}
	for i, t := range args[:g.Tables] {
		r.bind(i, &memory{t: t, fixed: "a table is read only"})
	}
	for _, x := range r.in {
		r.inputs = append(r.inputs, &memory{t: x, fixed: "an input is read only"})
	}
	for i, t := range g.Outs {
		out := &memory{t: poisoned(t.DType, t.Shape)}
		for _, a := range g.Alias {
			if a[0] == i {
				out.t, r.inputs[a[1]] = r.in[a[1]].clone(), out
			}
		}
		r.outs = append(r.outs, out.t)
		if g.Out[i].Whole(t) {
			r.bind(r.output(i), out)
		}
	}
	for i, m := range r.inputs {
		if r.seenWhole(i) {
			r.bind(r.input(i), m)
		}
	}
	for i, t := range g.Scratch {
		r.bind(r.output(len(g.Out)+i), &memory{t: poisoned(t.DType, t.Shape)})
	}
	return r
}

// input returns the index of the parameter of an input window, output of an output window.
func (r *kernelRun) input(i int) int  { return r.g.Tables + i }
func (r *kernelRun) output(i int) int { return r.g.Tables + len(r.g.In) + i }

// seenWhole reports whether an input is a whole array, without windows.
func (r *kernelRun) seenWhole(i int) bool { return r.g.In[i].Whole(r.op.Args[r.input(i)].Type) }

// bind sets the memory of a parameter.
func (r *kernelRun) bind(param int, m *memory) {
	r.bound[param] = cell{ref: &ref{mem: m, t: r.op.Body.Params[param].Type}}
}

// points returns how many points of the sequential axis run, from the last operand if the axis is bounded.
func (r *kernelRun) points(args []*tensor) (int, error) {
	if !r.g.Bounded() {
		return 0, nil
	}
	d := r.g.Dims[len(r.g.Dims)-1]
	n := args[len(args)-1].n[0]
	if n < 0 || n > int64(d.Size) {
		return 0, fmt.Errorf("%d points of axis %s run, of %d", n, d.Name, d.Size)
	}
	return int(n), nil
}

// moveOutputs writes back each output whose window moves to another block, and gives it a new
// buffer. The buffer is poisoned, since devices do not load old contents either: a block
// that a kernel does not write entirely shows as NaN.
func (r *kernelRun) moveOutputs(id []int) error {
	for i, w := range r.g.Out {
		if w.Whole(r.g.Outs[i]) {
			continue
		}
		at, err := r.start(w, id, r.outs[i].shape)
		if err != nil {
			return fmt.Errorf("output %d: %w", i, err)
		}
		if r.windows[i].buf != nil && slices.Equal(at, r.windows[i].at) {
			continue
		}
		r.flush(i)
		r.windows[i] = outWindow{&memory{t: poisoned(r.g.Outs[i].DType, w.Block)}, at}
		r.bind(r.output(i), r.windows[i].buf)
	}
	return nil
}

// flush writes the buffer of an output back, if it has one.
func (r *kernelRun) flush(i int) {
	if w := r.windows[i]; w.buf != nil {
		write(r.outs[i], w.buf.t, w.at)
	}
}

// moveInputs fetches each input block that the previous point did not have. A block that an output
// has overwritten meanwhile is an error: a device prefetches blocks while an earlier point
// runs, so whether it reads the old or the new block depends on timing. The test compares
// the block with the original operand's: an alias that wrote the same bits does no harm.
func (r *kernelRun) moveInputs(id []int) error {
	for i, w := range r.g.In {
		if r.seenWhole(i) {
			continue
		}
		x := r.in[i]
		at, err := r.start(w, id, x.shape)
		if err != nil {
			return fmt.Errorf("input %d: %w", i, err)
		}
		if r.inputAt[i] != nil && slices.Equal(at, r.inputAt[i]) {
			continue
		}
		block := fetch(w, x, at)
		if now := r.inputs[i].t; now != x && !sameBits(block, fetch(w, now, at)) {
			return fmt.Errorf("at point %v input %d reads a block that an output, its alias, has overwritten", id, i)
		}
		r.inputAt[i] = at
		r.bind(r.input(i), &memory{t: block, fixed: "an input window is read only"})
	}
	return nil
}

// poisoned is memory that was not written.
func poisoned(d ir.DType, shape []int) *tensor {
	t := newTensor(d, shape)
	t.poison()
	return t
}

func (fr *frame) when(s *step) error {
	if fr.cells[s.args[0]].t.scalar() == 0 {
		return nil
	}
	return fr.exec(s.body)
}

func (fr *frame) refCast(s *step) error {
	fr.cells[s.results[0]] = cell{ref: &ref{mem: fr.cells[s.args[0]].ref.mem, t: s.in.Result().Type}}
	return nil
}

// access is the block that a load or store touches: shape has the reference's rank.
type access struct {
	r         *ref
	shape, at []int
	step      []int
}

// newAccess returns the block that a load or store of a value of this shape touches. Its place is the sum of the
// attributes and, if given, the operands. A place outside of the memory is an error, since devices do not check
// bounds.
func newAccess(r *ref, val []int, in *ir.Instr, idx []*tensor) (*access, error) {
	n := r.t.Rank()
	a := &access{r: r, shape: make([]int, n), at: slices.Clone(in.Attrs.Starts), step: make([]int, n)}
	lead := n - len(val)
	for d := range n {
		a.shape[d], a.step[d] = 1, in.Attrs.Step(d)
		if d >= lead {
			a.shape[d] = val[d-lead]
		}
		if len(idx) > 0 {
			a.at[d] += int(idx[d].scalar())
		}
		if last := a.at[d] + (a.shape[d]-1)*a.step[d]; a.at[d] < 0 || last >= r.t.Shape[d] {
			return nil, fmt.Errorf("elements %d to %d of dimension %d are outside %s", a.at[d], last, d, r.t)
		}
	}
	return a, nil
}

// copy moves the block between the reference and v, whose elements are those of the block in
// row-major order.
func (a *access) copy(v *tensor, store bool) {
	mem := a.r.mem.t
	str := strides(a.r.t.Shape)
	off, mStr, vStr := 0, make([]int, len(str)), strides(a.shape)
	for d := range str {
		off += a.at[d] * str[d]
		mStr[d] = a.step[d] * str[d]
	}
	if a.r.t.DType == mem.dt {
		b := block{dst: v, src: mem, dStr: vStr, sStr: mStr, sOff: off, shape: a.shape}
		if store {
			b = block{dst: mem, src: v, dStr: mStr, sStr: vStr, dOff: off, shape: a.shape}
		}
		b.copy()
		return
	}
	width := a.r.t.Shape[len(str)-1]
	for i, e := range offsets(a.shape, mStr, all(len(str))) {
		if e += off; store {
			a.r.setBits(e/width, e%width, v.bits(i))
		} else {
			v.setBits(i, a.r.bits(e/width, e%width))
		}
	}
}

func all(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}

// bits reads an element of a view by row and column. A cast changes the width of elements like a
// TPU's memory: two bf16 rows share the words of one u32 row. If
// the widths differ, 32 bit row r consists of 16 bit rows 2r (low half) and 2r+1 (high half).
//
//	bf16 rows   0: a b c      u32 rows   0: (d<<16 | a) (e<<16 | b) (f<<16 | c)
//	            1: d e f
func (r *ref) bits(row, col int) uint64 {
	mem, n := r.mem.t, r.t.Shape[r.t.Rank()-1]
	switch own, view := mem.dt.Bytes(), r.t.DType.Bytes(); {
	case own < view:
		return mem.bits(2*row*n+col) | mem.bits((2*row+1)*n+col)<<16
	case own > view:
		return mem.bits(row/2*n+col) >> (row % 2 * 16) & 0xffff
	}
	return mem.bits(row*n + col)
}

// setBits is the inverse of bits.
func (r *ref) setBits(row, col int, b uint64) {
	mem, n := r.mem.t, r.t.Shape[r.t.Rank()-1]
	switch own, view := mem.dt.Bytes(), r.t.DType.Bytes(); {
	case own < view:
		mem.setBits(2*row*n+col, b&0xffff)
		mem.setBits((2*row+1)*n+col, b>>16)
	case own > view:
		i, shift := row/2*n+col, row%2*16
		mem.setBits(i, mem.bits(i)&^(0xffff<<shift)|b<<shift)
	default:
		mem.setBits(row*n+col, b)
	}
}

// load reads a block of a reference.
func (fr *frame) load(s *step) error {
	t := s.in.Result().Type
	a, err := newAccess(fr.cells[s.args[0]].ref, t.Shape, s.in, fr.tensors(s.args[1:]))
	if err != nil {
		return err
	}
	out := newLike(t)
	a.copy(out, false)
	fr.cells[s.results[0]] = cell{t: out}
	return nil
}

// store writes a block of a reference, unless it is a table or an input, which a compiler may keep
// anywhere.
func (fr *frame) store(s *step) error {
	v, r := fr.cells[s.args[0]].t, fr.cells[s.args[1]].ref
	if r.mem.fixed != "" {
		return fmt.Errorf("store: %s", r.mem.fixed)
	}
	a, err := newAccess(r, v.shape, s.in, fr.tensors(s.args[2:]))
	if err != nil {
		return err
	}
	a.copy(v, true)
	return nil
}

// transfer is a copy between its start and its wait. The time of the actual move is unknown,
// so nothing may depend on it: the target reads as poison, and receives the source's content at the start.
// If the source differs at the wait, another thread of the device has raced with the
// copy.
type transfer struct {
	src, dst *access
	sem      *ref
	content  *tensor // of the source, at the start
	by       string
}

// get reads the block of an access.
func (a *access) get() *tensor {
	out := newTensor(a.r.t.DType, a.shape)
	a.copy(out, false)
	return out
}

// overlaps reports whether two blocks share memory; for views of another type all of the memory counts.
func (a *access) overlaps(b *access) bool {
	if a.r.mem != b.r.mem {
		return false
	}
	if !a.r.t.Equal(b.r.t) {
		return true
	}
	for d := range a.at {
		if a.at[d]+a.shape[d] <= b.at[d] || b.at[d]+b.shape[d] <= a.at[d] {
			return false
		}
	}
	return true
}

// side returns the source (i is 0) or target (1) of a copy: all of a reference, or the block that the
// operands number.
func (fr *frame) side(s *step, i int) (*access, error) {
	r, block := fr.cells[s.args[i]].ref, s.in.Attrs.Dims
	n := r.t.Rank()
	a := &access{r: r, shape: r.t.Shape, at: make([]int, n), step: make([]int, n)}
	for d := range a.step {
		a.step[d] = 1
	}
	if len(s.args) == 3 {
		return a, nil
	}
	counts, err := ir.BlockCounts(r.t, block)
	if err != nil {
		return nil, err
	}
	at := int(fr.cells[s.args[3+i]].t.scalar())
	left := at
	for d := n - 1; d >= 0; d-- {
		a.at[d], left = left%counts[d]*block[d], left/counts[d]
	}
	if a.shape = block; at < 0 || left > 0 {
		return nil, fmt.Errorf("block %d of %v is outside %s", at, block, r.t)
	}
	return a, nil
}

// sameBits compares as bits, so that NaN equals itself, and poison is found.
func sameBits(x, y *tensor) bool {
	for i := range x.size() {
		if x.bits(i) != y.bits(i) {
			return false
		}
	}
	return true
}

// sides returns source and target of a copy.
func (fr *frame) sides(s *step) (src, dst *access, err error) {
	if src, err = fr.side(s, 0); err == nil {
		dst, err = fr.side(s, 1)
	}
	return src, dst, err
}

// dmaStart begins a copy. Source and target must not overlap copies in progress, except that two copies may
// read one source.
func (fr *frame) dmaStart(s *step) error {
	src, dst, err := fr.sides(s)
	if err != nil {
		return err
	}
	if dst.r.mem.fixed != "" {
		return fmt.Errorf("target: %s", dst.r.mem.fixed)
	}
	for _, p := range *fr.dma {
		if p.dst.overlaps(dst) || p.dst.overlaps(src) || p.src.overlaps(dst) {
			return fmt.Errorf("source or target is busy with a copy that has not been waited for")
		}
	}
	if src.overlaps(dst) {
		return fmt.Errorf("source and target are the same memory")
	}
	t := transfer{src, dst, fr.cells[s.args[2]].ref, src.get(), s.in.String()}
	dst.copy(poisoned(dst.r.t.DType, dst.shape), true)
	*fr.dma = append(*fr.dma, t)
	return nil
}

// dmaWait ends the copy of the same operands, which must have been started. On a device a semaphore counts:
// a wait without a start would hang, or take another copy's signal.
func (fr *frame) dmaWait(s *step) error {
	src, dst, err := fr.sides(s)
	if err != nil {
		return err
	}
	sem := fr.cells[s.args[2]].ref
	same := func(a, b *access) bool {
		return a.r.mem == b.r.mem && slices.Equal(a.at, b.at) && slices.Equal(a.shape, b.shape)
	}
	i := slices.IndexFunc(*fr.dma, func(t transfer) bool { return same(t.src, src) && same(t.dst, dst) && t.sem.mem == sem.mem })
	if i < 0 {
		return fmt.Errorf("no copy of these operands was started")
	}
	t := (*fr.dma)[i]
	*fr.dma = slices.Delete(*fr.dma, i, i+1)
	if !sameBits(t.content, t.src.get()) {
		return fmt.Errorf("the source changed between start and wait")
	}
	if !sameBits(dst.get(), poisoned(dst.r.t.DType, dst.shape)) {
		return fmt.Errorf("the target was written between start and wait")
	}
	dst.copy(t.content, true)
	return nil
}
