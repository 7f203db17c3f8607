package main

import (
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gdngen/gdngen/autotune/promoted"
	"github.com/gdngen/gdngen/autotune/ruler"
	"github.com/gdngen/gdngen/cmd/gdngen/internal/app"
	"github.com/gdngen/gdngen/pjrt/plugins"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
)

// The commands that README and docs show are commands of this program: all of them parse, those in blocks have a row in the table, and the fast
// ones run here. The slow ones run, and get the date of today, by
//
//	go test ./cmd/gdngen -run TestDocumentedCommands -slow . -timeout 0
var slow = flag.String("slow", "", "run the slow commands of the documents that this pattern fits too, and write their dates")

const commandsFile = "testdata/commands.tsv"

const commandsHead = "# Commands that README and docs show. fast: run by TestDocumentedCommands. slow: run by hand (-slow .), with seconds and date of the last run; none: not yet; slow, exits 3: as its document says.\n" +
	"# away: needs machines, devices or files that a test has not. form: leaves out what the reader adds. A script runs the same verb on something small.\n"

// documented is a command in a document.
type documented struct {
	at, text string
	block    bool // shown as a line to run, not named in a sentence
}

var (
	fenced      = regexp.MustCompile("(?s)```(\\w*)\n(.*?)```")
	inlined     = regexp.MustCompile("`((?:\\./)?(?:gdngen|go run|go test|python3?) [^`]+)`")
	placeholder = regexp.MustCompile(`[\[\]|<>]|\.\.\.|(^|[\s:#'"=/])[A-Z]{1,}($|[\s'":,*./])|file\.stablehlo`)
	remark      = regexp.MustCompile(`\s+# .*`)
	quotes      = regexp.MustCompile(`'[^']*'|"[^"]*"`)
	blanks      = regexp.MustCompile(`\s+`)
	hereDoc     = regexp.MustCompile(`(?s)<<'(\w+)'\n.*?\n\w+\n`)
)

// documentedCommands lists the commands of README and docs. The days of the journal stand below: they tell of programs that were.
func documentedCommands(t *testing.T) []documented {
	files, err := filepath.Glob("../../docs/*.md")
	require.NoError(t, err)
	data, err := filepath.Glob("../../docs/data/*.md")
	require.NoError(t, err)
	var list []documented
	for _, name := range slices.Concat(files, data, []string{"../../README.md", "../../CONTRIBUTING.md"}) {
		data, err := os.ReadFile(name)
		require.NoError(t, err)
		at := filepath.Base(name)
		text := fenced.ReplaceAllStringFunc(string(data), func(block string) string {
			m := fenced.FindStringSubmatch(block)
			if m[1] != "sh" && m[1] != "" {
				return ""
			}
			for line := range strings.Lines(strings.ReplaceAll(hereDoc.ReplaceAllString(m[2], "\n"), "\\\n", " ")) {
				line = strings.TrimSpace(remark.ReplaceAllString(line, ""))
				if regexp.MustCompile(`^(\./)?(gdngen|go|python3?) `).MatchString(line) {
					list = append(list, documented{at, line, true})
				}
			}
			return ""
		})
		for _, m := range inlined.FindAllStringSubmatch(text, -1) {
			list = append(list, documented{at, m[1], false})
		}
	}
	for i, c := range list {
		c.text = blanks.ReplaceAllString(c.text, " ")
		c.text = strings.Replace(strings.TrimPrefix(c.text, "./"), "go run ./cmd/gdngen ", "gdngen ", 1)
		list[i].text = c.text
	}
	return list
}

// commandRow is a row of the table: a command, and how it is known to work.
type commandRow struct{ text, kind, seconds, date string }

// isSlow reports whether the command takes too long for each run of the tests. "slow, exits 3" is one whose document says that it fails so.
func (r *commandRow) isSlow() bool {
	return r.kind == "slow" || strings.HasPrefix(r.kind, "slow, exits ")
}

func readCommands(t *testing.T) []*commandRow {
	data, err := os.ReadFile(commandsFile)
	require.NoError(t, err)
	r := csv.NewReader(bytes.NewReader(data))
	r.Comma, r.Comment, r.FieldsPerRecord, r.LazyQuotes = '\t', '#', 4, true
	rows, err := r.ReadAll()
	require.NoError(t, err)
	var list []*commandRow
	for _, f := range rows {
		list = append(list, &commandRow{f[0], f[1], f[2], f[3]})
	}
	return list
}

func writeCommands(t *testing.T, list []*commandRow) {
	var b strings.Builder
	b.WriteString(commandsHead)
	for _, c := range list {
		fmt.Fprintln(&b, strings.Join([]string{c.text, c.kind, c.seconds, c.date}, "\t"))
	}
	require.NoError(t, os.WriteFile(commandsFile, []byte(b.String()), 0o644))
}

// words splits a command as a shell does, as far as documents need it.
func words(text string) []string {
	text, _, _ = strings.Cut(text, " > ")
	text, _, _ = strings.Cut(text, " || ")
	var list []string
	for _, m := range regexp.MustCompile(`"([^"]*)"|'([^']*)'|(\S+)`).FindAllStringSubmatch(text, -1) {
		list = append(list, m[1]+m[2]+m[3])
	}
	return list
}

// parses demands that a command of this program is one: verb, flags and arguments. Of a form, such as "gdngen device trace top TRACE [--by op]", or a mention, the
// verb and the names of flags alone.
func parses(t *testing.T, c documented) {
	fields := words(c.text)[1:]
	if i := slices.Index(fields, "--"); i >= 0 {
		fields = fields[:i+1]
	}
	found, rest, err := commandTree().Find(fields)
	require.NoError(t, err, "%s: %s", c.at, c.text)
	if !c.block || placeholder.MatchString(c.text) {
		for _, m := range regexp.MustCompile(`--([a-z][a-z-]*)`).FindAllStringSubmatch(quotes.ReplaceAllString(c.text, ""), -1) {
			known := m[1] == "help" || found.Flags().Lookup(m[1]) != nil || found.InheritedFlags().Lookup(m[1]) != nil || strings.Contains(c.text, " -- ")
			require.True(t, known, "%s: %s has no --%s", c.at, found.CommandPath(), m[1])
		}
		return
	}
	for i := range rest { // values that follow from files
		rest[i] = regexp.MustCompile(`\$\(.*\)`).ReplaceAllString(rest[i], "auto")
	}
	if err := found.ParseFlags(rest); !errors.Is(err, pflag.ErrHelp) {
		require.NoError(t, err, "%s: %s", c.at, c.text)
	}
}

func TestDocumentedCommands(t *testing.T) {
	rows := readCommands(t)
	known := map[string]*commandRow{}
	for _, r := range rows {
		require.NotContains(t, known, r.text, "given twice")
		known[r.text] = r
	}
	shown := map[string]bool{}
	for _, c := range documentedCommands(t) {
		shown[c.text] = true
		if !strings.HasPrefix(c.text, "gdngen ") {
			for _, w := range strings.Fields(c.text) {
				if strings.HasPrefix(w, "./") && w != "./..." || strings.HasPrefix(w, "tests/") {
					_, err := os.Stat(filepath.Join("../..", strings.TrimSuffix(w, "/...")))
					require.NoError(t, err, "%s: %s", c.at, c.text)
				}
			}
			continue
		}
		parses(t, c)
		verb := verbOf(t, c.text)
		if whole := c.block && !placeholder.MatchString(c.text) && len(words(c.text)) > 1+len(verb); whole {
			require.NotNil(t, known[c.text], "%s shows a command that has no row in %s: run it, and add it as fast, slow or away: %s", c.at, commandsFile, c.text)
		}
	}
	dir := documentsFolder(t)
	for _, r := range rows {
		require.True(t, shown[r.text], "%s has a row that no document shows: %s", commandsFile, r.text)
		switch {
		case r.kind == "fast":
			require.NoError(t, runDocumented(dir, r.text, time.Minute))
		case r.isSlow() && *slow != "" && regexp.MustCompile(*slow).MatchString(r.text):
			begin := time.Now()
			err := runDocumented(dir, r.text, time.Hour)
			if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && r.kind == fmt.Sprint("slow, exits ", exit.ExitCode()) {
				err = nil
			} else if err == nil && r.kind != "slow" {
				err = fmt.Errorf("%s: it is %s, and ended without a fault", r.text, r.kind)
			}
			if err != nil {
				t.Error(err)
				continue
			}
			r.seconds, r.date = fmt.Sprintf("%.0f", time.Since(begin).Seconds()), time.Now().UTC().Format(time.DateOnly)
			writeCommands(t, rows)
		case r.isSlow() && r.date != "":
			_, err := time.Parse(time.DateOnly, r.date)
			require.NoError(t, err, r.text)
		case r.isSlow(), r.kind == "away", r.kind == "form":
		default:
			script, err := os.ReadFile(filepath.Join("testdata", r.kind))
			require.NoError(t, err, r.text)
			verb := strings.Join(verbOf(t, r.text), " ")
			require.Contains(t, string(script), verb, "%s does not run %s", r.kind, verb)
		}
	}
}

func commandTree() *cobra.Command {
	root := CLI{&app.App{Stdout: io.Discard, Stderr: io.Discard}}.root()
	root.InitDefaultHelpCmd()
	return root
}

// verbOf are the words of a command up to its first argument.
func verbOf(t *testing.T, text string) []string {
	found, _, err := commandTree().Find(words(text)[1:])
	require.NoError(t, err)
	return strings.Fields(found.CommandPath())[1:]
}

// documentsFolder is where commands of documents run: with what they take for granted.
func documentsFolder(t *testing.T) string {
	dir := t.TempDir()
	for _, name := range []string{"tests", "examples"} {
		from, err := filepath.Abs("../../" + name)
		require.NoError(t, err)
		require.NoError(t, os.Symlink(from, filepath.Join(dir, name)))
	}
	require.NoError(t, os.Mkdir(filepath.Join(dir, "docs"), 0o755)) // pictures are drawn into it
	config, err := os.ReadFile("internal/tune/testdata/qwen3-next-80b-a3b.json")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "config.json"), config, 0o644))
	for _, run := range []string{"naive", "first"} {
		writeRun(func(err error) { require.NoError(t, err) }, filepath.Join(dir, "runs", run), "bench,t=64", "v6e", ruler.InOrder, []string{"naive=900", "merge-packed=500", "merge-rows=510", "token=2000", "bf16=400", "bf16x3=450", "tpu=300"})
	}
	return dir
}

func runDocumented(dir, text string, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	c := exec.CommandContext(ctx, "bash", "-c", text)
	c.Dir = dir
	c.Env = append(os.Environ(), promoted.DirEnv+"="+promoted.Off, plugins.LockEnv+"="+filepath.Join(dir, "machine"))
	out, err := c.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", text, err, out[max(0, len(out)-2000):])
	}
	return nil
}
