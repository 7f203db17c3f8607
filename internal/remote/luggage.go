package remote

import (
	"io/fs"
	"os"
	"path/filepath"
)

// item is a file that travels with a job.
type item struct {
	name string // below the working folder, with slashes
	path string // here
	mode fs.FileMode
}

// baseName is what a file or folder is called in the working folder.
func baseName(path string) (string, error) {
	full, err := filepath.Abs(path)
	return filepath.Base(full), err
}

// luggage lists what travels of files and folders, a folder with all that is in it. What is neither, such as a link inside, does not travel.
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
