//go:build ray

package remote

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// realJobsEnv is the address of the dashboard of a running Ray head, such as http://127.0.0.1:8265; its token is in RAY_AUTH_TOKEN.
const realJobsEnv = "GDNGEN_TEST_RAY_JOBS"

// A real Ray head takes a job, tells its log while it runs, stops another, and gives back what a job left.
func TestRealJobs(t *testing.T) {
	address := os.Getenv(realJobsEnv)
	require.NotEmpty(t, address, "start one by: ray start --head; then %s=http://127.0.0.1:8265", realJobsEnv)
	p, _, err := Parse("ray:" + address)
	require.NoError(t, err)
	id := "gdngen-test-" + strings.ReplaceAll(time.Now().Format("150405.000"), ".", "-")

	require.NoError(t, p.Submit(t.Context(), job(id, "sh", "-c", "for i in 1 2 3 4; do echo line $i; sleep 1; done; echo ran > $0/ran; exit 3", "@out")))
	require.NoError(t, p.Submit(t.Context(), job(id, "sh", "-c", "for i in 1 2 3 4; do echo line $i; sleep 1; done; echo ran > $0/ran; exit 3", "@out")), "the same id is the same job")
	s, out := wait(t, p, id)
	require.Equal(t, Failed, s.Phase)
	require.Equal(t, 3, s.Exit)
	require.Contains(t, out, "line 1\nline 2\nline 3\nline 4\n")
	require.Equal(t, "ran\n", read(t, p, id, "ran"))

	long := id + "-long"
	require.NoError(t, p.Submit(t.Context(), job(long, "sleep", "600")))
	require.Eventually(t, func() bool {
		s, err := p.Status(t.Context(), long)
		return err == nil && s.Phase == Running
	}, time.Minute, 100*time.Millisecond)
	require.NoError(t, p.Stop(t.Context(), long))
	s, _ = wait(t, p, long)
	require.Equal(t, Stopped, s.Phase)
}
