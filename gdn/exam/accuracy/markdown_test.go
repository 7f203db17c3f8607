package accuracy

import (
	"fmt"
	"strings"

	"github.com/gdngen/gdngen/gdn"
)

// Markdown is the table of the short columns, or of the long ones: a row for each kernel, errors times 1000.
func Markdown(long bool) string {
	var b strings.Builder
	row := func(cells []string) { fmt.Fprintf(&b, "| %s |\n", strings.Join(cells, " | ")) }
	heads, rule := []string{"kernel"}, []string{"---"}
	for _, c := range Columns {
		if c.Long() == long {
			name := strings.TrimSuffix(c.Name, ", long")
			if long {
				name = fmt.Sprintf("%s, %d", name, c.Tokens)
			}
			heads, rule = append(heads, name), append(rule, "---:")
		}
	}
	row(heads)
	row(rule)
	for _, kernel := range append(Ours(), Peers()...) {
		cells := []string{kernel}
		for _, r := range Table {
			if r.Kernel == kernel && r.Variant != "" && len(cells) == 1 {
				cells[0] = fmt.Sprintf("%s: `%s`", kernel, r.Variant)
			}
		}
		for _, c := range Columns {
			if c.Long() == long {
				e, _ := Of(kernel, c.Name)
				cells = append(cells, e.String())
			}
		}
		row(cells)
	}
	return b.String()
}

// Legend lists the columns.
func Legend() string {
	var b strings.Builder
	for _, c := range Columns {
		if !strings.HasPrefix(c.Doc, "as ") {
			fmt.Fprintf(&b, "- %s: %s\n", strings.TrimSuffix(c.Name, ", long"), c.Doc)
		} else if _, decay, ok := strings.Cut(c.Doc, ", "); ok {
			fmt.Fprintf(&b, "- %s: %s, %s\n", strings.TrimSuffix(c.Name, ", long")+" of long runs", strings.Split(c.Doc, ",")[0], decay)
		}
	}
	return b.String()
}

// Claimed is what each class of accuracy claims, with the worst of the table.
func Claimed() string {
	var b strings.Builder
	b.WriteString("| class | unit | at most | but |\n|---|---|---|---|\n")
	for a := gdn.AccuracyFast; a <= gdn.AccuracyF32; a++ {
		unit := claims[a].than
		if unit == "" {
			unit = "a thousandth of the reference"
		}
		common, own := partition(a)
		c, times := worst(a, common)
		fmt.Fprintf(&b, "| `%s` | %s | %g (%.2f on %s) |", a, unit, claims[a].most, times, c.Name)
		var cells []string
		for _, c := range own {
			_, times := worst(a, []Column{c})
			cells = append(cells, fmt.Sprintf("%g (%.2f) on %s", claims[a].beyond[c.Name], times, c.Name))
		}
		fmt.Fprintf(&b, " %s |\n", strings.Join(cells, "; "))
	}
	return b.String()
}

// worst is the column of the table, of some, where a class of accuracy errs most in the unit of its claim.
func worst(a gdn.Accuracy, columns []Column) (c Column, times float64) {
	for _, at := range columns {
		e, _ := Of("gdngen, "+a.String(), at.Name)
		if than, ok := at.against(claims[a].than); ok && e.Worst(than) > times {
			c, times = at, e.Worst(than)
		}
	}
	return c, times
}

// partition parts the columns into those of the common claim of a class and those with one of their own.
func partition(a gdn.Accuracy) (common, own []Column) {
	for _, c := range Columns {
		if _, ok := claims[a].beyond[c.Name]; ok {
			own = append(own, c)
		} else {
			common = append(common, c)
		}
	}
	return common, own
}

func (r Row) String() string {
	number := func(x float64) string {
		if x == 0 {
			return ""
		}
		return fmt.Sprintf("%.2e", x)
	}
	return strings.Join([]string{r.Kernel, r.Column, number(r.O), number(r.Last), number(r.State), r.Variant}, "\t")
}
