package measure

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/gdngen/gdngen/codegen/route"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/ir/target"
	"github.com/gdngen/gdngen/pjrt/llo"
)

// Origin describes the program of a folder of schedules; it is stored in the folder's originFile.
type Origin struct {
	Target   string             `json:"target"`
	Compiler string             `json:"compiler"`
	Name     string             `json:"name,omitempty"` // file of a foreign module
	Spec     string             `json:"spec,omitempty"`
	Variant  string             `json:"variant,omitempty"`
	Backend  string             `json:"backend,omitempty"`
	Scalars  map[string][]int64 `json:"scalars,omitempty"` // tables that steer the kernels
	Kernels  map[string]string  `json:"kernels,omitempty"` // names of custom calls, keyed as in llo.Options
}

const originFile = "gdngen.json"

// writeOrigin writes the Origin into the folder of a dump.
func (x *Instrument) writeOrigin(p *Program, t *target.Target, o Options, text, dir string) error {
	from := Origin{Target: t.Name, Compiler: x.Libtpu, Name: p.Name, Backend: p.Backend(), Scalars: o.Scalars, Kernels: kernelNames(text)}
	if p.Spec != nil {
		from.Spec, from.Variant = p.Spec.String(), p.Variant.String()
	}
	record, err := json.MarshalIndent(from, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, originFile), append(record, '\n'), 0o644)
}

// Stored returns the program whose schedules are in a folder, made by Options.Dump or by another compile with llo.Flags. Its cost needs no compiler.
func Stored(dir string) (*Program, error) {
	p := &Program{Name: dir, Origin: &Origin{}, stored: dir}
	file := filepath.Join(dir, originFile)
	text, err := os.ReadFile(file)
	switch {
	case errors.Is(err, fs.ErrNotExist): // schedules of another compile
		return p, nil
	case err != nil:
		return nil, err
	}
	if err := json.Unmarshal(text, p.Origin); err != nil {
		return nil, fmt.Errorf("%s: %w; without this file the folder is read as another compiler's, with --target", file, err)
	}
	p.Name, p.Scalars = cmp.Or(p.Origin.Name, dir), p.Origin.Scalars
	if p.Origin.Spec == "" {
		return p, nil
	}
	s, err := gdn.Parse(p.Origin.Spec)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if p.Variant, err = gdn.ParseVariant(p.Origin.Variant); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if p.route, err = route.Lookup(p.Origin.Backend); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	p.Spec = &s
	return p, nil
}

// IsStored reports whether the program's schedules are stored, so that nothing is compiled.
func (p *Program) IsStored() bool { return p.stored != "" }

// readStored costs stored schedules.
func (p *Program) readStored(t *target.Target, o Options) (*Compiled, error) {
	if at := p.Origin.Target; at != "" && at != t.Name {
		return nil, fmt.Errorf("%s has schedules for %s, not for %s", p.stored, at, t.Name)
	}
	if o.Scalars == nil {
		o.Scalars = p.Scalars
	}
	c := &Compiled{Kept: true}
	cost, err := llo.Options{Scalars: o.Scalars, Kernels: p.Origin.Kernels, Columns: o.Columns}.Analyze(p.stored, t)
	switch {
	case errors.Is(err, llo.ErrNoSchedule):
		return nil, err
	case err != nil:
		c.Unknown = err.Error()
	case !takes(t, cost):
		return nil, fmt.Errorf("the schedules of %s are not for %s, whose bundles take %d matrix products: name another target", p.stored, t.Name, t.Slots.Matmul)
	default:
		c.Report, c.Unread = cost, cost.Unread
	}
	return c, nil
}

// takes reports whether the bundles of schedules are as wide as a target's. Old compilers do not print the width.
func takes(t *target.Target, r *llo.Report) bool {
	for _, op := range r.Ops {
		for _, s := range op.Slots {
			if s.Name == "MATMUL" && s.Capacity != op.Bundles*int64(t.Slots.Matmul) {
				return false
			}
		}
	}
	return true
}
