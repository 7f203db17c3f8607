package folder

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/gdngen/gdngen/ir/target"
)

// otherKinds are second names of device kinds, which JAX reports too.
var otherKinds = map[string]string{"TPU v5 lite": "TPU v5e", "TPU v5": "TPU v5p", "TPU v6 lite": "TPU v6e"}

// CompilerOptions returns the compiler options that kernels of vmem MiB need, as dict items, and the device kinds with enough VMEM that
// need them, as Python strings and in words.
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

// quoted returns the device kinds of a generation as Python strings.
func quoted(t *target.Target) []string {
	list := []string{strconv.Quote(t.Kind)}
	if other := otherKinds[t.Kind]; other != "" {
		list = append(list, strconv.Quote(other))
	}
	return list
}

// Devices are the devices that run an order.
type Devices struct {
	Kinds  []string // as Python strings; the generation's own come first
	Others string   // names of other generations; may be ""
}

// Kinds returns the devices for each of the named generations, for kernels that take vmem MiB: its own, and other generations whose MXUs
// have as many rows, given to the first that matches. The first generation also gets those without a match.
func Kinds(targets []string, vmem int) map[string]Devices {
	out := map[string]Devices{}
	var rows []int // of the MXUs of each
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
