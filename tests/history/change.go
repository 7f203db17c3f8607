// Package history says what the commits under test change, so that tests compute that in addition to a sample.
package history

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gdngen/gdngen/internal/rotate"
)

// BaseEnv names the commit that a change begins at, for a CI that knows what it tested last.
const BaseEnv = "GDNGEN_BASE"

// Change is what the commits under test and the working tree change, relative to a base: the commit of BaseEnv, else where the branch left the
// main line, else, on the main line, the commit before.
type Change struct {
	Base    string   // commit
	Unknown error    // why nothing is known, and nothing counts as changed: a shallow clone, no git
	root    string   // of the working tree
	files   []string // that changed or are new, from root
}

// mainLine has the names of the main line, the first known counts.
var mainLine = []string{"origin/HEAD", "origin/main", "main", "origin/master", "master"}

// String says for a test's log what is compared with what.
func (c *Change) String() string {
	if c.Unknown != nil {
		return fmt.Sprintf("what has changed is not known, and a sample alone is computed: %v", c.Unknown)
	}
	return fmt.Sprintf("%d files have changed since %.7s", len(c.files), c.Base)
}

// Changed finds what has changed in the repository of the current folder.
func Changed() *Change {
	c := &Change{}
	c.Unknown = c.find()
	return c
}

func (c *Change) find() error {
	out, err := run("git", "rev-parse", "--show-toplevel")
	if err != nil {
		return fmt.Errorf("there is no history: %w", err)
	}
	c.root = strings.TrimSpace(out)
	if c.Base, err = base(); err != nil {
		return err
	}
	for _, list := range [][]string{{"diff", "--name-only", "-z", c.Base}, {"ls-files", "--others", "--exclude-standard", "--full-name", "-z", c.root}} {
		out, err := run("git", list...)
		if err != nil {
			return err
		}
		c.files = append(c.files, strings.FieldsFunc(out, func(r rune) bool { return r == 0 })...)
	}
	return nil
}

// base is the commit that the change begins at.
func base() (string, error) {
	commit := func(name string) (string, error) {
		out, err := run("git", "rev-parse", "--verify", "--quiet", "--end-of-options", name+"^{commit}")
		return strings.TrimSpace(out), err
	}
	if name := os.Getenv(BaseEnv); name != "" {
		c, err := commit(name)
		if err != nil {
			return "", fmt.Errorf("%s: there is no commit %q here", BaseEnv, name)
		}
		return c, nil
	}
	head, err := commit("HEAD")
	if err != nil {
		return "", errors.New("there is no commit yet")
	}
	for _, name := range mainLine {
		if _, err := commit(name); err != nil {
			continue
		}
		if out, err := run("git", "merge-base", "HEAD", name); err == nil && strings.TrimSpace(out) != head {
			return strings.TrimSpace(out), nil
		}
		break
	}
	if c, err := commit("HEAD^"); err == nil {
		return c, nil
	}
	return "", errors.New("the commit before is not in this clone, which is shallow or has one commit; " + BaseEnv + " may name another")
}

// Added lists the lines of a file, named from the current folder, that the base does not have.
func (c *Change) Added(file string) ([]string, error) {
	if c.Unknown != nil {
		return nil, nil
	}
	path, err := filepath.Abs(file)
	if err != nil {
		return nil, err
	}
	if path, err = filepath.Rel(c.root, path); err != nil {
		return nil, err
	}
	if !slices.Contains(c.files, filepath.ToSlash(path)) {
		return nil, nil
	}
	old, _ := run("git", "show", c.Base+":"+filepath.ToSlash(path)) // which may not have it
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	had := map[string]bool{}
	for line := range strings.Lines(old) {
		had[strings.TrimSuffix(line, "\n")] = true
	}
	var added []string
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSuffix(line, "\n"); !had[line] {
			added = append(added, line)
		}
	}
	return added, nil
}

// Code lists the changed files of the programs of some packages: of the packages and their imports, without tests.
func (c *Change) Code(packages ...string) ([]string, error) {
	if c.Unknown != nil {
		return nil, nil
	}
	const form = `{{if not .Standard}}{{$dir := .Dir}}{{range .EmbedFiles}}{{$dir}}/{{.}}{{"\n"}}{{end}}{{$dir}}{{"\n"}}{{end}}`
	out, err := run("go", append([]string{"list", "-deps", "-f", form}, packages...)...)
	if err != nil {
		return nil, err
	}
	known := map[string]bool{} // folders, and files embedded in a program
	for line := range strings.Lines(out) {
		known[strings.TrimSpace(line)] = true
	}
	var code []string
	for _, file := range c.files {
		path := filepath.Join(c.root, filepath.FromSlash(file))
		source := filepath.Ext(file) == ".go" && !strings.HasSuffix(file, "_test.go") && known[filepath.Dir(path)]
		if source || known[path] {
			code = append(code, file)
		}
	}
	return code, nil
}

// run returns the output of a command. An error has the first line of the command's error output.
func run(name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		first, _, _ := strings.Cut(strings.TrimSpace(said.String()), "\n")
		return "", fmt.Errorf("%s %s: %s", name, args[0], cmp.Or(first, err.Error()))
	}
	return string(out), nil
}

// Bounded draws at most n elements of a list, like Sample, and returns the others too, in order.
func Bounded[T comparable](test uint64, list []T, n int) (drawn, left []T) {
	drawn = rotate.Sample(test, list, n)
	for _, x := range list {
		if !slices.Contains(drawn, x) {
			left = append(left, x)
		}
	}
	return drawn, left
}
