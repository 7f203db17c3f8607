package loop

import (
	"encoding/json"
	"fmt"
	"os"
)

// A keeper is this program again, between the loop and a command. It is the reaper of whatever the command leaves behind, daemons under
// setsid included, and ends all of it when the command ends, or when the loop does: it holds one end of a pipe that closes then.
const keeperVariable = "GDNGEN_LOOP_KEEPER"

// The pipes of a keeper.
const (
	lifeFD   = 3 // closes when the loop wants the command to end, or is gone
	statusFD = 4
)

// status is what a keeper tells of its command.
type status struct {
	Exit  int    `json:"exit"`
	Fault string `json:"fault,omitempty"` // why it could not be started, or which signal ended it
	Left  int    `json:"left,omitempty"`  // processes that it left behind
}

// RunKeeperIfAsked turns this process into a keeper, if it was started as one. main calls it first.
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

// noBox is the exit status where a sandbox could not be made.
const noBox = 125

func runBoxedIfAsked() {
	text := os.Getenv(boxVariable)
	if text == "" {
		return
	}
	if os.Getpid() == 1 { // the one outside hands it on
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
