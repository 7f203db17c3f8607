package app

import (
	"fmt"
	"strconv"
)

// Limit is a flag of how many failures in a row are too many. never, -1 and 0 are no limit.
type Limit int

func (l *Limit) String() string {
	if *l <= 0 {
		return "never"
	}
	return strconv.Itoa(int(*l))
}

// Set reads a flag.
func (l *Limit) Set(text string) error {
	n, err := strconv.Atoi(text)
	switch {
	case text == "never" || err == nil && (n == 0 || n == -1):
		*l = -1
	case err != nil || n < 0:
		return fmt.Errorf("want a number of failures, or never (also 0 and -1)")
	default:
		*l = Limit(n)
	}
	return nil
}

// Type names the values in help.
func (l *Limit) Type() string { return "count" }
