package main

import (
	"fmt"
	"io"
	"runtime"

	"github.com/gdngen/gdngen/cmd/gdngen/internal/app"
	"github.com/gdngen/gdngen/codegen/mosaic"
	"github.com/gdngen/gdngen/pjrt"
	"github.com/gdngen/gdngen/pjrt/plugins"
	"github.com/spf13/cobra"
)

// versionResult holds the facts for a bug report.
type versionResult struct {
	Version  string             `json:"version"`
	Revision string             `json:"revision,omitempty"`
	Go       string             `json:"go"`
	Platform string             `json:"platform"`
	Cgo      bool               `json:"cgo"` // whether programs can be run
	Mosaic   int                `json:"stable_mosaic"`
	Plugins  []plugins.Obtained `json:"plugins"`
}

func (a CLI) versionCmd() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the versions of gdngen and its plugins, and the commit",
		Example: "  gdngen version\n  gdngen version -o json",
		GroupID: "self",
		Args:    app.Args(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			r := versionResult{Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH, Cgo: pjrt.HasCgo, Mosaic: mosaic.Version}
			r.Version, r.Revision = app.Version()
			for _, only := range []string{"", "gpu"} {
				rows, _, err := a.plugins(only, true, false)
				if err != nil {
					return err
				}
				r.Plugins = append(r.Plugins, rows...)
			}
			return app.Emit(a.App, r, []any{r}, func(w io.Writer) {
				fmt.Fprintf(w, "gdngen %s\n", r.Version)
				if r.Revision != "" {
					fmt.Fprintf(w, "commit %s\n", r.Revision)
				}
				cgo := map[bool]string{true: "with cgo", false: "without cgo: programs can not be run"}[r.Cgo]
				fmt.Fprintf(w, "%s %s %s\nstable_mosaic version %d\n", r.Go, r.Platform, cgo, r.Mosaic)
				for _, p := range r.Plugins {
					if p.Absent != "" {
						fmt.Fprintf(w, "%s plugin absent (%s)\n", p.Kind, p.Doc)
					} else {
						fmt.Fprintf(w, "%s plugin %s %s (%s)\n", p.Kind, p.Name, p.Version, p.Source)
					}
				}
			})
		},
	}
}
