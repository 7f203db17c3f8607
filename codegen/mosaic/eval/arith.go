package eval

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/gdngen/gdngen/codegen/mlir"
	"github.com/gdngen/gdngen/codegen/mlir/tensor"
)

func constant(o *mlir.Op) (compute, error) {
	var d mlir.Dense
	switch v := o.Attrs["value"].(type) {
	case mlir.Dense:
		d = v
	case mlir.Num:
		d = mlir.Dense{Type: v.Type, Values: []string{v.Text}}
	case bool:
		d = mlir.Dense{Type: mlir.Type{Elem: mlir.I1}, Values: []string{strconv.FormatBool(v)}}
	default:
		return nil, fmt.Errorf("a constant without a value")
	}
	if !d.Type.Equal(o.Outs[0]) || o.Outs[0].Elem == mlir.Semaphore {
		return nil, fmt.Errorf("a value of type %s for %s", d.Type, o.Outs[0])
	}
	t, err := tensor.Literal(d, o.Outs[0])
	return func([]*tensor.Tensor) (*tensor.Tensor, error) { return t, nil }, err
}

// floats and ints return the rules of operations on two values of one type.
func floats(op tensor.FloatOp) rule {
	return rule{pure: func(o *mlir.Op) (compute, error) {
		if !o.Outs[0].Elem.Float() {
			return nil, fmt.Errorf("floats are expected, not %s", o.Outs[0])
		}
		return func(a []*tensor.Tensor) (*tensor.Tensor, error) { return tensor.Floats(op, a[0], a[1]), nil }, alike(o, 2)
	}}
}

func ints(op tensor.IntOp) rule {
	return rule{pure: func(o *mlir.Op) (compute, error) {
		e := o.Outs[0].Elem
		if e.Float() || e == mlir.I1 && op != tensor.And && op != tensor.Or && op != tensor.Xor {
			return nil, fmt.Errorf("integers are expected, not %s", o.Outs[0])
		}
		return func(a []*tensor.Tensor) (*tensor.Tensor, error) { return tensor.Ints(op, a[0], a[1]), nil }, alike(o, 2)
	}}
}

func unary(name string) rule {
	f := tensor.Unary[name]
	return rule{pure: func(o *mlir.Op) (compute, error) {
		if !o.Outs[0].Elem.Float() {
			return nil, fmt.Errorf("floats are expected, not %s", o.Outs[0])
		}
		return func(a []*tensor.Tensor) (*tensor.Tensor, error) { return tensor.Map(a[0], f), nil }, alike(o, 1)
	}}
}

func absolute(o *mlir.Op) (compute, error) {
	if o.Outs[0].Elem != mlir.I32 {
		return nil, fmt.Errorf("i32 is expected, not %s", o.Outs[0])
	}
	return func(a []*tensor.Tensor) (*tensor.Tensor, error) {
		return tensor.MapInt(a[0], func(v int64) int64 { return max(v, -v) }), nil
	}, alike(o, 1)
}

// The ordered relations by predicate number: of floats, and of integers, unsigned from 6 on.
var (
	floatRelations = map[int]tensor.Relation{1: tensor.EQ, 2: tensor.GT, 3: tensor.GE, 4: tensor.LT, 5: tensor.LE}
	intRelations   = [...]tensor.Relation{tensor.EQ, tensor.NE, tensor.LT, tensor.LE, tensor.GT, tensor.GE, tensor.LT, tensor.LE, tensor.GT, tensor.GE}
)

// comparison checks the types of a comparison, and returns its predicate.
func comparison(o *mlir.Op) (int, error) {
	if err := takes(o, 2); err != nil {
		return 0, err
	}
	if !o.Ins[0].Equal(o.Ins[1]) {
		return 0, fmt.Errorf("%s is compared with %s", o.Ins[0], o.Ins[1])
	}
	return attrInt(o, "predicate")
}

func compareFloats(o *mlir.Op) (compute, error) {
	p, err := comparison(o)
	if err != nil {
		return nil, err
	}
	rel, ok := floatRelations[p]
	if !ok || !o.Ins[0].Elem.Float() {
		return nil, fmt.Errorf("predicate %d on %s is not supported", p, o.Ins[0])
	}
	return func(a []*tensor.Tensor) (*tensor.Tensor, error) { return tensor.Compare(rel, a[0], a[1], false), nil }, nil
}

func compareInts(o *mlir.Op) (compute, error) {
	p, err := comparison(o)
	if err != nil {
		return nil, err
	}
	if e := o.Ins[0].Elem; p < 0 || p >= len(intRelations) || e.Float() || e == mlir.I1 && p > 1 {
		return nil, fmt.Errorf("predicate %d on %s is not supported", p, o.Ins[0])
	}
	return func(a []*tensor.Tensor) (*tensor.Tensor, error) {
		return tensor.Compare(intRelations[p], a[0], a[1], p >= 6), nil
	}, nil
}

func choose(o *mlir.Op) (compute, error) {
	if err := takes(o, 3); err != nil {
		return nil, err
	}
	c, t := o.Ins[0], o.Outs[0]
	if !o.Ins[1].Equal(t) || !o.Ins[2].Equal(t) || c.Elem != mlir.I1 || len(c.Shape) > 0 && !slices.Equal(c.Shape, t.Shape) {
		return nil, fmt.Errorf("%s chooses between %s and %s for %s", c, o.Ins[1], o.Ins[2], t)
	}
	return func(a []*tensor.Tensor) (*tensor.Tensor, error) { return tensor.Select(a[0], a[1], a[2]), nil }, nil
}

// cast checks that a value of element type from becomes one of type to, of the same shape.
func cast(o *mlir.Op, from, to mlir.Elem) error {
	if err := takes(o, 1); err != nil {
		return err
	}
	t := o.Ins[0]
	if t.Elem = to; o.Ins[0].Elem != from || !t.Equal(o.Outs[0]) {
		return fmt.Errorf("%s becomes %s", o.Ins[0], o.Outs[0])
	}
	return nil
}

func converted(from, to mlir.Elem) rule {
	return rule{pure: func(o *mlir.Op) (compute, error) {
		return func(a []*tensor.Tensor) (*tensor.Tensor, error) { return tensor.Convert(a[0], to), nil }, cast(o, from, to)
	}}
}

func fromUnsigned(o *mlir.Op) (compute, error) {
	return func(a []*tensor.Tensor) (*tensor.Tensor, error) {
		return tensor.Convert(a[0].As(mlir.U32), mlir.F32), nil
	}, cast(o, mlir.I32, mlir.F32)
}

func toUnsigned(o *mlir.Op) (compute, error) {
	return func(a []*tensor.Tensor) (*tensor.Tensor, error) {
		return tensor.Convert(a[0], mlir.U32).As(mlir.I32), nil
	}, cast(o, mlir.F32, mlir.I32)
}

// widen zero-extends i1 or i16 to 32 bits.
func widen(o *mlir.Op) (compute, error) {
	if err := cast(o, mlir.I16, mlir.I32); err != nil {
		if err := cast(o, mlir.I1, mlir.I32); err != nil {
			return nil, err
		}
	}
	return func(a []*tensor.Tensor) (*tensor.Tensor, error) {
		return tensor.MapInt(tensor.Convert(a[0], mlir.I32), func(v int64) int64 { return v & 0xffff }), nil
	}, nil
}

// sameBits reinterprets bits as another type of the same width.
func sameBits(o *mlir.Op) (compute, error) {
	to := o.Outs[0].Elem
	if err := takes(o, 1); err != nil {
		return nil, err
	}
	if o.Ins[0].Elem.Bytes() != to.Bytes() {
		return nil, fmt.Errorf("the bits of %s as %s", o.Ins[0], o.Outs[0])
	}
	return func(a []*tensor.Tensor) (*tensor.Tensor, error) { return tensor.Bitcast(a[0], to), nil }, cast(o, o.Ins[0].Elem, to)
}

// registerBits reinterprets bits, also with another width: two rows of 16 bits are one of 32.
func registerBits(o *mlir.Op) (compute, error) {
	if err := takes(o, 1); err != nil {
		return nil, err
	}
	from, to := o.Ins[0].Elem.Bytes(), o.Outs[0].Elem
	switch {
	case from == 2 && to.Bytes() == 4:
		return func(a []*tensor.Tensor) (*tensor.Tensor, error) { return tensor.Words(a[0], to), nil }, nil
	case from == 4 && to.Bytes() == 2:
		return func(a []*tensor.Tensor) (*tensor.Tensor, error) { return tensor.Halves(a[0], to), nil }, nil
	}
	return sameBits(o)
}

// pack rounds two vectors to bf16 and packs them into words, the first in the low halves.
func pack(o *mlir.Op) (compute, error) {
	if err := takes(o, 2); err != nil {
		return nil, err
	}
	if t, ok := o.Attrs["target_type"].(mlir.Type); !ok || t.Elem != mlir.BF16 || o.Ins[0].Elem != mlir.F32 || !o.Ins[0].Equal(o.Ins[1]) || o.Outs[0].Elem != mlir.I32 {
		return nil, fmt.Errorf("two of f32 become bf16 in i32: %s, %s to %v in %s", o.Ins[0], o.Ins[1], o.Attrs["target_type"], o.Outs[0])
	}
	return func(a []*tensor.Tensor) (*tensor.Tensor, error) {
		half := func(x *tensor.Tensor) *tensor.Tensor {
			return tensor.Bitcast(tensor.Convert(tensor.Convert(x, mlir.BF16), mlir.F32), mlir.I32)
		}
		lo, hi := half(a[0]), half(a[1])
		r := tensor.New(mlir.I32, a[0].Shape...)
		for i := range r.N {
			r.N[i] = int32(uint32(lo.N[i])>>16 | uint32(hi.N[i]))
		}
		return r, nil
	}, nil
}
