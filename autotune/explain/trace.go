package explain

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gdngen/gdngen/internal/store"
	"github.com/gdngen/gdngen/pjrt/llo"
)

// TraceColumns is the largest number of columns of a schedule written as a trace: one per bundle, except in very long schedules.
const TraceColumns = 1 << 16

// traceEvent is one of the trace events of Chrome: X lasts from Time for Duration, M names a process or thread.
type traceEvent struct {
	Name     string         `json:"name"`
	Phase    string         `json:"ph"`
	Process  int            `json:"pid"`
	Thread   int            `json:"tid"`
	Time     int            `json:"ts"`
	Duration int            `json:"dur,omitempty"`
	Args     map[string]any `json:"args,omitempty"`
}

// Trace returns the schedule of the hottest part of each op as trace events for Perfetto and chrome://tracing: a process for each
// op of a target, in it a thread for the stages and one for each unit. One microsecond of the trace is one bundle in program
// order, from the first of the part; nothing ran. The module must be measured with Options.Columns = TraceColumns.
func (r *Result) Trace() ([]byte, error) {
	var events []traceEvent
	process := 0
	for _, e := range r.Targets {
		for i := range e.Report.Ops {
			op := &e.Report.Ops[i]
			if op.Profile == nil {
				continue
			}
			process++
			stage := func(place string) string { return e.module.Program.OpStage(op.Name, place) }
			events = append(events, traceOp(process, e.Target+" "+op.Name, op.Profile, stage)...)
		}
	}
	if process == 0 {
		return nil, errors.New("no op has a schedule to write as a trace")
	}
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false) // Perfetto reads no escapes by code point
	err := e.Encode(traceFile{events, map[string]string{"unit": "a microsecond is one bundle of the schedule", "module": r.Module.String()}})
	return text.Bytes(), err
}

// traceFile has its events first: some versions of Perfetto stop reading at a key that they do not know.
type traceFile struct {
	Events []traceEvent      `json:"traceEvents"`
	Other  map[string]string `json:"otherData"`
}

// WriteTrace writes Trace to a file.
func (r *Result) WriteTrace(file string) error {
	data, err := r.Trace()
	if err != nil {
		return err
	}
	return store.WriteFile(file, data)
}

// threadsOf is the largest number of threads in a process. Thread numbers differ between processes too: Perfetto looks names up by thread number alone.
const threadsOf = 1000

// traceOp returns the events of one op. Equal neighbours are merged into one event.
func traceOp(process int, name string, f *llo.Profile, stage func(place string) string) []traceEvent {
	events := []traceEvent{{Name: "process_name", Phase: "M", Process: process, Thread: process * threadsOf, Args: map[string]any{"name": fmt.Sprintf("%s: %d bundles, run %s", name, f.Bundles, times(f.Runs))}}}
	thread := process * threadsOf
	add := func(name string, says func(llo.Column) string) {
		thread++
		events = append(events, traceEvent{Name: "thread_name", Phase: "M", Process: process, Thread: thread, Args: map[string]any{"name": name}})
		last, at := -1, 0
		for _, c := range f.Columns {
			text := says(c)
			switch {
			case text == "":
				last = -1
			case last >= 0 && events[last].Name == text:
				events[last].Duration += c.Bundles
			default:
				last = len(events)
				events = append(events, traceEvent{text, "X", process, thread, at, c.Bundles, map[string]any{"bundle": fmt.Sprintf("%#x", c.First)}})
			}
			at += c.Bundles
		}
	}
	add("stage", func(c llo.Column) string { return mainStage(c, stage) })
	for i, slot := range f.Slots {
		if !strings.Contains(slot, ":") { // parts of a slot, such as spills, are already counted in it
			add(slot, func(c llo.Column) string { return full(slot, c.Use[i]) })
		}
	}
	add("waiting", func(c llo.Column) string { return full("waiting", c.Stall) })
	return events
}

// full returns a unit's name and fill; empty if it is idle.
func full(name string, part float64) string {
	if part == 0 {
		return ""
	}
	return fmt.Sprintf("%s %.0f%%", name, 100*part)
}

// mainStage returns the stage with the most instructions of a column; empty if none has a stage.
func mainStage(c llo.Column, stage func(place string) string) string {
	shares := stageShares(c, stage)
	return slices.MaxFunc(append(slices.Sorted(maps.Keys(shares)), ""), func(x, y string) int {
		return cmp.Or(cmp.Compare(shares[x], shares[y]), cmp.Compare(y, x))
	})
}
