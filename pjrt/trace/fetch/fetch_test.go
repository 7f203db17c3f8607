package fetch

import (
	"crypto/sha1"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gdngen/gdngen/internal/web"
	"github.com/stretchr/testify/require"
)

// fakeHub is a server of Hugging Face with one repository of data sets. Large files have a sha256 in its list, others git's hash.
type fakeHub struct {
	files map[string]string
	token string
	cut   atomic.Int32 // downloads that end too early
	wrong atomic.Int32 // downloads of other bytes
	gets  atomic.Int32
}

func (h *fakeHub) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	if h.token != "" && q.Header.Get("Authorization") != "Bearer "+h.token {
		http.Error(w, "who are you?", http.StatusUnauthorized)
		return
	}
	const commit = "0123456789abcdef0123456789abcdef01234567"
	switch rest, found := strings.CutPrefix(q.URL.Path, "/api/datasets/lab/runs/"); {
	case found && rest == "tree/main":
		h.tree(w, q)
	case found && rest == "revision/main":
		var l []map[string]string
		for name := range h.files {
			l = append(l, map[string]string{"rfilename": name})
		}
		json.NewEncoder(w).Encode(map[string]any{"id": "lab/runs", "sha": commit, "siblings": l})
	default:
		name, _ := strings.CutPrefix(q.URL.Path, "/datasets/lab/runs/resolve/"+commit+"/")
		text, ok := h.files[name]
		if !ok {
			http.NotFound(w, q)
			return
		}
		w.Header().Set("ETag", fmt.Sprintf("%q", sum256(text)))
		w.Header().Set("Content-Length", fmt.Sprint(len(text)))
		if q.Method == http.MethodHead {
			return
		}
		h.gets.Add(1)
		switch {
		case h.cut.Add(-1) >= 0:
			fmt.Fprint(w, text[:len(text)/2])
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		case h.wrong.Add(-1) >= 0:
			fmt.Fprint(w, strings.Repeat("x", len(text)))
		default:
			fmt.Fprint(w, text)
		}
	}
}

// tree lists two files a page.
func (h *fakeHub) tree(w http.ResponseWriter, q *http.Request) {
	names := []string{"a/README.md", "a/x.trace.json.gz", "a/x.xplane.pb", "b/perfetto_trace.json.gz"}
	from := 0
	fmt.Sscan(q.URL.Query().Get("from"), &from)
	l := []map[string]any{{"type": "directory", "path": "a", "oid": "00", "size": 0}}
	for _, n := range names[from : from+2] {
		text := h.files[n]
		f := map[string]any{"type": "file", "path": n, "size": len(text), "oid": fmt.Sprintf("%x", sha1.Sum(fmt.Appendf(nil, "blob %d\x00%s", len(text), text)))}
		if strings.HasSuffix(n, ".pb") {
			f["lfs"] = map[string]string{"oid": sum256(text)}
		}
		l = append(l, f)
	}
	if from+2 < len(names) {
		w.Header().Set("Link", fmt.Sprintf(`<%s?recursive=true&from=%d>; rel="next"`, q.URL.Path, from+2))
	}
	json.NewEncoder(w).Encode(l)
}

func sum256(text string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(text))) }

func serve(t *testing.T) *fakeHub {
	h := &fakeHub{files: map[string]string{"a/README.md": "words", "a/x.trace.json.gz": "events of a", "a/x.xplane.pb": "space of a", "b/perfetto_trace.json.gz": "events of b"}}
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	t.Setenv("HF_ENDPOINT", s.URL)
	t.Setenv("HF_TOKEN", "")
	return h
}

func names(files []File) (l []string) {
	for _, f := range files {
		l = append(l, f.Name)
	}
	return l
}

// run fetches, and gives what has arrived by name.
func run(t *testing.T, source string, o Options, dir string) ([]Fetched, error) {
	t.Helper()
	p, err := New(t.Context(), source, o)
	if err != nil {
		return nil, err
	}
	return p.Run(t.Context(), dir, func(string) {})
}

func TestHub(t *testing.T) {
	h := serve(t)
	p, err := New(t.Context(), "hf-dataset:lab/runs", Options{})
	require.NoError(t, err)
	require.Equal(t, []string{"a/x.trace.json.gz", "b/perfetto_trace.json.gz"}, names(p.Files))
	size, ok := p.Size()
	require.True(t, ok)
	require.EqualValues(t, 22, size)

	dir := t.TempDir()
	l, err := run(t, "hf-dataset:lab/runs@main/a", Options{XPlane: true}, dir)
	require.NoError(t, err)
	require.Len(t, l, 2)
	for name, text := range map[string]string{"x.trace.json.gz": "events of a", "x.xplane.pb": "space of a"} {
		data, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		require.Equal(t, text, string(data))
	}
	// Again: nothing is downloaded. What is there damaged is downloaded anew.
	before := h.gets.Load()
	l, err = run(t, "hf-dataset:lab/runs/a", Options{XPlane: true}, dir)
	require.NoError(t, err)
	require.True(t, l[0].Kept && l[1].Kept)
	require.Equal(t, before, h.gets.Load())
	require.NoError(t, os.WriteFile(filepath.Join(dir, "x.xplane.pb"), []byte("space of b"), 0o644))
	l, err = run(t, "hf-dataset:lab/runs/a", Options{Only: "*.pb"}, dir)
	require.NoError(t, err)
	require.False(t, l[0].Kept)
	require.Equal(t, sum256("space of a"), l[0].SHA256)
	// One file by its whole name.
	l, err = run(t, "hf-dataset:lab/runs/a/x.xplane.pb", Options{Only: "*"}, t.TempDir())
	require.NoError(t, err)
	require.Equal(t, "x.xplane.pb", l[0].Name)
}

// A connection that is cut and bytes that are wrong leave no file behind, and the same command goes on.
func TestHubFaults(t *testing.T) {
	h := serve(t)
	dir := t.TempDir()
	h.cut.Store(1)
	_, err := run(t, "hf-dataset:lab/runs/a", Options{}, dir)
	require.ErrorContains(t, err, "x.trace.json.gz: its 11 bytes did not all come: try again")
	h.wrong.Store(1)
	_, err = run(t, "hf-dataset:lab/runs/a", Options{}, dir)
	require.ErrorContains(t, err, "it came damaged")
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left)
	_, err = run(t, "hf-dataset:lab/runs/a", Options{}, dir)
	require.NoError(t, err)

	h.token = "secret"
	_, err = run(t, "hf-dataset:lab/runs", Options{}, dir)
	require.ErrorContains(t, err, "HF_TOKEN")
	t.Setenv("HF_TOKEN", "secret")
	_, err = run(t, "hf-dataset:lab/runs", Options{}, dir)
	require.NoError(t, err)
	_, err = run(t, "hf:lab/none", Options{}, dir)
	require.ErrorContains(t, err, "there is no /api/models/lab/none")
}

func TestNoOtherHost(t *testing.T) {
	_, err := following("https://a.example/x", `<https://b.example/y>; rel="next"`)
	require.ErrorContains(t, err, "another host")
	next, err := following("https://a.example/x", `</y?c=2>; rel="next"`)
	require.NoError(t, err)
	require.Equal(t, "https://a.example/y?c=2", next)
}

func TestFolderAndWeb(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "deep"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "deep", "x.xplane.pb"), []byte("space"), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "notes"), nil, 0o644))
	out := t.TempDir()
	l, err := run(t, dir, Options{}, out) // no JSON: XSpaces then
	require.NoError(t, err)
	require.Equal(t, filepath.Join(out, "deep", "x.xplane.pb"), l[0].Path)

	s := httptest.NewServer(http.FileServer(http.Dir(dir)))
	defer s.Close()
	l, err = run(t, s.URL+"/deep/x.xplane.pb?token=1", Options{}, out)
	require.NoError(t, err)
	require.Equal(t, filepath.Join(out, "x.xplane.pb"), l[0].Path)
	_, err = run(t, s.URL+"/none.pb", Options{}, out)
	require.ErrorContains(t, err, "there is no /none.pb")
}

// A gcloud of our own lists and copies; without one the error says so.
func TestBucket(t *testing.T) {
	bin := t.TempDir()
	t.Setenv("PATH", bin)
	_, err := run(t, "gs://runs/a/", Options{}, t.TempDir())
	require.ErrorContains(t, err, "gcloud is not installed")
	script := `#!/bin/sh
case "$2" in
ls) echo '[{"url":"gs://runs/a/x.xplane.pb#17","type":"cloud_object","metadata":{"size":"5"}},{"url":"gs://runs/a/deep/","type":"prefix"}]' ;;
cp) [ "$3" = gs://runs/a/x.xplane.pb ] && echo "spac" > "$4" ;;
esac
`
	require.NoError(t, os.WriteFile(filepath.Join(bin, "gcloud"), []byte(script), 0o755))
	out := t.TempDir()
	l, err := run(t, "gs://runs/a/", Options{}, out)
	require.NoError(t, err)
	require.Equal(t, filepath.Join(out, "x.xplane.pb"), l[0].Path)
}

func TestSources(t *testing.T) {
	dir := t.TempDir()
	for source, want := range map[string]string{"hf:only": "want ORG/REPO", "https://": "no address", "https://host/": "names no file", filepath.Join(dir, "none"): "want hf:ORG/REPO"} {
		_, err := New(t.Context(), source, Options{})
		require.ErrorAs(t, err, new(*SourceError), source)
		require.ErrorContains(t, err, want)
	}
	_, err := New(t.Context(), dir, Options{})
	require.ErrorAs(t, err, new(*MissingError))
	require.ErrorContains(t, err, "none of its 0 files is a trace")
	_, err = New(t.Context(), dir, Options{Only: "["})
	require.ErrorContains(t, err, "no pattern of names")
	p := &Plan{Files: []File{{Size: 5}, {Size: -1}}}
	_, ok := p.Size()
	require.False(t, ok)
}

// A hub whose commit or hashes are none, whose names hide, that sends more than it listed, or nothing at all, is refused; whatever its ETag
// says, nothing is written but the file that was asked for.
func TestHostileHub(t *testing.T) {
	const commit = "0123456789abcdef0123456789abcdef01234567"
	old := client
	defer func() { client = old }()
	body := "evil content\n"
	git := fmt.Sprintf("%x", sha1.Sum(fmt.Appendf(nil, "blob %d\x00%s", len(body), body)))
	for name, x := range map[string]struct{ sha, file, oid, body, says string }{
		"etag":   {commit, "x.trace.json.gz", git, body, ""},
		"commit": {"../../escaped", "x.trace.json.gz", git, body, "which is none"},
		"hash":   {commit, "x.trace.json.gz", "../" + git[3:], body, "with hash"},
		"name":   {commit, "../x.trace.json.gz", git, body, "outside of it"},
		"hidden": {commit, "x\u202e.trace.json.gz", git, body, "characters that are not shown"},
		"large":  {commit, "x.trace.json.gz", git, strings.Repeat("a", 1<<20), "more than 13 bytes came"},
		"silent": {commit, "x.trace.json.gz", git, "", "can not be reached"},
	} {
		t.Run(name, func(t *testing.T) {
			limits := web.Limits{} // others have time on a busy machine
			if x.body == "" {
				limits = web.Limits{Headers: time.Second, Silence: time.Second}
			}
			client = web.New(limits)
			hold := make(chan struct{})
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
				switch {
				case strings.Contains(q.URL.Path, "/revision/"):
					json.NewEncoder(w).Encode(map[string]string{"sha": x.sha})
				case strings.Contains(q.URL.Path, "/tree/"):
					json.NewEncoder(w).Encode([]map[string]any{{"type": "file", "path": x.file, "size": len(body), "oid": x.oid}})
				case x.body == "":
					<-hold
				default:
					w.Header().Set("ETag", `"../../../escaped_etag"`)
					fmt.Fprint(w, x.body)
				}
			}))
			defer s.Close()
			defer close(hold)
			t.Setenv("HF_ENDPOINT", s.URL)
			t.Setenv("HF_TOKEN", "")
			dir := filepath.Join(t.TempDir(), "a", "b", "c")
			p, err := New(t.Context(), "hf:a/ev", Options{})
			if err == nil {
				_, err = p.Run(t.Context(), dir, func(string) {})
			}
			if x.says == "" {
				require.NoError(t, err)
				require.FileExists(t, filepath.Join(dir, x.file))
			} else {
				require.ErrorContains(t, err, x.says)
			}
			above, err := os.ReadDir(filepath.Dir(filepath.Dir(filepath.Dir(dir))))
			require.NoError(t, err)
			require.LessOrEqual(t, len(above), 1)
		})
	}
}
