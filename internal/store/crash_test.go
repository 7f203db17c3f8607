package store

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/tests/crash"
)

// work writes all that this package has: lines of a chain, a file as a whole, objects. It stops at the first fault.
func work(d *crash.Disk) (fault error) {
	d.Under(func() {
		for i := range 4 {
			for _, do := range []func() error{
				func() error { return AppendLine(filepath.Join(d.Root, "lines.jsonl"), i) },
				func() error { return WriteBelow(d.Root, "below/whole", []byte(strings.Repeat(fmt.Sprint(i), 999))) },
				func() error {
					_, err := Store{filepath.Join(d.Root, "objects")}.Put([]byte(fmt.Sprint("object ", i)))
					return err
				},
			} {
				if fault = do(); fault != nil {
					return
				}
				d.Ack()
			}
		}
	})
	return fault
}

// requireKept holds a folder to what was promised: line, file and object in turn.
func requireKept(t *testing.T, dir string, promised int, what string) {
	t.Helper()
	lines, err := ReadLines[int](filepath.Join(dir, "lines.jsonl"), "")
	require.NoError(t, err, what)
	require.GreaterOrEqual(t, len(lines), (promised+2)/3, what)
	require.LessOrEqual(t, len(lines), (promised+2)/3+1, what)
	for i, x := range lines {
		require.Equal(t, i, x, what)
	}
	text, err := os.ReadFile(filepath.Join(dir, "below", "whole"))
	if files := (promised + 1) / 3; files > 0 || err == nil {
		require.NoError(t, err, what)
		require.Len(t, text, 999, what)
		require.GreaterOrEqual(t, int(text[0]-'0'), files-1, what)
	}
	objects := Store{filepath.Join(dir, "objects")}
	for i := range promised / 3 {
		_, err := objects.Get(Key([]byte(fmt.Sprint("object ", i))))
		require.NoError(t, err, what)
	}
	require.NoError(t, os.MkdirAll(dir, 0o755))
	require.NoError(t, AppendLine(filepath.Join(dir, "lines.jsonl"), len(lines)), what)
	_, err = objects.Put([]byte("one more"))
	require.NoError(t, err, what)
	require.NoError(t, objects.Clean())
}

func TestPowerLoss(t *testing.T) {
	d := crash.New(filepath.Join(t.TempDir(), "run"))
	require.NoError(t, os.Mkdir(d.Root, 0o755))
	require.NoError(t, work(d))
	d.Losses(t, d.All(), crash.Few(1, 100), func(dir string, n int, what string) { requireKept(t, dir, d.Acked(n), what) })
}

func TestDiskFaults(t *testing.T) {
	for at := 1; ; at++ {
		d := crash.New(filepath.Join(t.TempDir(), "run"))
		require.NoError(t, os.Mkdir(d.Root, 0o755))
		d.FailAt, d.For = at, crash.Few(1, 1+at%3)
		err := work(d)
		if d.Ops() < at {
			require.NoError(t, err)
			break
		}
		what := fmt.Sprintf("%s, change %d", d.Name(at), at)
		if !strings.HasPrefix(what, "remove") { // of a part that is not there any more
			require.Error(t, err, what)
		}
		requireKept(t, d.Root, d.Acked(d.Ops()), what)
		t.Log(what)
	}
}

func TestFlips(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lines.jsonl")
	for i := range 6 {
		require.NoError(t, AppendLine(path, map[string]int{"n": i}))
	}
	crash.Flips(t, path, func() error { _, err := ReadLines[json.RawMessage](path, ""); return err })
}
