package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/autotune"
	"github.com/gdngen/gdngen/autotune/bench"
	"github.com/gdngen/gdngen/autotune/journal"
	"github.com/gdngen/gdngen/codegen"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/pjrt/aot"
	"github.com/gdngen/gdngen/pjrt/plugins"
)

// walk visits a command and all below it.
func walk(c *cobra.Command, visit func(*cobra.Command)) {
	visit(c)
	for _, b := range c.Commands() {
		walk(b, visit)
	}
}

var (
	quoted = regexp.MustCompile(`"\$\(.*\)"`)
	phrase = regexp.MustCompile(`"[^"]*"|'[^']*'`) // one word with blanks
)

// Every help has an example, and every example is a command line that parses.
func TestExamples(t *testing.T) {
	walk((&app{stdout: io.Discard, stderr: io.Discard}).root(), func(c *cobra.Command) {
		if c.Name() == "help" {
			return
		}
		require.NotEmpty(t, c.Short, c.CommandPath())
		require.NotEmpty(t, c.Example, c.CommandPath())
		for line := range strings.SplitSeq(c.Example, "\n") {
			_, line, ok := strings.Cut(quoted.ReplaceAllString(line, "default"), "gdngen ")
			require.True(t, ok, c.Example)
			line, _, _ = strings.Cut(line, "   ") // a remark
			line, _, _ = strings.Cut(line, " > ")
			line = strings.ReplaceAll(line, "@runs/first", "auto") // there is no such run
			line = phrase.ReplaceAllStringFunc(line, func(s string) string { return strings.ReplaceAll(strings.Trim(s, `"'`), " ", "_") })
			words := strings.Fields(strings.TrimSuffix(line, ")"))
			root := (&app{stdout: io.Discard, stderr: io.Discard}).root()
			found, rest, err := root.Find(words)
			require.NoError(t, err, line)
			require.NoError(t, found.ParseFlags(rest), line)
			require.True(t, found.Runnable(), line)
			if found.Args != nil {
				require.NoError(t, found.Args(found, found.Flags().Args()), line)
			}
		}
	})
}

// Flags have help, no flag hides a global one but --output of gen and results, and specs, variants and targets named as defaults exist.
func TestFlags(t *testing.T) {
	root := (&app{}).root()
	walk(root, func(c *cobra.Command) {
		c.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
			at := c.CommandPath() + " --" + f.Name
			require.NotEmpty(t, f.Usage, at)
			if global := root.PersistentFlags().Lookup(f.Name); global != nil && c != root {
				require.Contains(t, []string{"gdngen gen --output", "gdngen results --output"}, at)
			}
			var err error
			switch f.Name {
			case "spec":
				if f.DefValue != "" {
					_, err = gdn.Parse(f.DefValue)
				}
			case "variant":
				if f.DefValue != "" {
					err = checkText(f.DefValue)
				}
			case "target", "targets":
				if f.DefValue != "" {
					_, err = parseTargets(f.DefValue)
				}
			}
			require.NoError(t, err, at)
		})
	})
}

func TestExitCode(t *testing.T) {
	for _, c := range []struct {
		code int
		err  error
	}{
		{exitFailure, errors.New("x")},
		{exitUsage, usage(errors.New("x"))},
		{exitUsage, &aot.RequestError{}},
		{exitNumerics, failed(exitNumerics, "x")},
		{exitRejected, &aot.RejectError{}},
		{exitRejected, &aot.VMEMError{}},
		{exitRejected, &aot.CrashError{}},
		{exitUsage, &autotune.ConfigError{Err: errors.New("x")}},
		{exitNoEngine, &plugins.MissingError{}},
		{exitNoEngine, &bench.DeviceError{}},
		{exitNoEngine, &autotune.DeviceError{Err: errors.New("x")}},
		{exitNoEngine, &aot.InfraError{Err: &aot.LoadError{}}},
		{exitInfra, &aot.InfraError{}},
		{exitInfra, &journal.LockedError{}},
		{exitInfra, &autotune.PauseError{Err: errors.New("x")}},
		{exitTimeout, &aot.TimeoutError{}},
		{exitTimeout, context.DeadlineExceeded},
		{exitInterrupted, context.Canceled},
	} {
		require.Equal(t, c.code, exitCode(c.err), "%T", c.err)
		require.Equal(t, c.code, exitCode(fmt.Errorf("more: %w", c.err)), "%T", c.err)
	}
	require.NoError(t, usage(nil))
}

func TestNear(t *testing.T) {
	require.Equal(t, `, did you mean "v6e"?`, near("v6", codegen.TargetNames(), ""))
	require.Equal(t, `, did you mean "--spec"?`, near("spce", []string{"case", "spec"}, "--"))
	require.Empty(t, near("quite another", codegen.TargetNames(), ""))
}
