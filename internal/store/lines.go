package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/gdngen/gdngen/internal/disk"
)

// AppendLine adds a value to a file of lines, as one of a chain, and waits until it is on the disk. A last line that a kill cut is dropped
// before; a file that is damaged is left as it is.
func AppendLine(path string, v any) error {
	had, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	whole, last, old, err := ReadChain(had, func([]byte) error { return nil })
	if err != nil {
		return fmt.Errorf("%s is damaged at %w", path, err)
	}
	if whole < len(had) {
		if err := disk.Truncate(path, int64(whole)); err != nil {
			return fmt.Errorf("dropping a line that was cut: %w", err)
		}
	}
	line, _, err := Link(last, v)
	if old && whole > 0 {
		line, err = json.Marshal(v)
		line = append(line, '\n')
	}
	if err != nil {
		return err
	}
	return disk.Append(path, line)
}

// ReadLines reads what AppendLine wrote; none where there is no file. A last line that a kill cut is left out. cure says in the error what
// mends a damaged file.
func ReadLines[T any](path, cure string) (l []T, err error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	_, _, _, err = ReadChain(text, func(record []byte) error {
		var x T
		err := json.Unmarshal(record, &x)
		l = append(l, x)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("%s is damaged at %w; %s", path, err, cure)
	}
	return l, nil
}
