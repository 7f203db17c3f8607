// Package disk is the part of a file system that is below journals, objects and files that are written as a whole. Its functions are those
// of package os. Tests put another System below, which fails, or keeps what a loss of power would leave (tests/crash).
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

// File is an open file, as os.File is one.
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

// System makes the changes. Reading is left to package os.
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

// Use puts a system below all that is written from now on, for tests. back takes it away.
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

// Trouble tells the errors of a disk that is full or fails: the same may succeed later.
func Trouble(err error) bool {
	for _, e := range []error{syscall.ENOSPC, syscall.EIO, syscall.EDQUOT, syscall.EFBIG, syscall.EROFS} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// MkdirAll makes a folder and those above it, each of which is on the disk when it returns.
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
		if info, bad := os.Stat(path); bad != nil || !info.IsDir() { // another made it
			return err
		}
	}
	return system().SyncDir(above)
}

// Append adds bytes to a file, which is made where it is missing, and waits until they are on the disk. After an error the file is as it was,
// or has a part of them at its end.
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

// Sum is the SHA-256 of a file, in hexadecimal.
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
