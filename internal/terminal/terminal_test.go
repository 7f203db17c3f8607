package terminal

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTable(t *testing.T) {
	var out bytes.Buffer
	tab := NewTable("NAME", ">N", "WHY")
	tab.Add("a", 10, "x  y")
	tab.Add("é-long", 5)
	tab.Write(&out)
	require.Equal(t, "NAME     N  WHY\na       10  x  y\né-long   5\n", out.String())
}

func TestNumbers(t *testing.T) {
	for n, want := range map[int64]string{-1: "?", 0: "0 B", 1023: "1023 B", 1536: "1.5 KiB", 3 << 20: "3.0 MiB"} {
		require.Equal(t, want, Size(n))
	}
	require.Equal(t, "-", Percent(1, 0))
	require.Equal(t, "12.5%", Percent(1, 8))
}

func TestPlain(t *testing.T) {
	require.Equal(t, "a bc", Plain("a\tb\x1b\u202e\n\u2028\x7fc"))
	require.Equal(t, "a\nb", Lines("a\nb\r\u200b"))
}

// Output of others comes in pieces, which may cut a character.
func TestOthers(t *testing.T) {
	text := "a\tb\x1b]0;own\x07 \x1b[2J é\u202e字\r50 %\r\nend\xff\n"
	for n := 1; n < len(text); n++ {
		var out bytes.Buffer
		w := Others(&out)
		for at := 0; at < len(text); at += n {
			m, err := w.Write([]byte(text[at:min(at+n, len(text))]))
			require.NoError(t, err)
			require.Equal(t, min(n, len(text)-at), m)
		}
		require.Equal(t, "a\tb]0;own [2J é字\n50 %\nend\n", out.String(), "%d", n)
	}
}
