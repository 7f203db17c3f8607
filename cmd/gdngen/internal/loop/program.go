package loop

import (
	"os/exec"
	"path/filepath"
	"sync"
)

var programs sync.Map // absolute path by name

// program returns the absolute path of a program. It is looked up only once, so a program that an agent puts into PATH later is not run.
func program(name string) (string, error) {
	if path, ok := programs.Load(name); ok {
		return path.(string), nil
	}
	path, err := exec.LookPath(name)
	if err == nil {
		path, err = filepath.Abs(path)
	}
	if err != nil {
		return "", err
	}
	first, _ := programs.LoadOrStore(name, path)
	return first.(string), nil
}
