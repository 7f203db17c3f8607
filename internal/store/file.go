package store

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/gdngen/gdngen/internal/disk"
)

// WriteFile replaces a file atomically: the old content stays until the new one is on the disk. Its mode stays; a new
// file's is 0644. A pipe, or other special file, is written directly. Errors name path.
func WriteFile(path string, data []byte) error { return naming(path, replace(path, data)) }

// WriteBelow writes a file at a path with slashes, relative to dir, and makes missing folders.
func WriteBelow(dir, path string, data []byte) error {
	whole := filepath.Join(dir, filepath.FromSlash(path))
	if err := disk.MkdirAll(filepath.Dir(whole), 0o755); err != nil {
		return err
	}
	return WriteFile(whole, data)
}

// Writable returns an error if no file can be made at path. Call it before long work whose result goes there.
func Writable(path string) error {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err == nil {
			err = f.Close()
		}
		return err
	}
	part, err := os.CreateTemp(filepath.Dir(path), ".part-")
	if err == nil {
		err = errors.Join(part.Close(), os.Remove(part.Name()))
	}
	return naming(path, err)
}

// naming replaces the temporary name in an error by path.
func naming(path string, err error) error {
	if at := (*fs.PathError)(nil); errors.As(err, &at) {
		return &fs.PathError{Op: "write", Path: path, Err: at.Err}
	}
	return err
}

func replace(path string, data []byte) error {
	if to, err := filepath.EvalSymlinks(path); err == nil {
		path = to // keep the link, replace its target
	}
	mode := fs.FileMode(0o644)
	if info, err := os.Stat(path); err == nil {
		if !info.Mode().IsRegular() {
			return os.WriteFile(path, data, mode)
		}
		mode = info.Mode().Perm()
	}
	part, err := disk.CreateTemp(filepath.Dir(path), ".part-")
	if err != nil {
		return err
	}
	_, err = part.Write(data)
	if err = errors.Join(err, part.Chmod(mode), part.Sync(), part.Close()); err == nil {
		err = disk.Rename(part.Name(), path)
	}
	if err != nil {
		disk.Remove(part.Name())
		return err
	}
	return disk.SyncDir(filepath.Dir(path))
}

// Same reports whether two names are one folder; the second need not exist.
func Same(x, y string) (bool, error) {
	dx, err := os.Stat(x)
	if err != nil {
		return false, err
	}
	dy, err := os.Stat(y)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	return err == nil && os.SameFile(dx, dy), err
}
