package sizes

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// written is a program as a generator would write it at one size.
func written(s Size) []string {
	return []string{
		fmt.Sprintf("class Refs(NamedTuple):\n    q: Ref  # bf16[%d, 8]", 256*s.Steps),
		fmt.Sprintf("def _step(refs: Refs, place: int) -> None:\n    \"\"\"One of %d.\"\"\"\n    f(refs.q[%d - place], x_2[3], 1.5)", s.Steps+1, s.Steps-1),
		"def _idle(refs: Refs) -> None:\n    pass",
		fmt.Sprintf("def _cut(x: jax.Array) -> jax.Array:\n    return x[:%d, %d:, 1:%d, :%d]", s.Rows-1, 2*s.Rows, s.Rows+2, s.Rows+s.Steps-2),
		fmt.Sprintf("def _kernel(*args: Ref) -> None:\n    _step(refs, place=%d)\n    _idle(refs)", (s.Steps+2)%4),
		fmt.Sprintf("@functools.partial(jax.jit, static_argnames=\"interpret\")\ndef _run(x: jax.Array, *, interpret: bool) -> jax.Array:\n    return call(_kernel, grid=(%d, %d))(x.reshape(%d, %d), %d, %d)", s.Rows, s.Steps+2, 3*s.Rows*s.Steps, 4*s.Steps-s.Rows, s.Rows+s.Steps, 4*s.Steps-s.Rows+3),
		"def main(x: jax.Array) -> jax.Array:\n    return _run(x, interpret=False)",
	}
}

func at(l []Size) [][]string {
	var texts [][]string
	for _, s := range l {
		texts = append(texts, written(s))
	}
	return texts
}

// Formulas stand where integers differ, and sizes are handed on to those that use them.
func TestUnify(t *testing.T) {
	got, err := Unify(at(Probes), Probes)
	require.NoError(t, err)
	require.Equal(t, []string{
		"class Refs(NamedTuple):\n    q: Ref  # bf16[256 * steps, 8]",
		"def _step(refs: Refs, place: int, steps: int) -> None:\n    \"\"\"One of steps + 1.\"\"\"\n    f(refs.q[steps - 1 - place], x_2[3], 1.5)",
		"def _idle(refs: Refs) -> None:\n    pass",
		"def _cut(x: jax.Array, rows: int, steps: int) -> jax.Array:\n    return x[: rows - 1, 2 * rows :, 1 : rows + 2, : rows + steps - 2]",
		"def _kernel(*args: Ref, steps: int) -> None:\n    _step(refs, place=(steps + 2) % 4, steps=steps)\n    _idle(refs)",
		"@functools.partial(jax.jit, static_argnames=\"interpret\")\ndef _run(x: jax.Array, *, interpret: bool, rows: int, steps: int) -> jax.Array:\n    return call(functools.partial(_kernel, steps=steps), grid=(rows, steps + 2))(x.reshape(3 * rows * steps, 4 * steps - rows), rows + steps, 4 * steps - rows + 3)",
		"def main(x: jax.Array, rows: int, steps: int) -> jax.Array:\n    return _run(x, interpret=False, rows=rows, steps=steps)",
	}, got)
}

// Every term is found at the probes, and taken for no other.
func TestTerms(t *testing.T) {
	for _, probes := range [][]Size{Probes, Small} {
		for _, term := range terms {
			for _, c := range []struct{ a, b int }{{1, 0}, {1, 2}, {512, 0}, {3, -1}, {-1, 4}} {
				require.Equal(t, linear(c.a, term.text, c.b+1000000), found(t, probes, func(s Size) int { return c.a*term.of(s) + c.b + 1000000 }))
			}
		}
	}
}

// found is the formula of a value at some sizes.
func found(t *testing.T, probes []Size, value func(Size) int) string {
	t.Helper()
	var texts []string
	for _, s := range probes {
		texts = append(texts, fmt.Sprint(value(s)))
	}
	got, err := formula(texts, probes)
	require.NoError(t, err)
	return got
}

// Sums of rows and steps are found as such: none grows from probe to probe as the place in a ring does.
func TestSums(t *testing.T) {
	for _, probes := range [][]Size{Probes, Small} {
		for a := -9; a <= 9; a++ {
			for b := -9; b <= 9; b++ {
				require.NotContains(t, found(t, probes, func(s Size) int { return a*s.Rows + b*s.Steps + 1000 }), "%", "%d rows and %d steps", a, b)
			}
		}
	}
}

// The place in a ring of visits is that of rows and steps together, and of neither alone.
func TestRingOfSegments(t *testing.T) {
	for _, probes := range [][]Size{Probes, Small} {
		require.Equal(t, "(rows + steps + 3) % 4", found(t, probes, func(s Size) int { return (s.Rows + s.Steps + 3) % 4 }))
	}
}

// What differs otherwise than in integers that have a formula is refused.
func TestRefusals(t *testing.T) {
	for name, c := range map[string]struct {
		of   func(Size) string
		want string
	}{
		"a square":      {func(s Size) string { return fmt.Sprintf("def f() -> int:\n    return %d", s.Steps*s.Steps) }, "has no formula"},
		"another name":  {func(s Size) string { return fmt.Sprintf("def f() -> int:\n    return x_%d", s.Steps) }, "is no integer"},
		"more of them":  {func(s Size) string { return "def f() -> int:\n    return 0" + strings.Repeat(" + x", s.Rows) }, "tokens"},
		"another value": {func(s Size) string { return fmt.Sprintf("def f() -> int:\n    return %d.5", s.Rows) }, "is no integer"},
	} {
		var texts [][]string
		for _, s := range Probes {
			texts = append(texts, []string{c.of(s)})
		}
		_, err := Unify(texts, Probes)
		require.ErrorContains(t, err, c.want, name)
		require.ErrorContains(t, err, "function f", name)
	}
}

// Sizes that a function takes as one tuple have names where they are read.
func TestUnpack(t *testing.T) {
	for body, want := range map[string]string{"return f(steps)": "    _, steps, _ = sizes\n", "return rows, interpret": "    rows, _, interpret = sizes\n", "return 0": ""} {
		require.Equal(t, "def f(sizes):\n"+want+"    "+body, Unpack("def f(sizes):\n    "+Unpacked+"\n    "+body))
	}
}
