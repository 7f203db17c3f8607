// Package passes holds the transformations of ir programs. Rules:
//
//  1. A pass takes a verified module and returns a new one; the old one is left as it is.
//  2. A pass does not change what the interpreter computes; where it may change the order of float32 sums its Doc says so.
//  3. Passes are rows of one table; Apply verifies after each and checks the order constraints of the table.
package passes

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gdngen/gdngen/ir"
)

// Pass is one transformation.
type Pass struct {
	Name  string
	Doc   string
	After []string // passes that, if both are applied, must come first at least once; the reason stands beside the row
	Run   func(*ir.Module) (*ir.Module, error)
}

// Passes is the table of all passes.
var Passes = []Pass{
	{Name: "batch", Run: Batch, Doc: "rewrites grids into plain ops and loops; sums of dots in another order"},
	{Name: "tile", Run: Tile, Doc: "lowers grids to kernels on 2-D tiles; sums of dots in another order"},
	{Name: "pipeline", Run: Pipeline, Doc: "orders kernels and overlaps their steps as their schedules say; same bits"},
	{Name: "moves", Run: Moves, Doc: "collapses chains of reshapes and transposes; same bits",
		After: []string{
			"batch", // makes the chains
		}},
	{Name: "precision", Run: precision, Doc: "expands bf16x3 and bf16x6 dots into bf16x1 dots of parts; same bits"},
	{Name: "fold", Run: fold, Doc: "evaluates ops on constants and removes ops that change nothing; same bits"},
	{Name: "cse", Run: cse, Doc: "merges equal instructions; same bits",
		After: []string{
			"precision", // dots that share an operand repeat its split
			"fold",      // makes operands and constants equal
		}},
	{Name: "dce", Run: dce, Doc: "removes what nobody reads; same bits",
		After: []string{
			"precision", "fold", "cse", // leave unread instructions behind
		}},
}

// Find returns a row of the table.
func Find(name string) (Pass, error) {
	var known []string
	for _, p := range Passes {
		if p.Name == name {
			return p, nil
		}
		known = append(known, p.Name)
	}
	return Pass{}, fmt.Errorf("unknown pass %q (known: %s)", name, strings.Join(known, " "))
}

// Apply runs passes in order, verifying the module before the first and after each.
func Apply(m *ir.Module, names ...string) (*ir.Module, error) {
	if err := m.Verify(); err != nil {
		return nil, fmt.Errorf("before the first pass: %w", err)
	}
	for i, name := range names {
		p, err := Find(name)
		if err != nil {
			return nil, err
		}
		for _, a := range p.After {
			if slices.Contains(names[i:], a) && !slices.Contains(names[:i], a) {
				return nil, fmt.Errorf("pass %s must come after %s", name, a)
			}
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
