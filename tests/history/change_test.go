package history

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/gdngen/gdngen/internal/rotate"
	"github.com/stretchr/testify/require"
)

// repository makes a repository in the current folder, with a commit of some files on a main line.
func repository(t *testing.T, files map[string]string) {
	t.Helper()
	t.Setenv(BaseEnv, "")
	dir := t.TempDir()
	t.Chdir(dir)
	t.Setenv("GIT_CEILING_DIRECTORIES", filepath.Dir(dir))
	t.Setenv("GIT_CONFIG_GLOBAL", os.DevNull)
	git(t, "init", "--quiet", "--initial-branch", "main")
	commitFiles(t, files)
}

func git(t *testing.T, args ...string) {
	t.Helper()
	args = append([]string{"-c", "user.name=a", "-c", "user.email=a@b.example"}, args...)
	out, err := exec.Command("git", args...).CombinedOutput()
	require.NoError(t, err, string(out))
}

func write(t *testing.T, files map[string]string) {
	t.Helper()
	for name, text := range files {
		require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o755))
		require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
	}
}

func commitFiles(t *testing.T, files map[string]string) {
	t.Helper()
	write(t, files)
	git(t, "add", ".")
	git(t, "commit", "--quiet", "--message", "x")
}

func added(t *testing.T, c *Change, file string) []string {
	t.Helper()
	lines, err := c.Added(file)
	require.NoError(t, err)
	return lines
}

// On the main line a change is the last commit and the working tree, on a branch all of the branch, and where a CI names a base, all since.
func TestChanged(t *testing.T) {
	repository(t, map[string]string{"in/table": "a\n"})
	commitFiles(t, map[string]string{"in/table": "a\nb\n"})
	git(t, "tag", "tested")
	commitFiles(t, map[string]string{"in/table": "c\na\nb\n"})
	t.Chdir("in")
	c := Changed()
	require.NoError(t, c.Unknown)
	require.Equal(t, []string{"c"}, added(t, c, "table"))
	require.Contains(t, c.String(), "1 files have changed since ")

	git(t, "checkout", "--quiet", "-b", "work")
	commitFiles(t, map[string]string{"table": "c\na\nb\nd\n", "other": "x\n"})
	commitFiles(t, map[string]string{"table": "c\na\nb\nd\ne\n"})
	write(t, map[string]string{"table": "c\nb\nd\ne\nf\n", "new": "y\n"})
	c = Changed()
	require.Equal(t, []string{"d", "e", "f"}, added(t, c, "table"), "a line that is gone is none that is new")
	require.Equal(t, []string{"y"}, added(t, c, "new"))
	require.ElementsMatch(t, []string{"in/table", "in/other", "in/new"}, c.files)

	t.Setenv(BaseEnv, "tested")
	require.Equal(t, []string{"c", "d", "e", "f"}, added(t, Changed(), "table"))
	t.Setenv(BaseEnv, "nowhere")
	require.ErrorContains(t, Changed().Unknown, `there is no commit "nowhere" here`)
}

// Without history nothing counts as changed, and the log says why: in a shallow clone, of the first commit, without git.
func TestUnknown(t *testing.T) {
	repository(t, map[string]string{"table": "a\n"})
	first := Changed()
	require.ErrorContains(t, first.Unknown, "has one commit")
	commitFiles(t, map[string]string{"table": "a\nb\n"})
	from, err := os.Getwd()
	require.NoError(t, err)
	shallow := t.TempDir()
	git(t, "clone", "--quiet", "--depth", "1", "file://"+from, shallow)
	t.Chdir(shallow)
	c := Changed()
	require.ErrorContains(t, c.Unknown, "shallow")
	require.Contains(t, c.String(), "a sample alone is computed")
	require.Empty(t, added(t, c, "table"))
	code, err := c.Code("nowhere")
	require.NoError(t, err)
	require.Empty(t, code)
	t.Setenv("GIT_CEILING_DIRECTORIES", os.TempDir())
	t.Chdir(t.TempDir())
	require.ErrorContains(t, Changed().Unknown, "there is no history: git rev-parse: fatal: not a git repository")
	t.Setenv("PATH", "")
	require.ErrorContains(t, Changed().Unknown, "executable file not found")
}

// Code is what a program is made of: its packages, what they import and what they embed; tests, texts and other packages are not.
func TestCode(t *testing.T) {
	repository(t, map[string]string{
		"go.mod":     "module example.com/m\n\ngo 1.25\n",
		"a/a.go":     "package a\n\nimport (\n\t_ \"embed\"\n\n\t_ \"example.com/m/b\"\n)\n\n//go:embed in/a.txt\nvar text string\n",
		"a/in/a.txt": "1", "b/b.go": "package b\n", "b/b.txt": "1", "c/c.go": "package c\n",
	})
	commitFiles(t, map[string]string{"a/in/a.txt": "2", "b/b.go": "package b\n\n", "b/b.txt": "2", "b/b_test.go": "package b\n", "c/c.go": "package c\n\n"})
	code, err := Changed().Code("example.com/m/a")
	require.NoError(t, err)
	require.ElementsMatch(t, []string{"a/in/a.txt", "b/b.go"}, code)
	code, err = Changed().Code("example.com/m/c")
	require.NoError(t, err)
	require.Equal(t, []string{"c/c.go"}, code)
	_, err = Changed().Code("example.com/m/d")
	require.ErrorContains(t, err, "go list")
}

// What is bounded is parted into what is drawn and what is left, whose order stays.
func TestBounded(t *testing.T) {
	t.Setenv(rotate.Env, "")
	drawn, left := Bounded(1, []int{1, 2, 3, 4}, 2)
	require.Len(t, drawn, 2)
	require.Len(t, left, 2)
	require.ElementsMatch(t, []int{1, 2, 3, 4}, append(drawn, left...))
	drawn, left = Bounded(1, []int{1, 2}, 2)
	require.Equal(t, []int{1, 2}, drawn)
	require.Empty(t, left)
}
