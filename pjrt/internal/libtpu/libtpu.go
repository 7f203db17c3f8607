// Package libtpu has facts about libtpu: required releases, environment, and the meaning of messages.
package libtpu

import (
	"fmt"
	"regexp"
	"strings"
)

// Oldest is the oldest release that compiles the kernels of auto; docs/device.md has the command that checks it.
const Oldest = "0.0.42.1"

var (
	// dump matches the text after a refusal's cause: a location, and the whole operation in MLIR.
	dump       = regexp.MustCompile(`(?s)\s*(at location:|The MLIR operation involved).*`)
	oldMosaic  = regexp.MustCompile(`Unsupported version: expected <= (\d+) but got (\d+)`)
	noFunction = regexp.MustCompile(`failed to legalize operation '[^']*'`)
	noOption   = regexp.MustCompile(`^No such compile option: '([^']*)'`)
)

// Cause returns a refusal in one line: the release that is needed if this one is too old, and the first cause without the kernel.
func Cause(message string) string {
	cause := strings.Join(strings.Fields(dump.ReplaceAllString(message, "")), " ")
	if m := oldMosaic.FindStringSubmatch(message); m != nil {
		return fmt.Sprintf("libtpu %s or newer is needed: this one reads kernels up to version %s of Mosaic, and these are of version %s (%s)", Oldest, m[1], m[2], cause)
	}
	if noFunction.MatchString(message) {
		return cause + ": where this libtpu is older than " + Oldest + ", take that or a newer one"
	}
	return cause
}

// UnknownOption returns the compile option that libtpu reports as unknown; "" for other messages.
func UnknownOption(message string) string {
	if m := noOption.FindStringSubmatch(message); m != nil {
		return m[1]
	}
	return ""
}
