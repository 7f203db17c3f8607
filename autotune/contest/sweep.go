package contest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"slices"

	"github.com/gdngen/gdngen/autotune/bench"
	"github.com/gdngen/gdngen/autotune/flashinfer"
	"github.com/gdngen/gdngen/internal/store"
	"github.com/gdngen/gdngen/internal/terminal"
)

// Sweep has a server evaluate a solution, and stores the traces like a local sweep.
type Sweep struct {
	Server   *Server
	Solution *flashinfer.Solution
	Only     string // selects workloads, as in flashinfer.Choose
	Retry    bool   // repeat workloads that did not pass
	Progress func(bench.Progress)
}

// together is the number of workloads in one task: the loss when a server goes down.
const together = 8

// taskName is the file of the task under way. After a kill the task is resumed from it.
const taskName = "task.json"

type underWay struct {
	Task      string   `json:"task"`
	Server    string   `json:"server"`
	Workloads []string `json:"workloads"`
}

// Run evaluates the workloads without a trace in the store, and returns the sweep. Traces of other workloads, or with contradictory times, are errors.
func (x *Sweep) Run(ctx context.Context, s *bench.Store) (*bench.Item, error) {
	d, err := x.Server.Definition(ctx, x.Solution.Definition)
	if err != nil {
		return nil, err
	}
	all, err := x.Server.Workloads(ctx, d.Name)
	if err != nil {
		return nil, err
	}
	it := &bench.Item{Definition: d, Workloads: flashinfer.Choose(all, x.Only), Solution: x.Solution}
	if len(it.Workloads) == 0 {
		return nil, fmt.Errorf("%s has no workload to do: the server knows %d of %s", x.Server.URL, len(all), d.Name)
	}
	if err := s.Describe(d, it.Workloads, x.Solution); err != nil {
		return nil, err
	}
	p := bench.Progress{Total: len(it.Workloads)}
	var todo []string
	for _, w := range it.Workloads {
		if t := s.Done(d.Name, x.Solution.Name, w.UUID); t == nil || x.Retry && t.Evaluation.Status != flashinfer.Passed {
			todo = append(todo, w.UUID)
		}
	}
	p.Done = p.Total - len(todo)
	x.tell(p)
	for len(todo) > 0 {
		got, err := x.some(ctx, s.Dir, todo[:min(together, len(todo))])
		if err != nil {
			return nil, err
		}
		done := map[string]bool{}
		for _, t := range got {
			if t.Definition != d.Name || t.Evaluation == nil {
				return nil, fmt.Errorf("the server gives a trace of %s where one of %s was asked", terminal.Plain(t.Definition), d.Name)
			}
			if !slices.Contains(todo, t.Workload.UUID) {
				return nil, fmt.Errorf("the server gives a trace of workload %s, which was not asked for", terminal.Plain(t.Workload.UUID))
			}
			if p := t.Evaluation.Performance; p != nil && !(p.LatencyMS >= 0 && math.Abs(p.Speedup*p.LatencyMS-p.ReferenceLatencyMS) <= .01*p.ReferenceLatencyMS) {
				return nil, fmt.Errorf("the server's trace of workload %s contradicts itself: %g ms, %g ms of the reference, and a speed-up of %g", t.Workload.UUID, p.LatencyMS, p.ReferenceLatencyMS, p.Speedup)
			}
			t.Solution = x.Solution.Name // not the server's name
			if err := s.Append(d, t); err != nil {
				return nil, err
			}
			done[t.Workload.UUID] = true
			p.Done, p.Trace = p.Done+1, t
			x.tell(p)
		}
		left := todo[:0:0]
		for _, id := range todo {
			if !done[id] {
				left = append(left, id)
			}
		}
		if len(left) == len(todo) {
			return nil, fmt.Errorf("%s: the task ended without a trace of any of its workloads", x.Server.URL)
		}
		todo = left
		if err := os.Remove(filepath.Join(s.Dir, taskName)); err != nil {
			return nil, err
		}
	}
	return it, nil
}

func (x *Sweep) tell(p bench.Progress) {
	if x.Progress != nil {
		x.Progress(p)
	}
}

// some evaluates workloads in one task: it resumes the task under way, if the server still has it.
func (x *Sweep) some(ctx context.Context, dir string, uuids []string) ([]*flashinfer.Trace, error) {
	path := filepath.Join(dir, taskName)
	var had underWay
	text, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(text, &had)
	}
	if err == nil && had.Server == x.Server.URL {
		got, err := x.Server.wait(ctx, had.Task)
		if bad := (*ServerError)(nil); !errors.As(err, &bad) || bad.Code != http.StatusNotFound {
			return got, x.ended(path, err)
		}
	} else if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("%s: %w; remove it, and its workloads are done again", path, err)
	}
	id, err := x.Server.submit(ctx, x.Solution, uuids)
	if err != nil {
		return nil, err
	}
	if text, err = json.Marshal(underWay{id, x.Server.URL, uuids}); err == nil {
		err = store.WriteFile(path, text)
	}
	if err != nil {
		return nil, err
	}
	got, err := x.Server.wait(ctx, id)
	return got, x.ended(path, err)
}

// ended forgets a failed task, so that the next try starts a new one.
func (x *Sweep) ended(path string, err error) error {
	if bad := (*TaskError)(nil); errors.As(err, &bad) {
		return errors.Join(err, os.Remove(path))
	}
	return err
}
