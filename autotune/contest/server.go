package contest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/gdngen/gdngen/autotune/flashinfer"
	"github.com/gdngen/gdngen/internal/web"
)

// Prefix begins places that are servers of FlashInfer-Bench.
const Prefix = "fib:"

// ServerError is a server's refusal, or says that it can not be reached (Code 0).
type ServerError struct {
	Call string
	Code int
	Text string
}

func (e *ServerError) Error() string {
	if e.Code == 0 {
		return fmt.Sprintf("%s: %s: is `flashinfer-bench serve` running there?", e.Call, e.Text)
	}
	return fmt.Sprintf("%s: status %d: %s", e.Call, e.Code, e.Text)
}

// TaskError says that the server gave up an evaluation.
type TaskError struct{ Task, Text string }

func (e *TaskError) Error() string {
	return fmt.Sprintf("task %s failed on the server: %s", e.Task, e.Text)
}

// Server is a client of a FlashInfer-Bench server.
type Server struct {
	URL  string
	http *http.Client
}

// Dial returns a client for a place fib:URL. Nothing is sent.
func Dial(place string) (*Server, error) {
	text, ok := strings.CutPrefix(place, Prefix)
	u, err := url.Parse(strings.TrimSuffix(text, "/"))
	if !ok || err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" {
		return nil, fmt.Errorf("place %s: want the address of a server of FlashInfer-Bench, such as fib:http://gpu:8000", place)
	}
	return &Server{URL: u.String(), http: web.New(web.Limits{})}, nil
}

// mostAnswer bounds an answer in bytes.
const mostAnswer = 256 << 20

// call sends a request; the JSON reply is decoded into answer.
func (s *Server) call(ctx context.Context, method, path string, body, answer any) error {
	name := method + " " + s.URL + path
	var text io.Reader
	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			return err
		}
		text = bytes.NewReader(data)
	}
	r, err := http.NewRequestWithContext(ctx, method, s.URL+path, text)
	if err != nil {
		return err
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	a, err := s.http.Do(r)
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if in := (*url.Error)(nil); errors.As(err, &in) {
			err = in.Err
		}
		return &ServerError{name, 0, err.Error()}
	}
	defer a.Body.Close()
	data, err := web.All(a.Body, mostAnswer)
	if err != nil {
		return &ServerError{name, 0, err.Error()}
	}
	if a.StatusCode != http.StatusOK {
		var said struct{ Detail any }
		if json.Unmarshal(data, &said) == nil && said.Detail != nil {
			return &ServerError{name, a.StatusCode, fmt.Sprint(said.Detail)}
		}
		line, _, _ := strings.Cut(strings.TrimSpace(string(data)), "\n")
		return &ServerError{name, a.StatusCode, line}
	}
	if err := json.Unmarshal(data, answer); err != nil {
		return &ServerError{name, a.StatusCode, "the answer is no JSON of the kind: " + err.Error()}
	}
	return nil
}

// Health is a server's answer about its state.
type Health struct {
	Status  string `json:"status"`
	Workers []struct {
		Device  string `json:"device"`
		Healthy bool   `json:"healthy"`
	} `json:"workers"`
	Queue int `json:"queue_size"`
}

// Health asks the server for the state of its workers.
func (s *Server) Health(ctx context.Context) (*Health, error) {
	h := &Health{}
	return h, s.call(ctx, http.MethodGet, "/health", nil, h)
}

// Definition fetches a definition by name.
func (s *Server) Definition(ctx context.Context, name string) (*flashinfer.Definition, error) {
	var text json.RawMessage
	if err := s.call(ctx, http.MethodGet, "/definitions/"+url.PathEscape(name), nil, &text); err != nil {
		return nil, err
	}
	return flashinfer.ParseDefinition(text)
}

// Workloads fetches the workloads of a definition.
func (s *Server) Workloads(ctx context.Context, definition string) (l []*flashinfer.Workload, err error) {
	return l, s.call(ctx, http.MethodGet, "/definitions/"+url.PathEscape(definition)+"/workloads", nil, &l)
}

// submit starts the evaluation of a solution on workloads. The server renames the solution.
func (s *Server) submit(ctx context.Context, sol *flashinfer.Solution, uuids []string) (task string, err error) {
	var a struct {
		Task string `json:"task_id"`
	}
	err = s.call(ctx, http.MethodPost, "/evaluate", map[string]any{"solution": sol, "workload_uuids": uuids}, &a)
	if err == nil && a.Task == "" {
		err = &ServerError{"POST " + s.URL + "/evaluate", http.StatusOK, "the answer names no task"}
	}
	return a.Task, err
}

// task is an evaluation on the server.
type task struct {
	Status string            `json:"status"`
	Traces []json.RawMessage `json:"traces"`
	Error  string            `json:"error"`
}

// askFor is how long one question waits for a task, and between is the pause after questions that the server did not answer.
var (
	askFor  = 60 * time.Second
	between = 2 * time.Second
	asked   = 30            // consecutive unanswered questions before the server counts as lost
	most    = 2 * time.Hour // longest wait for a task; a later call resumes it
)

// wait polls until a task is over. A server that does not answer for a while is asked again: its tasks go on.
func (s *Server) wait(ctx context.Context, id string) ([]*flashinfer.Trace, error) {
	begun := time.Now()
	for lost := 0; ; {
		if time.Since(begun) > most {
			return nil, &ServerError{"task " + id + " of " + s.URL, 0, fmt.Sprintf("it is not over after %v", most)}
		}
		var t task
		err := s.call(ctx, http.MethodGet, fmt.Sprintf("/tasks/%s?timeout=%g", url.PathEscape(id), askFor.Seconds()), nil, &t)
		if bad := (*ServerError)(nil); errors.As(err, &bad) && (bad.Code == 0 || bad.Code >= 500) && lost < asked {
			lost++
			select {
			case <-time.After(between):
				continue
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		if err != nil {
			return nil, err
		}
		lost = 0
		switch t.Status {
		case "completed":
			var l []*flashinfer.Trace
			for i, text := range t.Traces {
				x, err := flashinfer.ParseTrace(text)
				if err != nil {
					return nil, fmt.Errorf("task %s, trace %d: %w", id, i, err)
				}
				l = append(l, x)
			}
			return l, nil
		case "failed":
			return nil, &TaskError{id, t.Error}
		case "pending", "running":
		default:
			return nil, &TaskError{id, fmt.Sprintf("it is of the unknown status %q", t.Status)}
		}
	}
}

// Examine tests the server of a place. It returns a description of its workers, or an error naming the failed call.
func Examine(ctx context.Context, place string) (string, error) {
	s, err := Dial(place)
	if err != nil {
		return "", err
	}
	h, err := s.Health(ctx)
	if err != nil {
		return "", err
	}
	said := fmt.Sprintf("%s: %s, %d in its queue", place, h.Status, h.Queue)
	for _, w := range h.Workers {
		said += ", " + w.Device
		if !w.Healthy {
			said += " (not well)"
		}
	}
	return said, nil
}
