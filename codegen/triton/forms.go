package triton

import (
	"fmt"
	"strings"

	"github.com/gdngen/gdngen/gdn"
)

// Form is a variant and the calls that it is for. What takes calls of all sizes is written in several forms, and a call takes the first one
// whose bounds it keeps; the last has none. A bound that is 0 bounds nothing.
type Form struct {
	Name    string // of its module; two forms may share one
	Variant Variant
	Columns int // of all states at most: sequences by value heads by V
	Length  int // tokens of a sequence at most, on the mean
	Tokens  int // of all sequences at most
}

// formRow is a form as a table has it.
type formRow struct {
	name, text              string
	columns, length, tokens int
}

// The forms of a decode step and of a prefill, as Default has them for bf16 on the contest's heads.
var (
	decodeForms = []formRow{
		{"few", "bv=4", 2047, 0, 0}, // programs of 8 columns would be fewer than 256
		{"many", "bv=8", 0, 0, 0},
	}
	prefillForms = []formRow{
		{"scan", "bv=32,stages=2,chunk=32,preparewarps=2,part=0", 8191, 1023, 0},
		{"parts", "bv=64,stages=2,chunk=64,preparewarps=2,part=4", 8191, 0, 6143},
		{"long_parts", "bv=64,stages=2,chunk=64,preparewarps=2,part=16", 8191, 0, 0},
		{"wide", "bv=64,stages=1,chunk=32,preparewarps=1,part=0", 0, 0, 0},
	}
)

// Forms are those of the calls of a spec's heads: a decode step, or packed sequences. changes is the text of a variant that all of them follow.
func Forms(s gdn.Spec, changes string) ([]Form, error) {
	rows := prefillForms
	if decodes(s) {
		rows = decodeForms
	}
	changes = strings.TrimPrefix(strings.TrimPrefix(strings.TrimSpace(changes), gdn.Auto), ",")
	var list []Form
	for _, r := range rows {
		v, err := Default(s).changed(r.text)
		if err == nil {
			v, err = v.kept(s).changed(changes)
		}
		v = v.canon(s)
		if err == nil {
			err = v.Check(s)
		}
		if err != nil {
			return nil, fmt.Errorf("form %s: %w", r.name, err)
		}
		list = append(list, Form{r.name, v, r.columns, r.length, r.tokens})
	}
	return list, nil
}
