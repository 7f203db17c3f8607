package ir

import (
	"fmt"
	"slices"
)

func blockTypes(vs []*Value) []Type {
	ts := make([]Type, len(vs))
	for i, v := range vs {
		if v != nil {
			ts[i] = v.Type
		}
	}
	return ts
}

func sameTypes(what string, got, want []Type) error {
	if len(got) != len(want) {
		return fmt.Errorf("%s: has %d, wants %d", what, len(got), len(want))
	}
	for i := range got {
		if !got[i].Equal(want[i]) {
			return fmt.Errorf("%s %d: has %s, wants %s", what, i, got[i], want[i])
		}
	}
	return nil
}

func tLoop(in *Instr) ([]Type, error) {
	ts := blockTypes(in.Args)
	if in.Attrs.Count < 0 {
		return nil, fmt.Errorf("count %d", in.Attrs.Count)
	}
	for i, t := range ts {
		if t.IsRef() {
			return nil, fmt.Errorf("carried value %d is a reference", i)
		}
	}
	if in.Body == nil {
		return nil, fmt.Errorf("no body")
	}
	if err := sameTypes("body parameter", blockTypes(in.Body.Params), append([]Type{T(I32)}, ts...)); err != nil {
		return nil, err
	}
	if err := sameTypes("yielded value", blockTypes(in.Body.Yield), ts); err != nil {
		return nil, err
	}
	if n := in.Attrs.Until; n != 0 {
		if n < 0 || n > len(ts) || !ts[n-1].Equal(T(I32)) || in.Body.Yield[n-1] != in.Body.Params[n] {
			return nil, fmt.Errorf("until %d: not a carried i32 scalar that the body yields as it is", n)
		}
	}
	return ts, nil
}

func tProgramID(in *Instr) ([]Type, error) {
	if in.Attrs.Axis < 0 {
		return nil, fmt.Errorf("axis %d", in.Attrs.Axis)
	}
	return one(T(I32))
}

func tWhen(in *Instr) ([]Type, error) {
	if t := in.Args[0].Type; !t.Equal(T(Bool)) {
		return nil, fmt.Errorf("condition of type %s, wants bool[]", t)
	}
	if in.Body == nil || len(in.Body.Params) != 0 || len(in.Body.Yield) != 0 {
		return nil, fmt.Errorf("the body takes and yields nothing")
	}
	return nil, nil
}

// At returns the block index at grid point id; tables holds the contents of the grid's tables.
func (x Index) At(id []int, tables [][]int64) int {
	i := x.Const
	if x.Axis >= 0 {
		i = max(id[x.Axis]+x.Shift, 0)
		if x.Max >= 0 {
			i = min(i, x.Max)
		}
		if x.Down {
			i = x.Max - i
		}
		i /= max(x.Every, 1)
		i += x.Const
	}
	if x.Table >= 0 {
		i = int(tables[x.Table][i])
	}
	return i
}

// bounds returns the smallest and largest index over all points, before any table look-up.
func (x Index) bounds(g *Grid) (lo, hi int) {
	if x.Axis < 0 {
		return x.Const, x.Const
	}
	lo, hi = max(x.Shift, 0), max(g.Dims[x.Axis].Size-1+x.Shift, 0)
	if x.Max >= 0 {
		lo, hi = min(lo, x.Max), min(hi, x.Max)
	}
	if x.Down {
		lo, hi = x.Max-hi, x.Max-lo
	}
	lo, hi = lo/max(x.Every, 1), hi/max(x.Every, 1)
	return x.Const + lo, x.Const + hi
}

func (g *Grid) checkWindow(what string, w Window, t Type, tables []*Value) error {
	if len(w.Block) != t.Rank() || len(w.Index) != t.Rank() {
		return fmt.Errorf("%s: block %v with %d indices for %s", what, w.Block, len(w.Index), t)
	}
	for d, x := range w.Index {
		if w.Block[d] < 1 || t.Shape[d] < 1 {
			return fmt.Errorf("%s: empty window or operand (block %v of %s)", what, w.Block, t)
		}
		if x.Axis >= 0 && (max(x.Shift, x.Const) > maxElements || min(x.Shift, x.Const) < -maxElements) {
			return fmt.Errorf("%s: dimension %d is shifted by %d and %d", what, d, x.Shift, x.Const)
		}
		if x.Axis >= len(g.Dims) || x.Table >= g.Tables {
			return fmt.Errorf("%s: dimension %d names axis %d, table %d of %d axes, %d tables", what, d, x.Axis, x.Table, len(g.Dims), g.Tables)
		}
		if x.Down && (x.Axis < 0 || x.Max < 0) {
			return fmt.Errorf("%s: dimension %d counts down from no greatest block", what, d)
		}
		if x.Every < 0 || x.Every > 0 && x.Axis < 0 {
			return fmt.Errorf("%s: dimension %d has one block for %d points of no axis", what, d, x.Every)
		}
		lo, hi := x.bounds(g)
		if x.Table >= 0 {
			if n := tables[x.Table].Type.Shape[0]; lo < 0 || hi >= n {
				return fmt.Errorf("%s: dimension %d reads entry %d of a table of %d", what, d, hi, n)
			}
			continue
		}
		if lo < 0 || hi > t.Shape[d]/w.Block[d]-1 {
			return fmt.Errorf("%s: dimension %d: block %d of %d elements lies outside %s", what, d, hi, w.Block[d], t)
		}
	}
	return nil
}

// checkCommon verifies everything that grids and kernels share: axes, schedule, operands, outputs and windows.
func (g *Grid) checkCommon(in *Instr) error {
	if g.Name != "" && !isName(g.Name) {
		return fmt.Errorf("malformed name %q", g.Name)
	}
	if g.Tables < 0 || g.Tables > len(in.Args) {
		return fmt.Errorf("%d tables among %d operands", g.Tables, len(in.Args))
	}
	for _, check := range []func(*Instr) error{
		g.checkDims, func(*Instr) error { return g.Sched.Check(g) }, g.checkOperands, g.checkOutputs, g.checkInto, g.checkWindows,
	} {
		if err := check(in); err != nil {
			return err
		}
	}
	if in.Body == nil {
		return fmt.Errorf("no body")
	}
	return nil
}

// checkDims verifies names, sizes and kinds of the axes.
func (g *Grid) checkDims(in *Instr) error {
	points := 1
	axes := map[string]bool{}
	for i, d := range g.Dims {
		if !isName(d.Name) || axes[d.Name] {
			return fmt.Errorf("axis name %q is malformed or taken", d.Name)
		}
		axes[d.Name] = true
		if d.Size < 1 || d.Size > maxElements/points {
			return fmt.Errorf("axis %s has size %d", d.Name, d.Size)
		}
		points *= d.Size
		if d.Seq && i != len(g.Dims)-1 {
			return fmt.Errorf("axis %s is sequential but not the last", d.Name)
		}
		if d.Bound && (!d.Seq || in.Op != OpKernel && g.Live == 0) {
			return fmt.Errorf("axis %s is bounded, which only the sequential axis of a kernel can be, or of a grid with a table that says so too", d.Name)
		}
	}
	return nil
}

// checkOperands verifies the number of operands (tables, windows, bound) and the types of tables and bound.
func (g *Grid) checkOperands(in *Instr) error {
	bounds := 0
	if g.Bounded() {
		bounds = 1
	}
	if len(in.Args) != g.Tables+len(g.In)+len(g.Carry)+bounds {
		return fmt.Errorf("has %d operands, wants %d tables, %d inputs, %d carries, %d bounds", len(in.Args), g.Tables, len(g.In), len(g.Carry), bounds)
	}
	if g.Bounded() && !in.Args[len(in.Args)-1].Type.Equal(T(I32)) {
		return fmt.Errorf("the number of points is %s, wants i32[]", in.Args[len(in.Args)-1].Type)
	}
	for i, v := range in.Args[:g.Tables] {
		if v.Type.DType != I32 || v.Type.Rank() != 1 {
			return fmt.Errorf("table %d is %s, wants i32[n]", i, v.Type)
		}
	}
	return nil
}

// checkOutputs verifies the types of the arrays of output windows.
func (g *Grid) checkOutputs(*Instr) error {
	if len(g.Outs) != len(g.Out) {
		return fmt.Errorf("%d output types for %d output windows", len(g.Outs), len(g.Out))
	}
	for i, t := range g.Outs {
		if err := checkType(t); err != nil || t.IsRef() || t.DType == Sem {
			return fmt.Errorf("output %d is %s", i, t)
		}
	}
	return nil
}

// checkInto verifies which windows share an array, and which grids may use Copies.
func (g *Grid) checkInto(in *Instr) error {
	if n := len(g.Dims); g.Copies != 0 && (g.Copies < 0 || in.Op != OpGrid || len(g.Carry) > 0 || n == 0 || !g.Dims[n-1].Seq) {
		return fmt.Errorf("copies are of a grid without carries whose last axis is sequential")
	}
	if g.Into == nil {
		return nil
	}
	if len(g.Into) != len(g.Out) || in.Op != OpGrid {
		return fmt.Errorf("into names the arrays of %d of %d output windows of a %s: a grid names all or none", len(g.Into), len(g.Out), in.Op)
	}
	arrays := 0
	for i, a := range g.Into {
		if a < 0 || a > arrays || a < arrays && !g.Outs[slices.Index(g.Into, a)].Equal(g.Outs[i]) {
			return fmt.Errorf("output window %d belongs to array %d: arrays are numbered in the order of their first windows and have one type", i, a)
		}
		arrays = max(arrays, a+1)
	}
	return nil
}

// checkWindows verifies that every window stays inside its array. Whole arrays of a kernel have no window.
func (g *Grid) checkWindows(in *Instr) error {
	inputs, carries := blockTypes(in.Args[g.Tables:][:len(g.In)]), blockTypes(in.Args[g.Tables+len(g.In):][:len(g.Carry)])
	for _, side := range []struct {
		name    string
		windows []Window
		arrays  []Type
	}{{"input", g.In, inputs}, {"output", g.Out, g.Outs}, {"carry", g.Carry, carries}} {
		for i, w := range side.windows {
			if in.Op == OpKernel && w.Whole(side.arrays[i]) {
				continue
			}
			if err := g.checkWindow(fmt.Sprintf("%s %d", side.name, i), w, side.arrays[i], in.Args); err != nil {
				return err
			}
		}
	}
	return nil
}

func (g *Grid) checkLive() error {
	n := len(g.Dims)
	if g.Live < 0 || g.Live > g.Tables || g.Live > 0 && (n == 0 || !g.Dims[n-1].Seq) {
		return fmt.Errorf("live names table %d of %d, counted from 1, and needs a sequential axis", g.Live, g.Tables)
	}
	return nil
}

func tGrid(in *Instr) ([]Type, error) {
	g := in.Attrs.Grid
	if g == nil {
		return nil, fmt.Errorf("no grid")
	}
	if err := g.checkCommon(in); err != nil {
		return nil, err
	}
	var params, yields, results []Type
	for i, w := range g.In {
		params = append(params, T(in.Args[g.Tables+i].Type.DType, w.Block...))
	}
	for i, w := range g.Out {
		yields = append(yields, T(g.Outs[i].DType, w.Block...))
	}
	results = append(results, g.Arrays()...)
	for i, w := range g.Carry {
		t := in.Args[g.Tables+len(g.In)+i].Type
		params = append(params, T(t.DType, w.Block...))
		yields = append(yields, T(t.DType, w.Block...))
		results = append(results, t)
	}
	if len(g.Scratch) > 0 {
		return nil, fmt.Errorf("scratch belongs to kernels")
	}
	if err := g.checkAlias(in); err != nil {
		return nil, err
	}
	if err := sameTypes("body parameter", blockTypes(in.Body.Params), params); err != nil {
		return nil, err
	}
	return results, sameTypes("yielded value", blockTypes(in.Body.Yield), yields)
}

func tKernel(in *Instr) ([]Type, error) {
	g := in.Attrs.Grid
	if g == nil {
		return nil, fmt.Errorf("no grid")
	}
	if err := g.checkCommon(in); err != nil {
		return nil, err
	}
	if len(g.Carry) > 0 {
		return nil, fmt.Errorf("a kernel has no carries: they are windows and scratch")
	}
	var params []Type
	for _, v := range in.Args[:g.Tables] {
		params = append(params, Ref(SMEM, I32, v.Type.Shape...))
	}
	for i, w := range g.In {
		if t := in.Args[g.Tables+i].Type; w.Whole(t) {
			params = append(params, Ref(HBM, t.DType, t.Shape...))
			continue
		}
		params = append(params, Ref(VMEM, in.Args[g.Tables+i].Type.DType, w.Block...))
	}
	for i, w := range g.Out {
		if w.Whole(g.Outs[i]) {
			params = append(params, Ref(HBM, g.Outs[i].DType, g.Outs[i].Shape...))
			continue
		}
		params = append(params, Ref(VMEM, g.Outs[i].DType, w.Block...))
	}
	for i, t := range g.Scratch {
		if err := checkType(t); err != nil || !t.IsRef() {
			return nil, fmt.Errorf("scratch %d is %s, wants a reference", i, t)
		}
		params = append(params, t)
	}
	if err := g.checkAlias(in); err != nil {
		return nil, err
	}
	if len(in.Body.Yield) != 0 {
		return nil, fmt.Errorf("a kernel yields nothing")
	}
	return g.Outs, sameTypes("body parameter", blockTypes(in.Body.Params), params)
}

func (g *Grid) checkAlias(in *Instr) error {
	arrays := g.Arrays()
	for i, a := range g.Alias {
		twice := slices.ContainsFunc(g.Alias[:i], func(b [2]int) bool { return a[0] == b[0] || a[1] == b[1] })
		if twice || a[0] < 0 || a[0] >= len(arrays) || a[1] < 0 || a[1] >= len(g.In) || !arrays[a[0]].Equal(in.Args[g.Tables+a[1]].Type) {
			return fmt.Errorf("alias of output %d and input %d", a[0], a[1])
		}
	}
	return nil
}

func tAccess(in *Instr, ref, val Type, idx []*Value) error {
	a := &in.Attrs
	if !ref.IsRef() || val.IsRef() || ref.DType != val.DType || val.Rank() > ref.Rank() {
		return fmt.Errorf("%s against reference %s", val, ref)
	}
	if ref.Space == HBM {
		return fmt.Errorf("%s must be copied to vmem first", ref)
	}
	if len(a.Starts) != ref.Rank() || (a.Strides != nil && len(a.Strides) != ref.Rank()) {
		return fmt.Errorf("starts %v strides %v of %s", a.Starts, a.Strides, ref)
	}
	if len(idx) != 0 {
		if err := scalars(idx, ref.Rank()); err != nil {
			return err
		}
	}
	lead := ref.Rank() - val.Rank()
	for i, n := range ref.Shape {
		b := 1
		if i >= lead {
			b = val.Shape[i-lead]
		}
		if a.Starts[i] < 0 || a.Step(i) < 1 || b < 1 {
			return fmt.Errorf("dimension %d of %s: start %d, step %d, size %d", i, ref, a.Starts[i], a.Step(i), b)
		}
		if left := n - 1 - a.Starts[i]; left < 0 || (b-1) > left/a.Step(i) {
			return fmt.Errorf("dimension %d of %s: %d elements from %d by %d reach outside", i, ref, b, a.Starts[i], a.Step(i))
		}
	}
	return nil
}

func tLoad(in *Instr) ([]Type, error) {
	t, err := declared(in)
	if err != nil {
		return nil, err
	}
	return []Type{t}, tAccess(in, in.Args[0].Type, t, in.Args[1:])
}

func tStore(in *Instr) ([]Type, error) {
	return nil, tAccess(in, in.Args[1].Type, in.Args[0].Type, in.Args[2:])
}

func tRefCast(in *Instr) ([]Type, error) {
	t, err := declared(in)
	if err != nil {
		return nil, err
	}
	x := in.Args[0].Type
	if !x.IsRef() || t.Space != x.Space || t.Bytes() != x.Bytes() || x.Rank() < 2 || t.Rank() < 2 ||
		t.Shape[t.Rank()-1] != x.Shape[x.Rank()-1] {
		return nil, fmt.Errorf("%s as %s", x, t)
	}
	narrow, wide := x, t
	if t.DType.Bytes() < x.DType.Bytes() {
		narrow, wide = t, x
	}
	n, w := narrow.DType.Bytes(), wide.DType.Bytes()
	if n != w && (n != 2 || w != 4 || narrow.Shape[narrow.Rank()-2]%2 != 0) || n < 2 && x.DType != t.DType {
		return nil, fmt.Errorf("%s as %s: wants the same width, or 16 bits with an even number of rows and 32 bits", x, t)
	}
	return one(t)
}

func tDMA(in *Instr) ([]Type, error) {
	src, dst, sem := in.Args[0].Type, in.Args[1].Type, in.Args[2].Type
	if !src.IsRef() || !dst.IsRef() || src.DType != dst.DType || sem.DType != Sem {
		return nil, fmt.Errorf("copy of %s to %s on %s", src, dst, sem)
	}
	block := in.Attrs.Dims
	if len(in.Args) == 3 {
		if len(block) > 0 || !slices.Equal(src.Shape, dst.Shape) {
			return nil, fmt.Errorf("copy of %s to %s on %s", src, dst, sem)
		}
		return nil, nil
	}
	if len(in.Args) != 5 {
		return nil, fmt.Errorf("copy with %d operands, wants 3, or 5 with the numbers of the blocks", len(in.Args))
	}
	for i, t := range []Type{src, dst} {
		if n := in.Args[3+i].Type; n.DType != I32 || n.Rank() != 0 || n.IsRef() {
			return nil, fmt.Errorf("block number %s", n)
		}
		if _, err := BlockCounts(t, block); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// BlockCounts returns the number of blocks of a shape along each dimension of a reference. Block numbers are row-major. It fails if
// blocks do not divide the reference.
func BlockCounts(t Type, block []int) ([]int, error) {
	if len(block) != t.Rank() {
		return nil, fmt.Errorf("blocks %v of %s", block, t)
	}
	var counts []int
	for d, n := range t.Shape {
		if block[d] < 1 || n%block[d] != 0 {
			return nil, fmt.Errorf("blocks %v do not divide %s", block, t)
		}
		counts = append(counts, n/block[d])
	}
	return counts, nil
}
