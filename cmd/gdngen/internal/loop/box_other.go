//go:build !linux

package loop

import "errors"

// start is of Linux alone.
func (b boxed) start() (int, error) { return -1, errors.New("there are no namespaces on this system") }
