package strategy

import (
	"fmt"
	"strings"

	"github.com/gdngen/gdngen/gdn"
)

// Directive narrows a search to one bottleneck: the axes that move it, and the stages of a schedule that show it.
type Directive struct {
	Name, Doc string
	Axes      []string
	Stages    []string // of the algorithm, as the compiler's schedule carries them
	Fills     bool     // they give idle units work
	Order     bool     // they order work, which estimates do not see
}

// Directives is the table of presets.
var Directives = []Directive{
	{"triangular-inversion", "how (I + A)^-1 is made", []string{"solve", "leaf", "leafby", "leafnewton", "merge", "mergepairs", "mask", "precinv"}, []string{"leaf", "solve", "keep"}, false, false},
	{"dataflow", "what is computed where, and what passes between: kernels, operands of the state, products joined",
		[]string{"algo", "chunk", "flow", "form", "fold", "out", "beta", "kq", "fuse", "scale", "rest"}, []string{"state", "output", "operands", "uw", "work", "products"}, false, false},
	{"layout", "order of axes, turns, and how masks and decay reach the elements", []string{"layout", "turn", "spread", "share", "decay", "mask", "fuse", "state"}, []string{"load", "store", "decay", "gates", "glue"}, false, false},
	{"precision", "passes of the matrix unit, storage and vector work in bf16", []string{"prec", "precinv", "precintra", "precstate", "parts", "store", "low", "feedback", "rest"}, []string{"products", "state", "operands"}, false, false},
	{"packing", "small products as large ones: heads, batch rows, chunks and triangles side by side", []string{"heads", "batch", "chunks", "merge", "mergepairs", "kq", "out", "share"}, []string{"products", "solve", "state", "leaf"}, true, false},
	{"pipeline", "order of instructions, and the overlap of successive chunks", []string{"ahead", "steps", "lock", "late"}, []string{"step", "init"}, true, true},
}

// LookupDirective finds a preset. Axes that this build of the table of choices lacks are left out.
func LookupDirective(name string) (Directive, error) {
	var names []string
	for _, d := range Directives {
		if d.Name == name {
			var axes []string
			for _, a := range d.Axes {
				if _, err := gdn.LookupAxis(a); err == nil {
					axes = append(axes, a)
				}
			}
			d.Axes = axes
			return d, nil
		}
		names = append(names, d.Name)
	}
	return Directive{}, fmt.Errorf("unknown directive %q (known: %s)", name, strings.Join(names, " "))
}

// fills holds the axes that give idle units work.
var fills = func() map[string]bool {
	m := map[string]bool{}
	for _, d := range Directives {
		for _, a := range d.Axes {
			m[a] = m[a] || d.Fills
		}
	}
	return m
}()

// orders holds the axes that order work.
var orders = func() map[string]bool {
	m := map[string]bool{}
	for _, d := range Directives {
		for _, a := range d.Axes {
			m[a] = m[a] || d.Order
		}
	}
	return m
}()

// stagesOf maps an axis to the stages that its directives name.
var stagesOf = func() map[string]map[string]bool {
	m := map[string]map[string]bool{}
	for _, d := range Directives {
		for _, a := range d.Axes {
			if m[a] == nil {
				m[a] = map[string]bool{}
			}
			for _, s := range d.Stages {
				m[a][s] = true
			}
		}
	}
	return m
}()
