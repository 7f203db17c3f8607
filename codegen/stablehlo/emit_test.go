package stablehlo_test

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/codegen/stablehlo"
	"github.com/gdngen/gdngen/codegen/stablehlo/eval"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/array"
	"github.com/gdngen/gdngen/ir/interp"
	"github.com/gdngen/gdngen/pjrt"
	"github.com/gdngen/gdngen/pjrt/pjrttest"
)

// probe collects values into a module: every value tried becomes a result.
type probe struct {
	*ir.Builder
	native bool // emit bf16 as it is
	m      *ir.Module
	names  []string
	outs   []*ir.Value
	summed map[string]ir.DType // of products that are summed in another type than they give
	args   map[string]*array.Array
	rand   *rand.Rand
}

func newProbe() *probe {
	m, b := ir.NewModule("probe")
	return &probe{Builder: b, m: m, args: map[string]*array.Array{}, summed: map[string]ir.DType{}, rand: rand.New(rand.NewPCG(3, 4))}
}

// param adds a parameter with the given values.
func (p *probe) param(d ir.DType, shape []int, v ...float64) *ir.Value {
	name := fmt.Sprintf("p%d", len(p.args))
	p.args[name] = array.FromFloat64s(d, shape, v)
	return p.Param(name, ir.T(d, shape...))
}

// normal adds a parameter of normal numbers; integers are from -50 to 50, or 0 to 50 where unsigned.
func (p *probe) normal(d ir.DType, shape ...int) *ir.Value {
	v := make([]float64, ir.T(d, shape...).Size())
	for i := range v {
		switch v[i] = p.rand.NormFloat64(); {
		case d == ir.Bool:
			v[i] = float64(p.rand.IntN(2))
		case d == ir.U32 || d == ir.U16:
			v[i] = float64(p.rand.IntN(50))
		case d.IsInt():
			v[i] = float64(p.rand.IntN(101) - 50)
		}
	}
	return p.param(d, shape, v...)
}

func (p *probe) try(name string, v *ir.Value) {
	p.names, p.outs = append(p.names, fmt.Sprintf("r%d_%s", len(p.names), name)), append(p.outs, v)
}

func (p *probe) unary(op ir.Op, x *ir.Value)     { p.try(op.String(), p.Unary(op, x)) }
func (p *probe) binary(op ir.Op, x, y *ir.Value) { p.try(op.String(), p.Binary(op, x, y)) }

// tolerance is relative to 1 or the value, whichever is larger; integers are exact.
var tolerance = map[ir.DType]float64{ir.F64: 1e-12, ir.F32: 2e-6, ir.BF16: 1.0 / 128, ir.F16: 1.0 / 1024}

// check compares the CPU and the evaluator with the interpreter, and returns which ops the module has.
func (p *probe) check(t *testing.T, e *pjrt.Engine, seen map[ir.Op]bool) {
	t.Helper()
	require.NoError(t, p.Finish(p.m, p.names, p.outs))
	a, err := stablehlo.Backend{}.Emit(p.m, nil)
	require.NoError(t, err)
	again, err := stablehlo.Backend{}.Emit(p.m, nil)
	require.NoError(t, err)
	require.Equal(t, a.Text, again.Text)
	if p.native {
		a.Text, err = stablehlo.Emitter{Native: true}.Emit(p.m)
		require.NoError(t, err)
	}
	want, err := interp.Run(p.m, p.args, interp.Options{})
	require.NoError(t, err)
	prog, err := e.Compile(a.Text)
	require.NoError(t, err, a.Text)
	var in []*array.Array
	for _, v := range p.m.Params() {
		in = append(in, p.args[v.Name])
	}
	got, err := prog.Run(in...)
	require.NoError(t, err)
	p.same(t, "CPU", got, want)
	text, err := eval.Parse(a.Text, nil)
	require.NoError(t, err)
	got, err = text.Run(in...)
	require.NoError(t, err)
	p.same(t, "evaluator", got, want)
	p.m.Body.Walk(func(in *ir.Instr) { seen[in.Op] = true })
}

// same compares what a program gave with the interpreter.
func (p *probe) same(t *testing.T, by string, got []*array.Array, want map[string]*array.Array) {
	t.Helper()
	for i, name := range p.names {
		w, g := want[name].Float64s(), got[i].Float64s()
		require.Equal(t, want[name].String(), got[i].String(), name)
		sum := cmp.Or(p.summed[name], want[name].Type)
		for j := range w {
			same := w[j] == g[j] || math.IsNaN(w[j]) && math.IsNaN(g[j]) ||
				math.Abs(w[j]-g[j]) <= tolerance[sum]*max(1, math.Abs(w[j]))
			require.True(t, same, "%s %s element %d: interpreter %v, %s %v", name, p.outs[i].Type, j, w[j], by, g[j])
		}
	}
}

// Every op gives on the CPU, and by the evaluator of the text, what the interpreter gives.
func TestOpsOnCPU(t *testing.T) {
	e := pjrttest.CPU(t)
	seen := map[ir.Op]bool{}
	for _, d := range []ir.DType{ir.F32, ir.BF16, ir.F16, ir.F64} {
		t.Run("float/"+d.String(), func(t *testing.T) { p := newProbe(); p.floats(d); p.moves(d); p.check(t, e, seen) })
	}
	for _, d := range []ir.DType{ir.I32, ir.I64, ir.U32, ir.U16, ir.Bool} {
		t.Run("int/"+d.String(), func(t *testing.T) { p := newProbe(); p.ints(d); p.moves(d); p.check(t, e, seen) })
	}
	t.Run("convert", func(t *testing.T) { p := newProbe(); p.conversions(); p.check(t, e, seen) })
	t.Run("bits", func(t *testing.T) { p := newProbe(); p.words(); p.check(t, e, seen) })
	t.Run("dot", func(t *testing.T) { p := newProbe(); p.dots(); p.check(t, e, seen) })
	t.Run("loop", func(t *testing.T) { p := newProbe(); p.loops(); p.check(t, e, seen) })
	t.Run("native", func(t *testing.T) {
		p := newProbe()
		p.native = true
		p.words()
		p.conversions()
		p.moves(ir.BF16)
		p.dots()
		p.check(t, e, seen)
	})
	if t.Failed() {
		return
	}
	for op := ir.BadOp + 1; op < ir.NumOps; op++ {
		if (stablehlo.Backend{}).Supports(op) == nil {
			require.True(t, seen[op], "%s is supported but was not run", op)
		}
	}
}

func TestSupportsIsTotal(t *testing.T) {
	for op := ir.BadOp; op < ir.NumOps; op++ {
		require.True(t, stablehlo.HasRule(op), "no rule for %s", op)
	}
	require.ErrorContains(t, stablehlo.Backend{}.Supports(ir.OpLoad), "load: acts on references")
	require.ErrorContains(t, stablehlo.Backend{}.Supports(ir.NumOps), "unknown op")
}

func (p *probe) floats(d ir.DType) {
	special := p.param(d, []int{6}, 0, 1, -1, math.Inf(1), math.Inf(-1), math.NaN())
	x, y := p.normal(d, 3, 5), p.normal(d, 3, 5)
	for op := ir.OpNeg; op <= ir.OpLogistic; op++ {
		z := x
		if op == ir.OpLog || op == ir.OpLog2 || op == ir.OpLog1p || op == ir.OpSqrt || op == ir.OpRsqrt {
			z = p.Unary(ir.OpAbs, x)
		}
		p.unary(op, z)
		if op != ir.OpRsqrt { // of zero
			p.unary(op, special)
		}
	}
	p.unary(ir.OpExp2, p.param(d, []int{4}, -10.5, -6, 3, 10.25))
	for op := ir.OpAdd; op <= ir.OpMin; op++ {
		p.binary(op, x, y)
		p.binary(op, special, p.Broadcast(p.SliceAxis(special, 0, 5, 6), []int{6}, 0))
	}
	// A chain in which each step must round.
	p.try("chain", p.Mul(p.Add(p.Mul(x, y), x), p.Add(y, p.Like(y, 0.3))))
	p.try("const", p.Const(ir.T(d, 2), 1.0/3))
	p.try("inf", p.Const(ir.T(d, 2), math.Inf(-1)))
	p.try("nan", p.Const(ir.T(d), math.NaN()))
	p.try("iota", p.Iota(ir.T(d, 3, 300), 1))
	p.relations(x, y)
	p.relations(special, special)
	p.try("max_nan", p.Append(ir.OpReduceMax, []*ir.Value{special}, ir.Attrs{Dims: []int{0}}, nil)[0])
	p.sums(d)
}

func (p *probe) ints(d ir.DType) {
	x, y := p.normal(d, 4, 3), p.normal(d, 4, 3)
	if d == ir.Bool {
		p.unary(ir.OpNot, x)
		for op := ir.OpAnd; op <= ir.OpXor; op++ {
			p.binary(op, x, y)
		}
		p.relations(x, y)
		return
	}
	p.unary(ir.OpNeg, x)
	p.unary(ir.OpAbs, x)
	p.unary(ir.OpNot, x)
	one := p.Max(p.Mul(y, y), p.Like(y, 1))
	for op := ir.OpAdd; op <= ir.OpXor; op++ {
		z := y
		if op == ir.OpDiv {
			z = one
		}
		p.binary(op, x, z)
	}
	by := p.param(d, []int{5}, 0, 1, 7, 15, 70)
	for op := ir.OpShl; op <= ir.OpShr; op++ {
		p.binary(op, p.param(d, []int{5}, 1, 40000, 30000, 7, 9), by)
		p.binary(op, p.Not(p.Like(by, 3)), by)
	}
	p.try("const", p.Const(ir.T(d, 2), 40))
	p.try("iota", p.Iota(ir.T(d, 3, 4), 0))
	p.relations(x, y)
	p.sums(d)
}

// Not is the bitwise complement.
func (p *probe) Not(x *ir.Value) *ir.Value { return p.Unary(ir.OpNot, x) }

func (p *probe) relations(x, y *ir.Value) {
	for c := ir.EQ; c <= ir.GE; c++ {
		r := p.Compare(c, x, y)
		p.try(c.String(), r)
		p.try("select", p.Select(r, x, y))
	}
	p.try("select_scalar", p.Select(p.Const(ir.T(ir.Bool), 1), x, y))
}

func (p *probe) sums(d ir.DType) {
	x := p.normal(d, 3, 4, 5)
	for _, dims := range [][]int{{}, {0}, {1, 2}, {0, 1, 2}} {
		for _, op := range []ir.Op{ir.OpReduceSum, ir.OpReduceMax} {
			p.try(op.String(), p.Append(op, []*ir.Value{x}, ir.Attrs{Dims: dims}, nil)[0])
		}
	}
	p.try("cumsum", p.Cumsum(x, 1))
	p.try("cumsum", p.Cumsum(p.normal(d, 70), 0))
}

func (p *probe) moves(d ir.DType) {
	x := p.normal(d, 3, 4, 5)
	p.try("broadcast", p.Broadcast(p.SliceAxis(x, 1, 0, 1), []int{3, 2, 4, 5}, 0, 2, 3))
	p.try("broadcast", p.Broadcast(p.Const(ir.T(d), 1), []int{2, 2}))
	p.try("reshape", p.Reshape(x, 5, 12))
	p.try("transpose", p.Transpose(x, 2, 0, 1))
	p.try("slice", p.Append(ir.OpSlice, []*ir.Value{x}, ir.Attrs{Starts: []int{1, 0, 1}, Limits: []int{3, 4, 5}, Strides: []int{1, 2, 3}}, nil)[0])
	p.try("concat", p.Concat(1, x, p.SliceAxis(x, 1, 1, 3), x))
	p.try("keep", p.Keep(x))
	p.try("pad", p.Pad(x, 1, []int{0, 1, 2}, []int{1, 0, 3}))
	p.try("take", p.Take(x, p.Select(p.Compare(ir.LT, p.Iota(ir.T(ir.I32, 3, 6, 5), 1), p.Const(ir.T(ir.I32, 3, 6, 5), 3)),
		p.Iota(ir.T(ir.I32, 3, 6, 5), 0), p.Const(ir.T(ir.I32, 3, 6, 5), 3)), 1))
	p.try("gather_rows", p.GatherRows(x, p.param(ir.I32, []int{6}, 2, -1, 0, 3, 9, 3), 1))
	scalar := func(v float64) *ir.Value { return p.Const(ir.T(ir.I32), v) }
	for _, at := range [][]*ir.Value{{scalar(1), scalar(-2), scalar(3)}, {scalar(9), scalar(1), scalar(0)}} {
		cut := p.Append(ir.OpDynSlice, append([]*ir.Value{x}, at...), ir.Attrs{}, nil, ir.T(d, 1, 2, 4))[0]
		p.try("dyn_slice", cut)
		p.try("dyn_update", p.Append(ir.OpDynUpdate, append([]*ir.Value{x, cut}, at[1], at[0], at[2]), ir.Attrs{}, nil)[0])
	}
	p.try("empty", p.SliceAxis(x, 2, 5, 5))
}

func (p *probe) conversions() {
	all := []ir.DType{ir.F64, ir.F32, ir.F16, ir.BF16, ir.I64, ir.I32, ir.U32, ir.U16, ir.Bool}
	for _, from := range all {
		v := []float64{0, 1, 3, 255, 65535}
		if from.IsFloat() {
			v = append(v, 0.999, 3.7, 1.00390625001, 1e-3, 1e30, math.Inf(1), math.NaN(), -0.5, -7.9, -1e30, 6e-6)
		}
		if from == ir.I64 || from == ir.I32 {
			v = append(v, -1, -70000, 16777217)
		}
		x := p.param(from, []int{len(v)}, v...)
		for _, to := range all {
			if to != from {
				p.try(from.String()+"_"+to.String(), p.Convert(x, to))
			}
		}
	}
	// Roundings that nothing may drop.
	x := p.normal(ir.F32, 16)
	for _, d := range []ir.DType{ir.BF16, ir.F16} {
		p.try("there_and_back", p.Scale(p.Convert(p.Convert(x, d), ir.F32), 1024))
	}
	p.try("down", p.Scale(p.Convert(p.Convert(p.Convert(x, ir.F64), ir.BF16), ir.F64), 1024))
	p.try("f64", p.Scale(p.Convert(p.Convert(p.normal(ir.F64, 8), ir.F32), ir.F64), 1<<30))
}

func (p *probe) words() {
	x, y := p.normal(ir.F32, 4, 6), p.normal(ir.F32, 4, 6)
	h := p.normal(ir.BF16, 2, 4, 3)
	p.try("pack", p.Pack(x, y))
	p.try("words", p.Words(h))
	p.try("halves", p.Halves(p.Words(h)))
	p.try("halves", p.Halves(p.Pack(x, y)))
	p.try("bitcast", p.Bitcast(x, ir.U32))
	p.try("bitcast", p.Bitcast(p.Bitcast(x, ir.I32), ir.F32))
	p.try("bitcast", p.Bitcast(h, ir.U16))
	p.try("bitcast", p.Bitcast(p.param(ir.U16, []int{3}, 0x3f80, 0xc000, 0x4049), ir.BF16))
	p.try("bitcast", p.Bitcast(h, ir.F16))
	p.try("bitcast", p.Bitcast(h, ir.BF16))
}

func (p *probe) dots() {
	floats := []ir.DType{ir.F32, ir.BF16, ir.F16, ir.F64}
	for _, dx := range floats {
		for _, dy := range floats {
			x, y := p.normal(dx, 2, 5, 7), p.normal(dy, 7, 3, 2)
			d := ir.DotDims{LB: []int{0}, RB: []int{2}, LC: []int{2}, RC: []int{0}}
			for prec := ir.PrecF32; prec <= ir.PrecBF16x6; prec++ {
				for _, r := range floats {
					p.try(fmt.Sprintf("dot_%s_%s_%s", dx, dy, prec), p.Append(ir.OpDot, []*ir.Value{x, y}, ir.Attrs{Dot: &d, Prec: prec}, nil, ir.T(r, 2, 5, 3))[0])
					if r == ir.F64 && prec != ir.PrecF32 { // summed in float32, in the processor's order
						p.summed[p.names[len(p.names)-1]] = ir.F32
					}
				}
			}
		}
	}
	x := p.normal(ir.F32, 6)
	p.try("outer", p.Dot(x, x, ir.DotDims{}, ir.PrecF32))
	p.try("inner", p.Dot(x, x, ir.DotDims{LC: []int{0}, RC: []int{0}}, ir.PrecF32))
}

func (p *probe) loops() {
	x, h := p.normal(ir.F32, 2, 3), p.normal(ir.BF16, 2, 3)
	rs := p.Loop(3, []*ir.Value{x, h}, func(b *ir.Builder, i *ir.Value, c []*ir.Value) []*ir.Value {
		f := b.Broadcast(b.Convert(i, ir.F32), []int{2, 3})
		in := b.Loop(2, []*ir.Value{c[0]}, func(b *ir.Builder, _ *ir.Value, c []*ir.Value) []*ir.Value {
			return []*ir.Value{b.Add(b.Mul(c[0], x), f)}
		})
		return []*ir.Value{in[0], b.Add(c[1], h)}
	})
	p.try("loop", rs[0])
	p.try("loop", rs[1])
	p.try("never", p.Loop(0, []*ir.Value{x}, func(b *ir.Builder, _ *ir.Value, c []*ir.Value) []*ir.Value { return []*ir.Value{b.Neg(c[0])} })[0])
	p.Loop(2, nil, func(*ir.Builder, *ir.Value, []*ir.Value) []*ir.Value { return nil })
	g := &ir.Grid{Name: "g", Dims: []ir.GridDim{{Name: "i", Size: 2}, {Name: "c", Size: 3, Seq: true}},
		In:    []ir.Window{{Block: []int{1, 1}, Index: []ir.Index{ir.IndexAxis(0), ir.IndexAxis(1)}}},
		Out:   []ir.Window{{Block: []int{1, 1}, Index: []ir.Index{ir.IndexAxis(0), ir.IndexAxis(1)}}},
		Outs:  []ir.Type{x.Type},
		Carry: []ir.Window{{Block: []int{1, 1}, Index: []ir.Index{ir.IndexAxis(0), ir.IndexConst(0)}}}}
	gs := p.Grid(g, []*ir.Value{x, p.normal(ir.F32, 2, 1)}, func(b *ir.Builder, in, carried []*ir.Value) ([]*ir.Value, []*ir.Value) {
		n := b.Add(b.Mul(in[0], carried[0]), b.Broadcast(b.Convert(b.ProgramID(0), ir.F32), []int{1, 1}))
		return []*ir.Value{n}, []*ir.Value{n}
	})
	p.try("grid", gs[0])
	p.try("grid", gs[1])
}
