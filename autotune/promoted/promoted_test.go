package promoted

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/gdn"
)

func row(spec, variant string, cycles int64) Row {
	return Row{Spec: spec, Target: "v6e", Accuracy: "fast", Variant: variant, Cycles: cycles, Libtpu: "0.0.51", Run: "r", Candidate: 3, Date: "2026-01-31"}
}

func spec(t *testing.T, text string) gdn.Spec {
	s, err := gdn.Parse(text)
	require.NoError(t, err)
	return s
}

// A row is found again for exactly its spec, target and class, and is replaced by the next one for the same.
func TestWriteAndFind(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	t.Setenv(DirEnv, dir)
	rows, err := Read()
	require.NoError(t, err)
	require.Empty(t, rows)
	require.Empty(t, Digest(rows))

	path, err := Write(row("bench", "tpu,chunk=64", 900))
	require.NoError(t, err)
	require.Equal(t, filepath.Join(dir, FileName), path)
	_, err = Write(row("bench,t=512", "tpu", 50))
	require.NoError(t, err)
	first, err := Read()
	require.NoError(t, err)
	_, err = Write(row("bench", "tpu", 800))
	require.NoError(t, err)
	rows, err = Read()
	require.NoError(t, err)
	require.Len(t, rows, 2)
	require.NotEqual(t, Digest(first), Digest(rows))

	bench := spec(t, "bench")
	require.EqualValues(t, 800, Find(rows, bench, "v6e", gdn.AccuracyAny).Cycles)
	require.EqualValues(t, 800, Find(rows, bench, "v6e", gdn.AccuracyFast).Cycles)
	require.Nil(t, Find(rows, bench, "v5e", gdn.AccuracyAny))
	require.Nil(t, Find(rows, bench, "v6e", gdn.AccuracyFLA), "less precise than the wish")
	require.Nil(t, Find(rows, bench, "v6e", gdn.AccuracyF32), "less precise than the wish")
	require.Nil(t, Find(rows, spec(t, "bench,t=256"), "v6e", gdn.AccuracyAny))
	require.Nil(t, Find(rows, spec(t, "bench,dtype=f32"), "v6e", gdn.AccuracyAny), "another spec")
}

// Promotions at the same time lose no row.
func TestWriteTogether(t *testing.T) {
	t.Setenv(DirEnv, t.TempDir())
	var wait sync.WaitGroup
	errs := make([]error, 8)
	for i := range errs {
		wait.Go(func() { _, errs[i] = Write(row(fmt.Sprintf("bench,t=%d", 128*(i+1)), "tpu", 10)) })
	}
	wait.Wait()
	for _, err := range errs {
		require.NoError(t, err)
	}
	rows, err := Read()
	require.NoError(t, err)
	require.Len(t, rows, len(errs))
}

func TestOff(t *testing.T) {
	t.Setenv(DirEnv, Off)
	rows, err := Read()
	require.NoError(t, err)
	require.Empty(t, rows)
	_, err = Write(row("bench", "tpu", 1))
	require.ErrorContains(t, err, DirEnv)
}

// What is wrong is named with file, row and cure, and a refused row changes nothing.
func TestRefusals(t *testing.T) {
	dir := t.TempDir()
	t.Setenv(DirEnv, dir)
	for _, x := range []struct {
		change func(*Row)
		want   string
	}{
		{func(r *Row) { r.Variant = "tpu,chunk=5x" }, "chunk"},
		{func(r *Row) { r.Variant = "tpu,heads=1" }, "heads=1"},
		{func(r *Row) { r.Spec = "benhc" }, "benhc"},
		{func(r *Row) { r.Target = "v9" }, "v9"},
		{func(r *Row) { r.Accuracy = "fla" }, "no search ranks by"},
		{func(r *Row) { r.Accuracy = "" }, "no search ranks by"},
		{func(r *Row) { r.Accuracy = "f32-like" }, "computes in bf16x1"},
		{func(r *Row) { r.Cycles = 0 }, "one is missing"},
		{func(r *Row) { r.Date = "today" }, "date"},
	} {
		bad := row("bench", "tpu", 10)
		x.change(&bad)
		_, err := Write(bad)
		require.ErrorContains(t, err, x.want)
	}
	require.NoFileExists(t, filepath.Join(dir, FileName))

	good := `{"spec": "bench", "target": "v6e", "accuracy": "fast", "variant": "%s", "cycles": 9, "libtpu": "x", "run": "r", "candidate": 1, "date": "2026-01-31"}`
	for text, want := range map[string]string{
		`{"champions": [` + fmt.Sprintf(good, "tpu") + `, ` + fmt.Sprintf(good, "tpu,chunk=64") + `]}`: "row 2 (",
		`{"champions": [` + fmt.Sprintf(good, "nope") + `]}`:                                           "row 1 (bench on v6e)",
		`{"champions": [{"speck": "bench"}]}`:                                                          `unknown field "speck"`,
		`{"champions": []} x`:                                                                          "more behind",
		`null`:                                                                                         "it is null",
		``:                                                                                             "EOF",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, FileName), []byte(text), 0o644))
		_, err := Read()
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, err, filepath.Join(dir, FileName))
		require.ErrorContains(t, err, "GDNGEN_CONFIG=off")
		_, err = Write(row("bench", "tpu", 5))
		require.ErrorContains(t, err, want)
		after, err := os.ReadFile(filepath.Join(dir, FileName))
		require.NoError(t, err)
		require.Equal(t, text, string(after), "nothing is lost")
	}
}
