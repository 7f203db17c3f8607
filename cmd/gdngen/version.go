package main

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/gdngen/gdngen/codegen/mosaic"
	"github.com/gdngen/gdngen/pjrt"
	"github.com/gdngen/gdngen/pjrt/plugins"
)

// versionResult is what a report of a fault should name.
type versionResult struct {
	Version  string             `json:"version"`
	Revision string             `json:"revision,omitempty"`
	Go       string             `json:"go"`
	Platform string             `json:"platform"`
	Cgo      bool               `json:"cgo"` // whether programs can be run
	Mosaic   int                `json:"stable_mosaic"`
	Plugins  []plugins.Obtained `json:"plugins"`
}

// version is the module's version, and the revision where the build knows it.
func version() (version, revision string) {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown", ""
	}
	modified := ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			revision = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			modified = " with changes"
		}
	}
	if revision != "" {
		revision += modified
	}
	return info.Main.Version, revision
}

func (a *app) versionCmd() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version of gdngen and of what it works with",
		Example: "  gdngen version\n  gdngen version -o json",
		GroupID: "self",
		Args:    args(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			r := versionResult{Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH, Cgo: pjrt.HasCgo, Mosaic: mosaic.Version}
			r.Version, r.Revision = version()
			var err error
			if r.Plugins, _, err = a.plugins("", true); err != nil {
				return err
			}
			return emit(a, r, []any{r}, func(w io.Writer) {
				fmt.Fprintf(w, "gdngen %s\n", r.Version)
				if r.Revision != "" {
					fmt.Fprintf(w, "revision %s\n", r.Revision)
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
