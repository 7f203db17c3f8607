package folder

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/gdngen/gdngen/ir/target"
)

// otherKinds are second names of kinds of devices, which JAX knows too.
var otherKinds = map[string]string{"TPU v5 lite": "TPU v5e", "TPU v5": "TPU v5p", "TPU v6 lite": "TPU v6e"}

// CompilerOptions are the options that kernels of so many MiB want of the compiler, as items of a dictionary, and the kinds of devices with as
// much vector memory that want them, as strings and in words.
func CompilerOptions(vmem int) (options, kinds, names string) {
	all, list, words := map[string]string{}, []string{}, []string{}
	for _, t := range target.All() {
		if len(t.Flags) > 0 && t.VMEM >= vmem<<20 {
			maps.Copy(all, t.Flags)
			list, words = append(list, quoted(t)...), append(words, t.Name)
		}
	}
	var items []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		items = append(items, fmt.Sprintf("%q: %q", name, all[name]))
	}
	return strings.Join(items, ", "), strings.Join(list, ", "), "TPU " + strings.Join(words, ", ")
}

// quoted are the kinds of a generation's devices as strings of Python.
func quoted(t *target.Target) []string {
	list := []string{strconv.Quote(t.Kind)}
	if other := otherKinds[t.Kind]; other != "" {
		list = append(list, strconv.Quote(other))
	}
	return list
}

// Devices are those that run what was ordered for a generation.
type Devices struct {
	Kinds  []string // as strings of Python, those of the generation itself first
	Others string   // the names of other generations; may be empty
}

// Kinds are the devices of each of some generations, for kernels that take so many MiB of vector memory: its own, and those of others whose
// matrix units have as many rows, where it is the first such. The first generation has those that are left too.
func Kinds(targets []string, vmem int) map[string]Devices {
	out := map[string]Devices{}
	var rows []int // of the matrix units of each
	for _, name := range targets {
		if t, err := target.Lookup(name); err == nil {
			out[name] = Devices{Kinds: quoted(t)}
			rows = append(rows, t.MXUSize)
		}
	}
	for _, t := range target.All() {
		if slices.Contains(targets, t.Name) || t.VMEM < vmem<<20 {
			continue
		}
		name := targets[max(slices.Index(rows, t.MXUSize), 0)]
		d := out[name]
		d.Kinds = append(d.Kinds, quoted(t)...)
		d.Others = strings.TrimPrefix(d.Others+", "+t.Name, ", ")
		out[name] = d
	}
	return out
}
