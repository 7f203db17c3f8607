package folder

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/gdngen/gdngen/target"
)

// otherKinds are second names of kinds of devices, which JAX knows too.
var otherKinds = map[string]string{"TPU v5 lite": "TPU v5e", "TPU v5": "TPU v5p"}

// CompilerOptions are the options that kernels of so many MiB want of the compiler, as items of a dictionary, and the kinds of devices with as
// much vector memory that want them, as strings and in words.
func CompilerOptions(vmem int) (options, kinds, names string) {
	all, list, words := map[string]string{}, []string{}, []string{}
	for _, t := range target.All() {
		if len(t.Flags) > 0 && t.VMEM >= vmem<<20 {
			maps.Copy(all, t.Flags)
			list, words = append(list, strconv.Quote(t.Kind)), append(words, t.Name)
			if other := otherKinds[t.Kind]; other != "" {
				list = append(list, strconv.Quote(other))
			}
		}
	}
	var items []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		items = append(items, fmt.Sprintf("%q: %q", name, all[name]))
	}
	return strings.Join(items, ", "), strings.Join(list, ", "), "TPU " + strings.Join(words, ", ")
}
