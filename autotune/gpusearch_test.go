package autotune

import (
	"context"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/autotune/journal"
	"github.com/gdngen/gdngen/autotune/judge"
	"github.com/gdngen/gdngen/autotune/objective"
	"github.com/gdngen/gdngen/autotune/ruler"
	"github.com/gdngen/gdngen/codegen/triton"
	"github.com/gdngen/gdngen/gdn"
)

// hills is an evaluator of Triton variants without Triton: cycles rise with the distance from a best value of each axis.
type hills struct{ refuse func(triton.Variant) bool }

func (h *hills) Plugins() map[string]string { return nil }

func (h *hills) Close() error { return nil }

func (h *hills) Gates() []judge.Gate {
	return []judge.Gate{
		gateOf(&judge.GPULab{}, "legality"),
		gateOf(&judge.GPULab{}, "build"),
		gateOf(&judge.GPULab{}, "duplicate"),
		{Name: "cost", Run: func(_ context.Context, w *judge.Work) (*judge.Refusal, error) {
			v, err := triton.Parse(w.Record.Variant, w.Spec)
			if err != nil {
				return nil, err
			}
			if h.refuse != nil && h.refuse(v) {
				return judge.Refuse(journal.Numerics, "refused by the test"), nil
			}
			off := func(n, best int) float64 { return math.Abs(math.Log2(float64(max(n, 1)) / float64(best))) }
			prepare := 1e6 * (1 + .3*off(v.PrepareWarps, 2))
			if v.Inverse == "substitution" {
				prepare *= 4
			}
			scan := 1e6 * (1 + .3*off(v.BV, 32) + .1*off(v.Warps, 4) + .2*off(v.Stages, 3))
			n := int64(prepare + scan)
			c := journal.Cost{Target: "h100", Ruler: ruler.Modelled, Cycles: n, Score: n, PerToken: perToken(w, n), Micros: journal.Figure(n), Schedule: w.Record.IR,
				Stages: []journal.Stage{{Name: "prepare", Cycles: int64(prepare)}, {Name: "scan", Cycles: int64(scan)}}}
			w.Record.Costs = append(w.Record.Costs, c)
			return nil, nil
		}},
	}
}

func gpuSpec(t *testing.T, text string) gdn.Spec {
	s, err := gdn.Parse(text)
	require.NoError(t, err)
	return s
}

// From the naive variant a search of GPUs comes to the best values of every axis; the run verifies, and goes on where it was stopped as if it had
// never stopped.
func TestSearchOnGPU(t *testing.T) {
	config := func(candidates int) Config {
		return Config{Spec: gpuSpec(t, "contest-prefill,seqs=57"), Targets: []string{"h100"}, Seeds: []string{"naive"}, Seed: 1, Candidates: candidates, Dir: t.TempDir(), Workers: 2, Evaluator: &hills{}, Generator: "test"}
	}
	c := config(60)
	sum, err := Search(t.Context(), c)
	require.NoError(t, err)
	require.Equal(t, ruler.Modelled, sum.Ruler)
	best, err := Best(c.Dir, "")
	require.NoError(t, err)
	require.Equal(t, int64(2e6), best.Cost("h100").Score, best.Variant)
	for text, want := range map[string]string{"@" + c.Dir: best.Variant, "@" + c.Dir + ",leaf=8": best.Variant + ",leaf=8", "naive": "naive"} {
		got, err := VariantOf(text)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	_, err = VariantOf("@" + c.Dir + "#1000")
	require.ErrorContains(t, err, `no candidate "1000"`)
	v, err := Verify(c.Dir, nil)
	require.NoError(t, err)
	require.Empty(t, v.Faults)
	require.Empty(t, v.Notes)
	var text strings.Builder
	require.NoError(t, sum.Text(&text, 3))
	require.Contains(t, text.String(), "modelled from machine code (nothing ran on a GPU)")
	source, err := ModuleOf(c.Dir, "h100", best)
	require.NoError(t, err)
	require.Contains(t, string(source), "@triton.jit\ndef scan(")

	half := config(25)
	_, err = Search(t.Context(), half)
	require.NoError(t, err)
	half.Candidates = 60
	_, err = Resume(t.Context(), half)
	require.NoError(t, err)
	require.Equal(t, decisions(t, c.Dir), decisions(t, half.Dir))
}

// Where the seed is refused the search goes on with its changes.
func TestRefusedSeedOnGPU(t *testing.T) {
	c := Config{Spec: gpuSpec(t, "contest-prefill,seqs=57"), Targets: []string{"h100"}, Seeds: []string{"naive"}, Candidates: 30, Dir: t.TempDir(), Workers: 1, Generator: "test",
		Evaluator: &hills{refuse: func(v triton.Variant) bool { return v.Inverse == "substitution" }}}
	_, err := Search(t.Context(), c)
	require.NoError(t, err)
	best, err := Best(c.Dir, "")
	require.NoError(t, err)
	require.NotContains(t, best.Variant, "substitution")
}

// What a search of GPUs is not made for is refused before it begins.
func TestRefusedOnGPU(t *testing.T) {
	for _, x := range []struct {
		change func(*Config)
		says   string
	}{
		{func(c *Config) { c.Targets = []string{"h100", "v6e"} }, "not for both: give each a run of its own"},
		{func(c *Config) { c.Targets = []string{"b200"} }, "no time is modelled for it"},
		{func(c *Config) { c.Strategy = "model:4" }, "searched by beam or random"},
		{func(c *Config) { c.Directive = "triangular-inversion" }, "name those of Triton with --axes"},
		{func(c *Config) { c.Axes = []string{"solver"} }, `no axis "solver" of Triton`},
		{func(c *Config) { c.Focus = map[string]string{"bv": "7"} }, "bv can not be"},
		{func(c *Config) { c.Objective = objective.Objective{Class: gdn.AccuracyFLA} }, "no objective on GPUs yet"},
		{func(c *Config) { c.Ruler = ruler.Issue }, "ranked by modelled time"},
		{func(c *Config) { c.Seeds = []string{"tpu"} }, "want auto, naive"},
		{func(c *Config) { c.Spec.Direction = gdn.Train }, "kernels of the forward pass alone"},
	} {
		c := Config{Spec: gpuSpec(t, "contest-prefill,seqs=57"), Targets: []string{"h100"}, Dir: t.TempDir(), Evaluator: &hills{}}
		x.change(&c)
		_, err := Search(t.Context(), c)
		require.ErrorContains(t, err, x.says)
	}
}

// What a search is for: TPU generations, or GPUs with their table of choices, and not both.
func TestParseTargets(t *testing.T) {
	for text, want := range map[string][]string{"v6e": {"v6e"}, "v5e, v6e,": {"v5e", "v6e"}, "h100": {"h100"}} {
		names, table, err := ParseTargets(text, gpuSpec(t, "contest-prefill,seqs=57"))
		require.NoError(t, err)
		require.Equal(t, want, names)
		require.Equal(t, text == "h100", table != nil, text)
	}
	for text, want := range map[string]string{"h100,v6e": "not for both", "h100,v66": "v66", "v66": "v66", "": "target"} {
		_, _, err := ParseTargets(text, gpuSpec(t, "contest-prefill,seqs=57"))
		require.ErrorContains(t, err, want)
	}
}
