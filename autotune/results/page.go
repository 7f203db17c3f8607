package results

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/internal/terminal"
)

func (r *Table) markdown(b *bytes.Buffer) {
	fmt.Fprintf(b, `# Results

Champions by target and shape: of the candidates named below, the one of least in-order cycles whose numbers are within the limits; of targets whose latencies are not known, of least issue cycles. Made by

    gdngen list results --out docs/data/results.md

with %s%s. %s Cycles are those of the whole module, per token and value head: in order, and in brackets
issue cycles, alone where the latencies of a target are not known.

- *form* is the variant that auto stands for on the target.
- *ratio* is to the first table's figure for the same target, or to that of the table named.
- *HBM* is traffic of the schedule over the necessary one, each input read once and each output written once (what a training
  step keeps for its backward pass comes on top); ? where the compiler does not tell a DMA's size. Where both cores of a v5p share a kernel it is that of one.
- *VMEM* and *spills* are what the compiler reports of the op that needs most, and executed register spills of the module.
%s
`, r.Compiler, r.revision(), strings.ToUpper(r.Note[:1])+r.Note[1:], errorsNote())
	r.overview(b)
	for i := range r.Rows {
		r.table(b, i)
	}
	if r.Front != nil {
		r.Front.markdown(b, r.Classes)
	}
	b.WriteString("## Requirements\n\nWorks whose tables say so keep within a multiple of another work's figure for the same target; HBM traffic within 1.3 x of the necessary where a work does not say otherwise.\n\n")
	if len(r.Missed) == 0 {
		b.WriteString("All are met.\n")
	}
	for _, m := range r.Missed {
		fmt.Fprintf(b, "- missed: %s\n", m)
	}
	b.WriteString("\n## Candidates\n\n| name | variant |\n|---|---|\n")
	for _, c := range r.Candidates {
		text := c.Variant
		if _, ok := gdn.ParseAuto(text); !ok {
			text = c.variant.String()
		}
		fmt.Fprintf(b, "| %s | `%s` |\n", c.Name, text)
	}
	r.peers(b)
}

// errorsNote explains the last columns.
func errorsNote() string {
	return fmt.Sprintf(`- The last columns are errors against float64 by class of inputs, as `+"`gdngen check`"+` judges them: of the lowered kernel in the interpreter at up to %d
  tokens, with all heads and %d seeds, the root mean square of the error over that of the reference, of the output that is nearest to its
  limit; of a training step, with an initial state, of the gradient. A champion is within the limits of rms, of the largest error and of
  bias on every class that its work can have, those without a column too. `+"`gdngen list results --errors docs/data/results.md`"+` makes them anew.
`, examTokens, examSeeds)
}

// revision names the revision of the kernels, if the build knows it.
func (r *Table) revision() string {
	if r.Revision == "" {
		return ""
	}
	return ", by gdngen at revision " + r.Revision
}

// overview writes one line per row: cycles on each target.
func (r *Table) overview(b *bytes.Buffer) {
	b.WriteString("| work |")
	for _, c := range r.Rows[0].Champions {
		fmt.Fprintf(b, " %s |", c.Target)
	}
	b.WriteString("\n|---|" + strings.Repeat("---:|", len(r.Rows[0].Champions)) + "\n")
	for _, row := range r.Rows {
		fmt.Fprintf(b, "| %s |", row.Title)
		for _, first := range r.Rows[0].Champions {
			cell := ""
			for _, c := range row.Champions {
				if c.Target == first.Target {
					cell = "none"
					if c.Name != "" {
						cell = c.cell()
					}
				}
			}
			fmt.Fprintf(b, " %s |", cell)
		}
		b.WriteString("\n")
	}
	b.WriteString("\n")
}

// table writes row i with the champion of each target.
func (r *Table) table(b *bytes.Buffer, i int) {
	row := &r.Rows[i]
	by := r.by(row)
	fmt.Fprintf(b, "## %s\n\n`%s`", row.Title, row.spec)
	if row.Precision != "" {
		fmt.Fprintf(b, ", class %s", row.Precision)
	}
	if row.Within > 0 {
		fmt.Fprintf(b, "; within %.2f x of %s", row.Within, within(by.Title))
	}
	if row.Traffic > 0 {
		fmt.Fprintf(b, "; traffic within %.1f x of the necessary", row.Traffic)
	}
	if row.Field {
		b.WriteString("; gradients within the limits of flash-linear-attention on every class")
	}
	b.WriteString("\n\n| target | champion | form | cycles | ratio | HBM | VMEM | spills |")
	for _, c := range r.Classes {
		fmt.Fprintf(b, " %s |", c)
	}
	b.WriteString("\n|---|---|---|---:|---:|---:|---:|---:|" + strings.Repeat("---:|", len(r.Classes)) + "\n")
	var texts []string
	on := map[string][]string{}
	for _, c := range row.Champions {
		if c.Name == "" {
			fmt.Fprintf(b, "| %s | none |%s\n", c.Target, strings.Repeat(" |", 6+len(r.Classes)))
			continue
		}
		if on[c.Text] == nil {
			texts = append(texts, c.Text)
		}
		on[c.Text] = append(on[c.Text], c.Target)
		hbm, first := "?", "-"
		if c.HBMRatio > 0 {
			hbm = fmt.Sprintf("%.2f", c.HBMRatio)
		}
		if p := by.on(c.Target).PerToken; by != row && p > 0 {
			first = fmt.Sprintf("%.2f", c.PerToken/p)
		}
		fmt.Fprintf(b, "| %s | %s | %s | %s | %s | %s | %s | %d |%s\n", c.Target, c.Name, formOf(c), figure("%.3f", c.Ruler, c.PerToken, c.Issued), first, hbm, terminal.Size(c.Cost.VMEM), c.Cost.Spills, errorCells(c.Errors, r.Classes))
	}
	b.WriteString("\n")
	for _, text := range texts {
		fmt.Fprintf(b, "    gdngen explain --spec %s --variant %s --target %s\n", row.Spec, text, strings.Join(on[text], ","))
	}
	if len(texts) > 0 {
		b.WriteString("\n")
	}
	rejected := false
	for _, c := range row.Champions {
		for _, why := range c.Rejected {
			fmt.Fprintf(b, "- %s without %s\n", c.Target, strings.ReplaceAll(why, "|", "/"))
			rejected = true
		}
	}
	if rejected {
		b.WriteString("\n")
	}
}

// formOf returns the variant that auto chose; other texts are returned as they are.
func formOf(c *Champion) string {
	v, err := gdn.ParseVariant(c.Variant)
	if _, ok := gdn.ParseAuto(c.Text); !ok || err != nil {
		return ""
	}
	return v.Short()
}
