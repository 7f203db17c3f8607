package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gdngen/gdngen/autotune"
	"github.com/gdngen/gdngen/autotune/bench"
	"github.com/gdngen/gdngen/autotune/journal"
	"github.com/gdngen/gdngen/autotune/judge"
	"github.com/gdngen/gdngen/cmd/gdngen/internal/app"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/internal/remote"
	"github.com/gdngen/gdngen/internal/web"
	"github.com/gdngen/gdngen/ir/target"
	"github.com/gdngen/gdngen/pjrt/aot"
	"github.com/gdngen/gdngen/pjrt/plugins"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
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
	walk(CLI{&app.App{Stdout: io.Discard, Stderr: io.Discard}}.root(), func(c *cobra.Command) {
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
			root := CLI{&app.App{Stdout: io.Discard, Stderr: io.Discard}}.root()
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
	root := CLI{&app.App{}}.root()
	walk(root, func(c *cobra.Command) {
		c.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
			at := c.CommandPath() + " --" + f.Name
			require.NotEmpty(t, f.Usage, at)
			if global := root.PersistentFlags().Lookup(f.Name); global != nil && c != root {
				require.Contains(t, []string{"gdngen gen --output", "gdngen list results --output", "gdngen results --output"}, at)
			}
			var err error
			switch f.Name {
			case "spec":
				if f.DefValue != "" {
					_, err = gdn.Parse(f.DefValue)
				}
			case "variant":
				if f.DefValue != "" {
					err = app.CheckText(f.DefValue)
				}
			case "target", "targets":
				if f.DefValue != "" {
					_, err = app.ParseTargets(f.DefValue)
				}
			}
			require.NoError(t, err, at)
		})
	})
}

// A flag has one meaning: where commands explain it in different words, or take it in another form, testdata/flags.tsv says what is common.
func TestFlagMeanings(t *testing.T) {
	data, err := os.ReadFile("testdata/flags.tsv")
	require.NoError(t, err)
	meant := map[string]bool{}
	for line := range strings.Lines(string(data)) {
		if name, meaning, ok := strings.Cut(strings.TrimSpace(line), "\t"); ok {
			require.NotEmpty(t, meaning, name)
			meant[name] = true
		}
	}
	said := map[string]map[string]bool{}
	var visit func(*cobra.Command)
	visit = func(c *cobra.Command) {
		if c.Hidden { // a former name
			return
		}
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden {
				if said[f.Name] == nil {
					said[f.Name] = map[string]bool{}
				}
				said[f.Name][f.Value.Type()+" "+f.Usage] = true
			}
		})
		for _, b := range c.Commands() {
			visit(b)
		}
	}
	visit(CLI{&app.App{Stdout: io.Discard, Stderr: io.Discard}}.root())
	var differ []string
	for name, texts := range said {
		if len(texts) > 1 {
			differ = append(differ, name)
		}
	}
	slices.Sort(differ)
	require.Equal(t, differ, slices.Sorted(maps.Keys(meant)), "flags that commands explain in different words, and those of testdata/flags.tsv")
}

func TestExitCode(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	defer server.Close()
	_, silent := web.New(web.Limits{Headers: 50 * time.Millisecond}).Get(server.URL)
	require.ErrorIs(t, silent, context.DeadlineExceeded, "as the network has it")
	asked, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	q, err := http.NewRequestWithContext(asked, http.MethodGet, server.URL, nil)
	require.NoError(t, err)
	_, late := web.New(web.Limits{}).Do(q)
	for _, c := range []struct {
		code int
		err  error
	}{
		{app.ExitFailure, errors.New("x")},
		{app.ExitUsage, app.Usage(errors.New("x"))},
		{app.ExitUsage, &aot.RequestError{}},
		{app.ExitNumerics, app.Failed(app.ExitNumerics, "x")},
		{app.ExitRejected, &aot.RejectError{}},
		{app.ExitRejected, &aot.VMEMError{}},
		{app.ExitRejected, &aot.CrashError{}},
		{app.ExitUsage, &autotune.ConfigError{Err: errors.New("x")}},
		{app.ExitNoEngine, &plugins.MissingError{}},
		{app.ExitNoEngine, &bench.DeviceError{}},
		{app.ExitNoEngine, &judge.DeviceError{Err: errors.New("x")}},
		{app.ExitNoEngine, &aot.InfraError{Err: &aot.LoadError{}}},
		{app.ExitInfra, &aot.InfraError{}},
		{app.ExitInfra, &journal.LockedError{}},
		{app.ExitInfra, &autotune.PauseError{Err: errors.New("x")}},
		{app.ExitTimeout, &aot.TimeoutError{}},
		{app.ExitTimeout, context.DeadlineExceeded},
		{app.ExitTimeout, &remote.UnreachableError{Err: late}},
		{app.ExitInfra, &remote.UnreachableError{Err: silent}},
		{app.ExitInfra, &remote.UnreachableError{Err: &web.SilentError{}}},
		{app.ExitInfra, &remote.UnreachableError{Err: &web.LargeError{}}},
		{app.ExitInterrupted, context.Canceled},
	} {
		require.Equal(t, c.code, app.ExitCode(c.err), "%T", c.err)
		require.Equal(t, c.code, app.ExitCode(fmt.Errorf("more: %w", c.err)), "%T", c.err)
	}
	require.NoError(t, app.Usage(nil))
}

func TestNear(t *testing.T) {
	require.Equal(t, `, did you mean "v6e"?`, app.Near("v6", target.Names(), ""))
	require.Equal(t, `, did you mean "--spec"?`, app.Near("spce", []string{"case", "spec"}, "--"))
	require.Empty(t, app.Near("quite another", target.Names(), ""))
}

// What is wrong has its cure: where a flag belongs, what to do about a path, a run or a repository that is not there.
func TestCures(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, c := range []struct {
		args, says string
		code       int
	}{
		{"--spec bench", "--spec: it is one of gdngen check", app.ExitUsage},
		{"tune --dtype f32", "it is a field of a spec, such as explain --spec bench,dtype=VALUE", app.ExitUsage},
		{"explain none.mlir", "is none.mlir misspelt?", app.ExitFailure},
		{"gen --spec tiny --variant naive --backend stablehlo --out none/k.mlir", "the folder none is not there: make it", app.ExitFailure},
		{"run show none", "`gdngen search run --run none` begins one", app.ExitFailure},
		{"gen --spec bench --target v6e,v5e", "gen --package of --backend pallas takes several", app.ExitUsage},
		{"gen --spec bench,hk=8,rule=kda --backend triton --target h100", "--backend stablehlo has every rule", app.ExitRejected},
		{"loop --run l --agent true --measure true --iterations 1 --protect x", "make it one by git init", app.ExitUsage},
	} {
		var errs bytes.Buffer
		require.Equal(t, c.code, execute(strings.Fields(c.args), strings.NewReader(""), io.Discard, &errs), "%s: %s", c.args, errs.String())
		require.Contains(t, errs.String(), c.says, c.args)
	}
}
