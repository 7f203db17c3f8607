package ir

import (
	"fmt"
	"strings"
)

// Value is a result of an instruction, or a parameter of a block.
type Value struct {
	Type Type
	Name string // only of a module parameter
	Def  *Instr // nil for block parameters
}

// Instr is one operation.
type Instr struct {
	Op      Op
	Args    []*Value
	Results []*Value
	Attrs   Attrs
	Body    *Block // only of loop, grid, kernel and when
	Task    Task
	Pos     Pos
}

// Result returns the first result; for ops with exactly one.
func (in *Instr) Result() *Value { return in.Results[0] }

// Called sets the value's name in a formula, for files that people read, and returns the value. Passes keep the name on replacements with the same op.
// Module parameters have their own names; on a parameter or nil it does nothing.
func (v *Value) Called(name string) *Value {
	if v != nil && v.Def != nil {
		v.Def.Pos.called, v.Def.Pos.op = name, v.Def.Op
	}
	return v
}

// Called returns the result's name in a formula, or "". A slice that became a load keeps its name.
func (in *Instr) Called() string {
	if in.Op == in.Pos.op || in.Op == OpLoad && in.Pos.op == OpSlice {
		return in.Pos.called
	}
	return ""
}

// NameOf returns a value's formula name, or the name of the value that it was converted, sliced, broadcast or transposed (suffix _t) from, or "". A name
// that begins with _ is a suffix to the operand's name.
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

// Block is a straight-line sequence of instructions with parameters and yielded values.
type Block struct {
	Params []*Value
	Instrs []*Instr
	Yield  []*Value
}

// Module is one function with named parameters and results.
type Module struct {
	Name    string
	Body    *Block   // Params carry their names
	Results []string // names of Body.Yield
	Reuse   []Reuse  // results that reuse the memory of parameters
}

// Reuse puts a result into the memory of a parameter of the same type, which the caller gives up.
// It does not change values.
type Reuse struct{ Result, Param string }

// Params returns the module's parameters.
func (m *Module) Params() []*Value { return m.Body.Params }

// Walk calls f for every instruction of a block and its bodies, outer before inner, in program order.
func (b *Block) Walk(f func(*Instr)) {
	for _, in := range b.Instrs {
		f(in)
		if in.Body != nil {
			in.Body.Walk(f)
		}
	}
}

// Captures returns the outer values that a block and its bodies use, in order of first use.
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

// Level is where an op is allowed.
type Level uint8

// The levels.
const (
	Both   Level = iota // tensor level, and inside kernels
	Tensor              // outside kernels only
	Kernel              // inside a kernel's body only
)

// Precision is the rounding of a dot's operands; sums are always float32 (or the result's wider type).
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

// ParsePrecision is the inverse of String; it fails for other text.
func ParsePrecision(s string) (Precision, error) {
	for i, n := range precisions {
		if n == s {
			return Precision(i), nil
		}
	}
	return 0, fmt.Errorf("unknown precision %q (known: f32 bf16x1 bf16x3 bf16x6)", s)
}

// Parts returns the number of bf16 parts an operand is split into: the rounded operand, then the rounded remainders; 0 for
// PrecF32. A bf16 operand always has one part.
func (p Precision) Parts() int { return [...]int{PrecBF16x1: 1, PrecBF16x3: 2, PrecBF16x6: 3}[p] }

// Products lists the pairs of left and right parts that are multiplied, in the order in which the products are added, smallest
// first. For a bf16 operand, pairs with its missing parts are skipped by the caller. It is nil for PrecF32.
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

// ParseCmp is the inverse of String; it fails for other text.
func ParseCmp(s string) (Cmp, error) {
	for i, n := range cmps {
		if n == s {
			return Cmp(i), nil
		}
	}
	return 0, fmt.Errorf("unknown relation %q (known: eq ne lt le gt ge)", s)
}

// DotDims lists the dimensions of a dot. The result's dimensions are batch, left free, right free, each in operand order.
type DotDims struct {
	LB, RB []int // batch
	LC, RC []int // contracting
}

// GridDim is one axis of a grid. Parallel axes come first; only the last axis may be sequential.
type GridDim struct {
	Name  string
	Size  int
	Seq   bool
	Bound bool // only for a kernel's sequential axis: the last operand, an i32 scalar, is the number of points that run, 1 to Size
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
	Down  bool // reverses the order of blocks; needs Max
	Every int  // consecutive points that share one block; 0 means 1
	Const int
	Table int
}

// IndexConst returns a fixed block index.
func IndexConst(c int) Index { return Index{Axis: -1, Const: c, Max: -1, Table: -1} }

// IndexAxis returns the id along a grid axis.
func IndexAxis(a int) Index { return Index{Axis: a, Max: -1, Table: -1} }

// IndexTable returns the table's entry at the id along an axis.
func IndexTable(a, table int) Index { return Index{Axis: a, Max: -1, Table: table} }

// Held returns the index that keeps each block for n consecutive points.
func (x Index) Held(n int) Index {
	if x.Every = n; n < 2 {
		x.Every = 0
	}
	return x
}

// Reversed returns the index that walks its n blocks from last to first.
func (x Index) Reversed(n int) Index {
	x.Max, x.Down = n-1, true
	return x
}

// Window selects the block of an operand at a grid point: block b along dimension d covers elements
// [b*Block[d], (b+1)*Block[d]). Every block must lie inside the operand. A kernel's window without a block is the whole
// array in HBM, and the body copies parts of it. If tables give the block numbers of these copies, they must be valid for
// all inputs, since nothing checks copies.
type Window struct {
	Block []int
	Index []Index
}

// Grid describes a grid (pure body) or kernel (body on references).
//
// Operands, in order: Tables i32 vectors, len(In) windowed inputs, len(Carry) initial carries, the number of points of a bounded axis.
// Results, in order: the output arrays (Arrays), len(Carry) final carries.
//
// A grid runs its points in lexicographic order; points that differ in a parallel axis are independent.
// Body parameters of a grid: the input blocks, then the carried blocks; it yields the output blocks, then the new carried blocks.
// A carried block is loaded from the initial carry when its window's index changes (and at the first point). It is stored to the final
// carry before the index changes (and after the last point). Carry blocks that no point covers keep the initial content. The output
// windows of all points must cover each output, unless it has an alias. Points that differ in the sequential axis only may write the
// same block; the last write counts.
//
// With Into, several output windows write to one array: window i to array Into[i], numbered in the order of their first windows. If a
// window's table entry is no valid block number (negative or too large), it writes nothing.
//
// With Copies, blocks are fetched that many points ahead, and several input windows may read one operand. If a window's table entry is no
// valid block number, the window is zero. Copies read the operand during the run: with an alias, no point may write a block that a later
// point reads.
//
// A kernel has no carries: lowering turns each into a window of the final carry, initialised from a window of the initial one.
// Body parameters of a kernel: table references (smem), input windows, output windows (vmem), then Scratch references; it
// yields nothing. An input window holds its block at every point. An output window is undefined until stored to, keeps its
// content while its index does not change, and is written back when the index changes and at the end. Scratch is undefined
// at first and keeps its content between points.
//
// With Live, results must not depend on whether the points after the first Live entry run; a schedule omits them from its kernel.
//
// Alias lists {array, input} pairs of one type: output blocks that no point covers keep the input's content. Without an alias they are
// undefined. A grid's input windows show the original operand. In a kernel the output shares the input's memory, so a block must not be
// fetched after it was written back.
type Grid struct {
	Name    string
	Dims    []GridDim
	Tables  int
	In      []Window
	Out     []Window
	Carry   []Window
	Outs    []Type // types of the arrays of the Out windows
	Into    []int  // grid only: the array of each output window; nil: one each
	Copies  int    // grid only: above 0, the kernel copies input blocks itself, this many points ahead
	Main    bool   // arrays of the module's caller stay in HBM; otherwise a compiler may copy them before and after the kernel
	Live    int    // 1-based number of the table whose first entry is the number of sequential points that must run; 0: all
	Inside  bool   // the tables were computed for this grid, so they name valid blocks for all other operands
	Sched   *Sched // order and overlap of a kernel's steps; nil: program order
	Scratch []Type // kernel only
	Alias   [][2]int
}

// Points returns the number of grid points.
func (g *Grid) Points() int {
	n := 1
	for _, d := range g.Dims {
		n *= d.Size
	}
	return n
}

// Bounded reports whether the last operand is the number of sequential points to run. A grid with Live may have it too, with the number that the table
// begins with: an operand of its own, which XLA need not cut from the table.
func (g *Grid) Bounded() bool {
	n := len(g.Dims)
	return n > 0 && g.Dims[n-1].Bound
}

// Whole reports whether the window is a whole array of type t in HBM.
func (w Window) Whole(t Type) bool { return len(w.Block) == 0 && t.Rank() > 0 }

// Array returns the index of the result that an output window writes to.
func (g *Grid) Array(window int) int {
	if g.Into == nil {
		return window
	}
	return g.Into[window]
}

// Arrays returns the types of the output arrays, one per distinct array.
func (g *Grid) Arrays() []Type {
	var ts []Type
	for i, t := range g.Outs {
		if g.Array(i) == len(ts) {
			ts = append(ts, t)
		}
	}
	return ts
}

// Attrs are the static parameters of an instruction. Row.Attrs lists the fields that an op uses.
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
	Until   int     // loop: number of the body parameter with the iteration from which on nothing changes; 0: none
	Grid    *Grid
}
