package aot_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/gdngen/gdngen/pjrt/aot"
)

func Example() {
	// main starts with aot.RunWorkerIfAsked().
	c := aot.New(aot.Options{Libtpu: "libtpu.so"})
	defer c.Close()
	_, err := c.Compile(context.Background(), aot.Request{Topology: "v6e", Module: "module {}"})
	var bad *aot.RequestError
	fmt.Println(errors.As(err, &bad), bad.Field)
	// Output: true Topology
}
