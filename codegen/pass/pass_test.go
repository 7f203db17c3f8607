package pass

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/gdngen/gdngen/internal/irtest"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/array"
	"github.com/gdngen/gdngen/ir/interp"
	"github.com/stretchr/testify/require"
)

// equal compares bits, any NaN being equal to any other.
func equal(t *testing.T, want, got *array.Array, msg string) {
	require.Equal(t, want.IRType().String(), got.IRType().String(), msg)
	if bytes.Equal(want.Data, got.Data) {
		return
	}
	w, g := want.Float64s(), got.Float64s()
	n := want.Type.Bytes()
	for i := range w {
		if w[i] != w[i] && g[i] != g[i] {
			continue
		}
		require.Equal(t, want.Data[i*n:(i+1)*n], got.Data[i*n:(i+1)*n], "%s: element %d: %v, want %v", msg, i, g[i], w[i])
	}
}

// Every pass that promises the same bits keeps them on random programs, keeps its input as it was, and alone changes
// nothing the second time.
func TestPassesKeepBits(t *testing.T) {
	for _, names := range [][]string{{"fold"}, {"cse"}, {"dce"}, {"precision"}, {"moves", "dce"}, {"precision", "fold", "cse", "dce"}} {
		for seed := range uint64(60) {
			m, args := irtest.Program(t, seed, 50)
			text := m.String()
			n, err := Apply(m, names...)
			require.NoError(t, err, "seed %d", seed)
			require.Equal(t, text, m.String())
			want, err := interp.Run(m, args, interp.Options{})
			require.NoError(t, err)
			got, err := interp.Run(n, args, interp.Options{})
			require.NoError(t, err)
			for k := range want {
				equal(t, want[k], got[k], fmt.Sprintf("%v seed %d %s\n%s\n%s", names, seed, k, m, n))
			}
			if len(names) > 1 {
				continue // cse makes operands equal, which gives fold more to do
			}
			again, err := Apply(n, names...)
			require.NoError(t, err)
			require.Equal(t, n.String(), again.String(), "%v seed %d is not idempotent", names, seed)
		}
	}
}

func TestApplyFaults(t *testing.T) {
	m, _ := irtest.Program(t, 1, 10)
	_, err := Apply(m, "nonsense")
	require.ErrorContains(t, err, `unknown pass "nonsense" (known: `)
	_, err = Apply(m, "dce", "cse")
	require.ErrorContains(t, err, "pass dce must come after cse")
	m.Body.Yield[0] = &ir.Value{}
	_, err = Apply(m, "dce")
	require.ErrorContains(t, err, "before the first pass")
}

// Constraints name passes that exist, every pass has one, and all pipelines of the program keep them.
func TestConstraints(t *testing.T) {
	bound := map[string]bool{}
	for _, c := range constraints {
		for _, name := range []string{c.first, c.then} {
			_, err := Find(name)
			require.NoError(t, err)
			bound[name] = true
		}
		require.NotEmpty(t, c.why)
	}
	for _, p := range Table {
		require.NotEmpty(t, p.Doc, p.Name)
		require.True(t, bound[p.Name], "%s may stand anywhere?", p.Name)
	}
	for names, want := range map[string]string{
		"precision fold cse dce tile cse dce pipeline": "",
		"batch moves fold cse dce":                     "",
		"pipeline tile":                                "pass pipeline must come after tile: a schedule is one of kernels",
		"tile precision":                               "pass tile must come after precision",
		"tile pipeline cse":                            "pass pipeline must come after cse",
		"cse tile pipeline cse":                        "pass pipeline must come after cse",
		"tile batch":                                   "passes batch and tile are not for one module",
		"batch tile":                                   "passes batch and tile are not for one module",
		"dce cse dce":                                  "pass dce must come after cse",
		"cse dce cse":                                  "",
	} {
		list, err := strings.Fields(names), error(nil)
		for i := range list {
			if err = ordered(list, i); err != nil {
				break
			}
		}
		if want == "" {
			require.NoError(t, err, names)
		} else {
			require.ErrorContains(t, err, want, names)
		}
	}
	m, _ := irtest.Program(t, 1, 10)
	_, err := Apply(m, "pipeline", "tile")
	require.ErrorContains(t, err, "before it there is nothing to order")
}
