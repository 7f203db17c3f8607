package remote

import (
	"io/fs"
	"os"
	"path/filepath"
)

// item is a file sent along with a job.
type item struct {
	name string // path below the working folder, with slashes
	path string // local path
	mode fs.FileMode
}

// baseName returns the name of a file or folder in the working folder.
func baseName(path string) (string, error) {
	full, err := filepath.Abs(path)
	return filepath.Base(full), err
}

// luggage lists the files to send: of a folder, everything in it. Other things than files and folders, such as links inside, are skipped.
func luggage(paths []string) (l []item, err error) {
	for _, path := range paths {
		base, err := baseName(path)
		if err != nil {
			return nil, err
		}
		info, err := os.Stat(path)
		switch {
		case err != nil:
			return nil, err
		case info.Mode().IsRegular():
			l = append(l, item{base, path, info.Mode().Perm()})
			continue
		case !info.IsDir():
			return nil, badPlace("%s is neither a file nor a folder", path)
		}
		err = filepath.WalkDir(path, func(at string, e fs.DirEntry, err error) error {
			if err != nil || !e.Type().IsRegular() {
				return err
			}
			below, err := filepath.Rel(path, at)
			if err != nil {
				return err
			}
			info, err := e.Info()
			if err == nil {
				l = append(l, item{base + "/" + filepath.ToSlash(below), at, info.Mode().Perm()})
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return l, nil
}
