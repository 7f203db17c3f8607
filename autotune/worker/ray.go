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

// RayPythonEnv names the Python with Ray, instead of python3.
const RayPythonEnv = "GDNGEN_RAY_PYTHON"

// Environment variables by which slots on a Ray cluster request more than one processor: a number, and an object of numbers by resource.
const (
	RayCPUsEnv      = "GDNGEN_RAY_CPUS"
	RayResourcesEnv = "GDNGEN_RAY_RESOURCES"
)

// startRay requests a node of a Ray cluster by a small Python program for each worker, since Ray's interface is Python.
// It must run where Ray itself can reach the cluster, such as on its head.
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
