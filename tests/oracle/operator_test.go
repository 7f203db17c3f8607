package oracle

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/codegen/pallas"
	"github.com/gdngen/gdngen/codegen/route"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/internal/rotate"
)

// operatorRows are packages of mixed batches: widths that fill no registers, decay by channels, and kernels as a TPU takes them, with windows and
// without.
var operatorRows = []struct{ name, spec, variant string }{
	{"narrow", "t=60,hk=1,hv=2,k=16,v=24,dtype=f32,gates=fused,l2norm,negeig,seqs=5,packed,init,pool=7,read,mixed=1,conv=4,convbias,convstate,inplace,rows=qkv", "chunk=16"},
	{"kda", "t=60,hk=1,hv=1,k=128,v=128,dtype=f32,gates=fused,l2norm,seqs=5,packed,init,pool=7,read,mixed=1,conv=3,convstate,inplace,rows=qkv,rule=kda,bound=-5", "chunk=16,pack=visits,layout=bt_hd"},
	{"tpu", "t=90,hk=1,hv=2,k=128,v=128,dtype=bf16,gates=fused,gatedtype=bf16,l2norm,seqs=6,packed,init,pool=9,read,mixed=1,conv=4,convstate,inplace,rows=qkv", "tpu-packed,layout=bt_hd,chunk=32,mergepairs=0,chunks=2,hbm=yes"},
	{"windows", "t=80,hk=1,hv=2,k=128,v=128,dtype=bf16,statedtype=bf16,gates=fused,l2norm,seqs=5,packed,init,pool=24,read,mixed=3,conv=4,convrows=4,convbias,convstate,inplace,rows=qkv", "tpu-packed,layout=bt_hd,chunk=32,mergepairs=0,chunks=2,hbm=yes,prefetch=dma"},
}

// A package of mixed batches is clean by ruff, and its own tests pass: by kernels, interpreted, and in plain JAX ten random batches by one program against
// float64, with caches of the convolution to the bit; containment; what is skipped; and it lowers for a TPU. Rows rotate by commit.
func TestOperatorPackage(t *testing.T) {
	py := python(t)
	for _, row := range rotate.Sample(31, operatorRows, 1) {
		t.Run(row.name, func(t *testing.T) {
			s, err := gdn.Parse(row.spec)
			require.NoError(t, err)
			v, err := gdn.ParseVariant(row.variant)
			require.NoError(t, err)
			dir := writeOperator(t, s, v)
			lint(t, py, dir)
			runJAX(t, dir, absolute(t, py), "-m", "pytest", "-q", "-p", "no:cacheprovider")
		})
	}
}

// The modules of examples/jax that stand in for the operators of tokamax and tpu-inference agree with what those projects' own references gave
// (tests/peers/mixed.py), a hundredth of the limits of their tests; caches of the convolution to the bit.
func TestPeersModules(t *testing.T) {
	py := python(t)
	here, err := filepath.Abs(".")
	require.NoError(t, err)
	root := filepath.Join(here, "..", "..")
	lint(t, py, filepath.Join(root, "examples", "jax", "tokamax_gdn.py"))
	for _, window := range rotate.Sample(32, []string{"1", "5"}, 1) {
		t.Run(window, func(t *testing.T) {
			s, err := gdn.Parse("t=64,hk=1,hv=2,k=16,v=16,dtype=f32,gates=fused,l2norm,seqs=5,packed,init,read,conv=4,convbias,convstate,inplace,rows=qkv,pool=30,mixed=" + window)
			require.NoError(t, err)
			v, err := gdn.ParseVariant("chunk=16")
			require.NoError(t, err)
			dir := writeOperator(t, s, v)
			paths := []string{filepath.Join(dir, "src"), filepath.Join(root, "examples", "jax"), here}
			t.Setenv("PYTHONPATH", strings.Join(paths, string(os.PathListSeparator)))
			said := runJAX(t, here, absolute(t, py), "peers_run.py", filepath.Join(root, "tests", "fixtures", "peers", "mixed.safetensors"), window, "plain", "interpret")
			require.Contains(t, said, map[string]string{"1": "12", "5": "8"}[window]+" calls agree")
		})
	}
}

// writeOperator writes a package of mixed batches, gdnop, and gives its folder.
func writeOperator(t *testing.T, s gdn.Spec, v gdn.Variant) string {
	t.Helper()
	files, err := pallas.Operator("gdnop", s, v.Fit(s), route.Modules, pallas.Provenance{Version: "test"})
	require.NoError(t, err)
	dir := t.TempDir()
	for _, f := range files {
		writeFile(t, dir, f.Path, f.Text)
	}
	return dir
}

// A spec that is no operator's is refused with what it lacks.
func TestOperatorRefuses(t *testing.T) {
	s, err := gdn.Parse("t=40,hk=1,hv=2,k=16,seqs=5,packed,init,pool=7,read,mixed=1")
	require.NoError(t, err)
	_, err = pallas.Operator("gdnop", s, gdn.Variant{}, route.Modules, pallas.Provenance{})
	require.ErrorContains(t, err, "give gates=fused")
}
