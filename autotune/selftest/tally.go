package selftest

import (
	"fmt"
	"regexp"
	"strconv"
)

// Tally counts the cases that passed, failed and were skipped.
type Tally struct{ Passed, Failed, Skipped int }

func (t *Tally) String() string {
	return fmt.Sprintf("%d passed, %d failed, %d skipped", t.Passed, t.Failed, t.Skipped)
}

var tally = regexp.MustCompile(`(\d+) passed, (\d+) failed, (\d+) skipped`)

// ReadTally returns the last tally in the output of a selftest; nil if there is none.
func ReadTally(text string) *Tally {
	all := tally.FindAllStringSubmatch(text, -1)
	if all == nil {
		return nil
	}
	var n [3]int
	for i := range n {
		n[i], _ = strconv.Atoi(all[len(all)-1][i+1]) // digits
	}
	return &Tally{n[0], n[1], n[2]}
}
