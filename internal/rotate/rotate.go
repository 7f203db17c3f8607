// Package rotate draws samples for tests that are too long to run in full. The sample depends on the commit: over time everything
// is tested, and a commit always fails or passes in the same way. With GDNGEN_TESTS=all there is no sampling.
package rotate

import (
	"hash/fnv"
	"math/rand/v2"
	"os"
	"os/exec"
	"testing"
)

// Env is the environment variable that switches sampling off.
const Env = "GDNGEN_TESTS"

// All reports whether sampling is off.
func All() bool { return os.Getenv(Env) == "all" }

// Short returns n, or with -short a quarter of n, at least 1.
func Short(n int) int {
	if testing.Short() && !All() {
		return max(1, n/4)
	}
	return n
}

// Rand returns a source seeded by the commit and a test's own number; without git the commit is ignored.
func Rand(test uint64) *rand.Rand {
	out, _ := exec.Command("git", "rev-parse", "HEAD").Output()
	h := fnv.New64a()
	_, _ = h.Write(out) // never fails
	return rand.New(rand.NewPCG(h.Sum64(), test))
}

// Sample draws n elements of a list, or returns all if sampling is off. The list is not changed.
func Sample[T any](test uint64, list []T, n int) []T {
	if All() || n >= len(list) {
		return list
	}
	var drawn []T
	for _, i := range Rand(test).Perm(len(list))[:n] {
		drawn = append(drawn, list[i])
	}
	return drawn
}
