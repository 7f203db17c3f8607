package autotune

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"strings"
)

// workerMemory is what a worker is given room for where nobody says how many there are: a compile of a large kernel with its dumps.
const workerMemory = 3 << 30

// defaultWorkers is one a core, as far as the memory that is free now goes; limit says what bounds them.
func defaultWorkers() (n int, limit string) {
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

// inFlight says how many candidates are judged at a time, and what keeps them from being more. Workers judge; the lookahead, which is part
// of what makes a run the same again, bounds what is proposed before its predecessors are known.
func inFlight(workers, lookahead int, limit string) string {
	text := fmt.Sprintf("%d at a time", min(workers, lookahead))
	switch {
	case lookahead < workers:
		return text + fmt.Sprintf(": the run has a lookahead of %d, so %d of %d workers have nothing to do", lookahead, workers-lookahead, workers)
	case limit != "":
		return text + ": " + limit
	case workers > runtime.NumCPU():
		return text + fmt.Sprintf(", as asked, on %d cores", runtime.NumCPU())
	}
	return text + ", as asked"
}
