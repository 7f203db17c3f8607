package llo

import (
	"fmt"
	"strconv"
	"strings"
)

// A utilization is the compiler's count of the slots that each bundle of a schedule uses.
type utilization struct {
	slots    []string
	capacity []int64   // of each slot in one bundle
	rows     [][]int64 // [bundle][slot]
}

// parseUtilization reads a final_hlo-static-per-bundle-utilization file: two headings, the names of the slots, their capacities, and a row for
// each bundle.
func parseUtilization(src string) (*utilization, error) {
	var u utilization
	section := ""
	for i, line := range strings.Split(src, "\n") {
		line = strings.TrimSpace(line)
		fail := func(format string, args ...any) error {
			return &syntaxError{i + 1, fmt.Sprintf(format, args...)}
		}
		switch {
		case line == "":
		case strings.HasPrefix(line, "=="):
			section = line
		case strings.Contains(section, "CAPAC") && u.slots == nil:
			for s := range strings.SplitSeq(line, ",") {
				u.slots = append(u.slots, strings.TrimSpace(s))
			}
		default:
			row, err := integers(line)
			if err != nil {
				return nil, fail("%v", err)
			}
			if len(row) != len(u.slots) || len(row) == 0 {
				return nil, fail("%d columns for %d slots", len(row), len(u.slots))
			}
			if u.capacity == nil {
				u.capacity = row
			} else {
				u.rows = append(u.rows, row)
			}
		}
	}
	if u.capacity == nil {
		return nil, &syntaxError{1, "no slot capacities: not a per-bundle utilization dump, or an empty one"}
	}
	return &u, nil
}

func integers(line string) ([]int64, error) {
	var row []int64
	for _, f := range strings.Fields(line) {
		n, err := strconv.ParseInt(f, 10, 32)
		if err != nil || n < 0 {
			return nil, fmt.Errorf("%q is not a count", f)
		}
		row = append(row, n)
	}
	return row, nil
}

// executed weights the rows with how often each bundle ran.
func (u *utilization) executed(counts []int64, bundles int64) []Slot {
	slots := make([]Slot, len(u.slots))
	for i := range slots {
		slots[i] = Slot{Name: u.slots[i], Capacity: u.capacity[i] * bundles}
	}
	for b, row := range u.rows {
		for i, n := range row {
			slots[i].Used += n * counts[b]
		}
	}
	return slots
}
