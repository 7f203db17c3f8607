package remote

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/coder/websocket"
	"github.com/gdngen/gdngen/internal/terminal"
	"github.com/gdngen/gdngen/internal/web"
)

// rayPlace runs jobs on a Ray cluster by the REST API of its dashboard. A job's package is named by its content, so that it is
// sent only once. The results are below the logs of the job's node, whose files the dashboard serves: no bucket is needed.
type rayPlace struct {
	text    string
	address string
	http    *http.Client
	settle  time.Duration // time limit of a stop
}

// Environment variables with the token of a Ray cluster, or the name of its file.
const (
	rayTokenEnv     = "RAY_AUTH_TOKEN"
	rayTokenPathEnv = "RAY_AUTH_TOKEN_PATH"
)

const raySettle = 20 * time.Second

func openRay(rest string) (Place, error) {
	u, err := url.Parse(rest)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" {
		return nil, badPlace("place ray:%s: want the address of a dashboard, such as ray:http://head:8265", rest)
	}
	return &rayPlace{text: "ray:" + rest, address: strings.TrimRight(rest, "/"), http: web.New(web.Limits{}), settle: raySettle}, nil
}

// rayToken returns the user's token; empty: none.
func rayToken() (string, error) {
	if t := os.Getenv(rayTokenEnv); t != "" {
		return t, nil
	}
	path := os.Getenv(rayTokenPathEnv)
	if path == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", nil
		}
		path = filepath.Join(home, ".ray", "auth_token")
		if _, err := os.Stat(path); err != nil {
			return "", nil
		}
	}
	text, err := os.ReadFile(path)
	return strings.TrimSpace(string(text)), err
}

// RayError is an answer of a Ray cluster other than 2xx.
type RayError struct {
	Code int
	Text string
}

func (e *RayError) Error() string {
	help := ""
	switch e.Code {
	case http.StatusUnauthorized:
		help = "; give the cluster's token in " + rayTokenEnv + ", or its file in " + rayTokenPathEnv
	case http.StatusForbidden:
		help = "; the token in " + rayTokenEnv + ", " + rayTokenPathEnv + " or ~/.ray/auth_token is not the cluster's"
	}
	return fmt.Sprintf("ray answers %d: %s%s", e.Code, e.Text, help)
}

// rayAnswer bounds an answer in bytes; results are read as streams.
const rayAnswer = 256 << 20

// NotStoppedError says that a job goes on after a request to stop it.
type NotStoppedError struct {
	ID      string
	Phase   Phase
	Message string
}

func (e *NotStoppedError) Error() string {
	return fmt.Sprintf("job %s was asked to stop, and it is still %s: %s", e.ID, e.Phase, e.Message)
}

// request makes a call with the user's token.
func (p *rayPlace) request(ctx context.Context, method, path string, body io.Reader) (*http.Response, error) {
	token, err := rayToken()
	if err != nil {
		return nil, err
	}
	r, err := http.NewRequestWithContext(ctx, method, p.address+path, body)
	if err != nil {
		return nil, err
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	a, err := p.http.Do(r)
	if err != nil {
		return nil, &UnreachableError{p.text, err}
	}
	if a.StatusCode/100 != 2 {
		defer a.Body.Close()
		data, _ := io.ReadAll(io.LimitReader(a.Body, 64<<10))
		lines := strings.Split(strings.TrimSpace(string(data)), "\n")
		return nil, &RayError{a.StatusCode, lines[len(lines)-1]} // Ray's error is a stack whose last line has the reason
	}
	return a, nil
}

// call makes a request. If out is not nil, the JSON answer is decoded into it.
func (p *rayPlace) call(ctx context.Context, method, path string, body []byte, out any) error {
	a, err := p.request(ctx, method, path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	defer a.Body.Close()
	data, err := web.All(a.Body, rayAnswer)
	if err != nil {
		return &UnreachableError{p.text, err}
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(data, out); err != nil {
		return fmt.Errorf("%s answers %s with what is not its JSON: %w", p.text, path, err)
	}
	return nil
}

// rayJob is a dashboard's description of a job.
type rayJob struct {
	ID      string `json:"submission_id"`
	Status  string `json:"status"`
	Message string `json:"message"`
	Exit    *int   `json:"driver_exit_code"`
	Node    string `json:"driver_node_id"`
	Type    string `json:"type"`
}

func (j *rayJob) state() State {
	s := State{Phase: Phase(terminal.Plain(strings.ToLower(j.Status))), Node: terminal.Plain(j.Node), Message: terminal.Lines(j.Message)}
	if j.Exit != nil {
		s.Exit = *j.Exit
	}
	if s.Phase == Failed && s.Exit <= 0 {
		s.Phase = Lost // its node or its environment failed: the command did not end by itself
	}
	return s
}

func (p *rayPlace) job(ctx context.Context, id string) (*rayJob, error) {
	j := new(rayJob)
	err := p.call(ctx, http.MethodGet, "/api/jobs/"+url.PathEscape(id), nil, j)
	if bad := (*RayError)(nil); errors.As(err, &bad) && bad.Code == http.StatusNotFound {
		return nil, &NoJobError{p.text, id}
	}
	return j, err
}

// resultsOf returns the results folder of a job, below the logs of its node.
func resultsOf(id string) string { return "gdngen/" + id }

// beganName is a file that a job writes first. If the dashboard does not serve it, the job's results are out of its reach.
const beganName = ".began"

func (p *rayPlace) Submit(ctx context.Context, j *Job) error {
	if _, err := p.job(ctx, j.ID); err == nil {
		return nil
	} else if none := (*NoJobError)(nil); !errors.As(err, &none) {
		return err
	}
	pack, err := p.upload(ctx, j)
	if err != nil {
		return err
	}
	// A job with a package begins in <session>/runtime_resources/working_dir_files/_ray_pkg_X.
	line := "GDNGEN_OUT=$PWD/../../../logs/" + resultsOf(j.ID) + "; export GDNGEN_OUT; mkdir -p \"$GDNGEN_OUT\" && : > \"$GDNGEN_OUT/" + beganName + "\"; chmod +x gdngen 2>/dev/null; PATH=$PWD:$PATH; export PATH\n" + j.line()
	environment := map[string]any{"working_dir": pack}
	if len(j.Env) > 0 {
		environment["env_vars"] = j.Env
	}
	request := map[string]any{"submission_id": j.ID, "entrypoint": "sh -c " + Quote(line), "runtime_env": environment, "metadata": map[string]string{"gdngen": "job"}}
	if j.CPUs > 0 {
		request["entrypoint_num_cpus"] = j.CPUs
	}
	if len(j.Resources) > 0 {
		request["entrypoint_resources"] = j.Resources
	}
	body, err := json.Marshal(request)
	if err != nil {
		return err
	}
	for attempt := 1; ; attempt++ {
		err = p.call(ctx, http.MethodPost, "/api/jobs/", body, nil)
		bad := (*RayError)(nil)
		switch {
		case err == nil, errors.As(err, &bad) && strings.Contains(bad.Text, "already exists"):
			return nil // the job exists: an earlier answer was lost
		case bad != nil && bad.Code < 500, attempt == 4, ctx.Err() != nil:
			return err
		}
		if _, there := p.job(ctx, j.ID); there == nil {
			return nil
		}
		select {
		case <-time.After(250 * time.Millisecond << attempt):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// upload sends a job's package, unless it is there, and returns its URI.
func (p *rayPlace) upload(ctx context.Context, j *Job) (uri string, err error) {
	files, err := luggage(j.Files)
	if err != nil {
		return "", err
	}
	if !j.NoSync {
		exe, err := os.Executable()
		if err != nil {
			return "", err
		}
		files = append([]item{{"gdngen", exe, 0o755}}, files...)
	}
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, f := range files {
		h := &zip.FileHeader{Name: f.name, Method: zip.Deflate} // without a time, so that the same content is the same package
		h.SetMode(f.mode)
		content, err := os.ReadFile(f.path)
		if err != nil {
			return "", err
		}
		w, err := z.CreateHeader(h)
		if err == nil {
			_, err = w.Write(content)
		}
		if err != nil {
			return "", err
		}
	}
	if len(files) == 0 { // a job without a package would not begin where its results are served
		if _, err := z.Create(".gdngen"); err != nil {
			return "", err
		}
	}
	if err := z.Close(); err != nil {
		return "", err
	}
	sum := sha256.Sum256(b.Bytes())
	name := fmt.Sprintf("_ray_pkg_%x.zip", sum[:16])
	err = p.call(ctx, http.MethodGet, "/api/packages/gcs/"+name, nil, nil)
	if bad := (*RayError)(nil); errors.As(err, &bad) && bad.Code == http.StatusNotFound {
		err = p.call(ctx, http.MethodPut, "/api/packages/gcs/"+name, b.Bytes(), nil)
	}
	return "gcs://" + name, err
}

func (p *rayPlace) Status(ctx context.Context, id string) (*State, error) {
	j, err := p.job(ctx, id)
	if err != nil {
		return nil, err
	}
	s := j.state()
	return &s, nil
}

// Logs uses a websocket while the job runs, which starts from the beginning at each connection, and the whole text once the job has ended.
func (p *rayPlace) Logs(ctx context.Context, id string, from int64, follow bool) (io.ReadCloser, error) {
	j, err := p.job(ctx, id)
	if err != nil {
		return nil, err
	}
	if s := j.state(); !follow || s.Phase.Done() {
		var all struct{ Logs string }
		if err := p.call(ctx, http.MethodGet, "/api/jobs/"+url.PathEscape(id)+"/logs", nil, &all); err != nil {
			return nil, err
		}
		return io.NopCloser(strings.NewReader(all.Logs[min(from, int64(len(all.Logs))):])), nil
	}
	token, err := rayToken()
	if err != nil {
		return nil, err
	}
	h := http.Header{}
	if token != "" {
		h.Set("Authorization", "Bearer "+token)
	}
	c, _, err := websocket.Dial(ctx, "ws"+strings.TrimPrefix(p.address, "http")+"/api/jobs/"+url.PathEscape(id)+"/logs/tail", &websocket.DialOptions{HTTPHeader: h})
	if err != nil {
		return nil, &UnreachableError{p.text, err}
	}
	c.SetReadLimit(rayAnswer)
	return &tail{ctx: ctx, conn: c, skip: from}, nil
}

// tail reads the text frames of a websocket after a number of bytes. Any close by the other end is the end of the stream.
type tail struct {
	ctx  context.Context
	conn *websocket.Conn
	skip int64
	rest []byte
}

func (t *tail) Read(b []byte) (int, error) {
	for len(t.rest) == 0 {
		_, text, err := t.conn.Read(t.ctx)
		if err != nil {
			if t.ctx.Err() != nil {
				return 0, t.ctx.Err()
			}
			return 0, io.EOF
		}
		n := min(t.skip, int64(len(text)))
		t.skip -= n
		t.rest = text[n:]
	}
	n := copy(b, t.rest)
	t.rest = t.rest[n:]
	return n, nil
}

func (t *tail) Close() error { return t.conn.CloseNow() }

func (p *rayPlace) Stop(ctx context.Context, id string) error {
	err := p.call(ctx, http.MethodPost, "/api/jobs/"+url.PathEscape(id)+"/stop", []byte("{}"), nil)
	if bad := (*RayError)(nil); errors.As(err, &bad) && bad.Code == http.StatusNotFound {
		return &NoJobError{p.text, id}
	}
	if err != nil {
		return err
	}
	var j *rayJob
	for end := time.Now().Add(p.settle); ; {
		if j, err = p.job(ctx, id); err != nil {
			return err
		}
		s := j.state()
		if s.Phase.Done() {
			return nil
		}
		if time.Now().After(end) {
			return &NotStoppedError{id, s.Phase, j.Message}
		}
		select {
		case <-time.After(p.settle / 20):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// mostFolders bounds the folders of a job's results.
const mostFolders = 2000

// Files asks the dashboard for the logs of the node that ran the job, folder by folder.
func (p *rayPlace) Files(ctx context.Context, id string) ([]File, error) {
	j, err := p.job(ctx, id)
	if err != nil {
		return nil, err
	}
	if j.Node == "" {
		return nil, fmt.Errorf("job %s has no node yet: %s", id, j.Message)
	}
	root := resultsOf(id) + "/"
	var l []File
	began := false
	asked := 0
	for folders := []string{root}; len(folders) > 0; asked++ {
		if asked == mostFolders {
			return nil, fmt.Errorf("%s lists more than %d folders of results", p.text, mostFolders)
		}
		at := folders[0]
		folders = folders[1:]
		var answer struct {
			Data struct {
				Result map[string][]string `json:"result"`
			} `json:"data"`
		}
		q := url.Values{"node_id": {j.Node}, "glob": {at + "*"}}
		if err := p.call(ctx, http.MethodGet, "/api/v0/logs?"+q.Encode(), nil, &answer); err != nil {
			return nil, err
		}
		for _, names := range answer.Data.Result { // grouped by Ray's guess of their kind
			for _, name := range names {
				rest, ok := strings.CutPrefix(name, root)
				switch {
				case !ok || name == at:
				case strings.HasSuffix(name, "/"):
					folders = append(folders, name)
				case rest == beganName:
					began = true
				case local(rest):
					l = append(l, File{rest, -1})
				}
			}
		}
	}
	if s := j.state(); !began && s.Phase.Done() && len(l) == 0 {
		return nil, fmt.Errorf("the dashboard serves no results of %s: its package did not begin below the session's folder, or its node is gone", id)
	}
	return sorted(l), nil
}

func (p *rayPlace) Open(ctx context.Context, id, name string) (io.ReadCloser, error) {
	if !local(name) {
		return nil, fmt.Errorf("%q is no file of a job", name)
	}
	j, err := p.job(ctx, id)
	if err != nil {
		return nil, err
	}
	q := url.Values{"node_id": {j.Node}, "filename": {resultsOf(id) + "/" + name}, "lines": {"-1"}}
	a, err := p.request(ctx, http.MethodGet, "/api/v0/logs/file?"+q.Encode(), nil)
	if err != nil {
		return nil, err
	}
	return a.Body, nil
}

func (p *rayPlace) List(ctx context.Context) (l []Listed, err error) {
	var all []rayJob
	if err := p.call(ctx, http.MethodGet, "/api/jobs/", nil, &all); err != nil {
		return nil, err
	}
	for _, j := range all {
		if j.ID != "" {
			l = append(l, Listed{terminal.Plain(j.ID), j.state()})
		}
	}
	return l, nil
}
