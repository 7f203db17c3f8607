package mosaic

import (
	"fmt"
	"slices"

	"github.com/gdngen/gdngen/ir"
)

// access is one load or store: indices, a shape in the reference's rank, and steps (nil: all 1).
type access struct {
	index []value
	shape []int
	steps []int
}

// access resolves a load or store of a block of type val with run-time starts dyn. It errs if it is provably out of bounds.
func (e *emitter) access(in *ir.Instr, ref, val ir.Type, dyn []*ir.Value) (a access, err error) {
	lead := ref.Rank() - val.Rank()
	for i, n := range ref.Shape {
		size := 1
		if i >= lead {
			size = val.Shape[i-lead]
		}
		step := in.Attrs.Step(i)
		if size == 1 {
			step = 1
		}
		a.shape, a.steps = append(a.shape, size), append(a.steps, step)
		start := in.Attrs.Starts[i]
		if len(dyn) == 0 {
			a.index = append(a.index, e.index(start))
			continue
		}
		s := e.facts.of(dyn[i]).plus(exactly(start))
		if last := (size - 1) * step; s.bounded && (s.lo < 0 || s.hi+last >= n) {
			return a, fmt.Errorf("dimension %d of %s: elements %d to %d are reached", i, ref, s.lo, s.hi+last)
		}
		if s.bounded && s.lo == s.hi {
			a.index = append(a.index, e.index(s.lo))
			continue
		}
		if ref.Space == ir.VMEM && i == ref.Rank()-1 && s.mult%lanes != 0 && n != size {
			return a, fmt.Errorf("lanes of %s from a run-time start that is not known to be a multiple of %d", ref, lanes)
		}
		if ref.Space == ir.VMEM && i == ref.Rank()-2 && ref.DType.Bytes() < 4 && s.mult%sublanes != 0 {
			return a, fmt.Errorf("rows of %s from a run-time start that is not known to be a multiple of %d: refcast to u32 words, or store f32", ref, sublanes)
		}
		v := e.values[dyn[i]]
		if start != 0 {
			v = e.op("arith.addi", v.t, "", v, e.int(start))
		}
		if ref.Space == ir.VMEM && s.mult > 1 && i >= ref.Rank()-2 && s.mult < 1<<31 {
			v = e.op("tpu.assume_multiple", v.t, fmt.Sprintf("multiple = %d : i32", s.mult), v)
		}
		a.index = append(a.index, e.op("arith.index_cast", scalarType("index"), "", v))
	}
	if !slices.ContainsFunc(a.steps, func(s int) bool { return s != 1 }) {
		a.steps = nil
		return a, nil
	}
	n := ref.Rank()
	if a.steps[n-1] != 1 {
		return a, fmt.Errorf("step %d along the lanes of %s: steps are possible along rows only", a.steps[n-1], ref)
	}
	if ref.DType.Bytes() != 4 {
		return a, fmt.Errorf("steps on %s: strided access wants 32-bit elements; refcast to u32 words", ref)
	}
	if ref.Shape[n-1] != lanes {
		return a, fmt.Errorf("steps on %s: strided access wants rows of exactly %d lanes", ref, lanes)
	}
	return a, nil
}

func (a access) strides() string { return "strides = array<i32: " + ints(a.steps) + ">" }

func emitLoad(e *emitter, in *ir.Instr) ([]value, error) {
	ref, t := in.Args[0].Type, e.result(in)
	a, err := e.access(in, ref, in.Result().Type, in.Args[1:])
	if err != nil {
		return nil, err
	}
	r := e.arg(in, 0)
	args := append([]value{r}, a.index...)
	if ref.Space == ir.SMEM {
		if len(t.shape) != 0 {
			return nil, fmt.Errorf("%s from scalar memory: only scalars can be loaded", in.Result().Type)
		}
		return one(e.op("memref.load", t, "", args...)), nil
	}
	full := t.of(a.shape...)
	var v value
	if a.steps != nil {
		v = e.op("tpu.strided_load", full, a.strides(), args...)
	} else {
		v = e.op("vector.load", full, "", args...)
	}
	if len(t.shape) == 0 {
		return one(e.extract(v)), nil
	}
	return one(e.cast(v, t.shape...)), nil
}

func emitStore(e *emitter, in *ir.Instr) ([]value, error) {
	val, ref := in.Args[0].Type, in.Args[1].Type
	a, err := e.access(in, ref, val, in.Args[2:])
	if err != nil {
		return nil, err
	}
	v, r := e.arg(in, 0), e.arg(in, 1)
	if ref.Space == ir.SMEM {
		if val.Rank() != 0 {
			return nil, fmt.Errorf("%s to scalar memory: only scalars can be stored", val)
		}
		e.do("memref.store", "", append([]value{v, r}, a.index...)...)
		return nil, nil
	}
	if val.Rank() == 0 {
		v = e.op("vector.broadcast", v.t.of(a.shape...), "", v)
	} else {
		v = e.cast(v, a.shape...)
	}
	args := append([]value{v, r}, a.index...)
	if a.steps != nil {
		e.do("tpu.strided_store", a.strides(), args...)
	} else {
		e.do("tpu.vector_store", fmt.Sprintf("add = false, operandSegmentSizes = array<i32: 1, 1, %d, 0>, strides = array<i32>", len(a.index)), args...)
	}
	return nil, nil
}

func emitRefCast(e *emitter, in *ir.Instr) ([]value, error) {
	v := e.arg(in, 0)
	from, to := in.Args[0].Type, in.Result().Type
	t, err := mlirType(to)
	if err != nil {
		return nil, err
	}
	if elems[from.DType] == t.elem && slices.Equal(from.Shape, to.Shape) {
		return one(v), nil
	}
	// First the shape, at the old width: leading dimensions are joined or split. Then the width, which changes the rows.
	if k := from.DType.Bytes() * from.Shape[from.Rank()-2]; from.Rank() == to.Rank() && k == to.DType.Bytes()*to.Shape[to.Rank()-2] {
		return one(e.op("tpu.memref_bitcast", t, "", v)), nil
	}
	rows := to.Shape[to.Rank()-2] * to.DType.Bytes()
	if rows%from.DType.Bytes() != 0 {
		return nil, fmt.Errorf("%s as %s cuts a word", from, to)
	}
	shape := slices.Clone(to.Shape)
	shape[to.Rank()-2] = rows / from.DType.Bytes()
	joined := from.Shape[from.Rank()-2]
	if n := shape[to.Rank()-2]; !fullTiles(from.DType, joined) || !fullTiles(from.DType, n) {
		return nil, fmt.Errorf("%s as %s: leading dimensions join only where both have rows in powers of two or multiples of %d", from, to, rowTile(from.DType))
	}
	if !slices.Equal(shape, from.Shape) {
		v = e.op("tpu.memref_reshape", v.t.of(shape...), "", v)
	}
	if v.t.elem != t.elem {
		v = e.op("tpu.memref_bitcast", t, "", v)
	}
	return one(v), nil
}

// fullTiles reports whether rows fill the tiles that the compiler gives a reference; less than a tile is rounded up to a power of two.
func fullTiles(d ir.DType, rows int) bool { return rows%rowTile(d) == 0 || rows&(rows-1) == 0 }

// part returns the i-th operand of a copy: a whole reference, or the block that the copy numbers.
func (e *emitter) part(in *ir.Instr, i int) (value, error) {
	ref, t := e.arg(in, i), in.Args[i].Type
	if len(in.Args) == 3 {
		return ref, nil
	}
	block := in.Attrs.Dims
	counts, err := ir.BlockCounts(t, block)
	if err != nil {
		return ref, err
	}
	number, starts := e.arg(in, 3+i), make([]*value, len(block))
	below := 1
	for _, n := range counts {
		below *= n
	}
	one := below == 1 // the number is the index along the first dimension
	for d, n := range block {
		if below /= counts[d]; counts[d] == 1 && !(one && d == 0) {
			continue
		}
		at := number
		if below > 1 {
			at = e.op("arith.divsi", at.t, "", at, e.int(below))
			number = e.op("arith.subi", at.t, "", number, e.op("arith.muli", at.t, "", at, e.int(below)))
		}
		if n > 1 {
			at = e.op("arith.muli", at.t, "", at, e.int(n))
			if d >= t.Rank()-2 {
				at = e.op("tpu.assume_multiple", at.t, fmt.Sprintf("multiple = %d : i32", n), at)
			}
		}
		starts[d] = &at
	}
	args := []value{ref}
	for _, at := range starts {
		if at != nil {
			args = append(args, *at)
		} else {
			args = append(args, e.int(0))
		}
	}
	return e.op("tpu.memref_slice", ref.t.of(block...), fmt.Sprintf("operandSegmentSizes = array<i32: 1, %d, 0>", len(block)), args...), nil
}

func emitDMA(e *emitter, in *ir.Instr) ([]value, error) {
	sem := e.arg(in, 2)
	src, err := e.part(in, 0)
	if err != nil {
		return nil, err
	}
	dst, err := e.part(in, 1)
	if err != nil {
		return nil, err
	}
	for len(sem.t.shape) > 0 { // the only semaphore of an array
		if n := sem.t.shape[0]; n != 1 {
			return nil, fmt.Errorf("a copy wants one semaphore, has %d", n)
		}
		sem = e.op("tpu.memref_squeeze", sem.t.of(sem.t.shape[1:]...), "", sem)
	}
	if in.Op == ir.OpDMAStart {
		e.do("tpu.enqueue_dma", "operandSegmentSizes = array<i32: 1, 0, 1, 1, 0, 0, 0>, priority = 0 : i32, strict_ordering = false", src, dst, sem)
	} else {
		e.do("tpu.wait_dma2", "operandSegmentSizes = array<i32: 1, 1, 1, 0, 0>, strict_ordering = false", sem, src, dst)
	}
	return nil, nil
}
