package trace

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// kinds are the suffixes of readable files, best first.
var kinds = []string{".xplane.pb", "perfetto_trace.json.gz", ".trace.json.gz", ".trace.json"}

// Open reads a file, or the newest run in a folder: a run's folder, or one with plugins/profile/RUN inside. The error comes from the
// file system, is a *FileError, or is ctx's.
func Open(ctx context.Context, path string) (*Trace, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	files := []string{path}
	if info.IsDir() {
		if files, err = newest(path); err != nil {
			return nil, err
		}
	}
	all := &Trace{}
	for _, f := range files {
		t, err := read(ctx, f)
		if err != nil {
			return nil, err
		}
		if len(files) > 1 {
			for _, p := range t.Planes {
				p.Host = filepath.Base(f)
			}
		}
		all.Files = append(all.Files, f)
		all.Hosts = append(all.Hosts, t.Hosts...)
		all.Planes = append(all.Planes, t.Planes...)
		all.Warnings = append(all.Warnings, t.Warnings...)
		all.Cut, all.kineto = all.Cut || t.Cut, all.kineto || t.kineto
	}
	all.describe()
	return all, nil
}

// newest returns the files of the newest run below a folder, of the best kind that the run has.
func newest(root string) ([]string, error) {
	runs := map[string][]string{}
	last := ""
	var when int64
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || kindOf(path) == len(kinds) {
			return err
		}
		info, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil // deleted meanwhile
		}
		if err != nil {
			return err
		}
		dir := filepath.Dir(path)
		runs[dir] = append(runs[dir], path)
		if x := info.ModTime().UnixNano(); last == "" || later(filepath.Base(dir), filepath.Base(last), x, when) {
			last, when = dir, x
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if last == "" {
		return nil, &FileError{root, -1, "no trace in this folder: no file ends in " + strings.Join(kinds, ", ")}
	}
	files := runs[last]
	best := slices.MinFunc(files, func(a, b string) int { return cmp.Compare(kindOf(a), kindOf(b)) })
	return slices.DeleteFunc(files, func(f string) bool { return kindOf(f) != kindOf(best) }), nil
}

// later reports whether run a is newer than b: by name if names are times, since a copied file has a new time; else by the files' times x, y.
func later(a, b string, x, y int64) bool {
	if digits(a) > 0 && digits(b) > 0 && a != b {
		return compareNames(a, b) > 0
	}
	return x > y
}

// kindOf returns the index in kinds for a file; len(kinds) for none.
func kindOf(path string) int {
	for i, end := range kinds {
		if strings.HasSuffix(path, end) {
			return i
		}
	}
	return len(kinds)
}

// read reads a file of any name.
func read(ctx context.Context, path string) (*Trace, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	t, err := decode(ctx, f)
	if d := (*damage)(nil); errors.As(err, &d) {
		return nil, &FileError{path, d.at, d.reason}
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return t, nil
}

// decode recognizes the format by the first bytes.
func decode(ctx context.Context, in io.Reader) (*Trace, error) {
	b := bufio.NewReader(in)
	if magic, _ := b.Peek(2); bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		z, err := gzip.NewReader(b)
		if err != nil {
			return nil, &damage{-1, "cut off, or not gzip: " + err.Error()}
		}
		t, err := decode(ctx, &inflater{z})
		if bad := (*gzipError)(nil); errors.As(err, &bad) {
			return nil, &damage{-1, bad.Error()}
		}
		return t, err
	}
	head, err := b.Peek(512)
	switch {
	case len(head) == 0 && errors.Is(err, io.EOF):
		return nil, &damage{0, "the file is empty"}
	case isJSON(head):
		return readJSON(&guard{ctx: ctx, in: b, most: mostJSON, json: true})
	case err != nil && !errors.Is(err, io.EOF):
		return nil, err
	}
	data, err := io.ReadAll(&guard{ctx: ctx, in: b, most: mostSpace})
	if err != nil {
		return nil, err
	}
	return readXSpace(data)
}

// isJSON reports whether a file begins as a JSON list or object. An XSpace too may begin with a line break and a brace: then its first
// plane has 123 bytes.
func isJSON(head []byte) bool {
	head = bytes.TrimSpace(head)
	if len(head) == 0 || head[0] != '{' && head[0] != '[' {
		return false
	}
	next := bytes.TrimSpace(head[1:])
	return len(next) == 0 || bytes.ContainsRune([]byte("\"{}[]"), rune(next[0]))
}

// inflater marks errors of the gzip stream, to distinguish them from errors of its contents.
type inflater struct{ z *gzip.Reader }

type gzipError struct{ err error }

func (e *gzipError) Error() string {
	if errors.Is(e.err, io.ErrUnexpectedEOF) {
		return "cut off: the gzip stream ends too early"
	}
	return "damaged: " + e.err.Error()
}

func (i *inflater) Read(b []byte) (int, error) {
	n, err := i.z.Read(b)
	if err != nil && !errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = &gzipError{err}
	}
	return n, err
}

// compareNames orders names by the numbers in them: TPU:2 comes before TPU:10.
func compareNames(a, b string) int {
	for a != "" && b != "" {
		x, y := digits(a), digits(b)
		if x > 0 && y > 0 {
			m, n := strings.TrimLeft(a[:x], "0"), strings.TrimLeft(b[:y], "0")
			if c := cmp.Or(cmp.Compare(len(m), len(n)), strings.Compare(m, n)); c != 0 {
				return c
			}
			a, b = a[x:], b[y:]
			continue
		}
		if a[0] != b[0] {
			return cmp.Compare(a[0], b[0])
		}
		a, b = a[1:], b[1:]
	}
	return cmp.Compare(len(a), len(b))
}

func digits(s string) int {
	n := 0
	for n < len(s) && s[n] >= '0' && s[n] <= '9' {
		n++
	}
	return n
}
