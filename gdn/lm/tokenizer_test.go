package lm_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/gdn/lm"
)

// copied puts files of testdata into a folder.
func copied(t *testing.T, folder string, files ...string) string {
	t.Helper()
	for _, f := range files {
		data, err := os.ReadFile(filepath.Join("testdata", f))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(folder, filepath.Base(f)), data, 0o644))
	}
	return folder
}

// Tokens equal the package tokenizers' (tests/peers/tokenizer.py), and decode to the text.
func TestTokenizer(t *testing.T) {
	folder := copied(t, t.TempDir(), "tokenizer/tokenizer.json")
	require.NoError(t, os.WriteFile(filepath.Join(folder, "config.json"), []byte(`{"text_config": {"eos_token_id": 5}}`), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(folder, "generation_config.json"), []byte(`{"eos_token_id": [1, 7]}`), 0o644))
	k, err := lm.OpenTokenizer(folder)
	require.NoError(t, err)
	data, err := os.ReadFile("testdata/tokenizer/texts.json")
	require.NoError(t, err)
	var want struct {
		Texts []struct {
			Text   string
			Tokens []int32
		}
	}
	require.NoError(t, json.Unmarshal(data, &want))
	require.Len(t, want.Texts, 4)
	for _, w := range want.Texts {
		require.Equal(t, w.Tokens, append([]int32{}, k.Encode(w.Text)...), "%q", w.Text)
		require.Equal(t, w.Text, k.Decode(w.Tokens))
	}
	require.True(t, k.Has("<|im_start|>"))
	require.False(t, k.Has("<|none|>"))
	for token, ends := range map[int32]bool{5: true, 1: true, 7: true, 2: false} {
		require.Equal(t, ends, k.Ends(token), token)
	}
	require.NoError(t, os.WriteFile(filepath.Join(folder, "generation_config.json"), []byte(`{"eos_token_id": "x"}`), 0o644))
	_, err = lm.OpenTokenizer(folder)
	require.ErrorContains(t, err, `eos_token_id is "x", want a number or a list of them`)
	_, err = lm.OpenTokenizer(t.TempDir())
	require.ErrorContains(t, err, "tokenizer.json")
}
