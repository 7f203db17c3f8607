// Package store stores the objects of a search by content: a key is the SHA-256 of the content. Files are compressed,
// written atomically, and never changed.
package store

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/gdngen/gdngen/internal/disk"
)

// Store is a folder of objects. The folder is made by the first Put.
type Store struct{ Dir string }

// Key returns the key of some content.
func Key(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

func (s Store) path(key string) string { return filepath.Join(s.Dir, key[:2], key[2:]+".gz") }

// Put stores content durably and returns its key. Content that is there already is not written again.
func (s Store) Put(content []byte) (key string, err error) {
	key = Key(content)
	path := s.path(key)
	if _, err := os.Stat(path); err == nil {
		return key, nil
	}
	if err := disk.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return "", fmt.Errorf("store: %w", err)
	}
	f, err := disk.CreateTemp(s.Dir, ".new-")
	if err != nil {
		return "", fmt.Errorf("store: %w", err)
	}
	defer disk.Remove(f.Name()) // no effect after the rename
	z := gzip.NewWriter(f)
	_, err = z.Write(content)
	if err = errors.Join(err, z.Close(), f.Chmod(0o644), f.Sync(), f.Close()); err == nil {
		err = disk.Rename(f.Name(), path)
	}
	if err == nil {
		err = disk.SyncDir(filepath.Dir(path))
	}
	if err != nil {
		return "", fmt.Errorf("store: %w", err)
	}
	return key, nil
}

// Get reads an object and verifies it against its key.
func (s Store) Get(key string) ([]byte, error) {
	if _, err := hex.DecodeString(key); err != nil || len(key) != 2*sha256.Size {
		return nil, fmt.Errorf("store: %q is not a key", key)
	}
	data, err := os.ReadFile(s.path(key))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("store: object %s is missing", key)
	}
	if err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	var content []byte
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err == nil {
		content, err = io.ReadAll(z)
	}
	if err != nil {
		return nil, fmt.Errorf("store: object %s is damaged: %w", key, err)
	}
	if Key(content) != key {
		return nil, fmt.Errorf("store: object %s is damaged: its content is another", key)
	}
	return content, nil
}

// Clean removes temporary files of killed writers. No other writer may be active.
func (s Store) Clean() error {
	left, err := filepath.Glob(filepath.Join(s.Dir, ".new-*"))
	for _, path := range left {
		err = errors.Join(err, os.Remove(path))
	}
	return err
}
