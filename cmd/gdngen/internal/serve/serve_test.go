package serve

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/autotune/journal"
	"github.com/gdngen/gdngen/autotune/ruler"
)

// writing is a run in progress: a journal that is open, with a baseline of 400 cycles.
type writing struct {
	*journal.Journal
	t   *testing.T
	dir string
}

func begin(t *testing.T) writing {
	dir := t.TempDir()
	j, _, err := journal.Open(dir)
	require.NoError(t, err)
	t.Cleanup(func() { j.Close() })
	w := writing{j, t, dir}
	require.NoError(t, j.Append(journal.KindHeader, journal.Header{Format: journal.Format, Rules: journal.Rules, Spec: "b=1,t=32,hk=1,hv=2,k=16,v=16,dtype=f32", Targets: []string{"v6e"}, Ruler: ruler.InOrder,
		Strategy: "model:4", Lookahead: 1, Precision: "bf16x1", Gates: []string{"build", "verdict"}}))
	require.NoError(t, j.Append(journal.KindBaseline, journal.Candidate{Variant: "algo=token", Gate: "verdict", Verdict: journal.Improved, Costs: cost(400)}))
	return w
}

func cost(score int64) []journal.Cost {
	return []journal.Cost{{Target: "v6e", Ruler: ruler.InOrder, Cycles: score, Wall: score, Score: score, Schedule: fmt.Sprint(score), PerToken: journal.Figure(score) / 64}}
}

// judge appends a candidate with a cost.
func (w writing) judge(score int64, variant string) {
	c := &journal.Candidate{ID: w.State().Len() + 1, Variant: variant, Fitted: variant, Cell: variant, Gate: "verdict", Costs: cost(score)}
	var err error
	c.Verdict, c.Reason, err = w.State().Now().Rank(c)
	require.NoError(w.t, err)
	require.NoError(w.t, w.AppendTimed(journal.KindCandidate, c, journal.Times{Wall: map[string]float64{"build": 2}, CPU: 3, Node: "far"}))
}

// get asks a server.
func get(t *testing.T, s *Server, method, path string, header map[string]string) *http.Response {
	r := httptest.NewRequest(method, "http://127.0.0.1:1"+path, nil)
	for k, v := range header {
		if k == "Host" {
			r.Host = v
		}
		r.Header.Set(k, v)
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w.Result()
}

func text(t *testing.T, r *http.Response) string {
	b, err := io.ReadAll(r.Body)
	require.NoError(t, err)
	return string(b)
}

// TestFollows takes a run from its header to its second candidate: what is sent grows with the journal, and nothing is sent twice.
func TestFollows(t *testing.T) {
	run := begin(t)
	s, err := New(run.dir, "127.0.0.1")
	require.NoError(t, err)
	var d data
	require.NoError(t, json.Unmarshal([]byte(text(t, get(t, s, "GET", "/data.json", nil))), &d))
	require.True(t, d.Live, "the journal is open for writing")
	require.Empty(t, d.Targets[0].Rows)
	require.Contains(t, d.Targets[0].Baseline, "no candidate has a cost yet: use auto")

	run.judge(500, "algo=chunk")
	run.judge(300, "algo=chunk,leaf=8")
	r := get(t, s, "GET", "/data.json", nil)
	require.NoError(t, json.Unmarshal([]byte(text(t, r)), &d))
	require.Len(t, d.Targets[0].Rows, 2)
	require.Equal(t, []any{1., 300. / 64, 2., "improved"}, d.Targets[0].Rows[0][:4])
	require.Contains(t, d.Targets[0].Baseline, "candidate 2 takes 25.00 % less: use it")
	require.Contains(t, d.Targets[0].Curve, `class="level"`)
	require.Equal(t, []worker{{"far", 2, 0, 4}}, d.Workers)
	require.Equal(t, []gate{{"build", 2, 0, 4}}, d.Gates)
	require.Contains(t, d.Tiles, tile{"2", "candidates"})
	require.Contains(t, d.Tiles, tile{"3s", "of processor time"})

	tag := r.Header.Get("ETag")
	require.Equal(t, http.StatusNotModified, get(t, s, "GET", "/data.json", map[string]string{"If-None-Match": tag}).StatusCode)
	require.NoError(t, run.Close())
	r = get(t, s, "GET", "/data.json", map[string]string{"If-None-Match": tag})
	require.Equal(t, http.StatusOK, r.StatusCode, "the driver has gone")
	require.NoError(t, json.Unmarshal([]byte(text(t, r)), &d))
	require.False(t, d.Live)
}

// TestGuards: nothing but its own files, only for requests that name this host, and no other host in any of them.
func TestGuards(t *testing.T) {
	run := begin(t)
	s, err := New(run.dir, "127.0.0.1")
	require.NoError(t, err)
	for _, c := range []struct {
		method, path, host string
		status             int
	}{
		{"GET", "/", "127.0.0.1:8970", 200}, {"GET", "/", "localhost:8970", 200}, {"GET", "/", "[::1]:8970", 200}, {"GET", "/page.js", "127.0.0.1", 200}, {"GET", "/page.css", "127.0.0.1", 200},
		{"GET", "/", "evil.example", 403}, {"GET", "/data.json", "evil.example:8970", 403}, {"GET", "/", "", 403},
		{"POST", "/data.json", "127.0.0.1", 405}, {"DELETE", "/", "127.0.0.1", 405},
		{"GET", "/journal.jsonl", "127.0.0.1", 404}, {"GET", "/serve.go", "127.0.0.1", 404}, {"GET", "/..%2fjournal.jsonl", "127.0.0.1", 404},
	} {
		r := get(t, s, c.method, c.path, map[string]string{"Host": c.host})
		require.Equal(t, c.status, r.StatusCode, c)
		require.Equal(t, policy, r.Header.Get("Content-Security-Policy"))
		if c.status == 200 {
			require.NotRegexp(t, regexp.MustCompile(`(?i)(https?:)?//[a-z]+\.[a-z]|@import|url\(`), text(t, r), c.path)
		}
	}
	_, err = New(t.TempDir(), "127.0.0.1")
	require.ErrorContains(t, err, "there is no run")
}

// TestDamaged: a journal that is no longer one is said to be so, and is none of the server's end.
func TestDamaged(t *testing.T) {
	run := begin(t)
	s, err := New(run.dir, "127.0.0.1")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(run.dir, journal.FileName), []byte("no journal\n"), 0o644))
	r := get(t, s, "GET", "/data.json", nil)
	require.Equal(t, http.StatusInternalServerError, r.StatusCode)
	require.Contains(t, text(t, r), "line 1")
}

// TestLoop reads a loop of two iterations.
func TestLoop(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	write("loop.json", `{"dir":"`+dir+`","branch":"faster","iterations":3}`)
	write("loop.jsonl", `{"kind":"session","at":"2026-01-02T03:04:05Z","sandbox":"namespace"}
{"kind":"end","at":"2026-01-02T03:05:05Z","iteration":1,"verdict":"keep","commit":"0123456789abcdef","figures":{"before":100,"after":80,"ratio":0.8,"pairs":1},"seconds":60,"plan":{"hypothesis":"<b>fewer</b> loads"}}
{"kind":"end","at":"2026-01-02T03:06:05Z","iteration":2,"verdict":"not-better","reason":"no better","figures":{"before":80,"after":81,"ratio":1.0125,"pairs":1},"seconds":60}
`)
	s, err := New(dir, "127.0.0.1")
	require.NoError(t, err)
	var d data
	require.NoError(t, json.Unmarshal([]byte(text(t, get(t, s, "GET", "/data.json", nil))), &d))
	require.Equal(t, "loop", d.Kind)
	require.Equal(t, "branch faster", d.Title)
	require.Len(t, d.Targets[0].Rows, 2)
	require.Equal(t, []any{1., "keep", 100., 80.}, d.Targets[0].Rows[0][:4])
	require.Contains(t, d.Tiles, tile{"80", "the figure now"})
	require.Contains(t, d.Targets[0].Curve, "<svg")
}
