package pytext

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A statement that is longer than a line is split at its last brackets that leave room before them; what has none is put in some.
func TestSplit(t *testing.T) {
	long := func(c string) string { return strings.Repeat(c, 34) }
	a, b, c := long("a"), long("b"), long("c")
	for body, want := range map[string][]string{
		"x = f(" + a + ", " + b + ", " + c + ")":                   {"x = f(", "    " + a + ", " + b + ",", "    " + c, ")"},
		"x = f(" + a + ", out=" + b + ", to=" + c + ")":            {"x = f(", "    " + a + ",", "    out=" + b + ",", "    to=" + c + ",", ")"},
		"x = f([" + a + " + g(" + b + ", 1) * " + c + "])":         {"x = f(", "    [", "        " + a, "        + g(" + b + ", 1) * " + c, "    ]", ")"},
		"x = [f(" + a + ", " + b + ") for i in range(2) if i > 0]": {"x = [", "    f(" + a + ", " + b + ")", "    for i in range(2)", "    if i > 0", "]"},
		"return " + a + ", " + b + ", " + c:                        {"return (", "    " + a + ", " + b + ",", "    " + c, ")"},
		a + ", " + b + ", " + c + " = f(x)":                        {"(", "    " + a + ", " + b + ",", "    " + c, ") = f(x)"},
		"def f(x: " + a + ", y: " + b + ") -> " + c + ":":          {"def f(", "    x: " + a + ", y: " + b, ") -> " + c + ":"},
		"def " + a + "() -> t[" + b + ", " + c + "]:":              {"def " + a + "() -> t[", "    " + b + ", " + c, "]:"},
		"f(lambda x, y: (" + a + ", " + b + ", " + c + "))":        {"f(", "    lambda x, y: (", "        " + a + ", " + b + ",", "        " + c, "    )", ")"},
		"f(" + a + " + " + b + ", out=1)":                          {"f(" + a + " + " + b + ", out=1)"},
		"x = " + a + "  # " + b + c:                                {"# " + b + c, "x = " + a},
	} {
		require.Equal(t, want, split(body, 0, 0), body)
	}
}

// No line is longer for the comma behind it.
func TestRoomForComma(t *testing.T) {
	operand := strings.Repeat("a", 40) + " + " + strings.Repeat("b", 41)
	require.Equal(t, []string{"f(", "    " + operand[:40], "    " + operand[41:] + ",", "    out=1,", ")"}, split("f("+operand+", out=1)", 0, 0))
}

// Lists of nothing take as few lines as fit them; a name that fills a line has it to itself.
func TestEmptyLists(t *testing.T) {
	long := func(c string) string { return strings.Repeat(c, 36) }
	targets, lists := EmptyLists([]string{long("a"), "b", long("c"), "d"}, 84)
	require.Equal(t, []string{long("a") + ", b", long("c") + ", d"}, targets)
	require.Equal(t, []string{"[], []", "[], []"}, lists)
}
