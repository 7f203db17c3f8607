package results

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/autotune/measure"
	"github.com/gdngen/gdngen/gdn"
)

// The table built in reads, each of its rows has a candidate, and the first row is the work that peers were measured on.
func TestResultsTable(t *testing.T) {
	p, err := Parse(builtIn)
	require.NoError(t, err)
	for i := range p.Rows {
		row := &p.Rows[i]
		list := p.candidatesFor(row)
		require.NotEmpty(t, list, row.Title)
		seen := map[string]bool{}
		for _, c := range list {
			require.NoError(t, c.variant.Check(row.spec), "%s by %s", row.Title, c.Name)
			require.False(t, seen[c.variant.Fit(row.spec).Hash()], "%s: %s is another candidate by another name", row.Title, c.Name)
			seen[c.variant.Fit(row.spec).Hash()] = true
		}
	}
	bench, err := gdn.Parse("bench")
	require.NoError(t, err)
	require.Equal(t, bench, p.Rows[0].spec)
}

// Some rows make a plan of their own; one that is measured by a row which is left out is measured by none.
func TestOnly(t *testing.T) {
	p, err := Parse(builtIn)
	require.NoError(t, err)
	part, err := p.Only([]string{"seqs=57", "contest-decode", "adversarial"})
	require.NoError(t, err)
	var specs []string
	for i := range part.Rows {
		row := &part.Rows[i]
		specs = append(specs, row.Spec)
		require.Equal(t, row.Title, row.Of)
		require.Zero(t, row.Within)
		require.Len(t, part.candidatesFor(row), 2)
	}
	require.Equal(t, []string{"contest-prefill,seqs=57,inplace", "contest-decode,b=64", "train"}, specs)
	part, err = p.Only([]string{"Bench", "T 1024", "Training"})
	require.NoError(t, err)
	require.Equal(t, []string{"Bench: T 4096, 8 heads, GVA 2, K = V = 128", "Training step"}, []string{part.Rows[1].Of, part.Rows[3].Of})
	require.NotZero(t, part.Rows[1].Within)
	require.NotZero(t, part.Rows[3].Within)
	require.NotZero(t, p.Rows[1].Within, "the whole stays as it is")
	_, err = p.Only([]string{"no such row"})
	require.ErrorContains(t, err, "no row has no such row in its title or spec (specs: bench ")
}

// Each peer has a compiler, a date, and for each target a figure or the reason why it has none.
func TestPeersTable(t *testing.T) {
	p, err := Parse(builtIn)
	require.NoError(t, err)
	measured, err := readPeers(measured)
	require.NoError(t, err)
	require.NotEmpty(t, measured)
	for _, peer := range measured {
		require.NotEmpty(t, peer.Version, peer.Name)
		for _, target := range []string{"v5e", "v6e", "tpu7x"} {
			_, ok := peer.Cycles[target]
			require.True(t, ok != (peer.Refused[target] != ""), "%s on %s", peer.Name, target)
		}
	}
	r := &Table{Peers: append(measured, p.Peers...)}
	for _, peer := range r.Peers {
		require.NotEmpty(t, peer.Compiler, peer.Name)
		require.NotEmpty(t, peer.Date, peer.Name)
		_, err := gdn.Parse(strings.TrimSuffix("bench,"+peer.Work, ","))
		require.NoError(t, err, peer.Name)
		_, known := peer.Arithmetic()
		require.False(t, known && peer.Work != "", "%s: errors of another rule", peer.Name)
	}
	var b bytes.Buffer
	r.peers(&b)
	require.Contains(t, b.String(), "| kernel | version | compiler | date | v5e | v6e | tpu7x | random | slow | cos.9 | cos.99 | one key | remark |")
	require.Contains(t, b.String(), "| 3.3/2.8 | 4.3/4.0 | 12/13 |", "tokamax")
	bench, others, _ := strings.Cut(b.String(), "| kernel | version | compiler | date | v5e | v6e | tpu7x | work | remark |")
	require.NotContains(t, bench, "kda")
	require.Contains(t, others, "| tokamax kimi_delta_attention |")
	require.Contains(t, others, "| `rule=kda,direction=train` |")
	_, err = readPeers([]byte(`{"peers": 1}`))
	require.ErrorContains(t, err, "table of peers")
}

func TestResultsTableErrors(t *testing.T) {
	for text, want := range map[string]string{
		``:   "line 1: it ends before it is whole",
		`{}`: "no rows",
		`{"rows": [{"title": "x", "spec": "t=0"}]}`:                                                                `row "x": spec`,
		`{"rows": [{"title": "x", "spec": "tiny", "precision": "f8"}]}`:                                            `row "x": unknown precision "f8"`,
		`{"rows": [{"title": "x", "spec": "tiny", "more": 1}]}`:                                                    "unknown field",
		`{"rows": [{"title": "x", "spec": "tiny"}], "candidates": [{"name": "c", "variant": "no"}]}`:               `candidate "c": variant`,
		`{"rows": [{"title": "x", "spec": "tiny"}], "candidates": [{"name": "c", "variant": "", "targets": "x"}]}`: `candidate "c"`,
		`{"rows": [{"title": "x", "spec": "tiny", "of": "y"}]}`:                                                    `row "x": it is measured by "y"`,
	} {
		_, err := Parse([]byte(text))
		require.ErrorContains(t, err, want, text)
	}
}

// A point of the front is one that no other beats in both cycles and the worst error; a refused one never is.
func TestFrontMark(t *testing.T) {
	f := &Front{Targets: []string{"v6e", "v4"}, Points: []Point{
		{Name: "fast", Text: "tpu", PerToken: []float64{2, 4}, Worst: 4e-2},
		{Name: "slower", Text: "tpu,decay_bf16=all", PerToken: []float64{3, 3}, Worst: 4e-2},
		{Name: "exact", Text: "tpu-x3", PerToken: []float64{4, 0}, Worst: 1e-4},
	}}
	f.mark()
	require.Equal(t, [][]bool{{true, false}, {false, true}, {true, false}}, [][]bool{f.Points[0].Best, f.Points[1].Best, f.Points[2].Best})
	var b bytes.Buffer
	f.markdown(&b, []string{"random"})
	require.Contains(t, b.String(), "| `tpu-x3` |  | **4.00** | - | 1.0e-04 |")
}

// A target that is missed is reported: more cycles than allowed relative to the first row, traffic, and work that no candidate can do.
func TestResultsRequire(t *testing.T) {
	cost := &measure.Cost{Cycles: 1}
	r := &Table{Compiler: "libtpu 1", Note: measure.StaticNote, Rows: []Result{
		{Row{Title: "The bench work"}, []*Champion{{Target: "v6e", Name: "a", PerToken: 2, HBMRatio: 1.3, Cost: cost}, {Target: "v4"}}},
		{Row{Title: "Long", Within: 1.15}, []*Champion{{Target: "v6e", Name: "a", PerToken: 2.31, Issued: 2.1, HBMRatio: 1.31, Cost: cost}, {Target: "v4", Name: "a", PerToken: 9, Cost: cost}}},
		{Row{Title: "Fine", Within: 1.15}, []*Champion{{Target: "v6e", Name: "a", PerToken: 2.29, Cost: cost}, {Target: "v4", Name: "a", PerToken: 1, Cost: cost}}},
	}}
	r.require()
	require.Equal(t, []string{
		"The bench work on v4: no candidate will do",
		"Long on v6e: 1.16 x the cycles per token of the bench work, more than 1.15 x",
		"Long on v6e: 1.31 x the necessary HBM traffic, more than 1.3 x",
	}, r.Missed)
	var b bytes.Buffer
	r.markdown(&b)
	require.Contains(t, b.String(), "\n| v6e | a |  | 2.310 (2.100) | 1.16 | 1.31 |")
	require.Contains(t, b.String(), "\n| v4 | none |")
	require.NotContains(t, b.String(), "All are met")
}
