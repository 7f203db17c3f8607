package flashinfer

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Workload binds a definition's axes to values, and names the source of each input.
type Workload struct {
	UUID   string
	Axes   map[string]int
	Inputs map[string]Input

	extra map[string]any
}

// The kinds of inputs.
const (
	Random      = "random"      // drawn
	Scalar      = "scalar"      // Value
	Safetensors = "safetensors" // tensor Key of file Path, which is relative to the root of the trace set
)

// Input is the source of one input.
type Input struct {
	Type  string
	Value any // of a scalar: json.Number or bool
	Path  string
	Key   string

	extra map[string]any
}

// Status is the result class of an evaluation.
type Status string

// The statuses.
const (
	Passed             Status = "PASSED"
	IncorrectShape     Status = "INCORRECT_SHAPE"
	IncorrectNumerical Status = "INCORRECT_NUMERICAL"
	IncorrectDType     Status = "INCORRECT_DTYPE"
	RuntimeError       Status = "RUNTIME_ERROR"
	CompileError       Status = "COMPILE_ERROR"
	Timeout            Status = "TIMEOUT"
)

// Statuses lists all statuses.
var Statuses = []Status{Passed, IncorrectShape, IncorrectNumerical, IncorrectDType, RuntimeError, CompileError, Timeout}

// Trace is a workload of a definition, with the evaluation of a solution on it. Without solution and evaluation it
// stores only the workload, as data sets do.
type Trace struct {
	Definition string
	Workload   *Workload
	Solution   string
	Evaluation *Evaluation

	extra map[string]any
}

// Evaluation is the result of one solution on one workload.
type Evaluation struct {
	Status      Status
	Environment Environment
	Timestamp   string // ISO 8601
	Log         string
	Correctness *Correctness // only with PASSED and INCORRECT_NUMERICAL
	Performance *Performance // only with PASSED

	extra map[string]any
}

// Environment describes the hardware and libraries of an evaluation.
type Environment struct {
	Hardware string            `json:"hardware"`
	Libs     map[string]string `json:"libs"`
}

// Correctness holds the largest errors over all elements of all outputs and trials. They may be infinite or NaN.
type Correctness struct {
	MaxRelative, MaxAbsolute float64
	Extra                    map[string]any
}

// Performance holds mean latencies over the trials.
type Performance struct {
	LatencyMS          float64 // of the solution
	ReferenceLatencyMS float64
	Speedup            float64 // reference over solution
	extra              map[string]any
}

// ParseTrace reads a trace, or a workload stored as one.
func ParseTrace(data []byte) (*Trace, error) {
	t, err := parse("trace", data)
	if err != nil {
		return nil, err
	}
	x, r := &Trace{}, &reader{}
	x.extra = r.object(t, fields{
		"definition": {required: true, read: r.text(&x.Definition, false)},
		"workload":   {required: true, read: func(t *tree) { x.Workload = r.workload(t) }},
		"solution":   {read: r.text(&x.Solution, false)},
		"evaluation": {read: func(t *tree) { x.Evaluation = r.evaluation(t) }},
	})
	if r.errs == nil && (x.Solution == "") != (x.Evaluation == nil) {
		r.failf("trace", "has one of solution and evaluation: a trace has both, a workload neither")
	}
	if err := r.err(); err != nil {
		return nil, err
	}
	return x, nil
}

// ParseWorkload reads one workload outside of a trace.
func ParseWorkload(data []byte) (*Workload, error) {
	t, err := parse("workload", data)
	if err != nil {
		return nil, err
	}
	r := &reader{}
	w := r.workload(t)
	if err := r.err(); err != nil {
		return nil, err
	}
	return w, nil
}

func (r *reader) workload(t *tree) *Workload {
	w := &Workload{Axes: map[string]int{}, Inputs: map[string]Input{}}
	w.extra = r.object(t, fields{
		"uuid": {required: true, read: r.text(&w.UUID, false)},
		"axes": {required: true, read: r.each(func(name string, t *tree) {
			var n int
			r.integer(&n, 0)(t)
			w.Axes[name] = n
		})},
		"inputs": {required: true, read: r.each(func(name string, t *tree) { w.Inputs[name] = r.input(t) })},
	})
	return w
}

func (r *reader) input(t *tree) Input {
	var x Input
	var has []string
	x.extra = r.object(t, fields{
		"type": {required: true, read: r.text(&x.Type, false)},
		"value": {read: func(t *tree) {
			has = append(has, "value")
			switch t.value.(type) {
			case json.Number, bool:
				x.Value = t.value
			default:
				r.failf(t.path, "is %s, want a number or a boolean", t.kind())
			}
		}},
		"path":       {read: func(t *tree) { has = append(has, "path"); r.text(&x.Path, false)(t) }},
		"tensor_key": {read: func(t *tree) { has = append(has, "tensor_key"); r.text(&x.Key, false)(t) }},
	})
	want, known := map[string][]string{Random: nil, Scalar: {"value"}, Safetensors: {"path", "tensor_key"}}[x.Type]
	if !known {
		if x.Type != "" {
			r.failf(t.path+".type", "is %q, want random, scalar or safetensors", x.Type)
		}
		return x
	}
	for _, name := range want {
		if !slices.Contains(has, name) {
			r.failf(t.path+"."+name, "is missing: a %s input has one", x.Type)
		}
	}
	for _, name := range has {
		if !slices.Contains(want, name) {
			r.failf(t.path+"."+name, "does not go with a %s input", x.Type)
		}
	}
	return x
}

func (r *reader) evaluation(t *tree) *Evaluation {
	e := &Evaluation{}
	before := len(r.errs)
	e.extra = r.object(t, fields{
		"status": {required: true, read: func(t *tree) {
			var s string
			r.text(&s, false)(t)
			if e.Status = Status(s); s != "" && !slices.Contains(Statuses, e.Status) {
				r.failf(t.path, "is %q, want one of %s", s, statusNames())
			}
		}},
		"environment": {required: true, read: func(t *tree) {
			e.Environment.Libs = map[string]string{}
			r.object(t, fields{
				"hardware": {required: true, read: r.text(&e.Environment.Hardware, false)},
				"libs": {read: r.each(func(name string, t *tree) {
					var s string
					r.text(&s, true)(t)
					e.Environment.Libs[name] = s
				})},
			})
		}},
		"timestamp": {required: true, read: r.text(&e.Timestamp, false)},
		"log":       {read: r.text(&e.Log, true)},
		"correctness": {read: func(t *tree) {
			e.Correctness = &Correctness{}
			r.object(t, fields{
				"max_relative_error": {read: r.figure(&e.Correctness.MaxRelative, true)},
				"max_absolute_error": {read: r.figure(&e.Correctness.MaxAbsolute, true)},
				"extra": {read: func(t *tree) {
					if m, ok := t.any().(map[string]any); ok {
						e.Correctness.Extra = m
					} else {
						r.failf(t.path, "is %s, want an object", t.kind())
					}
				}},
			})
		}},
		"performance": {read: func(t *tree) {
			p := &Performance{}
			p.extra = r.object(t, fields{
				"latency_ms":           {read: r.figure(&p.LatencyMS, false)},
				"reference_latency_ms": {read: r.figure(&p.ReferenceLatencyMS, false)},
				"speedup_factor":       {read: r.figure(&p.Speedup, false)},
			})
			e.Performance = p
		}},
	})
	if len(r.errs) == before {
		if err := e.Check(); err != nil {
			r.failf(t.path, "%v", err)
		}
	}
	return e
}

// figure reads a number of at least 0. If special is true, the strings NaN and Infinity are numbers too.
func (r *reader) figure(at *float64, special bool) func(*tree) {
	return func(t *tree) {
		switch v := t.value.(type) {
		case json.Number:
			x, err := v.Float64()
			if err != nil || x < 0 {
				r.failf(t.path, "is %s, want a number of at least 0", v)
				return
			}
			*at = x
			return
		case string:
			if special {
				switch strings.ToLower(v) {
				case "nan":
					*at = math.NaN()
					return
				case "infinity", "inf":
					*at = math.Inf(1)
					return
				}
			}
		}
		r.failf(t.path, "is %s, want a number of at least 0", t.kind())
	}
}

func statusNames() string {
	var names []string
	for _, s := range Statuses {
		names = append(names, string(s))
	}
	return strings.Join(names, " ")
}

// Check returns an error if the status does not go with the correctness and performance given, or if a required field is empty.
func (e *Evaluation) Check() error {
	if !slices.Contains(Statuses, e.Status) {
		return fmt.Errorf("status %q is not one of %s", e.Status, statusNames())
	}
	wantC, wantP := e.Status == Passed || e.Status == IncorrectNumerical, e.Status == Passed
	switch {
	case e.Environment.Hardware == "":
		return fmt.Errorf("environment.hardware is empty")
	case e.Timestamp == "":
		return fmt.Errorf("timestamp is empty")
	case wantC && e.Correctness == nil:
		return fmt.Errorf("correctness is missing, which the status %s demands", e.Status)
	case !wantC && e.Correctness != nil:
		return fmt.Errorf("correctness is there, which the status %s does not have", e.Status)
	case wantP && e.Performance == nil:
		return fmt.Errorf("performance is missing, which the status %s demands", e.Status)
	case !wantP && e.Performance != nil:
		return fmt.Errorf("performance is there, which no status but %s has", Passed)
	}
	return nil
}

// MarshalJSON writes the trace in the schema's form; it errs on an evaluation that fails Check.
func (t *Trace) MarshalJSON() ([]byte, error) {
	var o object
	o.add("definition", t.Definition)
	o.add("workload", t.Workload)
	if t.Solution == "" {
		o.add("solution", nil)
	} else {
		o.add("solution", t.Solution)
	}
	o.add("evaluation", t.Evaluation)
	o.extra(t.extra)
	return o.json()
}

// UnmarshalJSON reads like ParseTrace.
func (t *Trace) UnmarshalJSON(data []byte) error {
	p, err := ParseTrace(data)
	if err == nil {
		*t = *p
	}
	return err
}

// MarshalJSON writes the workload in the schema's form.
func (w *Workload) MarshalJSON() ([]byte, error) {
	var o object
	o.add("axes", w.Axes)
	o.add("inputs", w.Inputs)
	o.add("uuid", w.UUID)
	o.extra(w.extra)
	return o.json()
}

// UnmarshalJSON reads like ParseWorkload.
func (w *Workload) UnmarshalJSON(data []byte) error {
	p, err := ParseWorkload(data)
	if err == nil {
		*w = *p
	}
	return err
}

// MarshalJSON writes the input in the schema's form.
func (x Input) MarshalJSON() ([]byte, error) {
	var o object
	o.add("type", x.Type)
	switch x.Type {
	case Scalar:
		o.add("value", x.Value)
	case Safetensors:
		o.add("path", x.Path)
		o.add("tensor_key", x.Key)
	}
	o.extra(x.extra)
	return o.json()
}

// MarshalJSON writes the evaluation in the schema's form; it errs if Check does.
func (e *Evaluation) MarshalJSON() ([]byte, error) {
	if e == nil {
		return []byte("null"), nil
	}
	if err := e.Check(); err != nil {
		return nil, fmt.Errorf("evaluation: %w", err)
	}
	var o object
	o.add("status", e.Status)
	libs := e.Environment.Libs
	if libs == nil {
		libs = map[string]string{}
	}
	o.add("environment", Environment{e.Environment.Hardware, libs})
	o.add("timestamp", e.Timestamp)
	o.add("log", e.Log)
	if c := e.Correctness; c != nil {
		var x object
		x.add("max_relative_error", figureJSON(c.MaxRelative))
		x.add("max_absolute_error", figureJSON(c.MaxAbsolute))
		if len(c.Extra) > 0 {
			x.add("extra", c.Extra)
		} else {
			x.add("extra", nil)
		}
		o.add("correctness", &x)
	} else {
		o.add("correctness", nil)
	}
	if p := e.Performance; p != nil {
		var x object
		x.add("latency_ms", p.LatencyMS)
		x.add("reference_latency_ms", p.ReferenceLatencyMS)
		x.add("speedup_factor", p.Speedup)
		x.extra(p.extra)
		o.add("performance", &x)
	} else {
		o.add("performance", nil)
	}
	o.extra(e.extra)
	return o.json()
}

// figureJSON writes NaN and infinities, which JSON lacks, as the schema's strings.
func figureJSON(x float64) json.RawMessage {
	switch {
	case math.IsNaN(x):
		return json.RawMessage(`"NaN"`)
	case math.IsInf(x, 0):
		return json.RawMessage(`"Infinity"`)
	}
	return json.RawMessage(strconv.FormatFloat(x, 'g', -1, 64))
}

// Choose keeps the workloads that match one of the texts in only, separated by commas: axis=value, or the start of a UUID. Empty: all.
func Choose(list []*Workload, only string) []*Workload {
	if only == "" {
		return list
	}
	var kept []*Workload
	for _, w := range list {
		for text := range strings.SplitSeq(only, ",") {
			axis, value, isAxis := strings.Cut(text, "=")
			n, has := w.Axes[axis]
			if isAxis && has && fmt.Sprint(n) == value || !isAxis && text != "" && strings.HasPrefix(w.UUID, text) {
				kept = append(kept, w)
				break
			}
		}
	}
	return kept
}
