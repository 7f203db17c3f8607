package lab

import (
	"errors"
	"flag"
	"fmt"
)

// Counts returns what is wrong with a command line whose named integer flags must be at least 1, and which takes no
// arguments; nil if nothing.
func Counts(f *flag.FlagSet, names ...string) error {
	var errs []error
	for _, name := range names {
		if n := f.Lookup(name).Value.(flag.Getter).Get().(int); n < 1 {
			errs = append(errs, fmt.Errorf("-%s %d: want at least 1", name, n))
		}
	}
	if f.NArg() > 0 {
		errs = append(errs, fmt.Errorf("there are no arguments, only flags: %q is left over", f.Args()))
	}
	return errors.Join(errs...)
}
