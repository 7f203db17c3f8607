// Package pjrttest gives tests and benchmarks the plugins to run and compile with. A test without its plugin is skipped, or fails if
// CI=true.
package pjrttest

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/pjrt"
	"github.com/gdngen/gdngen/pjrt/aot"
	"github.com/gdngen/gdngen/pjrt/machine"
	"github.com/gdngen/gdngen/pjrt/plugins"
)

// CPUPlugin returns the path of the plugin that runs programs on the CPU.
func CPUPlugin(t testing.TB) string {
	t.Helper()
	if !pjrt.HasCgo {
		missing(t, "this program is built without cgo")
	}
	return path(t, plugins.CPU)
}

// CPU returns an engine on the CPU, closed with the test.
func CPU(t testing.TB) *pjrt.Engine {
	t.Helper()
	e, err := pjrt.Open(CPUPlugin(t))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, e.Close()) })
	return e
}

// TPU returns a compiler for TPUs that are not attached, closed with the test. TestMain must begin with aot.RunWorkerIfAsked.
func TPU(t testing.TB) *aot.Compiler {
	t.Helper()
	c := aot.New(aot.Options{Libtpu: path(t, plugins.TPU), Timeout: 5 * time.Minute})
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

// Alone waits until nothing else on the machine measures or computes, and holds the machine until the benchmark ends.
func Alone(b testing.TB) {
	b.Helper()
	lock, err := plugins.Machine(func(h []machine.Holder) { b.Log(machine.Waiting(h)) })
	require.NoError(b, err)
	_, free, err := lock.Measure(context.Background())
	require.NoError(b, err)
	b.Cleanup(free)
}

func path(t testing.TB, find func(context.Context, plugins.Options) (plugins.Plugin, error)) string {
	t.Helper()
	p, err := find(context.Background(), plugins.Options{})
	if err != nil {
		missing(t, err)
	}
	return p.Path
}

func missing(t testing.TB, why any) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatal(why)
	}
	t.Skip(why)
}
