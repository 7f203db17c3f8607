package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/gdngen/gdngen/autotune/store"
	"github.com/gdngen/gdngen/codegen"
	"github.com/gdngen/gdngen/codegen/lower"
	"github.com/gdngen/gdngen/codegen/pallas"
	"github.com/gdngen/gdngen/gdn"
)

// genPallas writes the Python of a spec: a file, or a package into a new folder.
func (a *app) genPallas(s gdn.Spec, variant, targets, file, pack string) error {
	if pack != "" {
		if file != "" {
			return usage(errors.New("give --out for a file or --package for a folder, not both"))
		}
		if err := pallas.CheckPackage(filepath.Base(pack)); err != nil {
			return usage(fmt.Errorf("--package %s: %w", pack, err))
		}
		if _, err := os.Stat(pack); !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%s is there already: name a new folder", pack)
		}
	}
	auto, _, _ := strings.Cut(targets, ",")
	switch targets {
	case "":
		auto, targets = defaultTarget, "v5e,v6e,tpu7x"
	case "none", "all":
		auto = defaultTarget
	}
	s = pallas.Spec(s)
	f, err := suitTarget(s, variant, auto)
	if err != nil {
		return err
	}
	a.say(f)
	f = lower.NewForm(s, pallas.Fit(s, f.Variant))
	v := f.Variant
	p := pallas.Provenance{}
	p.Version, _ = version()
	if targets != "none" {
		if file != "" && file != "-" {
			if err := store.Writable(file); err != nil {
				return err
			}
		}
		if err := a.pallasCosts(f, targets, &p); err != nil {
			return err
		}
	}
	if pack == "" {
		text, err := pallas.Source(s, v, p)
		if err != nil {
			return failed(exitRejected, "%w", err)
		}
		return a.deliver(f, "pallas", auto, file, text)
	}
	files, err := pallas.Package(filepath.Base(pack), s, v, p)
	if err != nil {
		return failed(exitRejected, "%w", err)
	}
	for _, f := range files {
		if err := store.WriteBelow(pack, f.Path, []byte(f.Text)); err != nil {
			return err
		}
	}
	return nil
}

// pallasCosts counts the static cost of a form, as Mosaic kernels, on targets.
func (a *app) pallasCosts(f *lower.Form, names string, p *pallas.Provenance) error {
	targets, err := parseTargets(names)
	if err != nil {
		return err
	}
	x, err := a.instrument(false)
	if err != nil {
		return fmt.Errorf("%w; --target none writes the file without its cost", err)
	}
	p.Libtpu = "by " + a.tpu.Release()
	p.Costs, err = x.PallasCosts(a.ctx, f, targets, func(t *codegen.Target, err error) { a.warn("%s: %v", t.Name, err) })
	return err
}
