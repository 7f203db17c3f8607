package main

import (
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/pjrt/pjrttest"
)

// A small layer, with fewer slots than requests and prompts longer than the budget of a step: slots are handed on, prompts are cut,
// and all outputs are those of float64.
func TestServe(t *testing.T) {
	pjrttest.CPUPlugin(t)
	prefill, err := gdn.ParseVariant("token,chunk=8")
	require.NoError(t, err)
	decode, err := gdn.ParseVariant("cpu-decode")
	require.NoError(t, err)
	c := config{layer: gdn.NewSpec(1, 1, 1, 2, 16, 8), prefill: prefill, decode: decode, window: 1, requests: 7, slots: 3, budget: 32, longest: 60, poisoned: -1, seed: 1}
	var out strings.Builder
	require.NoError(t, c.run(&out))
	require.Contains(t, out.String(), "7 requests in ")
	require.Regexp(t, `\n   6 .* tokens  \.+P+d+\n`, out.String(), "more requests than slots: the last one waits first")
	require.Regexp(t, `tokens  P\.*P+d+\n`, out.String(), "a prompt longer than the budget takes several steps")
}

// Requests that share a prefix start from the state that was kept after it, and windows roll wrong drafts back: all outputs are those
// of float64, and the prefix is computed once.
func TestServePrefixAndWindows(t *testing.T) {
	pjrttest.CPUPlugin(t)
	layer := gdn.NewSpec(1, 1, 1, 2, 16, 8)
	layer.Gates, layer.State = gdn.GatesFused, gdn.StateVK
	decode, err := variant(layer, gdn.Auto)
	require.NoError(t, err)
	prompts := layer
	prompts.Tokens, prompts.Seqs = 32, 2
	prefill, err := variant(prompts, gdn.Auto)
	require.NoError(t, err)
	c := config{layer: layer, prefill: prefill, decode: decode, prefix: 40, window: 4, requests: 9, slots: 3, budget: 32, longest: 30, poisoned: -1, seed: 1}
	var out strings.Builder
	require.NoError(t, c.run(&out))
	require.Contains(t, out.String(), "4 requests started from the state after 40 tokens that they share, 160 tokens of prefill less")
	require.Regexp(t, `tokens  \.*P+[1-4]*[1-3][1-4]+\n`, out.String(), "drafts are rolled back")
	require.Regexp(t, `[23]\.\d\d of 4 tokens of a window were right`, out.String())
}

// One request in twenty has NaN and infinity in its prompt: its own outputs show it, and those of the others are the same to the bit,
// by the champions of a CPU.
func TestServePoisoned(t *testing.T) {
	pjrttest.CPUPlugin(t)
	layer := gdn.NewSpec(1, 1, 1, 2, 16, 8)
	layer.Gates, layer.State = gdn.GatesFused, gdn.StateVK
	prompts := layer
	prompts.Tokens, prompts.Seqs = 32, 2
	prefill, err := variant(prompts, gdn.Auto)
	require.NoError(t, err)
	decode, err := variant(layer, gdn.Auto)
	require.NoError(t, err)
	c := config{layer: layer, prefill: prefill, decode: decode, prefix: 5, window: 3, requests: 20, slots: 8, budget: 32, longest: 16, poisoned: -1, seed: 2}
	clean, err := c.serve(layer, io.Discard)
	require.NoError(t, err)
	c.poisoned = 4
	poisoned, err := c.serve(layer, io.Discard)
	require.NoError(t, err)
	require.Len(t, poisoned, 20)
	for i, q := range poisoned {
		require.Equal(t, clean[i].id, q.id)
		if q.id == c.poisoned {
			require.True(t, q.bad())
			continue
		}
		require.Equal(t, clean[i].output, q.output, "request %d", q.id)
	}
	var out strings.Builder
	require.NoError(t, c.judge(layer, poisoned, &out))
	require.Contains(t, out.String(), "request 4 was poisoned")
}

// The check at the end is one that can fail.
func TestCheck(t *testing.T) {
	s := gdn.NewSpec(1, 1, 1, 2, 16, 8)
	s.Gates = gdn.GatesFused
	q := newRequest(s, 0, 5, 3, rand.New(rand.NewPCG(1, 1)))
	off, err := q.check(s)
	require.NoError(t, err)
	require.InDelta(t, 1, off, 1e-6, "nothing was computed")
}
