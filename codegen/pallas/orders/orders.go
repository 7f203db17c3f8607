// Package orders chooses the kernel files of a package for several TPU generations. The best order of a kernel's work on one generation
// is slower on another, so a package may have a kernel in several orders.
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
	Cycles int64 // issue cycles
	Wall   int64 // in-order cycles; 0: unknown
}

// Part is a group of kernels of a package, with spec and variant, for a TPU generation. Devices without an order of their own use the
// first generation's. With Target "" there is one order.
type Part struct {
	Name    string
	Target  string
	Spec    gdn.Spec
	Variant gdn.Variant
	Costs   []Cost
}

// File is a file of kernels in a package, with the generations that use it.
type File struct {
	Part
	Targets []string
}

// Module returns the module's name: the part's name, and the generation if the first one does not use it.
func (f File) Module(first string) string {
	if slices.Contains(f.Targets, first) {
		return f.Name
	}
	return f.Name + "_" + f.Targets[0]
}

// Files groups the parts of a package into files: parts of one variant share a file for all generations. There is one for short
// sequences only if some generation has a variant for them that differs from the long ones'.
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

// targetsOf returns the generations of files, each once, in order of appearance.
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

// Order has the files that a generation uses instead of the first generation's.
type Order struct {
	Name    string // of the Python table
	Target  string
	Devices folder.Devices
	Parts   []string // the parts with files of their own
	Modules []string // their modules
}

// Pairs returns items of a dict from a part to its module: forward: forward_v5e.
func (o Order) Pairs() string {
	var items []string
	for i, p := range o.Parts {
		items = append(items, p+": "+o.Modules[i])
	}
	return strings.Join(items, ", ")
}

// List is the orders of a package except the first generation's.
type List []Order

// For returns the Python text of a module for the device at hand.
func (l List) For(module string) string {
	if slices.ContainsFunc(l, func(o Order) bool { return slices.Contains(o.Parts, module) }) {
		return "_ordered(" + module + ")"
	}
	return module
}

// Table returns items of a dict from device kinds to the tables of modules.
func (l List) Table() string {
	var items []string
	for _, o := range l {
		for _, kind := range o.Devices.Kinds {
			items = append(items, kind+": "+o.Name)
		}
	}
	return strings.Join(items, ", ")
}

// Of returns the orders of the generations after the first that have modules of their own, for kernels that take vmem MiB of VMEM.
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

// Shared moves definitions that the first generation's files share to a common text. It returns that text, the rest of each file, and
// the names that each imports from other modules. A file of another generation imports equal definitions from the first one's file.
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
