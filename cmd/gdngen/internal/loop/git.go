package loop

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// author identifies the loop's commits.
var author = []string{"GIT_AUTHOR_NAME=gdngen loop", "GIT_AUTHOR_EMAIL=loop@gdngen.invalid", "GIT_COMMITTER_NAME=gdngen loop", "GIT_COMMITTER_EMAIL=loop@gdngen.invalid"}

// git runs git in a folder without hooks, without the configuration of user and system, and without prompts.
func git(ctx context.Context, dir string, args ...string) (string, error) {
	exe, err := program("git")
	if err != nil {
		return "", err
	}
	c := exec.CommandContext(ctx, exe, append([]string{"-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "core.attributesFile=/dev/null", "-c", "commit.gpgsign=false",
		"-c", "gc.auto=0", "-c", "maintenance.auto=false", "--no-optional-locks", "-C", dir}, args...)...)
	c.Env = append(append([]string{"PATH=" + filepath.Dir(exe) + ":/usr/bin:/bin", "HOME=/nonexistent", "GIT_TERMINAL_PROMPT=0", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1", "LC_ALL=C"}, author...), indexEnv(args)...)
	var e bytes.Buffer
	c.Stderr = &e
	out, err := c.Output()
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	if err != nil {
		return "", fmt.Errorf("git %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(e.String()))
	}
	return strings.TrimSuffix(string(out), "\n"), nil
}

// indexEnv gives a command in the loop's own git folder a private index.
func indexEnv(args []string) []string {
	for _, a := range args {
		if dir, ok := strings.CutPrefix(a, "--git-dir="); ok {
			return []string{"GIT_INDEX_FILE=" + filepath.Join(dir, "loop-index")}
		}
	}
	return nil
}

// repository is the user's repository; the loop only writes refs.
type repository struct {
	tree   string // top of the work tree, empty for a bare one
	common string // the folder of objects and refs
}

func openRepository(ctx context.Context, dir string) (*repository, error) {
	if _, err := program("git"); err != nil {
		return nil, errors.New("a loop needs git on PATH")
	}
	common, err := git(ctx, dir, "rev-parse", "--path-format=absolute", "--git-common-dir")
	if err != nil {
		return nil, fmt.Errorf("%s is no git repository: run the loop in one, or make it one by git init and a first commit (%w)", dir, err)
	}
	r := &repository{common: common}
	if bare, err := git(ctx, dir, "rev-parse", "--is-bare-repository"); err != nil {
		return nil, err
	} else if bare != "true" {
		if r.tree, err = git(ctx, dir, "rev-parse", "--show-toplevel"); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// dir returns the folder in which git commands of the repository run.
func (r *repository) dir() string {
	if r.tree != "" {
		return r.tree
	}
	return r.common
}

func (r *repository) tip(ctx context.Context, branch string) (string, error) {
	return git(ctx, r.dir(), "rev-parse", "--verify", "-q", "refs/heads/"+branch+"^{commit}")
}

// prepare creates the branch if missing, and refuses one that is checked out: its work tree would become stale.
func (r *repository) prepare(ctx context.Context, branch string) error {
	if _, err := git(ctx, r.dir(), "check-ref-format", "--branch", branch); err != nil {
		return fmt.Errorf("--branch %s is no name of a branch", branch)
	}
	list, err := git(ctx, r.dir(), "worktree", "list", "--porcelain")
	if err != nil {
		return err
	}
	at := ""
	for line := range strings.Lines(list) {
		line = strings.TrimSpace(line)
		if dir, ok := strings.CutPrefix(line, "worktree "); ok {
			at = dir
		}
		if line == "branch refs/heads/"+branch {
			return fmt.Errorf("branch %s is checked out in %s, which would be changed: check out another there, or choose another --branch", branch, at)
		}
	}
	if _, err := r.tip(ctx, branch); err == nil {
		return nil
	}
	head, err := git(ctx, r.dir(), "rev-parse", "--verify", "-q", "HEAD^{commit}")
	if err != nil {
		return fmt.Errorf("repository %s has no commit to begin from", r.dir())
	}
	_, err = git(ctx, r.dir(), "update-ref", "refs/heads/"+branch, head, strings.Repeat("0", len(head)))
	return err
}

// move sets the branch from one commit to another, only if it is still at the first.
func (r *repository) move(ctx context.Context, branch, from, to string) error {
	_, err := git(ctx, r.dir(), "update-ref", "-m", "gdngen loop", "refs/heads/"+branch, to, from)
	return err
}

// take copies a commit of the loop's own git folder to a ref of the repository.
func (r *repository) take(ctx context.Context, own, commit, ref string) error {
	_, err := git(ctx, r.dir(), "fetch", "-q", "--no-tags", "--no-write-fetch-head", own, "+"+commit+":"+ref)
	return err
}

// store is the loop's own git folder. It borrows the repository's objects and adds the attempts' objects.
type store struct{ dir string }

func openStore(ctx context.Context, dir string, r *repository) (*store, error) {
	s := &store{dir}
	if _, err := os.Stat(filepath.Join(dir, "HEAD")); err != nil {
		if err := os.RemoveAll(dir); err != nil {
			return nil, err
		}
		if _, err := git(ctx, filepath.Dir(dir), "init", "-q", "--template=", "--bare", dir); err != nil {
			return nil, err
		}
	}
	if err := os.MkdirAll(filepath.Join(dir, "objects", "info"), 0o755); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(dir, "objects", "info", "alternates"), []byte(filepath.Join(r.common, "objects")+"\n"), 0o644); err != nil {
		return nil, err
	}
	_, err := git(ctx, dir, "config", "uploadpack.allowAnySHA1InWant", "true")
	return s, err
}

// reword returns a commit with the same tree and parent and another message.
func (s *store) reword(ctx context.Context, commit, message string) (string, error) {
	return git(ctx, s.dir, "commit-tree", commit+"^{tree}", "-p", commit+"^", "-m", message)
}

// clone checks out a commit in a new folder that refers to neither the repository nor the store.
func (s *store) clone(ctx context.Context, dir, branch, commit string) error {
	if err := remove(dir); err != nil {
		return err
	}
	if _, err := git(ctx, filepath.Dir(dir), "init", "-q", "--template=", "-b", branch, dir); err != nil {
		return err
	}
	config, err := os.OpenFile(filepath.Join(dir, ".git", "config"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = config.WriteString("[user]\n\tname = agent\n\temail = agent@gdngen.invalid\n")
	if err = errors.Join(err, config.Close()); err != nil {
		return err
	}
	if _, err := git(ctx, dir, "fetch", "-q", "--no-tags", "--no-write-fetch-head", "--update-head-ok", s.dir, commit+":refs/heads/"+branch); err != nil {
		return err
	}
	_, err = git(ctx, dir, "reset", "-q", "--hard")
	return err
}

// lookLimit bounds git's time on files of an agent: one of them can be an endless pipe.
var lookLimit = 5 * time.Minute

// on runs git with the store as its folder and a clone as its work tree.
func (s *store) on(ctx context.Context, tree string, args ...string) (string, error) {
	ctx, stop := context.WithTimeoutCause(ctx, lookLimit, fmt.Errorf("it is not done with it within %v", lookLimit))
	defer stop()
	return git(ctx, s.dir, append([]string{"--git-dir=" + s.dir, "--work-tree=" + tree, "-c", "core.bare=false"}, args...)...)
}
