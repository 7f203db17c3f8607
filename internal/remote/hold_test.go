package remote

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// fakeGcloud plays the states of a file, one a line, the last for ever; a zone named bad refuses.
func fakeGcloud(t *testing.T, states string) (dir string) {
	dir = t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "states"), []byte(states), 0o644))
	text := `#!/bin/sh
cd ` + dir + `
echo "$*" >> calls
case "$*" in
*"--zone bad"*create*|*create*"--zone bad"*) echo "quota is 0" >&2; exit 1 ;;
*create*) touch there ;;
*describe*) s=$(head -1 states); test $(wc -l < states) -gt 1 && sed -i 1d states; echo "{\"state\":{\"state\":\"$s\"}}" ;;
*delete*) test -f there || { echo NOT_FOUND >&2; exit 1; }; rm there ;;
*ssh*) exit 0 ;;
esac
`
	require.NoError(t, os.WriteFile(filepath.Join(dir, "gcloud"), []byte(text), 0o755))
	t.Setenv(GcloudEnv, filepath.Join(dir, "gcloud"))
	return dir
}

func hold(t *testing.T, zones ...string) *Hold {
	return &Hold{Name: "mine", Type: "v6e-8", Version: "v2-alpha-tpuv6e", Zones: zones, Attempts: 2, Ready: time.Minute, Sleep: time.Millisecond, Every: time.Millisecond,
		Leases: filepath.Join(t.TempDir(), "holds"), Note: func(text string) { t.Log(text) }}
}

// A machine gets the software of its type; one of a type that is not known has it by name.
func TestRuntime(t *testing.T) {
	for kind, want := range map[string]string{"v6e-8": "v2-alpha-tpuv6e", "v5p-8": "v2-alpha-tpuv5", "v5litepod-4": "v2-alpha-tpuv5-lite", "v4-8": "tpu-ubuntu2204-base"} {
		h := hold(t, "us-central1-a")
		h.Type, h.Version = kind, ""
		require.NoError(t, h.Check())
		create, _, _ := h.Commands("us-central1-a")
		require.Contains(t, strings.Join(create, " "), "--accelerator-type "+kind+" --runtime-version "+want+" ")
	}
	h := hold(t, "us-central1-a")
	h.Type, h.Version = "v9x-8", ""
	require.ErrorContains(t, h.Check(), `type "v9x-8": which software its machines want is not known: give it by --runtime`)
	h.Version = "mine"
	require.NoError(t, h.Check())
}

// A zone that refuses is left for the next one; a machine that is lost is taken again, and given back at the end.
func TestHold(t *testing.T) {
	dir := fakeGcloud(t, "WAITING_FOR_RESOURCES\nPROVISIONING\nACTIVE\nACTIVE\nSUSPENDED\nACTIVE\n")
	h := hold(t, "bad", "good")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var leases []*Lease
	err := h.Keep(ctx, func(l *Lease) {
		require.Equal(t, "tpu:mine?zone=good", l.Place())
		list, err := Leases(h.Leases)
		require.NoError(t, err)
		require.Len(t, list, 1)
		require.Equal(t, os.Getpid(), list[0].PID)
		if leases = append(leases, l); len(leases) == 2 {
			cancel()
		}
	})
	require.NoError(t, err)
	require.Len(t, leases, 2, "it was lost once")
	require.NoFileExists(t, filepath.Join(dir, "there"), "nothing is paid for")
	list, err := Leases(h.Leases)
	require.NoError(t, err)
	require.Empty(t, list)
}

// Where no attempt gives a machine, nothing is left of the attempts.
func TestHoldFails(t *testing.T) {
	var none *NoMachineError
	for _, state := range []string{"SUSPENDING", "SUSPENDED"} {
		dir := fakeGcloud(t, "WAITING_FOR_RESOURCES\nPROVISIONING\n"+state+"\n")
		_, err := hold(t, "good").Acquire(t.Context())
		require.ErrorAs(t, err, &none)
		require.ErrorContains(t, err, "the resource is "+state)
		require.NoFileExists(t, filepath.Join(dir, "there"))
	}
	dir := fakeGcloud(t, "PROVISIONING\nFAILED\n")
	h := hold(t, "bad", "good")
	_, err := h.Acquire(t.Context())
	require.ErrorAs(t, err, &none)
	require.Len(t, none.Why, 4)
	require.ErrorContains(t, err, "bad, attempt 2: queued-resources create mine-gdngen: exit status 1: quota is 0")
	require.ErrorContains(t, err, "the resource is FAILED")
	require.NoFileExists(t, filepath.Join(dir, "there"))

	fakeGcloud(t, "PROVISIONING\n")
	h = hold(t, "good")
	h.Attempts, h.Ready = 1, 200*time.Millisecond
	_, err = h.Acquire(t.Context())
	require.ErrorContains(t, err, "not ready within 200ms")
	h.Ready = time.Nanosecond // over while the machine is asked for
	_, err = h.Acquire(t.Context())
	require.ErrorContains(t, err, "not ready within 1ns")
}

// Another command gives a machine back; the holder sees it.
func TestRelease(t *testing.T) {
	dir := fakeGcloud(t, "ACTIVE\n")
	h := hold(t, "good")
	begun := time.Now()
	h.Max = time.Minute
	require.NoError(t, h.Keep(t.Context(), func(l *Lease) { require.NoError(t, Release(h.Leases, l)) }))
	require.Less(t, time.Since(begun), h.Max)
	require.NoFileExists(t, filepath.Join(dir, "there"))

	held := false
	for h.Max = 50 * time.Millisecond; !held && h.Max < time.Minute; h.Max *= 2 { // a busy machine takes long to get it
		err := h.Keep(t.Context(), func(*Lease) { held = true })
		if !held {
			require.ErrorAs(t, err, new(*NoMachineError))
			continue
		}
		require.NoError(t, err)
		require.NoFileExists(t, filepath.Join(dir, "there"), "its time is over")
	}
	require.True(t, held)
	h.Max = time.Nanosecond
	require.EqualError(t, h.Keep(t.Context(), nil), "no machine could be had: none was ready within the 1ns of the hold")
	require.ErrorIs(t, (&Hold{Name: "No"}).Check(), ErrPlace)
	require.ErrorIs(t, (&Hold{Name: "mine"}).Check(), ErrPlace)
}
