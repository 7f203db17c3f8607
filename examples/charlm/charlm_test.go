package main

import (
	"context"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/examples/lab"
	"github.com/gdngen/gdngen/gdn/layer/device"
	"github.com/gdngen/gdngen/gdn/lm"
)

// The text trains, the loss falls, and a sample is of its alphabet and its own for each seed.
func TestTrainAndSample(t *testing.T) {
	b, err := lab.OpenBackend(context.Background(), device.Go, nil)
	require.NoError(t, err)
	txt, err := newText(opticks, 32)
	require.NoError(t, err)
	o := options{tokens: 32, batch: 4, seed: 1, size: size{symbols: len(txt.alphabet), width: 32, blocks: 2, heads: 2, dim: 16, mixer: "hybrid"}}
	ctx, r, err := train(context.Background(), b, o, txt, lab.Config{Steps: 40, Every: 40, Seed: 1})
	require.NoError(t, err)
	require.Less(t, r.Losses[39], r.Losses[0]-.8)
	require.Less(t, r.Merit, r.Losses[0]-.8)

	c, err := o.size.config()
	require.NoError(t, err)
	s, err := newSampler(b, ctx, c, txt)
	require.NoError(t, err)
	defer s.m.Finalize()
	draw := func(seed uint64, temperature float64) string {
		text, err := s.sample("The Rays of ", 30, temperature, rand.New(rand.NewPCG(seed, 1)))
		require.NoError(t, err)
		require.Len(t, text, 30)
		require.Empty(t, strings.Trim(text, string(txt.alphabet)))
		return text
	}
	require.Equal(t, draw(1, 1), draw(1, 1))
	require.NotEqual(t, draw(1, 1), draw(2, 1))
	require.Equal(t, draw(1, 0), draw(2, 0))

	// The likeliest symbols one by one are those of one call over prompt and sample.
	long := "The Rays of " + draw(1, 0)
	again, err := s.sample(long[:len(long)-1], 1, 0, nil)
	require.NoError(t, err)
	require.Equal(t, long[len(long)-1:], again)

	// The folder has a model that opens, and says the same.
	folder := t.TempDir()
	require.NoError(t, o.size.save(folder, ctx, c))
	m, err := lm.Open(b, folder, dtypes.Float32)
	require.NoError(t, err)
	defer m.Finalize()
	opened, err := (&sampler{txt, m}).sample("The Rays of ", 30, 0, nil)
	require.NoError(t, err)
	require.Equal(t, draw(1, 0), opened)
	_, err = size{mixer: "none"}.config()
	require.ErrorContains(t, err, "want hybrid, rule or attention")

	_, err = s.sample("\x00", 1, 1, nil)
	require.ErrorContains(t, err, "not in the text")
	_, err = s.sample("", 1, 1, nil)
	require.ErrorContains(t, err, "prompt is empty")
	_, err = newText([]byte("short"), 32)
	require.ErrorContains(t, err, "need at least")
}

// In bfloat16 the loss falls as in float32, a little apart from it, and weights stay in float32.
func TestMixedPrecision(t *testing.T) {
	b, err := lab.OpenBackend(context.Background(), device.Go, nil)
	require.NoError(t, err)
	txt, err := newText(opticks, 32)
	require.NoError(t, err)
	var losses [2][]float64
	for i, half := range []bool{false, true} {
		o := options{tokens: 32, batch: 4, seed: 1, half: half, size: size{symbols: len(txt.alphabet), width: 32, blocks: 2, heads: 2, dim: 16, mixer: "hybrid"}}
		store, r, err := train(context.Background(), b, o, txt, lab.Config{Steps: 20, Every: 20, Seed: 1})
		require.NoError(t, err)
		for _, l := range r.Losses {
			losses[i] = append(losses[i], float64(l))
		}
		for v := range store.IterVariables() {
			if v.DType().IsFloat() {
				require.Equal(t, dtypes.Float32, v.DType(), v.Name())
			}
		}
	}
	require.NotEqual(t, losses[0], losses[1])
	require.InDeltaSlice(t, losses[0], losses[1], .02)
	require.Less(t, losses[1][19], losses[1][0]-.4)
}
