package kernels

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/gdngen/gdngen/autotune/contest"
	"github.com/gdngen/gdngen/cmd/gdngen/internal/app"
	"github.com/gdngen/gdngen/codegen/pallas"
	"github.com/gdngen/gdngen/codegen/triton"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/internal/store"
	"github.com/gdngen/gdngen/pjrt/gpu"
)

// genTritonPackage writes a folder for GPUs: of the contest's definitions solutions for FlashInfer-Bench, of other specs a package of functions
// of torch, which takes all sizes.
func (a CLI) genTritonPackage(spec, stored, variant, targets, file, dir string) error {
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
	if spec == "" && stored == "" {
		return a.genContest(nil, variant, dir)
	}
	s, err := genSpec(spec, stored)
	if err != nil {
		return err
	}
	if d, err := contest.DefinitionOf(s); err == nil {
		return a.genContest(d, variant, dir)
	}
	if variant != "" && variant != gdn.Auto {
		return app.Usage(fmt.Errorf("--variant %s: a package of functions of torch chooses by the sizes of a call", variant))
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
		fmt.Fprintf(w, "%s: functions of torch in %d files; pip install ./%s, and see its README.md\n", dir, len(files), dir)
	})
}
