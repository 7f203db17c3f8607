package bench

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/gofrs/flock"

	"github.com/gdngen/gdngen/autotune/flashinfer"
	"github.com/gdngen/gdngen/autotune/journal"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/internal/disk"
	"github.com/gdngen/gdngen/internal/store"
)

// Author is the author written into the traces of gdngen's solutions.
const Author = "gdngen"

const (
	settingsName = "bench.json" // the protocol
	lockName     = "lock"
)

// LockedError says that another process writes to the folder.
type LockedError struct{ Dir string }

func (e *LockedError) Error() string {
	return fmt.Sprintf("run %s is in use by another process: wait for its end, or choose another folder", e.Dir)
}

// SettingsError says that a folder holds measurements by another protocol.
type SettingsError struct {
	Dir       string
	Have, Ask Protocol
}

func (e *SettingsError) Error() string {
	return fmt.Sprintf("run %s was measured by another protocol, %v, not %v: give the same, or choose another folder", e.Dir, e.Have, e.Ask)
}

// Store is the folder of a sweep: definitions, workloads, solutions and traces as FlashInfer-Bench lays them out, and the
// protocol. Lines are only ever appended.
type Store struct {
	Dir      string
	Warnings []string // about lines that were cut short
	Author   string   // author of the solutions to come
	lock     *flock.Flock
	done     map[key]*flashinfer.Trace
}

// key identifies the latest trace of a solution on a workload.
type key struct{ definition, solution, workload string }

// OpenStore opens a folder for writing, and makes it if missing. The error is a *LockedError if another process writes
// to it, and a *SettingsError if it was begun with another protocol.
func OpenStore(dir string, p Protocol) (*Store, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	s := &Store{Dir: dir, Author: Author, lock: flock.New(filepath.Join(dir, lockName)), done: map[key]*flashinfer.Trace{}}
	locked, err := journal.Take(s.lock)
	if err != nil {
		return nil, fmt.Errorf("locking %s: %w", dir, err)
	}
	if !locked {
		return nil, &LockedError{dir}
	}
	if err := s.open(p); err != nil {
		return nil, errors.Join(err, s.lock.Unlock())
	}
	return s, nil
}

func (s *Store) open(p Protocol) error {
	path := filepath.Join(s.Dir, settingsName)
	data, err := os.ReadFile(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		if data, err = flashinfer.Indent(p); err == nil {
			err = writeFile(path, data)
		}
		if err != nil {
			return err
		}
	case err != nil:
		return err
	default:
		var have Protocol
		if err := json.Unmarshal(data, &have); err != nil {
			return fmt.Errorf("%s, the protocol of the run: %w; restore the file, or choose another folder", path, gdn.JSONError(data, err))
		}
		if have != p {
			return &SettingsError{s.Dir, have, p}
		}
	}
	files, err := filepath.Glob(filepath.Join(s.Dir, "traces", "*", "*", "*.jsonl"))
	if err != nil {
		return err
	}
	for _, f := range files {
		if err := s.readTraces(f); err != nil {
			return err
		}
	}
	return nil
}

// Close releases the lock, so that other processes can write.
func (s *Store) Close() error { return s.lock.Unlock() }

// readTraces reads the lines of a file. A last line without an end is cut off.
func (s *Store) readTraces(path string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	whole, torn, err := verify(path, data)
	if err != nil {
		return err
	}
	if torn > 0 {
		s.Warnings = append(s.Warnings, fmt.Sprintf("%s: the last line was cut while it was written: its %d bytes are dropped", path, torn))
		if err := disk.Truncate(path, int64(whole)); err != nil {
			return err
		}
	}
	list, err := flashinfer.ReadLines(path, data[:whole])
	for _, t := range list {
		s.keep(t)
	}
	if err != nil {
		return fmt.Errorf("%w; a workload whose line is removed is done again", err)
	}
	return nil
}

func (s *Store) keep(t *flashinfer.Trace) {
	if t.Evaluation != nil {
		s.done[key{t.Definition, t.Solution, t.Workload.UUID}] = t
	}
}

// Done returns the last trace of a solution on a workload, or nil.
func (s *Store) Done(definition, solution, uuid string) *flashinfer.Trace {
	return s.done[key{definition, solution, uuid}]
}

// Append writes a trace. It is on the disk when Append returns.
func (s *Store) Append(d *flashinfer.Definition, t *flashinfer.Trace) error {
	line, err := flashinfer.Line(t)
	if err == nil {
		err = appendLine(filepath.Join(s.Dir, "traces", s.Author, d.OpType, d.Name+".jsonl"), line)
	}
	if err != nil {
		return err
	}
	s.keep(t)
	return nil
}

// Describe writes the definition and the solution, replacing older files, and adds missing workloads.
func (s *Store) Describe(d *flashinfer.Definition, workloads []*flashinfer.Workload, sol *flashinfer.Solution) error {
	if filepath.Base(s.Author) != s.Author || filepath.Base(sol.Name) != sol.Name {
		return fmt.Errorf("solution %s of %s: the names can not be those of files", sol.Name, s.Author)
	}
	if filepath.Base(d.Name) != d.Name || filepath.Base(d.OpType) != d.OpType {
		return fmt.Errorf("definition %s of type %s: the names can not be those of files", d.Name, d.OpType)
	}
	definition, err := flashinfer.Indent(d)
	if err != nil {
		return err
	}
	solution, err := flashinfer.Indent(sol)
	if err != nil {
		return err
	}
	path := filepath.Join(s.Dir, "workloads", d.OpType, d.Name+".jsonl")
	lines, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	there, err := flashinfer.ReadLines(path, lines)
	if err != nil {
		return err
	}
	for _, w := range workloads {
		if slices.ContainsFunc(there, func(t *flashinfer.Trace) bool { return t.Workload.UUID == w.UUID }) {
			continue
		}
		line, err := flashinfer.Line(&flashinfer.Trace{Definition: d.Name, Workload: w})
		if err != nil {
			return err
		}
		lines = append(lines, line...)
	}
	return errors.Join(
		writeFile(filepath.Join(s.Dir, "definitions", d.OpType, d.Name+".json"), definition),
		writeFile(path, lines),
		writeFile(filepath.Join(s.Dir, "solutions", s.Author, d.OpType, d.Name, sol.Name+".json"), solution))
}

// writeFile writes a file atomically, and makes its folder.
func writeFile(path string, data []byte) error {
	if err := disk.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return store.WriteFile(path, data)
}
