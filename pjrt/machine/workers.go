package machine

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"strings"
)

// workerMemory is the memory that a worker needs, in bytes: a compile of a large kernel with its dumps.
const workerMemory = 3 << 30

// Workers returns the default number of concurrent compiles: one per core, limited by free memory. limit says which of the two limits
// it.
func Workers() (n int, limit string) {
	n, limit = runtime.NumCPU(), fmt.Sprintf("one a core, of %d", runtime.NumCPU())
	if free := freeMemory(); free > 0 && free/workerMemory < int64(n) {
		n, limit = max(1, int(free/workerMemory)), fmt.Sprintf("%.0f GiB of memory are free, %d GiB for each", float64(free)/(1<<30), workerMemory>>30)
	}
	return n, limit
}

// freeMemory returns the bytes of memory available without swapping; 0 if unknown.
func freeMemory() (bytes int64) {
	f, err := os.Open("/proc/meminfo")
	if err != nil {
		return 0
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if rest, ok := strings.CutPrefix(lines.Text(), "MemAvailable:"); ok {
			var kib int64
			if _, err := fmt.Sscan(rest, &kib); err == nil {
				return kib << 10
			}
		}
	}
	return 0
}
