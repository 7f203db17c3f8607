// Package pass is the table of all passes: passes for every target (ir/passes), and passes that lower to one kind of machine
// (codegen/tpu, codegen/plain). Rules:
//
//  1. A pass takes a verified module and returns a new one; the old one is left as it is.
//  2. A pass does not change what the interpreter computes; where it may change the order of float32 sums its Doc says so.
//  3. Constraints on the order of passes are rows of a table, with reasons. Apply checks them, and verifies the module after each pass.
package pass

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gdngen/gdngen/codegen/plain"
	"github.com/gdngen/gdngen/codegen/tpu"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/passes"
)

// Pass is one transformation of modules; Doc says what it does, and whether results keep the same bits.
type Pass struct {
	Name string
	Doc  string
	Run  func(*ir.Module) (*ir.Module, error)
}

// Table lists all passes, so that a command can name any of them. This package imports the packages of the passes; codegen/plain and
// codegen/tpu do not import each other. "Same bits": tests compare the interpreter's results before and after the pass.
var Table = []Pass{
	{Name: "batch", Run: plain.Batch, Doc: "rewrites grids into plain ops and loops; sums of dots in another order"},
	{Name: "tile", Run: tpu.Tile, Doc: "lowers grids to kernels on 2-D tiles; sums of dots in another order"},
	{Name: "pipeline", Run: tpu.Pipeline, Doc: "orders kernels and overlaps their steps as their schedules say; same bits"},
	{Name: "moves", Run: plain.Moves, Doc: "collapses chains of reshapes and transposes; same bits"},
	{Name: "precision", Run: passes.Precision, Doc: "expands bf16x3 and bf16x6 dots into bf16x1 dots of parts; same bits"},
	{Name: "fold", Run: passes.Fold, Doc: "evaluates ops on constants and removes ops that change nothing; same bits"},
	{Name: "cse", Run: passes.CSE, Doc: "merges equal instructions; same bits"},
	{Name: "dce", Run: passes.DCE, Doc: "removes what nobody reads; same bits"},
}

// Lists of passes, each from a builder's module to the level of one kind of backend.
//
// Some passes run twice: tile emits equal and unread instructions, so cse and dce run again after it. StableHLO expands dots of several
// parts while printing, so only Tiles has precision.
var (
	Tidy    = []string{"fold", "cse", "dce"}                                    // plain StableHLO: the backend batches grids itself
	Graph   = []string{"batch", "moves", "fold", "cse", "dce"}                  // plain ops and loops, for readers that have no grids
	Tiles   = []string{"precision", "fold", "cse", "dce", "tile", "cse", "dce"} // kernels of a TPU, steps not overlapped
	Kernels = append(slices.Clip(slices.Clone(Tiles)), "pipeline")              // the same kernels, with steps overlapped by their schedules
)

// how is the kind of a constraint on two passes that are both applied. Example for once: in "cse dce tile cse dce" the second cse
// follows a dce. That is allowed, because one cse precedes it and another dce follows.
type how int

const (
	once      how = iota // some run of the first precedes the other
	never                // no run of the first follows the other
	exclusive            // both may not run on one module
)

// constraints lists which pass must precede which. A constraint holds only where both passes are applied.
var constraints = []struct {
	first string
	how   how
	then  string
	why   string
}{
	{"precision", once, "cse", "dots that share an operand repeat its split"},
	{"fold", once, "cse", "it makes operands and constants equal"},
	{"precision", once, "dce", "it leaves instructions that nobody reads"},
	{"fold", once, "dce", "it leaves instructions that nobody reads"},
	{"cse", once, "dce", "it leaves instructions that nobody reads"},
	{"batch", once, "moves", "it makes the chains"},
	{"precision", never, "tile", "a tile's dot is one pass of the MXU, and is weighed as such"},
	{"tile", never, "pipeline", "a schedule is one of kernels, which tile makes of grids: before it there is nothing to order"},
	{"precision", never, "pipeline", "the parts of a dot would have no place in the schedule"},
	{"fold", never, "pipeline", "the order of a pipelined kernel is its schedule"},
	{"cse", never, "pipeline", "the order of a pipelined kernel is its schedule: a value would be kept from phase to phase without a ring"},
	{"batch", exclusive, "tile", "each lowers all grids, for another kind of machine"},
}

// ordered returns an error if the pass names[i] breaks a constraint.
//
//	dce cse             pass dce must come after cse
//	tile pipeline cse   pass pipeline must come after cse: no cse may follow it
//	batch tile          passes batch and tile are not for one module
//
// fold dce            no error: cse precedes dce in the table, but is not applied
func ordered(names []string, i int) error {
	before, after := names[:i], names[i+1:]
	for _, c := range constraints {
		switch {
		case c.how == exclusive && c.then == names[i] && (slices.Contains(before, c.first) || slices.Contains(after, c.first)):
			return fmt.Errorf("passes %s and %s are not for one module: %s", c.first, c.then, c.why)
		case c.then != names[i] || !slices.Contains(after, c.first):
		case c.how == never, c.how == once && !slices.Contains(before, c.first):
			return fmt.Errorf("pass %s must come after %s: %s", c.then, c.first, c.why)
		}
	}
	return nil
}

// Find returns the pass of that name; the error of an unknown name lists the known ones.
func Find(name string) (Pass, error) {
	var known []string
	for _, p := range Table {
		if p.Name == name {
			return p, nil
		}
		known = append(known, p.Name)
	}
	return Pass{}, fmt.Errorf("unknown pass %q (known: %s)", name, strings.Join(known, " "))
}

// Apply runs the named passes in order and returns the new module; m is unchanged. It verifies the module before the first pass and
// after each.
//
// An error names the pass that failed, that broke a constraint of order, or after which the module no longer verifies.
func Apply(m *ir.Module, names ...string) (*ir.Module, error) {
	if err := m.Verify(); err != nil {
		return nil, fmt.Errorf("before the first pass: %w", err)
	}
	for i, name := range names {
		p, err := Find(name)
		if err != nil {
			return nil, err
		}
		if err := ordered(names, i); err != nil {
			return nil, err
		}
		n, err := p.Run(m)
		if err != nil {
			return nil, fmt.Errorf("pass %s: %w", name, err)
		}
		if err := n.Verify(); err != nil {
			return nil, fmt.Errorf("after pass %s: %w", name, err)
		}
		m = n
	}
	return m, nil
}
