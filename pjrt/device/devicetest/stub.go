// Package devicetest makes a PJRT plugin with faults for tests: the CPU plugin, wrapped by a C plugin that changes its behaviour.
package devicetest

import (
	_ "embed"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/pjrt/pjrttest"
)

//go:embed testdata/stub.c
var source []byte

// Variables that set the stub's fault; stub.c explains them.
const (
	Fault      = "GDNGEN_STUB_FAULT"
	Kind       = "GDNGEN_STUB_KIND"
	Capability = "GDNGEN_STUB_CAPABILITY"
	Platform   = "GDNGEN_STUB_PLATFORM"
	Program    = "GDNGEN_STUB_PROGRAM"
	Profiler   = "GDNGEN_STUB_PROFILER"
)

// Stub builds the plugin and returns its path. Without a fault it behaves as the CPU plugin.
func Stub(t testing.TB) string {
	t.Helper()
	t.Setenv("GDNGEN_STUB_PLUGIN", pjrttest.CPUPlugin(t))
	module, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/gomlx/go-xla").Output()
	require.NoError(t, err)
	dir := t.TempDir()
	from, to := filepath.Join(dir, "stub.c"), filepath.Join(dir, "stub.so")
	require.NoError(t, os.WriteFile(from, source, 0o644))
	headers := filepath.Join(strings.TrimSpace(string(module)), "pjrt")
	said, err := exec.Command("gcc", "-Wall", "-Werror", "-shared", "-fPIC", "-I"+headers, "-o", to, from, "-ldl").CombinedOutput()
	require.NoError(t, err, "%s", said)
	return to
}
