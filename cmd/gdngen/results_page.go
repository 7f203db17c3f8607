package main

import (
	"bytes"
	"fmt"
	"strings"
)

// markdown writes the table as a page.
func (r *results) markdown(b *bytes.Buffer) {
	fmt.Fprintf(b, `# Results

Champions by target and shape: of the candidates listed below, the one of least static cycles whose numbers are within the limits. Made by

    gdngen results -o docs/results.md

with %s. S%s Cycles are those of the whole module, per token and value head.

- *of bench* is the ratio to the first table's figure for the same target.
- *HBM* is main memory traffic of the schedule over the necessary one, each input read once and each output written once.
- *VMEM* and *spills* are what the compiler reports of the op that needs most, and executed register spills of the module.
- The last columns are errors against float64 by class of inputs: the largest error over the largest magnitude of the reference, over the
  outputs, of the lowered kernel in the interpreter at up to %d tokens and one key head. gdngen check --help describes the classes.

`, r.Compiler, r.Note[1:], examTokens)
	for i, row := range r.Rows {
		fmt.Fprintf(b, "## %s\n\n`%s`", row.Title, row.spec)
		if row.Precision != "" {
			fmt.Fprintf(b, ", matrix products in %s", row.Precision)
		}
		b.WriteString("\n\n| target | champion | cycles | of bench | HBM | VMEM | spills |")
		for _, c := range r.Classes {
			fmt.Fprintf(b, " %s |", c)
		}
		b.WriteString("\n|---|---|---:|---:|---:|---:|---:|" + strings.Repeat("---:|", len(r.Classes)) + "\n")
		for k, c := range row.Champions {
			if c.Name == "" {
				fmt.Fprintf(b, "| %s | none |%s\n", c.Target, strings.Repeat(" |", 5+len(r.Classes)))
				continue
			}
			hbm, first := "?", "-"
			if c.HBMRatio > 0 {
				hbm = fmt.Sprintf("%.2f", c.HBMRatio)
			}
			if p := r.Rows[0].Champions[k].PerToken; i > 0 && p > 0 {
				first = fmt.Sprintf("%.2f", c.PerToken/p)
			}
			fmt.Fprintf(b, "| %s | %s | %.3f | %s | %s | %s | %d |", c.Target, c.Name, c.PerToken, first, hbm, sizeText(c.Cost.VMEM), c.Cost.Spills)
			at := map[string]string{}
			for _, e := range c.Errors {
				at[e.Class] = fmt.Sprintf("%.1e", e.Error)
			}
			for _, name := range r.Classes {
				fmt.Fprintf(b, " %s |", at[name])
			}
			b.WriteString("\n")
		}
		b.WriteString("\n")
		for _, c := range row.Champions {
			for _, why := range c.Rejected {
				fmt.Fprintf(b, "- %s without %s\n", c.Target, strings.ReplaceAll(why, "|", "/"))
			}
		}
		if strings.HasSuffix(b.String(), "|\n\n") {
			continue
		}
		b.WriteString("\n")
	}
	b.WriteString("## Requirements\n\nNo work at 1024 to 32768 tokens and with 16 or 32 heads more than 1.15 x the bench figure per token; main memory traffic within 1.3 x of the necessary.\n\n")
	if len(r.Missed) == 0 {
		b.WriteString("All are met.\n")
	}
	for _, m := range r.Missed {
		fmt.Fprintf(b, "- missed: %s\n", m)
	}
	b.WriteString("\n## Candidates\n\n| name | variant |\n|---|---|\n")
	for _, c := range r.Candidates {
		fmt.Fprintf(b, "| %s | `%s` |\n", c.Name, c.variant)
	}
	if len(r.Peers) == 0 {
		return
	}
	b.WriteString("\n## Public kernels on the bench work\n\nCounted by the same ruler from the modules that these projects lower, at the date given, with libtpu 0.0.42.1; not measured again by the command.\n\n| kernel | date |")
	for _, c := range r.Rows[0].Champions {
		fmt.Fprintf(b, " %s |", c.Target)
	}
	b.WriteString(" remark |\n|---|---|" + strings.Repeat("---:|", len(r.Rows[0].Champions)) + "---|\n")
	for _, p := range r.Peers {
		fmt.Fprintf(b, "| %s | %s |", p.Name, p.Date)
		for _, c := range r.Rows[0].Champions {
			cell := "-"
			if n, ok := p.Cycles[c.Target]; ok {
				cell = fmt.Sprintf("%.1f", n)
			}
			fmt.Fprintf(b, " %s |", cell)
		}
		fmt.Fprintf(b, " %s |\n", p.Note)
	}
}
