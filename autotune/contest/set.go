package contest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/gdngen/gdngen/autotune/flashinfer"
)

// RootEnv is FlashInfer-Bench's environment variable for the folder of the data set.
const RootEnv = "FIB_DATASET_PATH"

// Set is a data set of FlashInfer-Bench: a folder with definitions/TYPE/NAME.json.
type Set struct{ Root string }

// Definition returns a definition by its exact name in the set, or else by a built-in name; a name ending in .json is a file.
func (s Set) Definition(name string) (*flashinfer.Definition, error) {
	var file string
	if strings.HasSuffix(name, ".json") {
		file = name
	} else {
		found, err := filepath.Glob(filepath.Join(s.Root, "definitions", "*", name+".json"))
		if err != nil {
			return nil, fmt.Errorf("%q is no name of a definition", name)
		}
		if len(found) > 0 {
			file = found[0]
		}
	}
	if file == "" {
		return flashinfer.Named(name)
	}
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s is missing", file)
	}
	if err != nil {
		return nil, err
	}
	d, err := flashinfer.ParseDefinition(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return d, nil
}
