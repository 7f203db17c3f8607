package terminal

import (
	"bytes"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"
)

// FuzzOthers sends any output in two pieces: nothing hidden comes through, and where it is cut does not matter.
func FuzzOthers(f *testing.F) {
	f.Add([]byte("a\tb\x1b]0;own\a\u202e\r50 %\r\nend\xff\n"), 7)
	f.Fuzz(func(t *testing.T, text []byte, cut int) {
		var one, two bytes.Buffer
		_, err := Others(&one).Write(text)
		require.NoError(t, err)
		w := Others(&two)
		at := max(0, min(cut, len(text)))
		for _, part := range [][]byte{text[:at], text[at:]} {
			_, err := w.Write(part)
			require.NoError(t, err)
		}
		require.Equal(t, one.String(), two.String())
		for _, r := range one.String() {
			require.False(t, r != '\t' && r != '\n' && unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp))
		}
	})
}
