package machine

import (
	"os/exec"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// What this process and its children use is not of others.
func TestOthers(t *testing.T) {
	if busyTime() == 0 {
		require.NotEqual(t, "linux", runtime.GOOS)
		require.Zero(t, Watch()().Cores)
		return
	}
	busy, own := busyTime(), ownTime()
	late := time.Now().Add(30 * time.Second)
	for ownTime()-own < 200*time.Millisecond { // this process
		require.True(t, time.Now().Before(late), "its own time is not counted")
	}
	used := ownTime() - own
	require.GreaterOrEqual(t, busyTime()-busy, used-50*time.Millisecond)
	child := exec.Command("sh", "-c", "while :; do :; done")
	require.NoError(t, child.Start())
	require.Eventually(t, func() bool { return ownTime()-own > used+200*time.Millisecond }, 30*time.Second, 20*time.Millisecond, "its child, while it runs")
	used = ownTime() - own
	require.NoError(t, child.Process.Kill())
	require.Error(t, child.Wait())
	ended := ownTime() - own
	require.GreaterOrEqual(t, ended, used, "and after it has ended")

	o := Others{Cores: 1.25, Of: 2}
	require.True(t, o.Disturb())
	require.Equal(t, "other processes used 1.2 of 2 processors meanwhile: times may be longer for it", o.String())
	require.False(t, Others{Cores: 1, Of: 2}.Disturb())
}

// A process that is none of ours is of others.
func TestOthersDisturb(t *testing.T) {
	if busyTime() == 0 {
		require.NotEqual(t, "linux", runtime.GOOS)
		return
	}
	// A shell that ends at once leaves its child to the system.
	out, err := exec.Command("sh", "-c", "(timeout 5 sh -c 'while :; do :; done' > /dev/null 2>&1 & echo $!)").Output()
	require.NoError(t, err)
	require.NotEmpty(t, out)
	end := Watch()
	time.Sleep(time.Second)
	o := end()
	require.NoError(t, exec.Command("sh", "-c", "kill "+string(out)).Run())
	require.Greater(t, o.Cores, .1)
	require.Less(t, o.Cores, float64(o.Of)+.5)
}
