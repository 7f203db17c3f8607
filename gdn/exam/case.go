// Package exam judges kernels of the gated delta rule by what they give on classes of inputs, against float64.
//
// A sheet is one run of a spec in which each value head has a class of inputs of its own, so that one run of the interpreter examines
// many classes. Every value head is judged by marks of these kinds, for each output:
//
//   - rms: the root mean square of the error over that of the reference, as flash-linear-attention judges;
//   - max: the largest error over the largest value;
//   - bias: the error projected on the reference, on the share of it that the state of earlier chunks brings, and on its derivative by the
//     decay. Rounding is independent from element to element and all but vanishes there; a state that leaks, a scale that is off, a
//     decay that is clamped does not.
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

// Case is the inputs of one run and the expected outputs.
type Case struct {
	Spec    gdn.Spec
	Seed    uint64
	Classes []truth.Class // of each value head, rows first; of a training step the one class of all
	Inputs  map[string]*array.Array
	Want    map[string]*array.Array
	shares  truth.Shares // of a forward spec
}

// Supported lists the classes of inputs that a spec can have.
func Supported(s gdn.Spec) []truth.Class {
	var l []truth.Class
	for _, c := range truth.Classes {
		if c.Supports(s) == nil {
			l = append(l, c)
		}
	}
	return l
}

// LongClasses are those of a long run: states that last, in which a fault of each chunk adds up.
var LongClasses = []string{"slow", "u01nodecay", "drift", "faint", "hold", "zeros"}

// Long lists those of them that a spec can have.
func Long(s gdn.Spec) []truth.Class {
	return slices.DeleteFunc(Supported(s), func(c truth.Class) bool { return !slices.Contains(LongClasses, c.Name) })
}

// Deal says which classes the value heads of each sheet have, so that all classes are seen.
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

// boundary is the number of tokens after which a state counts as carried: most chunks are a multiple of it. Short runs, of one such chunk
// and a part, have a quarter of it.
func boundary(tokens int) int {
	if tokens < 256 {
		return 16
	}
	return 64
}

// Draw makes a sheet: classes as Deal lists them.
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

// blank is a sheet with its inputs alone.
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

// solve computes what the inputs must give.
func (x *Case) solve() (err error) {
	if x.Spec.Direction != gdn.Forward {
		x.Want, err = truth.Reference(x.Spec, x.Inputs)
	} else {
		x.Want, x.shares, err = truth.ReferenceShares(x.Spec, x.Inputs, boundary(x.Spec.Tokens))
	}
	return err
}

// names lists each class once.
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

// Cache draws sheets once: kernels of one spec share them. With a folder, so do processes.
type Cache struct {
	Dir   string // where references are kept; empty: nowhere
	Build string // the program that makes them: another one makes its own

	mu   sync.Mutex
	kept map[key]func() (*Case, error)
}

type key struct {
	spec    gdn.Spec
	classes string
	seed    uint64
}

// maxCases bounds the memory that sheets take.
const maxCases = 40

// Draw is as the function.
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
