package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The gallery without the program: pages with links that lead somewhere, an index of headings, schedules of all works and targets, charts and
// the table of errors; no script or style from elsewhere. Reports are the program's, which the command builds.
func TestSite(t *testing.T) {
	t.Chdir("../..")
	s := &site{out: t.TempDir(), stored: os.DirFS("cmd/release/schedules")}
	require.NoError(t, s.write())
	read := func(name string) string {
		data, err := os.ReadFile(filepath.Join(s.out, filepath.FromSlash(name)))
		require.NoError(t, err)
		return string(data)
	}
	home := read("index.html")
	for _, want := range []string{"<figcaption>in-order cycles per token and value head, T 4096", ">gdngen, f32-like</td>", `<a href="explain/train_v5e.html" title="`, "runs/train.jsonl", "runs/kda.jsonl", `href="docs/serving.html"`, "runs/tiny.jsonl"} {
		require.Contains(t, home, want)
	}
	require.Equal(t, 2, strings.Count(home, "<svg"))
	require.Equal(t, len(works)*len(siteTargets), strings.Count(home, `<a href="explain/`))
	require.Contains(t, read("explain/packed_tpu7x.html"), `<svg class="schedule"`)
	rows, err := readSchedules(s.stored)
	require.NoError(t, err)
	require.Len(t, rows, len(works)*len(siteTargets), "a stored page that the gallery does not show")
	serving := read("docs/serving.html")
	require.Contains(t, serving, `<h2 id="states-that-have-names">`)
	require.Contains(t, serving, `<a href="pallas.html#decode">`)
	require.Contains(t, serving, `href="`+repository+`examples/serving"`)
	require.Contains(t, serving, "<div class=\"wide\">\n<table>")
	require.Contains(t, read("index.js"), `{"u":"docs/serving.html#states-that-have-names","p":"Serving","h":"States that have names","t":"With read a call has two lists of slots`)
	require.NoError(t, filepath.WalkDir(s.out, func(path string, d os.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".html") {
			return err
		}
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		for _, from := range []string{`<script src="http`, `<link rel="stylesheet" href="http`, `src="//`} {
			require.NotContains(t, string(data), from, path)
		}
		return nil
	}))
}

// A chart lacks no work that it names, and an error table no figure.
func TestCharts(t *testing.T) {
	list, err := champions("| work | v4 | v6e |\n|---|---:|---:|\n| T 1 | (153.25) | 499.88 (74.75) |\n| T 7 | (31.96) | 109.02 (21.71) |\n", map[string]float64{"T 7": 7, "T 1": 1})
	require.NoError(t, err)
	require.Equal(t, []series{{"v6e", [][2]float64{{1, 499.88}, {7, 109.02}}}}, list, "v4 has no wall")
	_, err = champions("| work | v4 |\n| T 1 | (1) |\n", map[string]float64{"T 1": 1, "T 9": 9})
	require.ErrorContains(t, err, "1 of the 2 works")
	table, err := errorTable("# head\na\trandom\t1e-3\t\t2e-3\na\tslow, long\t1\t1\t1\nb\trandom\t2e-3\t\t\n")
	require.NoError(t, err)
	require.Contains(t, table, `<td title="random" style="--share:0.00">1.00</td>`)
	require.Contains(t, table, `<td title="random" style="--share:1.00">2.00</td>`)
	require.NotContains(t, table, "slow")
	_, err = errorTable("a\tb\n")
	require.Error(t, err)
}
