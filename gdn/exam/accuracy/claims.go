package accuracy

import (
	"fmt"

	"github.com/gdngen/gdngen/gdn"
)

// FLA is the table's name of the flash-linear-attention kernel.
const FLA = "FLA bf16, chunk 64 (GPU)"

// claims are the errors that each class promises: a multiple (most, on some columns beyond) of a public kernel's, or of 1e-3 of the reference if than is
// empty. Each factor is the worst of the table, rounded up to a twentieth; TestClaims checks this.
var claims = map[gdn.Accuracy]struct {
	than   string
	most   float64
	beyond map[string]float64
}{
	gdn.AccuracyFast: {"tokamax", 1.05, map[string]float64{"faint": 1.2, "reflect, long": 1.25, "cos.9, beta 2, long": 1.15}},
	gdn.AccuracyFLA:  {FLA, 1.05, map[string]float64{"faint": 1.1}},
	gdn.AccuracyF32:  {"", 1.05, nil},
}

// Limit returns the largest errors that a class promises on a column. Example: tokamax has 4e-3 on random keys, so fast may have 4.2e-3. It fails
// for a class without claims and for a column without recorded errors.
func (c Column) Limit(a gdn.Accuracy) (Error, error) {
	x, ok := claims[a]
	if !ok {
		return Error{}, fmt.Errorf("accuracy class %q claims no errors", a)
	}
	than, ok := c.against(x.than)
	if !ok {
		return Error{}, fmt.Errorf("no errors of %s on %s are known", x.than, c.Name)
	}
	most := max(x.most, x.beyond[c.Name])
	return Error{most * than.O, most * than.Last, most * than.State}, nil
}

// against returns the errors of a public kernel on a column, or 1e-3 for an empty name.
func (c Column) against(kernel string) (Error, bool) {
	if kernel != "" {
		return Of(kernel, c.Name)
	}
	e := Error{O: 1e-3, State: 1e-3}
	if c.Long() {
		e.Last = 1e-3
	}
	return e, true
}

// Short returns the columns of short runs, which a search can afford.
func Short() []Column {
	var l []Column
	for _, c := range Columns {
		if !c.Long() {
			l = append(l, c)
		}
	}
	return l
}
