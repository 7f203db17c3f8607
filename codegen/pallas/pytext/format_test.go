package pytext

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// An argument that fills the line to its end has no room for its comma. It is cut at its operators where it ends in an operand in brackets: a comma
// in those would make a tuple of the operand.
func TestNoRoomForComma(t *testing.T) {
	operand := "jnp.minimum(jnp.maximum(step, 0), steps - 1) + (steps * i + (4 * steps))"
	pad := strings.Repeat(" ", lineWidth-len(operand))
	require.Equal(t, []string{pad + "jnp.minimum(jnp.maximum(step, 0), steps - 1)", pad + "+ (steps * i + (4 * steps)),", pad + "1,"}, perLine([]string{operand, "1"}, len(pad)))
}
