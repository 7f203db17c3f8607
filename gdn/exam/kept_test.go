package exam

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/gdn"
)

// What is kept is what would be computed; another program, other inputs and a damaged file find nothing.
func TestKept(t *testing.T) {
	s, err := gdn.Parse("tiny,t=500")
	require.NoError(t, err)
	classes := Deal(s, Long(s))[0]
	want, err := Draw(s, classes, 3)
	require.NoError(t, err)
	dir := filepath.Join(t.TempDir(), "exams")
	defer func(d time.Duration) { keepAfter = d }(keepAfter)
	keepAfter = 0
	draw := func(build string) *Case {
		x, err := (&Cache{Dir: dir, Build: build}).Draw(s, classes, 3)
		require.NoError(t, err)
		require.Equal(t, want, x)
		return x
	}
	files := func() (l []string) {
		l, err := filepath.Glob(filepath.Join(dir, "*.sheet"))
		require.NoError(t, err)
		return l
	}
	draw("a")
	require.Len(t, files(), 1)
	kept := files()[0]
	x, err := blank(s, classes, 3)
	require.NoError(t, err)
	require.True(t, x.recall(kept))
	require.Equal(t, want, x, "bit by bit, with its shares")

	text, err := os.ReadFile(kept)
	require.NoError(t, err)
	text[len(text)/2] ^= 1
	require.NoError(t, os.WriteFile(kept, text, 0o644))
	require.False(t, x.recall(kept))
	draw("a")
	require.True(t, x.recall(kept), "made anew")
	draw("b")
	require.Len(t, files(), 2)
	other, err := blank(s, classes, 4)
	require.NoError(t, err)
	c := &Cache{Dir: dir, Build: "a"}
	require.NotEqual(t, filepath.Base(kept), c.name(other))

	keepAfter = time.Hour
	small, err := gdn.Parse("tiny,t=8")
	require.NoError(t, err)
	_, err = c.Draw(small, Deal(small, Supported(small))[0], 1)
	require.NoError(t, err)
	require.Len(t, files(), 2, "what takes no time is not kept")
}

// The longest unused files go first.
func TestShrink(t *testing.T) {
	dir := t.TempDir()
	for i := range 5 {
		path := filepath.Join(dir, fmt.Sprintf("%d.sheet", i))
		require.NoError(t, os.WriteFile(path, make([]byte, 100), 0o644))
		at := time.Now().Add(time.Duration((i+3)%5) * time.Minute) // 3, 4, 0, 1, 2
		require.NoError(t, os.Chtimes(path, at, at))
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "0.lock"), make([]byte, 1000), 0o644))
	shrink(dir, 250)
	left, err := filepath.Glob(filepath.Join(dir, "*"))
	require.NoError(t, err)
	require.Equal(t, []string{filepath.Join(dir, "0.lock"), filepath.Join(dir, "0.sheet"), filepath.Join(dir, "1.sheet")}, left)
}
