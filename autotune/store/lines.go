package store

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
)

// AppendLine appends a value as a line of JSON, and waits until it is on the disk. What a kill left of a line is dropped.
func AppendLine(path string, v any) error {
	line, err := json.Marshal(v)
	if err != nil {
		return err
	}
	had, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if whole := bytes.LastIndexByte(had, '\n') + 1; whole < len(had) {
		if err := os.Truncate(path, int64(whole)); err != nil {
			return fmt.Errorf("dropping a line that was cut: %w", err)
		}
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(append(line, '\n'))
	return errors.Join(err, f.Sync(), f.Close())
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
	for line := range bytes.Lines(text) {
		if !bytes.HasSuffix(line, []byte("\n")) {
			break
		}
		var x T
		if err := json.Unmarshal(line, &x); err != nil {
			return nil, fmt.Errorf("%s is damaged at line %d: %w; %s", path, len(l)+1, err, cure)
		}
		l = append(l, x)
	}
	return l, nil
}
