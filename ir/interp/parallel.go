package interp

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
)

// parallel runs f(0) .. f(n-1), on all processors if it is worth it. A panic in f comes back as a
// panic of the caller.
func parallel(n int, worth bool, f func(int)) {
	workers := min(n, runtime.GOMAXPROCS(0))
	if !worth || workers < 2 {
		for i := range n {
			f(i)
		}
		return
	}
	var next atomic.Int64
	var wg sync.WaitGroup
	var once sync.Once
	var fault any
	for range workers {
		wg.Go(func() {
			defer func() {
				if r := recover(); r != nil {
					once.Do(func() { fault = r })
				}
			}()
			for {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				f(i)
			}
		})
	}
	wg.Wait()
	if fault != nil {
		panic(fmt.Sprint(fault))
	}
}
