package mosaic

import (
	"fmt"
	"math"

	"github.com/gdngen/gdngen/ir"
)

// names are the MLIR operations of an elementwise op, by kind of element: float, signed, unsigned, bool.
type names struct {
	f, i, u, b string
	native     bool // targets with bf16 vector units compute it in bf16
}

func one(v value) []value { return []value{v} }

// pure returns the rule of an elementwise op. special is tried if no name fits; it may decline with an empty id. bf16 is computed in f32
// and rounded once, unless the target has a bf16 unit for the op.
func pure(n names, special func(*emitter, ir.DType, []value) value) func(*emitter, *ir.Instr) ([]value, error) {
	return func(e *emitter, in *ir.Instr) ([]value, error) {
		d := in.Args[0].Type.DType
		args := e.args(in.Args)
		name := ""
		switch {
		case d.IsFloat():
			name = n.f
		case d == ir.I32:
			name = n.i
		case d == ir.U32:
			name = n.u
		case d == ir.Bool:
			name = n.b
		}
		wide := d == ir.BF16 && !(n.native && e.target.BF16VPU && in.Args[0].Type.Rank() > 0)
		if wide {
			for i := range args {
				args[i] = e.widen(args[i])
			}
		}
		var r value
		if name != "" {
			r = e.op(name, args[0].t, "", args...)
		} else if special != nil {
			r = special(e, d, args)
		}
		if r.id == "" {
			return nil, fmt.Errorf("not available on %s in a TPU kernel", in.Args[0].Type)
		}
		if wide {
			r = e.narrow(r)
		}
		return one(r), nil
	}
}

// widen turns bf16 into f32; narrow rounds back.
func (e *emitter) widen(v value) value {
	if v.t.elem != "bf16" {
		return v
	}
	return e.op("arith.extf", v.t.as("f32"), "", v)
}

func (e *emitter) narrow(v value) value {
	if v.t.elem != "f32" {
		return v
	}
	return e.op("arith.truncf", v.t.as("bf16"), "", v)
}

func negInt(e *emitter, d ir.DType, a []value) value {
	if !d.IsInt() {
		return value{}
	}
	return e.op("arith.subi", a[0].t, "", e.constant(a[0].t, 0), a[0])
}

func absUnsigned(_ *emitter, d ir.DType, a []value) value {
	if d != ir.U32 {
		return value{}
	}
	return a[0]
}

func logistic(e *emitter, d ir.DType, a []value) value {
	x := a[0]
	one := e.constant(x.t, 1)
	s := e.op("arith.addf", x.t, "", one, e.op("math.exp", x.t, "", e.op("arith.negf", x.t, "", x)))
	return e.op("arith.divf", x.t, "", one, s)
}

// log2 is log times a constant, since libtpu before 0.0.51 has no math.log2.
func log2(e *emitter, d ir.DType, a []value) value {
	if !d.IsFloat() {
		return value{}
	}
	return e.op("arith.mulf", a[0].t, "", e.op("math.log", a[0].t, "", a[0]), e.constant(a[0].t, math.Log2E))
}

func not(e *emitter, d ir.DType, a []value) value {
	v := -1.0
	if d == ir.Bool {
		v = 1
	}
	return e.op("arith.xori", a[0].t, "", a[0], e.constant(a[0].t, v))
}

// unsignedOrder compares unsigned numbers as signed ones with the top bits flipped.
func unsignedOrder(name string) func(*emitter, ir.DType, []value) value {
	return func(e *emitter, d ir.DType, a []value) value {
		if d != ir.U32 {
			return value{}
		}
		return e.flip(e.op(name, a[0].t, "", e.flip(a[0]), e.flip(a[1])))
	}
}

func (e *emitter) flip(v value) value {
	return e.op("arith.xori", v.t, "", v, e.constant(v.t, -1<<31))
}

// shift returns 0 for amounts from the width on; the guard is omitted for a constant amount below the width.
func shift(name string) func(*emitter, *ir.Instr) ([]value, error) {
	return func(e *emitter, in *ir.Instr) ([]value, error) {
		d := in.Args[0].Type.DType
		if d != ir.I32 && d != ir.U32 {
			return nil, fmt.Errorf("not available on %s in a TPU kernel", in.Args[0].Type)
		}
		x, y := e.arg(in, 0), e.arg(in, 1)
		r := e.op(name, x.t, "", x, y)
		if def := in.Args[1].Def; def != nil {
			for def.Op == ir.OpBroadcast && def.Args[0].Def != nil {
				def = def.Args[0].Def
			}
			if def.Op == ir.OpConst && def.Attrs.Value >= 0 && def.Attrs.Value < 32 {
				return one(r), nil
			}
		}
		small := e.op("arith.cmpi", x.t.as("i1"), "predicate = 6 : i64", y, e.constant(y.t, 32))
		return one(e.op("arith.select", x.t, "", small, r, e.constant(x.t, 0))), nil
	}
}

// Predicates of arith.cmpf and arith.cmpi by relation. The compiler has no unordered ones: ne is the negation of eq.
var (
	floatPredicates    = [...]int{ir.EQ: 1, ir.LT: 4, ir.LE: 5, ir.GT: 2, ir.GE: 3}
	signedPredicates   = [...]int{ir.EQ: 0, ir.NE: 1, ir.LT: 2, ir.LE: 3, ir.GT: 4, ir.GE: 5}
	unsignedPredicates = [...]int{ir.EQ: 0, ir.NE: 1, ir.LT: 6, ir.LE: 7, ir.GT: 8, ir.GE: 9}
)

func predicate(p int) string { return fmt.Sprintf("predicate = %d : i64", p) }

func emitCompare(e *emitter, in *ir.Instr) ([]value, error) {
	x, y := e.widen(e.arg(in, 0)), e.widen(e.arg(in, 1))
	t, c := x.t.as("i1"), in.Attrs.Cmp
	switch d := in.Args[0].Type.DType; {
	case d.IsFloat():
		return one(e.compareFloats(c, x, y)), nil
	case d == ir.Bool:
		return one(e.compareBools(c, x, y)), nil
	case d == ir.U32 && c > ir.NE && x.t.shape != nil:
		return one(e.op("arith.cmpi", t, predicate(signedPredicates[c]), e.flip(x), e.flip(y))), nil
	case d == ir.U32:
		return one(e.op("arith.cmpi", t, predicate(unsignedPredicates[c]), x, y)), nil
	case d == ir.I32:
		return one(e.op("arith.cmpi", t, predicate(signedPredicates[c]), x, y)), nil
	}
	return nil, fmt.Errorf("not available on %s in a TPU kernel", in.Args[0].Type)
}

func (e *emitter) compareFloats(c ir.Cmp, x, y value) value {
	t := x.t.as("i1")
	if c != ir.NE {
		return e.op("arith.cmpf", t, predicate(floatPredicates[c]), x, y)
	}
	equal := e.op("arith.cmpf", t, predicate(floatPredicates[ir.EQ]), x, y)
	return e.op("arith.xori", t, "", equal, e.constant(t, 1))
}

// compareBools orders false before true.
func (e *emitter) compareBools(c ir.Cmp, x, y value) value {
	not := func(v value) value { return e.op("arith.xori", v.t, "", v, e.constant(v.t, 1)) }
	switch c {
	case ir.EQ:
		return not(e.op("arith.xori", x.t, "", x, y))
	case ir.NE:
		return e.op("arith.xori", x.t, "", x, y)
	case ir.LT:
		return e.op("arith.andi", x.t, "", not(x), y)
	case ir.LE:
		return e.op("arith.ori", x.t, "", not(x), y)
	case ir.GT:
		return e.op("arith.andi", x.t, "", x, not(y))
	}
	return e.op("arith.ori", x.t, "", x, not(y))
}

// mask converts bool to 0 or 1 in i32; truth converts back.
func (e *emitter) mask(v value) value { return e.op("arith.extui", v.t.as("i32"), "", v) }

func (e *emitter) truth(v value) value {
	return e.op("arith.cmpi", v.t.as("i1"), predicate(1), v, e.constant(v.t, 0))
}

func emitSelect(e *emitter, in *ir.Instr) ([]value, error) {
	c, x, y := e.arg(in, 0), e.arg(in, 1), e.arg(in, 2)
	if x.t.elem == "i1" {
		return one(e.truth(e.op("arith.select", x.t.as("i32"), "", c, e.mask(x), e.mask(y)))), nil
	}
	if x.t.elem == "bf16" && len(c.t.shape) > 0 {
		// A condition compared at 32 bits selects among 32-bit lanes.
		return one(e.narrow(e.op("arith.select", x.t.as("f32"), "", c, e.widen(x), e.widen(y)))), nil
	}
	return one(e.op("arith.select", x.t, "", c, x, y)), nil
}

func emitConvert(e *emitter, in *ir.Instr) ([]value, error) {
	v, from, to := e.arg(in, 0), in.Args[0].Type.DType, in.Result().Type.DType
	if from == to {
		return one(v), nil
	}
	w := e.widen(v) // f32, i32 or i1 from here on
	t := w.t
	switch {
	case from == ir.U16:
		w = e.op("arith.extui", t.as("i32"), "", v)
		from = ir.I32
	case from == ir.Bool && to != ir.Bool:
		w = e.mask(w)
		from = ir.I32
	}
	switch {
	case to.IsFloat() && from == ir.I32:
		w = e.op("arith.sitofp", t.as("f32"), "", w)
	case to.IsFloat() && from == ir.U32:
		w = e.op("arith.uitofp", t.as("f32"), "", w)
	case to == ir.I32 && from.IsFloat():
		w = e.op("arith.fptosi", t.as("i32"), "", w)
	case to == ir.U32 && from.IsFloat():
		w = e.op("arith.fptoui", t.as("i32"), "", w)
	case to == ir.U16 && from.IsFloat():
		return nil, fmt.Errorf("convert to i32 first")
	case to == ir.U16:
		w = e.op("arith.trunci", t.as("i16"), "", w)
	case to == ir.Bool && from.IsFloat():
		w = e.compareFloats(ir.NE, w, e.constant(w.t, 0))
	case to == ir.Bool:
		w = e.truth(w)
	}
	if to == ir.BF16 {
		w = e.narrow(w)
	}
	return one(w), nil
}

func emitBitcast(e *emitter, in *ir.Instr) ([]value, error) {
	v, t := e.arg(in, 0), e.result(in)
	switch {
	case v.t.elem == t.elem:
		return one(v), nil
	case len(t.shape) == 0:
		return one(e.op("arith.bitcast", t, "", v)), nil
	}
	return one(e.op("tpu.bitcast", t, "", v)), nil
}

func emitPack(e *emitter, in *ir.Instr) ([]value, error) {
	if in.Result().Type.Rank() != 2 {
		return nil, fmt.Errorf("wants rank 2")
	}
	return one(e.op("tpu.pack_elementwise", e.result(in), "target_type = bf16", e.args(in.Args)...)), nil
}

// emitRows is words and halves: a bitcast that changes the number of rows.
func emitRows(e *emitter, in *ir.Instr) ([]value, error) {
	return one(e.op("tpu.bitcast", e.result(in), "", e.arg(in, 0))), nil
}
