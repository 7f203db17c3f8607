package model

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/passes"
)

// Piece is a unit of compilation in a training step: a layer as one module per pass, or its parts on one side of the core of attention, or that core. Within
// a module the compiler fuses norms and elementwise work into neighbouring products, and prefetches weights.
type Piece struct {
	Name   string // layer, or the names of its parts
	Kind   string // kind of layer
	Layers int    // number of occurrences in a model
	Flops  float64
	// Build returns the module of a pass. It is nil for the core of attention.
	Build func(v gdn.Variant, backward bool) (*ir.Module, error)
}

// Pieces returns the pieces of a training step in the order of the forward pass.
func Pieces(c Config) (list []Piece) {
	parts := Parts(c)
	for _, kind := range Kinds(parts) {
		var layer []Part
		for _, p := range parts {
			if p.Kind == kind {
				layer = append(layer, p)
			}
		}
		for at := 0; at < len(layer); {
			end := at + 1
			for layer[at].Build != nil && end < len(layer) && layer[end].Build != nil {
				end++
			}
			list = append(list, piece(layer, at, end))
			at = end
		}
	}
	return list
}

// piece combines parts from to to-1 of a layer.
func piece(layer []Part, from, to int) Piece {
	x := Piece{Kind: layer[0].Kind, Layers: layer[0].Layers}
	var names []string
	for _, p := range layer[from:to] {
		x.Flops += p.Flops
		names = append(names, p.Name)
	}
	if x.Name = strings.Join(names, ", "); to-from == len(layer) && x.Kind != "model" {
		x.Name = "layer"
	}
	if layer[from].Build != nil {
		w := whole{parts: layer[from:to], first: from == 0, last: to == len(layer), residual: x.Kind != "model"}
		x.Build = w.build
	}
	return x
}

// whole combines the parts of a piece.
type whole struct {
	parts       []Part
	first, last bool // of the layer
	residual    bool // the layer adds its input to the result of its last part
}

// build returns the module of a pass. The forward pass also returns the values that the backward pass reads.
//
// The backward kernel of the rule reads arrays from outside in HBM, for any variant. Otherwise the compiler would copy whole arrays to vector memory before
// it, with no work to hide the copies.
func (w *whole) build(v gdn.Variant, backward bool) (*ir.Module, error) {
	if backward {
		if hbm, err := v.With("hbm", "yes"); err == nil {
			v = hbm
		}
		l, err := w.back(v)
		if err != nil {
			return nil, err
		}
		return l.finish(nil)
	}
	back, err := w.back(v)
	if err != nil {
		return nil, err
	}
	l := newLinked()
	for _, p := range w.parts {
		if err := l.run(p, v, false); err != nil {
			return nil, err
		}
	}
	if w.last && w.residual {
		l.add("out", "x")
	}
	var wanted []string
	for _, p := range back.module.Params() {
		wanted = append(wanted, p.Name)
	}
	return l.finish(wanted)
}

// back builds the backward pass, without its results.
func (w *whole) back(v gdn.Variant) (*linked, error) {
	l := newLinked()
	for _, p := range w.parts {
		if p.again {
			if err := l.run(p, v, false); err != nil {
				return nil, err
			}
		}
	}
	for i, p := range slices.Backward(w.parts) {
		if p.Both {
			continue
		}
		if i == 0 && w.first && w.residual {
			p.Build = p.summed
		}
		if err := l.run(p, v, true); err != nil {
			return nil, err
		}
	}
	return l, nil
}

// linked is a module of parts that exchange values by name.
type linked struct {
	program
	module *ir.Module
	values map[string]*ir.Value
	made   []string // values made by parts, in order
	taken  []string // values read by parts
}

func newLinked() *linked {
	m, b := ir.NewModule("piece")
	return &linked{program: program{Builder: b, wide: ir.F32, narrow: ir.BF16}, module: m, values: map[string]*ir.Value{}}
}

// run adds a pass of a part.
func (l *linked) run(p Part, v gdn.Variant, backward bool) error {
	part, err := p.Build(v, backward)
	if err != nil {
		return err
	}
	var args []*ir.Value
	for _, in := range part.Params() {
		args = append(args, l.take(in.Name, in.Type))
	}
	for i, x := range passes.Inline(l.Builder, part, args) {
		name := part.Results[i]
		if l.values[name] != nil {
			return fmt.Errorf("model: %s, %s makes %s, which is there already", p.Kind, p.Name, name)
		}
		l.values[name] = x
		l.made = append(l.made, name)
	}
	return nil
}

// take returns a value by name, or adds a parameter if no part made it.
//
// Values with heads cross module borders as [B, T, H D]. A training step is one module, in which a forward reshape to
// [B, T, H, D] and its inverse backward cancel. At a module's border each would be a copy, since H rows of D fill no tile.
func (l *linked) take(name string, t ir.Type) *ir.Value {
	l.taken = append(l.taken, name)
	x := l.values[name]
	if x == nil {
		x = l.Reshape(l.Param(name, ir.T(t.DType, besides(t.Shape)...)), t.Shape...)
		l.values[name] = x
	}
	return x
}

// add adds a narrow value to another.
func (l *linked) add(to, name string) {
	x := l.values[to]
	y := l.take(name, x.Type)
	l.values[to] = l.Convert(l.Add(l.Convert(x, l.wide), l.Convert(y, l.wide)), l.narrow)
}

// finish sets the results: values that no part read, and the values in wanted.
func (l *linked) finish(wanted []string) (*ir.Module, error) {
	for _, name := range l.made {
		if slices.Contains(wanted, name) || !slices.Contains(l.taken, name) {
			x := l.values[name]
			l.names, l.results = append(l.names, name), append(l.results, l.Reshape(x, besides(x.Type.Shape)...))
		}
	}
	return l.module, l.Finish(l.module, l.names, l.results)
}

// besides returns [B, T, H D] for the shape [B, T, H, D], and other shapes unchanged. States [B, H, K, V] never come here; saved states have five
// dimensions.
func besides(shape []int) []int {
	if len(shape) != 4 {
		return shape
	}
	return []int{shape[0], shape[1], shape[2] * shape[3]}
}
