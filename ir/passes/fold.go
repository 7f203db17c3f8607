package passes

import (
	"math"
	"slices"

	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/array"
	"github.com/gdngen/gdngen/ir/interp"
)

// Fold evaluates ops on splats and removes ops that change nothing. It preserves all bits of results:
//
//   - x + 0 is removed only if the zero is negative, x - 0 only if it is positive (-0 + 0 is 0); x * 0 stays, except for integers.
//   - Results that a constant cannot represent stay: NaN (its bits would be lost), an i64 beyond 2^53.
//
// So builders may emit general code, such as a scale of 1 or a mask of all ones, at no cost.
//
//	%2 = const {value=2} : f32[8]
//	%3 = mul %2, %2 : f32[8]          const {value=4} : f32[8]
//	%4 = const {value=1} : f32[8]
//	%5 = mul %1, %4 : f32[8]          gone, its readers read %1
//
// %2 and %4 are left to dce. A constant of this IR is a splat, one number for all elements, so there are no tables to fold.
func Fold(m *ir.Module) (*ir.Module, error) {
	return Transform(m, func(r *Rewriter, in *ir.Instr, args []*ir.Value) ([]*ir.Value, bool) {
		if v := simplify(r, in, args); v != nil {
			return []*ir.Value{v}, true
		}
		return nil, false
	})
}

// constantOf returns the value of a splat; false for other values.
func constantOf(v *ir.Value) (float64, bool) {
	if v.Def == nil || v.Def.Op != ir.OpConst {
		return 0, false
	}
	return v.Def.Attrs.Value, true
}

// simplify returns a replacement for an instruction, or nil.
//
// Operands are new values, so earlier folding is visible: a chain of splats folds in one walk.
func simplify(r *Rewriter, in *ir.Instr, args []*ir.Value) *ir.Value {
	switch {
	// Operands that are references are memory, not values.
	case len(in.Results) != 1 || in.Body != nil || !in.Op.Pure() || len(args) == 0 || args[0].Type.IsRef():
		return nil
	case moves(in, args):
		c, _ := constantOf(args[0])
		return r.Const(CloneType(in.Result().Type), c)
	case in.Op.IsElementwise():
		if c, ok := evaluate(in, args); ok {
			return r.Const(CloneType(in.Result().Type), c)
		}
	}
	if f := identities[in.Op]; f != nil {
		return f(r, in, args)
	}
	return nil
}

// moves reports whether an op only moves elements, all from splats of one value.
//
// Values are compared by bits: a concat of 0 and -0, which compare equal, is no splat, and neither is a pad of 0 around -0.
func moves(in *ir.Instr, args []*ir.Value) bool {
	c, ok := constantOf(args[0])
	if !ok {
		return false
	}
	same := func(d float64) bool { return math.Float64bits(c) == math.Float64bits(d) }
	switch in.Op {
	case ir.OpBroadcast, ir.OpReshape, ir.OpTranspose, ir.OpSlice, ir.OpDynSlice:
		return true
	case ir.OpPad:
		return same(in.Attrs.Value)
	case ir.OpConcat:
		for _, a := range args[1:] {
			d, ok := constantOf(a)
			if !ok || !same(d) {
				return false
			}
		}
		return true
	}
	return false
}

// evaluate runs an elementwise op on splats, for one element.
//
// The interpreter evaluates a module of one instruction, so a folded op cannot differ from an executed one: rounding to bf16,
// saturation and large shifts are defined in one place. All elements of splats are equal, so scalars are enough.
func evaluate(in *ir.Instr, args []*ir.Value) (float64, bool) {
	m, b := ir.NewModule("fold")
	var scalars []*ir.Value
	for _, a := range args {
		c, ok := constantOf(a)
		if !ok {
			return 0, false
		}
		scalars = append(scalars, b.Const(ir.T(a.Type.DType), c))
	}
	var explicit []ir.Type
	if ir.Ops[in.Op].Explicit {
		explicit = []ir.Type{ir.T(in.Result().Type.DType)}
	}
	out := b.Append(in.Op, scalars, in.Attrs, nil, explicit...)
	if b.Finish(m, []string{"o"}, out) != nil {
		return 0, false
	}
	res, err := interp.Run(m, nil, interp.Options{})
	if err != nil {
		return 0, false
	}
	v := res["o"].Float64s()[0]
	// A constant is stored as a float64. Only a value that float64 preserves exactly may become a constant: not 2^53 + 1 in i64.
	back := array.FromFloat64s(res["o"].Type, nil, []float64{v})
	return v, v == v && slices.Equal(back.Data, res["o"].Data)
}

// identities are the ops that may change nothing. Each function returns a replacement for the result, or nil.
//
// Other identities would change bits. x * 0 is NaN for an infinite x and -0 for a negative one. A convert to bf16 and back rounds. And x - x is NaN for
// an infinite x, which kernels use to find infinities.
var identities = map[ir.Op]func(r *Rewriter, in *ir.Instr, args []*ir.Value) *ir.Value{
	// -0 + 0 is 0, so adding 0 changes one number; -0 is neutral for all. For a difference it is the other way round. Integers have one zero.
	ir.OpAdd: neutral(func(d ir.DType, c float64) bool { return c == 0 && (!d.IsFloat() || math.Signbit(c)) }, true),
	ir.OpSub: neutral(func(d ir.DType, c float64) bool { return c == 0 && (!d.IsFloat() || !math.Signbit(c)) }, false),
	ir.OpMul: absorbing(0, neutral(is(1), true)),
	ir.OpDiv: neutral(is(1), false),
	ir.OpMax: neutral(func(d ir.DType, c float64) bool { return d.IsFloat() && math.IsInf(c, -1) }, true),
	ir.OpMin: neutral(func(d ir.DType, c float64) bool { return d.IsFloat() && math.IsInf(c, 1) }, true),
	ir.OpAnd: absorbing(0, neutral(allOnes, true)),
	ir.OpOr:  neutral(is(0), true),
	ir.OpXor: neutral(is(0), true),
	ir.OpShl: neutral(is(0), false),
	ir.OpShr: neutral(is(0), false),
	ir.OpNeg: twice,
	ir.OpNot: twice,

	ir.OpSelect: func(_ *Rewriter, _ *ir.Instr, a []*ir.Value) *ir.Value {
		c, ok := constantOf(a[0])
		switch {
		// The same value on both sides, or a condition that is true everywhere.
		case a[1] == a[2] || ok && c != 0:
			return a[1]
		case ok:
			return a[2]
		}
		return nil
	},
	ir.OpConvert: sameType,
	ir.OpBitcast: sameType,
	ir.OpConcat: func(r *Rewriter, in *ir.Instr, a []*ir.Value) *ir.Value {
		if len(a) == 1 {
			return a[0]
		}
		return nil
	},
	ir.OpBroadcast: sameType, // dims ascend, so equal shapes mean that nothing moves
	ir.OpSlice:     sameType, // a step above 1 leaves fewer
	ir.OpPad:       sameType,
	ir.OpReshape: func(r *Rewriter, in *ir.Instr, a []*ir.Value) *ir.Value {
		if v := sameType(r, in, a); v != nil {
			return v
		}
		// Elements keep their order, so the shape in between does not matter.
		if d := a[0].Def; d != nil && d.Op == ir.OpReshape {
			return r.Reshape(d.Args[0], slices.Clone(in.Result().Type.Shape)...)
		}
		return nil
	},
	ir.OpTranspose: func(r *Rewriter, in *ir.Instr, a []*ir.Value) *ir.Value {
		perm, x := slices.Clone(in.Attrs.Dims), a[0]
		if d := x.Def; d != nil && d.Op == ir.OpTranspose {
			for i, p := range perm {
				// Dimension i of the result is dimension p of the value in between, which is d.Attrs.Dims[p] of x.
				perm[i] = d.Attrs.Dims[p]
			}
			x = d.Args[0]
		}
		switch {
		// Nothing moves, as for two transposes that cancel.
		case slices.IsSorted(perm):
			return x
		case x != a[0]:
			return r.Transpose(x, perm...)
		}
		return nil
	},
}

// is accepts one number, for any type. By == it takes -0 for 0; it is used for integers and bits only.
func is(want float64) func(ir.DType, float64) bool {
	return func(_ ir.DType, c float64) bool { return c == want }
}

// allOnes recognises the constant whose bits are all set.
func allOnes(d ir.DType, c float64) bool {
	switch d {
	case ir.Bool:
		return c != 0
	case ir.U16:
		return c == math.MaxUint16
	case ir.U32:
		return c == math.MaxUint32
	}
	return c == -1
}

// neutral replaces x op c by x for constants c for which test holds, and c op x by x if the op commutes.
//
// A difference, a quotient and a shift do not commute: 0 - x is not x. The constant has the type of the result, so no convert is needed.
func neutral(test func(ir.DType, float64) bool, commutes bool) func(*Rewriter, *ir.Instr, []*ir.Value) *ir.Value {
	return func(_ *Rewriter, in *ir.Instr, a []*ir.Value) *ir.Value {
		d := in.Result().Type.DType
		if c, ok := constantOf(a[1]); ok && test(d, c) {
			return a[0]
		}
		if c, ok := constantOf(a[0]); ok && commutes && test(d, c) {
			return a[1]
		}
		return nil
	}
}

// absorbing replaces x op c by c on integers and bool, and otherwise calls next.
//
// It comes before next: 0 * 1 is 0 by either rule. Floats have none, as 0 times infinity is NaN.
func absorbing(c float64, next func(*Rewriter, *ir.Instr, []*ir.Value) *ir.Value) func(*Rewriter, *ir.Instr, []*ir.Value) *ir.Value {
	return func(r *Rewriter, in *ir.Instr, a []*ir.Value) *ir.Value {
		for _, v := range a {
			if d, ok := constantOf(v); ok && d == c && !v.Type.DType.IsFloat() {
				return v
			}
		}
		return next(r, in, a)
	}
}

// twice is f(f(x)) = x.
func twice(_ *Rewriter, in *ir.Instr, a []*ir.Value) *ir.Value {
	if d := a[0].Def; d != nil && d.Op == in.Op {
		return d.Args[0]
	}
	return nil
}

// sameType is f(x) = x where the types agree.
func sameType(_ *Rewriter, in *ir.Instr, a []*ir.Value) *ir.Value {
	if a[0].Type.Equal(in.Result().Type) {
		return a[0]
	}
	return nil
}
