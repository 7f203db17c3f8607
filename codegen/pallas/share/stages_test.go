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

	types := "T = TypeVar(\"T\")\nWork = Generator[int, None, T]"
	got = Stages([]string{types + "\n\n\n" + a, b})
	require.True(t, strings.HasPrefix(got[1], types+"\n\n\n"+Runs), "what runs work names its types")
}

// Stages may call what they make differently, and give bits or none; rounds wait once.
func TestStagesOfOtherNames(t *testing.T) {
	head := "    \"\"\"Does it.\"\"\"\n    yield 20\n"
	a := "def _solve(masks: Tiles, x: Tiles, refs: _ARefs) -> Work[None]:\n" + head + "    ys = []\n    for h in range(4):\n        ys.append(x[h] & masks[h + 1])\n        yield 30\n        refs.y[h] = _finite(ys[h], 0x80)\n        yield 22\n\n\n" +
		"def _prepare(refs: _ARefs) -> Work[None]:\n    yield from _solve(masks, x, refs)"
	b := "def _solve(x: Tiles, parts: Tiles, refs: _BRefs) -> Work[None]:\n" + head + "    zs = []\n    for h in range(4):\n        zs.append(x[h] & parts[h + 1])\n        refs.y[h] = _finite(zs[h])\n        yield 25\n\n\n" +
		"def _prepare(refs: _BRefs) -> Work[None]:\n    yield from _solve(x, p, refs)"
	got := Stages([]string{a, b})
	text := `def _solve(masks: Tiles, x: Tiles, refs: Any, *, bits: int | None, waits: tuple[int, ...]) -> Work[None]:
    """Does it."""
    yield 20
    ys = []
    for h in range(4):
        ys.append(x[h] & masks[h + 1])
        refs.y[h] = _finite(ys[h], bits)
        yield waits[0]`
	require.Equal(t, text+"\n\n\ndef _prepare(refs: _ARefs) -> Work[None]:\n    yield from _solve(masks, x, refs, bits=0x80, waits=(52,))", got[0])
	require.Equal(t, text+"\n\n\ndef _prepare(refs: _BRefs) -> Work[None]:\n    yield from _solve(p, x, refs, bits=None, waits=(25,))", got[1])
}

// A stage that calls a part of itself is shared with its part: the waits of both come from the caller.
func TestStagesInPart(t *testing.T) {
	file := func(a, b string) string {
		return "def _leaf(x: Tiles) -> Work[None]:\n    \"\"\"Does it, in part.\"\"\"\n    for h in range(4):\n        x[h] = x[h] * x[h]\n        x[h] = x[h] + 1.5\n        yield " + a + "\n\n\n" +
			"def _leaf_2(x: Tiles, refs: _ARefs) -> Work[None]:\n    \"\"\"Does it.\"\"\"\n    y = x[2]\n    yield " + b + "\n    yield from _leaf(x)\n    z = y + x[1]\n    refs.y[0] = z * y\n\n\n" +
			"def _prepare(refs: _ARefs) -> Work[None]:\n    yield from _leaf_2(x, refs)"
	}
	got := Stages([]string{file("20", "30"), file("21", "31")})
	for i, waits := range []string{"30, 20", "31, 21"} {
		require.Contains(t, got[i], "def _leaf(x: Tiles, *, waits: tuple[int, ...]) -> Work[None]:")
		require.Contains(t, got[i], "yield from _leaf(x, waits=(waits[1],))")
		require.Contains(t, got[i], "yield from _leaf_2(x, refs, waits=("+waits+"))")
	}
	got = Stages([]string{file("20", "30"), file("20", "31")})
	require.Contains(t, got[0], "yield from _leaf(x)\n", "the part is the same in both")
	require.Contains(t, got[0], "def _leaf_2(x: Tiles, refs: Any, *, waits: tuple[int, ...]) -> Work[None]:")
	require.Contains(t, got[1], "yield from _leaf_2(x, refs, waits=(31,))")
}

// A call is no wait: a function is not given that of another.
func TestStagesCallOnce(t *testing.T) {
	file := func(call string) string {
		return "def _leaf(x: Tiles) -> Work[None]:\n    \"\"\"Does it.\"\"\"\n    yield 20\n    x[0] = x[1] * x[2]\n" + call + "    x[1] = x[2]\n    x[2] = x[3]\n\n\n" +
			"def _prepare(refs: _ARefs) -> Work[None]:\n    yield from _leaf(x)"
	}
	a, b := file("    yield from _store(x, 2)\n"), file("")
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
