package machine

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"strings"
)

// workerMemory is the room for a worker: a compile of a large kernel with its dumps.
const workerMemory = 3 << 30

// Workers is how many compiles run at a time by default: one a core, as far as the memory that is free now goes. limit says what
// bounds them.
func Workers() (n int, limit string) {
	n, limit = runtime.NumCPU(), fmt.Sprintf("one a core, of %d", runtime.NumCPU())
	if free := freeMemory(); free > 0 && free/workerMemory < int64(n) {
		n, limit = max(1, int(free/workerMemory)), fmt.Sprintf("%.0f GiB of memory are free, %d GiB for each", float64(free)/(1<<30), workerMemory>>30)
	}
	return n, limit
}

// freeMemory is the memory in bytes that can be had without swapping; 0 where the system does not tell.
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
