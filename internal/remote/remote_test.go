package remote

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"
)

// standIn makes a program that takes the place of ssh or gcloud: it runs its last argument here, with a home of its own.
func standIn(t *testing.T) (program, home string) {
	dir := t.TempDir()
	home = filepath.Join(dir, "home")
	require.NoError(t, os.Mkdir(home, 0o755))
	program = filepath.Join(dir, "there")
	text := "#!/bin/sh\necho \"$@\" | head -c 200 >> " + dir + "/calls\nfor last; do :; done\ntest -f " + dir + "/down && { echo no route >&2; exit 255; }\nHOME=" + home +
		" XDG_CACHE_HOME= exec sh -c \"$last\"\n"
	require.NoError(t, os.WriteFile(program, []byte(text), 0o755))
	return program, home
}

// places are one of each kind, with stand-ins for what is not here.
func places(t *testing.T) map[string]Place {
	ssh, _ := standIn(t)
	t.Setenv(SSHEnv, ssh)
	cloud, _ := standIn(t)
	t.Setenv(GcloudEnv, cloud)
	t.Setenv(rayTokenEnv, "secret")
	ray := newFakeRay(t)
	m := map[string]Place{}
	for _, text := range []string{"ssh:me@host", "tpu:mine?zone=us-central1-b&project=p", "ray:" + ray.URL} {
		p, full, err := Parse(text)
		require.NoError(t, err)
		require.Equal(t, text, full)
		m[text] = p
	}
	return m
}

func job(id string, command ...string) *Job {
	return &Job{ID: id, Command: command, NoSync: true}
}

func wait(t *testing.T, p Place, id string) (*State, string) {
	var out bytes.Buffer
	f := Follower{Place: p, ID: id, Out: &out, Every: 10 * time.Millisecond}
	s, err := f.Wait(t.Context())
	require.NoError(t, err)
	return s, out.String()
}

func read(t *testing.T, p Place, id, name string) string {
	r, err := p.Open(t.Context(), id, name)
	require.NoError(t, err)
	defer r.Close()
	data, err := io.ReadAll(r)
	require.NoError(t, err)
	return string(data)
}

// A job of every place: its files, variables, output, results and status, and a second submission of the same id.
func TestPlaces(t *testing.T) {
	file := filepath.Join(t.TempDir(), "note.txt")
	require.NoError(t, os.WriteFile(file, []byte("it's here\n"), 0o644))
	folder := filepath.Join(t.TempDir(), "run")
	require.NoError(t, os.MkdirAll(filepath.Join(folder, "objects", "17"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(folder, "objects", "17", "x.gz"), []byte("object\n"), 0o644))
	require.NoError(t, os.Symlink("/etc/passwd", filepath.Join(folder, "link")))
	for text, p := range places(t) {
		t.Run(text, func(t *testing.T) {
			ctx := t.Context()
			j := job("first", "sh", "-c", `cat note.txt run/objects/17/x.gz; ls run; echo "$WORD"; mkdir -p $0/sub; printf 'a\0b' > "$0/sub/x y"; echo n >> $0/count; exit 3`, "@out")
			j.Files, j.Env = []string{file, folder + "/"}, map[string]string{"WORD": `'quoted' $HOME "x"`}
			require.NoError(t, p.Submit(ctx, j))
			require.NoError(t, p.Submit(ctx, j), "the same id again")
			s, out := wait(t, p, "first")
			require.Equal(t, Failed, s.Phase)
			require.Equal(t, 3, s.Exit)
			require.Equal(t, "it's here\nobject\nobjects\n'quoted' $HOME \"x\"\n", out)
			files, err := p.Files(ctx, "first")
			require.NoError(t, err)
			require.Len(t, files, 2)
			require.Equal(t, "count", files[0].Name)
			require.Equal(t, "sub/x y", files[1].Name)
			require.Equal(t, "a\x00b", read(t, p, "first", "sub/x y"))
			require.Equal(t, "n\n", read(t, p, "first", "count"), "it ran once")
			_, err = p.Open(ctx, "first", "../log")
			require.Error(t, err)

			require.NoError(t, p.Submit(ctx, job("good", "echo", "a b")))
			s, out = wait(t, p, "good")
			require.Equal(t, Succeeded, s.Phase)
			require.Equal(t, "a b\n", out)

			require.NoError(t, p.Submit(ctx, job("long", "sh", "-c", "echo begun; sleep 60 & wait")))
			begun := time.Now()
			for s.Phase != Running {
				s, err = p.Status(ctx, "long")
				require.NoError(t, err)
			}
			require.NoError(t, p.Stop(ctx, "long"))
			s, out = wait(t, p, "long")
			require.Equal(t, Stopped, s.Phase)
			require.Contains(t, "begun\n", out) // it may have been stopped before
			require.Less(t, time.Since(begun), 20*time.Second)

			list, err := p.List(ctx)
			require.NoError(t, err)
			require.Len(t, list, 3)

			var none *NoJobError
			_, err = p.Status(ctx, "nonesuch")
			require.ErrorAs(t, err, &none)
			require.ErrorAs(t, p.Stop(ctx, "nonesuch"), &none)
			_, err = p.Files(ctx, "nonesuch")
			require.ErrorAs(t, err, &none)
		})
	}
}

// Results are copied while they grow; objects, once they are there, not again.
func TestMirror(t *testing.T) {
	for text, p := range places(t) {
		t.Run(text, func(t *testing.T) {
			ctx, dir := t.Context(), t.TempDir()
			require.NoError(t, p.Submit(ctx, job("grows", "sh", "-c", `mkdir -p $0/run/objects; echo a > $0/run/objects/a; echo 1 > $0/run/journal; while ! test -e $0/go; do sleep .05; done
				echo b > $0/run/objects/b; echo 2 >> $0/run/journal`, "@out")))
			m := Mirror{Place: p, ID: "grows", Dir: dir, Every: 20 * time.Millisecond}
			ctx, stop := context.WithCancel(ctx)
			kept := make(chan struct{})
			go func() { m.Keep(ctx); close(kept) }()
			journal := filepath.Join(dir, "run", "journal")
			require.Eventually(t, func() bool { text, _ := os.ReadFile(journal); return string(text) == "1\n" }, 20*time.Second, 20*time.Millisecond)
			object := filepath.Join(dir, "run", "objects", "a")
			require.Eventually(t, func() bool { _, err := os.Stat(object); return err == nil }, 20*time.Second, 20*time.Millisecond)
			require.NoError(t, os.WriteFile(object, []byte("mine, which is longer\n"), 0o644))
			stop()
			<-kept
			out := findOut(t, p, "grows")
			require.NoError(t, os.WriteFile(filepath.Join(out, "go"), nil, 0o644))
			s, _ := wait(t, p, "grows")
			require.Equal(t, Succeeded, s.Phase)
			_, err := m.Round(t.Context(), false)
			require.NoError(t, err)
			text, err := os.ReadFile(journal)
			require.NoError(t, err)
			require.Equal(t, "1\n2\n", string(text))
			require.FileExists(t, filepath.Join(dir, "run", "objects", "b"))
			text, err = os.ReadFile(object)
			require.NoError(t, err)
			require.Equal(t, "mine, which is longer\n", string(text), "it was not copied again")
			_, err = m.Round(t.Context(), true)
			require.NoError(t, err)
			text, err = os.ReadFile(object)
			require.NoError(t, err)
			require.Equal(t, "a\n", string(text))
		})
	}
}

// findOut is the folder for results of a job of a stand-in.
func findOut(t *testing.T, p Place, id string) (out string) {
	if r, ok := p.(*rayPlace); ok {
		return filepath.Join(fakeRays[r.address], "logs", resultsOf(id))
	}
	via := p.(*machinePlace).ssh.Via
	program := os.Getenv(SSHEnv)
	if len(via) > 0 {
		program = via[0]
	}
	return filepath.Join(filepath.Dir(program), "home", ".cache/gdngen/jobs", id, "out")
}

// A machine that is held is reached by its name alone, where its lease says, also after it was taken again elsewhere.
func TestHeldPlace(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	dir, err := LeasesDir()
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(dir, 0o700))
	_, _, err = Parse("tpu:mine")
	require.ErrorIs(t, err, ErrPlace)
	require.ErrorContains(t, err, "no machine of this name is held here")
	for _, zone := range []string{"us-central1-b", "us-east5-a"} {
		require.NoError(t, os.WriteFile(leaseFile(dir, "mine"), []byte(`{"name":"mine","zone":"`+zone+`","project":"p"}`), 0o600))
		p, _, err := Parse("tpu:mine")
		require.NoError(t, err)
		require.Equal(t, []string{"--zone", zone, "--worker=0", "--quiet", "--project", "p", "--command"}, p.(*machinePlace).ssh.Via[6:])
	}
}

// A job outlives the connection that began it, and its output goes on where it was cut.
func TestCutConnection(t *testing.T) {
	ssh, _ := standIn(t)
	t.Setenv(SSHEnv, ssh)
	p, _, err := Parse("ssh:host")
	require.NoError(t, err)
	require.NoError(t, p.Submit(t.Context(), job("cut", "sh", "-c", "for i in 1 2 3 4 5 6; do echo line $i; sleep .2; done")))
	r, err := p.Logs(t.Context(), "cut", 0, true)
	require.NoError(t, err)
	first := make([]byte, len("line 1\n"))
	_, err = io.ReadFull(r, first)
	require.NoError(t, err)
	require.NoError(t, r.Close())

	down := filepath.Join(filepath.Dir(ssh), "down")
	require.NoError(t, os.WriteFile(down, nil, 0o644))
	var unreachable *UnreachableError
	_, err = p.Status(t.Context(), "cut")
	require.ErrorAs(t, err, &unreachable)
	require.ErrorContains(t, err, "no route")

	var rest bytes.Buffer
	var notes []string
	f := Follower{Place: p, ID: "cut", Out: &rest, From: int64(len(first)), Every: 50 * time.Millisecond, Note: func(text string) { notes = append(notes, text); os.Remove(down) }}
	s, err := f.Wait(t.Context())
	require.NoError(t, err)
	require.Equal(t, Succeeded, s.Phase)
	require.Equal(t, "line 2\nline 3\nline 4\nline 5\nline 6\n", rest.String())
	require.NotEmpty(t, notes)
}

// A tail that is slow to begin loses nothing of a job that has ended.
func TestSlowTail(t *testing.T) {
	ssh, _ := standIn(t)
	t.Setenv(SSHEnv, ssh)
	tail, err := exec.LookPath("tail")
	require.NoError(t, err)
	bin := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(bin, "tail"), []byte("#!/bin/sh\nsleep 1\nexec "+tail+" \"$@\"\n"), 0o755))
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	p, _, err := Parse("ssh:host")
	require.NoError(t, err)
	require.NoError(t, p.Submit(t.Context(), job("quick", "echo", "all of it")))
	_, out := wait(t, p, "quick")
	require.Equal(t, "all of it\n", out)
}

// The program travels once, by its hash; a file with variables is the owner's alone.
func TestPush(t *testing.T) {
	ssh, home := standIn(t)
	t.Setenv(SSHEnv, ssh)
	s := &SSH{Host: "host"}
	path, err := s.Push(t.Context())
	require.NoError(t, err)
	build, err := Build()
	require.NoError(t, err)
	there := filepath.Join(home, ".cache/gdngen/bin", build, "gdngen")
	before, err := os.Stat(there)
	require.NoError(t, err)
	require.NotZero(t, before.Mode()&0o100)
	again, err := s.Push(t.Context())
	require.NoError(t, err)
	require.Equal(t, path, again)
	after, err := os.Stat(there)
	require.NoError(t, err)
	require.Equal(t, before.ModTime(), after.ModTime())

	p, _, err := Parse("ssh:host")
	require.NoError(t, err)
	j := job("secret", "true")
	j.Env = map[string]string{"TOKEN": "hush"}
	require.NoError(t, p.Submit(t.Context(), j))
	info, err := os.Stat(filepath.Join(home, ".cache/gdngen/jobs/secret/env"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	calls, err := os.ReadFile(filepath.Join(filepath.Dir(ssh), "calls"))
	require.NoError(t, err)
	require.NotContains(t, string(calls), "hush")
}

func TestParse(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	t.Setenv("HOME", t.TempDir())
	for text, says := range map[string]string{
		"": "unknown place", "mars": "is no name in", "k8s:x": "known: ssh:", "ssh:": "want ssh:", "ssh:-oProxyCommand=x": "want ssh:", "tpu:x": "want tpu:", "tpu:x?zone=z&colour=red": "unknown \"colour\"",
		"ray:head": "want the address", "ray:http://me:pw@head": "want the address",
	} {
		_, _, err := Parse(text)
		require.ErrorIs(t, err, ErrPlace, text)
		require.ErrorContains(t, err, says, text)
	}
	file, _, err := userPlaces()
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
	require.NoError(t, os.WriteFile(file, []byte(`{"big":"ssh:me@big","loop":"loop"}`), 0o644))
	_, full, err := Parse("big")
	require.NoError(t, err)
	require.Equal(t, "ssh:me@big", full)
	_, _, err = Parse("loop")
	require.ErrorIs(t, err, ErrPlace)
}

func TestCheck(t *testing.T) {
	for says, j := range map[string]*Job{
		"want letters": {ID: "a/b", Command: []string{"x"}}, "needs a command": {ID: "a"}, "no such file": {ID: "a", Command: []string{"x"}, Files: []string{"nowhere"}},
		"neither a file nor a folder": {ID: "a", Command: []string{"x"}, Files: []string{"/dev/null"}}, "two files named remote": {ID: "a", Command: []string{"x"}, Files: []string{".", "../remote"}}, "no name of a variable": {ID: "a", Command: []string{"x"}, EnvNames: []string{"A B"}},
	} {
		require.ErrorContains(t, j.Check(), says)
	}
	require.NoError(t, (&Job{ID: NewID("test"), Command: []string{"x"}}).Check())
	require.Equal(t, `'a' ''"$GDNGEN_OUT"'/run' '--run='"$GDNGEN_OUT"'' 'me@outer'`, job("x", "a", "@out/run", "--run=@out", "me@outer").line())
}

// fakeRays are their folders by address.
var fakeRays = map[string]string{}

// fakeRay speaks the REST of Ray Jobs as a dashboard of Ray 2.60 does, by processes of this machine.
type fakeRay struct {
	*httptest.Server
	t   *testing.T
	dir string

	mu       sync.Mutex
	packages map[string][]byte
	puts     int
	jobs     map[string]*fakeJob
	forget   int // answers to a submission that are lost after the job began
	cut      int // tails that are closed, as if at an end, while the job runs; the job gets a file named cut after the last
}

type fakeJob struct {
	rayJob
	log  string
	kill context.CancelFunc
	stay bool // it stays pending, whatever is asked
}

func newFakeRay(t *testing.T) *fakeRay {
	r := &fakeRay{t: t, dir: t.TempDir(), packages: map[string][]byte{}, jobs: map[string]*fakeJob{}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/packages/gcs/{name}", func(w http.ResponseWriter, q *http.Request) {
		if r.packages[q.PathValue("name")] == nil {
			http.Error(w, "not found", 404)
		}
	})
	mux.HandleFunc("PUT /api/packages/gcs/{name}", func(_ http.ResponseWriter, q *http.Request) {
		r.packages[q.PathValue("name")], _ = io.ReadAll(q.Body)
		r.puts++
	})
	mux.HandleFunc("POST /api/jobs/{$}", r.submit)
	mux.HandleFunc("GET /api/jobs/{$}", func(w http.ResponseWriter, _ *http.Request) {
		var l []rayJob
		for _, j := range r.jobs {
			l = append(l, j.rayJob)
		}
		json.NewEncoder(w).Encode(append(l, rayJob{Type: "DRIVER"}))
	})
	mux.HandleFunc("GET /api/jobs/{id}", r.of(func(w http.ResponseWriter, j *fakeJob) { json.NewEncoder(w).Encode(j.rayJob) }))
	mux.HandleFunc("GET /api/jobs/{id}/logs", r.of(func(w http.ResponseWriter, j *fakeJob) { json.NewEncoder(w).Encode(map[string]string{"logs": j.log}) }))
	mux.HandleFunc("POST /api/jobs/{id}/stop", r.of(func(w http.ResponseWriter, j *fakeJob) {
		if !j.stay {
			j.kill()
		}
		fmt.Fprint(w, `{"stopped": true}`)
	}))
	mux.HandleFunc("GET /api/jobs/{id}/logs/tail", r.tail)
	mux.HandleFunc("GET /api/v0/logs", r.files)
	mux.HandleFunc("GET /api/v0/logs/file", func(w http.ResponseWriter, q *http.Request) {
		data, err := os.ReadFile(filepath.Join(r.dir, "logs", q.FormValue("filename")))
		if err != nil || q.FormValue("node_id") == "" || q.FormValue("lines") != "-1" {
			http.Error(w, "no file", 500)
		}
		w.Write(data)
	})
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		switch q.Header.Get("Authorization") {
		case "":
			http.Error(w, "Missing authentication token", http.StatusUnauthorized)
		case "Bearer secret":
			if strings.HasSuffix(q.URL.Path, "/tail") { // it waits
				mux.ServeHTTP(w, q)
				return
			}
			r.mu.Lock()
			defer r.mu.Unlock()
			mux.ServeHTTP(w, q)
		default:
			http.Error(w, "Invalid authentication token", http.StatusForbidden)
		}
	}))
	fakeRays[r.URL] = r.dir
	t.Cleanup(func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, j := range r.jobs {
			j.kill()
		}
		r.CloseClientConnections()
	})
	return r
}

func (r *fakeRay) of(then func(http.ResponseWriter, *fakeJob)) http.HandlerFunc {
	return func(w http.ResponseWriter, q *http.Request) {
		if j := r.jobs[q.PathValue("id")]; j != nil {
			then(w, j)
		} else {
			http.Error(w, "Job "+q.PathValue("id")+" does not exist", 404)
		}
	}
}

func (r *fakeRay) submit(w http.ResponseWriter, q *http.Request) {
	var x struct {
		ID          string             `json:"submission_id"`
		Entrypoint  string             `json:"entrypoint"`
		Resources   map[string]float64 `json:"entrypoint_resources"`
		Environment struct {
			Dir string            `json:"working_dir"`
			Env map[string]string `json:"env_vars"`
		} `json:"runtime_env"`
	}
	if err := json.NewDecoder(q.Body).Decode(&x); err != nil {
		http.Error(w, err.Error(), 400)
		return
	}
	if r.jobs[x.ID] != nil {
		http.Error(w, "Traceback (most recent call last):\nValueError: Job with submission_id "+x.ID+" already exists. Please use a different submission_id.", 500)
		return
	}
	pack := r.packages[strings.TrimPrefix(x.Environment.Dir, "gcs://")]
	if pack == nil {
		http.Error(w, "no package", 500)
		return
	}
	ctx, kill := context.WithCancel(context.Background())
	j := &fakeJob{rayJob: rayJob{ID: x.ID, Status: "PENDING", Message: "waiting for resources"}, kill: kill, stay: len(x.Resources) > 0}
	r.jobs[x.ID] = j
	if !j.stay {
		go r.run(ctx, j, pack, x.Entrypoint, x.Environment.Env)
	}
	if r.forget > 0 {
		r.forget--
		http.Error(w, "Bad Gateway", http.StatusBadGateway)
		return
	}
	fmt.Fprintf(w, `{"job_id": %q, "submission_id": %[1]q}`, x.ID)
}

func (r *fakeRay) run(ctx context.Context, j *fakeJob, pack []byte, entrypoint string, env map[string]string) {
	dir := filepath.Join(r.dir, "runtime_resources", "working_dir_files", j.ID)
	z, err := zip.NewReader(bytes.NewReader(pack), int64(len(pack)))
	if err == nil {
		err = os.CopyFS(dir, z)
	}
	cmd := exec.CommandContext(ctx, "sh", "-c", entrypoint)
	cmd.Dir, cmd.Env = dir, os.Environ()
	for name, value := range env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	out := &locked{r: r, j: j}
	cmd.Stdout, cmd.Stderr = out, out
	r.mu.Lock()
	j.Status, j.Node = "RUNNING", "node1"
	r.mu.Unlock()
	if err == nil {
		err = cmd.Run()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	status := cmd.ProcessState.ExitCode()
	j.Exit = &status
	switch {
	case ctx.Err() != nil:
		j.Status = "STOPPED"
	case err == nil:
		j.Status = "SUCCEEDED"
	default:
		j.Status = "FAILED"
	}
}

// locked appends to a job's log.
type locked struct {
	r *fakeRay
	j *fakeJob
}

func (l *locked) Write(b []byte) (int, error) {
	l.r.mu.Lock()
	defer l.r.mu.Unlock()
	l.j.log += string(b)
	return len(b), nil
}

// tail sends the log from its beginning. It may close with the status of an end while the job runs.
func (r *fakeRay) tail(w http.ResponseWriter, q *http.Request) {
	c, err := websocket.Accept(w, q, nil)
	if err != nil {
		return
	}
	defer c.Close(websocket.StatusNormalClosure, "")
	for sent := 0; ; time.Sleep(5 * time.Millisecond) {
		r.mu.Lock()
		j := r.jobs[q.PathValue("id")]
		log, s := j.log, j.state()
		cut := r.cut > 0 && len(log) > 0
		if cut {
			if r.cut--; r.cut == 0 {
				os.WriteFile(filepath.Join(r.dir, "logs", resultsOf(j.ID), "cut"), nil, 0o644)
			}
		}
		r.mu.Unlock()
		if len(log) > sent && c.Write(q.Context(), websocket.MessageText, []byte(log[sent:])) != nil {
			return
		}
		sent = len(log)
		if cut || s.Phase.Done() {
			return
		}
	}
}

func (r *fakeRay) files(w http.ResponseWriter, q *http.Request) {
	names, _ := filepath.Glob(filepath.Join(r.dir, "logs", q.FormValue("glob")))
	var l []string
	for _, name := range names {
		rel, _ := filepath.Rel(filepath.Join(r.dir, "logs"), name)
		if info, err := os.Stat(name); err == nil && info.IsDir() {
			rel += "/"
		}
		l = append(l, rel)
	}
	json.NewEncoder(w).Encode(map[string]any{"result": true, "data": map[string]any{"result": map[string][]string{"internal": l}}})
}

// The faults of Ray: a lost answer, a tail that closes while the job runs, a job that stays pending, and tokens.
func TestRayFaults(t *testing.T) {
	t.Setenv(rayTokenEnv, "secret")
	r := newFakeRay(t)
	p, _, err := Parse("ray:" + r.URL)
	require.NoError(t, err)
	p.(*rayPlace).settle = 100 * time.Millisecond

	r.forget, r.cut = 1, 3
	require.NoError(t, p.Submit(t.Context(), job("one", "sh", "-c", "for i in 1 2 3; do echo line $i; sleep .1; done; until test -e $0/cut; do sleep .05; done; echo line 4; echo ran >> $0/ran", "@out")))
	s, out := wait(t, p, "one")
	require.Equal(t, Succeeded, s.Phase)
	require.Equal(t, "line 1\nline 2\nline 3\nline 4\n", out)
	require.Equal(t, "ran\n", read(t, p, "one", "ran"), "a lost answer is no second job")
	require.Zero(t, r.cut)
	require.NoError(t, p.Submit(t.Context(), job("two", "true")))
	require.Equal(t, 1, r.puts, "the same package travels once")

	stuck := job("stuck", "true")
	stuck.Resources = map[string]float64{"TPU": 4}
	require.NoError(t, p.Submit(t.Context(), stuck))
	f := Follower{Place: p, ID: "stuck", Every: 10 * time.Millisecond, Pending: 50 * time.Millisecond}
	_, err = f.Wait(t.Context())
	var pending *PendingError
	require.ErrorAs(t, err, &pending)
	require.ErrorContains(t, err, "waiting for resources")
	require.ErrorContains(t, err, "stuck was asked to stop, and it is still pending")

	for token, says := range map[string]string{"": "ray answers 401: Missing authentication token; give the cluster's token", "wrong": "is not the cluster's"} {
		t.Setenv(rayTokenEnv, token)
		t.Setenv("HOME", t.TempDir())
		_, err = p.Status(t.Context(), "one")
		require.ErrorContains(t, err, says)
	}
	r.Close()
	var unreachable *UnreachableError
	_, err = p.List(t.Context())
	require.ErrorAs(t, err, &unreachable)
}
