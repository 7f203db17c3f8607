package bench

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gdngen/gdngen/autotune/flashinfer"
	"github.com/gdngen/gdngen/internal/terminal"
	"github.com/gdngen/gdngen/ir/target"
)

// Sources names the definitions, workloads and solutions of a sweep.
type Sources struct {
	Definitions []string // names, or files of JSON; none: the definitions of the workloads, or the contest's two
	Workloads   string   // a file of JSON lines; empty: the contest's workloads
	Root        string   // folder that paths of the workloads are relative to
	Only        string   // selects workloads, as in flashinfer.Choose
	Variant     string   // variant of the solutions
	Target      *target.Target
	Read        func(file string) ([]byte, error)
	Warn        func(string)
}

// Items reads definitions and workloads. Each definition with workloads gets a solution by the variant.
func (o *Sources) Items() (items []Item, err error) {
	var given []*flashinfer.Trace
	if o.Workloads != "" {
		data, err := o.Read(o.Workloads)
		if err != nil {
			return nil, err
		}
		if given, err = flashinfer.ReadLines(o.Workloads, data); err != nil {
			return nil, err
		}
	}
	for _, name := range o.names(given) {
		d, err := o.definition(name)
		if err != nil {
			return nil, err
		}
		it := Item{Definition: d, Root: o.Root}
		if o.Workloads == "" {
			if it.Workloads, err = flashinfer.ContestWorkloads(d); err != nil {
				return nil, err
			}
		}
		for _, t := range given {
			if t.Definition == d.Name {
				it.Workloads = append(it.Workloads, t.Workload)
			}
		}
		it.Workloads = flashinfer.Choose(it.Workloads, o.Only)
		if len(it.Workloads) == 0 {
			o.Warn(d.Name + ": no workload")
			continue
		}
		if err := it.Choose(o.Variant, o.Target); err != nil {
			return nil, err
		}
		items = append(items, it)
	}
	if len(items) == 0 {
		return nil, errors.New("there is no workload to do")
	}
	return items, nil
}

// names returns the definitions to use.
func (o *Sources) names(given []*flashinfer.Trace) []string {
	names := slices.Clone(o.Definitions)
	if len(names) == 0 {
		for _, t := range given {
			if !slices.Contains(names, t.Definition) {
				names = append(names, t.Definition)
			}
		}
	}
	if len(names) == 0 {
		names = []string{flashinfer.ContestDecode, flashinfer.ContestPrefill}
	}
	return names
}

// definition finds a definition by name or reads it from a file.
func (o *Sources) definition(name string) (*flashinfer.Definition, error) {
	if !strings.HasSuffix(name, ".json") && name != "-" {
		return flashinfer.Named(name)
	}
	data, err := o.Read(name)
	if err != nil {
		return nil, err
	}
	d, err := flashinfer.ParseDefinition(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return d, nil
}

// Failed counts the workloads that did not pass, and returns the hardware that they ran on. Every workload must have a trace in the store.
func Failed(items []Item, store *Store) (failed int, hardware string) {
	for _, it := range items {
		for _, w := range it.Workloads {
			e := store.Done(it.Definition.Name, it.Solution.Name, w.UUID).Evaluation
			if hardware = e.Environment.Hardware; e.Status != flashinfer.Passed {
				failed++
			}
		}
	}
	return failed, hardware
}

// Draw shows the progress and the last trace in a bar.
func (p Progress) Draw(b *terminal.Bar) {
	switch {
	case p.Trace != nil:
		b.Draw(p.Done, p.Total, TraceLine(p.Trace), p.Left, p.Trace.Evaluation.Status != flashinfer.Passed)
	case p.Done > 0:
		b.Draw(p.Done, p.Total, fmt.Sprintf("%d were done before", p.Done), 0, false)
	default:
		b.Draw(p.Done, p.Total, "", 0, false)
	}
}
