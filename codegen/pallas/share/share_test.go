package share

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// What files have alike is taken out, with what it uses; a file in which it uses something else keeps its own.
func TestShare(t *testing.T) {
	file := func(size, rest string) string {
		return "SIZE = " + size + "\nT = TypeVar(\"T\")\n\n\ndef _twice(x: int) -> int:\n    \"\"\"One of SIZE.\"\"\"\n    return 2 * x\n\n\ndef _all(x: int) -> int:\n    return SIZE * _twice(x).T\n\n\n@functools.partial(\n    jit\n)\ndef " + rest + "() -> int:\n    return _all(1)\n"
	}
	common, left, taken := Out([]string{file("4", "a"), file("4", "b"), file("5", "c")})
	require.Equal(t, "SIZE = 4\nT = TypeVar(\"T\")\n\n\ndef _twice(x: int) -> int:\n    \"\"\"One of SIZE.\"\"\"\n    return 2 * x\n\n\ndef _all(x: int) -> int:\n    return SIZE * _twice(x).T", common)
	require.Equal(t, "@functools.partial(\n    jit\n)\ndef a() -> int:\n    return _all(1)", left[0])
	require.Equal(t, []string{"SIZE", "T", "_all", "_twice"}, taken[1])
	require.Equal(t, "SIZE = 5\n\n\ndef _all(x: int) -> int:\n    return SIZE * _twice(x).T\n\n\n@functools.partial(\n    jit\n)\ndef c() -> int:\n    return _all(1)", left[2])
	require.Equal(t, []string{"T", "_twice"}, taken[2])

	_, left, _ = Out([]string{file("4", "a"), file("4", "b")}, "SIZE")
	require.Contains(t, left[0], "SIZE = 4")
	require.Contains(t, left[0], "def _all(", "it uses what stays")
}

// A file takes from modules what they have alike, but not what uses a name that two of them define: each has its own.
func TestFrom(t *testing.T) {
	def := func(name, uses string) string { return "def " + name + "() -> int:\n    return " + uses }
	join := func(parts ...string) string { return strings.Join(parts, "\n\n\n") }
	common, base := join("N = 1", def("_x", "N"), def("_f", "2")), join("N = 2", def("_y", "_f()"), def("_z", "N"))
	left, taken := From([]string{common, base}, join("N = 2", def("_x", "N"), def("_f", "2"), def("_y", "_f()"), def("_z", "N"), def("_own", "_y()")))
	require.Equal(t, join("N = 2", def("_x", "N"), def("_z", "N"), def("_own", "_y()")), left)
	require.Equal(t, [][]string{{"_f"}, {"_y"}}, taken)
	left, _ = From([]string{common}, join("STEP = 3", def("_f", "3")))
	require.Equal(t, join("STEP = 3", def("_f", "3")), left)
}

// A comment and what is added to a name stay with its assignment.
func TestAdded(t *testing.T) {
	axes := "# T: tokens\nAXES = {\"q\": \"T\"}\nAXES |= {\"o\": \"T\"}"
	common, left, taken := Out([]string{axes + "\n\n\ndef f() -> int:\n    return AXES", axes + "\n\n\ndef g() -> int:\n    return AXES"})
	require.Equal(t, axes, common)
	require.Equal(t, "def f() -> int:\n    return AXES", left[0])
	require.Equal(t, []string{"AXES"}, taken[1])
}
