package exam

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/gob"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/gofrs/flock"

	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/truth"
	"github.com/gdngen/gdngen/ir/array"
)

// A float64 reference of many tokens takes seconds, and all workers of a search need the same ones. They are stored in a folder under a hash of the
// program and of the input bytes.

// keepAfter is the least computing time of a reference that gets stored.
var keepAfter = 100 * time.Millisecond

const (
	keepMost  = 1 << 30     // bytes of the folder; the least recently used file is removed first
	waitMost  = time.Minute // for another process that computes the same reference
	waitEvery = 20 * time.Millisecond
)

// answers are the stored results of a Case.
type answers struct {
	Want   map[string]*array.Array
	Shares truth.Shares
}

// draw is Draw with the folder. Errors of the folder only cost time.
func (c *Cache) draw(s gdn.Spec, classes []truth.Class, seed uint64) (*Case, error) {
	if c.Dir == "" {
		return Draw(s, classes, seed)
	}
	x, err := blank(s, classes, seed)
	if err != nil {
		return Draw(s, classes, seed) // Draw words the error
	}
	path := filepath.Join(c.Dir, c.name(x))
	if x.recall(path) {
		return x, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), waitMost)
	defer cancel()
	lock := flock.New(path[:len(c.Dir)+2] + ".lock") // one of sixteen lock files
	if os.MkdirAll(c.Dir, 0o755) == nil {
		if ok, _ := lock.TryLockContext(ctx, waitEvery); ok {
			defer lock.Unlock()
			if x.recall(path) {
				return x, nil
			}
		}
	}
	start := time.Now()
	if err := x.solve(); err != nil {
		return Draw(s, classes, seed)
	}
	if time.Since(start) >= keepAfter && x.keep(path) == nil {
		shrink(c.Dir, keepMost)
	}
	return x, nil
}

// name returns the file name for the results of a Case.
func (c *Cache) name(x *Case) string {
	h := sha256.New()
	fmt.Fprintf(h, "%s\n%s\n%d\n", c.Build, x.Spec, boundary(x.Spec.Tokens))
	for _, name := range slices.Sorted(maps.Keys(x.Inputs)) {
		in := x.Inputs[name]
		fmt.Fprintf(h, "%s %s %d\n", name, in, len(in.Data))
		h.Write(in.Data)
	}
	return fmt.Sprintf("%x.sheet", h.Sum(nil)[:16])
}

// recall reads stored results; false if they are absent or incomplete.
func (x *Case) recall(path string) bool {
	text, err := os.ReadFile(path)
	if err != nil || len(text) < crc32.Size {
		return false
	}
	body, sum := text[crc32.Size:], text[:crc32.Size]
	var a answers
	if !bytes.Equal(sum, checksum(body)) || gob.NewDecoder(bytes.NewReader(body)).Decode(&a) != nil {
		return false
	}
	x.Want, x.shares = a.Want, a.Shares
	now := time.Now()
	os.Chtimes(path, now, now) // marks it as used
	return true
}

// keep writes the results to a temporary file and renames it, so that no reader sees a part.
func (x *Case) keep(path string) error {
	var body bytes.Buffer
	if err := gob.NewEncoder(&body).Encode(answers{x.Want, x.shares}); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), "new-")
	if err != nil {
		return err
	}
	_, err = f.Write(append(checksum(body.Bytes()), body.Bytes()...))
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return err
}

func checksum(body []byte) []byte {
	h := crc32.New(crc32.MakeTable(crc32.Castagnoli))
	h.Write(body)
	return h.Sum(nil)
}

// shrink removes the least recently used files until a folder has at most this many bytes.
func shrink(dir string, most int64) {
	names, _ := filepath.Glob(filepath.Join(dir, "*"))
	var files []fs.FileInfo
	var sum int64
	for _, name := range names {
		if info, err := os.Stat(name); err == nil && filepath.Ext(name) != ".lock" {
			files, sum = append(files, info), sum+info.Size()
		}
	}
	slices.SortFunc(files, func(a, b fs.FileInfo) int {
		return cmp.Or(a.ModTime().Compare(b.ModTime()), cmp.Compare(a.Name(), b.Name()))
	})
	for _, f := range files {
		if sum <= most {
			return
		}
		if os.Remove(filepath.Join(dir, f.Name())) == nil {
			sum -= f.Size()
		}
	}
}
