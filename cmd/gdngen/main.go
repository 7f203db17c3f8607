// Command gdngen generates, checks, costs and searches kernels of the gated delta rule.
//
// Rules:
//
//  1. Standard output carries data only; progress, warnings and errors go to standard error.
//  2. The exit status says what happened; see the table in exit.go.
//  3. Plugins are fetched when they are first needed, with progress, and a command that can not have one says what to do.
//  4. An interrupt ends a command cleanly; a second one ends it at once.
package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/gdngen/gdngen/autotune/bench"
	"github.com/gdngen/gdngen/cmd/gdngen/internal/app"
	"github.com/gdngen/gdngen/cmd/gdngen/internal/loop"
	"github.com/gdngen/gdngen/pjrt/aot"
	"github.com/gdngen/gdngen/pjrt/device"
)

func main() {
	aot.RunWorkerIfAsked()
	bench.RunWorkerIfAsked()
	device.RunWorkerIfAsked()
	loop.RunKeeperIfAsked()
	os.Exit(execute(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// interrupts returns the signals that end a command cleanly. An ignored hang-up, as under nohup, stays ignored.
func interrupts() []os.Signal {
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		signals = append(signals, syscall.SIGHUP)
	}
	return signals
}

// execute runs one command line and returns its exit status.
func execute(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), interrupts()...)
	defer stop()
	context.AfterFunc(ctx, stop) // a second interrupt has its usual effect
	a := &app.App{Stdin: stdin, Stdout: stdout, Stderr: stderr}
	defer a.Close()
	root := CLI{a}.root()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return app.ExitOK
	}
	code := app.ExitCode(err)
	a.Complain(err, code)
	return code
}
