// Package trace reads profiles of JAX and XLA programs, and shows where the time of a step goes.
//
// Rules:
//
//  1. A profile is an XSpace (xplane.pb), a file of trace events (trace.json.gz, perfetto_trace.json.gz), or a folder of them. In a folder the newest
//     run counts, with all its hosts. xplane.pb is preferred to JSON, which converters cut.
//  2. Times are whole picoseconds, as the profiler wrote them. The self time of an event is its time without the events inside it.
//  3. Sums are over the whole trace. Figures per step are medians over steady steps of all devices, with the 10th and 90th percentile. The first
//     quarter of the steps is warm-up.
//  4. An instruction is identified by its program and its name: names are unique only within a program.
//  5. Unknown fields of a file are skipped. A file that is cut off, or of another format, is a [FileError], with the reason and the byte.
//  6. If the converter cut a trace, the output says so and shows no shares.
//
// Example: a while loop of 30 us that contains ops of 5 and 20 us has 5 us of self time:
//
//	XLA Ops   |-- while.4 ----------------------|-- dot.3 --|
//	          | fusion.2 | gdr.1          |
//	          0          5                25    30          40 us
package trace

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Trace is the profile of one or more hosts.
type Trace struct {
	Files    []string // that it was read from
	Hosts    []string
	Planes   []*Plane
	Warnings []string
	Cut      bool // events are missing, since the converter stopped at its limit

	kineto bool // made by PyTorch's profiler
}

// Plane is a device, or the threads of a host.
type Plane struct {
	Name  string // such as /device:TPU:0 or /host:CPU
	Host  string // the file it is from, if a trace has several
	Stats map[string]any
	Lines []*Line
}

// Line is a sequence of events in order of time, such as XLA Ops or a thread.
type Line struct {
	Name   string
	Events []Event
}

// Event is an interval of time. Times are picoseconds since the trace began.
type Event struct {
	Start, Duration int64
	Op              *Op
}

// End returns the end of the event.
func (e Event) End() int64 { return e.Start + e.Duration }

// Op has the common fields of events of one kind. Fields that the trace lacks are empty.
type Op struct {
	Name     string  // of the instruction, such as fusion.2
	Long     string  // its text
	Category string  // hlo_category
	Scope    string  // tf_op: the path of named scopes and primitives
	Source   string  // file and line
	Module   string  // hlo_module
	Program  string  // program_id, which distinguishes programs with one module name
	Flops    float64 // by XLA's cost model; custom calls have none
	Bytes    float64 // bytes accessed, by the same model
	HLO      bool    // it is an instruction of a compiled program
	Step     bool    // it is a step announced by the program
}

// set stores a stat of an event, or of its kind.
func (o *Op) set(key string, v any) {
	text, _ := v.(string)
	switch key {
	case "hlo_op":
		o.Name, o.HLO = cmp.Or(text, o.Name), true
	case "hlo_category":
		o.Category, o.HLO = text, true
	case "hlo_module":
		o.Module = text
	case "program_id":
		o.Program = whole(v)
	case "tf_op":
		if text = strings.TrimSuffix(text, ":"); text != "XlaModule" { // XlaModule is not a path
			o.Scope = text
		}
	case "name": // the name of an instruction on a GPU
		if strings.Contains(text, "/") {
			o.Scope = cmp.Or(o.Scope, text)
		}
	case "source":
		o.Source = text
	case "flops":
		o.Flops = number(v)
	case "bytes_accessed":
		o.Bytes = number(v)
	case "step_num":
		o.Step = true
	}
}

// number returns a stat as a number; in JSON it may be text.
func number(v any) float64 {
	switch x := v.(type) {
	case float64:
		return x
	case int64:
		return float64(x)
	case uint64:
		return float64(x)
	case string:
		var f float64
		fmt.Sscan(x, &f) // 0 if not a number
		return f
	}
	return 0
}

// whole returns a stat that is a whole number, as text.
func whole(v any) string {
	if x, ok := v.(float64); ok { // from JSON
		return fmt.Sprintf("%.0f", x)
	}
	return fmt.Sprint(v)
}

// Device reports whether a plane is an accelerator.
func (p *Plane) Device() bool { return strings.HasPrefix(p.Name, "/device:") }

// Line returns the line of that name that has events, or nil.
func (p *Plane) Line(name string) *Line {
	for _, l := range p.Lines {
		if l.Name == name && len(l.Events) > 0 {
			return l
		}
	}
	return nil
}

// sort orders events by time; an event that contains others precedes them.
func (l *Line) sort() {
	slices.SortStableFunc(l.Events, func(a, b Event) int {
		return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(b.Duration, a.Duration))
	})
}

// selfTimes returns the self time of each event in ps: its time without the events inside it. An event that ends after the event it
// began in takes away only the part inside.
func (l *Line) selfTimes() []int64 {
	self := make([]int64, len(l.Events))
	var open []int
	for i, e := range l.Events {
		for len(open) > 0 && e.Start >= l.Events[open[len(open)-1]].End() {
			open = open[:len(open)-1]
		}
		self[i] = e.Duration
		if len(open) > 0 {
			outer := open[len(open)-1]
			self[outer] -= min(e.End(), l.Events[outer].End()) - e.Start
		}
		open = append(open, i)
	}
	return self
}

// FileError says why a file can not be read as a trace.
type FileError struct {
	Path   string
	Offset int64 // of the byte; negative: unknown
	Reason string
}

func (e *FileError) Error() string {
	at := ""
	if e.Offset >= 0 {
		at = fmt.Sprintf(" (at byte %d)", e.Offset)
	}
	return fmt.Sprintf("%s: %s%s", e.Path, e.Reason, at)
}
