package main

import (
	"cmp"
	"compress/gzip"
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/stretchr/testify/require"
	"golang.org/x/tools/txtar"

	"github.com/gdngen/gdngen/autotune/bench"
	"github.com/gdngen/gdngen/autotune/journal"
	"github.com/gdngen/gdngen/autotune/promoted"
	"github.com/gdngen/gdngen/autotune/ruler"
	"github.com/gdngen/gdngen/cmd/gdngen/internal/loop"
	"github.com/gdngen/gdngen/codegen/route"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/truth"
	"github.com/gdngen/gdngen/ir/array"
	"github.com/gdngen/gdngen/ir/target"
	"github.com/gdngen/gdngen/pjrt"
	"github.com/gdngen/gdngen/pjrt/aot"
	"github.com/gdngen/gdngen/pjrt/device"
	"github.com/gdngen/gdngen/pjrt/plugins"
)

func TestMain(m *testing.M) {
	aot.RunWorkerIfAsked()
	bench.RunWorkerIfAsked()
	device.RunWorkerIfAsked()
	loop.RunKeeperIfAsked()
	if os.Getenv(promoted.DirEnv) == "" { // a script has its own
		os.Setenv(promoted.DirEnv, promoted.Off)
	}
	testscript.Main(m, map[string]func(){"gdngen": main})
}

// params runs the scripts of a folder with a cache of plugins.
func params(t *testing.T, dir, cache string) testscript.Params {
	t.Helper()
	fixtures, err := filepath.Abs("../../tests/fixtures")
	require.NoError(t, err)
	traces, err := filepath.Abs("../../pjrt/trace/testdata")
	require.NoError(t, err)
	schedules, err := filepath.Abs("../../pjrt/llo/testdata")
	require.NoError(t, err)
	examples, err := filepath.Abs("../../examples")
	require.NoError(t, err)
	driver, err := filepath.Abs("../../pjrt/gpu/testdata/driver.c") // a driver of a GPU that is not there
	require.NoError(t, err)
	return testscript.Params{
		Dir: dir,
		Setup: func(e *testscript.Env) error {
			e.Setenv("FIXTURES", fixtures)
			e.Setenv("TRACES", traces)
			e.Setenv("SCHEDULES", schedules)
			e.Setenv("EXAMPLES", examples)
			e.Setenv("DRIVER", driver)
			e.Setenv(plugins.CacheEnv, cmp.Or(cache, filepath.Join(e.WorkDir, "cache")))
			e.Setenv("TMPDIR", e.WorkDir)
			e.Setenv(promoted.DirEnv, promoted.Off)
			e.Setenv(plugins.LockEnv, filepath.Join(e.WorkDir, "machine")) // what others compute is nothing to a test
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": exitsWith, "makecase": makeCase, "makespecs": makeSpecs, "poison": poison, "edit": edit, "page": pageHas, "makerun": makeRun, "record": recordRun, "samerun": sameRun, "stored": storedSchedules},
	}
}

// Scripts that need no plugin; the cache is empty.
func TestScripts(t *testing.T) { testscript.Run(t, params(t, "testdata/script", "")) }

// Scripts that compile for GPUs, by the CUDA plugin and by Triton.
func TestGPUScripts(t *testing.T) {
	_, missing := plugins.CUDA(t.Context(), plugins.Options{})
	if missing == nil {
		_, missing = plugins.Triton(t.Context(), plugins.Options{})
	}
	if missing != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(missing)
		}
		t.Skip(missing)
	}
	cache, err := plugins.CacheDir()
	require.NoError(t, err)
	testscript.Run(t, params(t, "testdata/gpu", cache))
}

// Scripts that run and compile.
func TestPluginScripts(t *testing.T) {
	for _, obtain := range []func(context.Context, plugins.Options) (plugins.Plugin, error){plugins.CPU, plugins.TPU} {
		if p, err := obtain(context.Background(), plugins.Options{}); err != nil || !pjrt.HasCgo {
			if os.Getenv("CI") == "true" {
				t.Fatalf("%v: %v (cgo: %v)", p, err, pjrt.HasCgo)
			}
			t.Skipf("%v: %v (cgo: %v)", p, err, pjrt.HasCgo)
		}
	}
	cache, err := plugins.CacheDir()
	require.NoError(t, err)
	testscript.Run(t, params(t, "testdata/plugins", cache))
}

// exitsWith STATUS ARGS... runs gdngen and demands an exit status.
func exitsWith(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 {
		ts.Fatalf("usage: exits STATUS ARGS...")
	}
	err := ts.Exec("gdngen", args[1:]...)
	status := 0
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		status = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if strconv.Itoa(status) != args[0] {
		ts.Fatalf("exit status %d, want %s", status, args[0])
	}
}

// stored DIR NAME unpacks recorded schedules of pjrt/llo into a folder.
func storedSchedules(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: stored DIR NAME")
	}
	f, err := os.Open(filepath.Join(ts.Getenv("SCHEDULES"), args[1]+".txtar.gz"))
	ts.Check(err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	ts.Check(err)
	text, err := io.ReadAll(z)
	ts.Check(err)
	ts.Check(os.MkdirAll(ts.MkAbs(args[0]), 0o755))
	for _, file := range txtar.Parse(text).Files {
		ts.Check(os.WriteFile(filepath.Join(ts.MkAbs(args[0]), file.Name), file.Data, 0o644))
	}
}

// makeRun DIR SPEC TARGET VARIANT=CYCLES... writes the journal of a run in which the variants had these in-order cycles; one named older names no
// ruler.
func makeRun(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) < 4 {
		ts.Fatalf("usage: makerun DIR SPEC TARGET VARIANT=CYCLES...")
	}
	by := ruler.InOrder
	if args[0] == "older" {
		by = ""
	}
	writeRun(ts.Check, ts.MkAbs(args[0]), args[1], args[2], by, args[3:])
}

// writeRun writes the journal of a run in which variants had some costs, each VARIANT=CYCLES, by a ruler.
func writeRun(check func(error), dir, spec, onTarget string, by ruler.Ruler, costs []string) {
	s, err := gdn.Parse(spec)
	check(err)
	target, err := target.Lookup(onTarget)
	check(err)
	j, _, err := journal.Open(dir)
	check(err)
	check(j.Append(journal.KindHeader, journal.Header{Format: journal.Format, Rules: journal.Rules, Spec: s.String(), Targets: []string{onTarget}, Ruler: by, Strategy: "exhaustive",
		Lookahead: 1, Precision: "bf16x1", Plugins: map[string]string{"libtpu": "1.2.3"}, Gates: []string{"build", "verdict"}}))
	for i, arg := range costs {
		at := strings.LastIndex(arg, "=")
		f, err := route.Resolve(s, arg[:at], target, nil)
		check(err)
		score, err := strconv.ParseInt(arg[at+1:], 10, 64)
		check(err)
		c := &journal.Candidate{ID: i + 1, Variant: f.Variant.String(), Fitted: f.Variant.Fit(s).String(), IR: arg, Hypothesis: "seed", Gate: "verdict",
			Costs: []journal.Cost{{Target: onTarget, Ruler: by, Cycles: score, Wall: score, Score: score, Schedule: arg,
				PerToken: journal.Figure(float64(score) / float64(s.Work()))}}}
		c.Verdict, c.Reason, err = j.State().Now().Rank(c)
		check(err)
		c.Cause, c.Evidence = j.State().Now().CauseOf(c)
		check(j.Append(journal.KindCandidate, c))
	}
	check(j.Close())
}

// recordRun: record DIR FILE writes the journal of a run from lines of kind and body.
func recordRun(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: record DIR FILE")
	}
	ts.Check(writeRecords(ts.MkAbs(args[0]), ts.ReadFile(args[1])))
}

// writeRecords writes the journal of a run from lines of kind and body.
func writeRecords(dir, lines string) error {
	j, _, err := journal.Open(dir)
	if err != nil {
		return err
	}
	for line := range strings.Lines(lines) {
		var r struct {
			Kind journal.Kind
			Body json.RawMessage
		}
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			return err
		}
		if err := j.Append(r.Kind, r.Body); err != nil {
			return err
		}
	}
	return j.Close()
}

// sameRun DIR DIR demands that two runs decided the same.
func sameRun(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: samerun DIR DIR")
	}
	var runs [2][]string
	for i, dir := range args {
		_, _, err := journal.Read(ts.MkAbs(dir), func(r journal.Record) error {
			if text, ok := r.Decision(); ok {
				runs[i] = append(runs[i], text)
			}
			return nil
		})
		ts.Check(err)
	}
	for i := range max(len(runs[0]), len(runs[1])) {
		if i >= len(runs[0]) || i >= len(runs[1]) || runs[0][i] != runs[1][i] {
			ts.Fatalf("%s has %d records, %s %d; they differ from record %d on", args[0], len(runs[0]), args[1], len(runs[1]), i)
		}
	}
}

// makeCase DIR SPEC CLASS writes a folder with one case named c, as Reference computes it.
func makeCase(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 3 {
		ts.Fatalf("usage: makecase DIR SPEC CLASS")
	}
	dir := ts.MkAbs(args[0])
	s, err := gdn.Parse(args[1])
	ts.Check(err)
	class, err := truth.LookupClass(args[2])
	ts.Check(err)
	f := &array.File{}
	f.Tensors, err = class.Generate(s, 1)
	ts.Check(err)
	outputs, err := truth.Reference(s, f.Tensors)
	ts.Check(err)
	for _, p := range s.Outputs() {
		f.Tensors[p.Name] = outputs[p.Name].Convert(p.Type.DType)
	}
	tensors, limits := map[string]any{}, map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(f.Tensors)) {
		stored := map[string]string{"f32": "float32", "bf16": "bfloat16", "i64": "int64"}[f.Tensors[name].Type.String()]
		tensors[name] = map[string]any{"shape": f.Tensors[name].Shape, "dtype": stored}
	}
	for _, p := range s.Outputs() {
		limits[p.Name] = map[string]float64{"f32_ratio": 1e-5}
	}
	manifest, err := json.MarshalIndent(map[string]any{"cases": []any{map[string]any{
		"name": "c", "file": "c.safetensors", "op": "gated_delta_rule", "class": "made", "scale": s.EffectiveScale(), "tensors": tensors, "tolerance": limits,
	}}}, "", " ")
	ts.Check(err)
	ts.Check(os.MkdirAll(dir, 0o755))
	ts.Check(os.WriteFile(filepath.Join(dir, truth.ManifestName), manifest, 0o644))
	ts.Check(array.WriteSafetensors(filepath.Join(dir, "c.safetensors"), f))
}

// makeSpecs DIR SPEC... writes a folder with a case of random inputs for each spec, named c1, c2 and so on.
func makeSpecs(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: makespecs DIR SPEC...")
	}
	dir := ts.MkAbs(args[0])
	ts.Check(os.MkdirAll(dir, 0o755))
	class, err := truth.LookupClass("random")
	ts.Check(err)
	var cases []any
	for i, text := range args[1:] {
		s, err := gdn.Parse(text)
		ts.Check(err)
		f := &array.File{}
		f.Tensors, err = class.Generate(s, 1)
		ts.Check(err)
		outputs, err := truth.Reference(s, f.Tensors)
		ts.Check(err)
		limits := map[string]any{}
		for _, p := range s.Outputs() {
			f.Tensors[p.Name], limits[p.Name] = outputs[p.Name].Convert(p.Type.DType), map[string]float64{"f32_ratio": 1e-4, "bf16x3_ratio": 1e-3}
		}
		tensors := map[string]any{}
		for name, x := range f.Tensors {
			tensors[name] = map[string]any{"shape": x.Shape, "dtype": map[string]string{"f32": "float32", "bf16": "bfloat16", "i64": "int64"}[x.Type.String()]}
		}
		name := fmt.Sprintf("c%d", i+1)
		cases = append(cases, map[string]any{"name": name, "file": name + ".safetensors", "op": "spec", "spec": text, "class": "random", "tensors": tensors, "tolerance": limits})
		ts.Check(array.WriteSafetensors(filepath.Join(dir, name+".safetensors"), f))
	}
	manifest, err := json.MarshalIndent(map[string]any{"cases": cases}, "", " ")
	ts.Check(err)
	ts.Check(os.WriteFile(filepath.Join(dir, truth.ManifestName), manifest, 0o644))
}

// poison FILE TENSOR VALUE sets the first element of a float32 tensor, or removes the tensor where there is no value.
func poison(ts *testscript.TestScript, _ bool, args []string) {
	path := ts.MkAbs(args[0])
	data, err := os.ReadFile(path)
	ts.Check(err)
	f, err := array.ParseSafetensors(data)
	ts.Check(err)
	if len(args) == 2 {
		delete(f.Tensors, args[1])
		f.Names = nil
	} else {
		x, err := strconv.ParseFloat(args[2], 64)
		ts.Check(err)
		values := f.Tensors[args[1]].Float32s()
		values[0] = float32(x)
		if !math.IsNaN(x) && values[0] == 0 {
			ts.Fatalf("poison wants a value that shows")
		}
		f.Tensors[args[1]] = array.FromFloat32s(f.Tensors[args[1]].Type, f.Tensors[args[1]].Shape, values)
	}
	ts.Check(array.WriteSafetensors(path, f))
}

// edit FILE OLD NEW replaces each OLD, of which there must be one, in a file.
func edit(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 3 {
		ts.Fatalf("usage: edit FILE OLD NEW")
	}
	text := ts.ReadFile(args[0])
	changed := strings.ReplaceAll(text, args[1], args[2])
	if changed == text {
		ts.Fatalf("%s holds no %q", args[0], args[1])
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(changed), 0o644))
}

// page FILE WORDS... demands a well-formed page that needs nothing else, has a picture, and holds the words.
func pageHas(ts *testscript.TestScript, _ bool, args []string) {
	text := ts.ReadFile(args[0])
	d := xml.NewDecoder(strings.NewReader(text))
	shapes := 0
	for {
		token, err := d.Token()
		if err == io.EOF {
			break
		}
		ts.Check(err)
		e, ok := token.(xml.StartElement)
		if !ok {
			continue
		}
		if e.Name.Local == "path" {
			shapes++
		}
		for _, a := range e.Attr {
			if slices.Contains([]string{"src", "href", "data", "action"}, a.Name.Local) || strings.Contains(a.Value, "url(") {
				ts.Fatalf("<%s> names something outside of the page: %s=%q", e.Name.Local, a.Name.Local, a.Value)
			}
		}
	}
	if shapes < 8 || strings.Contains(text, "ZgotmplZ") {
		ts.Fatalf("%s has %d shapes, or what the template refused", args[0], shapes)
	}
	for _, word := range args[1:] {
		if !strings.Contains(text, word) {
			ts.Fatalf("%s holds no %q", args[0], word)
		}
	}
}
