package loop

import (
	"context"
)

// Uncommitted changes of the user can be shown to the agent without becoming part of the branch. The agent begins at a commit of the loop
// that has them on top of the base. Afterwards only its own change is put onto the base, by a three-way merge.

// conflictError says that a change depends on another one.
type conflictError struct{ reason string }

func (e *conflictError) Error() string { return e.reason }

// dirty returns a commit of the user's uncommitted changes of tracked files on top of the base, or the base if there
// are none. It changes neither the user's index nor a ref.
func (l *Loop) dirty(ctx context.Context, base string) (string, error) {
	if !l.IncludeDirty || l.repo.tree == "" {
		return base, nil
	}
	head, err := git(ctx, l.repo.tree, "rev-parse", "--verify", "-q", "HEAD^{commit}")
	if err != nil {
		return "", err
	}
	for _, step := range [][]string{{"read-tree", head}, {"add", "-u", "--", "."}} {
		if _, err := l.store.on(ctx, l.repo.tree, step...); err != nil {
			return "", err
		}
	}
	tree, err := l.store.on(ctx, l.repo.tree, "write-tree")
	if err != nil {
		return "", err
	}
	had, err := git(ctx, l.store.dir, "rev-parse", head+"^{tree}")
	if err != nil || tree == had {
		return base, err
	}
	changes, err := git(ctx, l.store.dir, "commit-tree", tree, "-p", head, "-m", "what is not committed")
	if err != nil {
		return "", err
	}
	return l.store.onto(ctx, head, base, changes, "what is not committed, in the user's tree")
}

// onto applies the difference between two commits to base and returns the commit. A conflict is a *conflictError.
func (s *store) onto(ctx context.Context, since, base, commit, message string) (string, error) {
	var twins [3]string // copies of since, base and commit with the ancestry that git's merge needs
	for i, c := range []string{since, base, commit} {
		words := []string{"commit-tree", c + "^{tree}", "-m", "twin"}
		if i > 0 {
			words = append(words, "-p", twins[0])
		}
		var err error
		if twins[i], err = git(ctx, s.dir, words...); err != nil {
			return "", err
		}
	}
	tree, err := git(ctx, s.dir, "merge-tree", "--write-tree", "--name-only", "--no-messages", twins[1], twins[2])
	if err != nil {
		return "", &conflictError{"git can not merge them: " + clip(err.Error(), 300)}
	}
	return git(ctx, s.dir, "commit-tree", tree, "-p", base, "-m", message)
}
