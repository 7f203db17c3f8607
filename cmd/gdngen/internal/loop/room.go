package loop

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/gdngen/gdngen/autotune/journal"
)

// room is a folder for commands of the judge: a clone, a home and a scratch folder. In a sandbox a command can write
// only into its own room. So code of the change, such as a test, can not influence the measuring commands: through a
// cache of figures, a program in a home, or a script in the clone.
type room struct {
	dir    string
	commit string // of the base; empty for others
}

// The rooms of a judgement.
const (
	baseRoom    = "base"    // figures of the base
	checksRoom  = "checks"  // build and checks of the change
	figuresRoom = "figures" // figures of the change
)

func (r room) clone() string { return filepath.Join(r.dir, "clone") }
func (r room) home() string  { return filepath.Join(r.dir, "home") }
func (r room) tmp() string   { return filepath.Join(r.dir, "tmp") }

// empty removes everything in a room except its clone, and recreates its folders.
func (r room) empty() error {
	entries, err := os.ReadDir(r.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, e := range entries {
		if path := filepath.Join(r.dir, e.Name()); path != r.clone() {
			if err := remove(path); err != nil {
				return err
			}
		}
	}
	return errors.Join(os.MkdirAll(r.home(), 0o755), os.MkdirAll(r.tmp(), 0o755))
}

// open restores the user's permissions on a room's folders, which code of a change may have removed.
func (r room) open() {
	for _, d := range []string{r.dir, r.clone(), r.home(), r.tmp()} {
		if info, err := os.Lstat(d); err == nil && info.IsDir() {
			os.Chmod(d, info.Mode().Perm()|0o700)
		}
	}
}

// remove is os.RemoveAll that also removes read-only folders, such as a cache of Go modules.
func remove(dir string) error {
	if os.RemoveAll(dir) == nil {
		return nil
	}
	filepath.WalkDir(dir, func(at string, e fs.DirEntry, err error) error {
		if e != nil && e.IsDir() {
			os.Chmod(at, 0o700)
		}
		return nil
	})
	return os.RemoveAll(dir)
}

// enter makes a room with a clone of a commit. The room is emptied first, except for the base's home if the agent could
// not reach it: cached costs of the base stay valid.
func (l *Loop) enter(ctx context.Context, name, commit string) (r room, err error) {
	r = room{dir: l.path("judge", name)}
	if name == baseRoom {
		r.commit, l.baseSum = commit, ""
	}
	if name != baseRoom || l.box.Name == "none" {
		if err := errors.Join(remove(r.dir), r.empty()); err != nil {
			return r, err
		}
	}
	if err := os.MkdirAll(r.home(), 0o755); err != nil {
		return r, err
	}
	if err := l.store.clone(ctx, r.clone(), l.Branch, commit); err != nil && name != baseRoom && !ofMachine(err) {
		return r, &boundsError{commit, "git can not check it out: " + clip(err.Error(), 300)}
	} else if err != nil {
		return r, err
	}
	return r, nil
}

// built makes a room and builds its commit. For figures, tracked files are then reset to the commit, and the home is
// emptied, whatever the build of a change did. bad says why the commit can not be built.
func (l *Loop) built(ctx context.Context, run judgeRun, name, commit string) (r room, bad string, err error) {
	if r, err = l.enter(ctx, name, commit); err != nil || l.Build == "" {
		return r, "", err
	}
	o, err := run(ctx, "build-"+name, l.Build, r)
	if err != nil {
		return r, "", err
	}
	if o.fault != "" {
		return r, o.fault + ": " + o.words(), nil
	}
	if info, err := os.Lstat(r.clone()); err != nil || !info.IsDir() { // git would follow a link to other files
		return r, "its folder is gone, or is no folder any more", nil
	}
	if name != figuresRoom {
		return r, "", nil
	}
	for _, step := range [][]string{{"read-tree", commit}, {"checkout-index", "-q", "-f", "-a"}} {
		if _, err := l.store.on(ctx, r.clone(), step...); err != nil && !ofMachine(err) {
			return r, "its files can not be put back: " + clip(gitWords(err), 300), nil
		} else if err != nil {
			return r, "", err
		}
	}
	return r, "", r.empty()
}

// judgeRun runs a command of the judge in the clone of a room.
type judgeRun func(ctx context.Context, name, text string, in room) (outcome, error)

func (l *Loop) judgeRun(n int, seed string) judgeRun {
	more := append(slices.Clone(l.JudgeEnv), "GDNGEN_HOLDOUT_SEED="+seed)
	shown := []string{l.tools}
	if l.Holdout != "" {
		more, shown = append(more, "GDNGEN_HOLDOUT="+l.holdout), append(shown, l.holdout)
	}
	open := l.CheckNetwork || l.On != ""
	if !open && !l.box.none() {
		more = append(more, "GOPROXY=off")
	}
	return func(ctx context.Context, name, text string, in room) (o outcome, err error) {
		if err := l.unbroken(); err != nil {
			return o, err
		}
		in.open()
		if info, err := os.Lstat(in.tmp()); err == nil && !info.IsDir() { // a link would lead outside
			os.Remove(in.tmp())
		}
		if err := os.MkdirAll(in.tmp(), 0o755); err != nil {
			return o, err
		}
		more := append(slices.Clone(more), journal.NoteEnv+"="+notesFile(in))
		c := command{text: text, dir: in.clone(), log: filepath.Join(l.folder(n), name+".log"), env: l.environment(in.home(), in.tmp(), more...), box: l.box.only(in.dir, in.home(), open, shown...), limit: l.CheckTimeout}
		over, done := l.watch(ctx, false)
		c.over = over
		o, err = l.based(ctx, in, func() (outcome, error) { return c.run(ctx) })
		done()
		in.open()
		if err != nil {
			return o, err
		}
		noted, err := takeNotes(in, name)
		for i := range noted {
			if l.Holdout != "" { // only numbers: words could reveal the hold-out
				noted[i].Job, noted[i].Trace, noted[i].Text = "", "", ""
			}
		}
		if in.commit == "" { // the base's room has files of an earlier iteration
			l.noted = append(l.noted, noted...)
		}
		o.secret = l.Holdout != ""
		return o, err
	}
}
