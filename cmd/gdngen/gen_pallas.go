package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/gdngen/gdngen/autotune/store"
	"github.com/gdngen/gdngen/codegen/lower"
	"github.com/gdngen/gdngen/codegen/pallas"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/measure"
)

var packageName = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)

// keywords are the words of Python that packageName fits and no package can have.
var keywords = strings.Fields("and as assert async await break class continue def del elif else except finally for from global if import in is lambda " +
	"nonlocal not or pass raise return try while with yield")

// genPallas writes the Python of a spec: a file, or a package into a new folder.
func (a *app) genPallas(s gdn.Spec, variant, targets, file, pack string) error {
	if pack != "" {
		if file != "" {
			return usage(errors.New("give --output for a file or --package for a folder, not both"))
		}
		if name := filepath.Base(pack); !packageName.MatchString(name) || slices.Contains(keywords, name) {
			return usage(fmt.Errorf("--package %s: %q is not the name of a Python package: use lower-case letters, digits and _, and no keyword", pack, name))
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
	v := f.Variant
	a.say(f)
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
		return a.writeText(file, text)
	}
	files, err := pallas.Package(filepath.Base(pack), s, v, p)
	if err != nil {
		return failed(exitRejected, "%w", err)
	}
	for _, f := range files {
		path := filepath.Join(pack, filepath.FromSlash(f.Path))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := store.WriteFile(path, []byte(f.Text)); err != nil {
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
	route, err := lower.Lookup("mosaic")
	if err != nil {
		return err
	}
	program, err := measure.Of(f, route)
	if err != nil {
		return err
	}
	for _, t := range targets {
		c, err := x.Static(a.ctx, program, t, measure.Options{})
		if a.ctx.Err() != nil {
			return err
		}
		if err != nil {
			a.warn("%s: %v", t.Name, err)
			continue
		}
		p.Costs = append(p.Costs, pallas.Cost{Target: t.Name, Cycles: c.Report.Cycles, Wall: max(0, c.Report.Wall.Cycles)})
	}
	return nil
}
