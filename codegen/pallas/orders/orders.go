// Package orders has the files of kernels of a package for devices of several TPU generations: a kernel whose work has the best order on one is
// slower on another, so that a package may have it more than once.
package orders

import (
	"slices"
	"strings"

	"github.com/gdngen/gdngen/codegen/pallas/folder"
	"github.com/gdngen/gdngen/codegen/pallas/share"
	"github.com/gdngen/gdngen/gdn"
)

// Cost is the static cost of the kernels on a target.
type Cost struct {
	Target string
	Cycles int64 // throughput
	Wall   int64 // 0: not known
}

// Part is what some kernels of a package compute, and how, for a TPU generation. The first generation of a package has its order on all devices
// that have none of their own; without a Target there is one order.
type Part struct {
	Name    string
	Target  string
	Spec    gdn.Spec
	Variant gdn.Variant
	Costs   []Cost
}

// File is a file of kernels in a package, and the generations whose order it has.
type File struct {
	Part
	Targets []string
}

// Module is the name of the module: that of its part, and the generation where it is for other ones than the first.
func (f File) Module(first string) string {
	if slices.Contains(f.Targets, first) {
		return f.Name
	}
	return f.Name + "_" + f.Targets[0]
}

// Files are the files of the parts of a package. Parts of one variant are one file, whichever generations they are for. There is one for
// short sequences only where some generation has another variant for them than for long ones.
func Files(parts []Part) (out []File) {
	short := slices.ContainsFunc(parts, func(p Part) bool {
		return p.Name == "short" && !slices.ContainsFunc(parts, func(long Part) bool {
			return long.Name == "forward" && long.Target == p.Target && long.Variant == p.Variant
		})
	})
	for _, p := range parts {
		if p.Name == "short" && !short {
			continue
		}
		i := slices.IndexFunc(out, func(f File) bool { return f.Name == p.Name && f.Variant == p.Variant })
		if i < 0 {
			out = append(out, File{Part: p, Targets: []string{p.Target}})
			continue
		}
		out[i].Targets, out[i].Costs = append(out[i].Targets, p.Target), slices.Concat(out[i].Costs, p.Costs)
	}
	return out
}

// targetsOf are the generations of files, each once, the first one first.
func targetsOf(all []File) (out []string) {
	for _, f := range all {
		for _, t := range f.Targets {
			if !slices.Contains(out, t) {
				out = append(out, t)
			}
		}
	}
	return out
}

// Order is the files of a package for a generation other than the first.
type Order struct {
	Name    string // of the table in Python
	Target  string
	Devices folder.Devices
	Parts   []string // of which it has files of its own
	Modules []string // these
}

// Pairs has what is in place of what, as items of a dictionary: forward: forward_v5e.
func (o Order) Pairs() string {
	var items []string
	for i, p := range o.Parts {
		items = append(items, p+": "+o.Modules[i])
	}
	return strings.Join(items, ", ")
}

// List is the orders of a package but the first.
type List []Order

// For is the module of a name for the device at hand.
func (l List) For(module string) string {
	if slices.ContainsFunc(l, func(o Order) bool { return slices.Contains(o.Parts, module) }) {
		return "_ordered(" + module + ")"
	}
	return module
}

// Table has the modules by kinds of devices, as items of a dictionary.
func (l List) Table() string {
	var items []string
	for _, o := range l {
		for _, kind := range o.Devices.Kinds {
			items = append(items, kind+": "+o.Name)
		}
	}
	return strings.Join(items, ", ")
}

// Of are the generations behind the first that have modules of their own, of kernels that take so many MiB of vector memory.
func Of(all []File, vmem int) (out List) {
	first, targets := all[0].Targets[0], targetsOf(all)
	kinds := folder.Kinds(targets, vmem)
	for _, t := range targets {
		o := Order{Name: strings.ToUpper(t), Target: t, Devices: kinds[t]}
		for _, f := range all {
			if slices.Contains(f.Targets, t) && !slices.Contains(f.Targets, first) {
				o.Parts, o.Modules = append(o.Parts, f.Name), append(o.Modules, f.Module(first))
			}
		}
		if len(o.Parts) > 0 {
			out = append(out, o)
		}
	}
	return out
}

// Shared is what the files of the first generation have in common, and what is left of each file, with the names that it takes from other
// modules. A file of another generation takes what is alike from that of the first.
func Shared(all []File, codes []string) (common string, left []string, taken []map[string][]string) {
	own := len(codes)
	if i := slices.IndexFunc(all, func(f File) bool { return f.Targets[0] != all[0].Targets[0] }); i >= 0 {
		own = i
	}
	common, left, names := share.Out(codes[:own], "STEP")
	for _, n := range names {
		taken = append(taken, map[string][]string{"common": n})
	}
	for i, f := range all[own:] {
		base := slices.IndexFunc(all[:own], func(b File) bool { return b.Name == f.Name })
		rest, from := share.From([]string{common, left[base]}, codes[own+i], "STEP")
		left, taken = append(left, rest), append(taken, map[string][]string{"common": from[0], f.Name: from[1]})
	}
	return common, left, taken
}
