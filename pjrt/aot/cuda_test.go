//go:build linux && (amd64 || arm64)

package aot

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/ir/target"
	"github.com/gdngen/gdngen/pjrt/plugins"
)

// cudaCompiler returns a compiler for GPUs, closed with the test. Without the plugin the test is skipped, but fails where CI is set.
func cudaCompiler(t *testing.T) *Compiler {
	t.Helper()
	tools, err := plugins.CUDA(t.Context(), plugins.Options{})
	if err != nil {
		if os.Getenv("CI") != "" {
			require.NoError(t, err)
		}
		t.Skip(err)
	}
	t.Setenv("TMPDIR", t.TempDir())
	c := New(Options{CUDA: tools.Path, Toolkit: tools.Toolkit})
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

// Every GPU compiles with none attached; what it would run is dumped, and a request that fails leaves the worker as it was.
func TestEveryGPU(t *testing.T) {
	c := cudaCompiler(t)
	for _, g := range target.GPUs() {
		dir := t.TempDir()
		r, err := c.Compile(t.Context(), Request{Topology: g.Name, Module: addModule(1024), DumpDir: dir, WantHLO: true})
		require.NoError(t, err)
		require.Equal(t, [2]int64{8192, 4096}, [2]int64{r.Memory.Arguments, r.Memory.Outputs})
		require.Contains(t, r.OptimizedHLO, "f32[1024]")
		require.Empty(t, r.Fingerprint)
		thunks := dumps(t, dir, ThunkFiles[1:])
		require.Len(t, thunks, 1)
		for _, text := range thunks {
			require.Contains(t, text, "kCustomKernel")
		}
		_, err = c.Compile(t.Context(), Request{Topology: g.Name, Module: "module {"})
		require.ErrorAs(t, err, new(*RejectError))
	}

	for field, r := range map[string]Request{
		"Topology": {Topology: "v6e:2x2", Module: addModule(8)},
		"Passes":   {Topology: "h100", Module: addModule(8), Passes: "final"},
		"Flags":    {Topology: "h100", Module: addModule(8), Flags: map[string]string{"xla_no_such_flag": "1"}},
	} {
		_, err := c.Compile(t.Context(), r)
		var bad *RequestError
		require.ErrorAs(t, err, &bad, field)
		require.Equal(t, field, bad.Field)
	}
}
