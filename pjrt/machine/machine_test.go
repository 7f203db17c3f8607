package machine

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const holdVariable = "GDNGEN_TEST_HOLD"

// As another process the test program holds the lock of a folder, says so, and goes on until it is killed.
func TestMain(m *testing.M) {
	dir, use := os.Getenv(holdVariable), Use(os.Getenv(holdVariable+"_USE"))
	if dir == "" {
		os.Exit(m.Run())
	}
	l := New(dir, nil)
	take := l.Compute
	if use == Measures {
		take = l.Measure
	}
	if _, _, err := take(context.Background()); err != nil {
		panic(err)
	}
	fmt.Println("held")
	select {}
}

// other starts a process that holds the lock of a folder.
func other(t *testing.T, dir string, use Use) *exec.Cmd {
	cmd := exec.Command(os.Args[0], "-test.run=none")
	cmd.Env = append(os.Environ(), holdVariable+"="+dir, holdVariable+"_USE="+string(use))
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "held\n", line)
	return cmd
}

// eventually is a context that gives up waiting.
func eventually(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 5*pollEvery)
	t.Cleanup(cancel)
	return ctx
}

func TestShares(t *testing.T) {
	l := New(filepath.Join(t.TempDir(), "machine"), nil)
	require.Empty(t, l.Holders())
	_, one, err := l.Compute(t.Context())
	require.NoError(t, err)
	_, two, err := l.Compute(t.Context())
	require.NoError(t, err, "those who compute share it")
	require.Len(t, l.Holders(), 2)
	_, _, err = l.Measure(eventually(t))
	require.ErrorIs(t, err, context.DeadlineExceeded)
	one()
	one() // twice is once
	two()
	_, alone, err := l.Measure(t.Context())
	require.NoError(t, err)
	for _, take := range []func(context.Context) (context.Context, func(), error){l.Compute, l.Measure} {
		_, _, err = take(eventually(t))
		require.ErrorIs(t, err, context.DeadlineExceeded)
	}
	alone()
	require.Empty(t, l.Holders())
	left, err := os.ReadDir(l.dir)
	require.NoError(t, err)
	require.Len(t, left, 2, "the lock and the turn")
}

// A context that holds the machine takes nothing again; measuring under one that computes gives that up and takes it back.
func TestNested(t *testing.T) {
	l := New(t.TempDir(), nil)
	ctx, free, err := l.Compute(t.Context())
	require.NoError(t, err)
	require.Same(t, l, Of(ctx))
	require.Same(t, l, Of(l.With(t.Context())))
	require.Nil(t, Of(t.Context()))
	inner, freeInner, err := l.Compute(ctx)
	require.NoError(t, err)
	require.Len(t, l.Holders(), 1)
	timing, freeTiming, err := l.Measure(inner)
	require.NoError(t, err)
	_, again, err := l.Measure(timing)
	require.NoError(t, err)
	again()
	holders := l.Holders()
	require.Len(t, holders, 1)
	require.Equal(t, Measures, holders[0].Use)
	freeTiming()
	require.Equal(t, Computes, l.Holders()[0].Use)
	freeInner()
	require.Len(t, l.Holders(), 1)
	free()
	require.Empty(t, l.Holders())

	var none *Lock
	_, free, err = none.Measure(t.Context())
	require.NoError(t, err)
	free()
	require.NoError(t, none.Free(Measures))
}

// Somebody who waits to measure gets the machine although there is always one who computes.
func TestMeasuresFirst(t *testing.T) {
	l := New(t.TempDir(), nil)
	ctx, cancel := context.WithCancel(t.Context())
	var turns atomic.Int64
	done := make(chan struct{})
	for range 3 { // at every moment one of them computes
		go func() {
			for ctx.Err() == nil {
				if _, free, err := l.Compute(ctx); err == nil {
					turns.Add(1)
					time.Sleep(2 * pollEvery)
					free()
				}
			}
			done <- struct{}{}
		}()
	}
	for turns.Load() < 5 {
		time.Sleep(time.Millisecond)
	}
	_, free, err := l.Measure(t.Context())
	require.NoError(t, err)
	before := turns.Load()
	time.Sleep(5 * pollEvery)
	require.Equal(t, before, turns.Load(), "nobody computes meanwhile")
	free()
	cancel()
	for range 3 {
		<-done
	}
}

// Who waits is told whom for; who does not want to wait is refused; a killed process holds nothing.
func TestOtherProcess(t *testing.T) {
	dir := t.TempDir()
	cmd := other(t, dir, Measures)
	said := make(chan []Holder, 1)
	l := New(dir, func(h []Holder) { said <- h })
	var busy *BusyError
	require.ErrorAs(t, l.Free(Computes), &busy)
	require.Equal(t, cmd.Process.Pid, busy.Holders[0].PID)
	require.ErrorContains(t, busy, fmt.Sprintf("the machine is in use: %s -test.run=none (process %d, measures since ", filepath.Base(os.Args[0]), cmd.Process.Pid))
	got := make(chan error)
	go func() {
		_, free, err := l.Compute(t.Context())
		if err == nil {
			free()
		}
		got <- err
	}()
	holders := <-said
	require.Contains(t, Waiting(holders), fmt.Sprintf("waiting for the machine: %s", holders[0]))
	require.NoError(t, cmd.Process.Kill())
	cmd.Wait()
	require.NoError(t, <-got)
	require.Empty(t, l.Holders())
	require.NoError(t, l.Free(Measures))

	other(t, dir, Computes)
	require.NoError(t, l.Free(Computes))
	require.ErrorAs(t, l.Free(Measures), &busy)
}
