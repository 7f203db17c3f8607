package autotune

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/gdngen/gdngen/autotune/strategy"
	"github.com/gdngen/gdngen/codegen/triton"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/ir/target"
)

// gpusOf returns the GPUs of the names; nil if the names are TPUs. A run has only TPUs or only GPUs: their variants and
// figures can not be compared.
func gpusOf(names []string) (list []*target.GPU, err error) {
	for _, name := range names {
		if g, err := target.LookupGPU(name); err == nil {
			list = append(list, g)
		}
	}
	switch i := slices.IndexFunc(names, func(name string) bool { _, err := target.LookupGPU(name); return err != nil }); {
	case len(list) == 0:
		return nil, nil
	case i >= 0:
		return nil, fmt.Errorf("targets %s and %s: a search is for GPUs or for TPU generations, not for both: give each a run of its own", list[0].Name, names[i])
	}
	for _, g := range list {
		if g.Timing == nil {
			return nil, fmt.Errorf("target %s: no time is modelled for it, since its latencies are not known, so nothing ranks candidates (of GPUs a search takes h100)", g.Name)
		}
	}
	return list, nil
}

// tritonTable lists the axes of the triton backend for a spec.
type tritonTable struct{ spec gdn.Spec }

// ParseTargets reads a search's targets, separated by commas: TPU generations (or all), or GPUs. table holds the axes
// for GPUs; it is nil for TPUs.
func ParseTargets(text string, s gdn.Spec) (names []string, table strategy.Table, err error) {
	gpus := false
	for name := range strings.SplitSeq(strings.TrimSuffix(text, ","), ",") {
		name = strings.TrimSpace(name)
		if g, missing := target.LookupGPU(name); missing == nil {
			name, gpus = g.Name, true
		} else if _, missing := target.Lookup(name); missing != nil {
			err = cmp.Or(err, missing)
		}
		names = append(names, name)
	}
	if gpus && err == nil {
		table, err = TableFor(names, s)
	}
	if gpus {
		return names, table, err
	}
	list, err := target.Parse(text)
	names = nil
	for _, t := range list {
		names = append(names, t.Name)
	}
	return names, nil, err
}

// TableFor returns the table of axes for GPU targets; nil for TPUs. It errs if Triton does not support the spec.
func TableFor(targets []string, s gdn.Spec) (strategy.Table, error) {
	gpus, err := gpusOf(targets)
	if err != nil || gpus == nil {
		return nil, err
	}
	if err := triton.Supports(s); err != nil {
		return nil, err
	}
	return tritonTable{s}, nil
}

func (t tritonTable) Kind() string { return "Triton" }

// tritonStages lists the kernels that an axis influences; an axis without an entry influences all.
var tritonStages = map[string][]string{
	"bv": {"scan", "decode"}, "warps": {"scan", "summarise", "decode"}, "stages": {"scan", "summarise"}, "preparewarps": {"prepare"}, "mapbv": {"summarise"},
	"inverse": {"prepare"}, "leaf": {"prepare"}, "solve": {"prepare"}, "tparts": {"scan", "summarise"},
}

func (t tritonTable) Axes() (list []strategy.TableAxis) {
	for _, a := range triton.Axes {
		list = append(list, strategy.TableAxis{Name: a.Name, Doc: a.Doc, Values: a.Values, Stages: tritonStages[a.Name], Rising: a.Name == "prec" || a.Name == "solve" || a.Name == "tparts"})
	}
	return list
}

func (t tritonTable) Canon(text string) (string, error) {
	v, err := triton.Parse(text, t.spec)
	return v.Text(t.spec), err
}

func (t tritonTable) With(variant, axis, value string) (string, error) {
	return t.Canon(variant + "," + axis + "=" + value)
}

func (t tritonTable) Value(variant, axis string) (string, bool) {
	v, err := triton.Parse(variant, t.spec)
	if err != nil {
		return "", false
	}
	return v.Value(t.spec, axis)
}

func (t tritonTable) Cell(variant string) string {
	v, err := triton.Parse(variant, t.spec)
	if err != nil {
		return variant
	}
	return v.Cell(t.spec)
}

func (t tritonTable) Precision(variant string) string {
	v, err := triton.Parse(variant, t.spec)
	if err != nil {
		return ""
	}
	return v.Precision(t.spec)
}

// tritonSeeds are the default seeds of a run: the naive variant, then the best known.
var tritonSeeds = []string{"naive", "auto"}

// tritonSeedDoc describes a seed.
func tritonSeedDoc(text string, s gdn.Spec) string {
	for _, p := range triton.Presets {
		if v, err := triton.Parse(p.Name, s); err == nil && v.Text(s) == text {
			return "seed " + p.Name + ": " + p.Doc
		}
	}
	if triton.Default(s).Text(s) == text {
		return "seed auto: where a spec starts from"
	}
	return "seed given by the user"
}
