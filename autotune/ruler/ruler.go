// Package ruler names the units in which the costs of programs are compared.
package ruler

import (
	"fmt"

	"github.com/gdngen/gdngen/ir/target"
)

// Ruler is a unit of cost. Figures of different rulers can not be compared. Files of earlier versions
// have other names for two of them, which are read as the present ones.
type Ruler string

// The rulers.
const (
	InOrder  Ruler = "in-order" // cycles of a TPU's schedule in order: issue, waits, transfers, copies around kernels
	Issue    Ruler = "issue"    // cycles that a TPU's schedule issues, and waits for MXUs
	Modelled Ruler = "modelled" // cycles of a GPU's modelled time
)

// former has the names of earlier versions.
var former = map[string]Ruler{"wall": InOrder, "throughput": Issue}

// UnmarshalText reads a ruler's name, or a name of an earlier version. It accepts any text; Parse refuses unknown
// names.
func (r *Ruler) UnmarshalText(text []byte) error {
	*r = Ruler(text)
	if now, ok := former[string(text)]; ok {
		*r = now
	}
	return nil
}

// Parse reads the name of a TPU's ruler; an empty name is InOrder.
func Parse[T ~string](name T) (Ruler, error) {
	var r Ruler
	_ = r.UnmarshalText([]byte(name))
	switch r {
	case "":
		return InOrder, nil
	case InOrder, Issue:
		return r, nil
	}
	return "", fmt.Errorf("unknown ruler %q (known: %s %s)", name, InOrder, Issue)
}

// On returns the ruler to use on a target: issue cycles if the target's latencies are unknown.
func (r Ruler) On(generation string) Ruler {
	if t, err := target.Lookup(generation); err != nil || t.Timing == nil {
		return Issue
	}
	return r
}

// Text describes the cycles of a ruler.
func (r Ruler) Text() string {
	switch r {
	case InOrder:
		return "static in-order cycles: the compiled schedule with its stalls and its waits for HBM and for copies around kernels"
	case Issue:
		return "static issue cycles: the bundles that the schedule issues and its waits for MXUs, or the time of its HBM traffic if that is more; a lower bound of compute time"
	case Modelled:
		return "cycles of a modelled time: machine code in an order that a warp scheduler could take, with the latencies that are known of the GPU"
	}
	return ""
}
