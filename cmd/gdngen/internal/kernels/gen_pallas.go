package kernels

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gdngen/gdngen/cmd/gdngen/internal/app"
	"github.com/gdngen/gdngen/codegen/pallas"
	"github.com/gdngen/gdngen/codegen/route"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/internal/store"
	"github.com/gdngen/gdngen/ir/target"
)

// pallasForm returns the form that the Pallas file of a spec is written from, and the form that the variant names on a target.
func pallasForm(s gdn.Spec, variant, target string) (file, chosen *route.Form, err error) {
	if s = pallas.Spec(s); s.Packed && s.Seqs == 0 {
		return nil, nil, errors.New("pallas: the tensors of a file have a batch axis, of any number of rows: leave out packed, or give seqs")
	}
	if chosen, err = resolveFile(s, variant, target); err != nil {
		return nil, nil, err
	}
	return route.NewForm(s, pallas.Fit(s, chosen.Variant)), chosen, nil
}

// fileOrders are changes with which files cost less on some targets than with auto, whose variant is the best for Mosaic: files
// order instructions differently, with heads interleaved. In-order cycles per token and head: train 4.96 for 5.12 on tpu7x, with
// made gates 5.15 for 5.26; 6.88 for 8.07 on v5e, with made gates 7.52 for 8.01. (On v6e it would be 4.88 for 4.90, not worth 36
// lines.) With norms 9.49 for 9.85 on v5e, with made gates too 9.66 for 10.23. Eight packed sequences 2.70 for 2.82 on v6e and
// 2.68 for 2.77 on tpu7x, 4.29 for 4.37 on v5e. Counted in files whose text ordered their phases.
var fileOrders = []struct {
	target, changes string
	applies         func(gdn.Spec, gdn.Variant) bool
}{
	{"tpu7x", "bwd.state_delay=20,bwd.head_skew=0", trainsInPhases},
	{"v5e", "decay_bf16=rows,bwd.state_delay=10", trainsByGiven},
	{"v5e", "decay_bf16=rows", trainsByMade},
	{"v5e", "bwd.state_delay=6", trainsByNorms},
	{"v5e", "decay_bf16=rows", packsWhole},
	{"v6e", "state_whole=no,state_delay=3", packsWhole},
	{"tpu7x", "state_whole=no,state_delay=3", packsWhole},
}

// trainsInPhases reports a training step of equal-length sequences, without L2 norms and channels, whose backward kernel has a phase after the state.
func trainsInPhases(s gdn.Spec, v gdn.Variant) bool {
	return s.Direction == gdn.Train && s.Seqs == 0 && !s.L2Norm && !s.Rule.Channels() && v.Backward.PhasesAfter > 0
}

// trainsByGiven and trainsByMade split trainsInPhases: gates given as inputs, or computed in the kernel.
func trainsByGiven(s gdn.Spec, v gdn.Variant) bool {
	return s.Gates == gdn.GatesGiven && trainsInPhases(s, v)
}

func trainsByMade(s gdn.Spec, v gdn.Variant) bool {
	return s.Gates != gdn.GatesGiven && trainsInPhases(s, v)
}

// trainsByNorms reports equal-length sequences with L2 norms whose backward kernel has a grain (norms' gradients in longer pieces in Mosaic).
func trainsByNorms(s gdn.Spec, v gdn.Variant) bool {
	return s.L2Norm && s.Seqs == 0 && v.Backward.Grain > 0
}

// packsWhole reports packed sequences whose forward kernel applies whole operands to the state in its phase.
func packsWhole(s gdn.Spec, v gdn.Variant) bool { return s.Seqs > 0 && v.Forward.StateWhole }

// resolveFile is resolveFor for a file, with fileOrders applied. Axes that the text names stay.
func resolveFile(s gdn.Spec, variant, target string) (*route.Form, error) {
	f, err := resolveFor(s, variant, target)
	if err != nil || f.From == nil || f.Promoted != "" {
		return f, err
	}
	for _, o := range fileOrders {
		named := slices.ContainsFunc(strings.Split(o.changes, ","), func(change string) bool {
			axis, _, _ := strings.Cut(change, "=")
			return strings.Contains(variant, axis)
		})
		if o.target == target && !named && o.applies(s, f.Variant) {
			return resolveFor(s, variant+","+o.changes, target)
		}
	}
	return f, nil
}

// pallasTargets returns the targets whose costs a file or package states, and those whose orders it has; the default if none is named.
func pallasTargets(targets string) (costed string, orders []string, err error) {
	switch targets {
	case "none", "all":
		return targets, []string{app.DefaultTarget}, nil
	case "":
		return "v5e,v6e,tpu7x", []string{app.DefaultTarget}, nil
	}
	list, err := app.ParseTargets(targets)
	for _, t := range list {
		orders = append(orders, t.Name)
	}
	return targets, orders, err
}

// pallasFolder writes the Pallas package of a spec into a new folder.
func (a CLI) pallasFolder(g *genFlags) error {
	s, err := genSpec(g.spec, g.stored)
	if err != nil {
		return err
	}
	if err := pallas.CheckPackage(filepath.Base(g.pack)); err != nil {
		return app.Usage(fmt.Errorf("--package %s: %w", g.pack, err))
	}
	if err := newFolder(g.pack); err != nil {
		return err
	}
	targets, orders, err := pallasTargets(g.target)
	if err != nil {
		return err
	}
	return genPackage(a, s, g.variant, orders, targets, g.pack)
}

// pallasFile writes the Python file of a spec.
func (a CLI) pallasFile(s gdn.Spec, g *genFlags) error {
	targets, orders, err := pallasTargets(g.target)
	if err != nil {
		return err
	}
	auto := orders[0]
	f, chosen, err := pallasForm(s, g.variant, auto)
	if err != nil {
		return err
	}
	a.Say(chosen)
	v := f.Variant
	s = f.Spec
	p := pallas.Provenance{Unasked: targets == "none"}
	p.Version, _ = app.Version()
	if targets != "none" {
		if g.file != "" && g.file != "-" {
			if err := store.Writable(g.file); err != nil {
				return err
			}
		}
		if err := a.pallasCosts(f, targets, &p); err != nil {
			return err
		}
	}
	text, err := pallas.Source(s, v, route.Modules, p)
	if err != nil {
		return app.Failed(app.ExitRejected, "%w", err)
	}
	return a.emit(f, g.backend, auto, g.file, text)
}

// genPackage writes a package of kernels for training and inference, in the orders of some targets; the first target's
// have no suffix. The variant applies to whole sequences; for a few tokens and for packed sequences auto is used.
func genPackage(a CLI, s gdn.Spec, variant string, orders []string, targets, pack string) error {
	if s.Mixed > 0 {
		return genOperator(a, s, variant, orders, targets, pack)
	}
	p := pallas.Provenance{Unasked: targets == "none"}
	p.Version, p.Revision = app.Version()
	begun := time.Now()
	p.Tell = func(text string) { a.Note("%s (after %v)", text, time.Since(begun).Round(time.Second)) }
	if targets != "none" {
		a.Note("costs are compiled, which takes minutes where the cache has none; --target none writes the package without them")
	}
	var parts []pallas.Part
	for _, order := range orders {
		costed := targets
		if len(orders) > 1 {
			costed = order
		}
		for _, part := range pallas.Parts(s) {
			text := variant
			if part.Name == "decode" || part.Name == "packed" {
				text = gdn.Auto
			}
			f, err := resolveFile(part.Spec, text, order)
			if err != nil {
				return fmt.Errorf("%s: %w", part.Name, err)
			}
			a.Say(f)
			f = route.NewForm(part.Spec, pallas.Fit(part.Spec, f.Variant))
			part.Target, part.Variant = order, f.Variant
			if targets != "none" {
				p.Tell(fmt.Sprintf("costs %d of %d: %s for %s", len(parts)+1, len(orders)*len(pallas.Parts(s)), part.Name, costed))
				if err := a.pallasCosts(f, costed, &p); err != nil {
					return err
				}
				part.Costs = p.Costs
			}
			parts = append(parts, part)
		}
	}
	p.Command = packageCommand(s, variant, orders, pack)
	files, err := pallas.Package(filepath.Base(pack), parts, route.Modules, p)
	return writePackage(pack, files, err)
}

// genOperator writes a package for mixed batches.
func genOperator(a CLI, s gdn.Spec, variant string, orders []string, targets, pack string) error {
	if len(orders) > 1 {
		return app.Usage(errors.New("--target: a package of mixed batches is for one target"))
	}
	f, err := resolveFor(s, variant, orders[0])
	if err != nil {
		return err
	}
	a.Say(f)
	p := pallas.Provenance{Unasked: targets == "none", Command: packageCommand(s, variant, orders, pack)}
	p.Version, p.Revision = app.Version()
	if targets != "none" {
		if err := a.pallasCosts(f, targets, &p); err != nil {
			return err
		}
	}
	files, err := pallas.Operator(filepath.Base(pack), s, f.Variant.Fit(s), route.Modules, p)
	return writePackage(pack, files, err)
}

// writePackage writes the files of a package, and its wheel, into a new folder.
func writePackage(pack string, files []pallas.File, err error) error {
	if err != nil {
		return app.Failed(app.ExitRejected, "%w", err)
	}
	for _, f := range files {
		if err := store.WriteBelow(pack, f.Path, []byte(f.Text)); err != nil {
			return err
		}
	}
	name, wheel, err := pallas.Wheel(filepath.Base(pack), files)
	if err != nil {
		return err
	}
	return store.WriteBelow(pack, "dist/"+name, wheel)
}

// packageCommand returns the command that regenerates a package.
func packageCommand(s gdn.Spec, variant string, orders []string, pack string) string {
	command := "gdngen gen --spec " + s.String()
	if variant != gdn.Auto && variant != "" {
		command += " --variant " + variant
	}
	command += " --backend pallas"
	if targets := strings.Join(orders, ","); targets != app.DefaultTarget {
		command += " --target " + targets
	}
	return command + " --package " + filepath.Base(pack)
}

// pallasCosts adds the static costs of a form, as Mosaic kernels on targets, to the provenance.
func (a CLI) pallasCosts(f *route.Form, names string, p *pallas.Provenance) error {
	targets, err := app.ParseTargets(names)
	if err != nil {
		return err
	}
	x, err := a.Instrument(false)
	if err != nil {
		return fmt.Errorf("%w; --target none writes the file without its cost", err)
	}
	p.Libtpu = "by " + a.TPU.Release()
	p.Costs, err = x.PallasCosts(a.Ctx, f, targets, func(t *target.Target, err error) { a.Warn("%s: %v", t.Name, err) })
	return err
}
