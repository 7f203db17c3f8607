package accuracy

import (
	"fmt"

	"github.com/gdngen/gdngen/gdn"
)

// FLA names the kernel beside which errors are stated.
const FLA = "FLA bf16, chunk 64 (GPU)"

// claims say what a class of accuracy may err: so many times a public kernel, with columns of their own share, or a share of the reference.
var claims = map[gdn.Accuracy]struct {
	than   string
	most   float64
	beyond map[string]float64
}{
	gdn.AccuracyFast: {"tokamax", 1.3, map[string]float64{"faint": 1.4}},
	gdn.AccuracyFLA:  {FLA, 1.05, map[string]float64{"faint": 1.3, "faint, long": 1.1}},
	gdn.AccuracyF32:  {"", 1.1e-3, nil},
}

// Limit is the largest error that a class of accuracy claims on a column. Example: of tokamax's 4e-3 on random keys, fast may have 5.2e-3.
func (c Column) Limit(a gdn.Accuracy) (Error, error) {
	x, ok := claims[a]
	if !ok {
		return Error{}, fmt.Errorf("accuracy class %q claims no errors", a)
	}
	than := Error{O: 1, State: 1}
	if c.Long() {
		than.Last = 1
	}
	if x.than != "" {
		if than, ok = Of(x.than, c.Name); !ok {
			return Error{}, fmt.Errorf("no errors of %s on %s are known", x.than, c.Name)
		}
	}
	most := max(x.most, x.beyond[c.Name])
	return Error{most * than.O, most * than.Last, most * than.State}, nil
}

// Short lists the columns of few tokens, which a search can afford.
func Short() []Column {
	var l []Column
	for _, c := range Columns {
		if !c.Long() {
			l = append(l, c)
		}
	}
	return l
}
