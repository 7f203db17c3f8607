package worker

import (
	"cmp"
	"context"
	_ "embed"
	"os"
	"os/exec"

	"github.com/gdngen/gdngen/internal/remote"
)

//go:embed rayslot.py
var raySlot string

// RayPythonEnv names the Python that has Ray, in place of python3.
const RayPythonEnv = "GDNGEN_RAY_PYTHON"

// The variables by which the slots of a Ray cluster ask for more than one processor: a number, and an object of numbers by name.
const (
	RayCPUsEnv      = "GDNGEN_RAY_CPUS"
	RayResourcesEnv = "GDNGEN_RAY_RESOURCES"
)

// startRay asks a cluster for a node by a small program for each worker, since Ray's interface is Python. It must run where the cluster can
// be reached by Ray itself, such as its head.
func startRay(_ context.Context, e *Engine, flags []string) (*exec.Cmd, error) {
	build, err := remote.Build()
	if err != nil {
		return nil, err
	}
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	words := []string{"-c", raySlot, e.rest, cmp.Or(os.Getenv(RayCPUsEnv), "1"), cmp.Or(os.Getenv(RayResourcesEnv), "{}"), build, program}
	return exec.Command(cmp.Or(os.Getenv(RayPythonEnv), "python3"), append(words, flags...)...), nil
}
