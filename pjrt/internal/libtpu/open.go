package libtpu

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// skipMetadata keeps libtpu from asking Google Cloud's metadata server about the machine. Elsewhere that server does not answer, and
// libtpu retries for minutes.
const skipMetadata = "TPU_SKIP_MDS_QUERY"

// Is reports whether a plugin is libtpu, by its file's name.
func Is(path string) bool { return strings.Contains(filepath.Base(path), "libtpu") }

// Environment returns the variables to add so that libtpu opens at once; nil in Google's cloud, or if already set.
func Environment(ctx context.Context) []string {
	if _, set := os.LookupEnv(skipMetadata); set || inCloud(ctx) {
		return nil
	}
	return []string{skipMetadata + "=1"}
}

// inCloud reports whether Google Cloud's metadata server answers within a second. GCE_METADATA_HOST overrides its address, as for other
// clients.
func inCloud(ctx context.Context) bool {
	ctx, stop := context.WithTimeout(ctx, time.Second)
	defer stop()
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+cmp.Or(os.Getenv("GCE_METADATA_HOST"), "169.254.169.254")+"/", nil)
	if err != nil {
		return false
	}
	r, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(q) // without a proxy
	if err != nil {
		return false
	}
	r.Body.Close()
	return r.Header.Get("Metadata-Flavor") == "Google"
}

var lockFile = regexp.MustCompile(`/[^\s'"]*libtpu_lockfile`)

// Busy returns a message that names the process with the device, if libtpu complains about its lock; "" for other messages. libtpu's own
// message advises to remove the lock, even if it is held.
func Busy(message string) string {
	file := lockFile.FindString(message)
	if file == "" {
		return ""
	}
	who := "one that is not seen from here, of another user or in another container"
	if h := holders(file); len(h) > 0 {
		who = strings.Join(h, ", ")
	}
	return fmt.Sprintf("another process has the device: %s; wait until it has ended, or give each its own chips (docs/device.md)", who)
}

// holders returns the other processes that have a file open.
func holders(file string) (list []string) {
	if real, err := filepath.EvalSymlinks(file); err == nil {
		file = real
	}
	open, _ := filepath.Glob("/proc/[0-9]*/fd/*")
	for _, fd := range open {
		process := filepath.Dir(filepath.Dir(fd))
		pid := filepath.Base(process)
		if at, err := os.Readlink(fd); err != nil || at != file || pid == strconv.Itoa(os.Getpid()) {
			continue
		}
		name, _ := os.ReadFile(filepath.Join(process, "comm"))
		list = append(list, fmt.Sprintf("%s (pid %s)", cmp.Or(strings.TrimSpace(string(name)), "a process"), pid))
	}
	return slices.Compact(list)
}
