// Package rotate draws the samples of tests that are too long to compute whole. What is drawn rotates by commit, so that it comes to
// everything in time, and the same commit fails or passes the same. GDNGEN_TESTS=all computes the whole.
package rotate

import (
	"hash/fnv"
	"math/rand/v2"
	"os"
	"os/exec"
	"testing"
)

// Env names the variable that asks for the whole.
const Env = "GDNGEN_TESTS"

// All says whether the whole is asked for.
func All() bool { return os.Getenv(Env) == "all" }

// Short is n, or at least 1 and a quarter of n where -short asks for less, as with the race detector.
func Short(n int) int {
	if testing.Short() && !All() {
		return max(1, n/4)
	}
	return n
}

// Rand draws by the commit and a number of the test's own; without git it draws the same always.
func Rand(test uint64) *rand.Rand {
	out, _ := exec.Command("git", "rev-parse", "HEAD").Output()
	h := fnv.New64a()
	_, _ = h.Write(out) // never fails
	return rand.New(rand.NewPCG(h.Sum64(), test))
}

// Sample draws n of a list, or gives all where the whole is asked for. The list is not changed.
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
