package suggest

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestName(t *testing.T) {
	known := []string{"chunk", "chunks", "leaf"}
	require.Equal(t, `, did you mean "chunk"?`, Name("chnk", known))
	require.Equal(t, `, did you mean "leaf"?`, Name("LEAFF", known))
	require.Empty(t, Name("precision", known))
	require.Empty(t, Name("x", nil))
}

func TestStead(t *testing.T) {
	for text, want := range map[string]string{
		"version https://git-lfs.github.com/spec/v1\noid": "a pointer of Git LFS in place of the file: fetch it by git lfs pull",
		"<!DOCTYPE html>": "a page in HTML or XML, such as that of a refused download, in place of the file: download it again",
		"\n <html>":       "a page in HTML or XML, such as that of a refused download, in place of the file: download it again",
		"":                "",
		"module @main":    "",
	} {
		require.Equal(t, want, Stead([]byte(text)), text)
	}
}
