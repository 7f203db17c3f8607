package tpu

import (
	"errors"
	"fmt"
	"slices"

	"github.com/gdngen/gdngen/codegen/tpu/internal/tiles"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/passes"
)

// emit appends a pure op on tiles, once per operands and attributes. Heads share many tiles: a mask, an iota, the tile of a key head
// that four value heads multiply by.
func (t *tiler) emit(op ir.Op, a ir.Attrs, args ...*ir.Value) *ir.Value {
	return t.once(passes.Identity(op, a, args), func() *ir.Value { return t.b().Append(op, args, a, nil)[0] })
}

// emitT is emit for ops whose result type is not implied by the operands.
func (t *tiler) emitT(op ir.Op, ty ir.Type, a ir.Attrs, args ...*ir.Value) *ir.Value {
	return t.once(passes.Identity(op, a, args, ty), func() *ir.Value { return t.b().Append(op, args, a, nil, ty)[0] })
}

// splat returns a constant of type ty whose elements all are v.
func (t *tiler) splat(ty ir.Type, v float64) *ir.Value {
	return t.emitT(ir.OpConst, ty, ir.Attrs{Value: v})
}

// convert changes the element type of a tile. An f32 value that was narrowed to bf16 and is widened again is replaced by the f32 value.
// Example: halves of words are f32 when loaded and bf16 by the type of their window; an MXU takes them as bf16, vector ops as f32. The
// replacement is exact only if the f32 value had no more bits than bf16, which t.exact records.
//
//	h = half(w, 0)    f32, of a bf16 row
//	f32(bf16(h))      h
func (t *tiler) convert(x *ir.Value, d ir.DType) *ir.Value {
	if x.Type.DType == d {
		return x
	}
	if x.Def != nil && x.Def.Op == ir.OpConvert && x.Def.Args[0].Type.DType == d && t.exact[x.Def.Args[0]] {
		return x.Def.Args[0]
	}
	return t.emitT(ir.OpConvert, ir.T(d, x.Type.Shape...), ir.Attrs{}, x)
}

// tileShape returns the shape of one tile of a value; nil for scalars.
func tileShape(shape []int) []int {
	if len(shape) == 0 {
		return nil
	}
	_, r, l := tiles.RowsLanes(shape)
	return []int{r, l}
}

// tileRules lowers one instruction of an op: each op has a row here, or a reason in noTiles. Elementwise ops share one rule.
var tileRules = map[ir.Op]func(*tiler, *ir.Instr) error{}

func init() { // loop's rule refers back to the table
	for op := range ir.NumOps {
		if op.IsElementwise() {
			tileRules[op] = (*tiler).elementwise
		}
	}
	for op, rule := range map[ir.Op]func(*tiler, *ir.Instr) error{
		ir.OpConst:     (*tiler).constant,
		ir.OpIota:      (*tiler).iota,
		ir.OpWords:     (*tiler).perTile,
		ir.OpHalves:    (*tiler).perTile,
		ir.OpTake:      (*tiler).take,
		ir.OpBroadcast: (*tiler).broadcast,
		ir.OpKeep:      (*tiler).keep,
		ir.OpReshape:   (*tiler).reshape,
		ir.OpTranspose: (*tiler).transpose,
		ir.OpSlice:     (*tiler).slice,
		ir.OpConcat:    (*tiler).concat,
		ir.OpReduceSum: (*tiler).reduce,
		ir.OpReduceMax: (*tiler).reduce,
		ir.OpDynSlice:  (*tiler).dynSlice,
		ir.OpDot:       (*tiler).dot,
		ir.OpLoop:      (*tiler).loop,
		ir.OpProgramID: (*tiler).programID,
	} {
		tileRules[op] = rule
	}
}

const (
	outsideGrid  = "has no form in tiles; do it outside the grid"
	ofReferences = "acts on references, which are what this pass makes"
)

// noTiles says why an op can not be in a grid that becomes a kernel.
var noTiles = map[ir.Op]string{
	ir.BadOp:        "is no op",
	ir.OpPad:        outsideGrid,
	ir.OpCumsum:     outsideGrid,
	ir.OpGatherRows: outsideGrid,
	ir.OpDynUpdate:  outsideGrid,
	ir.OpGrid:       "is a grid within a grid: a kernel has one",
	ir.OpKernel:     "is a kernel within a grid: lower the outer grid instead",
	ir.OpWhen:       ofReferences,
	ir.OpLoad:       ofReferences,
	ir.OpStore:      ofReferences,
	ir.OpRefCast:    ofReferences,
	ir.OpDMAStart:   ofReferences,
	ir.OpDMAWait:    ofReferences,
}

// instr lowers one instruction by its rule. Operands from outside the grid are refused: a kernel sees HBM only through its windows.
func (t *tiler) instr(in *ir.Instr) error {
	for i, a := range in.Args {
		if t.sc.find(a) == nil {
			return fmt.Errorf("operand %d comes from outside the grid; pass it in through a window", i)
		}
	}
	rule := tileRules[in.Op]
	if rule == nil {
		return errors.New(noTiles[in.Op])
	}
	return rule(t, in)
}

// bind records tiles as the result of the instruction, in plain form.
func (t *tiler) bind(in *ir.Instr, elems []*ir.Value) error {
	r := in.Result()
	t.sc.env[r] = normal(r.Type.DType, r.Type.Shape, elems)
	return nil
}

// arg returns the view of operand i.
func (t *tiler) arg(in *ir.Instr, i int) *tiled { return t.sc.find(in.Args[i]) }

// ofHead sets the task of the instructions emitted next, for the i-th of n tiles. A tile that several heads share gets the first of
// them. The schedule orders groups of heads by it (ir.Sched.Lock).
//
//	8 heads, 4 tiles (each of a key head that two value heads share):   tiles are of heads 0, 2, 4, 6
func (t *tiler) ofHead(in *ir.Instr, i, n int) {
	of := ir.Instr{Task: in.Task, Pos: in.Pos}
	if n > 1 && of.Task.Head < 0 {
		of.Task.Head = i * max(t.heads/n, 1)
	}
	t.b().Of(&of)
}

// elementwise applies an op to each tile. An operand with one tile is shared by all heads.
func (t *tiler) elementwise(in *ir.Instr) error {
	r := in.Result().Type
	if t.aligned(in) {
		return nil
	}
	args := make([][]*ir.Value, len(in.Args))
	n := 1
	for i := range in.Args {
		var err error
		if args[i], err = t.tiles(t.arg(in, i)); err != nil {
			return err
		}
		n = max(n, len(args[i]))
	}
	out := make([]*ir.Value, n)
	for j := range n {
		t.ofHead(in, j, n)
		xs := make([]*ir.Value, len(args))
		for i, a := range args {
			xs[i] = a[min(j, len(a)-1)]
		}
		out[j] = t.elementOp(in, ir.T(r.DType, tileShape(r.Shape)...), xs)
	}
	return t.bind(in, out)
}

// elementOp emits an elementwise op on one tile.
func (t *tiler) elementOp(in *ir.Instr, ty ir.Type, xs []*ir.Value) *ir.Value {
	if in.Op == ir.OpConvert {
		return t.convert(xs[0], ty.DType)
	}
	if ir.Ops[in.Op].Explicit {
		return t.emitT(in.Op, ty, in.Attrs, xs...)
	}
	return t.emit(in.Op, in.Attrs, xs...)
}

// aligned computes an elementwise op on the tiles of the source, so that a pending transpose or reshape stays pending. It needs operands
// with equal views, or constants, and reports whether it applied.
//
// Example: the mask and scale of a transposed product are applied to the untransposed product. If the consumer is a dot, which takes
// either operand transposed, no tile is ever transposed. A value in plain form gains nothing, and a constant has no view.
func (t *tiler) aligned(in *ir.Instr) bool {
	var like *tiled
	for i := range in.Args {
		v := t.arg(in, i)
		if _, ok := constTile(v); ok {
			continue
		}
		switch {
		// In memory, or already plain: gathering tiles costs no more than the op on the source.
		case v.src.elems == nil || v.mat != nil || len(v.dims) < 2:
			return false
		case like == nil:
			like = v
		// Views are equal if every element is at the same position of sources of equal shape.
		case v.tile != like.tile || v.row != like.row || len(v.src.elems) != len(like.src.elems) ||
			v.src.rows != like.src.rows || v.src.lanes != like.src.lanes || !slices.EqualFunc(v.dims, like.dims, slices.Equal):
			return false
		}
	}
	if like == nil {
		return false
	}
	n := len(like.src.elems)
	out := &source{rows: like.src.rows, lanes: like.src.lanes, elems: make([]*ir.Value, n)}
	r := in.Result().Type
	for j := range n {
		t.ofHead(in, j, n)
		xs := make([]*ir.Value, len(in.Args))
		for i := range in.Args {
			v := t.arg(in, i)
			if c, ok := constTile(v); ok {
				xs[i] = t.splat(ir.T(v.dtype, out.rows, out.lanes), c)
			} else {
				xs[i] = v.src.elems[j]
			}
		}
		out.elems[j] = t.elementOp(in, ir.T(r.DType, out.rows, out.lanes), xs)
	}
	// The result has the operands' view, with a new source.
	u := *like
	u.dtype, u.src, u.mat = r.DType, out, nil
	t.sc.env[in.Result()] = &u
	return true
}

// constTile returns the constant that all elements of a value equal, whatever its view, and whether there is one. A constant fits any
// order of rows and lanes, so it does not keep other operands from being aligned.
func constTile(v *tiled) (float64, bool) {
	if len(v.src.elems) == 0 {
		return 0, false
	}
	x := v.src.elems[0]
	for _, y := range v.src.elems {
		if x != y {
			return 0, false
		}
	}
	if x.Def != nil && x.Def.Op == ir.OpConst {
		return x.Def.Attrs.Value, true
	}
	return 0, false
}

// repeat returns one tile n times: n points share it.
func repeat(x *ir.Value, n int) []*ir.Value {
	out := make([]*ir.Value, n)
	for i := range out {
		out[i] = x
	}
	return out
}

// constant is one tile that all points share.
func (t *tiler) constant(in *ir.Instr) error {
	r := in.Result().Type
	lead, _, _ := tiles.RowsLanes(r.Shape)
	return t.bind(in, repeat(t.splat(ir.T(r.DType, tileShape(r.Shape)...), in.Attrs.Value), product(lead)))
}

// iota along rows or lanes is one tile; along a leading dimension it is a constant in each tile.
//
//	[2, 8, 128] along 0:   a tile of zeros, a tile of ones
func (t *tiler) iota(in *ir.Instr) error {
	r := in.Result().Type
	lead, rows, lanes := tiles.RowsLanes(r.Shape)
	ty := ir.T(r.DType, rows, lanes)
	n := product(lead)
	if ax := in.Attrs.Axis - (r.Rank() - 2); ax >= 0 {
		return t.bind(in, repeat(t.emitT(ir.OpIota, ty, ir.Attrs{Axis: ax}), n))
	}
	inner := product(lead[in.Attrs.Axis+1:])
	out := make([]*ir.Value, n)
	for i := range out {
		out[i] = t.splat(ty, float64(i/inner%lead[in.Attrs.Axis]))
	}
	return t.bind(in, out)
}

// perTile lowers ops that change the rows of a tile but not the number of tiles: words of two bf16 rows have half the rows, halves of
// words twice as many.
//
//	words of a bf16 tile [64, 128]    u32 [32, 128]
func (t *tiler) perTile(in *ir.Instr) error {
	xs, err := t.tiles(t.arg(in, 0))
	if err != nil {
		return err
	}
	out := make([]*ir.Value, len(xs))
	for i, x := range xs {
		t.ofHead(in, i, len(xs))
		out[i] = t.emit(in.Op, in.Attrs, x)
	}
	return t.bind(in, out)
}

// reduce takes sums or maxima, in three ways, from cheap to expensive: leading dimensions combine whole tiles element by element; rows
// rotate the sublanes of a register; lanes go through the XLU. A reduced dimension keeps length 1 in the tiles, [1, lanes] or [rows, 1],
// so that nothing moves before a consumer asks for the sums in some form.
//
// Sums of [2, 8, 128], two tiles:
//
//	over 0   one addition of tiles          [8, 128]   row 8x1 | lane 128x1
//	over 1   two sums of sublanes           [2, 128]   tile 2x1 | lane 128x1, of tiles [1, 128]
//	over 2   two sums of the XLU          [2, 8]     tile 2x1 | row 8x1, of tiles [8, 1]
func (t *tiler) reduce(in *ir.Instr) error {
	v, r := t.arg(in, 0), in.Result().Type
	xs, err := t.tiles(v)
	if err != nil {
		return err
	}
	shape := v.shape()
	n := len(shape)
	lead, rows, lanes := tiles.RowsLanes(shape)
	wide := r.DType
	if in.Op == ir.OpReduceSum && r.DType.IsFloat() && r.DType.Bytes() < 4 {
		wide = ir.F32
	}
	combine := ir.OpAdd
	if in.Op == ir.OpReduceMax {
		combine = ir.OpMax
	}
	// A sum in bf16 is made in f32 and rounded once, as in the interpreter. Leading dimensions combine tiles pairwise, so that the chain
	// is short. groups[k] are the tiles summed to tile k of the result; keep has the leading sizes that are not reduced.
	groups := map[int][]*ir.Value{}
	var keep []int
	for i, d := range lead {
		if !slices.Contains(in.Attrs.Dims, i) {
			keep = append(keep, d)
		}
	}
	for j, p := range points(lead) {
		k := 0
		for i := range lead {
			if !slices.Contains(in.Attrs.Dims, i) {
				k = k*lead[i] + p[i]
			}
		}
		groups[k] = append(groups[k], t.convert(xs[j], wide))
	}
	// The result is a view, since a reduced dimension is gone: with rows reduced the tiles are [1, lanes], and the N of a value [N, C]
	// is along tiles, not rows.
	src := &source{rows: rows, lanes: lanes}
	rowOut := n >= 2 && slices.Contains(in.Attrs.Dims, n-2)
	laneOut := n >= 1 && slices.Contains(in.Attrs.Dims, n-1)
	for k := range product(keep) {
		t.ofHead(in, k, product(keep))
		g := groups[k]
		// ((a+b) + (c+d)) + ...: in a chain, each addition would wait for the one before.
		for len(g) > 1 {
			var next []*ir.Value
			for i := 0; i+1 < len(g); i += 2 {
				next = append(next, t.emit(combine, ir.Attrs{}, g[i], g[i+1]))
			}
			if len(g)%2 == 1 {
				next = append(next, g[len(g)-1])
			}
			g = next
		}
		x := g[0]
		if rowOut && rows > 1 {
			x = t.emit(in.Op, ir.Attrs{Dims: []int{0}}, x)
			x = t.emitT(ir.OpReshape, ir.T(wide, 1, lanes), ir.Attrs{}, x)
		}
		if laneOut && lanes > 1 {
			m := x.Type.Shape[0]
			x = t.emit(in.Op, ir.Attrs{Dims: []int{1}}, x)
			x = t.emitT(ir.OpReshape, ir.T(wide, m, 1), ir.Attrs{}, x)
		}
		src.elems = append(src.elems, t.convert(x, r.DType))
	}
	out := &tiled{dtype: r.DType, src: src}
	stride := product(keep)
	for _, d := range keep {
		stride /= d
		out.dims = append(out.dims, []factor{{d, byTile, stride}})
	}
	if rowOut {
		src.rows = 1
	} else if n >= 2 {
		out.dims = append(out.dims, []factor{{rows, byRow, 1}})
	}
	if laneOut {
		src.lanes = 1
	} else if n >= 1 {
		out.dims = append(out.dims, []factor{{lanes, byLane, 1}})
	}
	if len(out.dims) == 0 {
		return fmt.Errorf("to a scalar; keep the rows or the lanes")
	}
	t.sc.env[in.Result()] = out
	return nil
}

// programID emits the number of the point along an axis of the grid, as an i32 scalar.
func (t *tiler) programID(in *ir.Instr) error {
	return t.bind(in, []*ir.Value{t.emit(ir.OpProgramID, in.Attrs)})
}

// dot multiplies tile by tile, one product per head, on the MXU. Rows or lanes of either operand may be contracted: the MXU takes
// transposed weights at no cost, so K K^T needs no transpose. Sums are f32; a bf16 result is rounded once.
//
//	K K^T   [2, 64, 128] with itself, lanes with lanes   two dots of tiles to [64, 64]
//	K^T U   [2, 64, 128] both, rows with rows            two dots of tiles to [128, 128]
func (t *tiler) dot(in *ir.Instr) error {
	d, r := in.Attrs.Dot, in.Result().Type
	nb := len(d.LB)
	for i := range nb {
		if d.LB[i] != i || d.RB[i] != i {
			return fmt.Errorf("batch dimensions %v, %v do not lead", d.LB, d.RB)
		}
	}
	if in.Args[0].Type.Rank() != nb+2 || in.Args[1].Type.Rank() != nb+2 || len(d.LC) != 1 {
		return fmt.Errorf("operands %s and %s have more than rows and lanes besides %d batch dimensions", in.Args[0].Type, in.Args[1].Type, nb)
	}
	xs, err := t.tiles(t.arg(in, 0))
	if err != nil {
		return err
	}
	ys, err := t.tiles(t.arg(in, 1))
	if err != nil {
		return err
	}
	// The contracted dimensions, rows or lanes, are attributes of the op: Mosaic has all four cases.
	dims := &ir.DotDims{LB: []int{}, RB: []int{}, LC: []int{d.LC[0] - nb}, RC: []int{d.RC[0] - nb}}
	_, rows, lanes := tiles.RowsLanes(r.Shape)
	out := make([]*ir.Value, len(xs))
	for i := range xs {
		t.ofHead(in, i, len(xs))
		x, y := xs[i], ys[i]
		// One pass of the MXU takes bf16. Pass precision has already split products of several passes, so any other product here is f32.
		if in.Attrs.Prec == ir.PrecBF16x1 {
			x, y = t.convert(x, ir.BF16), t.convert(y, ir.BF16)
		}
		z := t.emitT(ir.OpDot, ir.T(ir.F32, rows, lanes), ir.Attrs{Dot: dims, Prec: in.Attrs.Prec}, x, y)
		out[i] = t.convert(z, r.DType)
	}
	return t.bind(in, out)
}

// loop lowers a loop of the body. Each carried value becomes one carried value per tile, and the body is tiled in its own scope. A view
// from outside is gathered inside, once an iteration, which suits bodies that read other rows each time.
//
//	loop on i, x [2, 8, 128]   ->   loop on i, x0 [8, 128], x1 [8, 128]
func (t *tiler) loop(in *ir.Instr) error {
	var args []*ir.Value
	for i := range in.Args {
		xs, err := t.tiles(t.arg(in, i))
		if err != nil {
			return err
		}
		args = append(args, xs...)
	}
	outer := t.sc
	blk := &ir.Block{}
	b := outer.b.On(blk)
	t.sc = newScope(b, outer)
	i := b.Param("", ir.T(ir.I32))
	t.sc.env[in.Body.Params[0]] = normal(ir.I32, nil, []*ir.Value{i})
	k := 0
	for _, p := range in.Body.Params[1:] {
		lead, _, _ := tiles.RowsLanes(p.Type.Shape)
		var xs []*ir.Value
		for range product(lead) {
			xs = append(xs, b.Param("", args[k].Type))
			k++
		}
		t.sc.env[p] = normal(p.Type.DType, p.Type.Shape, xs)
	}
	err := t.block(in.Body)
	if err == nil {
		for _, y := range in.Body.Yield {
			var xs []*ir.Value
			if xs, err = t.tiles(t.sc.find(y)); err != nil {
				break
			}
			blk.Yield = append(blk.Yield, xs...)
		}
	}
	t.sc = outer
	if err != nil {
		return err
	}
	t.b().Of(in)
	rs := t.b().Append(ir.OpLoop, args, in.Attrs, blk)
	if t.b().Err() != nil {
		return t.b().Err()
	}
	k = 0
	for _, r := range in.Results {
		lead, _, _ := tiles.RowsLanes(r.Type.Shape)
		n := product(lead)
		t.sc.env[r] = normal(r.Type.DType, r.Type.Shape, rs[k:k+n])
		k += n
	}
	return nil
}
