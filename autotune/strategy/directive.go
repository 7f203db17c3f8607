package strategy

import (
	"embed"
	"fmt"
	"slices"
	"strings"

	"github.com/gdngen/gdngen/gdn"
)

// Directive narrows a search to one bottleneck: the groups of axes that influence it, and the stages of a schedule in
// which it shows.
type Directive struct {
	Name, Doc string
	Groups    []gdn.Group
	Stages    []string // of the algorithm, as in the compiler's schedule
	Fills     bool     // its axes give work to idle units
}

// Directives is the table of presets. Each group of axes belongs to one preset.
var Directives = []Directive{
	{"triangular-inversion", "how (I + A)^-1 is computed", []gdn.Group{gdn.GroupInverse}, []string{"leaf", "solve", "keep"}, false},
	{"dataflow", "the work of each kernel, and arrays between kernels: operands of the state, products that are joined",
		[]gdn.Group{gdn.GroupForm}, []string{"state", "output", "operands", "uw", "products"}, false},
	{"layout", "order of axes, transposes, and the way of masks and decays to the elements", []gdn.Group{gdn.GroupLayout}, []string{"load", "decay", "gates", "glue"}, false},
	{"precision", "passes of the MXU, storage and vector work in bf16", []gdn.Group{gdn.GroupNumerics}, []string{"products", "state", "operands"}, false},
	{"packing", "small products joined to large ones: heads, batch rows, chunks and triangles side by side; packed sequences cut into chunks",
		[]gdn.Group{gdn.GroupMapping}, []string{"products", "solve", "state", "leaf", "enter"}, true},
	{"pipeline", "order of instructions, and the overlap of successive chunks", []gdn.Group{gdn.GroupForward, gdn.GroupBackward}, []string{"step", "init"}, true},
	{"training", "the residuals of the forward pass, and the sums of gradients with their precision", []gdn.Group{gdn.GroupTraining}, []string{"dr", "dq", "dk", "dg", "values"}, false},
}

// Axes returns the directive's axes, in the order of gdn.Axes.
func (d Directive) Axes() (names []string) {
	for _, a := range gdn.Axes {
		if a.Concerns(d.Groups...) {
			names = append(names, a.Name)
		}
	}
	return names
}

//go:embed directives/*.md
var directiveWords embed.FS

// Words returns the directive's text in Markdown, for the agent that proposes changes: the bottleneck, earlier
// attempts, and where to look.
func (d Directive) Words() string {
	text, err := directiveWords.ReadFile("directives/" + d.Name + ".md")
	if err != nil {
		panic(err) // a test checks that each preset has a file
	}
	return string(text)
}

// LookupDirective returns the preset with a name; an unknown name is an error that lists the presets.
func LookupDirective(name string) (Directive, error) {
	var names []string
	for _, d := range Directives {
		if d.Name == name {
			return d, nil
		}
		names = append(names, d.Name)
	}
	return Directive{}, fmt.Errorf("unknown directive %q (known: %s)", name, strings.Join(names, " "))
}

// bearing is the information of directives about an axis.
type bearing struct {
	fills  bool     // it gives work to idle units
	orders bool     // it orders instructions, which estimates ignore
	stages []string // stages that it influences
}

// bearings holds the bearing of each axis by name.
var bearings = func() map[string]bearing {
	m := map[string]bearing{}
	for _, a := range gdn.Axes {
		b := bearing{orders: a.Group.Schedules()}
		for _, d := range Directives {
			if a.Concerns(d.Groups...) {
				b.fills = b.fills || d.Fills
				b.stages = append(b.stages, d.Stages...)
			}
		}
		slices.Sort(b.stages)
		b.stages = slices.Compact(b.stages)
		m[a.Name] = b
	}
	return m
}()

// DirectiveDocs returns the names of the directives, and for each a description with its axes.
func DirectiveDocs() (names, docs []string) {
	for _, d := range Directives {
		names = append(names, d.Name)
		docs = append(docs, fmt.Sprintf("%s: %s", d.Doc, strings.Join(d.Axes(), " ")))
	}
	return names, docs
}
