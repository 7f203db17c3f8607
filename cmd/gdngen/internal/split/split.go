// Package split writes each device's program for one sequence split over several devices: the programs of gdn/parallel,
// lowered, and a record of their inputs and outputs.
package split

import (
	"cmp"
	"encoding/json"
	"fmt"

	"github.com/gdngen/gdngen/codegen/route"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/parallel"
	"github.com/gdngen/gdngen/internal/store"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/target"
)

// File is the name of the description of a split, next to its programs.
const File = "split.json"

// Program is a row of File.
type Program struct {
	File    string   `json:"file"`
	Does    string   `json:"does"`
	Inputs  []string `json:"inputs"` // NAME: TYPE, in order
	Results []string `json:"results"`
}

// Programs describes the written programs.
type Programs struct {
	Whole    string     `json:"whole"`
	Parts    int        `json:"parts"`
	Part     string     `json:"part"`
	Variant  string     `json:"variant"`
	Backward string     `json:"backward_variant,omitempty"`
	Target   string     `json:"target,omitempty"` // empty: programs of plain ops
	Programs []*Program `json:"programs"`
}

// Write writes the programs of s in n parts into a folder, with a variant's text (empty: the best known), for a target
// or, if nil, of plain ops. With forward there are no gradients.
func Write(s gdn.Spec, n int, variant string, forward bool, t *target.Target, dir string) (*Programs, error) {
	s.Direction = gdn.Forward
	ahead, err := route.Resolve(s, cmp.Or(variant, gdn.Auto), t, nil)
	if err != nil {
		return nil, err
	}
	r := &Programs{Whole: s.String(), Parts: n, Variant: ahead.Variant.String()}
	var backward *gdn.Variant
	if !forward {
		train := s
		train.Direction = gdn.Train
		f, err := route.Resolve(train, cmp.Or(variant, gdn.Auto), t, nil)
		if err != nil {
			return nil, fmt.Errorf("gradients: %w; --forward leaves them out", err)
		}
		backward, r.Backward = &f.Variant, f.Variant.String()
	}
	p, err := parallel.New(s, n, ahead.Variant, backward)
	if err != nil {
		return nil, err
	}
	r.Part = p.Part.String()
	if t != nil {
		r.Target = t.Name
	}
	for _, m := range []struct {
		name, does string
		module     *ir.Module
	}{
		{"summary", "M and O of a part", p.Summary},
		{"compose", "M and O of two neighbours together", p.Compose},
		{"carry", "the state after a range, from that before it", p.Carry},
		{"forward", "outputs of a part from the state before it", p.Forward},
		{"state_gradient", "D, the gradient of the state before a part by its own outputs", p.StateGradient},
		{"compose_back", "M and D of two neighbours together", p.ComposeBack},
		{"carry_back", "the gradient of the state before a range, from that after it", p.CarryBack},
		{"backward", "gradients of a part", p.Backward},
	} {
		if m.module == nil {
			continue
		}
		text, err := route.On(m.module, t)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", m.name, err)
		}
		row := &Program{File: m.name + ".mlir", Does: m.does}
		for _, in := range m.module.Params() {
			row.Inputs = append(row.Inputs, in.Name+": "+in.Type.String())
		}
		for i, x := range m.module.Body.Yield {
			row.Results = append(row.Results, m.module.Results[i]+": "+x.Type.String())
		}
		r.Programs = append(r.Programs, row)
		if err := store.WriteBelow(dir, row.File, []byte(text.Text)); err != nil {
			return nil, err
		}
	}
	record, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return nil, err
	}
	return r, store.WriteBelow(dir, File, append(record, '\n'))
}
