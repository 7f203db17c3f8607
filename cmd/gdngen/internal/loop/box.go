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

// Sandboxes are the values of Config.Sandbox. auto is the first of bubblewrap and namespace that can be had, else none.
var Sandboxes = []string{"auto", "bubblewrap", "namespace", "none"}

// box is the sandbox of a command. All of the file system is read-only but for the folders in Writable, and memory of its own at Hidden, where
// Shown alone is seen. Processes, messages and devices of the machine are out of sight, the network too unless Open.
type box struct {
	Name     string   `json:"name"`
	Stage    string   `json:"stage"`    // an empty folder, over which the new root is put together
	Hidden   []string `json:"hidden"`   // folders that are empty and writable, and forgotten with the command
	Shown    []string `json:"shown"`    // files and folders to read
	Writable []string `json:"writable"` // folders that outlive the command
	Masked   []string `json:"masked"`   // files that read as empty
	Home     string   `json:"home"`     // of the user: shown files have the same place in the command's own home
	Own      string   `json:"own"`      // that home, in a folder of Writable
	Run      string   `json:"run"`      // folder of the run
	Open     bool     `json:"open"`     // the command has the machine's network
	tool     string   // absolute path of bubblewrap
}

// newBox is the first sandbox of a name that works. why says why auto came to none.
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

// named tries a sandbox: a command must run in it, and must not be able to write outside, nor to undo its mounts.
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

// only is the sandbox of a command of the judge, which writes into one folder.
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

// none tells whether a command is in no sandbox.
func (b *box) none() bool { return b == nil || b.Name == "none" }

// hidden are the folders in which others of the machine keep files that may be written, and homes.
func hidden(home string) []string {
	return []string{"/tmp", "/var/tmp", "/run", "/root", "/home", home}
}

// existing cleans paths and drops those that are not there and the root. Outer ones come first. Links above a path are followed, not one at
// its end.
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

// inside tells whether a path is one of some folders, or below one.
func inside(path string, dirs []string) bool {
	return slices.ContainsFunc(dirs, func(d string) bool { return path == d || strings.HasPrefix(path, d+"/") })
}

// twins are where files are shown: at their place where that is hidden, and where they are below the user's home, below the command's too.
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

// unlinked removes what is in the way of a folder below the command's own home: a link that an earlier command left would lead outside.
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

// wrap gives the words that run a shell command in a folder, in the sandbox, and variables that they need.
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

// bubblewrap are the words of bwrap before a command's.
func (b *box) bubblewrap(dir string) []string {
	// To root bwrap leaves all capabilities, by which it could undo the mounts.
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

// switches are files of the kernel below /proc that root may write, in any namespace.
var switches = []string{"sys", "sysrq-trigger", "irq", "bus", "fs"}

// devices are accelerators that commands may use.
func devices() (l []string) {
	for _, pattern := range []string{"/dev/nvidia*", "/dev/dri", "/dev/kfd", "/dev/accel*", "/dev/vfio"} {
		found, _ := filepath.Glob(pattern)
		l = append(l, found...)
	}
	return l
}

// boxVariable asks this program to make a sandbox and to run a command there.
const boxVariable = "GDNGEN_LOOP_BOX"

// boxed is what it asks for.
type boxed struct {
	Box   box      `json:"box"`
	Dir   string   `json:"dir"`
	Words []string `json:"words"`
}

func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// environment is that of a command: the names that are allowed, and folders of its own.
func environment(names []string, home, tmp string, more ...string) []string {
	env := []string{"HOME=" + home, "TMPDIR=" + tmp}
	for _, name := range append([]string{"PATH", "LANG", "LC_ALL", "TZ", "TERM", "USER", "LOGNAME", "SHELL"}, names...) {
		if v, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+v)
		}
	}
	return append(env, more...)
}
