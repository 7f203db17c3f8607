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

// seal is a file of the run that judges: the program, or the hold-out. Its content is known before the first agent.
type seal struct {
	what string
	path string
	from string // where the content can be had once more
	sum  string
	mode fs.FileMode
}

// write copies the file, with a sum that it must have; empty: any.
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

// unbroken holds the files that judge to their hashes. One that was changed is restored, and a *boundsError says so.
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

// sealAll copies the judge's program and the hold-out into the run. sum is the hash of the hold-out that the run began with; empty: none yet.
func (l *Loop) sealAll(sum string) error {
	if l.Judge != "" {
		l.tools = l.path("bin")
		s := seal{what: "the judge's program", path: filepath.Join(l.tools, "gdngen"), from: l.Judge, mode: 0o755}
		if self, err := os.Executable(); err == nil && self == l.Judge {
			s.from = "/proc/self/exe" // also where another file took its place
		}
		l.seals = append(l.seals, s)
	}
	if l.Holdout != "" {
		l.holdout = l.path("holdout", filepath.Base(l.Holdout))
		s := seal{what: "the hold-out", path: l.holdout, from: l.Holdout, sum: sum, mode: 0o444}
		if hash, err := fileSum(s.path); err == nil && hash == sum && sum != "" {
			s.from = s.path // the copy of an earlier session; the user's file may be another by now
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

// holdoutSum is the hash of the hold-out of a run, of its first session that has one.
func holdoutSum(records []Record) string {
	for _, r := range records {
		if r.Holdout != "" {
			return r.Holdout
		}
	}
	return ""
}

// treeSum is a hash of the tracked files of a room.
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

// based runs a command on the base, whose files must be what the last command on it left.
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
