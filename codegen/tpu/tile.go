package tpu

import (
	"fmt"
	"slices"

	"github.com/gdngen/gdngen/codegen/tpu/internal/tiles"
	"github.com/gdngen/gdngen/ir"
)

// Tile lowers every grid to a kernel and returns a new module. Windows and carries become references, and every batched value becomes
// 2-D tiles, computed interleaved: one op on all tiles before the next op. A carry lives in its output window, which stays in VMEM while
// its index stays the same, so a state needs no second buffer. Ops outside grids are kept. An error names the grid and the instruction.
//
// Two heads of a window [2, 8, 128], and the instructions emitted for each line:
//
//	%a = dot %k, %k : f32[2, 8, 8]     load head 0; load head 1; dot of 0; dot of 1
//	%n = neg %a                        neg of 0; neg of 1
//	yield %n                           store of 0; store of 1
//
// The loads come with the dot, which is the first to ask for tiles.
func Tile(m *ir.Module) (*ir.Module, error) {
	out := &ir.Module{Name: m.Name, Results: m.Results, Reuse: m.Reuse, Body: &ir.Block{}}
	b := ir.NewBuilder(out.Body)
	env := map[*ir.Value]*ir.Value{}
	for _, p := range m.Body.Params {
		env[p] = b.Param(p.Name, p.Type)
	}
	for _, in := range m.Body.Instrs {
		args := make([]*ir.Value, len(in.Args))
		for i, a := range in.Args {
			args[i] = env[a]
		}
		var rs []*ir.Value
		if in.Op == ir.OpGrid {
			var err error
			if rs, err = tileGrid(b, in, args); err != nil {
				return nil, fmt.Errorf("tile %s: %w", in.Attrs.Grid.Name, err)
			}
		} else {
			b.Of(in)
			var ts []ir.Type
			for _, r := range in.Results {
				ts = append(ts, r.Type)
			}
			if in.Body != nil {
				return nil, fmt.Errorf("tile: %s outside a grid is not lowered to a kernel's glue: programs of such loops (pack=stream of a variant) are for the backend stablehlo", in.Op)
			}
			rs = b.Append(in.Op, args, in.Attrs, nil, tiles.Explicit(in.Op, ts)...)
		}
		if b.Err() != nil {
			return nil, b.Err()
		}
		for i, r := range in.Results {
			env[r] = rs[i]
		}
	}
	for _, y := range m.Body.Yield {
		out.Body.Yield = append(out.Body.Yield, env[y])
	}
	return out, nil
}

// tiler lowers one grid's body. Its methods call one another recursively, each asking for a value in a plainer form. A rule asks for
// tiles; tiles gathers them from a view; a view that can not be gathered is stored to scratch and becomes a view of a reference. The
// recursion ends because each round removes one kind of factors: swapped rows and lanes, then rows of several tiles, until plain loads
// are left.
//
//	dot wants tiles of v -> tiles -> gather -> rowTiles, rows that alternate between two tiles
//	   -> toScratch: v, viewed in scratch -> gather -> rowTiles -> loads by a stride
type tiler struct {
	src  *ir.Instr // the grid
	g    *ir.Grid  // the kernel's grid; scratch and windows are added to it
	body *ir.Block
	sc   *scope

	tables, ins, outs []*ir.Value // parameters of the kernel
	refs              []*ir.Value // scratch parameters; they follow the others
	carries           []carry

	kept    []int // the inputs of the grid that get a window of the kernel; of inputs copied from one operand, the first
	fetched []fetched
	into    part // the part of the reference that stores go to

	heads int                // product of the leading dimensions of the first carry, else the largest of an input; 0: none
	exact map[*ir.Value]bool // f32 values that bf16 holds exactly
}

// scope is a block under construction, with the values known in it. Memoization is per block. The body of a loop may use tiles from
// outside, but the outside may not use tiles gathered in a loop, which are defined on one path only.
type scope struct {
	b    *ir.Builder
	env  map[*ir.Value]*tiled
	memo map[string]*ir.Value
	mats map[*tiled][]*ir.Value
	cols map[string]*columns
	up   *scope
}

// newScope begins a block inside up; nil up is the kernel's own body.
func newScope(b *ir.Builder, up *scope) *scope {
	return &scope{b: b, env: map[*ir.Value]*tiled{}, memo: map[string]*ir.Value{}, mats: map[*tiled][]*ir.Value{}, cols: map[string]*columns{}, up: up}
}

// find returns the view of a value known in this block or one around it; nil if the value comes from outside the grid.
func (s *scope) find(v *ir.Value) *tiled {
	for ; s != nil; s = s.up {
		if t := s.env[v]; t != nil {
			return t
		}
	}
	return nil
}

func (t *tiler) b() *ir.Builder { return t.sc.b }

// once returns f's value, or the value emitted under the same key in this block or one around it. CSE would merge the same values later,
// but eight views of a window would each emit every load and conversion first.
//
// A key has all that the value depends on: op, addresses of the operands, attributes, position of a load. Loads are memoized only from
// sources that nothing stores to (source.pure).
func (t *tiler) once(key string, f func() *ir.Value) *ir.Value {
	for s := t.sc; s != nil; s = s.up {
		if v := s.memo[key]; v != nil {
			return v
		}
	}
	v := f()
	t.sc.memo[key] = v
	return v
}

// points lists the index vectors of a shape in row-major order.
//
//	points([2 3]) = [0 0] [0 1] [0 2] [1 0] [1 1] [1 2]     points([]) = [[]]: one point with no index
func points(shape []int) [][]int {
	out := [][]int{{}}
	for _, n := range shape {
		var next [][]int
		for _, p := range out {
			for i := range n {
				next = append(next, append(slices.Clone(p), i))
			}
		}
		out = next
	}
	return out
}

// scratch adds a scratch reference. Scratch parameters follow the windows in the kernel, and are only complete at the end of the body.
// So the value is made here without Builder.Param, and tileGrid appends it to the parameters.
func (t *tiler) scratch(s ir.Space, d ir.DType, shape ...int) *ir.Value {
	ty := ir.Ref(s, d, shape...)
	t.g.Scratch = append(t.g.Scratch, ty)
	v := &ir.Value{Type: ty}
	t.refs = append(t.refs, v)
	return v
}

// block lowers instructions in order. Emitted instructions keep the task of their source instruction, so that schedules and stage costs
// count moves with the op that needed them.
func (t *tiler) block(blk *ir.Block) error {
	for _, in := range blk.Instrs {
		t.b().Of(in)
		if err := t.instr(in); err != nil {
			return fmt.Errorf("%s at %s: %w", in.Op, in.Where(), err)
		}
		if err := t.b().Err(); err != nil {
			return err
		}
	}
	return nil
}
