package oracle

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/gdn"
)

// rowsInLine compares batch rows that follow one another, on one core and on two, with each row by itself.
const rowsInLine = `
import jax
import jax.numpy as jnp
import gated_delta_rule as kernels
import numpy as np

for kind, rows, tokens in (("cpu", 3, 150), ("cpu", 2, 64), ("cpu", 3, 40), ("TPU v4", 4, 150), ("TPU v5p", 3, 128)):
    kernels._kind = lambda: kind
    jax.clear_caches()
    random = np.random.default_rng(0)
    sizes = dict(B=rows, T=tokens, Q=kernels.HEADS_K, H=kernels.HEADS_V, K=kernels.WIDTH_K, V=kernels.WIDTH_V)
    x = {n: random.standard_normal([sizes[a] for a in kernels.AXES[n]]) / 8 for n in kernels.DTYPES}
    x["g"], x["beta"] = -np.abs(x["g"]), np.abs(x["beta"])
    x = {n: jnp.asarray(y, kernels.DTYPES[n]) for n, y in x.items()}
    rule = jax.jit(lambda x: kernels.gated_delta_rule(**x, interpret=True))
    got = rule(x)
    for i in range(rows):
        one = rule({n: y[i : i + 1] for n, y in x.items()})
        for y, w in zip(got, one, strict=True):
            np.testing.assert_array_equal(y[i : i + 1], w, err_msg=f"{kind}, row {i} of {rows} x {tokens}")
`

// Batch rows that follow one another in a program of a file give what each gives by itself, to the bit: rows that end within a step, rows of one
// step and of less, and rows shared by two cores.
func TestRowsInLine(t *testing.T) {
	py := python(t)
	s, err := gdn.Parse("t=150,hk=1,hv=2,k=128,v=128,dtype=bf16,init")
	require.NoError(t, err)
	v, err := gdn.ParseVariant("tpu-long,chunk=32,mergepairs=0,chunks=2")
	require.NoError(t, err)
	path := writePallas(t, s, v)
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Contains(t, string(text), "lags=([0, 0, 1, 0, 0, 1], [1, 1])")
	runJAX(t, filepath.Dir(path), absolute(t, py), "-c", rowsInLine)
}
