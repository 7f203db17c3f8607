package bench

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/gdngen/gdngen/internal/disk"
	"github.com/gdngen/gdngen/internal/store"
)

// Traces have the form of FlashInfer-Bench, so their checksums are in a file NAME.sums: a chain with the SHA-256 of
// each line. A line's sum is written before the line, so that every written line has one.

func sumsOf(path string) string { return strings.TrimSuffix(path, ".jsonl") + ".sums" }

// readSums reads the sums of a file of traces.
func readSums(path string) ([]string, error) {
	return store.ReadLines[string](sumsOf(path), "restore it, or remove it, and the traces are taken as they are")
}

// verify checks traces against their sums. It returns the bytes of the complete lines, and of a last line that was cut. A file without
// sums, by an earlier release, is not checked.
func verify(path string, data []byte) (whole, torn int, err error) {
	sums, err := readSums(path)
	if err != nil {
		return 0, 0, err
	}
	n := 0
	damaged := func(why string) (int, int, error) {
		return 0, 0, fmt.Errorf("%s is damaged at line %d: %s; restore it, or remove %s, and its lines are taken as they are", path, n+1, why, sumsOf(path))
	}
	for line := range bytes.Lines(data) {
		end := line[len(line)-1] == '\n'
		switch {
		case !end && n < len(sums) && store.Key(append(bytes.Clone(line[:len(line)-1]), '\n')) == sums[n]:
			return damaged("its end is another byte")
		case !end || whole+len(line) == len(data) && store.Hole(line):
			return whole, len(line), nil
		case len(sums) > 0 && n >= len(sums):
			return damaged("it has no checksum")
		case len(sums) > 0 && store.Key(line) != sums[n]:
			return damaged("its checksum does not match its content")
		}
		whole, n = whole+len(line), n+1
	}
	if len(sums) > n+1 {
		return damaged("it is missing")
	}
	return whole, 0, nil
}

// appendLine writes the sum of a line, then the line. First it drops sums without a line, and adds missing sums of an earlier release.
func appendLine(path string, line []byte) error {
	if err := disk.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	data, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	if whole := bytes.LastIndexByte(data, '\n') + 1; whole < len(data) { // of a write that failed
		if err := disk.Truncate(path, int64(whole)); err != nil {
			return err
		}
		data = data[:whole]
	}
	sums, err := readSums(path)
	if err != nil {
		return err
	}
	if lines := bytes.Count(data, []byte("\n")); len(sums) != lines {
		var text []byte
		last := ""
		for had := range bytes.Lines(data) {
			var next []byte
			if next, last, err = store.Link(last, store.Key(had)); err != nil {
				return err
			}
			text = append(text, next...)
		}
		if err := store.WriteFile(sumsOf(path), text); err != nil {
			return err
		}
	}
	if err := store.AppendLine(sumsOf(path), store.Key(line)); err != nil {
		return err
	}
	return disk.Append(path, line)
}
