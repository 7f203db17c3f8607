package results

import (
	"bytes"
	"cmp"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/truth"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/target"
)

// builtIn is the plan of the table that is made when no other is given.
//
//go:embed plan.json
var builtIn []byte

// Plan lists the rows of the table, and the candidates for them.
type Plan struct {
	Classes    []string    `json:"classes"` // of inputs, by which candidates are tested
	Candidates []Candidate `json:"candidates"`
	Rows       []Row       `json:"rows"` // the first is the reference for the others' cycles
	Front      *FrontPlan  `json:"front,omitempty"`
	Peers      []Peer      `json:"peers,omitempty"`
}

// Candidate is a variant that may be the champion of a row.
type Candidate struct {
	Name    string `json:"name"`
	Variant string `json:"variant"`           // auto is the best known for row and target
	Targets string `json:"targets,omitempty"` // in the form of --target; empty: all

	variant gdn.Variant // for auto: resolved for a row
}

// Row is one spec of the table.
type Row struct {
	Title      string      `json:"title"`
	Spec       string      `json:"spec"`
	Precision  string      `json:"precision"`            // of the matrix products; empty: any
	Targets    string      `json:"targets,omitempty"`    // targets of the table to include; empty: all
	Of         string      `json:"of,omitempty"`         // title of the row that its cycles are compared with; empty: the first
	Within     float64     `json:"within,omitempty"`     // most cycles per token and head, as a multiple of that row's
	Traffic    float64     `json:"traffic,omitempty"`    // most HBM traffic, as a multiple of the necessary; 0: 1.3
	Field      bool        `json:"field,omitempty"`      // gradients have flash-linear-attention's limits on every class
	Candidates []Candidate `json:"candidates,omitempty"` // instead of the plan's
	Also       []Candidate `json:"also,omitempty"`       // in addition to the plan's

	spec gdn.Spec
}

// Default returns the built-in plan, with the measured peers.
func Default() (*Plan, error) {
	p, err := Parse(builtIn)
	if err != nil {
		return nil, err
	}
	list, err := readPeers(measured)
	if err != nil {
		return nil, err
	}
	p.Peers = append(list, p.Peers...)
	return p, nil
}

// Parse reads and checks a plan.
func Parse(data []byte) (*Plan, error) {
	var p Plan
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&p); err != nil {
		return nil, gdn.JSONError(data, err)
	}
	if len(p.Rows) == 0 {
		return nil, errors.New("there are no rows")
	}
	for _, name := range p.Classes {
		if _, err := truth.LookupClass(name); err != nil {
			return nil, err
		}
	}
	lists := [][]Candidate{p.Candidates}
	titles := map[string]bool{"": true}
	if p.Front != nil {
		if err := p.Front.parse(); err != nil {
			return nil, err
		}
		lists = append(lists, p.Front.Candidates)
	}
	for i := range p.Rows {
		row := &p.Rows[i]
		var err error
		if row.spec, err = gdn.Parse(row.Spec); err != nil {
			return nil, fmt.Errorf("row %q: %w", row.Title, err)
		}
		if row.Precision != "" {
			if _, err := ir.ParsePrecision(row.Precision); err != nil {
				return nil, fmt.Errorf("row %q: %w", row.Title, err)
			}
		}
		if _, err := target.Parse(cmp.Or(row.Targets, "all")); err != nil {
			return nil, fmt.Errorf("row %q: %w", row.Title, err)
		}
		if !titles[row.Of] {
			return nil, fmt.Errorf("row %q: it is measured by %q, and no row before it has that title", row.Title, row.Of)
		}
		titles[row.Title] = true
		lists = append(lists, row.Candidates, row.Also)
	}
	for _, list := range lists {
		for i := range list {
			c := &list[i]
			if _, auto := gdn.ParseAuto(c.Variant); !auto {
				if _, err := gdn.ParseVariant(c.Variant); err != nil {
					return nil, fmt.Errorf("candidate %q: %w", c.Name, err)
				}
			}
			if _, err := target.Parse(cmp.Or(c.Targets, "all")); err != nil {
				return nil, fmt.Errorf("candidate %q: %w", c.Name, err)
			}
		}
	}
	return &p, nil
}

// Only returns the plan of the rows whose title or spec contains one of the texts, without the front and the peers. A
// row whose reference row is left out has no reference.
func (p *Plan) Only(texts []string) (*Plan, error) {
	part := &Plan{Classes: p.Classes, Candidates: p.Candidates}
	titles := map[string]bool{}
	var known []string
	for i, row := range p.Rows {
		known = append(known, row.Spec)
		if !slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(row.Title, text) || strings.Contains(row.Spec, text) }) {
			continue
		}
		if row.Of = cmp.Or(row.Of, p.Rows[0].Title); i > 0 && !titles[row.Of] {
			row.Of, row.Within = row.Title, 0
		}
		titles[row.Title] = true
		part.Rows = append(part.Rows, row)
	}
	if len(part.Rows) == 0 {
		return nil, fmt.Errorf("no row has %s in its title or spec (specs: %s)", strings.Join(texts, " or "), strings.Join(slices.Compact(known), " "))
	}
	return part, nil
}

// candidatesFor returns the candidates of a row.
func (p *Plan) candidatesFor(row *Row) []Candidate {
	all := slices.Concat(p.Candidates, row.Also)
	if len(row.Candidates) > 0 {
		all = row.Candidates
	}
	var list []Candidate
	for _, c := range all {
		var err error
		if c.variant, err = c.about(row.spec); err == nil && (row.Precision == "" || c.variant.Precision().String() == row.Precision) {
			list = append(list, c)
		}
	}
	return list
}

// about returns a candidate's variant on a spec, whatever the target; auto is resolved for MXUs of 256 rows.
func (c *Candidate) about(s gdn.Spec) (gdn.Variant, error) {
	if _, ok := gdn.ParseAuto(c.Variant); !ok {
		return gdn.ParseVariant(c.Variant)
	}
	choices, err := gdn.Choices(c.Variant, s, gdn.HostTPU, gdn.Machine{Cores: 1, MXUSize: 256})
	if err != nil {
		return gdn.Variant{}, err
	}
	return choices[0].Variant, nil
}
