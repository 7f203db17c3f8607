package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gdngen/gdngen/internal/terminal"
	"github.com/gdngen/gdngen/pjrt/plugins"
)

// pluginKinds are the plugins, by what they are for.
var pluginKinds = []struct {
	name, doc string
	obtain    func(context.Context, plugins.Options) (plugins.Plugin, error)
	path      func(*app) string
}{
	{"cpu", "runs programs on this machine", plugins.CPU, func(a *app) string { return a.cpuPlugin }},
	{"tpu", "compiles for TPUs", plugins.TPU, func(a *app) string { return a.libtpu }},
}

// pluginRow is a plugin that is there.
type pluginRow struct {
	Kind    string `json:"kind"`
	Name    string `json:"name,omitempty"`
	Version string `json:"version,omitempty"` // empty for a library of the user's choice
	Source  string `json:"source,omitempty"`
	Path    string `json:"path,omitempty"`
	Absent  string `json:"absent,omitempty"` // why it is not there
}

// plugins obtains the named plugins, or all. The error is that of the first which can not be had.
func (a *app) plugins(only string, o plugins.Options) (rows []pluginRow, missing error, err error) {
	var names []string
	for _, k := range pluginKinds {
		names = append(names, k.name)
		if only != "" && only != k.name {
			continue
		}
		o.Path = k.path(a)
		p, err := k.obtain(a.ctx, o)
		if a.ctx.Err() != nil {
			return nil, nil, a.ctx.Err()
		}
		row := pluginRow{k.name, p.Name, p.Version, p.Source, p.Path, ""}
		if err != nil {
			row.Absent = err.Error()
			if missing == nil {
				missing = err
			}
		}
		rows = append(rows, row)
	}
	if len(rows) == 0 {
		return nil, nil, usage(fmt.Errorf("unknown plugin %q (known: %s)", only, strings.Join(names, " ")))
	}
	return rows, missing, nil
}

func (a *app) setupCmd() *cobra.Command {
	var only string
	c := &cobra.Command{
		Use:   "setup",
		Short: "Fetch the plugins that run and compile programs",
		Long: `setup fetches the pinned plugins with pip into the user's cache, verified by their hashes. Other commands do so when they need one; setup is
for a machine that will be offline. --libtpu, --cpu-plugin and the variables GDNGEN_LIBTPU and GDNGEN_CPU_PLUGIN name other builds, and
GDNGEN_CACHE moves the cache.`,
		Example: "  gdngen setup\n  gdngen setup --only cpu",
		GroupID: "self",
		Args:    args(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			rows, missing, err := a.plugins(only, plugins.Options{Progress: a.stderr, Offline: a.offline})
			if err != nil {
				return err
			}
			if err := a.emitPlugins(rows); err != nil {
				return err
			}
			return missing
		},
	}
	c.Flags().StringVar(&only, "only", "", "fetch only cpu or tpu")
	complete(c, "only", []string{"cpu", "tpu"})
	return c
}

func (a *app) emitPlugins(rows []pluginRow) error {
	return emit(a, rows, rows, func(w io.Writer) {
		t := terminal.NewTable("PLUGIN", "STATUS", "NAME", "VERSION", "SOURCE", "WHERE OR WHY NOT")
		for _, r := range rows {
			if r.Absent != "" {
				t.Add(r.Kind, "absent", "", "", "", r.Absent)
			} else {
				t.Add(r.Kind, "ok", r.Name, r.Version, r.Source, r.Path)
			}
		}
		t.Write(w)
	})
}
