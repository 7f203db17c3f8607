package ir

import (
	"fmt"
	"slices"
)

// Builder appends instructions to a block. The first error sticks: later calls append nothing and return placeholder values, and Err returns it.
type Builder struct {
	block *Block
	task  Task
	pos   Pos // position for copied instructions; zero: the caller's
	err   *error
}

// NewModule returns an empty module and a builder for its body; add parameters with Param and end with Finish.
func NewModule(name string) (*Module, *Builder) {
	m := &Module{Name: name, Body: &Block{}}
	return m, &Builder{block: m.Body, task: Task{Chunk: -1, Head: -1}, err: new(error)}
}

// On returns a builder for another block that shares b's error.
func (b *Builder) On(block *Block) *Builder {
	return &Builder{block: block, task: b.task, pos: b.pos, err: b.err}
}

// NewBuilder returns a builder that appends to a block.
func NewBuilder(block *Block) *Builder {
	return &Builder{block: block, task: Task{Chunk: -1, Head: -1}, err: new(error)}
}

// Block returns the block that the builder appends to.
func (b *Builder) Block() *Block { return b.block }

// At sets the task of the following instructions and returns b.
func (b *Builder) At(t Task) *Builder {
	b.task, b.pos = t, Pos{}
	return b
}

// Of gives the following instructions the task and position of the instruction that they replace.
func (b *Builder) Of(in *Instr) *Builder {
	b.task, b.pos = in.Task, in.Pos
	return b
}

// Stage sets the task to a stage, without chunk and head.
func (b *Builder) Stage(s string) *Builder { return b.At(At(s)) }

// Err returns the first error, or nil.
func (b *Builder) Err() error { return *b.err }

// Failf records an error of the caller, unless there is one already.
func (b *Builder) Failf(format string, args ...any) {
	if *b.err == nil {
		*b.err = fmt.Errorf(format, args...)
	}
}

// Param adds a parameter to the block and returns it. Only a module's parameters need names.
func (b *Builder) Param(name string, t Type) *Value {
	v := &Value{Type: t, Name: name}
	b.block.Params = append(b.block.Params, v)
	return v
}

// Append adds an instruction and returns its results. Their types are inferred, except for ops with explicit types.
func (b *Builder) Append(op Op, args []*Value, a Attrs, body *Block, explicit ...Type) []*Value {
	in := &Instr{Op: op, Args: slices.Clone(args), Attrs: a, Body: body, Task: b.task, Pos: b.pos}
	if in.Pos == (Pos{}) {
		in.Pos = caller()
	}
	for _, t := range explicit {
		in.Results = append(in.Results, &Value{Type: t, Def: in})
	}
	var ts []Type
	err := *b.err
	if err == nil {
		for i, v := range args {
			if v == nil {
				err = fmt.Errorf("operand %d is nil", i)
			}
		}
		if err == nil {
			ts, err = in.types()
		}
		if err != nil {
			err = &Error{Instr: in.short(), What: fmt.Sprintf("%s at %q: %v", op, in.Where(), err)}
			*b.err = err
		}
	}
	if err != nil {
		if len(in.Results) == 0 {
			t := T(F32)
			if len(args) > 0 && args[0] != nil {
				t = args[0].Type
			}
			in.Results = []*Value{{Type: t, Def: in}}
		}
		return in.Results
	}
	if !Ops[op].Explicit {
		in.Results = in.Results[:0]
		for _, t := range ts {
			in.Results = append(in.Results, &Value{Type: t, Def: in})
		}
	}
	b.block.Instrs = append(b.block.Instrs, in)
	return in.Results
}

func (b *Builder) op(op Op, a Attrs, args ...*Value) *Value { return b.Append(op, args, a, nil)[0] }
func (b *Builder) opT(op Op, t Type, a Attrs, args ...*Value) *Value {
	return b.Append(op, args, a, nil, t)[0]
}

// Unary and Binary append elementwise ops; the methods below name the common ones.
func (b *Builder) Unary(op Op, x *Value) *Value     { return b.op(op, Attrs{}, x) }
func (b *Builder) Binary(op Op, x, y *Value) *Value { return b.op(op, Attrs{}, x, y) }

func (b *Builder) Add(x, y *Value) *Value    { return b.op(OpAdd, Attrs{}, x, y) }
func (b *Builder) Sub(x, y *Value) *Value    { return b.op(OpSub, Attrs{}, x, y) }
func (b *Builder) Mul(x, y *Value) *Value    { return b.op(OpMul, Attrs{}, x, y) }
func (b *Builder) Div(x, y *Value) *Value    { return b.op(OpDiv, Attrs{}, x, y) }
func (b *Builder) Max(x, y *Value) *Value    { return b.op(OpMax, Attrs{}, x, y) }
func (b *Builder) Min(x, y *Value) *Value    { return b.op(OpMin, Attrs{}, x, y) }
func (b *Builder) And(x, y *Value) *Value    { return b.op(OpAnd, Attrs{}, x, y) }
func (b *Builder) Or(x, y *Value) *Value     { return b.op(OpOr, Attrs{}, x, y) }
func (b *Builder) Neg(x *Value) *Value       { return b.op(OpNeg, Attrs{}, x) }
func (b *Builder) Exp(x *Value) *Value       { return b.op(OpExp, Attrs{}, x) }
func (b *Builder) Pack(lo, hi *Value) *Value { return b.op(OpPack, Attrs{}, lo, hi) }
func (b *Builder) Words(x *Value) *Value     { return b.op(OpWords, Attrs{}, x) }
func (b *Builder) Halves(x *Value) *Value    { return b.op(OpHalves, Attrs{}, x) }

// Keep returns x as an array of its own: fusing backends compute it once for all readers.
func (b *Builder) Keep(x *Value) *Value { return b.op(OpKeep, Attrs{}, x) }

// Const returns a value with v in every element.
func (b *Builder) Const(t Type, v float64) *Value { return b.opT(OpConst, t, Attrs{Value: v}) }

// Like returns a constant of x's type.
func (b *Builder) Like(x *Value, v float64) *Value { return b.Const(x.Type, v) }

// Scale multiplies by a constant.
func (b *Builder) Scale(x *Value, v float64) *Value { return b.Mul(x, b.Like(x, v)) }

// Iota returns a value whose elements are their index along an axis.
func (b *Builder) Iota(t Type, axis int) *Value { return b.opT(OpIota, t, Attrs{Axis: axis}) }

// Compare returns x cmp y as bool.
func (b *Builder) Compare(c Cmp, x, y *Value) *Value { return b.op(OpCompare, Attrs{Cmp: c}, x, y) }

// Select returns y where c holds, else z.
func (b *Builder) Select(c, y, z *Value) *Value { return b.op(OpSelect, Attrs{}, c, y, z) }

// Convert changes the element type; it returns x if the type is the same.
func (b *Builder) Convert(x *Value, d DType) *Value {
	if x.Type.DType == d {
		return x
	}
	return b.opT(OpConvert, T(d, x.Type.Shape...), Attrs{}, x)
}

// Bitcast reinterprets the bits as a type of the same width.
func (b *Builder) Bitcast(x *Value, d DType) *Value {
	return b.opT(OpBitcast, T(d, x.Type.Shape...), Attrs{}, x)
}

// Broadcast repeats x to shape; operand dimension i becomes dimension dims[i].
func (b *Builder) Broadcast(x *Value, shape []int, dims ...int) *Value {
	return b.opT(OpBroadcast, T(x.Type.DType, shape...), Attrs{Dims: dims}, x)
}

// Reshape keeps the row-major order; it returns x if the shape is the same.
func (b *Builder) Reshape(x *Value, shape ...int) *Value {
	if slices.Equal(x.Type.Shape, shape) {
		return x
	}
	return b.opT(OpReshape, T(x.Type.DType, shape...), Attrs{}, x)
}

// Transpose permutes dimensions: result dimension i is operand dimension perm[i].
func (b *Builder) Transpose(x *Value, perm ...int) *Value {
	return b.op(OpTranspose, Attrs{Dims: perm}, x)
}

// Slice returns elements starts[d] to limits[d]-1 of each dimension.
func (b *Builder) Slice(x *Value, starts, limits []int) *Value {
	return b.op(OpSlice, Attrs{Starts: starts, Limits: limits}, x)
}

// SliceAxis returns elements lo to hi-1 along one axis and all along the others.
func (b *Builder) SliceAxis(x *Value, axis, lo, hi int) *Value {
	starts, limits := make([]int, x.Type.Rank()), slices.Clone(x.Type.Shape)
	if axis < len(limits) {
		starts[axis], limits[axis] = lo, hi
	}
	return b.Slice(x, starts, limits)
}

// Concat joins values along an axis.
func (b *Builder) Concat(axis int, xs ...*Value) *Value {
	if len(xs) == 1 {
		return xs[0]
	}
	return b.op(OpConcat, Attrs{Axis: axis}, xs...)
}

// Pad adds lo[d] elements of value v before and hi[d] after each dimension.
func (b *Builder) Pad(x *Value, v float64, lo, hi []int) *Value {
	return b.op(OpPad, Attrs{Value: v, Starts: lo, Limits: hi}, x)
}

// RowsAt returns n rows of x from the i32 scalar at on. Like dyn_slice, it moves a start back if the block would end beyond x.
func (b *Builder) RowsAt(x, at *Value, n int) *Value {
	shape := append([]int{n}, x.Type.Shape[1:]...)
	return b.Append(OpDynSlice, append([]*Value{x}, b.rowStarts(x, at)...), Attrs{}, nil, T(x.Type.DType, shape...))[0]
}

// PutRows returns x with y written to the rows that RowsAt reads.
func (b *Builder) PutRows(x, y, at *Value) *Value {
	return b.Append(OpDynUpdate, append([]*Value{x, y}, b.rowStarts(x, at)...), Attrs{}, nil)[0]
}

func (b *Builder) rowStarts(x, at *Value) []*Value {
	starts := []*Value{at}
	for range x.Type.Rank() - 1 {
		starts = append(starts, b.Const(T(I32), 0))
	}
	return starts
}

// Sum adds over dims, which are dropped.
func (b *Builder) Sum(x *Value, dims ...int) *Value {
	return b.op(OpReduceSum, Attrs{Dims: dims}, x)
}

// Cumsum returns inclusive prefix sums along an axis.
func (b *Builder) Cumsum(x *Value, axis int) *Value { return b.op(OpCumsum, Attrs{Axis: axis}, x) }

// Take picks elements along an axis, with one index per element of the result.
func (b *Builder) Take(x, idx *Value, axis int) *Value {
	return b.op(OpTake, Attrs{Axis: axis}, x, idx)
}

// GatherRows picks rows along an axis by an i32 vector; an index out of range gives zeros.
func (b *Builder) GatherRows(x, idx *Value, axis int) *Value {
	return b.op(OpGatherRows, Attrs{Axis: axis}, x, idx)
}

// Dot returns the general product in f32.
func (b *Builder) Dot(x, y *Value, d DotDims, p Precision) *Value {
	var s []int
	skip := func(i int, l ...[]int) bool {
		for _, q := range l {
			if slices.Contains(q, i) {
				return true
			}
		}
		return false
	}
	for _, i := range d.LB {
		if i >= 0 && i < x.Type.Rank() {
			s = append(s, x.Type.Shape[i])
		}
	}
	for i, n := range x.Type.Shape {
		if !skip(i, d.LB, d.LC) {
			s = append(s, n)
		}
	}
	for i, n := range y.Type.Shape {
		if !skip(i, d.RB, d.RC) {
			s = append(s, n)
		}
	}
	return b.opT(OpDot, T(F32, s...), Attrs{Dot: &d, Prec: p}, x, y)
}

// MatMul multiplies the last two dimensions; leading ones are batch. tx transposes x, ty transposes y. The result is f32.
func (b *Builder) MatMul(x, y *Value, tx, ty bool, p Precision) *Value {
	n := x.Type.Rank() - 2
	if n < 0 || y.Type.Rank() != n+2 {
		b.Failf("matmul of %s by %s: ranks differ or are below 2", x.Type, y.Type)
		return x
	}
	d := DotDims{LC: []int{n + 1}, RC: []int{n}}
	for i := range n {
		d.LB, d.RB = append(d.LB, i), append(d.RB, i)
	}
	if tx {
		d.LC[0] = n
	}
	if ty {
		d.RC[0] = n + 1
	}
	return b.Dot(x, y, d, p)
}

// Loop runs body count times. The body gets the i32 index and the carried values and returns new ones; Loop returns the last.
func (b *Builder) Loop(count int, init []*Value, body func(b *Builder, i *Value, carried []*Value) []*Value) []*Value {
	blk := &Block{}
	in := b.On(blk)
	i := in.Param("", T(I32))
	carried := make([]*Value, len(init))
	for j, v := range init {
		carried[j] = in.Param("", v.Type)
	}
	blk.Yield = body(in, i, carried)
	return b.Append(OpLoop, slices.Clone(init), Attrs{Count: count}, blk)
}

// LoopUntil is Loop whose iterations from the i32 scalar end on change nothing, so that a backend may skip them.
func (b *Builder) LoopUntil(count int, end *Value, init []*Value, body func(b *Builder, i *Value, carried []*Value) []*Value) []*Value {
	rs := b.Loop(count, append(slices.Clone(init), end), func(b *Builder, i *Value, carried []*Value) []*Value {
		last := len(init)
		return append(body(b, i, carried[:last:last]), carried[last])
	})
	if b.Err() != nil {
		return make([]*Value, len(init))
	}
	rs[0].Def.Attrs.Until = 1 + len(init)
	return rs[:len(init)]
}

// Grid appends a grid. The body gets the input blocks and carried blocks and returns output blocks and new carried blocks. The body may
// add carries that start at zero: a window in g.Carry, indexed by axes, and a parameter of its block. Of a bounded grid the last argument is the number of
// points to run.
func (b *Builder) Grid(g *Grid, args []*Value, body func(b *Builder, in, carried []*Value) (outs, next []*Value)) []*Value {
	var live []*Value // the number of points of a bounded grid
	if g.Bounded() && len(args) > 0 {
		args, live = args[:len(args)-1:len(args)-1], args[len(args)-1:]
	}
	if len(args) != g.Tables+len(g.In)+len(g.Carry) {
		b.Failf("grid %s: %d operands for %d tables, %d inputs, %d carries", g.Name, len(args), g.Tables, len(g.In), len(g.Carry))
		return make([]*Value, len(g.Out)+len(g.Carry))
	}
	blk := &Block{}
	in := b.On(blk)
	var tiles, carried []*Value
	for i, w := range g.In {
		tiles = append(tiles, in.Param("", T(args[g.Tables+i].Type.DType, w.Block...)))
	}
	for i, w := range g.Carry {
		carried = append(carried, in.Param("", T(args[g.Tables+len(g.In)+i].Type.DType, w.Block...)))
	}
	outs, next := body(in, tiles, carried)
	blk.Yield = append(slices.Clone(outs), next...)
	for i := len(carried); i < len(g.Carry); i++ {
		t := T(blk.Params[len(g.In)+i].Type.DType, slices.Clone(g.Carry[i].Block)...)
		for d, x := range g.Carry[i].Index {
			if x.Axis >= 0 {
				t.Shape[d] *= g.Dims[x.Axis].Size
			}
		}
		args = append(args, b.Const(t, 0))
	}
	rs := b.Append(OpGrid, append(args, live...), Attrs{Grid: g}, blk)
	for len(rs) < len(g.Out)+len(g.Carry) {
		rs = append(rs, rs[0])
	}
	return rs
}

// ProgramID returns the grid point's id along an axis, an i32 scalar.
func (b *Builder) ProgramID(axis int) *Value { return b.op(OpProgramID, Attrs{Axis: axis}) }

// When runs body if the bool scalar c holds.
func (b *Builder) When(c *Value, body func(b *Builder)) {
	blk := &Block{}
	body(b.On(blk))
	b.Append(OpWhen, []*Value{c}, Attrs{}, blk)
}

// Load reads a block of the given shape from a reference, at starts plus the i32 scalars idx, with strides (nil: 1).
func (b *Builder) Load(ref *Value, shape, starts, strides []int, idx ...*Value) *Value {
	return b.Append(OpLoad, append([]*Value{ref}, idx...), Attrs{Starts: starts, Strides: strides}, nil, T(ref.Type.DType, shape...))[0]
}

// Store writes v to a block of a reference; the place is given as for Load.
func (b *Builder) Store(v, ref *Value, starts, strides []int, idx ...*Value) {
	b.Append(OpStore, append([]*Value{v, ref}, idx...), Attrs{Starts: starts, Strides: strides}, nil)
}

// RefCast returns the same memory as a reference of another element type or shape.
func (b *Builder) RefCast(ref *Value, d DType, shape ...int) *Value {
	return b.opT(OpRefCast, Ref(ref.Type.Space, d, shape...), Attrs{}, ref)
}

// Finish sets the module's results with their names, and verifies the module. It returns the first error.
func (b *Builder) Finish(m *Module, names []string, results []*Value) error {
	if b.Err() != nil {
		return b.Err()
	}
	m.Results, m.Body.Yield = names, results
	return m.Verify()
}
