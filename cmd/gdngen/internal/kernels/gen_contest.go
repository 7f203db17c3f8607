package kernels

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/gdngen/gdngen/autotune/contest"
	"github.com/gdngen/gdngen/autotune/flashinfer"
	"github.com/gdngen/gdngen/cmd/gdngen/internal/app"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/internal/store"
)

// genContest writes a data set of FlashInfer-Bench with solutions in Triton into a new folder: of the definition that a spec is a workload of,
// or of the contest's two.
func (a CLI) genContest(spec, stored, variant, targets, file, dir string) error {
	if file != "" {
		return app.Usage(errors.New("give --out for a file or --package for a folder, not both"))
	}
	if targets != "" {
		if _, err := gpuTargets(targets); err != nil {
			return err
		}
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s is there already: name a new folder", dir)
	}
	definitions, err := contestDefinitions(spec, stored)
	if err != nil {
		return err
	}
	if variant == gdn.Auto {
		variant = ""
	}
	release, _ := app.Version()
	files, err := contest.Package(definitions, variant, release)
	if err != nil {
		return app.Usage(err)
	}
	for _, f := range files {
		if err := store.WriteBelow(dir, f.Path, []byte(f.Text)); err != nil {
			return err
		}
	}
	var paths []string
	for _, f := range files {
		paths = append(paths, f.Path)
	}
	return app.Emit(a.App, paths, paths, func(w io.Writer) {
		fmt.Fprintf(w, "%s: solutions of", dir)
		for _, d := range definitions {
			fmt.Fprintf(w, " %s", d.Name)
		}
		fmt.Fprintf(w, " in %d files; see %s/README.md\n", len(files), dir)
	})
}

func contestDefinitions(spec, stored string) (list []*flashinfer.Definition, err error) {
	if spec == "" && stored == "" {
		for _, name := range []string{flashinfer.ContestDecode, flashinfer.ContestPrefill} {
			d, err := flashinfer.Named(name)
			if err != nil {
				return nil, err
			}
			list = append(list, d)
		}
		return list, nil
	}
	s, err := genSpec(spec, stored)
	if err != nil {
		return nil, err
	}
	d, err := contest.DefinitionOf(s)
	if err != nil {
		return nil, app.Failed(app.ExitRejected, "%w", err)
	}
	return []*flashinfer.Definition{d}, nil
}
