package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/gdngen/gdngen/cmd/gdngen/internal/app"
	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// manCmd writes manual pages of all commands, from the same texts as the help.
func (a CLI) manCmd() *cobra.Command {
	var out string
	c := &cobra.Command{
		Use:     "man --out DIR",
		Short:   "Write manual pages",
		Long:    "man writes a manual page for each command, gdngen-search-run.1 and the like, from the same texts as the helps.",
		Example: "  gdngen setup man --out ~/.local/share/man/man1",
		GroupID: "self",
		Args:    app.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if out == "" {
				return app.Usage(errors.New("where to? give --out DIR, such as ~/.local/share/man/man1"))
			}
			if err := os.MkdirAll(out, 0o755); err != nil {
				return err
			}
			root := cmd.Root()
			root.DisableAutoGenTag = true // which would put the date into the pages
			name, _ := app.Version()
			if err := doc.GenManTree(root, &doc.GenManHeader{Section: "1", Source: "gdngen " + name, Manual: "gdngen"}, out); err != nil {
				return fmt.Errorf("manual pages: %w", err)
			}
			pages, err := filepath.Glob(filepath.Join(out, "gdngen*.1"))
			if err == nil {
				a.Note("%d pages in %s", len(pages), out)
			}
			return err
		},
	}
	c.Flags().StringVar(&out, "out", "", "folder; made where it is missing")
	return c
}
