package loop

import (
	"encoding/json"
	"fmt"
	"os"
)

// A keeper is a process of this program between the loop and a command. It reaps all processes that the command starts, daemons
// under setsid included, and ends them when the command ends, or when the loop does: then a pipe to the keeper closes.
const keeperVariable = "GDNGEN_LOOP_KEEPER"

// The pipes of a keeper.
const (
	lifeFD   = 3 // closes when the loop ends the command, or is gone
	statusFD = 4
)

// status is a keeper's report on its command.
type status struct {
	Exit  int    `json:"exit"`
	Fault string `json:"fault,omitempty"` // why it could not be started, or which signal ended it
	Left  int    `json:"left,omitempty"`  // processes that outlived it
}

// RunKeeperIfAsked turns this process into a keeper, or into the first process of a sandbox, if it was started as one. main must call it first.
func RunKeeperIfAsked() {
	if os.Getenv(keeperVariable) == "" {
		runBoxedIfAsked()
		return
	}
	os.Unsetenv(keeperVariable)
	out := os.NewFile(statusFD, "status")
	json.NewEncoder(out).Encode(keep(os.NewFile(lifeFD, "life"), os.Args[1:]))
	os.Exit(0)
}

// noBox is the exit status if a sandbox could not be made.
const noBox = 125

func runBoxedIfAsked() {
	text := os.Getenv(boxVariable)
	if text == "" {
		return
	}
	if os.Getpid() == 1 { // the process outside passes it on
		os.Unsetenv(boxVariable)
	}
	var b boxed
	err := json.Unmarshal([]byte(text), &b)
	code := noBox
	if err == nil {
		code, err = b.start()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "sandbox:", err)
		code = noBox
	}
	os.Exit(code)
}
