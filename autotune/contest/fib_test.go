//go:build fib

package contest

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/autotune/flashinfer"
)

// fibPythonEnv names a Python with flashinfer-bench 0.1.2, torch 2.11.0 and triton 3.6.0: some 6 GB, which CI does not have.
const fibPythonEnv = "GDNGEN_FIB_PYTHON"

// FlashInfer-Bench reads a package as its data set, builds the solutions, and finds them right by its own reference and rule, on the CPU: go test
// -tags fib. GDNGEN_FIB_TOKENS is the most tokens of a workload; 8 if it is not given. It takes longer than the ten minutes that go test allows.
func TestFlashInferBench(t *testing.T) {
	python := os.Getenv(fibPythonEnv)
	require.NotEmpty(t, python, "set "+fibPythonEnv)
	most := os.Getenv("GDNGEN_FIB_TOKENS")
	if most == "" {
		most = "8"
	}
	dir := written(t, "", flashinfer.ContestDecode, flashinfer.ContestPrefill)
	script, err := filepath.Abs("fib_run.py")
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), python, script, dir, "--most", most, "--kinds", "identical,cos.99,resets")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	text, err := cmd.Output()
	require.NoError(t, err, "%s", stderr.String())
	passed := map[string]int{}
	for line := range bytes.Lines(text) {
		var row struct{ Solution, Kind, Status string }
		require.NoError(t, json.Unmarshal(line, &row))
		require.Equal(t, string(flashinfer.Passed), row.Status, "%s", line)
		passed[row.Solution]++
	}
	t.Log(passed)
	require.Len(t, passed, 3)
	for solution, n := range passed {
		require.GreaterOrEqual(t, n, 2, solution)
	}
}
