package gpu

import (
	"cmp"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/autotune/check"
	"github.com/gdngen/gdngen/codegen/triton"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/truth"
	"github.com/gdngen/gdngen/ir/array"
	"github.com/gdngen/gdngen/ir/target"
	"github.com/gdngen/gdngen/pjrt/plugins"
)

// open obtains Triton, by a download where it is not in the cache. Where it can not be had the test is skipped and says why, but never in CI.
func open(t *testing.T) *Toolkit {
	t.Helper()
	k, err := Open(t.Context(), plugins.Options{Progress: os.Stderr})
	if err != nil && os.Getenv("CI") == "" {
		t.Skipf("not tested: %v", err)
	}
	require.NoError(t, err)
	return k
}

func program(t *testing.T, s gdn.Spec, variant string) (triton.Variant, string) {
	v, err := triton.Parse(variant, s)
	require.NoError(t, err)
	text, err := triton.Source(s, v, "vX")
	require.NoError(t, err)
	return v, text
}

// The stored cases of the forward pass, of the contest and of others, padded widths among them, keep their tolerances.
func TestFixtures(t *testing.T) {
	k := open(t)
	cases, err := truth.ReadCases("../../tests/fixtures")
	require.NoError(t, err)
	done := 0
	for _, c := range cases {
		if !c.Supported || triton.Supports(c.Spec) != nil {
			continue
		}
		done++
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			wide := "bv=256"
			if c.Spec.Tokens == 1 {
				wide = "bv=128"
			}
			v, source := program(t, c.Spec, wide)
			inputs, expected, err := c.Load()
			require.NoError(t, err)
			got, err := k.Compute(t.Context(), source, c.Spec, inputs)
			require.NoError(t, err)
			outputs := map[string]*array.Array{}
			for _, o := range c.Outputs {
				outputs[o.Name] = got[o.Param]
			}
			precision := v.Precision(c.Spec)
			if c.Tolerance.Contest != nil {
				precision = "bf16x1" // the contest's own rule alone
			}
			verdicts, err := c.Judge(expected, outputs, precision)
			require.NoError(t, err)
			require.NotEmpty(t, verdicts)
			for _, x := range verdicts {
				require.True(t, x.Pass, "%s: %+v", c.Name, x)
			}
		})
	}
	require.Equal(t, 11, done)
}

// Each structural choice keeps the limits of the exam: sequences that end inside of chunks and parts, an empty one, pools, both layouts.
func TestClasses(t *testing.T) {
	k := open(t)
	for _, c := range [][3]string{
		{"contest-decode,b=2,hk=1,hv=2", "bv=32", "random,cos.99,resets"},
		{"decode-pool,b=3,pool=5,hk=1,hv=2,k=48,v=96,l2norm", "bv=64", "random,zeros"},
		{"decode-pool,b=5,pool=7,hk=1,hv=2,k=48,v=64,read", "bv=32", "random"},
		{"contest-prefill,t=150,seqs=4,hk=1,hv=2,k=64,v=64", "bv=64,prec=tf32", "random,identical"},
		{"contest-prefill,t=150,seqs=4,hk=1,hv=2,k=64,v=64", "bv=64,part=1,chunk=32", "cos.99,resets"},
		{"b=1,t=140,hk=1,hv=2,k=48,v=40,dtype=f32,init", "bv=64,part=1,kernels=one,inverse=masked", "identical,reset.cos.9"},
		{"b=2,t=70,hk=1,hv=1,k=32,v=32,dtype=f32,l2norm", "naive", "cos.9"},
		{"contest-prefill,t=150,seqs=4,hk=1,hv=2", "auto", "masked,cos.75"}, // a beta that is rounded with T biases these
		{"b=1,t=256,hk=1,hv=1,k=64,v=64,dtype=bf16", "auto", "identical"},   // T in one part leaves 7.5e-2 of the state there
		{"b=1,t=256,hk=1,hv=1,k=64,v=64,dtype=bf16,init", "bv=64,part=1,prec=tf32", "identical"},
		{"b=1,t=140,hk=1,hv=2,k=64,v=64,dtype=bf16,gates=fused,seqs=3,init,pool=5,inplace", "bv=64,part=2,chunk=16", "drift,cut"},
		{"t=140,hk=1,hv=2,k=64,v=64,dtype=f32,gates=fused,seqs=4,init,pool=5,inplace,read", "bv=64,part=2,chunk=16", "drift,cut"},
		{"t=90,hk=1,hv=1,k=64,v=64,dtype=f32,seqs=4,init,pool=6,read", "bv=64", "random"},
	} {
		t.Run(c[0]+" "+c[1], func(t *testing.T) {
			t.Parallel()
			s, err := gdn.Parse(c[0])
			require.NoError(t, err)
			v, source := program(t, s, c[1])
			classes, err := check.Classes(s, strings.Split(c[2], ","))
			require.NoError(t, err)
			r := &check.Result{Precision: v.Precision(s), Seeds: check.Seeds(1, 1)}
			require.NoError(t, r.Run(t.Context(), s, func(s gdn.Spec, in map[string]*array.Array) (map[string]*array.Array, error) {
				return k.Compute(t.Context(), source, s, in)
			}, classes, t.Logf))
			require.NotEmpty(t, r.Rows)
			for _, row := range r.Rows {
				require.True(t, row.Pass, "%+v", row)
			}
		})
	}
}

// A child that takes more processor time than it may is ended, and that is no fault of the machine.
func TestLate(t *testing.T) {
	k := open(t)
	k.Limit = time.Second
	s, err := gdn.Parse("contest-prefill,seqs=57")
	require.NoError(t, err)
	_, source := program(t, s, "naive")
	h100, err := target.LookupGPU("h100")
	require.NoError(t, err)
	_, err = k.Compile(t.Context(), source, s, h100)
	var late *LateError
	require.ErrorAs(t, err, &late)
}

// A fault of a kernel shows: the gate is no formality.
func TestFaultShows(t *testing.T) {
	k := open(t)
	s, err := gdn.Parse("b=1,t=100,hk=1,hv=1,k=32,v=32,dtype=f32")
	require.NoError(t, err)
	v, source := program(t, s, "auto")
	faulty := strings.Replace(source, "tl.exp(G)[:, None]", "tl.exp(G * 1.001)[:, None]", 1)
	require.NotEqual(t, source, faulty)
	class, err := check.Classes(s, []string{"random"})
	require.NoError(t, err)
	r := &check.Result{Precision: v.Precision(s), Seeds: check.Seeds(1, 1)}
	require.NoError(t, r.Run(t.Context(), s, func(s gdn.Spec, in map[string]*array.Array) (map[string]*array.Array, error) {
		return k.Compute(t.Context(), faulty, s, in)
	}, class, t.Logf))
	require.False(t, r.Pass)
	_, err = k.Compute(t.Context(), strings.Replace(source, "tl.cumsum", "tl.cumsam", 1), s, nil)
	require.Error(t, err)
}

var update = flag.Bool("update", false, "write the hashes of testdata again")

// hashFile has what kernels compile to, whatever the process and the version of Python.
const hashFile = "testdata/code.json"

type codeHash struct {
	Spec       string `json:"spec"`
	Kernel     string `json:"kernel"`
	Capability int    `json:"capability"`
	SHA256     string `json:"sha256"` // of the cubin
}

func remembered(t *testing.T) (l []codeHash) {
	data, err := os.ReadFile(hashFile)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(data, &l))
	return l
}

var remembering sync.Mutex

func remember(t *testing.T, spec string, made []codeHash) {
	remembering.Lock()
	defer remembering.Unlock()
	l := append(slices.DeleteFunc(remembered(t), func(h codeHash) bool { return h.Spec == spec }), made...)
	slices.SortFunc(l, func(x, y codeHash) int {
		return cmp.Or(cmp.Compare(x.Spec, y.Spec), cmp.Compare(x.Capability, y.Capability), cmp.Compare(x.Kernel, y.Kernel))
	})
	data, err := json.MarshalIndent(l, "", " ")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(hashFile, append(data, '\n'), 0o644))
}

// Kernels compile for every target, within its shared memory, and to the code of the table: the same in every process, on CPython 3.11 to 3.13.
func TestCompile(t *testing.T) {
	k := open(t)
	for spec, kernels := range map[string]int{"contest-decode": 1, "contest-prefill,seqs=1": 4} {
		t.Run(spec, func(t *testing.T) {
			t.Parallel()
			s, err := gdn.Parse(spec)
			require.NoError(t, err)
			variant := "auto"
			if kernels > 1 {
				variant = "chunk=32" // an inverse that compiles fast
			}
			v, source := program(t, s, variant)
			first, err := k.Compile(t.Context(), source, s, target.GPUs()...)
			require.NoError(t, err)
			capabilities := map[int]bool{}
			for _, g := range target.GPUs() {
				capabilities[g.Capability] = true
			}
			require.Len(t, first, kernels*len(capabilities), "one program for GPUs of a capability")
			require.NoError(t, Fit(first, target.GPUs()))
			for _, l := range first {
				require.NotEmpty(t, l.Cubin)
				require.Contains(t, l.PTX, ".entry "+l.Kernel)
				require.Empty(t, unfenced(l.PTX), l.Kernel)
			}
			work := triton.WorkOf(s, v)
			for _, g := range target.GPUs() {
				list, err := Model(first, g, work.Of)
				require.NoError(t, err)
				require.Len(t, list, kernels)
				for _, m := range list {
					require.Equal(t, g.Timing != nil, m.Cost != nil)
					require.Positive(t, m.Registers)
					require.Positive(t, m.Floor)
					if m.Cost != nil && work[m.Kernel].Trips > 0 {
						require.Positive(t, m.Cost.Turn, m.Kernel)
					}
				}
				if spec == "contest-decode" && g.Timing != nil {
					require.InEpsilon(t, list[0].Cost.DRAM, Time(list), .05, "one pass over the states")
				}
			}
			var got []codeHash
			for _, l := range first {
				got = append(got, codeHash{spec, l.Kernel, l.Capability, l.SHA256})
			}
			if *update {
				remember(t, spec, got)
			}
			want := slices.DeleteFunc(remembered(t), func(h codeHash) bool { return h.Spec != spec })
			require.ElementsMatch(t, want, got, "equal files give other code than before: go test ./pjrt/gpu -run TestCompile -update, and say why")
		})
	}
}

// Kernels that exceed a GPU, or that a compiler refuses, are errors with the reason.
func TestFits(t *testing.T) {
	g, err := target.LookupGPU("h100")
	require.NoError(t, err)
	l := Launch{Kernel: "scan", Capability: 90, Shared: g.SharedProgram}
	require.NoError(t, l.Fits(g))
	l.Shared++
	require.ErrorContains(t, Fit([]Launch{l}, target.GPUs()), "kernel scan: a program takes 232449 bytes of shared memory, and h100 has 232448 for it")
	l.Refused = "CompilationError: at 3:4"
	require.ErrorContains(t, l.Fits(g), "the compiler refuses it: CompilationError")
	l.Capability = 80
	require.NoError(t, Fit([]Launch{l}, target.GPUs()), "of no target")
}

// A Python without Triton is named.
func TestNoTriton(t *testing.T) {
	path := filepath.Join(t.TempDir(), "python")
	require.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\necho \"ModuleNotFoundError: No module named 'triton'\"; exit 1\n"), 0o755))
	t.Setenv(plugins.TritonEnv, path)
	_, err := Open(t.Context(), plugins.Options{})
	require.ErrorContains(t, err, "can not import numpy and triton: ModuleNotFoundError")
	t.Setenv(plugins.TritonEnv, "")
	t.Setenv(plugins.CacheEnv, t.TempDir())
	_, err = Open(t.Context(), plugins.Options{Offline: true})
	require.ErrorContains(t, err, "gdngen setup --only gpu")
}
