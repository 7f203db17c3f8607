package tpu

import (
	"fmt"
	"slices"

	"github.com/gdngen/gdngen/codegen/tpu/internal/tiles"
	"github.com/gdngen/gdngen/ir"
)

// Tile lowers every grid to a kernel: windows and carries become references, and every batched
// value becomes 2-D tiles that are computed interleaved, one op over all tiles before the next op.
// Carries live in their output window, which stays in VMEM as long as its index does: so a state
// needs no memory beside the block that is written at the end. Ops outside of grids stay as they
// are.
//
// Two heads of a window [2, 8, 128], and what is emitted for each line:
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

// tiler lowers one grid's body. Its parts ask one another in a circle, each for a value in a
// plainer form: a rule wants tiles, tiles gathers them from a view, a view that can not be gathered
// goes through scratch, and comes back as a view of a reference. The circle ends since each turn
// leaves fewer kinds of factors: rows and lanes swapped, then rows of several tiles, then plain
// loads.
//
//	dot wants tiles of v -> tiles -> gather -> rowTiles, rows of two tiles in turn
//	   -> toScratch: v, viewed in scratch -> gather -> rowTiles -> loads by a stride
type tiler struct {
	src  *ir.Instr // the grid
	g    *ir.Grid  // the kernel's grid, growing scratch and windows
	body *ir.Block
	sc   *scope

	tables, ins, outs []*ir.Value // parameters of the kernel
	refs              []*ir.Value // scratch parameters, which follow them in order
	carries           []carry

	kept    []int // the inputs of the grid that are windows of the kernel, or the first to be fetched from their operand
	fetched []fetched
	into    part // stores go to this part of their reference

	heads int                // entries of the first carry, or the most of an input; 0: none
	exact map[*ir.Value]bool // f32 values that bf16 holds exactly
}

// scope is a block under construction with the values known in it. What is emitted once is emitted
// once per block: a body of a loop may use tiles from around it, but nothing outside may use what
// was gathered inside, where it is defined on one path only.
type scope struct {
	b    *ir.Builder
	env  map[*ir.Value]*tiled
	memo map[string]*ir.Value
	mats map[*tiled][]*ir.Value
	cols map[string]*columns
	up   *scope
}

// newScope begins a block inside another; nil is the kernel's own.
func newScope(b *ir.Builder, up *scope) *scope {
	return &scope{b: b, env: map[*ir.Value]*tiled{}, memo: map[string]*ir.Value{}, mats: map[*tiled][]*ir.Value{}, cols: map[string]*columns{}, up: up}
}

// find is the view of a value, known here or in a block around; nil for one from outside the grid.
func (s *scope) find(v *ir.Value) *tiled {
	for ; s != nil; s = s.up {
		if t := s.env[v]; t != nil {
			return t
		}
	}
	return nil
}

func (t *tiler) b() *ir.Builder { return t.sc.b }

// once emits f's value unless the same key was emitted in this block or one around it. It does
// while tiling what CSE does after it. That is needed early: a window of eight heads is read by
// eight views, and each would first emit, then compare, every load and conversion.
//
// A key has all that the value depends on: the op, its operands by address, attributes, the place
// of a load. What is loaded is kept only where nobody stores to it (source.pure).
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
//	points([2 3]) = [0 0] [0 1] [0 2] [1 0] [1 1] [1 2]     points([]) = []: one point, of no index
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

// scratch adds a scratch reference. Parameters of scratch follow the windows, and their number is
// known at the end of the body only, so they are collected here and appended then.
//
// The value is made by hand and not by Param for that reason: it is in use before it has a place.
func (t *tiler) scratch(s ir.Space, d ir.DType, shape ...int) *ir.Value {
	ty := ir.Ref(s, d, shape...)
	t.g.Scratch = append(t.g.Scratch, ty)
	v := &ir.Value{Type: ty}
	t.refs = append(t.refs, v)
	return v
}

// block lowers instructions in their order. Each instruction it emits has the task of the one that
// it comes from: the schedule, and the cost of a stage, count moves with the op that needed them.
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
