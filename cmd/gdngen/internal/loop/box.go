package loop

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Sandboxes are the values of Config.Sandbox.
var Sandboxes = []string{"auto", "namespace", "none"}

// box is what a command may change: its clone and scratch folders. The namespaces of Linux see to it, by unshare of util-linux: the user's
// repository, home and the run's folder are read-only mounts, and other processes are out of sight.
type box struct {
	name     string
	writable []string
	readonly []string
	hidden   string // a file that reads as empty
}

// newBox chooses a sandbox. The folders must exist.
func newBox(name string, writable, readonly []string, hidden string) (*box, error) {
	if name == "none" {
		return &box{name: name}, nil
	}
	b := &box{name: "namespace", writable: existing(writable), readonly: existing(readonly), hidden: hidden}
	words := b.wrap("/", "true")
	out, err := exec.Command(words[0], words[1:]...).CombinedOutput()
	switch {
	case err == nil:
		return b, nil
	case name == "auto":
		return &box{name: "none"}, nil
	}
	return nil, fmt.Errorf("--sandbox %s: unshare of util-linux can not make namespaces here (%s); --sandbox none goes without", name, clip(string(out)+" "+err.Error(), 200))
}

// only is the sandbox of a command of the judge, which writes into one folder and sees what is hidden from the agent.
func (b *box) only(writable string) *box {
	other := *b
	other.writable, other.hidden = existing([]string{writable}), ""
	return &other
}

// existing resolves folders and drops those that can not be mounted over, and what is inside of another.
func existing(dirs []string) (l []string) {
	for _, d := range dirs {
		real, err := filepath.EvalSymlinks(d)
		if err == nil && real != "/" && !slices.Contains(l, real) {
			l = append(l, real)
		}
	}
	slices.Sort(l) // outer ones first
	return l
}

// wrap gives the words that run a shell command in a folder, in the sandbox.
func (b *box) wrap(dir, text string) []string {
	if b == nil || b.name == "none" {
		return []string{"sh", "-c", text}
	}
	var s strings.Builder
	s.WriteString("set -e\n")
	for _, d := range b.writable { // mounts of their own, which stay writable inside of those that do not
		fmt.Fprintf(&s, "mount --bind %[1]s %[1]s\n", quote(d))
	}
	for _, d := range b.readonly {
		fmt.Fprintf(&s, "mount --rbind %[1]s %[1]s\nmount -o remount,bind,ro %[1]s\n", quote(d))
	}
	if b.hidden != "" {
		fmt.Fprintf(&s, "mount --bind /dev/null %s\n", quote(b.hidden))
	}
	// The folder is entered anew, since that of before lies below a mount. A second namespace of the user's own id locks the mounts.
	fmt.Fprintf(&s, "cd %s\nexec unshare --user --mount --map-user=%d --map-group=%d sh -c %s\n", quote(dir), os.Getuid(), os.Getgid(), quote(text))
	return []string{"unshare", "--user", "--map-root-user", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", s.String()}
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
