package python

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// sound is in all forms that generated files are written in.
const sound = `"""Text."""

import functools
import jax.numpy as jnp
from typing import NamedTuple, TypeVar

__all__ = ["rule"]
T = TypeVar("T")
A, B = 1, 2.5e-3  # a comment with ( a bracket
TOKEN = {name: axes.replace("T", "") for name, axes in {"q": "BT"}.items()}
TOKEN |= {**TOKEN, "state": f"{A:.1e} {{x}} {TOKEN['q']!r}"}
total: int = 0
hinted: dict[str, int]


class Refs(NamedTuple):
    """Windows."""

    q: int  # f32[8]
    k: int = 3

    @property
    def both(self) -> int:
        return self.q + self.k


@functools.partial(jnp.jit, static_argnums=0)
def rule(refs: Refs, *args: int, keep: bool = False, **options: int) -> tuple[int, int]:
    """Does it."""
    global total
    total += refs.q if keep else -refs.both
    x = [0] * 16
    x[1:], (y, *rest) = x[:1, ..., ::2], args

    def inner(i: int) -> None:
        nonlocal y
        y = i
        if (n := later(i)) is not None and not n:
            return
        yield from x

    for i, _ in enumerate(x):
        if i > 0:
            print(z)
        z = lambda a, b=i: a ** b
    else:
        pass
    while True:
        try:
            next(inner(1))
        except (StopIteration, ValueError) as end:
            raise SystemExit(end.value) from end
        finally:
            assert y, "text" "more"
            del y
    with open("x", mode="w") as f, jnp.one():
        f.write("\n")
    return Refs(1, k=2), sum(a for a in rest if a)


def later(
    i,
):
    return {i, 0x7F} - {i} if i in (1,) else rule(Refs(0), 1, 2, keep=True, other=3)


run = functools.partial(rule, keep=True)
run(*[1], **{})
`

func TestSound(t *testing.T) {
	require.NoError(t, Check(map[string]string{"a.py": "def f(i):\n    return i\n", "README.md": "as = 1"}))
	require.NoError(t, Check(map[string]string{"src/p/a.py": sound}))
	require.NoError(t, Check(map[string]string{
		"src/p/__init__.py": "from p import a\nfrom p.a import run as go\n\ngo(1)\na.rule(a.Refs(1), keep=False)\n", "src/p/a.py": sound, "tests/test_a.py": "import p\nfrom p import go\n\ngo(p)\n"}))
}

// Imports may count from the module that they are in.
func TestRelative(t *testing.T) {
	files := map[string]string{"src/p/__init__.py": "from .a import f\n\nf(1)\n", "src/p/a.py": "from . import b\n\n\ndef f(x):\n    return b.g(x)\n", "src/p/b.py": "def g(x):\n    return x\n"}
	require.NoError(t, Check(files))
	files["src/p/a.py"] = "from .b import h\n\n\ndef f(x):\n    return h(x)\n"
	require.ErrorContains(t, Check(files), "src/p/a.py, line 1: p.b has no h")
	require.ErrorContains(t, Check(map[string]string{"src/p/a.py": "from ...q import h\n"}), "beyond the package")
}

// Each fault is found, named with its line, and alone.
func TestFaults(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"a keyword":            {"as = [x for x in ()]", "line 1: as is a keyword, and no name"},
		"one as a parameter":   {"def f(in): pass", "line 1: in is a keyword, and no name"},
		"one as an argument":   {"dict(as=1)", "line 1: as is a keyword, and no name"},
		"a name":               {"def f(a):\n    a[0] = xs[1]", "line 2: nothing sets xs"},
		"a name too early":     {"def f(a):\n    b = a + c\n    c = b\n    return c", "line 2: c is read before it is set"},
		"a decorator's":        {"@g\ndef f(): pass\ndef g(x): return x", "line 1: g is read before it is set"},
		"one of another scope": {"def f():\n    x = 1\ndef g():\n    return x", "line 4: nothing sets x"},
		"of a comprehension":   {"y = [i for i in (1,)]\nprint(i)", "line 2: nothing sets i"},
		"in a string":          {"a = 1\nprint(f\"{a} {b:>3} {{c}}\")", "line 2: nothing sets b"},
		"an argument less":     {"def f(a, *, waits): pass\nf(1)", "line 2: f is called without waits"},
		"a place less":         {"def f(a, b): pass\nf(1)", "line 2: f is called without b"},
		"an argument more":     {"def f(a): pass\nf(1, 2)", "line 2: f is called with too many arguments"},
		"one by another name":  {"def f(a): pass\nf(1, c=2)", "line 2: f is called with c, which it does not take"},
		"one twice":            {"def f(a): pass\nf(1, a=2)", "line 2: f is called with a twice"},
		"in part":              {"import functools\ndef f(a, b): pass\nfunctools.partial(f, 1, c=2)", "line 3: f is called with c, which it does not take"},
		"fields of a tuple":    {"from typing import NamedTuple\nclass R(NamedTuple):\n    a: int\n    b: int = 1\nR(b=2)", "line 5: R is called without a"},
		"a field":              {"from typing import NamedTuple\nclass R(NamedTuple):\n    a: int\ndef f(r: R): return r.b", "line 4: r has no field b"},
		"a name to give":       {"__all__ = [\"f\", \"g\"]\ndef f(): pass", "line 1: __all__ has g, which nothing sets"},
		"a bracket":            {"f = (1,\n", "a bracket is not closed"},
		"a string":             {"f = \"x\n", "line 1: a string does not end"},
		"a block":              {"def f():\nx = 1", "line 2: a block has no statement"},
		"an indent":            {"if True:\n        x = 1\n    y = 2", "line 3: the line stands in no block"},
		"half a statement":     {"x = 1 +", "line 1: an expression is not complete"},
		"two statements":       {"x = 1 2", "line 1: \"2\" behind a statement"},
		"a sign":               {"x = 1 ? 2", "line 1: \"?\" is no sign of Python"},
		"what can not be set":  {"f() = 1\ndef f(): pass", "what is set is no name"},
	} {
		t.Run(name, func(t *testing.T) {
			err := Check(map[string]string{"a.py": c.text + "\n"})
			require.ErrorContains(t, err, "a.py, ")
			require.ErrorContains(t, err, c.want)
			require.NotContains(t, err.Error(), ";", "one fault")
		})
	}
}

// Faults between files are found: names and arguments are those of the file that has them.
func TestAcross(t *testing.T) {
	common := "def f(a, *, waits): pass\n"
	for text, want := range map[string]string{
		"from p.common import f, g\nf(1, waits=2)\n": "src/p/b.py, line 1: p.common has no g",
		"from p.common import f\nf(1)\n":             "src/p/b.py, line 2: f is called without waits",
		"from p import common\ncommon.f(1)\n":        "src/p/b.py, line 2: f is called without waits",
		"from p import common\ncommon.g(1)\n":        "src/p/b.py, line 2: p.common has no g",
	} {
		require.EqualError(t, Check(map[string]string{"src/p/__init__.py": "", "src/p/common.py": common, "src/p/b.py": text}), want)
	}
	require.EqualError(t, Check(map[string]string{"a.py": "a\nb\nc\nd\ne\n"}), "a.py, line 1: nothing sets a; a.py, line 2: nothing sets b; a.py, line 3: nothing sets c; and 2 more")
}
