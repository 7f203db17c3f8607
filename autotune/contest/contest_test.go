package contest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/autotune/bench"
	"github.com/gdngen/gdngen/autotune/flashinfer"
	"github.com/gdngen/gdngen/internal/web"
)

const kernel = `import torch

@helper(1, ")")
def kernel(q, k, v, state, A_log, a, dt_bias, b, scale, output, new_state):  # q, k: bfloat16
    output.copy_(v)
`

const description = `[solution]
name = "mine"
definition = "gdn_decode_qk4_v8_d128_k_last"
author = "team"

[build]
language = "triton"
entry_point = "kernel.py::kernel"
destination_passing_style = true
dependencies = ["torch"]
`

// folder writes a solution as the starter kit lays it out.
func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		at := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(at), 0o755))
		require.NoError(t, os.WriteFile(at, []byte(text), 0o644))
	}
	return dir
}

func mine() map[string]string {
	return map[string]string{ConfigName: description, "solution/triton/kernel.py": kernel, "solution/triton/lib/help.py": "x = 1\n", "solution/triton/__pycache__/kernel.pyc": "\x00", "solution/triton/.hidden": "\xff"}
}

func TestPack(t *testing.T) {
	dir := folder(t, mine())
	s, err := Pack(dir, "", "", Set{}.Definition)
	require.NoError(t, err)
	require.Equal(t, "team", s.Author)
	require.Equal(t, []string{"kernel.py", "lib/help.py"}, []string{s.Sources[0].Path, s.Sources[1].Path})
	require.Equal(t, []string{"cuda"}, s.Spec.TargetHardware)
	text, err := flashinfer.Indent(s)
	require.NoError(t, err)
	other, err := Pack(folder(t, mine()), "", "", Set{}.Definition)
	require.NoError(t, err)
	again, err := flashinfer.Indent(other)
	require.NoError(t, err)
	require.Equal(t, string(text), string(again), "the same files give the same bytes")

	read, err := flashinfer.ParseSolution(text)
	require.NoError(t, err)
	out := t.TempDir()
	files, err := Unpack(read, out)
	require.NoError(t, err)
	require.Len(t, files, 3)
	back, err := Pack(out, "", "", Set{}.Definition)
	require.NoError(t, err)
	require.Equal(t, s, back)
	_, err = Unpack(read, out)
	require.NoError(t, err, "what is there is the same")
	require.NoError(t, os.WriteFile(filepath.Join(out, ConfigName), []byte("mine"), 0o644))
	_, err = Unpack(read, out)
	require.ErrorContains(t, err, "config.toml is there, with another content")

	named, err := Pack(dir, "", "another team", Set{}.Definition)
	require.NoError(t, err)
	require.Equal(t, "another team", named.Author)
}

func TestPackFaults(t *testing.T) {
	for name, x := range map[string]struct {
		file, old, new, fault string
	}{
		"no toml":            {ConfigName, "[solution]", "[solution", "config.toml: line 2"},
		"unknown key":        {ConfigName, "author =", "auther =", "unknown key solution.auther"},
		"unknown language":   {ConfigName, `"triton"`, `"fortran"`, `"fortran", want one of python triton`},
		"unknown definition": {ConfigName, "qk4_v8", "qk4_w8", "solution.definition: unknown definition"},
		"no such name":       {ConfigName, "gdn_decode_qk4_v8_d128_k_last", "gdn_decode", "names have the form"},
		"no file":            {ConfigName, "kernel.py::", "main.py::", `names the file "main.py"`},
		"no function":        {ConfigName, "::kernel", "::run", "no `def run` at its top level"},
		"form":               {ConfigName, "kernel.py::kernel", "kernel", "want FILE::FUNCTION"},
		"few parameters":     {"solution/triton/kernel.py", ", output, new_state", "", "with 9 inputs and 2 outputs, by destination_passing_style of gdn_decode_qk4_v8_d128_k_last, and takes 9"},
		"by value":           {ConfigName, "style = true", "style = false", "with 9 inputs of gdn_decode_qk4_v8_d128_k_last, and takes 11"},
		"inside":             {"solution/triton/kernel.py", "\ndef", "\nif 1:\n  def", "no `def kernel`"},
		"endless":            {"solution/triton/kernel.py", kernel, "def kernel(q,", "do not end"},
		"no text":            {"solution/triton/kernel.py", "import", "\xff", "no text in UTF-8"},
	} {
		t.Run(name, func(t *testing.T) {
			files := mine()
			require.Contains(t, files[x.file], x.old)
			files[x.file] = strings.Replace(files[x.file], x.old, x.new, 1)
			_, err := Pack(folder(t, files), "", "", Set{}.Definition)
			require.ErrorContains(t, err, x.fault)
		})
	}
	files := mine()
	dir := folder(t, files)
	require.NoError(t, os.Symlink("/etc/hostname", filepath.Join(dir, "solution/triton/link.py")))
	_, err := Pack(dir, "", "", Set{}.Definition)
	require.ErrorContains(t, err, "no plain file")
	require.NoError(t, os.RemoveAll(filepath.Join(dir, "solution")))
	_, err = Pack(dir, "", "", Set{}.Definition)
	require.ErrorContains(t, err, "is missing: sources of a solution lie below")
}

func TestParameters(t *testing.T) {
	for text, want := range map[string][2]int{"):": {0, 0}, "a, b):": {2, 2}, "a, b=(1, 2), *, c):": {1, 2}, "a, *rest, **more):": {1, -1}, "a: dict[str, int], /, b: str = \"x,y)\") -> None:": {1, 2},
		"\n  a,  # first, of two)\n  b,\n):": {2, 2}} {
		least, most, ok := parameters(text)
		require.True(t, ok, text)
		require.Equal(t, want, [2]int{least, most}, text)
	}
}

// TestSet: a definition of the data set comes before one that is known by its name.
func TestSet(t *testing.T) {
	d, err := flashinfer.Named(flashinfer.ContestDecode)
	require.NoError(t, err)
	d.Description = "another"
	text, err := flashinfer.Indent(d)
	require.NoError(t, err)
	root := folder(t, map[string]string{"definitions/gdn/" + d.Name + ".json": string(text)})
	got, err := Set{root}.Definition(d.Name)
	require.NoError(t, err)
	require.Equal(t, "another", got.Description)
	_, err = Set{root}.Definition("missing.json")
	require.ErrorContains(t, err, "missing.json is missing")
}

// fake is a server that evaluates at once, with faults.
type fake struct {
	t         *testing.T
	tasks     map[string][]string // workloads
	submitted int
	pending   int    // answers before a task is over
	down      int    // answers that are lost
	fail      string // text of tasks that fail
	forget    bool   // tasks
	slow      map[string]bool
	names     []string
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	d, err := flashinfer.Named(flashinfer.ContestDecode)
	require.NoError(f.t, err)
	all, err := flashinfer.ContestWorkloads(d)
	require.NoError(f.t, err)
	all = all[:10]
	give := func(v any) {
		require.NoError(f.t, json.NewEncoder(w).Encode(v))
	}
	detail := func(code int, text string) {
		w.WriteHeader(code)
		give(map[string]string{"detail": text})
	}
	switch path := r.URL.Path; {
	case path == "/health":
		give(map[string]any{"status": "ok", "workers": []map[string]any{{"device": "cuda:0", "healthy": true}}, "queue_size": 0})
	case path == "/definitions/"+d.Name:
		give(d)
	case path == "/definitions/"+d.Name+"/workloads":
		give(all)
	case strings.HasPrefix(path, "/definitions/"):
		detail(404, "Definition not found")
	case path == "/evaluate":
		var q struct {
			Solution  *flashinfer.Solution `json:"solution"`
			Workloads []string             `json:"workload_uuids"`
		}
		require.NoError(f.t, json.NewDecoder(r.Body).Decode(&q))
		f.submitted++
		id := fmt.Sprintf("task%d", f.submitted)
		f.tasks[id] = q.Workloads
		f.names = append(f.names, q.Solution.Name)
		give(map[string]string{"task_id": id, "normalized_solution_name": q.Solution.Name + "_1"})
	case strings.HasPrefix(path, "/tasks/"):
		id := strings.TrimPrefix(path, "/tasks/")
		require.NotEmpty(f.t, r.URL.Query().Get("timeout"))
		switch {
		case f.forget || f.tasks[id] == nil:
			detail(404, "Task not found: "+id)
		case f.down > 0:
			f.down--
			panic(http.ErrAbortHandler)
		case f.pending > 0:
			f.pending--
			give(map[string]any{"task_id": id, "status": "running"})
		case f.fail != "":
			give(map[string]any{"task_id": id, "status": "failed", "error": f.fail})
		default:
			var traces []any
			for i, u := range f.tasks[id] {
				e := &flashinfer.Evaluation{Status: flashinfer.Passed, Environment: flashinfer.Environment{Hardware: "B200", Libs: map[string]string{}}, Timestamp: "2026-01-01T00:00:00Z",
					Correctness: &flashinfer.Correctness{}, Performance: &flashinfer.Performance{LatencyMS: 1, ReferenceLatencyMS: float64(i + 1), Speedup: float64(i + 1)}}
				if f.slow[u] {
					e.Status, e.Correctness, e.Performance, e.Log = flashinfer.Timeout, nil, nil, "late"
				}
				for _, x := range all {
					if x.UUID == u {
						traces = append(traces, &flashinfer.Trace{Definition: d.Name, Solution: f.names[0] + "_1", Workload: x, Evaluation: e})
					}
				}
			}
			give(map[string]any{"task_id": id, "status": "completed", "traces": traces})
		}
	default:
		detail(404, "Not Found")
	}
}

func sweep(t *testing.T, f *fake, dir, name string, retry bool) (*bench.Item, *bench.Store, error) {
	t.Helper()
	if f.tasks == nil {
		f.tasks = map[string][]string{}
	}
	f.t = t
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	s, err := Dial(Prefix + server.URL)
	require.NoError(t, err)
	h, err := s.Health(t.Context())
	require.NoError(t, err)
	require.True(t, h.Workers[0].Healthy)
	sol, err := Pack(folder(t, mine()), "", "", Set{}.Definition)
	require.NoError(t, err)
	sol.Name = name
	store, err := bench.OpenStore(dir, bench.Protocol{Server: "fib"})
	require.NoError(t, err)
	store.Author = sol.Author
	t.Cleanup(func() { store.Close() })
	it, err := (&Sweep{Server: s, Solution: sol, Retry: retry}).Run(t.Context(), store)
	require.NoError(t, store.Close())
	return it, store, err
}

func TestSweep(t *testing.T) {
	was, pause := askFor, between
	askFor, between = time.Second, time.Millisecond
	defer func() { askFor, between = was, pause }()
	dir := t.TempDir()
	f := &fake{pending: 2, down: 3}
	it, store, err := sweep(t, f, dir, "mine", false)
	require.NoError(t, err)
	require.Equal(t, 2, f.submitted, "ten workloads, eight in a task")
	require.Len(t, it.Workloads, 10)
	rows := bench.Summary([]bench.Item{*it}, store)
	sum := rows[len(rows)-1]
	require.Equal(t, 10, sum.Passed)
	require.InDelta(t, (36.+3)/10, sum.MeanUp, 1e-9, "arithmetic: 1 to 8, then 1 and 2")
	require.Equal(t, "mine", store.Done(it.Definition.Name, "mine", it.Workloads[0].UUID).Solution, "not the server's name")
	require.FileExists(t, filepath.Join(dir, "traces/team/gdn/"+it.Definition.Name+".jsonl"))
	require.NoFileExists(t, filepath.Join(dir, taskName))

	f = &fake{}
	_, _, err = sweep(t, f, dir, "mine", false)
	require.NoError(t, err)
	require.Zero(t, f.submitted, "nothing is asked anew")

	f = &fake{slow: map[string]bool{it.Workloads[0].UUID: true}}
	it, store, err = sweep(t, f, dir, "other", false)
	require.NoError(t, err)
	failed, hardware := bench.Failed([]bench.Item{*it}, store)
	require.Equal(t, 1, failed)
	require.Equal(t, "B200", hardware)
	scores, err := bench.Scores(dir)
	require.NoError(t, err)
	require.Len(t, scores, 3)
	require.Equal(t, bench.Best, scores[0].Solution)
	require.Equal(t, 10, scores[0].Passed)
	for _, s := range scores {
		if s.Solution == "other" {
			require.Equal(t, 9, s.Passed)
			require.InDelta(t, (35.+3)/9, s.Mean, 1e-9)
		}
	}
	f = &fake{}
	_, _, err = sweep(t, f, dir, "other", true)
	require.NoError(t, err)
	require.Len(t, f.tasks["task1"], 1, "the one that did not pass")
}

// TestSweepAfterKill: a task that was under way is waited for; one that the server forgot is done again.
func TestSweepAfterKill(t *testing.T) {
	was, pause, most := askFor, between, asked
	askFor, between, asked = time.Second, time.Millisecond, 3
	defer func() { askFor, between, asked = was, pause, most }()
	dir := t.TempDir()
	f := &fake{down: 100}
	_, _, err := sweep(t, f, dir, "mine", false)
	bad := (*ServerError)(nil)
	require.ErrorAs(t, err, &bad)
	require.FileExists(t, filepath.Join(dir, taskName))
	require.Equal(t, 1, f.submitted)

	f.forget, f.down = false, 0
	text, err := os.ReadFile(filepath.Join(dir, taskName))
	require.NoError(t, err)
	server := httptest.NewServer(f)
	defer server.Close()
	var had underWay
	require.NoError(t, json.Unmarshal(text, &had))
	had.Server = server.URL // the same server, which listens elsewhere in this test
	text, err = json.Marshal(had)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, taskName), text, 0o644))
	sol, err := Pack(folder(t, mine()), "", "", Set{}.Definition)
	require.NoError(t, err)
	store, err := bench.OpenStore(dir, bench.Protocol{Server: "fib"})
	require.NoError(t, err)
	defer store.Close()
	s, err := Dial(Prefix + server.URL)
	require.NoError(t, err)
	_, err = (&Sweep{Server: s, Solution: sol}).Run(t.Context(), store)
	require.NoError(t, err)
	require.Equal(t, 2, f.submitted, "the second task alone is new")

	f = &fake{fail: "no GPU"}
	_, _, err = sweep(t, f, t.TempDir(), "mine", false)
	require.ErrorContains(t, err, "failed on the server: no GPU")
}

func TestDial(t *testing.T) {
	for _, place := range []string{"fib:gpu:8000", "http://gpu", "fib:", "fib:http://gpu?x=1"} {
		_, err := Dial(place)
		require.ErrorContains(t, err, "such as fib:http://gpu:8000", place)
	}
	s, err := Dial("fib:http://127.0.0.1:1/")
	require.NoError(t, err)
	_, err = s.Health(t.Context())
	require.ErrorContains(t, err, "is `flashinfer-bench serve` running there?")
}

// A server that lies, sends what was not asked for, is silent, sends without end, or is never done: an error within limits, and no trace.
func TestHostileServer(t *testing.T) {
	was, pause, times, longest := askFor, between, asked, most
	askFor, between, asked, most = 10*time.Millisecond, time.Millisecond, 1, time.Second
	defer func() { askFor, between, asked, most = was, pause, times, longest }()
	sol, err := Pack(folder(t, mine()), "", "", Set{}.Definition)
	require.NoError(t, err)
	for name, says := range map[string]string{
		"other": "was not asked for", "faster": "contradicts itself", "negative": "want a number of at least 0", "definition": "which was not asked for", "running": "it is not over after 1s", "unknown": "unknown status",
		"silent": "timeout awaiting response headers", "half": "nothing came for", "endless": "more than 268435456 bytes came", "garbage": "no JSON of the kind", "escape": "boo", "redirect": "POST",
	} {
		t.Run(name, func(t *testing.T) {
			if most = time.Second; name == "silent" || name == "half" || name == "endless" {
				most = time.Minute // the client's limits come first
			}
			f := &fake{t: t, tasks: map[string][]string{}}
			done := make(chan struct{})
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if name == "redirect" && r.URL.Path == "/evaluate" {
					http.Redirect(w, r, "http://localhost:1/", http.StatusFound)
					return
				}
				if !strings.HasPrefix(r.URL.Path, "/tasks/") {
					f.ServeHTTP(w, r)
					return
				}
				switch name {
				case "silent":
					<-done
				case "half":
					w.Write([]byte("{"))
					w.(http.Flusher).Flush()
					<-done
				case "endless":
					for err := error(nil); err == nil; {
						_, err = w.Write(make([]byte, 1<<20))
					}
				case "garbage":
					w.Write([]byte("<html>"))
				case "unknown":
					w.Write([]byte(`{"status":"\u001b[2Jsplendid"}`))
				case "running":
					w.Write([]byte(`{"status":"running"}`))
				case "escape":
					w.WriteHeader(500)
					w.Write([]byte("\x1b]0;own\a boo"))
				default:
					a := httptest.NewRecorder()
					f.ServeHTTP(a, r)
					var said map[string]any
					require.NoError(t, json.Unmarshal(a.Body.Bytes(), &said))
					trace := said["traces"].([]any)[0].(map[string]any)
					p := trace["evaluation"].(map[string]any)["performance"].(map[string]any)
					switch name {
					case "other", "definition":
						trace["workload"].(map[string]any)["uuid"] = "../../other"
					case "faster":
						p["speedup_factor"] = 1000.
					case "negative":
						p["latency_ms"] = -1.
					}
					require.NoError(t, json.NewEncoder(w).Encode(said))
				}
			}))
			t.Cleanup(server.Close)
			t.Cleanup(func() { close(done); server.CloseClientConnections() })
			s, err := Dial(Prefix + server.URL)
			require.NoError(t, err)
			s.http = web.New(web.Limits{Headers: time.Second, Silence: time.Second})
			dir := t.TempDir()
			store, err := bench.OpenStore(dir, bench.Protocol{Server: "fib"})
			require.NoError(t, err)
			defer store.Close()
			begun := time.Now()
			_, err = (&Sweep{Server: s, Solution: sol}).Run(t.Context(), store)
			require.ErrorContains(t, err, says)
			require.Less(t, time.Since(begun), 15*time.Second)
			require.NoFileExists(t, filepath.Join(dir, "traces", "team", "gdn", sol.Definition+".jsonl"))
		})
	}
}
