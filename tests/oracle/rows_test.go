package oracle

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/gdn"
)

// rowsInLine compares batch rows that follow one another, on devices of one core and of two, with each row by itself. Two cores share an even number
// of rows, and take each of an odd one as a program. A v5p whose cores are devices of their own has one.
const rowsInLine = `
import types

import jax
import jax.numpy as jnp
import gated_delta_rule as kernels
import numpy as np

ALL = ((None, 3, 150, False, 1), (None, 2, 40, True, 1), (2, 4, 150, False, 2), (2, 3, 128, False, 3), (1, 4, 40, False, 1))
mesh = jax.sharding.get_abstract_mesh
for cores, rows, tokens, x64, programs in ALL[:most]:
    device = cores and jax.sharding.AbstractDevice("TPU v5p", cores, "tpu")
    jax.sharding.get_abstract_mesh = lambda: types.SimpleNamespace(abstract_device=device)
    assert kernels._cores() == (cores or 1)
    jax.clear_caches()
    grids, call = [], kernels.pl.pallas_call
    with jax.enable_x64(x64):
        random = np.random.default_rng(0)
        sizes = dict(B=rows, T=tokens, Q=kernels.HEADS_K, H=kernels.HEADS_V, K=kernels.WIDTH_K, V=kernels.WIDTH_V)
        x = {n: random.standard_normal([sizes[a] for a in kernels.AXES[n]]) / 8 for n in kernels.DTYPES}
        if "g" in x:
            x["g"], x["beta"] = -np.abs(x["g"]), np.abs(x["beta"])
        x = {n: jnp.asarray(y, kernels.DTYPES[n]) for n, y in x.items()}
        rule = jax.jit(lambda x: kernels.gated_delta_rule(**x, interpret=True))
        kernels.pl.pallas_call = lambda *args, grid, **options: (grids.append(grid[0]), call(*args, grid=grid, **options))[1]
        got = jax.tree.leaves(rule(x))
        kernels.pl.pallas_call = call
        assert set(grids) == {programs}, (cores, grids)
        for i in range(rows):
            one = jax.tree.leaves(rule({n: y[i : i + 1] if "B" in kernels.AXES[n] else y for n, y in x.items()}))
            for y, w in zip(got, one, strict=True):
                np.testing.assert_array_equal(y[i : i + 1], w, err_msg=f"{cores} cores, row {i} of {rows} x {tokens}")
`

// Batch rows that follow one another in a program of a file give what each gives by itself, to the bit: rows that end within a step, rows of less
// than one, and rows shared by two cores; raw gates, which are of all rows, and a kernel with one result.
func TestRowsInLine(t *testing.T) {
	py := python(t)
	for fields, lags := range map[string]string{
		"init":             "lags=([0, 0, 1, 0, 0, 1], [1, 1])",
		"final=false":      "lags=([0, 0, 1, 0, 0, 1], 1)",
		"init,gates=fused": "lags=([0, 0, 1, 0, 0, 0, 1], [1, 1])",
	} {
		t.Run(fields, func(t *testing.T) {
			s, err := gdn.Parse("t=150,hk=1,hv=2,k=128,v=128,dtype=bf16," + fields)
			require.NoError(t, err)
			v, err := gdn.ParseVariant("tpu-long,chunk=32,mergepairs=0,chunks=2")
			require.NoError(t, err)
			path := writePallas(t, s, v)
			text, err := os.ReadFile(path)
			require.NoError(t, err)
			require.Contains(t, string(text), lags)
			most := 1
			if fields == "init" {
				most = 5
			}
			runJAX(t, filepath.Dir(path), absolute(t, py), "-c", fmt.Sprintf("most = %d\n", most)+rowsInLine)
		})
	}
}
