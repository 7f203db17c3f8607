package contest

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/autotune/flashinfer"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/pjrt/gpu"
	"github.com/gdngen/gdngen/pjrt/plugins"
)

// written writes a package of definitions into a new folder.
func written(t *testing.T, changes string, names ...string) string {
	t.Helper()
	var list []*flashinfer.Definition
	for _, name := range names {
		d, err := flashinfer.Named(name)
		require.NoError(t, err)
		list = append(list, d)
	}
	files, err := Package(list, changes, "vX")
	require.NoError(t, err)
	again, err := Package(list, changes, "vX")
	require.NoError(t, err)
	require.Equal(t, files, again)
	dir := t.TempDir()
	for _, f := range files {
		at := filepath.Join(dir, filepath.FromSlash(f.Path))
		require.NoError(t, os.MkdirAll(filepath.Dir(at), 0o755))
		require.NoError(t, os.WriteFile(at, []byte(f.Text), 0o644))
	}
	return dir
}

// runPython runs a script of a package with Triton, which is obtained where it is not in the cache. Where it can not be had the test is skipped and
// says why, but never in CI.
func runPython(t *testing.T, dir string, args ...string) string {
	t.Helper()
	k, err := gpu.Open(t.Context(), plugins.Options{Progress: os.Stderr})
	if err != nil && os.Getenv("CI") == "" {
		t.Skipf("not tested: %v", err)
	}
	require.NoError(t, err)
	cmd := k.Command(t.Context(), args...)
	cmd.Dir = dir
	cmd.Env = append(cmd.Env, "PYTHONDONTWRITEBYTECODE=1", "TRITON_CACHE_DIR="+t.TempDir(), "OMP_NUM_THREADS=1", "OPENBLAS_NUM_THREADS=1")
	text, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", text)
	return string(text)
}

// Each of the contest's 154 workloads is taken by the solutions of its definition, with and without a state: arguments of its shapes and types,
// launches within the limits of a grid.
func TestPackageWorkloads(t *testing.T) {
	t.Parallel()
	dir := written(t, "", flashinfer.ContestDecode, flashinfer.ContestPrefill)
	for name, count := range map[string]int{flashinfer.ContestDecode: 1, flashinfer.ContestPrefill: 2} {
		files, err := filepath.Glob(filepath.Join(dir, "solutions", "gdngen", "gdn", name, "*.json"))
		require.NoError(t, err)
		require.Len(t, files, count)
		d, err := flashinfer.Named(name)
		require.NoError(t, err)
		for _, f := range files {
			text, err := os.ReadFile(f)
			require.NoError(t, err)
			sol, err := flashinfer.ParseSolution(text)
			require.NoError(t, err)
			require.Equal(t, "triton", sol.Spec.Language)
			require.True(t, sol.Spec.DestinationLast)
			require.NoError(t, checkEntry(sol, d))
		}
	}
	runPython(t, dir, "launches.py", "--json", "launches.json")
	text, err := os.ReadFile(filepath.Join(dir, "launches.json"))
	require.NoError(t, err)
	var got struct {
		Calls []struct {
			Definition, UUID string
			Axes             map[string]int
			Launches         []struct {
				Kernel, Module  string
				Programs, Warps int
			}
		}
	}
	require.NoError(t, json.Unmarshal(text, &got))
	require.Len(t, got.Calls, 2*54+2*2*100)
	seen := map[string]bool{}
	for _, c := range got.Calls {
		seen[c.UUID] = true
		require.NotEmpty(t, c.Launches)
		for _, l := range c.Launches {
			require.Positive(t, l.Programs)
			switch l.Kernel {
			case "decode":
				tile := 8
				if c.Axes["batch_size"] == 1 {
					tile = 4
				}
				require.Equal(t, c.Axes["batch_size"]*8*128/tile, l.Programs)
			case "prepare":
				require.GreaterOrEqual(t, l.Programs, (c.Axes["total_seq_len"]+63)/64*8)
			}
		}
	}
	require.Len(t, seen, 154)
}

// The tests of a package pass, and its benchmark finds no element wrong on random keys, whatever the variant: in both layouts, of heads that are
// narrow enough for the interpreter.
func TestPackageComputes(t *testing.T) {
	t.Parallel()
	other := written(t, "prec=tf32", "gdn_decode_qk1_v2_d16_v_last", "gdn_prefill_qk1_v2_d48_v_last")
	require.Contains(t, runPython(t, other, "-m", "unittest", "test_kernels.Rule.test_calls"), "OK")
	dir := written(t, "", "gdn_decode_qk1_v2_d16_k_last", "gdn_prefill_qk1_v1_d32_k_last")
	require.Contains(t, runPython(t, dir, "-m", "unittest"), "OK")
	runPython(t, dir, "benchmark.py", "--cpu", "--kind", "random", "--json", "figures.json")
	text, err := os.ReadFile(filepath.Join(dir, "figures.json"))
	require.NoError(t, err)
	var got struct {
		Errors []struct {
			Definition, Entry, Output, Failed string
			Error                             float64
			Wrong                             int
		}
	}
	require.NoError(t, json.Unmarshal(text, &got))
	entries := map[string]bool{}
	for _, row := range got.Errors {
		require.Empty(t, row.Failed, row.Entry)
		require.Zero(t, row.Wrong, "%+v", row)
		entries[row.Entry] = true
	}
	require.Greater(t, len(entries), 15)
}

// A fault of a kernel fails the tests of a package.
func TestPackageFault(t *testing.T) {
	t.Parallel()
	dir := written(t, "", "gdn_decode_qk1_v1_d16_k_last")
	path := filepath.Join(dir, "kernels", "gdn_decode_qk1_v1_d16_k_last_gdngen_f32", "few.py")
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	faulty := strings.Replace(string(text), "S *= tl.exp(log_decay)", "S *= tl.exp(1.1 * log_decay)", 1)
	require.NotEqual(t, string(text), faulty)
	require.NoError(t, os.WriteFile(path, []byte(faulty), 0o644))
	k, err := gpu.Open(t.Context(), plugins.Options{Progress: os.Stderr})
	if err != nil && os.Getenv("CI") == "" {
		t.Skipf("not tested: %v", err)
	}
	require.NoError(t, err)
	cmd := k.Command(t.Context(), "-m", "unittest")
	cmd.Dir = dir
	msg, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit)
	require.Contains(t, string(msg), "elements are wrong")
}

// What a spec is no workload of says so.
func TestDefinitionOf(t *testing.T) {
	for spec, want := range map[string]string{
		"contest-decode": flashinfer.ContestDecode, "contest-prefill,seqs=57": flashinfer.ContestPrefill,
		"contest-decode,hk=16,hv=32,b=3": "gdn_decode_qk16_v32_d128_k_last",
	} {
		s, err := gdn.Parse(spec)
		require.NoError(t, err)
		d, err := DefinitionOf(s)
		require.NoError(t, err)
		require.Equal(t, want, d.Name)
	}
	for spec, want := range map[string]string{
		"bench": "which have gates=fused", "contest-decode,v=64": "keys as wide as values", "contest-decode,pool=128": "without a pool", "contest-decode,t=2": "t=1, or packed sequences",
	} {
		s, err := gdn.Parse(spec)
		require.NoError(t, err)
		_, err = DefinitionOf(s)
		require.ErrorContains(t, err, want)
	}
}
