package accuracy

import (
	"fmt"

	"github.com/gdngen/gdngen/gdn"
)

// FLA names the kernel that errors are compared with.
const FLA = "FLA bf16, chunk 64 (GPU)"

// claims say what a class of accuracy may err: so many times a public kernel, with columns of their own share, or thousandths of the
// reference. Each is the next twentieth above the worst of the table, so that it says what is known; TestClaims holds it to that.
var claims = map[gdn.Accuracy]struct {
	than   string
	most   float64
	beyond map[string]float64
}{
	gdn.AccuracyFast: {"tokamax", 1.05, map[string]float64{"faint": 1.2, "reflect, long": 1.25, "cos.9, beta 2, long": 1.15}},
	gdn.AccuracyFLA:  {FLA, 1.05, map[string]float64{"faint": 1.1}},
	gdn.AccuracyF32:  {"", 1.05, nil},
}

// Limit is the largest error that a class of accuracy claims on a column. Example: of tokamax's 4e-3 on random keys, fast may have 4.2e-3.
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

// against is the error of a public kernel on a column, or a thousandth of the reference where none is named.
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
