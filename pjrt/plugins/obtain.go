package plugins

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/gdngen/gdngen/internal/terminal"
)

// kinds are the plugins, by purpose.
var kinds = []struct {
	name, doc string
	obtain    func(context.Context, Options) (Plugin, error)
	onDemand  bool // obtained only if named
}{
	{"cpu", "runs programs on this machine", CPU, false},
	{"tpu", "compiles for TPUs", TPU, false},
	{"gpu", "compiles kernels for GPUs", gpu, true},
	{"gpu", "compiles StableHLO for GPUs", cuda, true},
}

// gpu is Triton as a row of kinds.
func gpu(ctx context.Context, o Options) (Plugin, error) {
	p, err := Triton(ctx, o)
	return Plugin{Name: tritonRelease.name, Version: p.Version, Path: cmp.Or(p.Packages, p.Path), Source: p.Source}, err
}

// Obtained is a plugin, or the reason why it is absent.
type Obtained struct {
	Kind    string `json:"kind"`
	Name    string `json:"name,omitempty"`
	Version string `json:"version,omitempty"` // "" for a library of the user's choice
	Source  string `json:"source,omitempty"`
	Path    string `json:"path,omitempty"`
	Absent  string `json:"absent,omitempty"` // the reason, if it is absent
	Doc     string `json:"-"`                // its purpose
}

// UnknownError says that there is no kind of plugin with a name.
type UnknownError struct {
	Name  string
	Known []string
}

func (e *UnknownError) Error() string {
	return fmt.Sprintf("unknown plugin %q (known: %s)", e.Name, strings.Join(e.Known, " "))
}

// Obtain obtains the plugins of the kind only; for "", all kinds except those for GPUs, which few need. paths has libraries of the
// user's choice, by kind. missing is the first reason why a plugin is absent.
func Obtain(ctx context.Context, only string, paths map[string]string, o Options) (list []Obtained, missing, err error) {
	var names []string
	for _, k := range kinds {
		if !slices.Contains(names, k.name) {
			names = append(names, k.name)
		}
		if only != "" && only != k.name || only == "" && k.onDemand {
			continue
		}
		o.Path = paths[k.name]
		p, err := k.obtain(ctx, o)
		if ctx.Err() != nil {
			return nil, nil, ctx.Err()
		}
		if err == nil && o.Verify {
			err = p.Damaged()
		}
		row := Obtained{k.name, p.Name, p.Version, p.Source, p.Path, "", k.doc}
		if err != nil {
			row.Absent = err.Error()
			if missing == nil {
				missing = err
			}
		}
		list = append(list, row)
	}
	if len(list) == 0 {
		return nil, nil, &UnknownError{only, names}
	}
	return list, missing, nil
}

// WriteObtained prints a row per plugin.
func WriteObtained(w io.Writer, list []Obtained) {
	t := terminal.NewTable("PLUGIN", "STATUS", "NAME", "VERSION", "SOURCE", "WHERE OR WHY NOT")
	for _, r := range list {
		if r.Absent != "" {
			t.Add(r.Kind, "absent", "", "", "", r.Absent)
		} else {
			t.Add(r.Kind, "ok", r.Name, r.Version, r.Source, r.Path)
		}
	}
	t.Write(w)
}
