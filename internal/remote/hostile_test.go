package remote

import (
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/internal/terminal"
	"github.com/gdngen/gdngen/internal/web"
)

// A place that answers without end, prints before it answers, lists files outside or more than it lists, or hides characters in names.
func TestHostileSSH(t *testing.T) {
	ssh := filepath.Join(t.TempDir(), "ssh")
	require.NoError(t, os.WriteFile(ssh, []byte(`#!/bin/sh
for script; do :; done
case "$MODE:$script" in
flood:*) exec yes AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA;;
motd:*) printf 'Welcome to host!\nthere\nended 0\n';;
outside:*'find . -type f'*) printf 'there\n5 ./../../escaped\n';;
hidden:*'find . -type f'*) printf 'there\n5 ./a\033[31mb\n';;
more:*'find . -type f'*) printf 'there\n5 ./a\n';;
more:*/out/*) head -c 300000000 /dev/zero;;
hang:*) exec sleep 100;;
stops:*'find . -type f'*) printf 'there\n5 ./a\n';;
stops:*/out/*) printf 'ab'; sleep 20;;
below:*) printf 'there\nended -7\n';;
big:*) printf 'there\nended 99999999999999999999\n';;
absolute:*'find . -type f'*) printf 'there\n5 .//etc/escaped\n';;
*) printf 'there\nended 0\n';;
esac
`), 0o755))
	t.Setenv(SSHEnv, ssh)
	p, err := openSSH("host")
	require.NoError(t, err)
	was := sshSilence
	defer func() { sshSilence = was }()
	for _, mode := range []string{"big", "below"} {
		t.Setenv("MODE", mode)
		_, err = p.Status(t.Context(), "j1")
		require.ErrorContains(t, err, "which is none", mode)
	}
	for mode, says := range map[string]string{"flood": "it answers with more than 64 MiB", "motd": `its shell prints "Welcome to host!"`, "outside": "outside of the results", "hidden": "outside of the results", "more": "", "hang": "nothing came for 1s", "stops": "nothing came for 1s", "absolute": "outside of the results"} {
		t.Setenv("MODE", mode)
		if sshSilence = time.Minute; strings.HasPrefix(says, "nothing came") { // others have time on a busy machine
			sshSilence = time.Second
		}
		dir := t.TempDir()
		l, err := fetchSome(t.Context(), p, "j1", dir, func(File) bool { return true })
		if says != "" {
			require.ErrorContains(t, err, says, mode)
			require.Equal(t, slices.Contains([]string{"flood", "motd", "hang", "stops"}, mode), errors.As(err, new(*UnreachableError)), "%s: status 7", mode)
			continue
		}
		require.NoError(t, err)
		require.Len(t, l, 1)
		require.EqualValues(t, 5, l[0].Size)
	}
}

// hostileRay is a dashboard that lies: about jobs by their names, and about files by those of folders.
func hostileRay(t *testing.T, elsewhere string) (*rayPlace, *[]string) {
	t.Helper()
	tokens := &[]string{}
	give := func(w http.ResponseWriter, x any) { json.NewEncoder(w).Encode(x) }
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/jobs/redir", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, elsewhere+"/x", http.StatusTemporaryRedirect)
	})
	mux.HandleFunc("GET /api/jobs/err", func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(500)
		io.WriteString(w, "x\n\x1b]0;own\x07\x1b[2J boo")
	})
	mux.HandleFunc("GET /api/jobs/bomb", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		for range 20 {
			if _, err := z.Write(make([]byte, 1<<20)); err != nil {
				return
			}
		}
		z.Close()
	})
	mux.HandleFunc("GET /api/jobs/endless", func(w http.ResponseWriter, r *http.Request) {
		for {
			if _, err := w.Write(make([]byte, 1<<20)); err != nil {
				return
			}
		}
	})
	silent := func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-r.Context().Done():
		case <-time.After(20 * time.Second):
		}
	}
	mux.HandleFunc("GET /api/jobs/silent", silent)
	mux.HandleFunc("GET /api/jobs/half", func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, `{"submission_id":`)
		w.(http.Flusher).Flush()
		silent(w, r)
	})
	mux.HandleFunc("GET /api/jobs/{$}", func(w http.ResponseWriter, r *http.Request) {
		give(w, []map[string]any{{"submission_id": "a\x1b]0;own\ab", "status": "\x1b[31mRUNNING", "message": "\u202e x"}, {"submission_id": "../../x", "status": "FAILED"}})
	})
	mux.HandleFunc("GET /api/jobs/{id}", func(w http.ResponseWriter, r *http.Request) {
		give(w, map[string]any{"submission_id": r.PathValue("id"), "status": "SUCCEEDED", "driver_exit_code": 0, "driver_node_id": "n"})
	})
	mux.HandleFunc("GET /api/jobs/{id}/logs", func(w http.ResponseWriter, r *http.Request) {
		give(w, map[string]string{"logs": "hello \x1b]0;owned\a\x1b[2Jx\n"})
	})
	mux.HandleFunc("GET /api/v0/logs", func(w http.ResponseWriter, r *http.Request) {
		at := strings.TrimSuffix(r.FormValue("glob"), "*")
		names := []string{at + "../../../../escaped", at + "/etc/passwd", at + "ok", at + ".began", at + "a\x1b[31mb"}
		if strings.Contains(at, "deep") {
			names = []string{at + "sub/"}
		}
		give(w, map[string]any{"data": map[string]any{"result": map[string]any{"a": names}}})
	})
	mux.HandleFunc("GET /api/v0/logs/file", func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "result") })
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		*tokens = append(*tokens, r.Header.Get("Authorization"))
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	t.Cleanup(s.CloseClientConnections)
	p, err := openRay(s.URL)
	require.NoError(t, err)
	ray := p.(*rayPlace)
	return ray, tokens
}

func TestHostileRay(t *testing.T) {
	t.Setenv(rayTokenEnv, "secret")
	var got []string
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = append(got, r.Header.Get("Authorization"))
		io.WriteString(w, "{}")
	}))
	defer other.Close()
	p, tokens := hostileRay(t, strings.Replace(other.URL, "127.0.0.1", "localhost", 1))
	_, err := p.Status(t.Context(), "redir")
	require.NoError(t, err)
	require.Equal(t, []string{""}, got, "the token goes to the cluster alone")
	require.Equal(t, "Bearer secret", (*tokens)[0])

	for id, says := range map[string]string{"err": "ray answers 500", "bomb": "is not its JSON", "endless": "more than 268435456 bytes came", "silent": "timeout awaiting response headers", "half": "nothing came for 2s"} {
		begun, limits := time.Now(), web.Limits{Headers: time.Minute, Silence: time.Minute} // on a busy machine
		switch id {
		case "silent":
			limits.Headers = 2 * time.Second
		case "half":
			limits.Silence = 2 * time.Second
		}
		p.http = web.New(limits)
		_, err := p.Status(t.Context(), id)
		require.ErrorContains(t, err, says, id)
		require.Less(t, time.Since(begun), min(limits.Headers, limits.Silence)+13*time.Second, id)
		if bad := (*UnreachableError)(nil); id == "silent" || id == "half" || id == "endless" {
			require.True(t, errors.As(err, &bad), "%s: status 7", id)
		}
	}
	l, err := p.List(t.Context())
	require.NoError(t, err)
	for _, j := range l {
		for _, text := range []string{j.ID, string(j.State.Phase), j.State.Message, j.State.Node} {
			require.Equal(t, terminal.Lines(text), text)
		}
	}
	text, err := Output(t.Context(), p, "j1")
	require.NoError(t, err)
	var shown strings.Builder
	_, err = io.WriteString(terminal.Others(&shown), text)
	require.NoError(t, err)
	require.Equal(t, "hello ]0;owned[2Jx\n", shown.String())

	dir := t.TempDir()
	files, err := Fetch(t.Context(), p, "j1", "", filepath.Join(dir, "a", "b", "c", "d"))
	require.NoError(t, err)
	require.Len(t, files, 1)
	require.Equal(t, "ok", filepath.Base(files[0].Path))
	_, err = os.Stat(filepath.Join(dir, "escaped"))
	require.ErrorIs(t, err, os.ErrNotExist)
	_, err = Fetch(t.Context(), p, "deep", "", dir)
	require.ErrorContains(t, err, "lists more than 2000 folders")
}
