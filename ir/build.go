package ir

import (
	"fmt"
	"slices"
)

// Builder appends instructions to a block. The first fault sticks: later calls return placeholder values and Err reports it.
type Builder struct {
	block *Block
	task  Task
	pos   Pos // of what is copied; not known: the caller's
	err   *error
}

// NewModule starts a module; add parameters with Param and finish with Finish.
func NewModule(name string) (*Module, *Builder) {
	m := &Module{Name: name, Body: &Block{}}
	return m, &Builder{block: m.Body, task: Task{Chunk: -1, Head: -1}, err: new(error)}
}

// On makes a builder that appends to a block, sharing b's fault.
func (b *Builder) On(block *Block) *Builder {
	return &Builder{block: block, task: b.task, pos: b.pos, err: b.err}
}

// NewBuilder makes a builder that appends to a block.
func NewBuilder(block *Block) *Builder {
	return &Builder{block: block, task: Task{Chunk: -1, Head: -1}, err: new(error)}
}

// Block is what the builder appends to.
func (b *Builder) Block() *Block { return b.block }

// At sets the task of the instructions that follow.
func (b *Builder) At(t Task) *Builder {
	b.task, b.pos = t, Pos{}
	return b
}

// Of gives the instructions that follow the task and the place of one that they stand for.
func (b *Builder) Of(in *Instr) *Builder {
	b.task, b.pos = in.Task, in.Pos
	return b
}

// Stage sets the task to a stage.
func (b *Builder) Stage(s string) *Builder { return b.At(At(s)) }

// Err is the first fault.
func (b *Builder) Err() error { return *b.err }

// Failf records a fault of the caller's own.
func (b *Builder) Failf(format string, args ...any) {
	if *b.err == nil {
		*b.err = fmt.Errorf(format, args...)
	}
}

// Param adds a parameter to the block.
func (b *Builder) Param(name string, t Type) *Value {
	v := &Value{Type: t, Name: name}
	b.block.Params = append(b.block.Params, v)
	return v
}

// Append adds an instruction whose results are inferred, except where the op takes explicit types.
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

// Keep is x, computed once for all that read it.
func (b *Builder) Keep(x *Value) *Value { return b.op(OpKeep, Attrs{}, x) }

// Const makes a splat.
func (b *Builder) Const(t Type, v float64) *Value { return b.opT(OpConst, t, Attrs{Value: v}) }

// Like makes a splat of x's type.
func (b *Builder) Like(x *Value, v float64) *Value { return b.Const(x.Type, v) }

// Scale multiplies by a constant.
func (b *Builder) Scale(x *Value, v float64) *Value { return b.Mul(x, b.Like(x, v)) }

// Iota makes indices along an axis.
func (b *Builder) Iota(t Type, axis int) *Value { return b.opT(OpIota, t, Attrs{Axis: axis}) }

// Compare makes x cmp y.
func (b *Builder) Compare(c Cmp, x, y *Value) *Value { return b.op(OpCompare, Attrs{Cmp: c}, x, y) }

// Select makes y where c, else z.
func (b *Builder) Select(c, y, z *Value) *Value { return b.op(OpSelect, Attrs{}, c, y, z) }

// Convert changes the element type; none is emitted where it is the same.
func (b *Builder) Convert(x *Value, d DType) *Value {
	if x.Type.DType == d {
		return x
	}
	return b.opT(OpConvert, T(d, x.Type.Shape...), Attrs{}, x)
}

// Bitcast reinterprets the bits.
func (b *Builder) Bitcast(x *Value, d DType) *Value {
	return b.opT(OpBitcast, T(d, x.Type.Shape...), Attrs{}, x)
}

// Broadcast repeats x into shape; operand dimension i becomes dimension dims[i].
func (b *Builder) Broadcast(x *Value, shape []int, dims ...int) *Value {
	return b.opT(OpBroadcast, T(x.Type.DType, shape...), Attrs{Dims: dims}, x)
}

// Reshape keeps the row-major order; none is emitted where the shape is the same.
func (b *Builder) Reshape(x *Value, shape ...int) *Value {
	if slices.Equal(x.Type.Shape, shape) {
		return x
	}
	return b.opT(OpReshape, T(x.Type.DType, shape...), Attrs{}, x)
}

// Transpose permutes: result dimension i is operand dimension perm[i].
func (b *Builder) Transpose(x *Value, perm ...int) *Value {
	return b.op(OpTranspose, Attrs{Dims: perm}, x)
}

// Slice takes elements starts to limits by 1.
func (b *Builder) Slice(x *Value, starts, limits []int) *Value {
	return b.op(OpSlice, Attrs{Starts: starts, Limits: limits}, x)
}

// SliceAxis takes lo to hi along one axis and everything along the others.
func (b *Builder) SliceAxis(x *Value, axis, lo, hi int) *Value {
	starts, limits := make([]int, x.Type.Rank()), slices.Clone(x.Type.Shape)
	if axis < len(limits) {
		starts[axis], limits[axis] = lo, hi
	}
	return b.Slice(x, starts, limits)
}

// Concat joins along an axis.
func (b *Builder) Concat(axis int, xs ...*Value) *Value {
	if len(xs) == 1 {
		return xs[0]
	}
	return b.op(OpConcat, Attrs{Axis: axis}, xs...)
}

// Pad adds lo elements of v before and hi after, per dimension.
func (b *Builder) Pad(x *Value, v float64, lo, hi []int) *Value {
	return b.op(OpPad, Attrs{Value: v, Starts: lo, Limits: hi}, x)
}

// RowsAt takes n rows of x, the i32 scalar at and those after it; as any slice, one that would end beyond x begins earlier.
func (b *Builder) RowsAt(x, at *Value, n int) *Value {
	shape := append([]int{n}, x.Type.Shape[1:]...)
	return b.Append(OpDynSlice, append([]*Value{x}, b.rowStarts(x, at)...), Attrs{}, nil, T(x.Type.DType, shape...))[0]
}

// PutRows puts y in the place of RowsAt.
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

// Sum reduces over dims.
func (b *Builder) Sum(x *Value, dims ...int) *Value {
	return b.op(OpReduceSum, Attrs{Dims: dims}, x)
}

// Cumsum makes inclusive prefix sums along an axis.
func (b *Builder) Cumsum(x *Value, axis int) *Value { return b.op(OpCumsum, Attrs{Axis: axis}, x) }

// Take picks along an axis by index.
func (b *Builder) Take(x, idx *Value, axis int) *Value {
	return b.op(OpTake, Attrs{Axis: axis}, x, idx)
}

// GatherRows picks rows along an axis by an index vector; an index out of range gives zeros.
func (b *Builder) GatherRows(x, idx *Value, axis int) *Value {
	return b.op(OpGatherRows, Attrs{Axis: axis}, x, idx)
}

// Dot is the general product with an f32 result.
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

// MatMul multiplies the last two dimensions, the leading ones being batch; tx and ty contract over rows of x and columns of y.
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

// Loop runs body count times. The body gets the index and the carried values and returns the new ones.
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

// LoopUntil is Loop where iterations from the i32 scalar end on change nothing and may be left out.
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

// Grid appends a grid. The body gets the input blocks and carried blocks and returns output blocks and new carried blocks. It may add
// carries: a window to g.Carry, indexed by axes, and a parameter to its block. These begin as zeros.
func (b *Builder) Grid(g *Grid, args []*Value, body func(b *Builder, in, carried []*Value) (outs, next []*Value)) []*Value {
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
	rs := b.Append(OpGrid, args, Attrs{Grid: g}, blk)
	for len(rs) < len(g.Out)+len(g.Carry) {
		rs = append(rs, rs[0])
	}
	return rs
}

// ProgramID is the grid point's id along an axis.
func (b *Builder) ProgramID(axis int) *Value { return b.op(OpProgramID, Attrs{Axis: axis}) }

// When runs body if c holds.
func (b *Builder) When(c *Value, body func(b *Builder)) {
	blk := &Block{}
	body(b.On(blk))
	b.Append(OpWhen, []*Value{c}, Attrs{}, blk)
}

// Load reads a block of shape from a reference.
func (b *Builder) Load(ref *Value, shape, starts, strides []int, idx ...*Value) *Value {
	return b.Append(OpLoad, append([]*Value{ref}, idx...), Attrs{Starts: starts, Strides: strides}, nil, T(ref.Type.DType, shape...))[0]
}

// Store writes a block to a reference.
func (b *Builder) Store(v, ref *Value, starts, strides []int, idx ...*Value) {
	b.Append(OpStore, append([]*Value{v, ref}, idx...), Attrs{Starts: starts, Strides: strides}, nil)
}

// RefCast views a reference as another element type or shape.
func (b *Builder) RefCast(ref *Value, d DType, shape ...int) *Value {
	return b.opT(OpRefCast, Ref(ref.Type.Space, d, shape...), Attrs{}, ref)
}

// Finish names the module's results and verifies the whole.
func (b *Builder) Finish(m *Module, names []string, results []*Value) error {
	if b.Err() != nil {
		return b.Err()
	}
	m.Results, m.Body.Yield = names, results
	return m.Verify()
}
