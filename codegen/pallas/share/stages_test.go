package share

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Stages that differ in numbers that grow with the heads, in what they keep and store are one function, whose callers say what they are for.
func TestStages(t *testing.T) {
	head := "    \"\"\"Does it: x 4 x f32[8, 128].\"\"\"\n"
	a := "def _solve(x: Tiles, refs: _ARefs, place: int) -> None:\n" + head + "    x = [x_2 * 1.5 for x_2 in x]\n    for h in range(4):\n        y = _dot(x[h], x[h])\n        refs.y[2 * h, place] = y\n        refs.z[h] = x[8]\n\n\n" +
		"def _prepare(refs: _ARefs) -> None:\n    _solve(x, refs, place)"
	b := "def _solve(x: Tiles) -> Tiles:\n" + head + "    x = [x_2 * 1.5 for x_2 in x]\n    ys = []\n    for h in range(2):\n        ys.append(_dot(x[h], x[h]))\n    return ys\n\n\ndef _kernel(refs: _BRefs) -> None:\n    ys_2 = _solve(x)"
	require.Equal(t, []string{a, b}, Stages([]string{a, b}), "one stores a value that has no name")

	a = strings.Replace(a, "\n        refs.z[h] = x[8]", "", 1)
	got := Stages([]string{a, b})
	text := `def _solve(x: Tiles, refs: Any = None, place: int = 0, *, count: int) -> Tiles:
    """Does it."""
    x = [x_2 * 1.5 for x_2 in x]
    ys = []
    for h in range(count):
        y = _dot(x[h], x[h])
        ys.append(y)
        if refs is not None:
            refs.y[2 * h, place] = y
    return ys`
	require.Equal(t, text+"\n\n\ndef _prepare(refs: _ARefs) -> None:\n    _solve(x, refs, place, count=4)", got[0])
	require.Equal(t, text+"\n\n\ndef _kernel(refs: _BRefs) -> None:\n    ys_2 = _solve(x, count=2)", got[1])
}

// Stages may call what they make differently, and give bits or none.
func TestStagesOfOtherNames(t *testing.T) {
	head := "    \"\"\"Does it.\"\"\"\n"
	a := "def _solve(masks: Tiles, x: Tiles, refs: _ARefs) -> None:\n" + head + "    ys = []\n    for h in range(4):\n        ys.append(x[h] & masks[h + 1])\n        refs.y[h] = _finite(ys[h], 0x80)\n\n\n" +
		"def _prepare(refs: _ARefs) -> None:\n    _solve(masks, x, refs)"
	b := "def _solve(x: Tiles, parts: Tiles, refs: _BRefs) -> None:\n" + head + "    zs = []\n    for h in range(4):\n        zs.append(x[h] & parts[h + 1])\n        refs.y[h] = _finite(zs[h])\n\n\n" +
		"def _prepare(refs: _BRefs) -> None:\n    _solve(x, p, refs)"
	got := Stages([]string{a, b})
	text := `def _solve(masks: Tiles, x: Tiles, refs: Any, *, bits: int | None) -> None:
    """Does it."""
    ys = []
    for h in range(4):
        ys.append(x[h] & masks[h + 1])
        refs.y[h] = _finite(ys[h], bits)`
	require.Equal(t, text+"\n\n\ndef _prepare(refs: _ARefs) -> None:\n    _solve(masks, x, refs, bits=0x80)", got[0])
	require.Equal(t, text+"\n\n\ndef _prepare(refs: _BRefs) -> None:\n    _solve(p, x, refs, bits=None)", got[1])
}

// A stage that calls a part of itself is shared with its part: the numbers of both come from the caller.
func TestStagesInPart(t *testing.T) {
	file := func(n string) string {
		return "def _leaf(x: Tiles) -> None:\n    \"\"\"Does it, in part.\"\"\"\n    for h in range(" + n + "):\n        x[h] = x[h] * x[h]\n        x[h] = x[h] + 1.5\n        x[h] = x[h] - 2.5\n\n\n" +
			"def _leaf_2(x: Tiles, refs: _ARefs) -> None:\n    \"\"\"Does it.\"\"\"\n    y = x[2]\n    _leaf(x)\n    z = y + x[1]\n    refs.y[0] = z * y\n\n\n" +
			"def _prepare(refs: _ARefs) -> None:\n    _leaf_2(x, refs)"
	}
	got := Stages([]string{file("4"), file("8")})
	for i, count := range []string{"4", "8"} {
		require.Contains(t, got[i], "def _leaf(x: Tiles, *, count: int) -> None:")
		require.Contains(t, got[i], "    _leaf(x, count=count)\n")
		require.Contains(t, got[i], "    _leaf_2(x, refs, count="+count+")")
	}
}

// A function is not given a call of another.
func TestStagesCallOnce(t *testing.T) {
	file := func(call string) string {
		return "def _leaf(x: Tiles) -> None:\n    \"\"\"Does it.\"\"\"\n    x[0] = x[1] * x[2]\n" + call + "    x[1] = x[2]\n    x[2] = x[3]\n\n\n" +
			"def _prepare(refs: _ARefs) -> None:\n    _leaf(x)"
	}
	a, b := file("    _store(x, 2)\n"), file("")
	require.Equal(t, []string{a, b}, Stages([]string{a, b}))
}

// Numbers of which one is none have no common base.
func TestStagesWithoutBase(t *testing.T) {
	file := func(n, m string) string {
		return "def _leaf(x: Tiles) -> Tiles:\n    \"\"\"Does it.\"\"\"\n    y = x[" + n + "]\n    z = x[" + m + "]\n    y = y + z\n    return y\n\n\ndef _prepare(refs: _ARefs) -> None:\n    y = _leaf(x)"
	}
	a, b := file("0", "4"), file("2", "8")
	require.Equal(t, []string{a, b}, Stages([]string{a, b}))
}
