package trace

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func open(t *testing.T, name string) *Trace {
	t.Helper()
	x, err := Open(t.Context(), filepath.Join("testdata", name))
	require.NoError(t, err)
	return x
}

func sum(t *testing.T, name string, q Query) *Summary {
	t.Helper()
	s, err := open(t, name).Sum(q)
	require.NoError(t, err)
	return s
}

// errorText reads the output of XProf's command line for a fixture; testdata/make.py has the commands.
func errorText(t *testing.T, name string, rows any) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name+".xprof.json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(data, rows))
}

// What XProf says of each instruction of a TPU: name, kind, scope, count, time and self time.
func TestAsXProfSaysTPU(t *testing.T) {
	for _, name := range []string{"tpu-before", "tpu-after"} {
		var want []struct {
			OpName      string `json:"op_name"`
			Category    string
			Scope       string `json:"tf_op_name"`
			Occurrences int
			Total       float64 `json:"total_time_us"`
			Self        float64 `json:"total_self_time_us"`
		}
		errorText(t, name, &want)
		s := sum(t, name+".xplane.pb", Query{Warmup: -1})
		require.Len(t, s.Rows, len(want))
		rows := byName(s.Rows)
		for _, w := range want {
			r := rows[strings.TrimPrefix(w.OpName, "%")]
			require.NotNil(t, r, w.OpName)
			require.Equal(t, w.Category, r.Category)
			require.Equal(t, strings.TrimSuffix(w.Scope, ":"), r.Scope)
			require.Equal(t, w.Occurrences, r.Count, w.OpName)
			require.InDelta(t, w.Total, r.Total/1e6, 1e-9, w.OpName)
			require.InDelta(t, w.Self, r.Self/1e6, 1e-9, w.OpName)
		}
	}
}

// What XProf says of each event of a CPU, which has no self times there: count and time to the picosecond, in both forms of the trace.
func TestAsXProfSaysCPU(t *testing.T) {
	var want []struct {
		Event string
		Count int
		Total float64 `json:"total_duration_ps"`
	}
	errorText(t, "cpu", &want)
	totals := map[string]float64{}
	counts := map[string]int{}
	for _, w := range want {
		totals[w.Event], counts[w.Event] = w.Total, w.Count
	}
	for _, form := range []string{"cpu.xplane.pb", "cpu.trace.json.gz"} {
		s := sum(t, form, Query{Warmup: -1})
		require.NotEmpty(t, s.Rows)
		for _, r := range s.Rows {
			require.Equal(t, counts[r.Name], r.Count, "%s: %s", form, r.Name)
			require.InDelta(t, totals[r.Name], r.Total, 0, "%s: %s", form, r.Name)
		}
		require.Equal(t, 6, s.Steps.Count)
		require.Equal(t, "annotations of the host", s.Steps.From)
	}
	// An XSpace holds the programs, and so the scopes of instructions that events only name.
	rows := byName(sum(t, "cpu.xplane.pb", Query{By: "scope", Warmup: -1}).Rows)
	require.Contains(t, rows, "jit(step)/products/dot_general")
}

// The example of the package's documentation: what is inside an event is not its own time.
func TestSelfTimes(t *testing.T) {
	l := &Line{Events: []Event{{0, 30, nil}, {0, 5, nil}, {5, 20, nil}, {30, 10, nil}, {40, 0, nil}, {50, 10, nil}, {55, 10, nil}}}
	require.Equal(t, []int64{5, 5, 20, 10, 0, 5, 10}, l.selfTimes())
}

func TestSteps(t *testing.T) {
	s := sum(t, "tpu-before.xplane.pb", Query{Warmup: -1})
	require.Equal(t, 8, s.Steps.Count)
	require.Equal(t, 2, s.Steps.Warmup)
	require.Equal(t, []string{"/device:TPU:0"}, s.Devices)
	require.Equal(t, "TPU v6 lite", s.Facts["device_type_string"])
	require.Equal(t, 3e6, s.Steps.Gap.Median, "3 us in which nothing runs")
	require.Equal(t, 8, s.Async.Count)
	// Steps 2 to 7 are 42.500019 us and three times 1 to 7 ns, of steps 2 to 7.
	require.Equal(t, 42_500_019+3*4_500., s.Steps.Time.Median)
	require.Equal(t, 42_500_019+3*2_500., s.Steps.Time.Low)
	require.Equal(t, 42_500_019+3*6_500., s.Steps.Time.High)
	rule := byName(s.Rows)["gated_delta_rule.1"]
	require.Equal(t, 20_000_011+4_500., rule.Step.Median)
	all := sum(t, "tpu-before.xplane.pb", Query{Warmup: 0})
	require.Greater(t, all.Steps.Time.High, s.Steps.Time.High, "the first step is slow")
	few := sum(t, "tpu-before.xplane.pb", Query{Warmup: 6})
	require.Contains(t, strings.Join(few.Warnings, "\n"), "only 2 steps count")
	none := sum(t, "tpu-before.xplane.pb", Query{Warmup: 99})
	require.Zero(t, none.Steps.Time)
}

// The pattern of many tries: a kernel gets faster, and the step does not, since something around it grew.
func TestDiff(t *testing.T) {
	groups, err := ParseGroups("rule=gdn;projections=project")
	require.NoError(t, err)
	d, err := Diff(open(t, "tpu-before.xplane.pb"), open(t, "tpu-after.xplane.pb"), Query{Warmup: -1})
	require.NoError(t, err)
	require.Equal(t, "gated_delta_rule.1", d.Rows[0].Name)
	require.InDelta(t, -8_000_006, d.Rows[0].Delta, 1)
	rows := map[string]*Change{}
	for _, c := range d.Rows {
		rows[c.Name] = c
	}
	require.Equal(t, "new", rows["copy.7"].State)
	require.InDelta(t, 6_000_000, rows["copy.7"].Delta, 1)
	require.InDelta(t, 0, d.Regression(), 1e-5)
	back, err := Diff(open(t, "tpu-after.xplane.pb"), open(t, "tpu-before.xplane.pb"), Query{By: "group", Groups: groups, Warmup: -1})
	require.NoError(t, err)
	require.Equal(t, "rule", back.Rows[0].Name)
	_, err = Diff(open(t, "tpu-before.xplane.pb"), open(t, "tpu-before.xplane.pb"), Query{})
	require.ErrorContains(t, err, "the same bytes")
	other, err := Diff(open(t, "tpu-before.xplane.pb"), open(t, "cpu.xplane.pb"), Query{Warmup: -1})
	require.NoError(t, err)
	require.Contains(t, strings.Join(other.Warnings, "\n"), "steps: 8 before, 6 after")
}

func TestBudget(t *testing.T) {
	groups, err := ReadGroups([]byte(`{"rule": "gdn", "control flow": "^while", "projections": "project"}`))
	require.NoError(t, err)
	b, err := Divide(open(t, "tpu-after.xplane.pb"), open(t, "tpu-before.xplane.pb"), Query{Groups: groups, Warmup: -1})
	require.NoError(t, err)
	var names []string
	parts := 0.
	for _, e := range b.Rows {
		names = append(names, e.Name)
		if e.Name != "step" {
			parts += e.Time
		}
	}
	require.Equal(t, []string{"rule", "control flow", "projections", "other", "gaps", "step"}, names)
	require.InDelta(t, b.Rows[5].Time, parts, 1, "steps are alike here, so parts add up")
	require.InDelta(t, 2e6, *b.Rows[1].Above, 1, "what the new loop takes itself")
	require.Equal(t, 10e6, b.Rows[2].Time)
}

func TestMFU(t *testing.T) {
	u, err := MFU(open(t, "tpu-before.xplane.pb"), Query{Warmup: -1}, Work{Flops: 1e10, Tokens: 4096})
	require.NoError(t, err)
	seconds := 42.513519e-6
	require.InDelta(t, 1e10/(seconds*918e12), u.MFU, 1e-6)
	require.InDelta(t, 4096/seconds, u.Tokens, 1e3)
	require.Equal(t, 2_000_008_000., u.TraceFlops)
	require.Equal(t, "the trace", u.PeakFrom)
	two, err := MFU(open(t, "tpu-before.xplane.pb"), Query{Warmup: -1}, Work{Flops: 1e10, Chips: 2})
	require.NoError(t, err)
	require.InDelta(t, u.MFU/2, two.MFU, 1e-12)
	_, err = MFU(open(t, "cpu.xplane.pb"), Query{Warmup: -1}, Work{Flops: 1e10})
	require.ErrorContains(t, err, "name it by --target")
}

func TestStages(t *testing.T) {
	report := `{"module": {"spec": "bench"}, "targets": [{"target": "v6e", "report": {"ops": [
		{"name": "gated_delta_rule.5", "cycles": 80, "wall": {"cycles": 100}, "locations": [{"file": "state.c0.h1", "line": 1, "cycles": 40, "wait": 20}, {"file": "solve", "cycles": 30}, {"file": "state", "line": 2, "cycles": 5}, {"file": "-", "cycles": 3}]}]}}]}`
	st, err := ReadStages([]byte(report), "")
	require.NoError(t, err)
	s := sum(t, "tpu-before.xplane.pb", Query{By: "stage", Stages: st, Warmup: -1})
	rows, kernel := byName(s.Rows), byName(sum(t, "tpu-before.xplane.pb", Query{Warmup: -1}).Rows)["gated_delta_rule.1"]
	require.InDelta(t, .65*kernel.Self, rows["gated_delta_rule / state"].Self, 1)
	require.InDelta(t, .05*kernel.Self, rows["gated_delta_rule / (kernel)"].Self, 1)
	require.Contains(t, rows, "other ops")
	var out bytes.Buffer
	s.Write(&out, 0)
	require.Contains(t, out.String(), "MEASURED X STATIC SHARE")
	for text, want := range map[string]string{"[]": "no JSON of gdngen explain", "{}": "no targets",
		`{"targets": [{"target": "v5e"}, {"target": "v6e"}]}`: "v5e, v6e: name one", `{"targets": [{"target": "v6e", "report": {}}]}`: "no op of the report has locations"} {
		_, err := ReadStages([]byte(text), "")
		require.ErrorContains(t, err, want)
	}
}

// A file that is cut off anywhere, or is something else, ends in one line that says so, and never in a panic or in less than it had.
func TestDamaged(t *testing.T) {
	dir := t.TempDir()
	whole, err := os.ReadFile("testdata/tpu-after.xplane.pb")
	require.NoError(t, err)
	write := func(name string, b []byte) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, b, 0o644))
		return path
	}
	for n := 1; n < len(whole)-10; n += 7 { // the last field is the host's name
		_, err := decode(t.Context(), bytes.NewReader(whole[:n]))
		require.ErrorAs(t, err, new(*damage), "%d bytes", n)
		require.Regexp(t, `cut off|has no planes|an XSpace`, err.Error())
	}
	_, err = Open(t.Context(), write("cut.xplane.pb", whole[:len(whole)/2]))
	require.Regexp(t, `cut.xplane.pb: cut off.* \(at byte \d+\)$`, err.Error())
	zip, err := os.ReadFile("testdata/cpu.trace.json.gz")
	require.NoError(t, err)
	for name, c := range map[string]struct {
		data []byte
		want string
	}{
		"empty":   {nil, "the file is empty"},
		"text":    {[]byte("hello, this is no trace at all\n"), "nor an XSpace"},
		"page":    {[]byte("<!DOCTYPE html>"), "no trace: a page in HTML or XML"},
		"pointer": {[]byte("version https://git-lfs.github.com/spec/v1\n"), "no trace: a pointer of Git LFS in place of the file: fetch it by git lfs pull"},
		"elf":     {[]byte("\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00"), "nor an XSpace"},
		"json":    {[]byte(`{"a": [1, 2], "b": {}}`), "the JSON has no traceEvents"},
		"list":    {[]byte(`{"traceEvents": 7}`), "traceEvents is no list"},
		"broken":  {[]byte(`{"traceEvents": [{"ph": "X", "ts": "soon"}]}`), "not a trace"},
		"cutjson": {[]byte(`{"traceEvents": [{"ph": "X", "ts": 1},`), "ends too early, after 1 events"},
		"cutgzip": {zip[:len(zip)/2], "the gzip stream ends too early"},
		"gzip":    {[]byte("\x1f\x8b\x08\x00 no more"), "gzip"},
		// A trace of Perfetto's own format: packets, whose first field is a message.
		"perfetto": {[]byte{0x0a, 0x05, 0x0a, 0x03, 'a', 'b', 'c'}, "no XSpace: field 1 of a plane is of another type there (at byte 2)"},
	} {
		_, err := Open(t.Context(), write(name, c.data))
		require.ErrorAs(t, err, new(*FileError), name)
		require.ErrorContains(t, err, c.want, name)
		require.NotContains(t, err.Error(), "\n", name)
	}
	_, err = Open(t.Context(), filepath.Join(dir, "none"))
	require.ErrorIs(t, err, os.ErrNotExist)
	require.NoError(t, os.Mkdir(filepath.Join(dir, "hollow"), 0o755))
	_, err = Open(t.Context(), filepath.Join(dir, "hollow"))
	require.ErrorContains(t, err, "no trace in this folder")
}

// A trace of as many events as the converter writes is cut: the report says so, and shows no shares.
func TestCut(t *testing.T) {
	defer func(n int) { mostEvents = n }(mostEvents)
	mostEvents = 1000
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	fmt.Fprint(z, `{"traceEvents":[{"ph":"M","pid":3,"name":"process_name","args":{"name":"/device:TPU:0"}},{"ph":"M","pid":3,"tid":1,"name":"thread_name","args":{"name":"XLA Ops"}}`)
	fmt.Fprint(z, `,{"ph":"C","pid":3,"ts":0,"name":"bytes","args":{"n":1}}`)
	for i := range mostEvents - 1 {
		fmt.Fprintf(z, `,{"ph":"X","pid":3,"tid":1,"ts":%d,"dur":1,"name":"a"}`, i)
	}
	fmt.Fprint(z, "]}")
	require.NoError(t, z.Close())
	path := filepath.Join(t.TempDir(), "x.trace.json.gz")
	require.NoError(t, os.WriteFile(path, b.Bytes(), 0o644))
	x, err := Open(t.Context(), path)
	require.NoError(t, err)
	s, err := x.Sum(Query{})
	require.NoError(t, err)
	require.True(t, s.Cut)
	require.Zero(t, s.Rows[0].Share)
	require.Contains(t, strings.Join(s.Warnings, "\n"), "this trace is cut")
}

// Of a folder the newest run counts, all its hosts, and XSpaces before JSON.
func TestFolder(t *testing.T) {
	dir := t.TempDir()
	put := func(from, to string) {
		data, err := os.ReadFile(filepath.Join("testdata", from))
		require.NoError(t, err)
		path := filepath.Join(dir, "plugins", "profile", to)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, data, 0o644))
	}
	put("tpu-before.xplane.pb", "2026_11_22_10_00_00/a.xplane.pb")
	put("tpu-after.xplane.pb", "2026_11_22_10_00_00/b.xplane.pb")
	put("cpu.trace.json.gz", "2026_11_22_10_00_00/a.trace.json.gz")
	put("cpu.xplane.pb", "2026_11_22_09_59_59/a.xplane.pb") // written later, and older
	x, err := Open(t.Context(), dir)
	require.NoError(t, err)
	require.Len(t, x.Files, 2)
	s, err := x.Sum(Query{Warmup: -1})
	require.NoError(t, err)
	require.Len(t, s.Devices, 2)
	require.Equal(t, 16, byName(s.Rows)["gated_delta_rule.1"].Count)
}

func TestQueries(t *testing.T) {
	x := open(t, "tpu-before.xplane.pb")
	for _, k := range Keys[:5] {
		s, err := x.Sum(Query{By: k[0]})
		require.NoError(t, err, k[0])
		require.InDelta(t, 1, func() (sum float64) {
			for _, r := range s.Rows {
				sum += r.Share
			}
			return
		}(), 1e-12)
	}
	for q, want := range map[*Query]string{{By: "mood"}: "want op, category", {By: "group"}: "groups are needed", {By: "stage"}: "static shares",
		{Line: "Ops"}: `no line "Ops" in this trace; its lines are Async XLA Ops, Steps, XLA Modules, XLA Ops`} {
		_, err := x.Sum(*q)
		require.ErrorContains(t, err, want)
	}
	for text, want := range map[string]string{"a": "want NAME=REGEXP", "a=(": "group a", ";": "no groups"} {
		_, err := ParseGroups(text)
		require.ErrorContains(t, err, want)
	}
	for text, want := range map[string]string{"[]": "want an object", `{"a": 3}`: "group a", `{"a": "("}`: "group a", "{}": "no groups", `{"a": "b"`: "EOF"} {
		_, err := ReadGroups([]byte(text))
		require.ErrorContains(t, err, want)
	}
	modules := sum(t, "tpu-before.xplane.pb", Query{Line: "XLA Modules"})
	require.Equal(t, "jit_step(77)", modules.Rows[0].Name)
}

// Two programs have an instruction of one name: each has its own row, scope and module. Files whose names begin with
// two- are of a training and an evaluation; those with one- of two programs of one name, for two shapes.
func TestPrograms(t *testing.T) {
	shares := func(name string, q Query) map[string]string {
		q.Warmup = -1
		m := map[string]string{}
		for _, r := range sum(t, name, q).Rows {
			m[r.Name] = fmt.Sprintf("%.0f%% %s", 100*r.Share, strings.TrimSpace(r.Scope))
		}
		return m
	}
	require.Equal(t, map[string]string{"fusion.2 (jit_evaluate)": "90% jit(evaluate)/attention/dot_general", "fusion.2 (jit_train)": "10% jit(train)/gdn/mul"},
		shares("two-tpu.xplane.pb", Query{}))
	require.Equal(t, map[string]string{"jit_evaluate": "90% ", "jit_train": "10% "}, shares("two-tpu.xplane.pb", Query{By: "module"}))
	require.Equal(t, map[string]string{"jit_step": "100% "}, shares("tpu-before.xplane.pb", Query{By: "module"}), "which names no program but by its calls")
	groups, err := ParseGroups("rule=gdn;attention=attention")
	require.NoError(t, err)
	b, err := Divide(open(t, "two-tpu.xplane.pb"), nil, Query{Groups: groups, Warmup: -1})
	require.NoError(t, err)
	require.InDelta(t, 1./10, b.Rows[0].Share, 1e-9)
	require.InDelta(t, 9./10, b.Rows[1].Share, 1e-9)

	for _, name := range []string{"two-cpu", "one-cpu"} {
		scopes := sum(t, name+".xplane.pb", Query{By: "scope", Warmup: -1})
		require.Len(t, scopes.Rows, 2, name)
		require.Contains(t, scopes.Rows[0].Name, "eval/attention", "the large one takes most")
		require.Greater(t, scopes.Rows[0].Share, .7)
		require.Contains(t, scopes.Rows[1].Name, "train/gdn")
	}
	ops := byName(sum(t, "one-cpu.xplane.pb", Query{Warmup: -1}).Rows)
	require.Len(t, ops, 2)
	require.Contains(t, ops["tanh_multiply_fusion (jit_step, 1 of 2)"].Scope, "train/gdn")
	require.Contains(t, ops["tanh_multiply_fusion (jit_step, 2 of 2)"].Scope, "eval/attention")
	modules := shares("one-cpu.xplane.pb", Query{By: "module"})
	require.Len(t, modules, 2)
	require.Contains(t, modules, "jit_step, 2 of 2")

	d, err := Diff(open(t, "one-cpu.xplane.pb"), open(t, "two-cpu.xplane.pb"), Query{Warmup: -1})
	require.NoError(t, err)
	require.Len(t, d.Rows, 4, "other programs: none is taken for another")
}

// Programs of two hosts have numbers of their own.
func TestProgramsOfHosts(t *testing.T) {
	tables := scopeTables{{"a", "jit_step", "6"}: {"dot": {Scope: "small"}}, {"b", "jit_step", "6"}: {"dot": {Scope: "large"}}, {"b", "jit_step", "8"}: {"dot": {Scope: "other"}}}
	require.Equal(t, "small", tables.find(program{"a", "jit_step", "6"}, "dot").Scope)
	require.Equal(t, "large", tables.find(program{"b", "jit_step", "6"}, "dot").Scope)
	require.Equal(t, "other", tables.find(program{"a", "jit_step", "8"}, "dot").Scope, "the same program on another host")
	require.Nil(t, tables.find(program{"a", "jit_step", ""}, "dot"), "which of three is not known")
	require.Nil(t, tables.find(program{"a", "jit_step", "6"}, "exp"))
	require.Nil(t, tables.find(program{"c", "jit_other", "6"}, "dot"))
}

// The path of an instruction on a GPU may be in the stat name, where tf_op says no more than that there is a program.
func TestScopesOfGPU(t *testing.T) {
	rows := byName(sum(t, "gpu.xplane.pb", Query{By: "scope", Warmup: -1}).Rows)
	require.Len(t, rows, 2)
	require.InDelta(t, 5./7, rows["jit(step)/layer/gdn/dot_general"].Share, 1e-9)
	require.Contains(t, rows, "jit(step)/layer/mlp/add")
}

// A trace of PyTorch's profiler is told from one without instructions, in whole sentences.
func TestKineto(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.trace.json")
	for text, want := range map[string]string{
		`{"schemaVersion": 1, "traceEvents": [{"ph": "X", "pid": 0, "tid": 7, "ts": 1, "dur": 2, "name": "gemm", "cat": "kernel"}]}`: "a trace of PyTorch's profiler (Kineto): none of its events is an instruction of XLA, and its lines have no names. Take one by --line, or give a trace of jax.profiler",
		`{"traceEvents": [{"ph": "X", "pid": 0, "tid": 7, "ts": 1, "dur": 2, "name": "gemm"}]}`:                                      "and no event names its instruction; its lines have no names",
	} {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
		x, err := Open(t.Context(), path)
		require.NoError(t, err)
		_, err = x.Sum(Query{})
		require.ErrorContains(t, err, want)
	}
}

// Lines of any bytes are read or refused.
func FuzzRead(f *testing.F) {
	for _, name := range []string{"tpu-before.xplane.pb", "cpu.trace.json.gz"} {
		data, err := os.ReadFile(filepath.Join("testdata", name))
		require.NoError(f, err)
		f.Add(data[:min(len(data), 600)]) // small: Go would spend its time on making it so
	}
	f.Add([]byte(`{"traceEvents":[{"ph":"M","pid":1,"name":"process_name","args":{"name":"/device:TPU:0"}},{"ph":"X","pid":1,"tid":1,"ts":1,"dur":1,"name":"a"}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if x, err := decode(t.Context(), bytes.NewReader(data)); err == nil {
			x.describe()
			x.Sum(Query{Warmup: -1})
		}
	})
}
