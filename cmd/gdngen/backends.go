package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gdngen/gdngen/codegen/lower"
	"github.com/gdngen/gdngen/internal/terminal"
	"github.com/gdngen/gdngen/ir"
)

// backendRow is a backend and its ops.
type backendRow struct {
	Name string  `json:"name"`
	Doc  string  `json:"doc"`
	Ops  []opRow `json:"ops"`

	supported int
}

// opRow is what a backend does with an op.
type opRow struct {
	Op        string `json:"op"`
	Supported bool   `json:"supported"`
	Reason    string `json:"reason,omitempty"` // why not
}

func (a *app) backendsCmd() *cobra.Command {
	return &cobra.Command{
		Use:               "backends [NAME]",
		Short:             "List the backends, the ops they render and those they refuse",
		Long:              "backends lists what renders modules. With a name, it lists each op that the backend renders, and why it refuses the others.",
		Example:           "  gdngen backends\n  gdngen backends mosaic\n  gdngen backends -o json",
		GroupID:           "know",
		Args:              args(cobra.MaximumNArgs(1)),
		ValidArgsFunction: cobra.FixedCompletions(backendNames(), cobra.ShellCompDirectiveNoFileComp),
		RunE: func(_ *cobra.Command, args []string) error {
			routes := lower.Routes
			if len(args) == 1 {
				r, err := parseBackend(args[0])
				if err != nil {
					return err
				}
				routes = []lower.Route{r}
			}
			var rows []backendRow
			for _, r := range routes {
				rows = append(rows, describeBackend(r))
			}
			return emit(a, rows, rows, func(w io.Writer) {
				for i, r := range rows {
					if i > 0 {
						fmt.Fprintln(w)
					}
					r.write(a, w)
				}
			})
		},
	}
}

func describeBackend(r lower.Route) backendRow {
	row := backendRow{Name: r.Name(), Doc: r.Doc}
	for op := ir.BadOp + 1; op < ir.NumOps; op++ {
		o := opRow{Op: op.String(), Supported: true}
		if err := r.Supports(op); err != nil {
			o.Supported, o.Reason = false, strings.TrimPrefix(strings.TrimPrefix(err.Error(), row.Name+": "), o.Op+": ")
		} else {
			row.supported++
		}
		row.Ops = append(row.Ops, o)
	}
	return row
}

func (r *backendRow) write(a *app, w io.Writer) {
	var names []string
	refused := terminal.NewTable("  REFUSED", "REASON")
	for _, o := range r.Ops {
		if o.Supported {
			names = append(names, o.Op)
		} else {
			refused.Add("  "+o.Op, o.Reason)
		}
	}
	fmt.Fprintf(w, "%s: %s\n  %d of %d ops: %s\n", r.Name, r.Doc, r.supported, len(r.Ops), strings.Join(names, " "))
	refused.Write(w)
}
