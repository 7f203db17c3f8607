package main

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/autotune/measure"
	"github.com/gdngen/gdngen/internal/rotate"
	"github.com/gdngen/gdngen/pjrt/aot"
	"github.com/gdngen/gdngen/pjrt/pjrttest"
	"github.com/gdngen/gdngen/pjrt/plugins"
	"github.com/gdngen/gdngen/tests/history"
)

func TestMain(m *testing.M) {
	aot.RunWorkerIfAsked()
	os.Exit(m.Run())
}

// Costs are those of the file: of the presets that compile in seconds, rows that the change under test recorded, and one that rotates by
// commit, or some where the code that makes and measures programs has changed; and of the presets of many tokens one that rotates too.
func TestCosts(t *testing.T) {
	tab := readTable(t)
	data, err := os.ReadFile("costs.tsv")
	require.NoError(t, err)
	list, err := parseCosts(data)
	require.NoError(t, err)
	require.Equal(t, string(costsText(list)), string(data), "the file is sorted")
	seen := map[string]bool{}
	for _, c := range list {
		require.False(t, seen[c.target+" "+c.hash], "%s by %s on %s is there twice", c.preset, c.variant, c.target)
		seen[c.target+" "+c.hash] = true
		require.Regexp(t, `^(\d+\t\d+\t(\d+|\?)\t-?\d+|[a-z-]+: .+\t-\t-\t-)$`, c.figures, "in-order cycles are known where each result that a kernel takes is made, and none is left")
		require.Regexp(t, `^\d{4}-\d\d-\d\d$`, c.date)
	}
	list = tab.current(list) // of programs that have changed since there is nothing to compare with
	t.Logf("%d programs have a cost, %d wait for theirs", len(list), len(tab.missing(list, "")))
	chosen := append(sampleCosts(t, list), sampleBig(t, list)...)
	compiler := pjrttest.TPU(t)
	p, err := plugins.TPU(t.Context(), plugins.Options{})
	require.NoError(t, err)
	x := &measure.Instrument{Compiler: compiler, Libtpu: p.Name + " " + p.Version, Scratch: t.TempDir()}
	for _, c := range chosen {
		again := *c
		require.NoError(t, again.measure(t.Context(), x))
		if again.compiler == c.compiler && again.facts == c.facts {
			require.Equal(t, c.figures, again.figures, "%s by %s on %s", c.preset, c.variant, c.target)
		}
	}
}

// Rows of costs that a test computes: drawn by the commit, drawn where code has changed, and the most that the change records.
const sampledCosts, changedCosts, touchedCosts = 1, 3, 2

// sampleCosts draws rows that compile in seconds.
func sampleCosts(t *testing.T, list []*cost) []*cost {
	change := history.Changed()
	t.Log(change)
	lines, err := change.Added("costs.tsv")
	require.NoError(t, err)
	added, err := parseCosts([]byte(strings.Join(lines, "\n")))
	require.NoError(t, err)
	recorded := map[string]bool{}
	for _, c := range added {
		recorded[c.key()] = true
	}
	code, err := change.Code("github.com/gdngen/gdngen/autotune/measure")
	require.NoError(t, err)
	n := sampledCosts
	if len(code) > 0 {
		n = changedCosts
		t.Logf("%d costs are drawn in place of %d: %s have changed", n, sampledCosts, strings.Join(code, ", "))
	}
	var quick, first, left []*cost
	for _, c := range list {
		short := (c.preset == "tiny" || c.preset == "decode") && c.facts == factsOf(c.target)
		switch {
		case short && recorded[c.key()]:
			first = append(first, c)
		case short:
			quick = append(quick, c)
		case recorded[c.key()]:
			left = append(left, c)
		}
	}
	require.NotEmpty(t, slices.Concat(first, quick), "the facts of all targets have changed: go run ./tests/programs -costs 30m -only tiny")
	first, more := history.Bounded(2, first, touchedCosts)
	for _, c := range append(left, more...) {
		t.Logf("changed and not computed: %s by %s on %s", c.preset, c.variant, c.target)
	}
	return append(first, rotate.Sample(4, quick, n)...)
}

// bigText is the longest program of many tokens that a test compiles, in bytes: some twenty processor seconds. The longest are 14 MB and
// take minutes; the champions among those have a test of their own (tests/cost).
const bigText = 1 << 21

// sampleBig draws a row of the presets of many tokens, whose text is not too long.
func sampleBig(t *testing.T, list []*cost) []*cost {
	var big []*cost
	for _, c := range list {
		if (c.preset == "bench" || c.preset == "train" || c.preset == "contest-prefill") && c.facts == factsOf(c.target) {
			big = append(big, c)
		}
	}
	require.NotEmpty(t, big, "the facts of all targets have changed: go run ./tests/programs -costs 30m -only bench")
	for _, i := range rotate.Rand(27).Perm(len(big)) {
		if n := big[i].size(); 0 < n && n <= bigText {
			t.Logf("%s by %s on %s", big[i].preset, big[i].variant, big[i].target)
			return big[i : i+1]
		}
	}
	require.Failf(t, "nothing to compile", "each of %d programs of many tokens is refused or has more than %d bytes: bigText must grow", len(big), bigText)
	return nil
}

// What has no cost yet is listed once, and a program that has changed waits for a new one.
func TestMissing(t *testing.T) {
	tab := readTable(t)
	all := tab.missing(nil, "")
	require.Greater(t, len(all), 500)
	for _, c := range all[:10] {
		c.facts = factsOf(c.target)
	}
	require.Len(t, tab.missing(all[:10], ""), len(all)-10)
	require.Len(t, tab.missing(nil, "tiny,token"), 3, "of some rows")
	all[0].facts = "other"
	require.Len(t, tab.missing(all[:10], ""), len(all)-9, "of a model that has changed")
	stale := *all[0]
	stale.hash = "0123456789ab"
	require.Len(t, tab.current([]*cost{all[1], &stale}), 1)
	text := costsText([]*cost{{"v6e", "ab", "tiny", "token", "1\t2\t?\t3", "libtpu 1", "f", "m", "2026-01-01", "c"}, {"v6e", "ac", "tiny", "token", "crash: x\t-\t-\t-", "libtpu 1", "f", "-", "2026-01-02", "b"}})
	require.Contains(t, string(text), "\n# whole since\tc\t2026-01-01\n# cost model\t-\t1 rows\n# cost model\tm\t1 rows\n", "it is as old as its oldest row")
	back, err := parseCosts(text)
	require.NoError(t, err)
	require.Equal(t, []string{"1\t2\t?\t3", "crash: x\t-\t-\t-"}, []string{back[0].figures, back[1].figures})
}
