// Package trace reads profiles of JAX and XLA programs, and says where the time of a step goes.
//
// Rules:
//
//  1. A profile is an XSpace (xplane.pb), a file of trace events (trace.json.gz, perfetto_trace.json.gz), or a folder of them. Of a folder the newest
//     run counts, with all its hosts, and xplane.pb comes before JSON, which converters cut.
//  2. Times are whole picoseconds, as the profiler wrote them. The self time of an event is its time less what events inside it take.
//  3. Sums are over the whole trace. Figures of a step are medians over steady steps of all devices, with the tenth and ninetieth percentile beside
//     them: the first quarter of the steps is warm-up.
//  4. An instruction is known by its program and its name: names are unique only within a program.
//  5. Unknown fields of a file are passed over. A file that is cut off, or is something else, is a [FileError]: what is wrong, and at which byte.
//  6. What the converter of a trace cut is said, and no shares are given of it.
//
// For example, a while loop of 30 us that holds ops of 5 and 20 us has 5 us of its own:
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

// Trace is what profilers of one or more hosts saw.
type Trace struct {
	Files    []string // that it was read from
	Hosts    []string
	Planes   []*Plane
	Warnings []string
	Cut      bool // events are missing: the converter stopped at its limit

	kineto bool // PyTorch's profiler made it
}

// Plane is a device, or the threads of a host.
type Plane struct {
	Name  string // such as /device:TPU:0 or /host:CPU
	Host  string // file that it is of, where a trace has several
	Stats map[string]any
	Lines []*Line
}

// Line is a row of events in order of time, such as XLA Ops or a thread.
type Line struct {
	Name   string
	Events []Event
}

// Event is something that took time. Times are picoseconds since the trace began.
type Event struct {
	Start, Duration int64
	Op              *Op
}

// End is when the event was over.
func (e Event) End() int64 { return e.Start + e.Duration }

// Op is what events of one kind have in common. Fields that the trace does not have are empty.
type Op struct {
	Name     string  // of the instruction, such as fusion.2
	Long     string  // its text
	Category string  // hlo_category
	Scope    string  // tf_op: the path of named scopes and primitives
	Source   string  // file and line
	Module   string  // hlo_module
	Program  string  // program_id, which tells programs of one module's name apart
	Flops    float64 // by XLA's cost model; custom calls have none
	Bytes    float64 // accessed, by the same
	HLO      bool    // an instruction of a compiled program
	Step     bool    // a step that the program announced
}

// set takes a stat of an event, or of its kind.
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
		if text = strings.TrimSuffix(text, ":"); text != "XlaModule" { // which is no path, but says that there is a program
			o.Scope = text
		}
	case "name": // of an instruction on a GPU
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

// number reads a stat that JSON may hold as text.
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
		fmt.Sscan(x, &f) // no number: zero
		return f
	}
	return 0
}

// whole reads a stat that is a whole number, as text.
func whole(v any) string {
	if x, ok := v.(float64); ok { // as JSON has it
		return fmt.Sprintf("%.0f", x)
	}
	return fmt.Sprint(v)
}

// Device says whether a plane is an accelerator.
func (p *Plane) Device() bool { return strings.HasPrefix(p.Name, "/device:") }

// Line finds a line by name; nil where there is none.
func (p *Plane) Line(name string) *Line {
	for _, l := range p.Lines {
		if l.Name == name && len(l.Events) > 0 {
			return l
		}
	}
	return nil
}

// sort brings events into the order of time, those that hold others before them.
func (l *Line) sort() {
	slices.SortStableFunc(l.Events, func(a, b Event) int {
		return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(b.Duration, a.Duration))
	})
}

// selfTimes gives each event the part of its time that no event inside it takes. An event that reaches beyond the one it began in takes from that
// only what lies inside.
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

// FileError says why a file is no trace that can be read.
type FileError struct {
	Path   string
	Offset int64 // of the byte; below zero: not known
	Reason string
}

func (e *FileError) Error() string {
	at := ""
	if e.Offset >= 0 {
		at = fmt.Sprintf(" (at byte %d)", e.Offset)
	}
	return fmt.Sprintf("%s: %s%s", e.Path, e.Reason, at)
}
