package layer

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Programs that were used last are held, and no more of them than so many.
func TestRecent(t *testing.T) {
	r := recent{most: 2}
	key := func(i int) programKey {
		var k programKey
		k.s.Tokens = i
		return k
	}
	p := []*programs{{}, {}, {}}
	r.put(key(0), p[0])
	r.put(key(1), p[1])
	require.Same(t, p[0], r.get(key(0)))
	r.put(key(2), p[2])
	require.Nil(t, r.get(key(1)), "used before the other")
	require.Same(t, p[0], r.get(key(0)))
	require.Same(t, p[2], r.get(key(2)))
	r.put(key(2), p[1])
	require.Same(t, p[1], r.get(key(2)))
	require.Len(t, r.list, 2)
}
