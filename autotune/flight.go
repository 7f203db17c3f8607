package autotune

import (
	"fmt"
	"runtime"
)

// inFlight says how many candidates are judged at a time, and what limits the number: the workers that judge, or the lookahead, which bounds
// how many are proposed before their predecessors' verdicts are known. The lookahead is part of the header, so that runs are reproducible.
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
