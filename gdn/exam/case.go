// Package exam judges kernels of the gated delta rule by their errors on classes of inputs, against a float64 reference.
//
// A Case is one run of a spec in which each value head has its own class of inputs, so that one run of the interpreter tests
// many classes. Every value head gets marks of these kinds, for each output:
//
//   - rms: rms of the error over rms of the reference, as flash-linear-attention judges;
//   - max: the largest error over the largest value;
//   - bias: the systematic part of the error, its projection on the reference, on the part of the reference from the carried state, and on its
//     derivative by the decay. Rounding is independent between elements and averages out there. A leaking state, a wrong scale or a
//     clamped decay does not.
//
// Limits follow the arithmetic of the class, not the kernel: see limits.txt.
package exam

import (
	"fmt"
	"slices"
	"sync"

	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/truth"
	"github.com/gdngen/gdngen/ir/array"
)

// Case is the inputs of one run and its expected outputs.
type Case struct {
	Spec    gdn.Spec
	Seed    uint64
	Classes []truth.Class // one per value head and batch row, rows first; a training step has one class
	Inputs  map[string]*array.Array
	Want    map[string]*array.Array
	shares  truth.Shares // only for a forward spec
}

// Supported returns the classes of inputs that can be drawn for s.
func Supported(s gdn.Spec) []truth.Class {
	var l []truth.Class
	for _, c := range truth.Classes {
		if c.Supports(s) == nil {
			l = append(l, c)
		}
	}
	return l
}

// LongClasses are the classes for long runs: their states last, so that an error in each chunk adds up.
var LongClasses = []string{"slow", "u01nodecay", "drift", "faint", "hold", "zeros"}

// Long returns the classes of LongClasses that can be drawn for s.
func Long(s gdn.Spec) []truth.Class {
	return slices.DeleteFunc(Supported(s), func(c truth.Class) bool { return !slices.Contains(LongClasses, c.Name) })
}

// Deal returns the classes of each Case, so that together they cover all classes. Forward: one class per value head and batch row (truth.Deal).
// Training: one class per Case.
func Deal(s gdn.Spec, classes []truth.Class) [][]truth.Class {
	if s.Direction == gdn.Forward {
		return truth.Deal(s, classes)
	}
	var deals [][]truth.Class
	for _, c := range classes {
		deals = append(deals, []truth.Class{c})
	}
	return deals
}

// boundary returns the number of tokens after which a state counts as carried: 64, of which most chunks are a multiple, or 16 in runs below 256
// tokens.
func boundary(tokens int) int {
	if tokens < 256 {
		return 16
	}
	return 64
}

// Draw returns a Case with inputs and float64 reference; classes is an entry of Deal. It fails if a class cannot be drawn or the reference overflows.
func Draw(s gdn.Spec, classes []truth.Class, seed uint64) (*Case, error) {
	x, err := blank(s, classes, seed)
	if err == nil {
		err = x.solve()
	}
	if err != nil {
		return nil, fmt.Errorf("inputs and reference of %s on %s with seed %d: %w", names(classes), s, seed, err)
	}
	return x, nil
}

// blank returns a Case without expected outputs.
func blank(s gdn.Spec, classes []truth.Class, seed uint64) (*Case, error) {
	x := &Case{Spec: s, Seed: seed, Classes: classes}
	var err error
	if s.Direction != gdn.Forward {
		x.Inputs, err = classes[0].Generate(s, seed)
	} else {
		x.Inputs, err = truth.GenerateMix(s, classes, seed)
	}
	return x, err
}

// solve computes the expected outputs.
func (x *Case) solve() (err error) {
	if x.Spec.Direction != gdn.Forward {
		x.Want, err = truth.Reference(x.Spec, x.Inputs)
	} else {
		x.Want, x.shares, err = truth.ReferenceShares(x.Spec, x.Inputs, boundary(x.Spec.Tokens))
	}
	return err
}

// names joins the class names, each once.
func names(classes []truth.Class) string {
	seen, text := map[string]bool{}, ""
	for _, c := range classes {
		if !seen[c.Name] {
			text += ", " + c.Name
		}
		seen[c.Name] = true
	}
	return text[min(2, len(text)):]
}

// Cache holds drawn Cases, so that kernels of one spec share them. With Dir, processes share the references too.
type Cache struct {
	Dir   string // folder of stored references; empty: none
	Build string // the program that computes references; each build has its own files

	mu   sync.Mutex
	kept map[key]func() (*Case, error)
}

type key struct {
	spec    gdn.Spec
	classes string
	seed    uint64
}

// maxCases bounds the number of Cases in memory.
const maxCases = 40

// Draw is the function Draw with the cache. It may be called concurrently.
func (c *Cache) Draw(s gdn.Spec, classes []truth.Class, seed uint64) (*Case, error) {
	k := key{s, "", seed}
	for _, class := range classes {
		k.classes += class.Name + " "
	}
	c.mu.Lock()
	if c.kept == nil || len(c.kept) > maxCases {
		c.kept = map[key]func() (*Case, error){}
	}
	draw := c.kept[k]
	if draw == nil {
		draw = sync.OnceValues(func() (*Case, error) { return c.draw(s, classes, seed) })
		c.kept[k] = draw
	}
	c.mu.Unlock()
	return draw()
}
