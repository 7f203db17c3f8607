//go:build ray

package worker

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/autotune"
)

// realRayEnv is the address of a running Ray cluster, such as auto; GDNGEN_RAY_PYTHON must have Ray.
const realRayEnv = "GDNGEN_TEST_RAY"

// On a real cluster, where one is named, a journal is as here, also where a slot's process is killed on the way.
func TestRealRay(t *testing.T) {
	address := os.Getenv(realRayEnv)
	require.NotEmpty(t, address, realRayEnv+" must name a cluster")
	want := local(t)
	e, err := ParseEngine("ray:" + address + "*2")
	require.NoError(t, err)
	p, err := New(t.Context(), []*Engine{e}, PoolOptions{Generator: testGenerator})
	require.NoError(t, err)
	defer p.Close()
	c := quick(t, p)
	killed := false
	c.Progress = func(x autotune.Progress) {
		if x.Candidate.ID == 5 {
			p.slots[0].running().Kill()
			killed = true
		}
	}
	_, err = autotune.Search(t.Context(), c)
	require.NoError(t, err)
	require.True(t, killed)
	got, losses := outcome(t, c.Dir)
	require.Equal(t, want, got)
	t.Log(losses)
}
