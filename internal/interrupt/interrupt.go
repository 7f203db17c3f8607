// Package interrupt stops waiting for work that ignores a context, such as the interpreter.
package interrupt

import "context"

// Await returns f's results, or ctx's error as soon as ctx ends; f then goes on until the process ends.
func Await[T any](ctx context.Context, f func() (T, error)) (T, error) {
	type outcome struct {
		value T
		err   error
	}
	done := make(chan outcome, 1)
	go func() {
		v, err := f()
		done <- outcome{v, err}
	}()
	select {
	case o := <-done:
		return o.value, o.err
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	}
}
