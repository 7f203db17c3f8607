package main

import (
	"encoding/base64"
	"fmt"
	"strings"

	"github.com/gdngen/gdngen/codegen/mosaic"
	"github.com/gdngen/gdngen/codegen/pallas"
	"github.com/gdngen/gdngen/codegen/pallas/helpers"
	"github.com/gdngen/gdngen/codegen/route"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/build"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/target"
)

// program gives the texts of a preset by a variant, one for each column, or the error that there is in its place. Kernels are
// lowered once for all targets.
func program(preset, variant string) (texts [5]string, errs [5]error) {
	all := func(err error) ([5]string, [5]error) {
		for i := range errs {
			errs[i] = err
		}
		return texts, errs
	}
	s, err := gdn.LookupPreset(preset)
	if err != nil {
		return all(err)
	}
	v, err := gdn.ParseVariant(variant)
	if err != nil {
		return all(err)
	}
	m, err := build.Module(s, v)
	if err != nil {
		return all(err)
	}
	texts[0], errs[0] = emitted(m, "stablehlo")
	if texts[1], errs[1] = pallas.Source(s, v, route.Modules, pallas.Provenance{}); errs[1] == nil {
		texts[1] = kernelsOf(texts[1])
	}
	k, err := route.Kernels(m)
	for i, name := range columns[2:] {
		if err != nil {
			errs[2+i] = err
			continue
		}
		texts[2+i], errs[2+i] = kernels(k, name)
	}
	return texts, errs
}

func emitted(m *ir.Module, backend string) (string, error) {
	r, err := route.Lookup(backend)
	if err != nil {
		return "", err
	}
	a, err := r.Emit(m, nil)
	if err != nil {
		return "", err
	}
	return withoutLocations(a.Text), nil
}

// kernels is the text of a lowered module for a target: the calls, and below them their bodies as text.
func kernels(m *ir.Module, name string) (string, error) {
	target, err := target.Lookup(name)
	if err != nil {
		return "", err
	}
	a, err := mosaic.Backend{}.Emit(m, target)
	if err != nil {
		return "", err
	}
	calls, bodies := a.Text, ""
	for _, k := range a.Kernels {
		calls = strings.Replace(calls, base64.StdEncoding.EncodeToString([]byte(k.Text)), k.Name, 1)
		bodies += k.Text
	}
	return withoutLocations(calls + bodies), nil
}

// withoutLocations removes the location at the end of each line.
func withoutLocations(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if i := strings.LastIndex(line, " loc("); i >= 0 && strings.HasSuffix(line, ")\n") {
			line = line[:i] + "\n"
		}
		b.WriteString(line)
	}
	return b.String()
}

// kernelsOf is the part of a Pallas file that is made of programs. Imports come before, and below the names of axes what is the same for all, as
// is what orders phases.
func kernelsOf(python string) string {
	python = strings.Replace(python, strings.TrimSpace(helpers.Pipeline)+"\n\n\n", "", 1)
	if i := strings.Index(python, "\ndef "); i >= 0 {
		python = python[i+1:]
	}
	python, _, _ = strings.Cut(python, "\n# B: batch rows")
	return python
}

// fill gives a row the hashes of its programs as they are now. It lists the columns whose program is another than before.
func (t *table) fill(r *row, texts [5]string, errs [5]error, reason int) (changed []string) {
	for i := range columns {
		h := hash(texts[i])
		if errs[i] != nil {
			h = t.refusal(errs[i])
		}
		old := r.cells[i].now()
		r.cells[i] = r.cells[i].set(h, reason, t.base != "")
		if old != "" && old != h && !(refused(old) && refused(h)) {
			changed = append(changed, fmt.Sprintf("%s by %s, %s: %s, was %s", r.preset, r.variant, columns[i], t.explain(h), t.explain(old)))
		}
	}
	return changed
}

// explain gives the text of a refusal, and a hash as it is.
func (t *table) explain(hash string) string {
	if text, ok := t.refusals[hash]; ok {
		return text
	}
	return hash
}
