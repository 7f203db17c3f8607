package flashinfer_test

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/autotune/flashinfer"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/truth"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/array"
	"github.com/gdngen/gdngen/ir/target"
)

const fixtures = "../../tests/fixtures"

func named(t testing.TB, name string) (*flashinfer.Problem, []*flashinfer.Workload) {
	d, err := flashinfer.Named(name)
	require.NoError(t, err)
	p, err := flashinfer.NewProblem(d)
	require.NoError(t, err)
	w, err := flashinfer.ContestWorkloads(d)
	require.NoError(t, err)
	return p, w
}

// The definitions of the contest are those of the presets, and the workloads are the recorded ones.
func TestContest(t *testing.T) {
	stored, err := os.ReadFile(filepath.Join(fixtures, "contest_workloads.json"))
	require.NoError(t, err)
	ours, err := os.ReadFile("contest_workloads.json")
	require.NoError(t, err)
	require.JSONEq(t, string(stored), string(ours))
	var shapes struct {
		Decode  map[int]int `json:"decode_batch_size_to_count"`
		Prefill [][2]int    `json:"prefill_total_seq_len_num_seqs"`
	}
	require.NoError(t, json.Unmarshal(stored, &shapes))

	seen := map[string]bool{}
	p, list := named(t, flashinfer.ContestDecode)
	require.Len(t, list, 54)
	preset, err := gdn.LookupPreset("contest-decode")
	require.NoError(t, err)
	count := map[int]int{}
	for _, w := range list {
		s, err := p.Spec(w)
		require.NoError(t, err)
		count[s.Batch]++
		seen[w.UUID] = true
		want := preset
		want.Batch = s.Batch
		require.Equal(t, want, s)
	}
	require.Equal(t, shapes.Decode, count)

	p, list = named(t, flashinfer.ContestPrefill)
	require.Len(t, list, 100)
	preset, err = gdn.LookupPreset("contest-prefill")
	require.NoError(t, err)
	for i, w := range list {
		s, err := p.Spec(w)
		require.NoError(t, err)
		seen[w.UUID] = true
		want := preset
		want.Tokens, want.Seqs = shapes.Prefill[i][0], shapes.Prefill[i][1]
		require.Equal(t, want, s)
	}
	require.Len(t, seen, 154, "UUIDs are unique")
	_, again := named(t, flashinfer.ContestPrefill)
	require.Equal(t, list, again)
}

// Other head counts, widths and layouts.
func TestNamed(t *testing.T) {
	p, list := named(t, "gdn_decode_qk16_v32_d64_v_last")
	s, err := p.Spec(list[0])
	require.NoError(t, err)
	require.Equal(t, "b=1,t=1,hk=16,hv=32,k=64,v=64,dtype=bf16,gates=fused,gatedtype=bf16,init", s.String())
	for _, bad := range []string{"gdn_decode_qk16_v32_d128", "gdn_mtp_qk4_v8_d128_k_last", "gemm", "gdn_decode_qk0_v8_d128_k_last"} {
		_, err := flashinfer.Named(bad)
		require.Error(t, err, bad)
	}
	_, err = flashinfer.Named("gdn_mtp_qk4_v8_d128_k_last")
	require.ErrorContains(t, err, "not supported")
}

// The stored cases of the contest, as workloads whose inputs are files: float64 agrees with what the contest's own reference gave.
func TestFixtures(t *testing.T) {
	for _, c := range []struct {
		file, definition string
		scale            json.Number
		state            bool
		axes             map[string]int
	}{
		{"s08_contest_decode_b1", flashinfer.ContestDecode, "0.08838834764831845", true, map[string]int{"batch_size": 1}},
		{"s09_contest_decode_b2_nostate_scale0", flashinfer.ContestDecode, "0.0", false, map[string]int{"batch_size": 2}},
		{"s10_contest_prefill_t6", flashinfer.ContestPrefill, "0.08838834764831845", true, map[string]int{"total_seq_len": 6, "num_seqs": 1, "len_cu_seqlens": 2}},
		{"s11_contest_prefill_n3_empty", flashinfer.ContestPrefill, "0.08838834764831845", true, map[string]int{"total_seq_len": 69, "num_seqs": 3, "len_cu_seqlens": 4}},
	} {
		t.Run(c.file, func(t *testing.T) {
			p, _ := named(t, c.definition)
			w := &flashinfer.Workload{UUID: c.file, Axes: c.axes, Inputs: map[string]flashinfer.Input{}}
			for _, x := range p.Inputs {
				if x.Name != "state" || c.state {
					w.Inputs[x.Name] = flashinfer.Input{Type: flashinfer.Safetensors, Path: c.file + ".safetensors", Key: x.Name}
				}
			}
			w.Inputs["scale"] = flashinfer.Input{Type: flashinfer.Scalar, Value: c.scale}
			s, err := p.Spec(w)
			require.NoError(t, err)
			require.Equal(t, c.state, s.Init)
			inputs, err := p.MakeInputs(s, w, fixtures, 0)
			require.NoError(t, err)
			unknown, err := p.CheckConstraints(w, inputs)
			require.NoError(t, err)
			require.Empty(t, unknown)
			want, err := truth.Reference(s, inputs)
			require.NoError(t, err)
			f, err := array.ReadSafetensors(filepath.Join(fixtures, c.file+".safetensors"))
			require.NoError(t, err)
			v := flashinfer.Judge(s, []*array.Array{f.Tensors["output"], f.Tensors["new_state"]}, want)
			require.Equal(t, flashinfer.Passed, v.Status, v.Note)
			require.Less(t, v.OfLargest, 4e-3, "the rounding of bf16")
		})
	}
}

// An optional input may be left out, types that widen are widened, and what is not understood of constraints is told.
func TestProblemSample(t *testing.T) {
	d, err := flashinfer.ParseDefinition(sample(t))
	require.NoError(t, err)
	p, err := flashinfer.NewProblem(d)
	require.NoError(t, err)
	w := &flashinfer.Workload{UUID: "u", Axes: map[string]int{"batch_size": 3}, Inputs: map[string]flashinfer.Input{}}
	for _, x := range d.Inputs {
		if !x.Optional {
			w.Inputs[x.Name] = flashinfer.Input{Type: flashinfer.Random}
		}
	}
	s, err := p.Spec(w)
	require.NoError(t, err)
	require.Equal(t, "b=3,t=1,hk=2,hv=4,k=8,v=8,dtype=bf16,gates=fused,gatedtype=bf16,state=vk", s.String())
	inputs, err := p.MakeInputs(s, w, "", 0)
	require.NoError(t, err)
	require.Equal(t, ir.F32, inputs["A_log"].Type)
	require.Equal(t, inputs["A_log"], inputs["A_log"].Convert(ir.BF16).Convert(ir.F32), "drawn as bf16")
	unknown, err := p.CheckConstraints(w, inputs)
	require.NoError(t, err)
	require.Len(t, unknown, 1)
	require.Contains(t, unknown[0], "definition.constraints[1]: sizes_agree(heads)")
	d.Constraints[0] = "value_heads % heads == 1"
	_, err = p.CheckConstraints(w, inputs)
	require.ErrorContains(t, err, "definition.constraints[0]: value_heads % heads == 1 does not hold for workload u")

	w.Inputs["initial_state"] = flashinfer.Input{Type: flashinfer.Random}
	s, err = p.Spec(w)
	require.NoError(t, err)
	require.True(t, s.Init)
}

func TestProblemFaults(t *testing.T) {
	text := string(sample(t))
	for _, c := range []struct{ old, new, want string }{
		{`"initial_state": {`, `"initial_state_indices": {"shape": ["batch_size"], "dtype": "int32"}, "initial_state": {`, "definition.inputs.initial_state_indices: has no meaning"},
		{`"a": {`, `"x": {`, "definition.inputs.x: has no meaning"},
		{`"a": {`, `"x": {`, "definition.inputs: has no a"},
		{`"layout:k-last"`, `"quick"`, ""},
		{`"final_state": {`, `"o": {`, "definition.outputs.o: means the same as output"},
	} {
		d, err := flashinfer.ParseDefinition([]byte(strings.Replace(text, c.old, c.new, 1)))
		require.NoError(t, err)
		_, err = flashinfer.NewProblem(d)
		if c.want == "" {
			require.NoError(t, err, "the name tells the layout")
			continue
		}
		require.ErrorContains(t, err, c.want)
	}
	d, err := flashinfer.ParseDefinition([]byte(strings.NewReplacer("layout:k-last", "quick", "small_k_last", "small").Replace(text)))
	require.NoError(t, err)
	_, err = flashinfer.NewProblem(d)
	require.ErrorContains(t, err, "definition.tags: neither a tag nor the name tells the layout")

	workload := func() *flashinfer.Workload {
		_, list := named(t, flashinfer.ContestPrefill)
		return list[0]
	}
	p, _ := named(t, flashinfer.ContestPrefill)
	for _, c := range []struct {
		edit func(*flashinfer.Workload)
		want string
	}{
		{func(w *flashinfer.Workload) { delete(w.Axes, "num_seqs") }, "workload.axes.num_seqs: is missing"},
		{func(w *flashinfer.Workload) { w.Axes["seqs"] = 1 }, "workload.axes.seqs: is no axis of " + flashinfer.ContestPrefill},
		{func(w *flashinfer.Workload) { w.Axes["head_size"] = 64 }, "workload.axes.head_size: is 64, the definition has the constant 128"},
		{func(w *flashinfer.Workload) { delete(w.Inputs, "q") }, "workload.inputs.q: is missing, and not optional"},
		{func(w *flashinfer.Workload) { w.Inputs["p"] = w.Inputs["q"] }, "workload.inputs.p: is no input"},
		{func(w *flashinfer.Workload) { w.Inputs["q"] = w.Inputs["scale"] }, "workload.inputs.q: is a scalar"},
		{func(w *flashinfer.Workload) {
			w.Inputs["scale"] = flashinfer.Input{Type: flashinfer.Scalar, Value: json.Number("-1")}
		}, "scale"},
		{func(w *flashinfer.Workload) { w.Axes["num_seqs"] = 7 }, "definition.inputs.state.shape: is [7 8 128 128], the other tensors make it [1 8 128 128]"},
		{func(w *flashinfer.Workload) { w.Axes["total_seq_len"] = 0 }, "0 is out of range"},
	} {
		w := workload()
		c.edit(w)
		_, err := p.Spec(w)
		require.ErrorContains(t, err, c.want)
	}
	w := workload()
	s, err := p.Spec(w)
	require.NoError(t, err)
	w.Inputs["q"] = flashinfer.Input{Type: flashinfer.Safetensors, Path: "none.safetensors", Key: "q"}
	_, err = p.MakeInputs(s, w, fixtures, 0)
	require.ErrorContains(t, err, "workload.inputs.q.path: ")
	w.Inputs["q"] = flashinfer.Input{Type: flashinfer.Safetensors, Path: "s10_contest_prefill_t6.safetensors", Key: "query"}
	_, err = p.MakeInputs(s, w, fixtures, 0)
	require.ErrorContains(t, err, `workload.inputs.q.tensor_key: `)
	w.Inputs["q"] = flashinfer.Input{Type: flashinfer.Safetensors, Path: "s11_contest_prefill_n3_empty.safetensors", Key: "q"}
	_, err = p.MakeInputs(s, w, fixtures, 0)
	require.ErrorContains(t, err, "workload.inputs.q: tensor \"q\" of")
	require.ErrorContains(t, err, "make it bf16[6,4,128]")
}

// Random inputs are the same for the same workload and trial, others otherwise; keys have length 1, sequences a token at least.
func TestInputs(t *testing.T) {
	p, list := named(t, flashinfer.ContestPrefill)
	w := list[slices.IndexFunc(list, func(w *flashinfer.Workload) bool { return w.Axes["total_seq_len"] == 239 })]
	s, err := p.Spec(w)
	require.NoError(t, err)
	x, err := p.MakeInputs(s, w, "", 0)
	require.NoError(t, err)
	y, err := p.MakeInputs(s, w, "", 0)
	require.NoError(t, err)
	require.Equal(t, x, y)
	y, err = p.MakeInputs(s, w, "", 1)
	require.NoError(t, err)
	for name := range x {
		require.NotEqual(t, x[name], y[name], name)
	}
	other := *w
	other.UUID = "other"
	y, err = p.MakeInputs(s, &other, "", 0)
	require.NoError(t, err)
	require.NotEqual(t, x["q"], y["q"])

	for row := range slices.Chunk(x["k"].Float64s(), s.K) {
		sum := 0.0
		for _, e := range row {
			sum += e * e
		}
		require.InDelta(t, 1, sum, 2e-2)
	}
	for _, name := range []string{"q", "v", "initial_state"} {
		sum, n := 0.0, 0.0
		for _, e := range x[name].Float64s() {
			sum, n = sum+e*e, n+1
		}
		require.InDelta(t, 1, sum/n, 5e-2, name)
	}
	for _, w := range list {
		s, err := p.Spec(w)
		require.NoError(t, err)
		if s.Tokens > 300 {
			continue
		}
		inputs, err := p.MakeInputs(s, w, "", 2)
		require.NoError(t, err)
		cu := inputs["cu_seqlens"].Int64s()
		require.Len(t, cu, s.Seqs+1)
		for i := range s.Seqs {
			require.Less(t, cu[i], cu[i+1])
		}
		require.Equal(t, int64(s.Tokens), cu[s.Seqs])
	}
}

func TestJudge(t *testing.T) {
	s := gdn.NewSpec(1, 1, 1, 1, 1, 4)
	s.Final = false
	s.DType, s.Out = ir.BF16, ir.BF16
	want := map[string]*array.Array{"o": array.FromFloat64s(ir.F64, []int{1, 1, 1, 4}, []float64{1, 0, -100, 0.5})}
	of := func(d ir.DType, shape []int, v ...float64) []*array.Array {
		return []*array.Array{array.FromFloat64s(d, shape, v)}
	}
	shape := []int{1, 1, 1, 4}
	for _, c := range []struct {
		got    []*array.Array
		status flashinfer.Status
	}{
		{of(ir.BF16, shape, 1, 0, -100, 0.5), flashinfer.Passed},
		{of(ir.BF16, shape, 1.0078125, 0.0099, -100.5, 0.5), flashinfer.Passed}, // each within one of the bounds
		{of(ir.BF16, shape, 1.03, 0, -100, 0.5), flashinfer.IncorrectNumerical},
		{of(ir.BF16, shape, 1, 0.011, -100, 0.5), flashinfer.IncorrectNumerical},
		{of(ir.BF16, shape, 1, 0, -102, 0.5), flashinfer.IncorrectNumerical},
		{of(ir.BF16, shape, 1, math.NaN(), -100, 0.5), flashinfer.IncorrectNumerical},
		{of(ir.BF16, shape, 1, math.Inf(-1), -100, 0.5), flashinfer.IncorrectNumerical},
		{of(ir.F32, shape, 1, 0, -100, 0.5), flashinfer.IncorrectDType},
		{of(ir.BF16, []int{1, 1, 4}, 1, 0, -100, 0.5), flashinfer.IncorrectShape},
		{of(ir.F32, []int{4}, 1, 0, -100, 0.5), flashinfer.IncorrectShape},
		{nil, flashinfer.RuntimeError},
	} {
		v := flashinfer.Judge(s, c.got, want)
		require.Equal(t, c.status, v.Status, "%v", c.got)
		require.Equal(t, c.status == flashinfer.Passed || c.status == flashinfer.IncorrectNumerical, v.Correctness != nil)
		require.Equal(t, c.status == flashinfer.Passed, v.Note == "")
	}
	pass := flashinfer.Judge(s, of(ir.BF16, shape, 1.0078125, 0, -100, 0.5), want)
	fail := flashinfer.Judge(s, of(ir.BF16, shape, 1, 0, -102, 0.5), want)
	require.InDelta(t, 0.0078125, pass.Correctness.MaxAbsolute, 1e-9)
	require.InDelta(t, 0.0078125/100, pass.OfLargest, 1e-9)
	for _, v := range []flashinfer.Verdict{pass.Worse(fail), fail.Worse(pass)} {
		require.Equal(t, flashinfer.IncorrectNumerical, v.Status)
		require.Contains(t, v.Note, "1 elements are off")
		require.InDelta(t, 2, v.Correctness.MaxAbsolute, 1e-9)
	}
	nan := flashinfer.Judge(s, of(ir.BF16, shape, 1, math.NaN(), -100, 0.5), want)
	require.True(t, math.IsNaN(pass.Worse(nan).Correctness.MaxAbsolute))
	require.Equal(t, flashinfer.IncorrectShape, pass.Worse(flashinfer.Verdict{Status: flashinfer.IncorrectShape}).Status)
}

// The entry point of a solution names the arguments as the definition orders them, and what the definition fixes.
func TestProgramSolution(t *testing.T) {
	v, err := gdn.ParseVariant("cpu")
	require.NoError(t, err)
	for _, name := range []string{flashinfer.ContestDecode, flashinfer.ContestPrefill} {
		p, list := named(t, name)
		s, err := p.Spec(list[3])
		require.NoError(t, err)
		sol, err := p.ProgramSolution("x", "me", s, v.String(), nil)
		require.NoError(t, err)
		text, err := json.Marshal(sol)
		require.NoError(t, err)
		_, err = flashinfer.ParseSolution(text)
		require.NoError(t, err)
		main := sol.Sources[0].Content
		var names []string
		for _, x := range p.Inputs {
			names = append(names, x.Name)
		}
		require.Contains(t, main, fmt.Sprintf("def run(%s):", strings.Join(names, ", ")))
		require.Contains(t, main, `SPEC = "hk=4,hv=8,k=128,v=128,dtype=bf16,gates=fused,gatedtype=bf16,state=vk"`)
		require.Contains(t, main, `BACKEND = ["stablehlo"]`)
		require.NotRegexp(t, "@[A-Z]+@", main)

		v5e, err := target.Lookup("v5e")
		require.NoError(t, err)
		sol, err = p.ProgramSolution("x", "me", s, "tpu-packed", v5e)
		require.NoError(t, err)
		require.Equal(t, []string{"v5e"}, sol.Spec.TargetHardware)
		require.Contains(t, sol.Sources[0].Content, `BACKEND = ["mosaic", "--target", "v5e"]`)
		require.Contains(t, sol.Sources[0].Content, `OPTIONS = {"xla_tpu_control_large_2nd_minor_layout_for_x16": "true"}`)
	}
}
