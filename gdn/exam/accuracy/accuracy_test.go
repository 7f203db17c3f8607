package accuracy

import (
	"flag"
	"fmt"
	"math"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/codegen/route"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/internal/rotate"
	"github.com/gdngen/gdngen/ir/array"
	"github.com/gdngen/gdngen/ir/interp"
	"github.com/gdngen/gdngen/ir/target"
	"github.com/gdngen/gdngen/tests/arith"
)

var update = flag.String("update", "", "make the rows of errors.tsv anew whose kernel has one of these words in its name, or all")

// head of errors.tsv, with date and commit.
const head = `# Errors by class of inputs, rms of the error over that of the reference, against float64: kernel, column, outputs (of a long run the first 1024),
# the last 1024 outputs of a long run, final states, and the variant of a class of ours: what auto takes for it on the bench work and v6e.
# %s, on commit %s: go test ./gdn/exam/accuracy -run Table -timeout 2h -update=all
`

// chosen is the variant of a class of ours: what auto takes on v6e for the bench work.
func chosen(t *testing.T, class string) string {
	s, err := gdn.Parse("bench")
	require.NoError(t, err)
	target, err := target.Lookup("v6e")
	require.NoError(t, err)
	f, err := route.Resolve(s, gdn.Auto+"-"+class, target, nil)
	require.NoError(t, err)
	return f.Variant.Short()
}

// measured is a row made anew.
func measured(t *testing.T, kernel string, c Column) Row {
	class, ours := strings.CutPrefix(kernel, "gdngen, ")
	if !ours {
		i := slices.IndexFunc(arith.Peers, func(p arith.Peer) bool { return p.Name == kernel })
		require.GreaterOrEqual(t, i, 0, "tests/arith has no arithmetic of %s", kernel)
		e, err := c.Measure(func(s gdn.Spec, in map[string]*array.Array) (map[string]*array.Array, error) {
			return arith.Outputs(s, in, arith.Peers[i].Run), nil
		})
		require.NoError(t, err)
		return Row{kernel, c.Name, "", e}
	}
	v, err := gdn.ParseVariant(chosen(t, class))
	require.NoError(t, err)
	e, err := c.Measure(func(s gdn.Spec, in map[string]*array.Array) (map[string]*array.Array, error) {
		m, err := route.NewForm(s, v).Kernels()
		if err != nil {
			return nil, err
		}
		return interp.Run(m, in, interp.Options{})
	})
	require.NoError(t, err)
	return Row{kernel, c.Name, v.Short(), e}
}

// kernels are our classes, and all public kernels whose arithmetic is known.
func kernels() []string {
	l := Ours()
	for _, p := range arith.Peers {
		l = append(l, p.Name)
	}
	return l
}

// The table has a row for each kernel and column. Each run of the test makes some of the short ones anew, which rotate by commit.
func TestTable(t *testing.T) {
	if *update != "" {
		remake(t)
		return
	}
	require.Equal(t, kernels(), slices.Concat(Ours(), Peers()), "errors.tsv has other kernels than tests/arith")
	for _, kernel := range kernels() {
		for _, c := range Columns {
			e, ok := Of(kernel, c.Name)
			require.True(t, ok, "errors.tsv lacks %s on %s: go test ./gdn/exam/accuracy -run Table -timeout 2h -update=all", kernel, c.Name)
			require.Equal(t, c.Long(), e.Last > 0)
		}
	}
	require.Len(t, Table, len(kernels())*len(Columns))
	short := Short()
	turn := rotate.Rand(24).IntN(len(short))
	for i, kernel := range kernels() {
		c := short[(turn+i)%len(short)]
		got := measured(t, kernel, c)
		j := slices.IndexFunc(Table, func(r Row) bool { return r.Kernel == kernel && r.Column == c.Name })
		require.Equal(t, got.String(), Table[j].String(), "turn %d", turn)
	}
}

// remake writes errors.tsv.
func remake(t *testing.T) {
	commit, err := exec.Command("git", "rev-parse", "--short", "HEAD").Output()
	require.NoError(t, err)
	text := fmt.Sprintf(head, time.Now().UTC().Format(time.DateOnly), strings.TrimSpace(string(commit)))
	for _, kernel := range kernels() {
		for _, c := range Columns {
			i := slices.IndexFunc(Table, func(r Row) bool { return r.Kernel == kernel && r.Column == c.Name })
			switch asked := slices.ContainsFunc(strings.Split(*update, ","), func(word string) bool { return strings.Contains(kernel, word) }); {
			case asked || *update == "all":
				row := measured(t, kernel, c)
				t.Log(row)
				text += row.String() + "\n"
			case i >= 0:
				text += Table[i].String() + "\n"
			}
		}
	}
	require.NoError(t, os.WriteFile("errors.tsv", []byte(text), 0o644))
}

// docs/measured.md has the errors of the table, with costs.
func TestMeasured(t *testing.T) {
	data, err := os.ReadFile("../../../docs/measured.md")
	require.NoError(t, err)
	for _, kernel := range kernels() {
		var cells []string
		for _, column := range Headline {
			e, _ := Of(kernel, column)
			cells = append(cells, e.String())
		}
		require.Contains(t, string(data), "| "+strings.Join(cells, " | ")+" |", kernel)
	}
}

// docs/accuracy.md has the table as it is; with -update it is written there.
func TestDocs(t *testing.T) {
	const file = "../../../docs/accuracy.md"
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	text := string(data)
	for name, block := range map[string]string{"short": Markdown(false), "long": Markdown(true), "classes": Legend(), "claims": Claimed()} {
		before, after, ok := strings.Cut(text, "<!-- "+name+" -->\n")
		require.True(t, ok, name)
		_, after, ok = strings.Cut(after, "<!-- end -->")
		require.True(t, ok, name)
		text = before + "<!-- " + name + " -->\n" + block + "<!-- end -->" + after
	}
	if *update != "" {
		require.NoError(t, os.WriteFile(file, []byte(text), 0o644))
		return
	}
	require.Equal(t, text, string(data), "docs/accuracy.md: go test ./gdn/exam/accuracy -run Docs -update=docs")
}

// What the classes claim holds by the table, and is the next twentieth above its worst.
func TestClaims(t *testing.T) {
	for a := gdn.AccuracyFast; a <= gdn.AccuracyF32; a++ {
		for _, c := range Columns {
			e, ok := Of("gdngen, "+a.String(), c.Name)
			require.True(t, ok)
			limit, err := c.Limit(a)
			require.NoError(t, err)
			require.LessOrEqual(t, e.Worst(limit), 1., "%s on %s", a, c.Name)
			require.Greater(t, Error{10, 10, 10}.Worst(limit), 1., "%s on %s", a, c.Name)
		}
		common, own := partition(a)
		require.Len(t, own, len(claims[a].beyond))
		parts := map[float64][]Column{claims[a].most: common}
		for _, c := range own {
			require.Greater(t, claims[a].beyond[c.Name], claims[a].most)
			parts[claims[a].beyond[c.Name]] = append(parts[claims[a].beyond[c.Name]], c)
		}
		for most, columns := range parts {
			c, times := worst(a, columns)
			require.InDelta(t, math.Ceil(20*times)/20, most, 1e-9, "%s errs %.3f on %s", a, times, c.Name)
		}
	}
	_, err := Columns[0].Limit(gdn.AccuracyAny)
	require.ErrorContains(t, err, "claims no errors")
}

// Ratios of cycles that docs/measured.md states are at equal accuracy: where they stand for a class of ours, it errs no more than the public
// kernel in any of the headline's classes, or a twentieth more than tokamax, and where they do not, as much more as the page says.
func TestRatiosAtEqualAccuracy(t *testing.T) {
	for _, row := range []struct {
		ours, peer string
		most       float64
		columns    []string
	}{
		{"gdngen, fast", "tokamax", 1.05, Headline},
		{"gdngen, fast", "MaxText PR 4348", 1, Headline},
		{"gdngen, fla", "MaxText PR 4348, A kept in f32 by XLA", 1, Headline},
		{"gdngen, f32-like", "tpu-inference v2", 1, Headline},
		{"gdngen, fast", "tpu-inference v2", 1.75, []string{"random"}},
		{"gdngen, fast", "tpu-inference v2", 1.3, []string{"slow"}},
		{"gdngen, fast", "tpu-inference v2", 6.25, []string{"cos.99", "one key"}},
	} {
		for _, column := range row.columns {
			ours, ok := Of(row.ours, column)
			require.True(t, ok)
			peer, ok := Of(row.peer, column)
			require.True(t, ok)
			require.LessOrEqual(t, ours.Worst(peer), row.most, "%s beside %s on %s", row.ours, row.peer, column)
		}
	}
}
