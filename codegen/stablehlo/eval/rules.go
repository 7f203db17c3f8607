package eval

import (
	"fmt"
	"slices"

	"github.com/gdngen/gdngen/codegen/mlir"
	"github.com/gdngen/gdngen/codegen/mlir/tensor"
)

type compute func(a []*tensor.Tensor) (*tensor.Tensor, error)

// rule says how an operation of one result runs: its number of operands (-1: any), allowed attributes, whether it has a region, a check
// of its types, and its function.
type rule struct {
	ins    int
	attrs  []string
	region bool
	check  func(o *mlir.Op) error
	make   func(o *mlir.Op) (compute, error)
}

// rules is the table of operations, by name without the dialect.
var rules = map[string]rule{
	"add": binary(tensor.Add, tensor.AddI, tensor.Or), "subtract": binary(tensor.Sub, tensor.SubI, none), "multiply": binary(tensor.Mul, tensor.MulI, tensor.And),
	"divide": binary(tensor.Div, tensor.DivS, none), "maximum": binary(tensor.Max, tensor.MaxS, tensor.Or), "minimum": binary(tensor.Min, tensor.MinS, tensor.And),
	"power": binary(tensor.Pow, none, none),
	"and":   binary(noFloat, tensor.And, tensor.And), "or": binary(noFloat, tensor.Or, tensor.Or), "xor": binary(noFloat, tensor.Xor, tensor.Xor),
	"shift_left": binary(noFloat, tensor.Shl, none), "shift_right_logical": binary(noFloat, tensor.ShrU, none),

	"negate": unary("neg", func(v int64) int64 { return -v }), "abs": unary("abs", func(v int64) int64 { return max(v, -v) }),
	"not":         {ins: 1, check: alike, make: not},
	"exponential": unary("exp", nil), "log": unary("log", nil), "log_plus_one": unary("log1p", nil), "sqrt": unary("sqrt", nil),
	"rsqrt": unary("rsqrt", nil), "tanh": unary("tanh", nil), "logistic": unary("logistic", nil),

	"constant":             {ins: 0, attrs: []string{"value"}, make: constant},
	"iota":                 {ins: 0, attrs: []string{"dim"}, make: iota},
	"compare":              {ins: 2, make: compare},
	"select":               {ins: 3, make: choose},
	"convert":              {ins: 1, check: sameShape, make: convert},
	"bitcast_convert":      {ins: 1, check: sameShape, make: bitcast},
	"reduce_precision":     {ins: 1, attrs: []string{"format"}, check: alike, make: reducePrecision},
	"optimization_barrier": {ins: 1, check: alike, make: func(*mlir.Op) (compute, error) { return first, nil }},

	"broadcast_in_dim":     {ins: 1, attrs: []string{"dims"}, check: sameElem, make: broadcast},
	"reshape":              {ins: 1, check: sameElem, make: reshape},
	"transpose":            {ins: 1, attrs: []string{"dims"}, check: sameElem, make: transpose},
	"slice":                {ins: 1, attrs: []string{"starts", "limits", "strides"}, check: sameElem, make: slice},
	"concatenate":          {ins: -1, attrs: []string{"dim"}, check: sameElem, make: concatenate},
	"pad":                  {ins: 2, attrs: []string{"low", "high", "interior"}, check: sameElem, make: pad},
	"dynamic_slice":        {ins: -1, attrs: []string{"sizes"}, make: dynamicSlice},
	"dynamic_update_slice": {ins: -1, make: dynamicUpdate},
	"gather":               {ins: 2, attrs: []string{"dimension_numbers", "indices_are_sorted", "slice_sizes"}, make: gather},

	"reduce":        {ins: 2, attrs: []string{"dimensions"}, region: true, check: sameElem, make: reduce},
	"reduce_window": {ins: 2, attrs: []string{"padding", "window_dimensions"}, region: true, check: sameElem, make: reduceWindow},
	"dot_general":   {ins: 2, attrs: []string{"batching_dims", "contracting_dims", "precision"}, make: dot},
}

// none and noFloat mark an operation that an element kind does not have.
const (
	none    = tensor.IntOp(255)
	noFloat = tensor.FloatOp(255)
)

func first(a []*tensor.Tensor) (*tensor.Tensor, error) { return a[0], nil }

// alike checks that operands and result have one type.
func alike(o *mlir.Op) error {
	for i, t := range o.Ins {
		if !t.Equal(o.Outs[0]) {
			return fmt.Errorf("operand %d is %s, the result %s", i, t, o.Outs[0])
		}
	}
	return nil
}

func sameElem(o *mlir.Op) error {
	for i, t := range o.Ins {
		if t.Elem != o.Outs[0].Elem {
			return fmt.Errorf("operand %d is %s, the result %s", i, t, o.Outs[0])
		}
	}
	return nil
}

func sameShape(o *mlir.Op) error {
	if !slices.Equal(o.Ins[0].Shape, o.Outs[0].Shape) {
		return fmt.Errorf("%s becomes %s", o.Ins[0], o.Outs[0])
	}
	return nil
}

// binary returns the rule of an operation on two tensors of one type, from its forms for floats, integers and bools.
func binary(f tensor.FloatOp, i, b tensor.IntOp) rule {
	return rule{ins: 2, check: alike, make: func(o *mlir.Op) (compute, error) {
		e := o.Outs[0].Elem
		op := i
		switch {
		case e.Float():
			if f == noFloat {
				return nil, fmt.Errorf("%s has no such operation", e)
			}
			return func(a []*tensor.Tensor) (*tensor.Tensor, error) { return tensor.Floats(f, a[0], a[1]), nil }, nil
		case e == mlir.I1:
			op = b
		case e == mlir.U32 || e == mlir.U16:
			op = noSign(i)
		}
		if op == none {
			return nil, fmt.Errorf("%s has no such operation", e)
		}
		return func(a []*tensor.Tensor) (*tensor.Tensor, error) { return tensor.Ints(op, a[0], a[1]), nil }, nil
	}}
}

// noSign returns the unsigned form of an integer operation.
func noSign(op tensor.IntOp) tensor.IntOp {
	switch op {
	case tensor.DivS:
		return tensor.DivU
	case tensor.MaxS:
		return tensor.MaxU
	case tensor.MinS:
		return tensor.MinU
	}
	return op
}

// unary returns the rule of a function of floats, and of integers if n is not nil.
func unary(name string, n func(int64) int64) rule {
	f := tensor.Unary[name]
	return rule{ins: 1, check: alike, make: func(o *mlir.Op) (compute, error) {
		switch e := o.Outs[0].Elem; {
		case e.Float():
			return func(a []*tensor.Tensor) (*tensor.Tensor, error) { return tensor.Map(a[0], f), nil }, nil
		case n != nil && e != mlir.I1:
			return func(a []*tensor.Tensor) (*tensor.Tensor, error) { return tensor.MapInt(a[0], n), nil }, nil
		}
		return nil, fmt.Errorf("%s has no such operation", o.Outs[0].Elem)
	}}
}

func not(o *mlir.Op) (compute, error) {
	if o.Outs[0].Elem.Float() {
		return nil, fmt.Errorf("%s has no such operation", o.Outs[0].Elem)
	}
	return func(a []*tensor.Tensor) (*tensor.Tensor, error) {
		return tensor.MapInt(a[0], func(v int64) int64 { return ^v }), nil
	}, nil
}

func constant(o *mlir.Op) (compute, error) {
	d, _ := o.Attrs["value"].(mlir.Dense)
	t, err := tensor.Literal(d, o.Outs[0])
	return func([]*tensor.Tensor) (*tensor.Tensor, error) { return t, nil }, err
}

func iota(o *mlir.Op) (compute, error) {
	dim, err := integer(o, "dim")
	if err != nil {
		return nil, err
	}
	t := o.Outs[0]
	return func([]*tensor.Tensor) (*tensor.Tensor, error) { return tensor.Iota(t.Elem, t.Shape, dim), nil }, within(t.Shape, dim)
}

var relations = map[string]tensor.Relation{"EQ": tensor.EQ, "NE": tensor.NE, "LT": tensor.LT, "LE": tensor.LE, "GT": tensor.GT, "GE": tensor.GE}

// compare checks that the kind in the text, SIGNED, UNSIGNED or FLOAT, matches the operands.
func compare(o *mlir.Op) (compute, error) {
	t, u := o.Ins[0], o.Outs[0]
	if !t.Equal(o.Ins[1]) || u.Elem != mlir.I1 || !slices.Equal(u.Shape, t.Shape) || len(o.Words) != 2 {
		return nil, fmt.Errorf("%s is compared with %s, for %s", t, o.Ins[1], u)
	}
	kind := "SIGNED"
	switch {
	case t.Elem.Float():
		kind = "FLOAT"
	case t.Elem == mlir.U32 || t.Elem == mlir.U16 || t.Elem == mlir.I1:
		kind = "UNSIGNED"
	}
	rel, ok := relations[o.Words[0]]
	if !ok || o.Words[1] != kind {
		return nil, fmt.Errorf("comparison %v of %s: %s is expected", o.Words, t, kind)
	}
	return func(a []*tensor.Tensor) (*tensor.Tensor, error) {
		return tensor.Compare(rel, a[0], a[1], kind == "UNSIGNED"), nil
	}, nil
}

func choose(o *mlir.Op) (compute, error) {
	c, t := o.Ins[0], o.Outs[0]
	if c.Elem != mlir.I1 || !o.Ins[1].Equal(t) || !o.Ins[2].Equal(t) || len(c.Shape) > 0 && !slices.Equal(c.Shape, t.Shape) {
		return nil, fmt.Errorf("%s chooses between %s and %s for %s", c, o.Ins[1], o.Ins[2], t)
	}
	return func(a []*tensor.Tensor) (*tensor.Tensor, error) { return tensor.Select(a[0], a[1], a[2]), nil }, nil
}

func convert(o *mlir.Op) (compute, error) {
	e := o.Outs[0].Elem
	return func(a []*tensor.Tensor) (*tensor.Tensor, error) { return tensor.Convert(a[0], e), nil }, nil
}

func bitcast(o *mlir.Op) (compute, error) {
	e := o.Outs[0].Elem
	if e.Bytes() != o.Ins[0].Elem.Bytes() {
		return nil, fmt.Errorf("%s becomes %s", o.Ins[0], o.Outs[0])
	}
	return func(a []*tensor.Tensor) (*tensor.Tensor, error) { return tensor.Bitcast(a[0], e), nil }, nil
}

// reducePrecision rounds to the exponent and mantissa of a narrower type.
func reducePrecision(o *mlir.Op) (compute, error) {
	var e mlir.Elem
	switch o.Attrs["format"] {
	case mlir.Word("e8m7"):
		e = mlir.BF16
	case mlir.Word("e5m10"):
		e = mlir.F16
	case mlir.Word("e8m23"):
		e = mlir.F32
	default:
		return nil, fmt.Errorf("format %v is not supported", o.Attrs["format"])
	}
	to := o.Outs[0].Elem
	if !to.Float() {
		return nil, fmt.Errorf("floats are expected, not %s", to)
	}
	return func(a []*tensor.Tensor) (*tensor.Tensor, error) {
		return tensor.Convert(tensor.Convert(a[0], e), to), nil
	}, nil
}
