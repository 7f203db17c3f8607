package kernels

import (
	"fmt"
	"io"

	"github.com/gdngen/gdngen/autotune/contest"
	"github.com/gdngen/gdngen/autotune/flashinfer"
	"github.com/gdngen/gdngen/cmd/gdngen/internal/app"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/internal/store"
)

// genContest writes a data set of FlashInfer-Bench with Triton solutions into a new folder: of a definition, or if it
// is nil of the contest's two.
func (a CLI) genContest(d *flashinfer.Definition, variant, dir string) error {
	definitions := []*flashinfer.Definition{d}
	if d == nil {
		definitions = nil
		for _, name := range []string{flashinfer.ContestDecode, flashinfer.ContestPrefill} {
			d, err := flashinfer.Named(name)
			if err != nil {
				return err
			}
			definitions = append(definitions, d)
		}
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
