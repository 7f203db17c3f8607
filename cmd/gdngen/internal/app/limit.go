package app

import (
	"fmt"
	"strconv"
)

// Limit is a flag: the number of consecutive failures that ends a run. never, -1 and 0 mean no limit.
type Limit int

func (l *Limit) String() string {
	if *l <= 0 {
		return "never"
	}
	return strconv.Itoa(int(*l))
}

// Set parses the flag.
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

// Type returns the name of the value in help texts.
func (l *Limit) Type() string { return "count" }
