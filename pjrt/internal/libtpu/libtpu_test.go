package libtpu

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A refusal is one line: its cause, and the release that is needed; the kernel that follows it is left out.
func TestCause(t *testing.T) {
	kernel := "\n\nat location: loc(\"-\":1:1)\n\nThe MLIR operation involved:\n  \n\"builtin.module\"() <{sym_name = \"fused\"}> ({\n" + strings.Repeat("%0 = x\n", 3000)
	for message, want := range map[string]string{
		"Failed to deserialize the Mosaic module: INTERNAL: Unsupported version: expected <= 9 but got 15" + kernel: "Failed to deserialize the Mosaic module: INTERNAL: Unsupported version: expected <= 9 but got 15: " +
			"this libtpu reads kernels up to version 9 of Mosaic, and these are of version 15; libtpu 0.0.42.1 or newer is needed",
		"failed to legalize operation 'math.log2'" + kernel: "failed to legalize operation 'math.log2': where this libtpu is older than 0.0.42.1, take that or a newer one",
		"no room\nat all": "no room at all",
	} {
		require.Equal(t, want, Cause(message))
	}
}

func TestUnknownOption(t *testing.T) {
	require.Equal(t, "xla_tpu_x", UnknownOption("No such compile option: 'xla_tpu_x'"))
	require.Empty(t, UnknownOption("Failed to parse 'x' into flag: No such compile option: 'y'"))
}
