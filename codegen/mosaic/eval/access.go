package eval

import (
	"fmt"
	"slices"

	"github.com/gdngen/gdngen/codegen/mlir"
	"github.com/gdngen/gdngen/codegen/mlir/tensor"
)

// indexed checks a reference in one of the memory spaces, and one index of type elem per dimension.
func indexed(ref mlir.Type, index []mlir.Type, elem mlir.Elem, spaces ...string) error {
	if ref.Kind != mlir.Memref || !slices.Contains(spaces, ref.Space) {
		return fmt.Errorf("%s: a reference in %v is expected", ref, spaces)
	}
	if len(index) != len(ref.Shape) {
		return fmt.Errorf("%d indices of %s", len(index), ref)
	}
	for _, t := range index {
		if !t.Equal(mlir.Type{Elem: elem}) {
			return fmt.Errorf("an index is %s, %s is expected", t, elem)
		}
	}
	return nil
}

// loadScalar reads one element of SMEM.
func loadScalar(_ *Kernel, o *mlir.Op) (func(frame) error, error) {
	if len(o.Ins) == 0 || len(o.Outs) != 1 {
		return nil, fmt.Errorf("a reference and one result are expected")
	}
	if err := indexed(o.Ins[0], o.Ins[1:], mlir.Index, "smem"); err != nil {
		return nil, err
	}
	if !o.Outs[0].Equal(mlir.Type{Elem: o.Ins[0].Elem}) {
		return nil, fmt.Errorf("%s gives %s", o.Ins[0], o.Outs[0])
	}
	one := slices.Repeat([]int{1}, len(o.Ins)-1)
	ref, index, out := o.Operands[0], o.Operands[1:], o.Results[0]
	return func(f frame) error {
		p, err := f[ref].r.part(f.ints(index), one, nil)
		if err != nil {
			return err
		}
		t, err := p.load()
		if err == nil {
			f[out].t = t.Reshape()
		}
		return err
	}, nil
}

// storeScalar writes one element of SMEM.
func storeScalar(_ *Kernel, o *mlir.Op) (func(frame) error, error) {
	if len(o.Ins) < 2 || len(o.Outs) != 0 {
		return nil, fmt.Errorf("a number, a reference and no result are expected")
	}
	if err := indexed(o.Ins[1], o.Ins[2:], mlir.Index, "smem"); err != nil {
		return nil, err
	}
	if !o.Ins[0].Equal(mlir.Type{Elem: o.Ins[1].Elem}) {
		return nil, fmt.Errorf("%s is stored to %s", o.Ins[0], o.Ins[1])
	}
	one := slices.Repeat([]int{1}, len(o.Ins)-2)
	return func(f frame) error {
		p, err := f[o.Operands[1]].r.part(f.ints(o.Operands[2:]), one, nil)
		if err != nil {
			return err
		}
		return p.store(f[o.Operands[0]].t)
	}, nil
}

// steps returns the strides of an access; nil if all are 1.
func steps(o *mlir.Op, rank int) ([]int, error) {
	if o.Attrs["strides"] == nil {
		return nil, nil
	}
	s, err := attrInts(o, "strides")
	if err != nil || len(s) == 0 {
		return nil, err
	}
	if len(s) != rank {
		return nil, fmt.Errorf("strides %v of a reference of rank %d", s, rank)
	}
	if s[rank-1] != 1 {
		return nil, fmt.Errorf("strides %v: steps along the lanes", s)
	}
	return s, nil
}

// vectorBlock checks that a vector is a block of a reference in VMEM.
func vectorBlock(ref, v mlir.Type, index []mlir.Type) error {
	if err := indexed(ref, index, mlir.Index, "vmem"); err != nil {
		return err
	}
	if v.Kind != mlir.Vector || v.Elem != ref.Elem || len(v.Shape) != len(ref.Shape) {
		return fmt.Errorf("%s is no block of %s", v, ref)
	}
	return nil
}

// load reads a block of VMEM.
func load(_ *Kernel, o *mlir.Op) (func(frame) error, error) {
	if len(o.Ins) == 0 || len(o.Outs) != 1 {
		return nil, fmt.Errorf("a reference and one result are expected")
	}
	t := o.Outs[0]
	if err := vectorBlock(o.Ins[0], t, o.Ins[1:]); err != nil {
		return nil, err
	}
	by, err := steps(o, len(t.Shape))
	ref, index, out := o.Operands[0], o.Operands[1:], o.Results[0]
	return func(f frame) error {
		p, err := f[ref].r.part(f.ints(index), t.Shape, by)
		if err != nil {
			return err
		}
		x, err := p.load()
		f[out].t = x
		return err
	}, err
}

// store writes a block of VMEM.
func store(_ *Kernel, o *mlir.Op) (func(frame) error, error) {
	if len(o.Ins) < 2 || len(o.Outs) != 0 {
		return nil, fmt.Errorf("a vector, a reference and no result are expected")
	}
	if err := vectorBlock(o.Ins[1], o.Ins[0], o.Ins[2:]); err != nil {
		return nil, err
	}
	if err := off(o, "add"); err != nil {
		return nil, err
	}
	if err := segments(o, 1, 1, len(o.Ins)-2, 0); err != nil {
		return nil, err
	}
	shape := o.Ins[0].Shape
	by, err := steps(o, len(shape))
	return func(f frame) error {
		p, err := f[o.Operands[1]].r.part(f.ints(o.Operands[2:]), shape, by)
		if err != nil {
			return err
		}
		return p.store(f[o.Operands[0]].t)
	}, err
}

// segments checks the numbers of operands of each kind, if given.
func segments(o *mlir.Op, want ...int) error {
	if o.Attrs["operandSegmentSizes"] == nil {
		return nil
	}
	got, err := attrInts(o, "operandSegmentSizes")
	if err == nil && !slices.Equal(got, want) {
		err = fmt.Errorf("operandSegmentSizes %v, %v are supported", got, want)
	}
	return err
}

// viewOf returns the types of a reference and of its view, in the same memory.
func viewOf(o *mlir.Op) (from, to mlir.Type, err error) {
	if len(o.Ins) == 0 || len(o.Outs) != 1 || o.Ins[0].Kind != mlir.Memref || o.Outs[0].Kind != mlir.Memref {
		return from, to, fmt.Errorf("a reference and one that views it are expected")
	}
	if from, to = o.Ins[0], o.Outs[0]; from.Space != to.Space {
		return from, to, fmt.Errorf("%s as %s", from, to)
	}
	return from, to, nil
}

func sliceRef(_ *Kernel, o *mlir.Op) (func(frame) error, error) {
	from, to, err := viewOf(o)
	if err == nil {
		err = indexed(from, o.Ins[1:], mlir.I32, "vmem", "hbm", "smem")
	}
	if err == nil {
		err = segments(o, 1, len(from.Shape), 0)
	}
	if err != nil {
		return nil, err
	}
	if from.Elem != to.Elem || len(from.Shape) != len(to.Shape) {
		return nil, fmt.Errorf("%s as %s", from, to)
	}
	return func(f frame) error {
		p, err := f[o.Operands[0]].r.part(f.ints(o.Operands[1:]), to.Shape, nil)
		f[o.Results[0]].r = p
		return err
	}, nil
}

// reshapeRef views a reference in another shape.
func reshapeRef(_ *Kernel, o *mlir.Op) (func(frame) error, error) {
	from, to, err := viewOf(o)
	if err == nil {
		err = takes(o, 1)
	}
	if err != nil {
		return nil, err
	}
	if from.Elem != to.Elem || from.Size() != to.Size() {
		return nil, fmt.Errorf("%s as %s", from, to)
	}
	return func(f frame) error {
		r := *f[o.Operands[0]].r
		if !r.dense() {
			return fmt.Errorf("a part of %s with gaps as %s", r.mem.name, to)
		}
		if n := len(to.Shape); r.cols != 0 && (n == 0 || to.Shape[n-1] != r.cols) {
			return fmt.Errorf("a view of another width as %s", to)
		}
		r.shape, r.str = to.Shape, tensor.Strides(to.Shape)
		f[o.Results[0]].r = &r
		return nil
	}, nil
}

// bitcastRef views a reference with another element type; another width joins pairs of rows, or splits rows.
func bitcastRef(_ *Kernel, o *mlir.Op) (func(frame) error, error) {
	from, to, err := viewOf(o)
	if err == nil {
		err = takes(o, 1)
	}
	if err != nil {
		return nil, err
	}
	n := len(to.Shape)
	a, b := from.Elem.Bytes(), to.Elem.Bytes()
	want := slices.Clone(from.Shape)
	if n >= 2 && len(want) == n && b > 0 && want[n-2]*a%b == 0 {
		want[n-2] = want[n-2] * a / b
	}
	if n < 2 || a == 0 || b == 0 || a > 4 || b > 4 || !slices.Equal(want, to.Shape) || from.Size()*a != to.Size()*b {
		return nil, fmt.Errorf("%s as %s", from, to)
	}
	return func(f frame) error {
		r := *f[o.Operands[0]].r
		cols := to.Shape[n-1]
		switch mem := r.mem.elem.Bytes(); {
		case a == b:
		case !r.dense() || r.off%(2*cols) != 0:
			return fmt.Errorf("a part of %s as %s", r.mem.name, to)
		case mem == b:
			r.cols = 0
		default:
			r.cols = cols
		}
		r.off = r.off * a / b
		r.elem, r.shape, r.str = to.Elem, to.Shape, tensor.Strides(to.Shape)
		f[o.Results[0]].r = &r
		return nil
	}, nil
}

// oneSemaphore checks that a type is a single semaphore.
func oneSemaphore(t mlir.Type) error {
	if t.Kind != mlir.Memref || t.Elem != mlir.Semaphore || len(t.Shape) != 0 {
		return fmt.Errorf("%s: one semaphore is expected", t)
	}
	return nil
}

func startCopy(_ *Kernel, o *mlir.Op) (func(frame) error, error) {
	if err := takes(o, 3); err != nil {
		return nil, err
	}
	if err := segments(o, 1, 0, 1, 1, 0, 0, 0); err != nil {
		return nil, err
	}
	if err := off(o, "strict_ordering"); err != nil {
		return nil, err
	}
	return func(f frame) error {
		s := f[o.Operands[2]].r
		return s.mem.sems[s.off].start(f[o.Operands[0]].r, f[o.Operands[1]].r, o)
	}, copied(o.Ins[0], o.Ins[1], o.Ins[2])
}

func waitCopy(_ *Kernel, o *mlir.Op) (func(frame) error, error) {
	if err := takes(o, 3); err != nil {
		return nil, err
	}
	if err := segments(o, 1, 1, 1, 0, 0); err != nil {
		return nil, err
	}
	if err := off(o, "strict_ordering"); err != nil {
		return nil, err
	}
	return func(f frame) error {
		s := f[o.Operands[0]].r
		return s.mem.sems[s.off].wait(f[o.Operands[2]].r)
	}, copied(o.Ins[1], o.Ins[2], o.Ins[0])
}

// copied checks the operands of a copy.
func copied(src, dst, sem mlir.Type) error {
	if src.Kind != mlir.Memref || dst.Kind != mlir.Memref || src.Elem != dst.Elem || !slices.Equal(src.Shape, dst.Shape) || src.Elem == mlir.Semaphore {
		return fmt.Errorf("a copy of %s to %s", src, dst)
	}
	return oneSemaphore(sem)
}
