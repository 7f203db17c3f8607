package app

import (
	"cmp"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/gdngen/gdngen/gdn/model"
	"github.com/gdngen/gdngen/internal/remote"
	"github.com/gdngen/gdngen/ir/target"
	"github.com/spf13/cobra"
)

// RunFlag adds --run, the folder of a run.
func RunFlag(c *cobra.Command, at *string) {
	c.Flags().StringVar(at, "run", "", "folder of the run")
}

// ReadModelConfig returns a preset, or reads a file or the folder of a published model.
func (a *App) ReadModelConfig(name string) (model.Config, error) {
	if c, err := model.Preset(name); err == nil {
		return c, nil
	}
	data, err := a.ReadInput(name)
	if info, bad := os.Stat(name); bad == nil && info.IsDir() { // a published model
		name = filepath.Join(name, "config.json")
		data, err = a.ReadInput(name)
	}
	if errors.Is(err, os.ErrNotExist) {
		return model.Config{}, Usage(fmt.Errorf("%s is neither a preset (%s) nor a file", name, strings.Join(model.Presets(), " ")))
	}
	if err != nil {
		return model.Config{}, err
	}
	c, err := model.Read(strings.NewReader(string(data)))
	if err != nil {
		return c, Usage(fmt.Errorf("%s: %w", name, err))
	}
	return c, nil
}

// TargetFlag adds --target for several targets.
func TargetFlag(c *cobra.Command, at *string) {
	c.Flags().StringVar(at, "target", DefaultTarget, "TPU generations or GPUs, separated by commas, or all for every generation (see gdngen list targets)")
	CompleteList(c, "target", slices.Concat(target.Names(), target.GPUNames(), []string{"all"}))
}

// DefaultTarget is used if a target is needed and none is named. The user's configuration may change it.
var DefaultTarget = "v6e"

// OneTarget parses the name of one target; more than one is a usage error.
func OneTarget(name string) (*target.Target, error) {
	list, err := ParseTargets(name)
	if err == nil && len(list) != 1 {
		err = Usage(fmt.Errorf("give one target, not %d; gen --package of --backend pallas takes several", len(list)))
	}
	if err != nil {
		return nil, err
	}
	return list[0], nil
}

// OnEnv is the environment variable with the default of --on.
const OnEnv = remote.OnEnv

// stamped is the version, and commit the commit, set by a release build (cmd/release).
var stamped, commit string

// archived is the commit of a source archive, which git archive writes into the file; otherwise it begins with a dollar sign.
//
//go:embed commit.txt
var archived string

// Version returns the version of the release or module, and the revision if the build knows it.
func Version() (version, revision string) {
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
	} else if revision = commit; revision == "" && !strings.HasPrefix(archived, "$") {
		revision = strings.TrimSpace(archived)
	}
	return cmp.Or(stamped, info.Main.Version), revision
}
