package route_test

import (
	_ "embed"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/codegen/route"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/internal/rotate"
	"github.com/gdngen/gdngen/ir/target"
)

var pairSeed = flag.Uint64("seed", 0, "of what TestDrawnPairs draws; 0: another each time")

// pairsText is a table of specs, variants and targets that check accepted at commit 26414b2, drawn at random there. Some are refused
// since; their reason, part of the message, is in the last column.
//
//go:embed testdata/pairs.tsv
var pairsText string

// pair is a row of the table.
type pair struct{ spec, variant, target, refused string }

func pairs(t *testing.T) (list []pair) {
	for line := range strings.Lines(pairsText) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		require.Len(t, f, 4, line)
		list = append(list, pair{f[0], f[1], f[2], f[3]})
	}
	return list
}

// emitted emits a variant of a spec for a target, as check does of what it accepts, and for a CPU.
func emitted(spec, variant string, target *target.Target) error {
	s, err := gdn.Parse(spec)
	if err != nil {
		return err
	}
	f, err := route.Resolve(s, variant, target, nil)
	if err == nil {
		err = f.Variant.Check(s)
	}
	if err != nil {
		return err
	}
	m, err := f.Build()
	for _, backend := range []string{"stablehlo", "mosaic"} {
		if err != nil {
			break
		}
		var r route.Route
		if r, err = route.Lookup(backend); err == nil {
			_, err = r.Emit(m, target)
		}
	}
	return err
}

// requirePairs emits pairs, or sees them refused for their reasons. Without -all it takes some of them, which rotate by commit.
func requirePairs(t *testing.T, list []pair, sample int) {
	if draw := rotate.Rand(36); !*allPoisons {
		draw.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
		list = list[:sample]
	}
	for _, p := range list {
		t.Run(fmt.Sprint(p.spec, " by ", p.variant, " for ", p.target), func(t *testing.T) {
			t.Parallel()
			target, err := target.Lookup(p.target)
			require.NoError(t, err)
			if err = emitted(p.spec, p.variant, target); p.refused != "" {
				require.ErrorContains(t, err, p.refused)
				return
			}
			require.NoError(t, err)
		})
	}
}

// What check accepted at commit 26414b2 is emitted, but for one in twenty at most, each refused for the reason in the table.
func TestPairs(t *testing.T) {
	list := pairs(t)
	require.Len(t, list, 300)
	refused := 0
	for _, p := range list {
		if p.refused != "" {
			refused++
		}
	}
	require.LessOrEqual(t, refused, len(list)/20)
	requirePairs(t, list, 12)
}

// What the variant's own check accepts today is emitted for a CPU, and for its target but for few that the backend of TPUs refuses, with
// the instruction or pass that it can not take. -seed draws again what was printed.
func TestDrawnPairs(t *testing.T) {
	seed, n := *pairSeed, 8
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	if *allPoisons {
		n = 300
	}
	t.Logf("-seed %d", seed)
	draw := rand.New(rand.NewPCG(seed, 1))
	refused := atomic.Int64{}
	t.Run("of", func(t *testing.T) {
		for range n {
			s, v, target := drawnPair(t, draw)
			t.Run(fmt.Sprint(s, " by ", v, " for ", target.Name), func(t *testing.T) {
				t.Parallel()
				if err := emitted(s.String(), v, target); err != nil {
					require.ErrorContains(t, err, "mosaic: ")
					t.Log("refused:", err)
					refused.Add(1)
				}
			})
		}
	})
	t.Logf("%d of %d are refused for their target", refused.Load(), n)
	require.LessOrEqual(t, int(refused.Load()), max(n/20, 3))
}

// drawnPair draws a spec, a named variant that is legal for it, with up to eight axes changed, and a target.
func drawnPair(t *testing.T, draw *rand.Rand) (gdn.Spec, string, *target.Target) {
	pick := func(l ...int) int { return l[draw.IntN(len(l))] }
	some := func(text string, odds int) string {
		if draw.IntN(odds) > 0 {
			return ""
		}
		return "," + text
	}
	for {
		hk := pick(1, 1, 2, 3, 4)
		text := fmt.Sprintf("b=%d,t=%d,hk=%d,hv=%d,k=%d,v=%d", pick(1, 1, 1, 2, 3, 8), 1+draw.IntN(pick(8, 70, 300, 600)), hk, hk*pick(1, 2, 2, 3, 4),
			pick(8, 32, 64, 96, 100, 128, 128, 256), pick(8, 32, 64, 96, 100, 128, 128, 256))
		text += some("dtype=bf16", 2) + some("init", 2) + some("l2norm", 2) + some("negeig", 4) + some("packed", 2) + some("gates=fused", 2) + some("state=vk", 2) +
			some("inplace", 3) + some("final=false", 4) + some("direction=train", 6) + some(fmt.Sprint("seqs=", pick(1, 2, 3, 5, 9)), 2) + some("pool=11", 6)
		s, err := gdn.Parse(text)
		if err != nil {
			continue
		}
		target := target.All()[draw.IntN(len(target.All()))]
		suits := func(text string) bool {
			v, err := gdn.ParseVariant(text)
			return err == nil && v.Check(s) == nil
		}
		v := gdn.Variants[draw.IntN(len(gdn.Variants))].Name
		if !suits(v) {
			continue
		}
		for range draw.IntN(9) {
			a := gdn.Axes[draw.IntN(len(gdn.Axes))]
			if x := v + "," + a.Name + "=" + a.Values[draw.IntN(len(a.Values))]; !strings.Contains(v, ","+a.Name+"=") && suits(x) {
				v = x
			}
		}
		return s, v, target
	}
}
