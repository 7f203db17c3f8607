package child

import (
	"bytes"
	"fmt"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const workerVariable = "GDNGEN_TEST_CHILD"

// As a worker the test program answers numbers with their double, prints on 7, and ends on 9.
func TestMain(m *testing.M) {
	if os.Getenv(workerVariable) == "" {
		os.Exit(m.Run())
	}
	orders, replies := Pipes()
	for {
		var n int
		if orders.Decode(&n) != nil {
			os.Exit(0)
		}
		switch n {
		case 7:
			fmt.Fprintln(os.Stderr, "seven")
		case 9:
			os.Exit(9)
		}
		if replies.Encode(2*n) != nil {
			os.Exit(1)
		}
	}
}

// output is a buffer that a child writes while a test reads it.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

func TestProcess(t *testing.T) {
	var out output
	start := func() *Process {
		p, err := Start(append(os.Environ(), workerVariable+"=1"), &out)
		require.NoError(t, err)
		return p
	}
	ask := func(p *Process, n int) (double int, err error) {
		if err = p.Send(n); err == nil {
			err = p.Receive(&double)
		}
		return double, err
	}
	p := start()
	for _, n := range []int{3, 7} {
		double, err := ask(p, n)
		require.NoError(t, err)
		require.Equal(t, 2*n, double)
	}
	require.True(t, p.Alive())
	require.Eventually(t, func() bool { return out.String() == "seven\n" }, 10*time.Second, time.Millisecond)
	group, err := syscall.Getpgid(p.Pid())
	require.NoError(t, err)
	require.Equal(t, p.Pid(), group, "a group of its own")
	p.Stop()
	require.False(t, p.Alive())
	require.ErrorContains(t, p.Exit(), "killed")

	p = start()
	_, err = ask(p, 9)
	require.Error(t, err, "it ended in place of an answer")
	<-p.Reaped()
	require.ErrorContains(t, p.Exit(), "exit status 9")
	p.Stop()
}
