package kernels

import (
	"fmt"
	"io"

	"github.com/gdngen/gdngen/cmd/gdngen/internal/app"
	"github.com/gdngen/gdngen/codegen/route"
	"github.com/spf13/cobra"
)

func (a CLI) BackendsCmd() *cobra.Command {
	return &cobra.Command{
		Use:               "backends [NAME]",
		Short:             "List the backends, the ops they render and those they refuse",
		Long:              "backends lists the backends. With a name, it lists the ops that the backend can write, and the reasons why it refuses others.",
		Example:           "  gdngen list backends\n  gdngen list backends mosaic\n  gdngen list backends -o json",
		GroupID:           "know",
		Args:              app.Args(cobra.MaximumNArgs(1)),
		ValidArgsFunction: cobra.FixedCompletions(app.BackendNames(), cobra.ShellCompDirectiveNoFileComp),
		RunE: func(_ *cobra.Command, args []string) error {
			routes := route.Routes
			if len(args) == 1 {
				r, err := app.ParseBackend(args[0])
				if err != nil {
					return err
				}
				routes = []route.Route{r}
			}
			var rows []route.Description
			for _, r := range routes {
				rows = append(rows, r.Describe())
			}
			return app.Emit(a.App, rows, rows, func(w io.Writer) {
				for i, r := range rows {
					if i > 0 {
						fmt.Fprintln(w)
					}
					r.Write(w)
				}
			})
		},
	}
}
