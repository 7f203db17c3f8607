package ir

import (
	"fmt"
	"strings"
)

// Value is the result of an instruction, or a parameter of a block.
type Value struct {
	Type Type
	Name string // a module parameter's name; empty for other values
	Def  *Instr // nil for block parameters
}

// Instr is one operation.
type Instr struct {
	Op      Op
	Args    []*Value
	Results []*Value
	Attrs   Attrs
	Body    *Block // loop, grid, kernel and when
	Task    Task
	Pos     Pos
}

// Result is the only result.
func (in *Instr) Result() *Value { return in.Results[0] }

// Called gives the value the name that it has in a formula, for files that people read, and returns it. What passes make of its instruction has the
// name where it is of the same op. Parameters have names of their own, and nil has none.
func (v *Value) Called(name string) *Value {
	if v != nil && v.Def != nil {
		v.Def.Pos.called, v.Def.Pos.op = name, v.Def.Op
	}
	return v
}

// Called is the name that a formula has for the result; empty where it has none. A slice of what is in memory is loaded.
func (in *Instr) Called() string {
	if in.Op == in.Pos.op || in.Op == OpLoad && in.Pos.op == OpSlice {
		return in.Pos.called
	}
	return ""
}

// NameOf is what a formula calls a value, or what it was before it was cast, cut, spread or turned (x_t); empty where it has no name. A name that
// begins with _ ends the operand's.
func NameOf(v *Value) string {
	if v == nil || v.Def == nil {
		return ""
	}
	own := v.Def.Called()
	if own != "" && own[0] != '_' {
		return own
	}
	name := ""
	switch v.Def.Op {
	case OpConvert, OpBitcast, OpWords, OpHalves, OpReshape, OpPack, OpSlice, OpBroadcast:
		name = NameOf(v.Def.Args[0])
	case OpTranspose:
		if name = NameOf(v.Def.Args[0]); name != "" {
			name += "_t"
		}
	}
	if name == "" || strings.HasSuffix(name, own) {
		return name
	}
	return name + own
}

// Block is a straight sequence of instructions with parameters and yielded values.
type Block struct {
	Params []*Value
	Instrs []*Instr
	Yield  []*Value
}

// Module is one function: parameters and results by name.
type Module struct {
	Name    string
	Body    *Block   // Params carry their names
	Results []string // names of Body.Yield
	Reuse   []Reuse  // results that take the memory of parameters
}

// Reuse says that a result takes the memory of a parameter of the same type: the caller gives the parameter up, and the
// result is in its place. It changes no value.
type Reuse struct{ Result, Param string }

// Params returns the module's parameters.
func (m *Module) Params() []*Value { return m.Body.Params }

// Walk visits every instruction of a block, outer before inner, in program order.
func (b *Block) Walk(f func(*Instr)) {
	for _, in := range b.Instrs {
		f(in)
		if in.Body != nil {
			in.Body.Walk(f)
		}
	}
}

// Captures lists the values that a block uses from outside, in order of first use.
func (b *Block) Captures() []*Value {
	inside, seen := map[*Value]bool{}, map[*Value]bool{}
	var out []*Value
	use := func(vs []*Value) {
		for _, v := range vs {
			if !inside[v] && !seen[v] {
				seen[v] = true
				out = append(out, v)
			}
		}
	}
	var walk func(b *Block)
	walk = func(b *Block) {
		for _, v := range b.Params {
			inside[v] = true
		}
		for _, in := range b.Instrs {
			use(in.Args)
			if in.Body != nil {
				walk(in.Body)
			}
			for _, r := range in.Results {
				inside[r] = true
			}
		}
		use(b.Yield)
	}
	walk(b)
	return out
}

// Level is where an op may stand.
type Level uint8

// The levels.
const (
	Both   Level = iota // tensor level, and inside kernels
	Tensor              // outside kernels only
	Kernel              // inside a kernel's body only
)

// Precision is how a dot treats its operands; sums are always float32 (or the result's wider type).
type Precision uint8

// The precisions. BF16x3 and BF16x6 split float32 operands into two and three bf16 parts.
const (
	PrecF32    Precision = iota // operands as they are
	PrecBF16x1                  // operands rounded to bf16
	PrecBF16x3                  // hi*hi + hi*lo + lo*hi
	PrecBF16x6                  // the six leading products of three-way splits
)

var precisions = [...]string{"f32", "bf16x1", "bf16x3", "bf16x6"}

func (p Precision) String() string { return precisions[p] }

// ParsePrecision is the inverse of String.
func ParsePrecision(s string) (Precision, error) {
	for i, n := range precisions {
		if n == s {
			return Precision(i), nil
		}
	}
	return 0, fmt.Errorf("unknown precision %q (known: f32 bf16x1 bf16x3 bf16x6)", s)
}

// Parts is the number of bf16 parts an operand is split into: the rounded operand, the rounded rest, and so on; 0 for
// PrecF32. A bf16 operand is its own only part.
func (p Precision) Parts() int { return [...]int{PrecBF16x1: 1, PrecBF16x3: 2, PrecBF16x6: 3}[p] }

// Products lists which part of the left operand meets which of the right, in the order in which the products are added:
// the smallest first. Those of parts that a bf16 operand lacks are left out. Nil for PrecF32.
func (p Precision) Products() [][2]int {
	return [...][][2]int{
		PrecBF16x1: {{0, 0}},
		PrecBF16x3: {{0, 1}, {1, 0}, {0, 0}},
		PrecBF16x6: {{0, 2}, {2, 0}, {1, 1}, {0, 1}, {1, 0}, {0, 0}},
	}[p]
}

// Cmp is the relation of a compare.
type Cmp uint8

// The relations. NaN compares false except under NE.
const (
	EQ Cmp = iota
	NE
	LT
	LE
	GT
	GE
)

var cmps = [...]string{"eq", "ne", "lt", "le", "gt", "ge"}

func (c Cmp) String() string { return cmps[c] }

// ParseCmp is the inverse of String.
func ParseCmp(s string) (Cmp, error) {
	for i, n := range cmps {
		if n == s {
			return Cmp(i), nil
		}
	}
	return 0, fmt.Errorf("unknown relation %q (known: eq ne lt le gt ge)", s)
}

// DotDims names the dimensions of a dot. The result's dimensions are batch, left free, right free, each in operand order.
type DotDims struct {
	LB, RB []int // batch
	LC, RC []int // contracting
}

// GridDim is one axis of a grid. Parallel axes come first; only the last axis may be sequential.
type GridDim struct {
	Name  string
	Size  int
	Seq   bool
	Bound bool // the sequential axis of a kernel only: its last operand, an i32, is the number of points that run, 1 to Size
}

// Index is one block index of a window as a function of the grid point:
//
//	x = Const                                  if Axis < 0
//	x = clamp(id[Axis] + Shift, 0, Max)        otherwise (Max < 0: no clamp)
//	x = Max - x                                if Down
//	x = x / Every, rounded down                if Every > 1
//	x = Const + x                              if Axis >= 0
//	x = table[x]                               if Table >= 0, table being the grid's Table-th table operand
type Index struct {
	Axis  int
	Shift int
	Max   int
	Down  bool // needs a Max: the greatest block comes first
	Every int  // points in a row that have one block; 0 is 1
	Const int
	Table int
}

// IndexConst is a fixed block index.
func IndexConst(c int) Index { return Index{Axis: -1, Const: c, Max: -1, Table: -1} }

// IndexAxis is the id of a grid axis.
func IndexAxis(a int) Index { return Index{Axis: a, Max: -1, Table: -1} }

// IndexTable looks the id of an axis up in a table operand.
func IndexTable(a, table int) Index { return Index{Axis: a, Max: -1, Table: table} }

// Held is the index that shows each block for n points in a row.
func (x Index) Held(n int) Index {
	if x.Every = n; n < 2 {
		x.Every = 0
	}
	return x
}

// Reversed is the index that walks its n blocks from the last to the first.
func (x Index) Reversed(n int) Index {
	x.Max, x.Down = n-1, true
	return x
}

// Window says which block of an operand a program sees: block b along dimension d covers elements
// [b*Block[d], (b+1)*Block[d]). Every block must lie inside the operand. A window of a kernel without a block is the whole
// array, left in main memory: the body moves what belongs there by copies. Blocks that it numbers by tables must exist, whatever
// the inputs are: nothing checks copies.
type Window struct {
	Block []int
	Index []Index
}

// Grid describes a grid (pure body) or kernel (body on references).
//
// Operands, in order: Tables i32 vectors, len(In) windowed inputs, len(Carry) initial carries, the number of points of a bounded axis.
// Results, in order: len(Out) arrays, len(Carry) final carries.
//
// A grid runs its points in lexicographic order; points that differ in a parallel axis are independent.
// Body parameters of a grid: the input blocks, then the carried blocks; it yields the output blocks, then the new carried blocks.
// A carried block is loaded from the initial carry when its window's index differs from the previous point's (and at the
// first point), and stored to the final carry before it changes (and after the last point). Windows of a carry that no point
// visits keep the initial content. The output windows of all points must cover each output, except one with an alias. Points
// that differ in the sequential axis alone may write a block again; the last one counts.
//
// With Into several output windows of a grid may write to one array, in their order: window i to array Into[i], numbered in the
// order of their first windows. There are as many results as arrays, and where a window's table gives a number that is no
// block's, below zero or beyond the array, it writes nothing.
//
// With Copies, points that blocks are fetched ahead, several input windows may show one operand, and where a window's table gives a
// number that is no block's it shows zeros. The copies read the operand's memory in the course of the run: with an alias no point may write a
// block that a later one reads.
//
// A kernel has no carries: lowering turns each into a window of the final carry, initialised from a window of the initial one.
// Body parameters of a kernel: table references (smem), input windows, output windows (vmem), then Scratch references; it
// yields nothing. An input window holds its block at every point. An output window is undefined until stored to, keeps its
// content while its index does not change, and is written back when the index changes and at the end. Scratch is undefined
// at first and kept throughout.
//
// What a grid with Live gives must not depend on whether the points from there on run. A schedule leaves them out of its kernel.
//
// Alias lists {array, input} pairs of one type, of an array that output windows belong to: its blocks that no point visits hold the
// input's content. The input windows of a grid show the operand as it was. In a kernel the output takes the input's memory, so that a
// block must not be fetched once it is written back; blocks of an output without an alias that no point visits are undefined.
type Grid struct {
	Name    string
	Dims    []GridDim
	Tables  int
	In      []Window
	Out     []Window
	Carry   []Window
	Outs    []Type // types of the arrays that the Out windows belong to
	Into    []int  // grid only: the array of each output window; nil: each has its own
	Copies  int    // grid only: where above 0 the kernel fetches the blocks of input windows itself, so many points before their own
	Main    bool   // arrays from the module's caller and for it stay in main memory, where a compiler might move them before and after
	Live    int    // table, counted from 1, whose first entry is the number of points of the sequential axis that must run; 0: all
	Inside  bool   // tables were made for it: whatever else the operands are, they name blocks of their arrays alone
	Sched   *Sched // how a kernel's steps overlap; nil: as they stand
	Scratch []Type // kernel only
	Alias   [][2]int
}

// Points is the number of grid points.
func (g *Grid) Points() int {
	n := 1
	for _, d := range g.Dims {
		n *= d.Size
	}
	return n
}

// Bounded says whether an operand tells how many points of the sequential axis run.
func (g *Grid) Bounded() bool {
	n := len(g.Dims)
	return n > 0 && g.Dims[n-1].Bound
}

// Whole says whether the window shows all of an array of the type, left in main memory.
func (w Window) Whole(t Type) bool { return len(w.Block) == 0 && t.Rank() > 0 }

// Array is the result that an output window belongs to.
func (g *Grid) Array(window int) int {
	if g.Into == nil {
		return window
	}
	return g.Into[window]
}

// Arrays are the types of the results that the output windows belong to.
func (g *Grid) Arrays() []Type {
	var ts []Type
	for i, t := range g.Outs {
		if g.Array(i) == len(ts) {
			ts = append(ts, t)
		}
	}
	return ts
}

// Attrs are the static parameters of an instruction. Which fields an op uses is in its table row.
type Attrs struct {
	Axis    int
	Dims    []int // broadcast: result dimension of each operand dimension; transpose: permutation; reduce: axes; copies: the block
	Starts  []int // slice, load, store, view: first element; pad: low padding
	Limits  []int // slice: end; pad: high padding
	Strides []int // slice, load, store: step (nil: 1)
	Dot     *DotDims
	Prec    Precision
	Cmp     Cmp
	Value   float64 // const
	Count   int     // loop
	Until   int     // loop: 0, or the body's parameter that says from which iteration on nothing changes
	Grid    *Grid
}
