// Package disk makes the file-system changes for journals, objects and files that are replaced atomically. Its functions have the
// names of package os. Tests substitute another System that fails, or that keeps only what survives a loss of power (tests/crash).
package disk

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
)

// File is an open file, such as *os.File.
type File interface {
	io.Reader
	io.Writer
	io.WriterAt
	io.Closer
	Name() string
	Truncate(size int64) error
	Chmod(fs.FileMode) error
	Sync() error
}

// System makes changes. Reads use package os.
type System interface {
	OpenFile(path string, flag int, mode fs.FileMode) (File, error)
	CreateTemp(dir, pattern string) (File, error)
	Rename(from, to string) error
	Remove(path string) error
	Truncate(path string, size int64) error
	Mkdir(path string, mode fs.FileMode) error
	SyncDir(path string) error // makes the names in a folder durable
}

// OS is the operating system.
type OS struct{}

func (OS) OpenFile(path string, flag int, mode fs.FileMode) (File, error) {
	f, err := os.OpenFile(path, flag, mode)
	if err != nil {
		return nil, err
	}
	return f, nil
}

func (OS) CreateTemp(dir, pattern string) (File, error) {
	f, err := os.CreateTemp(dir, pattern)
	if err != nil {
		return nil, err
	}
	return f, nil
}

func (OS) Rename(from, to string) error              { return os.Rename(from, to) }
func (OS) Remove(path string) error                  { return os.Remove(path) }
func (OS) Truncate(path string, size int64) error    { return os.Truncate(path, size) }
func (OS) Mkdir(path string, mode fs.FileMode) error { return os.Mkdir(path, mode) }

func (OS) SyncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

var current atomic.Pointer[System]

func system() System {
	if s := current.Load(); s != nil {
		return *s
	}
	return OS{}
}

// Use substitutes a system for all further writes, in tests. back restores the operating system.
func Use(s System) (back func()) {
	current.Store(&s)
	return func() { current.Store(nil) }
}

func OpenFile(path string, flag int, mode fs.FileMode) (File, error) {
	return system().OpenFile(path, flag, mode)
}
func CreateTemp(dir, pattern string) (File, error) { return system().CreateTemp(dir, pattern) }
func Rename(from, to string) error                 { return system().Rename(from, to) }
func Remove(path string) error                     { return system().Remove(path) }
func Truncate(path string, size int64) error       { return system().Truncate(path, size) }
func SyncDir(path string) error                    { return system().SyncDir(path) }

// Trouble reports whether an error means a full or failing disk: the same write may succeed later.
func Trouble(err error) bool {
	for _, e := range []error{syscall.ENOSPC, syscall.EIO, syscall.EDQUOT, syscall.EFBIG, syscall.EROFS} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// MkdirAll makes a folder and its parents; each is on the disk when it returns.
func MkdirAll(path string, mode fs.FileMode) error {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return nil
	}
	above := filepath.Dir(path)
	if above != path {
		if err := MkdirAll(above, mode); err != nil {
			return err
		}
	}
	if err := system().Mkdir(path, mode); err != nil {
		if info, bad := os.Stat(path); bad != nil || !info.IsDir() { // another process made it
			return err
		}
	}
	return system().SyncDir(above)
}

// Append adds bytes to a file, which is made if missing, and waits until they are on the disk. After an error the file
// is unchanged, or has a part of the bytes at its end.
func Append(path string, text []byte) error {
	_, err := os.Stat(path)
	isNew := errors.Is(err, fs.ErrNotExist)
	f, err := OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil && isNew {
		err = SyncDir(filepath.Dir(path))
	}
	return err
}

// Sum returns the SHA-256 of a file, in hexadecimal.
func Sum(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
