package trace

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
)

// mostEvents is the limit of the converter from XSpaces to trace events, unless TF_PROFILER_TRACE_VIEWER_MAX_EVENTS is set. Tests set a
// smaller one.
var mostEvents = 1_000_000

// traceEvent is an entry in Chromium's trace event format. Times are microseconds.
type traceEvent struct {
	Ph, Name string
	Pid, Tid int64
	Ts, Dur  float64
	Args     map[string]any
}

// thread identifies a line.
type thread struct{ process, number int64 }

// eventReader collects events until the names of processes and threads are known, which may come last.
type eventReader struct {
	t         *Trace
	processes map[int64]string
	threads   map[thread]string
	lines     map[thread]*Line
	order     []thread
	kinds     map[Op]*Op
	complete  int // events with a duration
	all       int // without events that only name things, as the converter counts
	in        *guard
}

// readJSON reads trace events one at a time: {"traceEvents": [...]}, or only the list.
func readJSON(in *guard) (*Trace, error) {
	d := json.NewDecoder(in)
	r := &eventReader{&Trace{}, map[int64]string{}, map[thread]string{}, map[thread]*Line{}, nil, map[Op]*Op{}, 0, 0, in}
	found := false
	err := func() error {
		t, err := d.Token()
		if err != nil {
			return err
		}
		if t == json.Delim('[') {
			found = true
			return r.list(d)
		}
		for d.More() {
			key, err := d.Token()
			if err != nil {
				return err
			}
			if key != "traceEvents" {
				r.t.kineto = r.t.kineto || key == "deviceProperties" || key == "schemaVersion"
				var skip json.RawMessage
				if err := d.Decode(&skip); err != nil {
					return err
				}
				continue
			}
			if t, err := d.Token(); err != nil {
				return err
			} else if t != json.Delim('[') {
				return errors.New("traceEvents is no list")
			}
			found = true
			if err := r.list(d); err != nil {
				return err
			}
		}
		_, err = d.Token()
		return err
	}()
	bad := (*damage)(nil)
	switch {
	case errors.As(err, &bad) || in.ctx.Err() != nil:
		return nil, err
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		return nil, &damage{d.InputOffset(), fmt.Sprintf("cut off: the JSON ends too early, after %d events", r.complete)}
	case err != nil:
		return nil, &damage{d.InputOffset(), "not a trace: " + err.Error()}
	case !found:
		return nil, &damage{-1, "not a trace: the JSON has no traceEvents"}
	}
	return r.finish(), nil
}

// list reads the rest of a list of events.
func (r *eventReader) list(d *json.Decoder) error {
	for d.More() {
		var e traceEvent
		if err := d.Decode(&e); err != nil {
			return err
		}
		if r.in.mark = r.in.read; r.complete >= mostTimed {
			return &damage{-1, fmt.Sprintf("it has more than %d events", mostTimed)}
		}
		r.add(&e)
	}
	_, err := d.Token()
	return err
}

func (r *eventReader) add(e *traceEvent) {
	at := thread{e.Pid, e.Tid}
	if e.Ph != "M" {
		r.all++
	}
	switch {
	case e.Name == "process_name":
		r.processes[e.Pid], _ = e.Args["name"].(string)
	case e.Name == "thread_name":
		r.threads[at], _ = e.Args["name"].(string)
	case e.Ph == "X":
		r.complete++
		l := r.lines[at]
		if l == nil {
			l = &Line{}
			r.lines[at] = l
			r.order = append(r.order, at)
		}
		o := Op{Name: e.Name}
		for k, v := range e.Args {
			o.set(k, v)
			if k == "long_name" {
				o.Long, _ = v.(string)
			}
		}
		if r.kinds[o] == nil {
			r.kinds[o] = &o
		}
		l.Events = append(l.Events, Event{int64(math.Round(e.Ts * 1e6)), int64(math.Round(e.Dur * 1e6)), r.kinds[o]})
	}
}

// finish names lines and planes.
func (r *eventReader) finish() *Trace {
	planes := map[int64]*Plane{}
	for _, at := range r.order {
		p := planes[at.process]
		if p == nil {
			p = &Plane{Name: r.processes[at.process], Stats: map[string]any{}}
			planes[at.process] = p
			r.t.Planes = append(r.t.Planes, p)
		}
		l := r.lines[at]
		l.Name = r.threads[at]
		l.sort()
		p.Lines = append(p.Lines, l)
	}
	slices.SortStableFunc(r.t.Planes, func(a, b *Plane) int { return compareNames(a.Name, b.Name) })
	if r.all >= mostEvents {
		r.t.Cut = true
		r.t.Warnings = append(r.t.Warnings, fmt.Sprintf("%d events: the converter stops at %d, so this trace is cut, and no shares are given; read its xplane.pb", r.all, mostEvents))
	}
	return r.t
}
