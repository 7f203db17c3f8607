package main

import (
	"bytes"
	"context"
	"io"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/examples/lab"
	"github.com/gdngen/gdngen/gdn/lm"
)

// A whole model serves requests in pieces, from a common prefix, and each answer is the model's own; a wrong one is noticed.
func TestServeModel(t *testing.T) {
	c := config{model: "../../gdn/lm/testdata/qwen3_next_experts", backend: "go", requests: 7, slots: 3, budget: 16, longest: 40, prefix: 12, seed: 1}
	var out bytes.Buffer
	require.NoError(t, c.serveModel(&out))
	require.Contains(t, out.String(), "7 requests in")
	require.Contains(t, out.String(), "every answer is the model's")

	b, err := lab.OpenBackend(context.Background(), c.backend, io.Discard)
	require.NoError(t, err)
	defer b.Finalize()
	m, err := lm.Open(b, c.model, dtypes.Float32)
	require.NoError(t, err)
	defer m.Finalize()
	session := m.Session()
	logits, err := take(session, []int32{1, 2, 3})
	require.NoError(t, err)
	best := lm.Draw(logits, 0, nil)
	s := modelServer{m: m}
	require.NoError(t, s.check(&prompted{prompt: []int32{1, 2, 3}, text: []int32{best}}))
	require.ErrorContains(t, s.check(&prompted{prompt: []int32{1, 2, 3}, text: []int32{(best + 1) % 64}}), "the largest is")
}
