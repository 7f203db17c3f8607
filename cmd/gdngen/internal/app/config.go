package app

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gdngen/gdngen/autotune/calibrate"
	"github.com/gdngen/gdngen/autotune/promoted"
	"github.com/gdngen/gdngen/internal/remote"
	"github.com/gdngen/gdngen/ir/target"
	"github.com/gdngen/gdngen/pjrt/plugins"
)

// setting is an entry of the configuration file: the default if neither a flag nor the environment sets a value.
type setting struct {
	key, doc string
	env      string // its environment variable; empty for the target
	path     bool   // relative to the file's folder
}

var settings = []setting{
	{key: "target", doc: "TPU generation where none is named and one is needed, in place of v6e"},
	{key: "libtpu", doc: "libtpu.so to compile with, as --libtpu", env: "GDNGEN_LIBTPU", path: true},
	{key: "cpu-plugin", doc: "PJRT plugin to run on the CPU with, as --cpu-plugin", env: "GDNGEN_CPU_PLUGIN", path: true},
	{key: "cache", doc: "folder of plugins and measured costs", env: plugins.CacheEnv, path: true},
	{key: "python", doc: "Python that has JAX, as --python", env: PythonEnv, path: true},
	{key: "tpu-type", doc: "accelerator that gdngen remote hold takes, such as v6e-8, as --type", env: remote.TypeEnv},
	{key: "tpu-zone", doc: "zone that it is tried in first, as --zone", env: remote.ZoneEnv},
	{key: "on", doc: "place for gdngen remote, such as ssh:HOST, as --on", env: remote.OnEnv},
}

// configName is the name of the configuration file, in the folder of the user's champions.
const configName = "config.json"

// ConfigTopic returns the help topic on the configuration file.
func ConfigTopic() *cobra.Command {
	var keys strings.Builder
	for _, s := range settings {
		fmt.Fprintf(&keys, "\n  %-12s %s", s.key, s.doc)
	}
	return &cobra.Command{Use: "config", Short: "What the configuration file may say",
		Long: "A JSON object in " + configName + ", in the folder that " + promoted.DirEnv + " names, by default gdngen in the user's configuration (~/.config on Linux). A flag\n" +
			"comes before the environment, and that before the file. The output names each setting that changes a figure. Paths are relative to the folder.\n" +
			promoted.DirEnv + "=" + promoted.Off + " is for none, as tests and CI have it.\n" + keys.String() + "\n\n  {\"target\": \"v5e\", \"cache\": \"/data/gdngen\", \"on\": \"ssh:me@big\"}\n",
		Example: "  gdngen doctor                    says what the file changes"}
}

// configuration is the content of the file; empty if there is none.
type configuration struct {
	file   string
	values map[string]string
}

// readConfig reads the file. An error names the file and the entry.
func readConfig() (c configuration, err error) {
	champions := promoted.File()
	if champions == "" {
		return c, nil
	}
	file := filepath.Join(filepath.Dir(champions), configName)
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return c, nil
	}
	if err == nil {
		d := json.NewDecoder(bytes.NewReader(data))
		if err = d.Decode(&c.values); err == nil && d.Decode(&struct{}{}) != io.EOF {
			err = errors.New("something stands behind the object")
		}
		if err != nil {
			err = fmt.Errorf("%s: %w (want an object of texts, such as {\"target\": \"v5e\"}; see gdngen help config)", file, err)
		}
	}
	if err != nil {
		return configuration{}, err
	}
	var known []string
	for _, s := range settings {
		known = append(known, s.key)
		if v := c.values[s.key]; v != "" && s.path && strings.ContainsRune(v, filepath.Separator) && !filepath.IsAbs(v) {
			c.values[s.key] = filepath.Join(filepath.Dir(file), v)
		}
	}
	for key := range c.values {
		if !slices.Contains(known, key) {
			return configuration{}, fmt.Errorf("%s: unknown entry %q%s (known: %s)", file, key, Near(key, known, ""), strings.Join(known, " "))
		}
	}
	if t := c.values["target"]; t != "" {
		if _, err := target.Lookup(t); err != nil {
			return configuration{}, fmt.Errorf("%s: target: %w", file, NearTarget(err))
		}
	}
	c.file = file
	return c, nil
}

// withoutConfig lists the commands that run despite a broken file: those that help to find the fault.
var withoutConfig = []string{"doctor", "help", "version", "completion", cobra.ShellCompRequestCmd, cobra.ShellCompNoDescRequestCmd}

// Configure applies the file to a command. It sets environment variables, also for child processes.
func (a *App) Configure(cmd *cobra.Command) error {
	c, err := readConfig()
	if err != nil {
		a.configFault = err
		if slices.Contains(withoutConfig, cmd.Name()) {
			return nil
		}
		return Usage(err)
	}
	for _, s := range settings {
		if v := c.values[s.key]; v != "" && s.env != "" && os.Getenv(s.env) == "" {
			if err := os.Setenv(s.env, v); err != nil {
				return err
			}
			if s.key == "libtpu" && a.Libtpu == "" {
				a.libtpuBy = c.file
			}
		}
	}
	if t := c.values["target"]; t != "" && t != DefaultTarget {
		if f := cmd.Flags().Lookup("target"); f != nil && !f.Changed {
			if f.DefValue == DefaultTarget {
				err = f.Value.Set(t)
			}
			if f.DefValue == DefaultTarget || f.DefValue == "" {
				a.Note("where no target is named it is %s, by %s", t, c.file)
			}
		}
		DefaultTarget = t
	}
	a.config = c
	if fault := calibrate.Apply(); fault != nil && cmd.Name() != "calibrate" && !slices.Contains(withoutConfig, cmd.Name()) {
		return Usage(fault)
	}
	return err
}

// ConfigCheck returns doctor's check of the file.
func (a *App) ConfigCheck() plugins.Check {
	row := plugins.Check{Name: "configuration", OK: a.configFault == nil, Detail: "none"}
	if a.configFault != nil {
		row.Detail, row.Mend = a.configFault.Error(), "mend the file, or set "+promoted.DirEnv+"="+promoted.Off
		return row
	}
	var list []string
	for _, s := range settings {
		if v := a.config.values[s.key]; v != "" {
			list = append(list, s.key+" "+v)
		}
	}
	if len(list) > 0 {
		row.Detail = a.config.file + ": " + strings.Join(list, ", ")
	}
	return row
}
