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
	pad := strings.Repeat(" ", LineWidth-len(operand))
	require.Equal(t, []string{pad + "jnp.minimum(jnp.maximum(step, 0), steps - 1)", pad + "+ (steps * i + (4 * steps)),", pad + "1,"}, perLine([]string{operand, "1"}, len(pad)))
}

// TestSplitDef: parameters have a line each where they fill one; the result of a function without any is split in their place.
func TestSplitDef(t *testing.T) {
	name, result := strings.Repeat("f", 40), "Work[tuple[jax.Array, jax.Array, jax.Array, jax.Array]]:"
	require.Equal(t, []string{"def " + name + "(", "    x: int,", ") -> " + result}, split("def "+name+"(x: int) -> "+result, 0))
	require.Equal(t, []string{"def " + name + "() -> Work[", "    tuple[jax.Array, jax.Array, jax.Array, jax.Array]", "]:"}, split("def "+name+"() -> "+result, 0))
}

// TestUnpacked: names of results fill as few lines as fit them, and names that fill a line each have one.
func TestUnpacked(t *testing.T) {
	long := func(c string) string { return strings.Repeat(c, 40) }
	require.Equal(t, []string{"    a, b = results[:2]", "    c, d, e = results[2:]"}, unpacked([]string{"a", "b", "c", "d", "e"}, "    "))
	require.Equal(t, []string{long("a") + " = results[0]", long("b") + " = results[1]", long("c") + " = results[2]"}, unpacked([]string{long("a"), long("b"), long("c")}, ""))
}

// TestEmptied: lists of nothing take as few lines as fit them; a name that fills a line has it to itself.
func TestEmptied(t *testing.T) {
	long := func(c string) string { return strings.Repeat(c, 36) }
	body := long("a") + ", b, " + long("c") + ", d = [], [], [], []"
	require.Equal(t, []string{"    " + long("a") + ", b = [], []", "    " + long("c") + ", d = [], []"}, split(body, 4))
	require.Equal(t, []string{long("a") + long("b") + long("c") + " = []", "d = []"}, split(long("a")+long("b")+long("c")+", d = [], []", 0))
}
