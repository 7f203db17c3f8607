package share

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Stages that differ in waits, in numbers that grow with the heads, in what they keep and store are one function, whose callers say what
// they are for. What works alone runs the work of others.
func TestStages(t *testing.T) {
	head := "    \"\"\"Does it: x 4 x f32[8, 128].\"\"\"\n"
	a := "def _solve(x: Tiles, refs: _ARefs, place: int) -> Work[None]:\n" + head + "    yield 20\n    for h in range(4):\n        y = _dot(x[h], x[h])\n        yield 30\n        refs.y[2 * h, place] = y\n        refs.z[h] = x[8]\n\n\n" +
		"def _prepare(refs: _ARefs) -> Work[None]:\n    yield from _solve(x, refs, place)"
	b := "def _solve(x: Tiles) -> Tiles:\n" + head + "    ys = []\n    for h in range(2):\n        ys.append(_dot(x[h], x[h]))\n    return ys\n\n\ndef _kernel(refs: _BRefs) -> None:\n    ys_2 = _solve(x)"
	require.Equal(t, []string{a, b}, Stages([]string{a, b}), "one stores a value that has no name")

	a = strings.Replace(a, "\n        refs.z[h] = x[8]", "", 1)
	got := Stages([]string{a, b})
	text := `def _solve(x: Tiles, refs: Any = None, place: int = 0, *, count: int, waits: tuple[int, ...]) -> Work[Tiles]:
    """Does it."""
    yield waits[0]
    ys = []
    for h in range(count):
        y = _dot(x[h], x[h])
        yield waits[1]
        ys.append(y)
        if refs is not None:
            refs.y[2 * h, place] = y
    return ys`
	require.Equal(t, text+"\n\n\ndef _prepare(refs: _ARefs) -> Work[None]:\n    yield from _solve(x, refs, place, count=4, waits=(20, 30))", got[0])
	require.Equal(t, Runs+"\n\n\n"+text+"\n\n\ndef _kernel(refs: _BRefs) -> None:\n    ys_2 = _run(_solve(x, count=2, waits=(0,) * 2))", got[1])
}
