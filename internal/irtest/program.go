// Package irtest makes random programs, which tests run before and after a pass.
package irtest

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/array"
	"github.com/stretchr/testify/require"
)

// gen makes random tensor-level programs with every op of that level, small shapes, many constants and repeated instructions.
type gen struct {
	*ir.Builder
	r     *rand.Rand
	vals  []*ir.Value
	depth int
	grid  bool // inside a grid: program_id is allowed
}

// Program returns a module of about n instructions and arguments for it; the same seed gives the same module.
func Program(t testing.TB, seed uint64, n int) (*ir.Module, map[string]*array.Array) {
	m, b := ir.NewModule("random")
	g := &gen{Builder: b, r: rand.New(rand.NewPCG(seed, 77))}
	args := map[string]*array.Array{}
	for i, d := range []ir.DType{ir.F32, ir.F32, ir.BF16, ir.F16, ir.F64, ir.I32, ir.U32, ir.U16, ir.I64, ir.Bool} {
		shape := g.shape()
		p := b.Param(fmt.Sprintf("p%d", i), ir.T(d, shape...))
		g.vals = append(g.vals, p)
		v := make([]float64, p.Type.Size())
		for j := range v {
			v[j] = math.Round(g.r.NormFloat64()*64) / 16
			if g.r.IntN(2) == 0 {
				v[j] = specials[g.r.IntN(len(specials))]
			}
		}
		args[p.Name] = array.FromFloat64s(d, shape, v)
	}
	g.steps(n)
	var names []string
	var outs []*ir.Value
	for i, v := range g.vals {
		if g.r.IntN(3) > 0 { // the other results may be dead
			names, outs = append(names, fmt.Sprintf("o%d", i)), append(outs, v)
		}
	}
	require.NoError(t, b.Finish(m, names, outs), "seed %d", seed)
	return m, args
}

func (g *gen) shape() []int {
	s := make([]int, g.r.IntN(4))
	for i := range s {
		s[i] = 1 + g.r.IntN(4)
	}
	return s
}

// steps appends n instructions of random ops.
func (g *gen) steps(n int) {
	for range n {
		op := ir.Op(1 + g.r.IntN(int(ir.NumOps)-1))
		if f := makers[op]; f != nil {
			if v := g.try(f, op); v != nil {
				g.vals = append(g.vals, v...)
				if g.r.IntN(6) == 0 { // repeat it, for cse
					in := v[0].Def
					if in != nil && in.Body == nil {
						explicit := []ir.Type{}
						if ir.Ops[in.Op].Explicit {
							explicit = append(explicit, in.Result().Type)
						}
						g.vals = append(g.vals, g.Append(in.Op, in.Args, in.Attrs, nil, explicit...)...)
					}
				}
			}
		}
	}
}

// noneFits is the panic by which pick abandons an instruction.
type noneFits struct{}

// try makes an instruction, or none.
func (g *gen) try(f maker, op ir.Op) (v []*ir.Value) {
	defer func() {
		if r := recover(); r != nil {
			if _, ok := r.(noneFits); !ok {
				panic(r)
			}
		}
	}()
	return f(g, op)
}

// pick returns a value that ok accepts; if there is none it abandons the instruction.
func (g *gen) pick(ok func(ir.Type) bool) *ir.Value {
	for range 30 {
		if v := g.vals[g.r.IntN(len(g.vals))]; ok(v.Type) && v.Type.Size() <= 512 {
			return v
		}
	}
	panic(noneFits{})
}

func number(t ir.Type) bool { return t.DType.IsFloat() || t.DType.IsInt() }
func float(t ir.Type) bool  { return t.DType.IsFloat() }
func anything(ir.Type) bool { return true }
func ranked(n int) func(ir.Type) bool {
	return func(t ir.Type) bool { return t.Rank() >= n }
}

var specials = []float64{0, 0, math.Copysign(0, -1), math.Copysign(0, -1), 1, 1, -1, 2, .5, math.Inf(1), math.Inf(-1), 65535, 1.5}

// like returns a value of a type: an existing one, or a constant.
func (g *gen) like(t ir.Type) *ir.Value {
	if g.r.IntN(3) > 0 {
		if v := g.pick(t.Equal); v != nil {
			return v
		}
	}
	return g.splat(t)
}

func (g *gen) splat(t ir.Type) *ir.Value { return g.Const(t, specials[g.r.IntN(len(specials))]) }

func unary(ok func(ir.Type) bool) maker {
	return func(g *gen, op ir.Op) []*ir.Value { return one(g.Unary(op, g.pick(ok))) }
}

func binary(ok func(ir.Type) bool) maker {
	return func(g *gen, op ir.Op) []*ir.Value {
		x := g.pick(ok)
		y := g.like(x.Type)
		if g.r.IntN(2) == 0 {
			y = g.splat(x.Type)
		}
		if g.r.IntN(2) == 0 {
			x, y = y, x
		}
		return []*ir.Value{g.Binary(op, x, y)}
	}
}

// indices returns i32 values in 0 .. n-1, in a shape.
func (g *gen) indices(n int, shape ...int) *ir.Value {
	x := g.like(ir.T(ir.I32, shape...))
	return g.Min(g.Max(x, g.Like(x, 0)), g.Like(x, float64(n-1)))
}

func (g *gen) scalars(n int) []*ir.Value {
	out := make([]*ir.Value, n)
	for i := range out {
		out[i] = g.like(ir.T(ir.I32))
	}
	return out
}

func one(v *ir.Value) []*ir.Value { return []*ir.Value{v} }

// makers has an entry for every op of the tensor level.
var makers map[ir.Op]maker

// maker appends an instruction, and returns its results; nil if it can not make one.
type maker func(g *gen, op ir.Op) []*ir.Value

// some are the element types of constants, conversions and casts.
var some = []ir.DType{ir.F32, ir.BF16, ir.F16, ir.F64, ir.I32, ir.U32, ir.U16, ir.I64, ir.Bool}

func init() { // they use makers themselves
	makers = elementwise()
	for _, more := range []map[ir.Op]maker{moving(), picking(), computing(), bodies()} {
		maps.Copy(makers, more)
	}
}

// elementwise makes constants and functions of elements.
func elementwise() map[ir.Op]maker {
	integer := func(t ir.Type) bool { return t.DType.IsInt() }
	bits := func(t ir.Type) bool { return t.DType.IsInt() || t.DType == ir.Bool }
	f32 := func(t ir.Type) bool { return t.DType == ir.F32 }
	makers := map[ir.Op]maker{
		ir.OpConst: func(g *gen, _ ir.Op) []*ir.Value {
			return one(g.like(ir.T(some[g.r.IntN(len(some))], g.shape()...)))
		},
		ir.OpIota: func(g *gen, _ ir.Op) []*ir.Value {
			s := append(g.shape(), 1+g.r.IntN(4))
			return one(g.Iota(ir.T(some[g.r.IntN(len(some)-1)], s...), g.r.IntN(len(s))))
		},
		ir.OpCompare: func(g *gen, _ ir.Op) []*ir.Value {
			x := g.pick(anything)
			return one(g.Compare(ir.Cmp(g.r.IntN(6)), x, g.like(x.Type)))
		},
		ir.OpSelect: func(g *gen, _ ir.Op) []*ir.Value {
			x := g.pick(anything)
			c := ir.T(ir.Bool, x.Type.Shape...)
			if g.r.IntN(3) == 0 {
				c = ir.T(ir.Bool)
			}
			return one(g.Select(g.like(c), x, g.like(x.Type)))
		},
		ir.OpConvert: func(g *gen, _ ir.Op) []*ir.Value {
			x := g.pick(anything)
			t := ir.T(some[g.r.IntN(len(some))], x.Type.Shape...)
			return g.Append(ir.OpConvert, one(x), ir.Attrs{}, nil, t)
		},
		ir.OpBitcast: func(g *gen, _ ir.Op) []*ir.Value {
			x := g.pick(number)
			d := some[g.r.IntN(len(some)-1)]
			if d.Bytes() != x.Type.DType.Bytes() {
				return nil
			}
			return one(g.Bitcast(x, d))
		},
		ir.OpPack: binary(f32),
		ir.OpWords: unary(func(t ir.Type) bool {
			return t.DType == ir.BF16 && t.Rank() >= 2 && t.Shape[t.Rank()-2]%2 == 0
		}),
		ir.OpHalves: unary(func(t ir.Type) bool { return t.DType == ir.U32 && t.Rank() >= 2 }),
	}
	for op := ir.OpNeg; op <= ir.OpAbs; op++ {
		makers[op] = unary(number)
	}
	for op := ir.OpExp; op <= ir.OpLogistic; op++ {
		makers[op] = unary(float)
	}
	makers[ir.OpNot] = unary(bits)
	for op := ir.OpAdd; op <= ir.OpMin; op++ {
		makers[op] = binary(number)
	}
	for op := ir.OpAnd; op <= ir.OpXor; op++ {
		makers[op] = binary(bits)
	}
	makers[ir.OpShl], makers[ir.OpShr] = binary(integer), binary(integer)
	return makers
}

// moving makes what moves elements.
func moving() map[ir.Op]maker {
	return map[ir.Op]maker{
		ir.OpBroadcast: func(g *gen, _ ir.Op) []*ir.Value {
			x := g.pick(anything)
			var s, dims []int
			for _, n := range x.Type.Shape {
				if g.r.IntN(3) == 0 {
					s = append(s, 1+g.r.IntN(3))
				}
				if n == 1 && g.r.IntN(2) == 0 {
					n = 2
				}
				dims, s = append(dims, len(s)), append(s, n)
			}
			return one(g.Broadcast(x, s, dims...))
		},
		ir.OpReshape: func(g *gen, _ ir.Op) []*ir.Value {
			x := g.pick(anything)
			n := x.Type.Size()
			shapes := [][]int{{n}, {1, n}, {n, 1}, x.Type.Shape}
			if n%2 == 0 {
				shapes = append(shapes, []int{2, n / 2}, []int{n / 2, 2})
			}
			return g.Append(ir.OpReshape, one(x), ir.Attrs{}, nil, ir.T(x.Type.DType, shapes[g.r.IntN(len(shapes))]...))
		},
		ir.OpTranspose: func(g *gen, _ ir.Op) []*ir.Value {
			x := g.pick(anything)
			return one(g.Transpose(x, g.r.Perm(x.Type.Rank())...))
		},
		ir.OpSlice: func(g *gen, _ ir.Op) []*ir.Value {
			x := g.pick(anything)
			a := ir.Attrs{Starts: []int{}, Limits: []int{}, Strides: []int{}}
			for _, n := range x.Type.Shape {
				lo := g.r.IntN(n)
				if g.r.IntN(2) == 0 {
					lo = 0
				}
				a.Starts, a.Limits = append(a.Starts, lo), append(a.Limits, lo+1+g.r.IntN(n-lo))
				a.Strides = append(a.Strides, 1+g.r.IntN(2))
			}
			if g.r.IntN(2) == 0 {
				a.Strides = nil
			}
			return g.Append(ir.OpSlice, one(x), a, nil)
		},
		ir.OpConcat: func(g *gen, op ir.Op) []*ir.Value {
			x := g.pick(ranked(1))
			args := []*ir.Value{x}
			for range g.r.IntN(3) {
				args = append(args, g.like(x.Type))
			}
			return g.Append(op, args, ir.Attrs{Axis: g.r.IntN(x.Type.Rank())}, nil)
		},
		ir.OpKeep: unary(anything),
		ir.OpPad: func(g *gen, _ ir.Op) []*ir.Value {
			x := g.pick(anything)
			lo, hi := []int{}, []int{}
			for range x.Type.Shape {
				lo, hi = append(lo, g.r.IntN(2)), append(hi, g.r.IntN(2))
			}
			return one(g.Pad(x, float64(g.r.IntN(2)), lo, hi))
		},
	}
}

// picking makes what picks elements by indices.
func picking() map[ir.Op]maker {
	return map[ir.Op]maker{
		ir.OpTake: func(g *gen, _ ir.Op) []*ir.Value {
			x := g.pick(ranked(1))
			ax := g.r.IntN(x.Type.Rank())
			s := slices.Clone(x.Type.Shape)
			s[ax] = 1 + g.r.IntN(4)
			return one(g.Take(x, g.indices(x.Type.Shape[ax], s...), ax))
		},
		ir.OpGatherRows: func(g *gen, _ ir.Op) []*ir.Value {
			x := g.pick(ranked(1))
			return one(g.GatherRows(x, g.like(ir.T(ir.I32, 3)), g.r.IntN(x.Type.Rank())))
		},
		ir.OpDynSlice: func(g *gen, op ir.Op) []*ir.Value {
			x := g.pick(anything)
			s := slices.Clone(x.Type.Shape)
			for i := range s {
				s[i] = 1 + g.r.IntN(s[i])
			}
			return g.Append(op, append(one(x), g.scalars(len(s))...), ir.Attrs{}, nil, ir.T(x.Type.DType, s...))
		},
		ir.OpDynUpdate: func(g *gen, op ir.Op) []*ir.Value {
			x := g.pick(anything)
			s := slices.Clone(x.Type.Shape)
			for i := range s {
				s[i] = 1 + g.r.IntN(s[i])
			}
			return g.Append(op, append([]*ir.Value{x, g.like(ir.T(x.Type.DType, s...))}, g.scalars(len(s))...), ir.Attrs{}, nil)
		},
	}
}

// computing makes sums and products.
func computing() map[ir.Op]maker {
	makers := map[ir.Op]maker{
		ir.OpCumsum: func(g *gen, _ ir.Op) []*ir.Value {
			x := g.pick(func(t ir.Type) bool { return number(t) && t.Rank() > 0 })
			return one(g.Cumsum(x, g.r.IntN(x.Type.Rank())))
		},
		ir.OpDot: func(g *gen, op ir.Op) []*ir.Value {
			x := g.pick(func(t ir.Type) bool { return float(t) && t.Rank() >= 2 })
			floats := []ir.DType{ir.F32, ir.F32, ir.BF16, ir.F64, ir.F16}
			s := slices.Clone(x.Type.Shape)
			n := len(s)
			s[n-1], s[n-2] = s[n-2], 1+g.r.IntN(3) // batch dims, columns, contracted
			y := g.like(ir.T(floats[g.r.IntN(len(floats))], append(s[:n-2:n-2], s[n-2], x.Type.Shape[n-1])...))
			v := g.MatMul(x, y, false, true, ir.Precision(g.r.IntN(4)))
			if g.r.IntN(3) > 0 {
				return one(v)
			}
			a, dims := v.Def.Attrs, *v.Def.Attrs.Dot
			a.Dot = &dims
			return g.Append(op, []*ir.Value{x, y}, a, nil, ir.T(floats[g.r.IntN(len(floats))], v.Type.Shape...))
		},
	}
	for op := ir.OpReduceSum; op <= ir.OpReduceMax; op++ {
		makers[op] = func(g *gen, op ir.Op) []*ir.Value {
			x := g.pick(number)
			var dims []int
			for d := range x.Type.Shape {
				if g.r.IntN(2) == 0 {
					dims = append(dims, d)
				}
			}
			return g.Append(op, one(x), ir.Attrs{Dims: dims}, nil)
		}
	}
	return makers
}

// bodies makes ops with a body, and ops that occur only in one.
func bodies() map[ir.Op]maker {
	return map[ir.Op]maker{
		ir.OpLoop: func(g *gen, _ ir.Op) []*ir.Value {
			if g.depth > 1 {
				return nil
			}
			init := []*ir.Value{g.pick(anything), g.pick(anything)}
			return g.Loop(g.r.IntN(4), init, func(b *ir.Builder, i *ir.Value, carried []*ir.Value) []*ir.Value {
				in := &gen{Builder: b, r: g.r, depth: g.depth + 1, grid: g.grid, vals: append(append(slices.Clone(g.vals), i), carried...)}
				in.steps(8)
				return []*ir.Value{in.like(carried[0].Type), in.like(carried[1].Type)}
			})
		},
		ir.OpGrid: func(g *gen, _ ir.Op) []*ir.Value {
			x := g.pick(ranked(2))
			if g.depth > 1 {
				return nil
			}
			s := x.Type.Shape
			blk := slices.Clone(s)
			blk[0], blk[1] = 1, 1
			window := func() ir.Window {
				w := ir.Window{Block: blk}
				for d := range s {
					w.Index = append(w.Index, ir.IndexConst(0))
					if d < 2 {
						w.Index[d] = ir.IndexAxis(d)
						if g.r.IntN(3) == 0 {
							w.Index[d] = w.Index[d].Reversed(s[d])
						}
					}
				}
				return w
			}
			carry := window()
			carry.Block = slices.Clone(blk)
			carry.Block[1], carry.Index[1] = s[1], ir.IndexConst(0)
			gr := &ir.Grid{Name: "g", Dims: []ir.GridDim{{Name: "i", Size: s[0]}, {Name: "j", Size: s[1], Seq: true}},
				In: []ir.Window{window()}, Out: []ir.Window{window()}, Carry: []ir.Window{carry}, Outs: []ir.Type{x.Type}}
			state := g.like(x.Type)
			return g.Grid(gr, []*ir.Value{x, state}, func(b *ir.Builder, ins, carried []*ir.Value) (outs, next []*ir.Value) {
				in := &gen{Builder: b, r: g.r, depth: g.depth + 1, grid: true, vals: append(slices.Clone(ins), carried...)}
				in.steps(10)
				return one(in.like(ins[0].Type)), one(in.like(carried[0].Type))
			})
		},
		ir.OpProgramID: func(g *gen, _ ir.Op) []*ir.Value {
			if !g.grid {
				return nil
			}
			return one(g.ProgramID(g.r.IntN(2)))
		},
	}
}
