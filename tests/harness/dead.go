package main

import (
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"strings"
)

// programs are the roots of what is reached.
var programs = []string{"./cmd/...", "./examples/...", "./tests/..."}

// testsAlone are packages and functions that no program reaches, and why they stay.
var testsAlone = map[string]string{
	"internal/golden":                  "files that tests compare with",
	"internal/irtest":                  "random modules for tests of several packages",
	"gdn/internal/layertest":           "backends for tests of the layer",
	"gdn/gdntest":                      "random specs and variants for tests of several packages",
	"pjrt/device/devicetest":           "devices for tests",
	"pjrt/pjrttest":                    "plugins for tests",
	"internal/rotate":                  "what tests draw by the commit",
	"gdn/layer/kernels":                "public: generated programs in graphs of GoMLX; its tests run it on a CPU",
	"pjrt/table: Of":                   "gdn/layer/kernels asks for it",
	"pjrt/table: Complete":             "gdn/layer/kernels asks for it",
	"gdn/layer/irgraph: BuildUnrolled": "tests/bench compares gradients by GoMLX's own differentiation",
	"gdn/truth: Stored":                "the table of docs/data/pools.md is measured by it",
	"internal/disk: Use":               "tests put a disk that fails in the place of the machine's",
	"ir: Builder.Pack":                 "each op has its method",
	"ir/array: Stats.String":           "a test that fails prints it",
}

// dead leaves of the output of deadcode what testsAlone does not have, with the packages that no program imports and the entries that are
// not needed.
func dead(out string) (string, error) {
	left, needed := []string{}, map[string]bool{}
	for line := range strings.Lines(out) {
		at, name, ok := strings.Cut(strings.TrimSpace(line), ": unreachable func: ")
		if !ok {
			continue
		}
		folder := at[:max(0, strings.LastIndex(at, "/"))]
		if strings.HasPrefix(folder, "tests/") {
			continue
		}
		key := folder
		if testsAlone[key] == "" {
			key += ": " + name
		}
		if needed[key] = true; testsAlone[key] == "" {
			left = append(left, line)
		}
	}
	all, err := exec.Command("go", "list", "-f", "{{if .GoFiles}}{{.ImportPath}}{{end}}", "./...").Output()
	if err != nil {
		return "", err
	}
	deps, err := exec.Command("go", append([]string{"list", "-deps"}, programs...)...).Output()
	if err != nil {
		return "", err
	}
	known := strings.Fields(string(deps))
	for _, p := range strings.Fields(string(all)) {
		folder := strings.TrimPrefix(p, "github.com/gdngen/gdngen/")
		if slices.Contains(known, p) {
			continue
		}
		if needed[folder] = true; testsAlone[folder] == "" {
			left = append(left, fmt.Sprintf("%s/doc.go:1:1: no program imports the package\n", folder))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(testsAlone)) {
		if !needed[key] {
			left = append(left, fmt.Sprintf("tests/harness/dead.go:1:1: a program reaches %s: take it off the list\n", key))
		}
	}
	return strings.Join(left, ""), nil
}
