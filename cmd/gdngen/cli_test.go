package main

import (
	"bytes"
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
	"github.com/gdngen/gdngen/pjrt/llo"
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
	phrase = regexp.MustCompile(`"[^"]*"`) // one word with blanks
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
			line = phrase.ReplaceAllStringFunc(line, func(s string) string { return strings.ReplaceAll(strings.Trim(s, `"`), " ", "_") })
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
					_, err = gdn.ParseVariant(f.DefValue)
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

func TestTable(t *testing.T) {
	var out bytes.Buffer
	tab := newTable("NAME", ">N", "WHY")
	tab.add("a", 10, "x  y")
	tab.add("é-long", 5)
	tab.write(&app{}, &out)
	require.Equal(t, "NAME     N  WHY\na       10  x  y\né-long   5\n", out.String())
}

func TestNumbers(t *testing.T) {
	for n, want := range map[int64]string{-1: "?", 0: "0 B", 1023: "1023 B", 1536: "1.5 KiB", 3 << 20: "3.0 MiB"} {
		require.Equal(t, want, sizeText(n))
	}
	require.Equal(t, "-", percent(1, 0))
	require.Equal(t, "12.5%", percent(1, 8))
	require.Equal(t, `, did you mean "v6e"?`, near("v6", targetNames(), ""))
	require.Equal(t, `, did you mean "--spec"?`, near("spce", []string{"case", "spec"}, "--"))
	require.Empty(t, near("quite another", targetNames(), ""))
}

// The floors of the bench work per token and value head: 25952256 necessary bytes, and matrix products at chunk 128.
func TestBounds(t *testing.T) {
	s, err := gdn.LookupPreset("bench")
	require.NoError(t, err)
	v, err := gdn.ParseVariant("bf16,chunk=128")
	require.NoError(t, err)
	m := &module{spec: &s, variant: v}
	for name, want := range map[string][2]float64{"v5e": {1.45, 1.50}, "v6e": {.845, .75}, "tpu7x": {.47, .75}} {
		target, err := codegen.LookupTarget(name)
		require.NoError(t, err)
		r := &llo.Report{Cycles: 4 * 4096 * 8, HBMBytes: -1, Ops: []llo.OpReport{{Calls: 2, MXUBusy: 4096 * 8, Bundles: 4096 * 8,
			Slots: []llo.Slot{{Name: "SALU", Used: 9, Capacity: 9}, {Name: "VALU", Used: 3, Capacity: 4}, {Name: "XLU", Used: 1, Capacity: 4}}}}}
		list := bounds(r, m, target)
		require.Len(t, list, 4)
		for i, w := range want {
			require.InDelta(t, w, float64(list[i].Cycles)/(4096*8), .01, "%s %s", name, list[i].Name)
		}
		require.Equal(t, bound{"slots, module", 2 * 4096 * 6, 4. / 1.5, "instructions of the fullest slot, VALU, packed without a gap"}, list[3])
		require.Equal(t, "mxu, module", list[2].Name)
		require.InDelta(t, 2, list[2].Ratio, 1e-9)
	}
}

func TestWholeStages(t *testing.T) {
	got := wholeStages([]llo.Location{{File: "solve.c0.h1", Cycles: 5, Instructions: 1}, {File: "-", Cycles: 4}, {File: "state", Cycles: 3},
		{File: "state.c1.h0", Cycles: 3, Instructions: 2}, {File: "", Cycles: 3}})
	require.Equal(t, []llo.Location{{Cycles: 7}, {File: "state", Cycles: 6, Instructions: 2}, {File: "solve", Cycles: 5, Instructions: 1}}, got)
}

// Figures of the same name stand side by side, the largest changes first; what only one has counts as 0 in the other.
func TestCompare(t *testing.T) {
	a := &explanation{Stages: []llo.Location{{File: "solve", Cycles: 50}, {File: "leaf", Cycles: 30}, {Cycles: 5}},
		Report: &llo.Report{Cycles: 90, Ops: []llo.OpReport{{Name: "f", Calls: 2, Cycles: 40, Spills: 3, Slots: []llo.Slot{{Name: "XLU", Used: 5, Capacity: 10}}}}}}
	b := &explanation{Stages: []llo.Location{{File: "leaf", Cycles: 10}, {File: "solve", Cycles: 49}, {File: "gates", Cycles: 7}},
		Report: &llo.Report{Cycles: 70, Ops: []llo.OpReport{{Name: "g", Calls: 1, Cycles: 66, Slots: []llo.Slot{{Name: "XLU", Used: 1, Capacity: 4}}}}}}
	c := compare(a, b)
	require.Equal(t, []change{{Name: "leaf", A: 30, B: 10, Delta: -20}, {Name: "gates", B: 7, Delta: 7}, {Name: noLocation, A: 5, Delta: -5}, {Name: "solve", A: 50, B: 49, Delta: -1}}, c.Stages)
	require.Equal(t, []change{{Name: "XLU", A: 10, B: 1, Delta: -9, FullA: "50.0%", FullB: "25.0%"}}, c.Slots)
	require.Equal(t, []change{{Name: "f", A: 80, Delta: -80}, {Name: "g", B: 66, Delta: 66}}, c.Ops)
	require.Equal(t, change{Name: "cycles", A: 90, B: 70, Delta: -20}, c.Totals[0])
	require.Equal(t, "0.78 x", c.Totals[0].Ratio())
	require.Contains(t, c.Totals, change{Name: "spills", A: 6, Delta: -6})
	require.Equal(t, "-", change{B: 4}.Ratio())
}
