package loop

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
)

// attempt is an agent's change, as a commit of the store.
type attempt struct {
	commit  string
	changed []string
}

// boundsError says which forbidden thing an agent did.
type boundsError struct{ subject, reason string }

func (e *boundsError) Error() string { return e.reason }

// capture commits the content of a clone on top of base; nil if it equals base. It runs no program that the clone names.
func (s *store) capture(ctx context.Context, tree, base, message string, most int64) (*attempt, error) {
	if info, err := os.Lstat(tree); err != nil || !info.IsDir() {
		return nil, &boundsError{tree, "its folder is gone, or is no folder any more"}
	}
	if err := s.sizes(ctx, tree, most); err != nil {
		return nil, err
	}
	for _, step := range [][]string{{"read-tree", base}, {"add", "-A", "--", ".", ":(exclude,top)" + PlanName}} {
		if _, err := s.on(ctx, tree, step...); err != nil && step[0] == "add" && !ofMachine(err) {
			return nil, &boundsError{tree, "git refuses what it left: " + clip(gitWords(err), 300)}
		} else if err != nil {
			return nil, err
		}
	}
	hash, err := s.on(ctx, tree, "write-tree")
	if err != nil {
		return nil, err
	}
	had, err := s.on(ctx, tree, "rev-parse", base+"^{tree}")
	if err != nil || had == hash {
		return nil, err
	}
	a := &attempt{}
	if a.commit, err = s.on(ctx, tree, "commit-tree", hash, "-p", base, "-m", message); err != nil {
		return nil, err
	}
	raw, err := git(ctx, s.dir, "diff-tree", "-r", "-z", "--no-renames", "--no-ext-diff", base, a.commit)
	if err != nil {
		return nil, err
	}
	fields := strings.Split(strings.TrimSuffix(raw, "\x00"), "\x00")
	for i := 0; i+1 < len(fields); i += 2 { // ":100644 120000 OLD NEW T", then the path
		modes, name := strings.Fields(fields[i]), fields[i+1]
		a.changed = append(a.changed, name)
		switch {
		case len(modes) < 2:
			return nil, fmt.Errorf("git diff-tree: %q", fields[i])
		case modes[1] == "160000":
			err = errors.Join(err, &boundsError{name, fmt.Sprintf("%s is a repository of its own", plain(name))})
		case modes[1] == "120000":
			err = errors.Join(err, &boundsError{name, fmt.Sprintf("%s is a symbolic link", plain(name))})
		}
	}
	return a, err
}

// machineFaults matches git's messages about faults of the machine.
var machineFaults = regexp.MustCompile(`(?i)no space left|disk quota|input/output error|out of memory|cannot allocate|too many open files|index\.lock|read-only file system|signal: killed`)

// ofMachine reports whether an error of git is a fault of the machine, not of its input.
func ofMachine(err error) bool {
	return errors.Is(err, context.Canceled) || machineFaults.MatchString(err.Error())
}

// gitWords returns an error of git without the command.
func gitWords(err error) string {
	text := err.Error()
	if i := strings.Index(text, "exit status "); i >= 0 {
		text = text[i+len("exit status "):]
		return strings.TrimLeft(text, "0123456789: ")
	}
	return text
}

// sizes refuses a file that would make the repository large, before git reads it. Files that git ignores may be large.
func (s *store) sizes(ctx context.Context, tree string, most int64) error {
	return filepath.WalkDir(tree, func(at string, e fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, os.ErrNotExist):
			return nil
		case err != nil:
			if bad := (*fs.PathError)(nil); errors.As(err, &bad) {
				err = bad.Err
			}
			return &boundsError{at, fmt.Sprintf("%s can not be read: %v", clip(strings.TrimPrefix(at, tree+"/"), 120), err)}
		case e.IsDir() && e.Name() == ".git":
			return filepath.SkipDir
		case !e.Type().IsRegular():
			return nil
		}
		info, err := e.Info()
		if err != nil || info.Size() <= most {
			return nil
		}
		name, err := filepath.Rel(tree, at)
		if err != nil {
			return err
		}
		if _, ignored := s.on(ctx, tree, "check-ignore", "-q", "--no-index", name); ignored == nil {
			return nil
		}
		return &boundsError{name, fmt.Sprintf("%s has %d MiB, and a file may have %d", plain(name), info.Size()>>20, most>>20)}
	})
}

// forbidden returns a changed file that is protected and not allowed; "" if none.
func forbidden(changed, protect, allow []string) string {
	for _, f := range changed {
		if matches(f, protect) && !matches(f, allow) {
			return f
		}
	}
	return ""
}

// matches reports whether a file is named, is below a named folder, or matches a pattern. A pattern without a slash matches base names.
func matches(file string, patterns []string) bool {
	for _, p := range patterns {
		p = strings.TrimSuffix(p, "/")
		if file == p || strings.HasPrefix(file, p+"/") {
			return true
		}
		if ok, _ := path.Match(p, file); ok {
			return true
		}
		if ok, _ := path.Match(p, path.Base(file)); ok && !strings.Contains(p, "/") {
			return true
		}
	}
	return false
}

// treeState returns a digest by file of the user's uncommitted changes, and of HEAD.
func (r *repository) treeState(ctx context.Context) (map[string]string, error) {
	m := map[string]string{}
	if r.tree == "" {
		return m, nil
	}
	head, err := git(ctx, r.tree, "rev-parse", "HEAD", "--symbolic-full-name", "HEAD")
	if err != nil {
		return nil, err
	}
	m["HEAD"] = head
	text, err := git(ctx, r.tree, "status", "--porcelain", "-z", "--no-renames", "--untracked-files=all")
	if err != nil {
		return nil, err
	}
	for entry := range strings.SplitSeq(strings.TrimSuffix(text, "\x00"), "\x00") {
		if len(entry) < 4 {
			continue
		}
		name := entry[3:]
		sum := sha256.New()
		if f, err := os.Open(filepath.Join(r.tree, name)); err == nil {
			if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
				io.Copy(sum, f)
			}
			f.Close()
		}
		m[name] = fmt.Sprintf("%s %x", entry[:2], sum.Sum(nil))
	}
	return m, nil
}

// differs returns a file whose entries in two tree states differ; "" if none.
func differs(was, is map[string]string, except string) string {
	for name := range was {
		if is[name] != was[name] && !strings.HasPrefix(name, except) {
			return name
		}
	}
	for name := range is {
		if _, ok := was[name]; !ok && !strings.HasPrefix(name, except) {
			return name
		}
	}
	return ""
}
