package kernels

import (
	"fmt"
	"io"
	"path/filepath"

	"github.com/gdngen/gdngen/autotune/contest"
	"github.com/gdngen/gdngen/cmd/gdngen/internal/app"
	"github.com/gdngen/gdngen/codegen/pallas"
	"github.com/gdngen/gdngen/codegen/triton"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/internal/store"
	"github.com/gdngen/gdngen/pjrt/gpu"
)

// tritonFolder writes a folder for GPUs: solutions for FlashInfer-Bench if the spec is one of the contest's
// definitions, else a package of torch functions for all sizes.
func (a CLI) tritonFolder(g *genFlags) error {
	dir := g.pack
	if _, err := gpuTargets(g.target); g.target != "" && err != nil {
		return err
	}
	if err := newFolder(dir); err != nil {
		return err
	}
	if g.spec == "" && g.stored == "" {
		return a.genContest(nil, g.variant, dir)
	}
	s, err := genSpec(g.spec, g.stored)
	if err != nil {
		return err
	}
	if d, err := contest.DefinitionOf(s); err == nil {
		return a.genContest(d, g.variant, dir)
	}
	if g.variant != "" && g.variant != gdn.Auto {
		return app.Usage(fmt.Errorf("--variant %s: a package of functions of torch chooses by the sizes of a call", g.variant))
	}
	name := filepath.Base(dir)
	if err := pallas.CheckPackage(name); err != nil {
		return app.Usage(fmt.Errorf("--package %s: %w", dir, err))
	}
	if err := triton.SupportsPackage(s); err != nil {
		return app.Failed(app.ExitRejected, "%w", err)
	}
	release, _ := app.Version()
	files, err := triton.Package(name, release, gpu.InterpreterText)
	if err != nil {
		return err
	}
	var paths []string
	for _, f := range files {
		if err := store.WriteBelow(dir, f.Path, []byte(f.Text)); err != nil {
			return err
		}
		paths = append(paths, f.Path)
	}
	return app.Emit(a.App, paths, paths, func(w io.Writer) {
		folder := dir
		if !filepath.IsAbs(dir) {
			folder = "./" + dir // else pip takes it for the name of a package
		}
		fmt.Fprintf(w, "%s: functions of torch in %d files; pip install %s, and see its README.md\n", dir, len(files), folder)
	})
}
