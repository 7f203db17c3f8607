package loop

import (
	"context"
	"errors"
	"math"
	"os"
)

// RunContained runs a program, passes its output lines to show, and ends its child processes with it. So no process of
// an untrusted program runs during the next step.
func RunContained(ctx context.Context, show func(line string), words ...string) error {
	if err := supported(); err != nil {
		return err
	}
	var text string
	for _, w := range words {
		text += " " + quote(w)
	}
	dir, err := os.Getwd()
	if err != nil {
		return err
	}
	c := command{text: "exec" + text, dir: dir, log: os.DevNull, env: os.Environ(), limit: math.MaxInt64, show: show}
	o, err := c.run(ctx)
	if err == nil && o.fault != "" {
		err = errors.New(o.fault)
	}
	return err
}
