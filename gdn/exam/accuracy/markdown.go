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
