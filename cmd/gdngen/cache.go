package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/gdngen/gdngen/pjrt/plugins"
)

// cacheEntry is one plugin in the cache.
type cacheEntry struct {
	Name  string `json:"name"`
	Bytes int64  `json:"bytes"`
}

// cacheResult is the cache.
type cacheResult struct {
	Dir     string       `json:"dir"`
	Entries []cacheEntry `json:"entries"`
	Bytes   int64        `json:"bytes"`
}

func (a *app) cacheCmd() *cobra.Command {
	show := &cobra.Command{
		Use:     "show",
		Short:   "List the plugins in the cache",
		Example: "  gdngen cache show -o json",
		Args:    args(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			r := cacheResult{Entries: []cacheEntry{}}
			dir, entries, total, err := plugins.Cache()
			if err != nil {
				return err
			}
			r.Dir, r.Bytes = dir, total
			for _, e := range entries {
				r.Entries = append(r.Entries, cacheEntry(e))
			}
			return emit(a, r, r.Entries, func(w io.Writer) {
				t := newTable("ENTRY", ">SIZE")
				for _, e := range r.Entries {
					t.add(e.Name, sizeText(e.Bytes))
				}
				t.add(r.Dir, sizeText(r.Bytes))
				t.write(a, w)
			})
		},
	}
	clean := &cobra.Command{
		Use:     "clean",
		Short:   "Remove the plugins from the cache",
		Example: "  gdngen cache clean",
		Args:    args(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			freed, err := plugins.Clean(a.ctx)
			if err != nil {
				return err
			}
			r := struct {
				Freed int64 `json:"freed_bytes"`
			}{freed}
			return emit(a, r, []any{r}, func(w io.Writer) { fmt.Fprintf(w, "freed %s\n", sizeText(freed)) })
		},
	}
	return group(&cobra.Command{
		Use:     "cache",
		Short:   "Show or empty the cache of plugins",
		Long:    "cache shows or empties the folder that plugins are fetched into: gdngen in the user's cache, or GDNGEN_CACHE.",
		Example: "  gdngen cache show\n  gdngen cache clean",
		GroupID: "self",
	}, show, clean)
}
