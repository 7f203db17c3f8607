package strategy

import (
	"embed"
	"fmt"
	"slices"
	"strings"

	"github.com/gdngen/gdngen/gdn"
)

// Directive narrows a search to one bottleneck: the groups of axes that move it, and the stages of
// a schedule that show it.
type Directive struct {
	Name, Doc string
	Groups    []gdn.Group
	Stages    []string // of the algorithm, as the compiler's schedule carries them
	Fills     bool     // its axes give idle units work
}

// Directives is the table of presets. Each group of axes is of one of them.
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

// Axes names the axes that concern the directive, in the order of their table.
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

// Words is the directive in Markdown, for whoever changes code: what limits there, what has been
// tried, what to look at.
func (d Directive) Words() string {
	text, err := directiveWords.ReadFile("directives/" + d.Name + ".md")
	if err != nil {
		panic(err) // each preset has a file, which a test sees to
	}
	return string(text)
}

// LookupDirective finds a preset.
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

// bearing is what directives say of an axis.
type bearing struct {
	fills  bool     // it gives idle units work
	orders bool     // it orders instructions, which estimates do not see
	stages []string // that show what it moves
}

// bearings are those of all axes.
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

// DirectiveDocs describes the directives: their names, and each with its axes.
func DirectiveDocs() (names, docs []string) {
	for _, d := range Directives {
		names = append(names, d.Name)
		docs = append(docs, fmt.Sprintf("%s (%s: %s)", d.Name, d.Doc, strings.Join(d.Axes(), " ")))
	}
	return names, docs
}
