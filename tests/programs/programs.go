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

// program returns the texts of a preset with a variant, one for each column, or the error in its place. Kernels are
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

// kernels returns the text of a lowered module for a target: the calls, then the bodies of their kernels.
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

// kernelsOf returns the part of a Pallas file that depends on the program. It cuts the imports at the start, and at the
// end the code after the names of axes, which is equal in all files, as is the code that orders phases.
func kernelsOf(python string) string {
	python = strings.Replace(python, strings.TrimSpace(helpers.Pipeline)+"\n\n\n", "", 1)
	if i := strings.Index(python, "\ndef "); i >= 0 {
		python = python[i+1:]
	}
	python, _, _ = strings.Cut(python, "\n# B: batch rows")
	return python
}

// fill sets the present hashes of a row's programs. It returns the columns whose program changed.
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

// explain returns the text of a refusal, and other hashes unchanged.
func (t *table) explain(hash string) string {
	if text, ok := t.refusals[hash]; ok {
		return text
	}
	return hash
}
