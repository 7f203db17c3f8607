package autotune

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/autotune/journal"
	"github.com/gdngen/gdngen/autotune/promoted"
	"github.com/gdngen/gdngen/autotune/strategy"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/target"
)

func spec(t *testing.T, text string) gdn.Spec {
	s, err := gdn.Parse(text)
	require.NoError(t, err)
	return s
}

func mustTarget(t *testing.T, name string) *target.Target {
	x, err := target.Lookup(name)
	require.NoError(t, err)
	return x
}

// best are the variants that are asked first for a spec, whether they fit memory or not.
func best(t *testing.T, s gdn.Spec, least string) []gdn.Variant {
	t.Helper()
	var list []gdn.Variant
	for _, name := range []string{"v5e", "v6e"} {
		choices, err := gdn.Choices(promoted.Class(least).Text(), s, gdn.HostTPU, mustTarget(t, name).Machine())
		require.NoError(t, err)
		list = append(list, choices[0].Variant)
	}
	return list
}

// Seeds are the named variants that are legal, each program once, and the best known.
func TestDefaultSeeds(t *testing.T) {
	targets := []*target.Target{mustTarget(t, "v5e"), mustTarget(t, "v6e")}
	for _, preset := range gdn.Presets {
		s := spec(t, preset.Name)
		seeds := DefaultSeeds(s, "bf16x1", best(t, s, "bf16x1"))
		programs := map[gdn.Variant]bool{}
		cells := map[string]bool{}
		for _, text := range seeds {
			v, err := gdn.ParseVariant(text)
			require.NoError(t, err)
			require.False(t, programs[v.Fit(s)], text)
			programs[v.Fit(s)] = true
			require.NotEqual(t, "seed given by the user", seedDoc(v, s, targets), text)
			require.Empty(t, v.Unsafe(s), text)
			cells[v.Cell()] = true
		}
		for _, n := range gdn.Variants {
			v, err := gdn.ParseVariant(n.Text)
			require.NoError(t, err)
			if v.Check(s) == nil && v.Precision() != ir.PrecF32 && !n.Negative {
				require.True(t, programs[v.Fit(s)], n.Name)
			}
		}
		for _, text := range DefaultSeeds(s, "f32", best(t, s, "f32")) {
			v, err := gdn.ParseVariant(text)
			require.NoError(t, err)
			require.True(t, strategy.Reaches(v.Precision().String(), "f32"))
		}
		require.Greater(t, len(cells), 16)
	}
}

// The best known for a spec are tried after what is made for bf16 and before all else with a pipeline.
func TestSeedsForSpec(t *testing.T) {
	for preset, name := range map[string]string{"bench": "tpu-long,prefetch=dma,hbm=yes,tail_decay=v", "train": "tpu-train-long,row_broadcast=transpose,prefetch=dma,head_group=2,state_delay=6,prologue_end=90", "contest-prefill": "tpu-packed,prefetch=dma,hbm=yes"} {
		s := spec(t, preset)
		seeds := DefaultSeeds(s, "bf16x1", best(t, s, "bf16x1"))
		at := func(name string) int {
			v, err := gdn.ParseVariant(name)
			require.NoError(t, err)
			return slices.Index(seeds, v.String())
		}
		require.Positive(t, at(name))
		require.Less(t, at(name), at("tpu"))
		require.Less(t, at("bf16"), at(name))
	}
}

// The user's champions are among the seeds where they hold, by default and as part of auto, and the header has their digest.
func TestSeedsPromoted(t *testing.T) {
	s := spec(t, "contest-decode")
	own, err := gdn.ParseVariant("decode,head_group=2")
	require.NoError(t, err)
	row := promoted.Row{Spec: s.String(), Target: "v6e", Accuracy: "fast", Variant: own.String(), Cycles: 1, Libtpu: "x", Run: "r", Candidate: 1, Date: "2026-01-31"}
	header := func(c Config) journal.Header {
		c.Spec, c.Targets, c.Warn = s, []string{"v6e"}, func(string) {}
		h, err := c.header(&fake{})
		require.NoError(t, err)
		return h
	}
	require.Empty(t, header(Config{}).Promoted)
	for _, seeds := range [][]string{nil, {"auto"}} {
		h := header(Config{Seeds: seeds, Promoted: []promoted.Row{row}})
		require.Contains(t, h.Seeds, own.String())
		require.Equal(t, promoted.Digest([]promoted.Row{row}), h.Promoted)
	}
	h := header(Config{Precision: "f32", Promoted: []promoted.Row{row}})
	require.Empty(t, h.Promoted, "less precise than the search")
	require.NotContains(t, h.Seeds, own.String())
	row.Target = "v5e"
	require.Empty(t, header(Config{Promoted: []promoted.Row{row}}).Promoted, "of another target")
}

// A search allows what auto computes in, where it is told no precision: auto is among its seeds, and there is no warning.
func TestFloorIsAuto(t *testing.T) {
	for text, want := range map[string]string{"tiny": "bf16x3", "tiny,seqs=2": "bf16x3", "bench,dtype=f32,direction=train": "", "bench": "bf16x1", "decode,dtype=f32": "f32", "tiny,rule=kda": "bf16x3"} {
		c := Config{Spec: spec(t, text), Targets: []string{"v5e", "v6e"}, Warn: func(said string) { require.Fail(t, said) }}
		h, err := c.header(&fake{})
		require.NoError(t, err)
		if want != "" {
			require.Equal(t, want, h.Precision, text)
		}
		best, err := champions(c.Spec, gdn.Auto, c.Targets)
		require.NoError(t, err)
		for _, v := range best {
			require.Contains(t, h.Seeds, v.String(), text)
		}
	}
	var said string
	c := Config{Spec: spec(t, "tiny"), Targets: []string{"v6e"}, Precision: "f32", Warn: func(text string) { said = text }}
	_, err := c.header(&fake{})
	require.NoError(t, err)
	require.Contains(t, said, "--precision bf16x3 lets it take part")
}

// auto among the seeds stands for the best known on each target.
func TestSeedsByText(t *testing.T) {
	c := Config{Spec: spec(t, "contest-decode"), Seeds: []string{"naive", "auto", "decode,head_group=2"}}
	seeds, reserve, err := c.seeds("bf16x1", []string{"v5e", "v6e"}, nil)
	require.NoError(t, err)
	var want []string
	for _, text := range []string{"naive", "decode-f32,hbm=yes", "decode,head_group=2"} {
		v, err := gdn.ParseVariant(text)
		require.NoError(t, err)
		want = append(want, v.String())
	}
	require.Equal(t, want, seeds)
	require.NotContains(t, reserve, want[0])
	require.Greater(t, len(reserve), 10)
}
