package main

import (
	"fmt"
	"io"

	"github.com/gdngen/gdngen/autotune/measure"
	"github.com/gdngen/gdngen/cmd/gdngen/internal/app"
	"github.com/gdngen/gdngen/internal/terminal"
	"github.com/spf13/cobra"
)

func (a CLI) cacheCmd() *cobra.Command {
	var measured bool
	show := &cobra.Command{
		Use:     "show",
		Short:   "List what is in the cache",
		Example: "  gdngen setup cache show -o json",
		Args:    app.Args(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			r, err := measure.Cached()
			if err != nil {
				return err
			}
			return app.Emit(a.App, r, r.Entries, func(w io.Writer) {
				t := terminal.NewTable("ENTRY", ">SIZE")
				for _, e := range r.Entries {
					t.Add(e.Name, terminal.Size(e.Bytes))
				}
				t.Add(r.Dir, terminal.Size(r.Bytes))
				t.Write(w)
			})
		},
	}
	clean := &cobra.Command{
		Use:     "clean",
		Short:   "Remove plugins, measurements and references of accuracy tests from the cache",
		Example: "  gdngen setup cache clean\n  gdngen setup cache clean --measured",
		Args:    app.Args(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			freed, err := measure.Clean(a.Ctx, measured)
			if err != nil {
				return err
			}
			r := struct {
				Freed int64 `json:"freed_bytes"`
			}{freed}
			return app.Emit(a.App, r, []any{r}, func(w io.Writer) { fmt.Fprintf(w, "freed %s\n", terminal.Size(freed)) })
		},
	}
	clean.Flags().BoolVar(&measured, "measured", false, "remove measurements and references alone")
	return app.Group(&cobra.Command{
		Use:     "cache",
		Short:   "Show or empty the cache of plugins and measurements",
		Long:    "cache shows or empties the folder of plugins, measurements, and references of accuracy tests (at most 1 GiB): gdngen in the user's cache, or GDNGEN_CACHE.",
		Example: "  gdngen setup cache show\n  gdngen setup cache clean",
		GroupID: "self",
	}, show, clean)
}
