package loop

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/gdngen/gdngen/internal/disk"
)

// seal is a file that the judge depends on: the program, or the hold-out. Its content is fixed before the first agent runs.
type seal struct {
	what string
	path string
	from string // source of the content
	sum  string
	mode fs.FileMode
}

// write copies the file; the content must have the given sum, unless that is empty.
func (s *seal) write() error {
	text, err := os.ReadFile(s.from)
	if err != nil {
		return fmt.Errorf("%s: %w", s.what, err)
	}
	sum := sha256.Sum256(text)
	if hash := hex.EncodeToString(sum[:]); s.sum == "" {
		s.sum = hash
	} else if s.sum != hash {
		return fmt.Errorf("%s was changed, and %s is not what it was: give the file of before, or begin a new run", s.what, s.from)
	}
	if err := remove(s.path); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(s.path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(s.path, text, s.mode)
}

// unbroken checks the hashes of the sealed files. A changed file is restored, and the error is a *boundsError.
func (l *Loop) unbroken() error {
	for i := range l.seals {
		s := &l.seals[i]
		if hash, err := fileSum(s.path); err == nil && hash == s.sum {
			continue
		}
		if err := s.write(); err != nil {
			return err
		}
		return &boundsError{s.path, s.what + " was changed; it is restored"}
	}
	return nil
}

func fileSum(path string) (string, error) {
	if info, err := os.Lstat(path); err != nil || !info.Mode().IsRegular() {
		return "", errors.Join(err, fs.ErrInvalid)
	}
	return disk.Sum(path)
}

// sealAll copies the judge's program and the hold-out into the run. sum is the hash of the run's hold-out; empty: none yet.
func (l *Loop) sealAll(sum string) error {
	if l.Judge != "" {
		l.tools = l.path("bin")
		s := seal{what: "the judge's program", path: filepath.Join(l.tools, "gdngen"), from: l.Judge, mode: 0o755}
		if self, err := os.Executable(); err == nil && self == l.Judge {
			s.from = "/proc/self/exe" // also if another file replaced the program
		}
		l.seals = append(l.seals, s)
	}
	if l.Holdout != "" {
		l.holdout = l.path("holdout", filepath.Base(l.Holdout))
		s := seal{what: "the hold-out", path: l.holdout, from: l.Holdout, sum: sum, mode: 0o444}
		if hash, err := fileSum(s.path); err == nil && hash == sum && sum != "" {
			s.from = s.path // the copy of an earlier session; the user's file may have changed
		}
		l.seals = append(l.seals, s)
	}
	for i := range l.seals {
		s := &l.seals[i]
		if err := s.write(); err != nil {
			return err
		}
	}
	return nil
}

// holdoutSum returns the hash of a run's hold-out, from its first session with one.
func holdoutSum(records []Record) string {
	for _, r := range records {
		if r.Holdout != "" {
			return r.Holdout
		}
	}
	return ""
}

// treeSum returns a hash of the tracked files of a room.
func (l *Loop) treeSum(ctx context.Context, in room, commit string) (string, error) {
	names, err := git(ctx, l.store.dir, "ls-tree", "-r", "-z", "--name-only", commit)
	if err != nil {
		return "", err
	}
	h := sha256.New()
	for name := range strings.SplitSeq(strings.TrimSuffix(names, "\x00"), "\x00") {
		sum, err := fileSum(filepath.Join(in.clone(), name))
		fmt.Fprintf(h, "%s\x00%s %v\x00", name, sum, err == nil)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// based runs a command on the base, after checking that the base's files are as the last command left them.
func (l *Loop) based(ctx context.Context, in room, do func() (outcome, error)) (outcome, error) {
	if in.commit == "" {
		return do()
	}
	sum, err := l.treeSum(ctx, in, in.commit)
	if err != nil {
		return outcome{}, err
	}
	if was := l.baseSum; was != "" && was != sum {
		return outcome{}, &boundsError{in.dir, "files of the base were changed while the change was judged"}
	}
	o, err := do()
	if err == nil {
		l.baseSum, err = l.treeSum(ctx, in, in.commit)
	}
	return o, err
}
