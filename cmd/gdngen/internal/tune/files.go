package tune

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/gdngen/gdngen/codegen/pallas"
	"github.com/gdngen/gdngen/codegen/route"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/internal/store"
)

// Kinds of files, by the program that reads them.
const (
	Mosaic    = "mosaic"    // libtpu: WORK-TARGET.mlir
	Pallas    = "pallas"    // JAX: WORK_TARGET.py
	StableHLO = "stablehlo" // XLA on a CPU or GPU: WORK-cpu.mlir
)

// ParseKinds parses kinds of files, separated by commas.
func ParseKinds(text string) (map[string]bool, error) {
	kinds := map[string]bool{}
	for name := range strings.SplitSeq(text, ",") {
		switch name {
		case Mosaic, Pallas, StableHLO:
			kinds[name] = true
		default:
			return nil, fmt.Errorf("unknown kind of file %q (known: %s %s %s)", name, Mosaic, Pallas, StableHLO)
		}
	}
	return kinds, nil
}

// WriteFiles writes the programs of all rows below a folder, and the result itself as tune.json. tell is called for a
// kind without a program, which is left out. begin is called before each file is written, which takes seconds.
func (r *Result) WriteFiles(dir string, kinds map[string]bool, version string, begin func(file string), tell func(error)) error {
	for i, row := range r.Rows {
		if i > 0 && r.Rows[i-1].Work == row.Work && r.Rows[i-1].Target == row.Target {
			continue // another load of the same program
		}
		if kinds[Mosaic] {
			begin(filepath.Join(dir, row.Work+"-"+row.Target+".mlir"))
			text, err := row.program.Text(row.to)
			if err == nil {
				err = row.write(dir, row.Work+"-"+row.Target+".mlir", text)
			}
			if err != nil {
				return err
			}
		}
		if kinds[Pallas] {
			begin(filepath.Join(dir, row.Work+"_"+row.Target+".py"))
			if err := row.writePallas(dir, version, tell); err != nil {
				return err
			}
		}
		if kinds[StableHLO] && (i == 0 || r.Rows[i-1].Work != row.Work) {
			begin(filepath.Join(dir, row.Work+"-cpu.mlir"))
			if err := row.writeStableHLO(dir); err != nil {
				return err
			}
		}
	}
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return store.WriteBelow(dir, "tune.json", append(text, '\n'))
}

func (row *Row) write(dir, name, text string) error {
	row.Files = append(row.Files, filepath.Join(dir, name))
	return store.WriteBelow(dir, name, []byte(text))
}

// writePallas writes the row as Python for JAX, with the row's cost in the header.
func (row *Row) writePallas(dir, version string, tell func(error)) error {
	p := pallas.Provenance{Version: version, Libtpu: "by " + row.Source}
	if row.Cycles > 0 && row.form.Spec.Init && pallas.Fit(row.form.Spec, row.form.Variant) == row.form.Variant { // the file takes an initial state and any size
		cost := pallas.Cost{Target: row.Target, Cycles: row.Issue}
		if row.Cycles != row.Issue {
			cost.Wall = row.Cycles
		}
		p.Costs = []pallas.Cost{cost}
	}
	text, err := pallas.Source(pallas.Spec(row.form.Spec), row.form.Variant, route.Modules, p)
	if err != nil {
		tell(fmt.Errorf("no Pallas file for %s on %s: %w", row.Work, row.Target, err))
		return nil
	}
	return row.write(dir, row.Work+"_"+row.Target+".py", text)
}

// writeStableHLO writes the best program for a CPU.
func (row *Row) writeStableHLO(dir string) error {
	f, err := route.Resolve(row.form.Spec, gdn.Auto, nil, nil)
	if err != nil {
		return err
	}
	route, err := route.Lookup(StableHLO)
	if err != nil {
		return err
	}
	m, err := f.Build()
	if err == nil {
		m, err = route.Lower(m)
	}
	if err != nil {
		return err
	}
	a, err := route.Backend.Emit(m, nil)
	if err != nil {
		return err
	}
	return row.write(dir, row.Work+"-cpu.mlir", a.Text)
}
