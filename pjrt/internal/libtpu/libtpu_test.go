package libtpu

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A refusal is one line: its cause, and the release that is needed; the kernel that follows it is left out.
func TestCause(t *testing.T) {
	kernel := "\n\nat location: loc(\"-\":1:1)\n\nThe MLIR operation involved:\n  \n\"builtin.module\"() <{sym_name = \"fused\"}> ({\n" + strings.Repeat("%0 = x\n", 3000)
	for message, want := range map[string]string{
		"Failed to deserialize the Mosaic module: INTERNAL: Unsupported version: expected <= 9 but got 15" + kernel: "libtpu 0.0.42.1 or newer is needed: this one " +
			"reads kernels up to version 9 of Mosaic, and these are of version 15 (Failed to deserialize the Mosaic module: INTERNAL: Unsupported version: expected <= 9 but got 15)",
		"failed to legalize operation 'math.log2'" + kernel: "failed to legalize operation 'math.log2': where this libtpu is older than 0.0.42.1, take that or a newer one",
		"no room\nat all": "no room at all",
	} {
		require.Equal(t, want, Cause(message))
	}
}

func TestUnknownOption(t *testing.T) {
	require.Equal(t, "xla_tpu_x", UnknownOption("No such compile option: 'xla_tpu_x'"))
	require.Empty(t, UnknownOption("Failed to parse 'x' into flag: No such compile option: 'y'"))
}

// Where no metadata server of Google's answers, libtpu is told not to ask: no server, another server, and a silent one.
func TestEnvironment(t *testing.T) {
	skip, silent := []string{"TPU_SKIP_MDS_QUERY=1"}, make(chan struct{})
	for name, row := range map[string]struct {
		answer http.HandlerFunc
		want   []string
	}{
		"google":  {func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Metadata-Flavor", "Google") }, nil},
		"another": {func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") }, skip},
		"silent":  {func(http.ResponseWriter, *http.Request) { <-silent }, skip},
	} {
		server := httptest.NewServer(row.answer)
		t.Setenv("GCE_METADATA_HOST", strings.TrimPrefix(server.URL, "http://"))
		start := time.Now()
		require.Equal(t, row.want, Environment(t.Context()), name)
		require.Less(t, time.Since(start), 10*time.Second)
		if name == "silent" {
			close(silent)
		}
		server.Close()
		if name == "another" {
			require.Equal(t, skip, Environment(t.Context()), "nobody is there any more")
		}
	}
	t.Setenv("TPU_SKIP_MDS_QUERY", "false")
	require.Empty(t, Environment(t.Context()), "the user has said")
}

// The holder of libtpu's lock is named, without the advice to remove the lock.
func TestBusy(t *testing.T) {
	file := filepath.Join(t.TempDir(), "libtpu_lockfile")
	f, err := os.Create(file)
	require.NoError(t, err)
	defer f.Close()
	says := `Internal error when accessing libtpu multi-process lockfile. Run "$ sudo rm ` + file + `".`
	require.Equal(t, "another process has the device: one that is not seen from here, of another user or in another container; "+
		"wait until it has ended, or give each its own chips (docs/device.md)", Busy(says), "this process is none")
	holder := exec.Command("sleep", "60")
	holder.ExtraFiles = []*os.File{f}
	require.NoError(t, holder.Start())
	t.Cleanup(func() { holder.Process.Kill(); holder.Wait() })
	require.Eventually(t, func() bool { return strings.Contains(Busy(says), fmt.Sprintf(": sleep (pid %d);", holder.Process.Pid)) }, 10*time.Second, 10*time.Millisecond)
	require.Empty(t, Busy("No jellyfish device found."))
}

func TestIs(t *testing.T) {
	require.True(t, Is("/a/libtpu.so"))
	require.False(t, Is("/libtpu/stub.so"))
}
