package store

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzChain reads any bytes as lines of a chain: what is whole is read the same once more, and goes on.
func FuzzChain(f *testing.F) {
	one, sum, _ := Link("", 1)
	two, _, _ := Link(sum, map[string]string{"a": "b"})
	f.Add(append(bytes.Clone(one), two...))
	f.Add(append(bytes.Clone(one), two[:20]...))
	f.Add([]byte("1\n2\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		n := 0
		whole, last, old, err := ReadChain(text, func(r []byte) error {
			n++
			if !json.Valid(r) {
				return bytes.ErrTooLarge
			}
			return nil
		})
		if err != nil {
			return
		}
		line, _, err := Link(last, 3)
		require.NoError(t, err)
		if old {
			line = []byte("3\n")
		}
		m := 0
		_, _, _, err = ReadChain(append(bytes.Clone(text[:whole]), line...), func([]byte) error { m++; return nil })
		require.NoError(t, err)
		require.Equal(t, n+1, m)
	})
}
