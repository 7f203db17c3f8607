package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/tools/txtar"

	"github.com/gdngen/gdngen/cmd/gdngen/internal/app"
	"github.com/gdngen/gdngen/internal/rotate"
	"github.com/gdngen/gdngen/pjrt"
	"github.com/gdngen/gdngen/pjrt/plugins"
)

var update = flag.Bool("update", false, "write the outputs of docs/data/recipes.md anew")

var quotedWords = regexp.MustCompile(`'[^']*'`)

var codeSpan = regexp.MustCompile("`([^`]*)`")

// Every row of docs/data/recipes.md names commands and flags that exist, and tests that do.
func TestRecipes(t *testing.T) {
	text, err := os.ReadFile("../../docs/data/recipes.md")
	require.NoError(t, err)
	var shown [][2][]string // command and flags of those that the blocks run
	for _, b := range recipeBlocks(t, string(text)) {
		for _, step := range b.steps {
			if command, ok := strings.CutPrefix(step.command, "gdngen "); ok {
				path, flags := requireCommand(t, command)
				shown = append(shown, [2][]string{{path}, flags})
			}
		}
	}
	elsewhere := map[string]bool{}
	_, list, _ := strings.Cut(string(text), "None of these is run")
	list, _, _ = strings.Cut(list, "\n\n")
	for _, m := range codeSpan.FindAllStringSubmatch(list, -1) {
		elsewhere[m[1]] = true
	}
	rows := 0
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.TrimSpace(line), " | ")
		if len(cells) != 3 || strings.Contains(line, "| there |") {
			require.False(t, strings.HasPrefix(line, "| ") && !strings.Contains(line, "| there |"), "not three columns: %s", line)
			continue
		}
		rows++
		for _, m := range codeSpan.FindAllStringSubmatch(cells[1], -1) {
			if command, ok := strings.CutPrefix(m[1], "gdngen "); ok {
				path, flags := requireCommand(t, command)
				if elsewhere[m[1]] {
					continue
				}
				require.True(t, slices.ContainsFunc(shown, func(s [2][]string) bool {
					return (s[0][0] == path || strings.HasPrefix(s[0][0], path+" ")) && !slices.ContainsFunc(flags, func(f string) bool { return !slices.Contains(s[1], f) })
				}), "%s is run by no block of the page", m[1])
			}
		}
		for _, name := range strings.Split(strings.TrimSuffix(cells[2], " |"), ", ") {
			requireTest(t, name)
		}
	}
	require.Greater(t, rows, 60)
}

// requireCommand finds a command with its flags, and gives both. What follows -- is another's.
func requireCommand(t *testing.T, text string) (path string, flags []string) {
	t.Helper()
	text, _, _ = strings.Cut(text, " -- ")
	root := CLI{&app.App{}}.root()
	words := strings.Fields(quotedWords.ReplaceAllString(strings.TrimPrefix(text, "help "), "x"))
	c, rest, err := root.Find(words)
	require.NoError(t, err, text)
	require.NotEqual(t, root, c, text)
	c.InheritedFlags()
	for _, word := range rest {
		if name, ok := strings.CutPrefix(word, "--"); ok {
			name, _, _ = strings.Cut(name, "=")
			require.NotNil(t, c.Flags().Lookup(name), "%s has no --%s", c.CommandPath(), name)
			flags = append(flags, name)
		}
	}
	return c.CommandPath(), flags
}

// requireTest finds a script, or a test of a package, which a recipe names without the folder above it.
func requireTest(t *testing.T, name string) {
	t.Helper()
	if strings.HasSuffix(name, ".txtar") {
		found, err := filepath.Glob(filepath.Join("testdata", "*", name))
		require.NoError(t, err)
		require.NotEmpty(t, found, name)
		return
	}
	dir, test, ok := strings.Cut(name, " ")
	require.True(t, ok, "%q is neither a script nor a package with a test", name)
	var files []string
	for _, above := range []string{"", "autotune", "internal", "pjrt", "cmd/gdngen/internal"} {
		found, err := filepath.Glob(filepath.Join("..", "..", above, dir, "*_test.go"))
		require.NoError(t, err)
		files = append(files, found...)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		if strings.Contains(string(text), "func "+test+"(") {
			return
		}
	}
	require.Fail(t, "no such test", name)
}

// recipeBlock is a block of the page: commands with what they print, run one behind another in a folder of their own.
type recipeBlock struct {
	title, plugins string
	steps          []recipeStep
	text           string // as the page has it
}

// recipeStep is a command, also as the page has it, and its output, in which ... stands for anything, and a line of it for any lines.
type recipeStep struct{ command, shown, output string }

var (
	consoleBlock = regexp.MustCompile("(?s)```console ?([^\n]*)\n(.*?)```")
	spaces       = regexp.MustCompile(` +`)
	continued    = regexp.MustCompile(`\\\n\s*`)
	commandEnd   = regexp.MustCompile(`[^\\]\n`)
)

func recipeBlocks(t *testing.T, text string) (blocks []recipeBlock) {
	t.Helper()
	for _, m := range consoleBlock.FindAllStringSubmatch(text, -1) {
		title, plugins, _ := strings.Cut(m[1], " by ")
		b := recipeBlock{title: title, plugins: plugins, text: m[0]}
		for _, step := range strings.SplitAfter("\n"+m[2], "\n$ ")[1:] {
			end := commandEnd.FindStringIndex(step)[1]
			b.steps = append(b.steps, recipeStep{continued.ReplaceAllString(step[:end-1], ""), step[:end], strings.TrimSuffix(step[end:], "$ ")})
		}
		require.NotEmpty(t, b.steps, m[0])
		blocks = append(blocks, b)
	}
	return blocks
}

// matches reports whether output equals a sample. Columns may be wider.
func (s recipeStep) matches(output string) bool {
	var b strings.Builder
	for line := range strings.Lines(spaces.ReplaceAllString(s.output, " ")) {
		if line == "...\n" {
			b.WriteString(`(?:.*\n)*?`)
			continue
		}
		b.WriteString(strings.ReplaceAll(regexp.QuoteMeta(line), `\.\.\.`, `.*`))
	}
	return regexp.MustCompile(`\A` + b.String() + `\z`).MatchString(spaces.ReplaceAllString(output, " "))
}

// Commands of the page print what it shows: three blocks by commit, all of them with GDNGEN_TESTS=all; -update writes what they print now. A block
// runs in a folder that has the files of testdata/recipes.txtar, with stand-ins for ssh, gcloud and an agent.
func TestRecipesRun(t *testing.T) {
	const page = "../../docs/data/recipes.md"
	data, err := os.ReadFile(page)
	require.NoError(t, err)
	text := string(data)
	for _, b := range rotate.Sample(60, recipeBlocks(t, text), 3) {
		t.Run(b.title, func(t *testing.T) {
			cache := requirePlugins(t, b.plugins)
			dir := recipeFolder(t)
			now, _, _ := strings.Cut(b.text, "\n")
			now += "\n"
			for _, step := range b.steps {
				output := runRecipe(t, dir, cache, step.command)
				if *update && !step.matches(output) {
					step.output = sample(output)
				}
				now += "$ " + step.shown + step.output
				require.True(t, *update || step.matches(output), "$ %s\nprints\n%s\nand the page has\n%s", step.command, output, step.output)
			}
			text = strings.Replace(text, b.text, now+"```", 1)
		})
	}
	if *update {
		require.NoError(t, os.WriteFile(page, []byte(text), 0o644))
	}
}

// differs is what a run has of its own: hashes, seeds, times, and what else ran.
var differs = regexp.MustCompile(`\b[0-9a-f]{10,40}\b|\b\d{12,}\b|\b\d+(\.\d+)? ?(ms|us|µs|s)\b|note +other processes.*|; other processes.*|measured before, taken from the cache|AMD.*|Intel.*`)

// sample is the beginning of an output, without what differs from run to run.
func sample(output string) string {
	var b strings.Builder
	for i, line := range strings.Split(strings.TrimSuffix(output, "\n"), "\n") {
		if i == 6 {
			return b.String() + "...\n"
		}
		line = differs.ReplaceAllString(line, "...")
		if len(line) > 120 {
			line = line[:117] + "..."
		}
		b.WriteString(line + "\n")
	}
	return b.String()
}

// requirePlugins gives the cache that has some plugins, or skips where one is not there.
func requirePlugins(t *testing.T, names string) string {
	t.Helper()
	for name, obtain := range map[string]func(context.Context, plugins.Options) (plugins.Plugin, error){"cpu": plugins.CPU, "libtpu": plugins.TPU} {
		if !strings.Contains(names, name) {
			continue
		}
		if _, err := obtain(t.Context(), plugins.Options{}); err != nil || !pjrt.HasCgo {
			if os.Getenv("CI") == "true" {
				t.Fatalf("%s: %v (cgo: %v)", name, err, pjrt.HasCgo)
			}
			t.Skipf("%s: %v (cgo: %v)", name, err, pjrt.HasCgo)
		}
	}
	cache, err := plugins.CacheDir()
	require.NoError(t, err)
	return cache
}

// recipeFolder is a folder with the files that commands of the page read: those of recipes.txtar, and records and fixtures of other tests.
func recipeFolder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	put := func(name string, data []byte) {
		path := filepath.Join(dir, filepath.FromSlash(name))
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, data, 0o755))
	}
	archive := func(name string) *txtar.Archive {
		a, err := txtar.ParseFile(filepath.Join("testdata", filepath.FromSlash(name)))
		require.NoError(t, err)
		return a
	}
	for _, f := range archive("recipes.txtar").Files {
		put(f.Name, f.Data)
	}
	for _, f := range archive("script/ablate.txtar").Files {
		switch f.Name {
		case "story.jsonl":
			require.NoError(t, writeRecords(filepath.Join(dir, "runs", "search"), string(f.Data)))
		case "parts.jsonl":
			require.NoError(t, writeRecords(filepath.Join(dir, "runs", "search", "ablate-8"), string(f.Data)))
		}
	}
	for _, name := range []string{"tpu-before.xplane.pb", "tpu-after.xplane.pb"} {
		data, err := os.ReadFile(filepath.Join("../../pjrt/trace/testdata", name))
		require.NoError(t, err)
		put("traces/"+strings.TrimPrefix(name, "tpu-"), data)
	}
	return dir
}

// runRecipe runs a command by a shell and gives what it prints, errors behind the rest, with its status where it is not 0.
func runRecipe(t *testing.T, dir, cache, command string) string {
	t.Helper()
	c := exec.CommandContext(t.Context(), "sh", "-c", command)
	c.Dir = dir
	c.Env = append(os.Environ(), "WORK="+dir, "HOME="+dir, "XDG_CONFIG_HOME="+filepath.Join(dir, "config"), "TMPDIR="+dir, "GIT_CONFIG_GLOBAL=/dev/null", "HF_TOKEN=hf_stand_in",
		"PATH="+filepath.Join(dir, "bin")+string(os.PathListSeparator)+os.Getenv("PATH"), "GDNGEN_SSH="+filepath.Join(dir, "bin", "ssh"),
		"GDNGEN_GCLOUD="+filepath.Join(dir, "bin", "gcloud"), "GDNGEN_CONFIG=off", plugins.CacheEnv+"="+cache, plugins.LockEnv+"="+filepath.Join(dir, "machine"))
	var out, errs bytes.Buffer
	c.Stdout, c.Stderr = &out, &errs
	err := c.Run()
	text := strings.ReplaceAll(out.String()+errs.String(), dir, "...")
	if text != "" {
		text = strings.TrimSuffix(text, "\n") + "\n"
	}
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		text += fmt.Sprintf("status %d\n", exit.ExitCode())
	} else {
		require.NoError(t, err, command)
	}
	return text
}
