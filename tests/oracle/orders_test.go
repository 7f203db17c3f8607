package oracle

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/codegen/pallas"
	"github.com/gdngen/gdngen/codegen/route"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/internal/rotate"
)

// tracedRows are small kernels whose steps overlap: in two phases and in three, of numbers and channels, and of sequences.
var tracedRows = []struct{ name, spec, variant string }{
	{"forward", "t=50,hk=1,hv=2,k=16,v=16,dtype=bf16,init", "chunk=16,phases_before=1,state_delay=6"},
	{"train", "t=20,hk=1,hv=1,k=16,v=16,dtype=bf16,init,direction=train", "chunk=8,phases_before=1,bwd.phases_before=1,bwd.phases_after=1"},
	{"kda", "t=40,hk=1,hv=2,k=16,v=16,dtype=bf16,init,rule=kda,bound=-5", "chunk=16,phases_before=2,prologue_end=80"},
	{"packed", "t=40,hk=1,hv=2,k=16,v=16,dtype=bf16,init,seqs=3", "chunk=16,phases_before=1"},
}

// Phases that are ordered while JAX traces them compute what they do one after another, to the bit. The file is clean by ruff. Rows rotate.
func TestTracedAlike(t *testing.T) {
	py := python(t)
	for _, row := range rotate.Sample(14, tracedRows, 1) {
		t.Run(row.name, func(t *testing.T) {
			dir := t.TempDir()
			for _, name := range []string{"traced.py", "turns.py"} {
				writeSource(t, filepath.Join(dir, name), row.spec, row.variant)
			}
			lint(t, py, dir)
			require.Contains(t, runJAX(t, dir, absolute(t, py), "-c", compareOrders), "alike")
		})
	}
}

// Kernels whose stages have parts that several share lower: in float32, and of few rows of keys.
func TestTracedLowers(t *testing.T) {
	py := python(t)
	for _, row := range rotate.Sample(15, []struct{ name, spec, variant string }{
		{"float32", "t=1024,hk=1,hv=2,k=128,v=128,dtype=f32,init", "tpu-x3"},
		{"narrow", "t=1024,hk=1,hv=2,k=64,v=64,dtype=bf16,init,direction=train", "tpu-train"},
	}, 1) {
		t.Run(row.name, func(t *testing.T) {
			dir := t.TempDir()
			writeSource(t, filepath.Join(dir, "traced.py"), row.spec, row.variant)
			require.Contains(t, runJAX(t, dir, absolute(t, py), "-c", lowerTraced), "kernels")
		})
	}
}

// writeSource writes the file of a spec by a variant.
func writeSource(t *testing.T, path, spec, variant string) {
	t.Helper()
	s, err := gdn.Parse(spec)
	require.NoError(t, err)
	v, err := gdn.ParseVariant(variant)
	require.NoError(t, err)
	text, err := pallas.Source(s, v, route.Modules, pallas.Provenance{Version: "test"})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
}

// lowerTraced lowers the function of a file for a TPU, and its gradient where the file has kernels for it.
const lowerTraced = `
import jax
import jax.numpy as jnp
import traced

rule = getattr(traced, traced.__all__[0])
x = {n: jax.ShapeDtypeStruct(s, traced.DTYPES.get(n, jnp.int32)) for n, s in traced.SHAPES.items()}


def loss(x):
    return sum(jnp.sum(y.astype(jnp.float32)) for y in rule(**x, interpret=False))


trains = any(n.startswith("_run_backward") for n in vars(traced))
for f in (loss, jax.grad(loss)) if trains else (loss,):
    text = jax.jit(f).trace(x).lower(lowering_platforms=("tpu",)).as_text()
    print(text.count("tpu_custom_call"), "kernels")
    assert "tpu_custom_call" in text
`

// compareOrders runs a file on the same inputs twice, once with the phases of a step in turn.
const compareOrders = `
import jax
import jax.numpy as jnp
import numpy as np
import traced
import turns

turns._interleave = lambda refs, _, *phases: [run(refs) for _, _, run in sorted(phases, key=lambda p: p[0])]
files = [vars(traced), vars(turns)]
shapes, dtypes = files[0]["SHAPES"], files[0]["DTYPES"]
random = np.random.default_rng(0)
x = {n: random.standard_normal(s) for n, s in shapes.items()}
for n in "qk":
    x[n] /= np.linalg.norm(x[n], axis=-1, keepdims=True)
x["g"], x["beta"] = -np.abs(x["g"]) / 4, 1 / (1 + np.exp(-x["beta"]))
x = {n: jnp.asarray(y, dtypes.get(n)) for n, y in x.items() if n != "cu_seqlens"}
tokens = x["q"].shape[1]
cu = {n: jnp.asarray(np.linspace(0, tokens, s[0]), jnp.int32) for n, s in shapes.items() if n == "cu_seqlens"}
kept = any(n.startswith("_run_backward") for n in files[0])
results = []
for f in files:
    rule = lambda x: f[f["__all__"][0]](**x, **cu, interpret=True)
    if kept:
        y, back = jax.vjp(rule, x)
        results.append((y, back(jax.tree.map(jnp.ones_like, y))))
    else:
        results.append(rule(x))
for a, b in zip(*map(jax.tree.leaves, results), strict=True):
    assert np.isfinite(np.asarray(a, np.float32)).all() and np.asarray(a, np.float32).any()
    np.testing.assert_array_equal(np.asarray(a, np.float32), np.asarray(b, np.float32))
print("alike")
`
