// Package libtpu knows what releases of libtpu want, and what they mean by their messages.
package libtpu

import (
	"fmt"
	"regexp"
	"strings"
)

// Oldest is the oldest release that takes the kernels of auto; docs/device.md has the command that tries it.
const Oldest = "0.0.42.1"

var (
	// dump is what follows the cause of a refusal: a place, and the whole operation in MLIR.
	dump       = regexp.MustCompile(`(?s)\s*(at location:|The MLIR operation involved).*`)
	oldMosaic  = regexp.MustCompile(`Unsupported version: expected <= (\d+) but got (\d+)`)
	noFunction = regexp.MustCompile(`failed to legalize operation '[^']*'`)
	noOption   = regexp.MustCompile(`^No such compile option: '([^']*)'`)
)

// Cause is a refusal in one line: its first cause, without the kernel, and the release that is needed where this one is too old.
func Cause(message string) string {
	cause := strings.Join(strings.Fields(dump.ReplaceAllString(message, "")), " ")
	if m := oldMosaic.FindStringSubmatch(message); m != nil {
		return fmt.Sprintf("%s: this libtpu reads kernels up to version %s of Mosaic, and these are of version %s; libtpu %s or newer is needed", cause, m[1], m[2], Oldest)
	}
	if noFunction.MatchString(message) {
		return cause + ": where this libtpu is older than " + Oldest + ", take that or a newer one"
	}
	return cause
}

// UnknownOption is the compile option that a libtpu says it does not have; empty where the message is of something else.
func UnknownOption(message string) string {
	if m := noOption.FindStringSubmatch(message); m != nil {
		return m[1]
	}
	return ""
}
