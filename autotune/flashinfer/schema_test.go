package flashinfer_test

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/autotune/flashinfer"
)

func sample(t testing.TB) []byte {
	data, err := os.ReadFile("testdata/definition.json")
	require.NoError(t, err)
	return data
}

// What is read is written again: every field, in its order, those that the schema does not know included.
func TestDefinitionRoundTrip(t *testing.T) {
	texts := [][]byte{sample(t)}
	for _, name := range []string{flashinfer.ContestDecode, flashinfer.ContestPrefill, "gdn_decode_qk16_v32_d64_v_last"} {
		d, err := flashinfer.Named(name)
		require.NoError(t, err)
		text, err := flashinfer.Indent(d)
		require.NoError(t, err)
		texts = append(texts, text)
	}
	for _, text := range texts {
		d, err := flashinfer.ParseDefinition(text)
		require.NoError(t, err)
		again, err := json.Marshal(d)
		require.NoError(t, err)
		require.JSONEq(t, string(text), string(again))
		e, err := flashinfer.ParseDefinition(again)
		require.NoError(t, err)
		require.Equal(t, d, e)
		for _, order := range [][]string{{`"q"`, `"k"`, `"v"`, `"A_log"`, `"scale"`}, {`"output"`, `_state"`}} {
			at := bytes.Index(again, []byte(`"inputs"`))
			for _, name := range order {
				next := bytes.Index(again[at:], []byte(name))
				require.Positive(t, next, name)
				at += next
			}
		}
	}
}

func TestSolutionRoundTrip(t *testing.T) {
	text := `{"name": "s", "definition": "d", "author": "me", "description": "one <two> & three", "spec": {"language": "cuda", "target_hardware": ["NVIDIA_B200"],
		"entry_point": "src/k.cu::f", "dependencies": ["cutlass"], "destination_passing_style": false, "binding": "torch", "extra_flags": ["-O3"]},
		"sources": [{"path": "src/k.cu", "content": "x"}, {"path": "README", "content": "y"}], "license": "MIT"}`
	s, err := flashinfer.ParseSolution([]byte(text))
	require.NoError(t, err)
	again, err := json.Marshal(s)
	require.NoError(t, err)
	require.JSONEq(t, text, string(again))
	s, err = flashinfer.ParseSolution([]byte(strings.Replace(text, `"destination_passing_style": false, `, "", 1)))
	require.NoError(t, err)
	require.True(t, s.Spec.DestinationLast)
}

const passedTrace = `{"definition": "d", "solution": "s", "workload": {"axes": {"n": 3, "m": 0}, "uuid": "u", "note": "kept", "inputs": {
	"x": {"type": "random"}, "y": {"type": "scalar", "value": 0.08838834764831845}, "flag": {"type": "scalar", "value": true},
	"z": {"type": "safetensors", "path": "./blob/a.safetensors", "tensor_key": "z"}}},
	"evaluation": {"status": "PASSED", "environment": {"hardware": "H", "libs": {"torch": "2.6.0"}}, "timestamp": "2026-01-02T03:04:05", "log": "",
	"correctness": {"max_relative_error": 0.25, "max_absolute_error": 1e-05, "extra": {"n": 5}},
	"performance": {"latency_ms": 0.5, "reference_latency_ms": 2, "speedup_factor": 4, "profile": null}}}`

func TestTraceRoundTrip(t *testing.T) {
	for _, text := range []string{
		passedTrace,
		`{"definition": "d", "workload": {"axes": {}, "inputs": {}, "uuid": "u"}, "solution": null, "evaluation": null}`,
		`{"definition": "d", "workload": {"axes": {}, "inputs": {}, "uuid": "u"}, "solution": "s", "evaluation": {"status": "TIMEOUT", "environment": {"hardware": "H", "libs": {}},
			"timestamp": "t", "log": "slow", "correctness": null, "performance": null}}`,
		`{"definition": "d", "workload": {"axes": {}, "inputs": {}, "uuid": "u"}, "solution": "s", "evaluation": {"status": "INCORRECT_NUMERICAL", "environment": {"hardware": "H", "libs": {}},
			"timestamp": "t", "log": "", "correctness": {"max_relative_error": "Infinity", "max_absolute_error": "NaN", "extra": null}, "performance": null}}`,
	} {
		x, err := flashinfer.ParseTrace([]byte(text))
		require.NoError(t, err)
		again, err := json.Marshal(x)
		require.NoError(t, err)
		require.JSONEq(t, text, string(again))
		require.NotContains(t, string(again), "\n")
	}
	x, err := flashinfer.ParseTrace([]byte(strings.NewReplacer("0.25", `"infinity"`, "1e-05", `"nan"`).Replace(passedTrace)))
	require.NoError(t, err)
	require.True(t, math.IsInf(x.Evaluation.Correctness.MaxRelative, 1))
	require.True(t, math.IsNaN(x.Evaluation.Correctness.MaxAbsolute))
}

// Nothing but PASSED has a performance, and only it and INCORRECT_NUMERICAL have a correctness: for reading, writing and Check alike.
func TestStatusRule(t *testing.T) {
	require.Len(t, flashinfer.Statuses, 7)
	for _, status := range append(flashinfer.Statuses, "FINE") {
		for _, correct := range []bool{false, true} {
			for _, performs := range []bool{false, true} {
				e := &flashinfer.Evaluation{Status: status, Environment: flashinfer.Environment{Hardware: "H"}, Timestamp: "t"}
				if correct {
					e.Correctness = &flashinfer.Correctness{}
				}
				if performs {
					e.Performance = &flashinfer.Performance{LatencyMS: 1, ReferenceLatencyMS: 2, Speedup: 2}
				}
				good := map[flashinfer.Status]bool{flashinfer.Passed: correct && performs, flashinfer.IncorrectNumerical: correct && !performs}
				want, special := good[status]
				if !special {
					want = !correct && !performs && status != "FINE"
				}
				require.Equal(t, want, e.Check() == nil, "%s %v %v", status, correct, performs)
				w := &flashinfer.Workload{UUID: "u", Axes: map[string]int{}, Inputs: map[string]flashinfer.Input{}}
				text, err := json.Marshal(&flashinfer.Trace{Definition: "d", Solution: "s", Workload: w, Evaluation: e})
				require.Equal(t, want, err == nil)
				if want {
					_, err := flashinfer.ParseTrace(text)
					require.NoError(t, err)
				}
			}
		}
	}
	_, err := flashinfer.ParseTrace([]byte(strings.Replace(passedTrace, "PASSED", "RUNTIME_ERROR", 1)))
	require.ErrorContains(t, err, "trace.evaluation: correctness is there, which the status RUNTIME_ERROR does not have")
}

// Faults name their place.
func TestFaults(t *testing.T) {
	definition := string(sample(t))
	solution := `{"name": "s", "definition": "d", "author": "me", "spec": {"language": "python", "target_hardware": ["cpu"], "entry_point": "main.py::run"}, "sources": [{"path": "main.py", "content": "x"}]}`
	parsers := map[string]func([]byte) error{
		definition:  func(b []byte) error { _, err := flashinfer.ParseDefinition(b); return err },
		passedTrace: func(b []byte) error { _, err := flashinfer.ParseTrace(b); return err },
		solution:    func(b []byte) error { _, err := flashinfer.ParseSolution(b); return err },
	}
	for _, c := range []struct{ text, old, new, want string }{
		{definition, `"heads", "head_size"], "dtype": "bfloat16"},` + "\n" + `    "k"`, `"heds", "head_size"], "dtype": "bfloat16"},` + "\n" + `    "k"`, `definition.inputs.q.shape[2]: names the axis "heds", which definition.axes has not (it has batch_size seq_len heads`},
		{definition, `"name": "gdn_decode_small_k_last",`, ``, "definition.name: is missing"},
		{definition, `"gdn_decode_small_k_last"`, `""`, "definition.name: is empty"},
		{definition, `"gdn_decode_small_k_last"`, `7`, "definition.name: is the number 7, want a string"},
		{definition, `"tags": [`, `"tags": [1, `, "definition.tags[0]: is the number 1, want a string"},
		{definition, `{"type": "const", "value": 2}`, `{"type": "const"}`, "definition.axes.heads.value: is missing: a constant axis has one"},
		{definition, `{"type": "const", "value": 2}`, `{"type": "const", "value": 2.5}`, "definition.axes.heads.value: is 2.5, want an integer"},
		{definition, `{"type": "const", "value": 2}`, `{"type": "const", "value": -2}`, "definition.axes.heads.value: is -2, want at least 0"},
		{definition, `{"type": "const", "value": 2}`, `{"type": "constant", "value": 2}`, `definition.axes.heads.type: is "constant", want const or var`},
		{definition, `{"type": "var", "description": "sequences"}`, `{"type": "var", "value": 3}`, "definition.axes.batch_size.value: is there, but the axis is a variable one"},
		{definition, `"dtype": "float32", "description"`, `"dtype": "float", "description"`, `definition.inputs.scale.dtype: is "float", want one of float32`},
		{definition, `"shape": null`, `"shape": "x"`, "definition.inputs.scale.shape: is a string, want an array"},
		{definition, `"shape": null, `, ``, "definition.inputs.scale.shape: is missing"},
		{definition, `"final_state": {`, `"q": {`, "definition.outputs.q: is the name of an input too"},
		{definition, `def run(`, `def go(`, "definition.reference: has no top-level function run"},
		{definition, `"seq_len": {`, `"heads": {`, "definition.axes.heads is there twice"},
		{definition, `"op_type": "gdn",`, `"op_type": "gdn"`, "definition: line 5: invalid character"},
		{definition, `"since": {`, `"since": {{`, "definition: line"},
		{passedTrace, `"uuid": "u", `, ``, "trace.workload.uuid: is missing"},
		{passedTrace, `"n": 3`, `"n": "3"`, "trace.workload.axes.n: is a string, want an integer"},
		{passedTrace, `"m": 0`, `"m": -1`, "trace.workload.axes.m: is -1, want at least 0"},
		{passedTrace, `{"type": "random"}`, `{"type": "normal"}`, `trace.workload.inputs.x.type: is "normal", want random, scalar or safetensors`},
		{passedTrace, `"value": true`, `"value": "true"`, "trace.workload.inputs.flag.value: is a string, want a number or a boolean"},
		{passedTrace, `, "tensor_key": "z"`, ``, "trace.workload.inputs.z.tensor_key: is missing: a safetensors input has one"},
		{passedTrace, `{"type": "random"}`, `{"type": "random", "value": 1}`, "trace.workload.inputs.x.value: does not go with a random input"},
		{passedTrace, `"solution": "s", `, ``, "trace: has one of solution and evaluation"},
		{passedTrace, `"PASSED"`, `"OK"`, `trace.evaluation.status: is "OK", want one of PASSED INCORRECT_SHAPE`},
		{passedTrace, `"latency_ms": 0.5`, `"latency_ms": -0.5`, "trace.evaluation.performance.latency_ms: is -0.5, want a number of at least 0"},
		{passedTrace, `"latency_ms": 0.5`, `"latency_ms": "NaN"`, "trace.evaluation.performance.latency_ms: is a string"},
		{passedTrace, `"hardware": "H", `, ``, "trace.evaluation.environment.hardware: is missing"},
		{solution, `main.py::run`, `main.py`, `solution.spec.entry_point: is "main.py", want FILE::FUNCTION`},
		{solution, `main.py::run`, `other.py::run`, `solution.spec.entry_point: names the file "other.py", which solution.sources has not (it has main.py)`},
		{solution, `"python"`, `"go"`, `solution.spec.language: is "go", want one of python triton cpp cuda tilelang`},
		{solution, `["cpu"]`, `[]`, "solution.spec.target_hardware: is empty"},
		{solution, `"path": "main.py"`, `"path": "../main.py"`, "leads out of the folder"},
		{solution, `"path": "main.py"`, `"path": "/main.py"`, "is absolute"},
		{solution, `"path": "main.py"`, `"path": "main\u0000.py"`, "characters that are not shown"},
		{solution, `"content": "x"}`, `"content": "x"}, {"path": "main.py", "content": "y"}`, `solution.sources[1].path: "main.py" is there twice`},
	} {
		require.Equal(t, 1, strings.Count(c.text, c.old), c.old)
		err := parsers[c.text]([]byte(strings.Replace(c.text, c.old, c.new, 1)))
		require.ErrorContains(t, err, c.want)
	}
	for text, parse := range parsers {
		require.NoError(t, parse([]byte(text)))
		require.ErrorContains(t, parse([]byte("[]")), "is an array, want an object")
		require.ErrorContains(t, parse([]byte(text+"{}")), "more after the value")
		for cut := range len(strings.TrimSpace(text)) {
			require.Error(t, parse([]byte(text[:cut])))
		}
	}
	_, err := flashinfer.ParseDefinition([]byte(strings.NewReplacer(`"gdn_decode_small_k_last"`, `""`, `"value": 2`, `"value": true`).Replace(definition)))
	require.ErrorContains(t, err, "definition.name")
	require.ErrorContains(t, err, "definition.axes.heads.value", "all faults at once")
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"name":"d","op_type":"gdn","axes":{"n":{"type":"var"},"h":{"type":"const","value":2}},"inputs":{"q":{"shape":["n","h"],"dtype":"bfloat16"}},"outputs":{"o":{"shape":["n"],"dtype":"float32"}},"reference":"def run(q): pass"}`))
	f.Add([]byte(passedTrace))
	f.Fuzz(func(t *testing.T, data []byte) {
		if d, err := flashinfer.ParseDefinition(data); err == nil {
			text, err := json.Marshal(d)
			require.NoError(t, err)
			again, err := flashinfer.ParseDefinition(text)
			require.NoError(t, err)
			require.Equal(t, d, again)
		}
		if x, err := flashinfer.ParseTrace(data); err == nil {
			text, err := json.Marshal(x)
			require.NoError(t, err)
			_, err = flashinfer.ParseTrace(text)
			require.NoError(t, err)
		}
	})
}

func TestReadLines(t *testing.T) {
	line := strings.ReplaceAll(strings.ReplaceAll(passedTrace, "\n", ""), "\t", "")
	list, err := flashinfer.ReadLines("w.jsonl", []byte(line+"\n\n"+line+"\n"))
	require.NoError(t, err)
	require.Len(t, list, 2)
	_, err = flashinfer.ReadLines("w.jsonl", []byte(line+"\n\n"+strings.Replace(line, "PASSED", "GOOD", 1)+"\n"))
	require.ErrorContains(t, err, "w.jsonl:3: trace.evaluation.status")
}
