//go:build torch

package oracle

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/codegen/triton"
	"github.com/gdngen/gdngen/internal/rotate"
	"github.com/gdngen/gdngen/pjrt/gpu"
)

// torchEnv names a Python with the packages of tests/peers/torch.txt.
const torchEnv = "GDNGEN_TORCH"

// torchTests are the tests of a package by the peer whose distributions and limits they have: FlashInfer's prefill, vLLM's states by index, and
// flash-linear-attention's for all others. One of each is drawn.
var torchTests = []*regexp.Regexp{regexp.MustCompile(`::test_flashinfer`), regexp.MustCompile(`::test_(vllm|windows|pool|null_block)`), regexp.MustCompile(`::test_`)}

// Functions of torch keep their limits in Triton's interpreter, with no GPU, and the lines of README run there.
func TestTorchPackage(t *testing.T) {
	py := os.Getenv(torchEnv)
	require.NotEmpty(t, py, torchEnv+" names a Python with the packages of tests/peers/torch.txt")
	files, err := triton.Package("gdr", "test", gpu.InterpreterText)
	require.NoError(t, err)
	dir := t.TempDir()
	for _, f := range files {
		writeFile(t, dir, f.Path, f.Text)
	}
	run := func(args ...string) string {
		cmd := exec.CommandContext(t.Context(), py, args...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "PYTHONPATH="+filepath.Join(dir, "src"), "TRITON_INTERPRET=1", "OMP_NUM_THREADS=1")
		said, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", said)
		return string(said)
	}
	pytest := func(args ...string) string {
		return run(append([]string{"-m", "pytest", "-q", "-p", "no:cacheprovider"}, args...)...)
	}
	groups := make([][]string, len(torchTests))
	for line := range strings.Lines(pytest("--collect-only", "tests")) {
		for i, of := range torchTests {
			if of.MatchString(line) {
				groups[i] = append(groups[i], strings.TrimSpace(line))
				break
			}
		}
	}
	var drawn []string
	for i, group := range groups {
		require.Greater(t, len(group), 2, torchTests[i])
		drawn = append(drawn, rotate.Sample(uint64(41+i), group, 1)...)
	}
	t.Log(drawn)
	pytest(drawn...)

	page, err := os.ReadFile(filepath.Join("..", "..", "README.md"))
	require.NoError(t, err)
	lines := regexp.MustCompile("(?s)```python\n(import torch.*?)```").FindSubmatch(page)
	require.NotNil(t, lines)
	run("-c", strings.ReplaceAll(string(lines[1]), `"cuda"`, `"cpu"`)+"assert 1e-3 < o.abs().mean() < 1 and all(x.isfinite().all() for x in (state, q.grad, k.grad, v.grad))")
}
