package trace

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/gdngen/gdngen/ir/target"
)

// Budget divides the time of a step among groups.
type Budget struct {
	Trace    *Summary `json:"trace"`
	Control  *Summary `json:"control,omitempty"`
	Rows     []*Entry `json:"rows"` // groups, other, gaps, and the step itself
	Warnings []string `json:"warnings,omitempty"`
}

// Entry is a part of a step: medians in picoseconds.
type Entry struct {
	Name    string   `json:"name"`
	Time    float64  `json:"time_ps"`
	Share   float64  `json:"share"` // of the step; 0 if the trace is cut
	Control *float64 `json:"control_ps,omitempty"`
	Above   *float64 `json:"above_control_ps,omitempty"`
}

// Divide returns the budget of a trace, next to a control trace unless that is nil. Each part is a median, so parts add up if steps are
// alike and a device runs one op at a time.
func Divide(t, control *Trace, q Query) (*Budget, error) {
	q.By = "group"
	b := &Budget{}
	var err error
	if b.Trace, err = t.Sum(q); err != nil {
		return nil, err
	}
	if b.Trace.Steps.Count == 0 {
		return nil, fmt.Errorf("%s: nothing marks steps, so there is none to divide", strings.Join(t.Files, ", "))
	}
	b.Warnings = b.Trace.Warnings
	if control != nil {
		if b.Control, err = control.Sum(q); err != nil {
			return nil, err
		}
		for _, w := range b.Control.Warnings {
			b.Warnings = append(b.Warnings, "control: "+w)
		}
	}
	step := b.Trace.Steps.Time.Median
	add := func(name string, of func(*Summary) float64) {
		e := &Entry{Name: name, Time: of(b.Trace)}
		if step > 0 && !b.Trace.Cut {
			e.Share = e.Time / step
		}
		if b.Control != nil {
			c := of(b.Control)
			above := e.Time - c
			e.Control, e.Above = &c, &above
		}
		b.Rows = append(b.Rows, e)
	}
	group := func(name string) func(*Summary) float64 {
		return func(s *Summary) float64 {
			if r := byName(s.Rows)[name]; r != nil {
				return r.Step.Median
			}
			return 0
		}
	}
	for _, g := range q.Groups {
		add(g.Name, group(g.Name))
	}
	add(Other, group(Other))
	add("gaps", func(s *Summary) float64 { return s.Steps.Gap.Median })
	add("step", func(s *Summary) float64 { return s.Steps.Time.Median })
	return b, nil
}

// ReadGroups reads groups from JSON, {"NAME": "REGEXP", ...}, in the order of the file.
func ReadGroups(data []byte) (Groups, error) {
	d := json.NewDecoder(strings.NewReader(string(data)))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, fmt.Errorf(`want an object of groups such as {"rule": "gdn|gated_delta"}`)
	}
	var l Groups
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, err
		}
		var pattern string
		if err := d.Decode(&pattern); err != nil {
			return nil, fmt.Errorf("group %v: %w", name, err)
		}
		if l, err = l.add(fmt.Sprint(name), pattern); err != nil {
			return nil, err
		}
	}
	if _, err := d.Token(); err != nil {
		return nil, err
	}
	if len(l) == 0 {
		return nil, fmt.Errorf("no groups: want an object such as {\"rule\": \"gdn|gated_delta\"}")
	}
	return l, nil
}

// Utilisation is the model flop utilisation (MFU) of a step: model flops over the peak flops of the chips in that time.
type Utilisation struct {
	Trace      *Summary `json:"trace"`
	Flops      float64  `json:"model_flops"` // per step, on all chips
	Chips      int      `json:"chips"`
	Peak       float64  `json:"peak_flops_per_second"` // of one chip
	PeakFrom   string   `json:"peak_from"`
	MFU        float64  `json:"mfu"` // at the median step time
	Low        float64  `json:"mfu_low"`
	High       float64  `json:"mfu_high"`
	Tokens     float64  `json:"tokens_per_second,omitempty"`
	TraceFlops float64  `json:"trace_flops"` // XLA's count per step, which has none for custom calls: only a check
	Opaque     float64  `json:"opaque_ps"`   // self time per step of custom calls, whose flops XLA does not know
}

// Work is the arithmetic of one step of the traced program, and the chips that share it, for MFU.
type Work struct {
	Flops, Tokens float64        // per step; no tokens: unknown
	Chips         int            // 0: the number of chips in the trace
	Target        *target.Target // its peak counts; nil: the trace's device
}

// MFU returns the utilisation of a trace; it errs if the trace has no steps, or no peak is known.
func MFU(t *Trace, q Query, w Work) (*Utilisation, error) {
	s, err := t.Sum(q)
	if err != nil {
		return nil, err
	}
	files := strings.Join(t.Files, ", ")
	if s.Steps.Time.Median <= 0 {
		return nil, fmt.Errorf("%s: nothing marks steps, so there is no time to divide by", files)
	}
	u := &Utilisation{Trace: s, Flops: w.Flops, Chips: w.Chips}
	if u.Chips == 0 {
		u.Chips = len(s.Devices)
	}
	kind, _ := s.Facts["device_type_string"].(string)
	switch stat := number(s.Facts["peak_teraflops_per_second"]); {
	case w.Target != nil:
		u.Peak, u.PeakFrom = w.Target.PeakFlops()*w.Target.Clock, "facts of "+w.Target.Name
	case stat > 0:
		u.Peak, u.PeakFrom = stat*1e12, "the trace"
	default:
		t, err := target.OfKind(kind)
		if err != nil {
			return nil, fmt.Errorf("%s: the trace does not say what its device can do (kind %q): name it by --target, one of %s", files, kind, strings.Join(target.Names(), " "))
		}
		u.Peak, u.PeakFrom = t.PeakFlops()*t.Clock, "facts of "+t.Name
	}
	seconds := func(ps float64) float64 { return ps * 1e-12 }
	at := func(ps float64) float64 { return u.Flops / (seconds(ps) * u.Peak * float64(u.Chips)) }
	u.MFU, u.Low, u.High = at(s.Steps.Time.Median), at(s.Steps.Time.High), at(s.Steps.Time.Low)
	u.Tokens = w.Tokens / seconds(s.Steps.Time.Median)
	for _, r := range s.Rows {
		u.TraceFlops += r.Flops / float64(s.Steps.Count)
		if strings.Contains(r.Category, "custom-call") {
			u.Opaque += r.Step.Median
		}
	}
	return u, nil
}
