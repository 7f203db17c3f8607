package loop

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Sandboxes are the values of Config.Sandbox. auto is the first of bubblewrap and namespace that works, else none.
var Sandboxes = []string{"auto", "bubblewrap", "namespace", "none"}

// box is the sandbox of a command. The file system is read-only except Writable; folders in Hidden are replaced by empty memory, in which only
// Shown is visible. Other processes, messages and devices of the machine are invisible, and the network too unless Open.
type box struct {
	Name     string   `json:"name"`
	Stage    string   `json:"stage"`    // an empty folder, where the new root is mounted
	Hidden   []string `json:"hidden"`   // folders replaced by empty, writable memory that is lost with the command
	Shown    []string `json:"shown"`    // files and folders to mount read-only
	Writable []string `json:"writable"` // folders that outlive the command
	Masked   []string `json:"masked"`   // files that read as empty
	Home     string   `json:"home"`     // of the user: shown files below it are also mounted below Own
	Own      string   `json:"own"`      // the command's own home, in a folder of Writable
	Run      string   `json:"run"`      // folder of the run
	Open     bool     `json:"open"`     // the command has the machine's network
	tool     string   // absolute path of bubblewrap
}

// newBox returns the first working sandbox of a name. why is the reason if auto chose none.
func newBox(name string, base box) (b *box, why error, err error) {
	for _, n := range []string{"bubblewrap", "namespace"} {
		if name != "auto" && name != n {
			continue
		}
		b, fault := base.named(n)
		if fault == nil {
			return b, nil, nil
		}
		why = errors.Join(why, fmt.Errorf("%s: %w", n, fault))
	}
	none := &box{Name: "none"}
	if name == "auto" || name == "none" {
		return none, why, nil
	}
	return nil, nil, fmt.Errorf("--sandbox %s can not be had here (%s); --sandbox none goes without", name, clip(why.Error(), 300))
}

// named tries a sandbox: a command must run in it, and must not be able to write outside, or undo its mounts.
func (b box) named(name string) (*box, error) {
	b.Name = name
	var err error
	if name == "bubblewrap" {
		if b.tool, err = program("bwrap"); err != nil {
			return nil, errors.New("there is no bwrap on PATH")
		}
	}
	for _, list := range []*[]string{&b.Hidden, &b.Writable, &b.Masked} {
		*list = real(*list)
	}
	for _, p := range []*string{&b.Stage, &b.Home, &b.Own, &b.Run} {
		if to, err := filepath.EvalSymlinks(*p); err == nil {
			*p = to
		}
	}
	b.Shown = existing(b.Shown)
	words, env, err := b.wrap("/", `test -w /tmp && for p in / /tmp /usr; do mount -o remount,bind,rw $p; umount -l $p; done 2> /dev/null; test -w /tmp && for d in / /etc /usr /usr/local/bin /var /opt; do ! (: > $d/.gdngen-trial) 2> /dev/null || { rm -f $d/.gdngen-trial; echo $d can be written; exit 1; }; done`)
	if err != nil {
		return nil, err
	}
	c := exec.Command(words[0], words[1:]...)
	c.Env = append([]string{"PATH=" + os.Getenv("PATH")}, env...)
	if out, err := c.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%s (%w)", clip(string(out), 200), err)
	}
	return &b, nil
}

// only returns the sandbox of a judge's command, which may write into one folder.
func (b *box) only(writable, own string, open bool, shown ...string) *box {
	other := *b
	other.Writable, other.Own, other.Open, other.Shown = real([]string{writable}), own, open, existing(append(slices.Clone(b.Shown), shown...))
	if to := real([]string{own}); len(to) == 1 {
		other.Own = to[0]
	}
	for _, p := range other.twins() {
		other.unlinked(p[1])
	}
	return &other
}

// none reports whether there is no sandbox.
func (b *box) none() bool { return b == nil || b.Name == "none" }

// hidden lists homes, and folders where other programs keep writable files.
func hidden(home string) []string {
	return []string{"/tmp", "/var/tmp", "/run", "/root", "/home", home}
}

// existing cleans paths and drops missing ones and the root. Outer folders come first. Links in parent folders are
// followed, a link at the end is not.
func existing(paths []string) (l []string) {
	for _, p := range paths {
		if _, err := os.Stat(p); p == "" || err != nil {
			continue
		}
		p = filepath.Clean(p)
		above, err := filepath.EvalSymlinks(filepath.Dir(p))
		if p = filepath.Join(above, filepath.Base(p)); err == nil && p != "/" && !slices.Contains(l, p) {
			l = append(l, p)
		}
	}
	slices.Sort(l)
	return l
}

// real is existing with all links followed.
func real(paths []string) (l []string) {
	for _, p := range paths {
		if to, err := filepath.EvalSymlinks(p); err == nil && p != "" {
			l = append(l, to)
		}
	}
	return existing(l)
}

// inside reports whether a path is one of some folders, or below one.
func inside(path string, dirs []string) bool {
	return slices.ContainsFunc(dirs, func(d string) bool { return path == d || strings.HasPrefix(path, d+"/") })
}

// twins returns pairs of source and mount point of shown files: the same path if it is hidden, and also below the command's home for files below the
// user's.
func (b *box) twins() (pairs [][2]string) {
	for _, p := range b.Shown {
		if inside(p, b.Hidden) && !inside(p, b.Writable) {
			pairs = append(pairs, [2]string{p, p})
		}
		if in, err := filepath.Rel(b.Home, p); err == nil && b.Home != "" && b.Own != "" && in != "." && filepath.IsLocal(in) && !inside(p, b.Writable) && !inside(p, []string{b.Run}) {
			pairs = append(pairs, [2]string{p, filepath.Join(b.Own, in)})
		}
	}
	return pairs
}

// unlinked removes links on the way to a folder below the command's own home: a link of an earlier command would lead outside.
func (b *box) unlinked(to string) {
	in, err := filepath.Rel(b.Own, to)
	if err != nil || !filepath.IsLocal(in) {
		return
	}
	at := b.Own
	for _, name := range strings.Split(in, "/") {
		at = filepath.Join(at, name)
		if info, err := os.Lstat(at); err == nil && !info.IsDir() && (at != to || info.Mode()&os.ModeSymlink != 0) {
			os.Remove(at)
		}
	}
}

// wrap returns the words that run a shell command in a folder, in the sandbox, and the environment variables that they need.
func (b *box) wrap(dir, text string) (words, env []string, err error) {
	sh, err := program("sh")
	if err != nil {
		return nil, nil, err
	}
	words = []string{sh, "-c", text}
	switch {
	case b.none():
		return words, nil, nil
	case b.Name == "bubblewrap":
		return append(b.bubblewrap(dir), words...), nil, nil
	}
	spec, err := json.Marshal(boxed{*b, dir, words})
	return []string{"/proc/self/exe"}, []string{boxVariable + "=" + string(spec)}, err
}

// bubblewrap returns the words of bwrap before the command's.
func (b *box) bubblewrap(dir string) []string {
	// For root, bwrap keeps all capabilities, which could undo the mounts.
	w := []string{b.tool, "--cap-drop", "ALL", "--unshare-user", "--uid", fmt.Sprint(os.Getuid()), "--gid", fmt.Sprint(os.Getgid()), "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--die-with-parent", "--new-session", "--ro-bind", "/", "/",
		"--dev", "/dev", "--proc", "/proc"}
	if !b.Open {
		w = append(w, "--unshare-net")
	}
	for _, name := range switches {
		w = append(w, "--ro-bind-try", filepath.Join("/proc", name), filepath.Join("/proc", name))
	}
	for _, d := range devices() {
		w = append(w, "--dev-bind-try", d, d)
	}
	for _, d := range b.Hidden {
		w = append(w, "--tmpfs", d)
	}
	for _, d := range b.Writable {
		w = append(w, "--bind", d, d)
	}
	for _, p := range b.twins() {
		w = append(w, "--ro-bind", p[0], p[1])
	}
	for _, f := range b.Masked {
		w = append(w, "--ro-bind", "/dev/null", f)
	}
	return append(w, "--chdir", dir, "--")
}

// switches are kernel files below /proc that root may write in any namespace.
var switches = []string{"sys", "sysrq-trigger", "irq", "bus", "fs"}

// devices lists the accelerators that commands may use.
func devices() (l []string) {
	for _, pattern := range []string{"/dev/nvidia*", "/dev/dri", "/dev/kfd", "/dev/accel*", "/dev/vfio"} {
		found, _ := filepath.Glob(pattern)
		l = append(l, found...)
	}
	return l
}

// boxVariable makes this program create a sandbox and run a command in it.
const boxVariable = "GDNGEN_LOOP_BOX"

// boxed is the request in boxVariable.
type boxed struct {
	Box   box      `json:"box"`
	Dir   string   `json:"dir"`
	Words []string `json:"words"`
}

func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// environment returns a command's variables: the allowed names, and its own folders.
func environment(names []string, home, tmp string, more ...string) []string {
	env := []string{"HOME=" + home, "TMPDIR=" + tmp}
	for _, name := range append([]string{"PATH", "LANG", "LC_ALL", "TZ", "TERM", "USER", "LOGNAME", "SHELL"}, names...) {
		if v, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+v)
		}
	}
	return append(env, more...)
}
