package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/gdngen/gdngen/internal/disk"
)

// AppendLine adds a value to a chain of lines and waits until it is on the disk. It drops a last line cut by a kill; it
// does not change a damaged file.
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

// ReadLines reads the values of AppendLine; nil if there is no file. A last line cut by a kill is skipped. cure, part
// of an error, tells how to repair a damaged file.
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
