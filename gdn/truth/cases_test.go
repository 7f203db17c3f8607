package truth

import (
	"bytes"
	"encoding/json"
	"hash/crc32"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/gdntest"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/array"
)

const fixtures = "../../tests/fixtures"

var fixtureSpecs = map[string]string{
	"s01_basic_f32":                        "b=2,t=37,hk=2,hv=2,k=32,v=32,dtype=f32",
	"s02_state_scale1_d60":                 "b=1,t=75,hk=3,hv=3,k=60,v=60,dtype=f32,init,scale=1",
	"s03_gva_4to8":                         "b=1,t=130,hk=4,hv=8,k=64,v=64,dtype=f32,init",
	"s04_k48_v96":                          "b=2,t=65,hk=2,hv=2,k=48,v=96,dtype=f32,init",
	"s05_varlen_empty":                     "b=1,t=164,hk=2,hv=4,k=32,v=32,dtype=f32,seqs=4,init",
	"s06_l2norm_gate_in_kernel":            "b=2,t=100,hk=2,hv=4,k=64,v=32,dtype=f32,gates=fused,l2norm,init",
	"s07_bf16_inputs_t200":                 "b=1,t=200,hk=2,hv=2,k=64,v=64,dtype=bf16,out=f32",
	"s08_contest_decode_b1":                "b=1,t=1,hk=4,hv=8,k=128,v=128,dtype=bf16,gates=fused,gatedtype=bf16,init,state=vk",
	"s09_contest_decode_b2_nostate_scale0": "b=2,t=1,hk=4,hv=8,k=128,v=128,dtype=bf16,gates=fused,gatedtype=bf16,state=vk",
	"s10_contest_prefill_t6":               "b=1,t=6,hk=4,hv=8,k=128,v=128,dtype=bf16,gates=fused,gatedtype=bf16,seqs=1,init,state=vk,empty=zero,packed",
	"s11_contest_prefill_n3_empty":         "b=1,t=69,hk=4,hv=8,k=128,v=128,dtype=bf16,gates=fused,gatedtype=bf16,seqs=3,init,state=vk,empty=zero,packed",
	"s12_bwd_gva":                          "b=1,t=70,hk=2,hv=4,k=32,v=32,dtype=f32,init,direction=train",
	"s13_bwd_varlen_kv":                    "b=1,t=95,hk=2,hv=2,k=24,v=40,dtype=f32,seqs=3,init,direction=train",
}

// The reference agrees with every stored forward case far within its limits: the files hold float32 values of a float64
// computation, so 1e-7 is all that may remain.
func TestReferenceAgainstFixtures(t *testing.T) {
	cases, err := ReadCases(fixtures)
	require.NoError(t, err)
	require.Len(t, cases, 14)
	supported := 0
	for _, c := range cases {
		text, ok := fixtureSpecs[c.Name]
		require.Equal(t, ok, c.Supported, "%s: %s", c.Name, c.Reason)
		if !c.Supported {
			require.Contains(t, c.Reason, "layer")
			require.NotNil(t, c.Layer)
			inputs, expected, err := c.Load()
			require.NoError(t, err)
			require.Equal(t, []int{2, 76, 64}, inputs["x"].Shape)
			require.Len(t, expected, 7)
			continue
		}
		supported++
		require.Equal(t, text, c.Spec.String(), c.Name)
		inputs, expected, err := c.Load()
		require.NoError(t, err)
		out := reference(t, c.Spec, inputs)
		file, err := c.FileOutputs(out)
		require.NoError(t, err)
		contest := strings.HasPrefix(c.Op, "contest")
		for _, o := range c.Outputs {
			require.Equal(t, expected[o.Name].String(), file.Tensors[o.Name].String())
			want := expected[o.Name]
			if contest && o.Param == "o" {
				want = expected["output_f64"]
			}
			s := array.Compare(out[o.Param], want)
			t.Logf("%s %s: %v", c.Name, o.Name, s)
			require.LessOrEqual(t, s.Ratio, 1e-7, "%s %s", c.Name, o.Name)
		}
		precision := "f32-strict"
		if contest {
			precision = "f32"
		}
		verdicts, err := c.Judge(expected, file.Tensors, precision)
		require.NoError(t, err)
		rules := len(c.Outputs)
		if contest {
			rules = 3 // the contest's rule on both, and the stored ratio of new_state
		}
		require.Len(t, verdicts, rules)
		for _, v := range verdicts {
			require.True(t, v.Pass, "%s: %+v", c.Name, v)
		}
	}
	require.Equal(t, len(fixtureSpecs), supported)
}

func TestJudge(t *testing.T) {
	cases, err := ReadCases(fixtures)
	require.NoError(t, err)
	byName := map[string]*Case{}
	for i := range cases {
		byName[cases[i].Name] = &cases[i]
	}
	spoilt := func(a *array.Array, i int, x float64) *array.Array {
		v := a.Float64s()
		v[i] = x
		return array.FromFloat64s(a.Type, a.Shape, v)
	}

	c := byName["s01_basic_f32"]
	_, expected, err := c.Load()
	require.NoError(t, err)
	judge := func(name string, a *array.Array, precision string) TensorVerdict {
		t.Helper()
		out := map[string]*array.Array{"o": expected["o"], "final_state": expected["final_state"]}
		out[name] = a
		verdicts, err := c.Judge(expected, out, precision)
		require.NoError(t, err)
		require.Len(t, verdicts, 2)
		require.True(t, verdicts[1].Pass)
		return verdicts[0]
	}
	require.True(t, judge("o", expected["o"], "f32-strict").Pass)
	for _, p := range []struct {
		precision string
		limit     float64
	}{{"f32", 4.23e-6}, {"f32-strict", 2.15e-6}, {"bf16x6", 4.23e-6}, {"bf16x3", 5e-5}, {"bf16x1", .0112}, {"lowp", .005}} {
		for _, over := range []bool{false, true} {
			factor := .9
			if over {
				factor = 1.1
			}
			x := expected["o"].Float64s()
			for i := range x {
				x[i] *= 1 + factor*p.limit
			}
			v := judge("o", array.FromFloat64s(ir.F64, expected["o"].Shape, x), p.precision)
			require.Equal(t, p.limit, v.Limit)
			require.Equal(t, !over, v.Pass, "%+v", v)
		}
	}
	for want, a := range map[string]*array.Array{
		"NaN at [0 0 0 5]":        spoilt(expected["o"], 5, math.NaN()),
		"+Inf at [0 0 1 0]":       spoilt(expected["o"], 32, math.Inf(1)),
		"shape [4736], want":      expected["o"].Reshape(4736),
		"the output is missing":   nil,
		"worst at [1 36 1 31]":    spoilt(expected["o"], 4735, 1),
		"needs 18944 bytes of da": {Type: ir.F32, Shape: expected["o"].Shape},
	} {
		v := judge("o", a, "f32")
		require.False(t, v.Pass)
		require.Contains(t, v.Note, want)
		_, err := json.Marshal(v)
		require.NoError(t, err)
	}
	_, err = c.Judge(expected, expected, "f23")
	require.ErrorContains(t, err, "unknown precision")
	_, err = c.Judge(nil, expected, "f32")
	require.ErrorContains(t, err, "inputs alone")
	bare := *c
	bare.Tolerance = Tolerance{}
	_, err = bare.Judge(expected, expected, "f32")
	require.ErrorContains(t, err, "no tolerance.o.f32_ratio")

	c = byName["s11_contest_prefill_n3_empty"]
	_, expected, err = c.Load()
	require.NoError(t, err)
	state := expected["new_state"]
	for _, x := range []struct {
		by   float64
		fail int
	}{{.009, 0}, {.011, 1}} {
		out := map[string]*array.Array{"output": expected["output"], "new_state": spoilt(state, 7, state.Float64s()[7]+x.by)}
		verdicts, err := c.Judge(expected, out, "bf16x1")
		require.NoError(t, err)
		require.Len(t, verdicts, 2)
		require.Equal(t, x.fail, verdicts[1].Failed)
		require.Equal(t, x.fail == 0, verdicts[1].Pass)
	}
}

// folder writes one case to a new folder; edit may change the manifest's row.
func folder(t *testing.T, f *array.File, edit func(row map[string]any)) string {
	t.Helper()
	dir := t.TempDir()
	data, err := f.Bytes()
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "c.safetensors"), data, 0o644))
	names := map[ir.DType]string{}
	for name, d := range storedTypes {
		names[d] = name
	}
	tensors := map[string]any{}
	for name, a := range f.Tensors {
		tensors[name] = map[string]any{"shape": a.Shape, "dtype": names[a.Type]}
	}
	row := map[string]any{"name": "c", "file": "c.safetensors", "op": "gated_delta_rule", "tensors": tensors, "flags": map[string]any{},
		"bytes": len(data), "crc32": crc32.ChecksumIEEE(data)}
	edit(row)
	manifest, err := json.Marshal(map[string]any{"cases": []any{row}})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, ManifestName), manifest, 0o644))
	return dir
}

func inputFile(t *testing.T, spec string) (*array.File, gdn.Spec) {
	t.Helper()
	s := gdntest.MustParse(t, spec)
	f := &array.File{Tensors: generate(t, "random", s, 1)}
	for _, p := range s.Inputs() {
		f.Names = append(f.Names, p.Name)
	}
	return f, s
}

func tensorOf(row map[string]any, name string) map[string]any {
	return row["tensors"].(map[string]any)[name].(map[string]any)
}

// A file with inputs alone is computed and written in the stored cases' conventions, and can not be judged.
func TestInputsAlone(t *testing.T) {
	f, s := inputFile(t, "t=5,hk=2,k=4,dtype=bf16,out=f32,seqs=2,init")
	for _, edit := range []func(map[string]any){
		func(map[string]any) {},
		func(row map[string]any) { delete(row, "tensors"); delete(row, "bytes"); delete(row, "crc32") },
		func(row map[string]any) { // outputs described, not stored
			row["tensors"].(map[string]any)["o"] = map[string]any{"shape": []int{1, 5, 2, 4}, "dtype": "float32"}
			row["tensors"].(map[string]any)["final_state"] = map[string]any{"shape": []int{2, 2, 4, 4}, "dtype": "float32"}
		},
	} {
		cases, err := ReadCases(folder(t, f, edit))
		require.NoError(t, err)
		require.Equal(t, s, cases[0].Spec)
		inputs, expected, err := cases[0].Load()
		require.NoError(t, err)
		require.Empty(t, expected)
		file, err := cases[0].FileOutputs(reference(t, s, inputs))
		require.NoError(t, err)
		require.Equal(t, []string{"o", "final_state"}, file.Names)
		require.Equal(t, "f32[1,5,2,4]", file.Tensors["o"].String())
		_, err = cases[0].Judge(expected, file.Tensors, "f32")
		require.ErrorContains(t, err, "inputs alone")
		_, err = cases[0].FileOutputs(nil)
		require.ErrorContains(t, err, "output o is missing")
	}
}

// Element types that the spec lacks are widened.
func TestCaseWidens(t *testing.T) {
	f, _ := inputFile(t, "t=5,hk=2,k=4,seqs=2,init")
	f.Tensors["q"], f.Tensors["v"] = f.Tensors["q"].Convert(ir.BF16), f.Tensors["v"].Convert(ir.F16)
	f.Tensors["beta"], f.Tensors["cu_seqlens"] = f.Tensors["beta"].Convert(ir.BF16), f.Tensors["cu_seqlens"].Convert(ir.I32)
	cases, err := ReadCases(folder(t, f, func(map[string]any) {}))
	require.NoError(t, err)
	require.Equal(t, "b=1,t=5,hk=2,hv=2,k=4,v=4,dtype=f32,seqs=2,init", cases[0].Spec.String())
	inputs, _, err := cases[0].Load()
	require.NoError(t, err)
	for name, a := range f.Tensors {
		require.Equal(t, a.Float64s(), inputs[name].Float64s())
	}
}

func TestCaseNotSupported(t *testing.T) {
	f, _ := inputFile(t, "t=5,hk=2,k=4")
	for want, edit := range map[string]func(map[string]any){
		"unknown op":                   func(row map[string]any) { row["op"] = "mamba" },
		`unknown flag "swish"`:         func(row map[string]any) { row["flags"] = map[string]any{"swish": true, "qk_l2norm": false} },
		"flag qk_l2norm has the unkno": func(row map[string]any) { row["flags"] = map[string]any{"qk_l2norm": "yes"} },
		"tensor q is f64":              func(row map[string]any) { tensorOf(row, "q")["dtype"] = "float64" },
		"tensor mask has no meaning": func(row map[string]any) {
			row["tensors"].(map[string]any)["mask"] = map[string]any{"shape": []int{5}, "dtype": "float32"}
		},
	} {
		cases, err := ReadCases(folder(t, f, edit))
		require.NoError(t, err)
		require.False(t, cases[0].Supported)
		require.Contains(t, cases[0].Reason, want)
	}
}

func TestCaseErrors(t *testing.T) {
	f, _ := inputFile(t, "t=5,hk=2,k=4,seqs=2,init")
	for want, edit := range map[string]func(map[string]any){
		"cases[0]: field name is missing":           func(row map[string]any) { delete(row, "name") },
		"cases[0] c: field op is missing":           func(row map[string]any) { delete(row, "op") },
		"field file is missing":                     func(row map[string]any) { delete(row, "file") },
		"leads out of the folder":                   func(row map[string]any) { row["file"] = "../c.safetensors" },
		"field scale is a string, want a number":    func(row map[string]any) { row["scale"] = "half" },
		"field scale is 0, which gives outputs":     func(row map[string]any) { row["scale"] = 0 },
		"spec: scale":                               func(row map[string]any) { row["scale"] = -1 },
		"field state_layout":                        func(row map[string]any) { row["state_layout"] = "[N,K,Hv,V]" },
		"field tensors: the input k is missing":     func(row map[string]any) { delete(row["tensors"].(map[string]any), "k") },
		"field tensors: q and v are wanted":         func(row map[string]any) { delete(row["tensors"].(map[string]any), "q") },
		"field tensors.g.shape: [1 5 3]":            func(row map[string]any) { tensorOf(row, "g")["shape"] = []int{1, 5, 3} },
		"field tensors.initial_state.shape":         func(row map[string]any) { tensorOf(row, "initial_state")["shape"] = []int{3, 2, 4, 4} },
		"field tensors.cu_seqlens.shape":            func(row map[string]any) { tensorOf(row, "cu_seqlens")["shape"] = []int{1} },
		"field tensors.cu_seqlens.dtype":            func(row map[string]any) { tensorOf(row, "cu_seqlens")["dtype"] = "float32" },
		"field tensors.k.shape: [1 5 2 5]":          func(row map[string]any) { tensorOf(row, "k")["shape"] = []int{1, 5, 2, 5} },
		"field tensors.q.dtype: unknown":            func(row map[string]any) { tensorOf(row, "q")["dtype"] = "fp8" },
		"field tensors.q.shape: [-1]":               func(row map[string]any) { tensorOf(row, "q")["shape"] = []int{-1} },
		"q is [5] and v is [1 5 2 4]":               func(row map[string]any) { tensorOf(row, "q")["shape"] = []int{5} },
		"the input A_log is missing":                func(row map[string]any) { row["flags"] = map[string]any{"gate_in_kernel": true} },
		"field tolerance.o.f32_ratio":               func(row map[string]any) { row["tolerance"] = map[string]any{"o": map[string]any{"f32_ratio": "x"}} },
		"field tolerance.contest: wants atol":       func(row map[string]any) { row["tolerance"] = map[string]any{"contest": map[string]any{"rule": "x"}} },
		"spec: hv (heads_v): 3 is not a multiple":   func(row map[string]any) { tensorOf(row, "v")["shape"] = []int{1, 5, 3, 4} },
		"packed sequences need b=1":                 func(row map[string]any) { tensorOf(row, "q")["shape"] = []int{2, 5, 2, 4} },
		"the file does not say either: safetensors": func(row map[string]any) { delete(row, "tensors"); row["file"] = "other" },
	} {
		_, err := ReadCases(folder(t, f, edit))
		require.ErrorContains(t, err, want)
	}
	dir := t.TempDir()
	_, err := ReadCases(dir)
	require.ErrorContains(t, err, "a folder of cases has a manifest.json")
	for text, want := range map[string]string{"{\n\n!": "line 3", "{}": "field cases is missing or empty", `{"cases":[{"name":3}]}`: "cases[0]",
		`{"cases":[{"name":"c"},{"op":"x"}]}`: "cases[1]: field name"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, ManifestName), []byte(text), 0o644))
		_, err := ReadCases(dir)
		require.ErrorContains(t, err, want)
	}
}

func TestLoadErrors(t *testing.T) {
	load := func(f *array.File, edit func(map[string]any), after func(path string)) error {
		cases, err := ReadCases(folder(t, f, edit))
		require.NoError(t, err)
		after(cases[0].File)
		_, _, err = cases[0].Load()
		return err
	}
	none := func(map[string]any) {}
	nothing := func(string) {}
	f, _ := inputFile(t, "t=5,hk=2,k=4,seqs=2,init")
	require.NoError(t, load(f, none, nothing))
	flip := func(path string) {
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		data[len(data)-1] ^= 1
		require.NoError(t, os.WriteFile(path, data, 0o644))
	}
	require.ErrorContains(t, load(f, none, flip), "changed or damaged")
	require.ErrorContains(t, load(f, none, func(path string) { require.NoError(t, os.Truncate(path, 99)) }), "cut short")
	require.ErrorContains(t, load(f, none, func(path string) { require.NoError(t, os.Remove(path)) }), "c.safetensors")
	unchecked := func(row map[string]any) { delete(row, "bytes"); delete(row, "crc32") }
	require.ErrorContains(t, load(f, unchecked, func(path string) { require.NoError(t, os.Truncate(path, 99)) }), "safetensors")
	require.ErrorContains(t, load(f, func(row map[string]any) { tensorOf(row, "g")["dtype"] = "bfloat16" }, nothing), "tensor g is f32[1,5,2], the manifest says bf16[1,5,2]")

	g := f.Tensors["g"]
	f.Tensors["g"] = array.FromFloat64s(ir.F32, g.Shape, []float64{9: math.NaN()})
	require.ErrorContains(t, load(f, none, nothing), "input g: is NaN at [0 4 1]")
	f.Tensors["g"] = g
	f.Tensors["cu_seqlens"] = array.FromInt64s(ir.I64, []int{3}, []int64{0, 9, 5})
	require.ErrorContains(t, load(f, none, nothing), "falls from 9 to 5")

	f, s := inputFile(t, "t=5,hk=2,k=4")
	delete(f.Tensors, "g")
	f.Names = nil
	missing := func(row map[string]any) {
		row["tensors"].(map[string]any)["g"] = map[string]any{"shape": []int{1, 5, 2}, "dtype": "float32"}
	}
	require.ErrorContains(t, load(f, missing, nothing), "tensor g, an input, is missing")
	f, _ = inputFile(t, s.String())
	f.Tensors["o"] = array.FromFloat64s(ir.F32, []int{1, 5, 2, 4}, append(make([]float64, 39), math.Inf(1)))
	f.Names = nil
	require.ErrorContains(t, load(f, none, nothing), "tensor o, an expected value, is +Inf")
}

// A contest case without a state, and one whose sequences are none of them empty, are the same computation as their spec.
func TestContestMapping(t *testing.T) {
	f, s := inputFile(t, "t=5,hk=2,k=4,dtype=bf16,gates=fused,gatedtype=bf16,seqs=2,init,state=vk,empty=zero,packed")
	f.Tensors["state"] = f.Tensors["initial_state"]
	delete(f.Tensors, "initial_state")
	f.Names = nil
	cases, err := ReadCases(folder(t, f, func(row map[string]any) {
		row["op"], row["scale"], row["flags"] = "contest_prefill", 0.0, map[string]any{"gate_in_kernel": true}
	}))
	require.NoError(t, err)
	require.Equal(t, s, cases[0].Spec)
	require.Equal(t, "output", cases[0].Outputs[0].Name)
	require.Equal(t, "bf16[5,2,4]", cases[0].Outputs[0].Type.String())
	require.Equal(t, "new_state", cases[0].Outputs[1].Name)
	inputs, _, err := cases[0].Load()
	require.NoError(t, err)
	require.True(t, bytes.Equal(f.Tensors["state"].Data, inputs["initial_state"].Data))
}
