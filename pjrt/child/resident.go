package child

import (
	"os"
	"strconv"
	"strings"
)

// Resident returns the resident memory of a process in bytes, with "self" for this one; 0 if unknown.
func Resident(pid string) int64 {
	statm, _ := os.ReadFile("/proc/" + pid + "/statm")
	if f := strings.Fields(string(statm)); len(f) > 1 {
		pages, _ := strconv.ParseInt(f[1], 10, 64)
		return pages * int64(os.Getpagesize())
	}
	return 0
}
