package loop

import (
	"context"
)

// What the user has not committed can be shown to the agent without becoming part of the branch: the agent begins at a commit of the loop's own
// that is on the base, and its change is put onto the base alone afterwards, as git merges three trees.

// conflictError says that a change does not go without another.
type conflictError struct{ reason string }

func (e *conflictError) Error() string { return e.reason }

// dirty gives the base with the user's uncommitted changes of tracked files on top, or the base itself where there are none. Neither the
// user's index nor a ref is touched.
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

// onto is a commit on base with what a commit changed since another. A conflict is a *conflictError.
func (s *store) onto(ctx context.Context, since, base, commit, message string) (string, error) {
	var twins [3]string // of since, base and commit: git finds the merge base by ancestry, and these have no other
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
