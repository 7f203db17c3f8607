package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// folder is a tiny model with a tokenizer.
func folder(t *testing.T) string {
	t.Helper()
	to := t.TempDir()
	for _, f := range []string{"qwen3_5/config.json", "qwen3_5/model.safetensors", "tokenizer/tokenizer.json"} {
		data, err := os.ReadFile(filepath.Join("../../gdn/lm/testdata", f))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(to, filepath.Base(f)), data, 0o644))
	}
	return to
}

// A dialogue of two lines, the same again for a seed, and its measurements.
func TestChat(t *testing.T) {
	o := options{model: folder(t), backend: "go", tokens: 12, temperature: .7, seed: 3}
	say := func(o options, lines string) string {
		var out bytes.Buffer
		require.NoError(t, run(o, strings.NewReader(lines), &out))
		return out.String()
	}
	first := say(o, "the light\nthe rays\n")
	require.Equal(t, 3, strings.Count(first, "> "), first)
	require.Equal(t, first, say(o, "the light\nthe rays\n"))
	o.seed = 4
	require.NotEqual(t, first, say(o, "the light\nthe rays\n"))
	o.prompt, o.temperature = "the light", 0
	one := say(o, "")
	require.NotEmpty(t, strings.TrimSpace(one))
	o.raw = true
	require.NotEqual(t, one, say(o, ""), "raw text is no dialogue")

	o.measure, o.given, o.half = true, 8, true
	var m struct {
		By      string
		Type    string
		Prefill float64 `json:"prefill_tokens_per_s"`
		Decode  float64 `json:"decode_tokens_per_s"`
		Peak    float64 `json:"peak_MiB"`
		Tokens  []int32
	}
	require.NoError(t, json.Unmarshal([]byte(say(o, "")), &m))
	require.Equal(t, "Go Backend BFloat16", m.By+" "+m.Type)
	require.Len(t, m.Tokens, 8)
	require.Positive(t, min(m.Prefill, m.Decode, m.Peak))
}

// A folder without a tokenizer, and none at all.
func TestMissing(t *testing.T) {
	o := options{model: folder(t), backend: "go", tokens: 1}
	require.NoError(t, os.Remove(filepath.Join(o.model, "tokenizer.json")))
	require.ErrorContains(t, run(o, strings.NewReader(""), &bytes.Buffer{}), "tokenizer.json")
	o.model = t.TempDir()
	require.ErrorContains(t, run(o, strings.NewReader(""), &bytes.Buffer{}), "config.json")
}
