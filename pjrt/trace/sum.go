package trace

import (
	"cmp"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
)

// OpsLine is the line of a TPU profile with the instructions of programs.
const OpsLine = "XLA Ops"

// Query selects the events of a trace to sum, and the key to group them by.
type Query struct {
	By     string  // a key of Keys; default op
	Groups Groups  // for By "group"
	Stages *Stages // for By "stage"
	Line   string  // line of events; default: XLA Ops of devices, else the instructions among all events
	// Warmup is the number of steps left out of medians; negative: a quarter of them, at least one of four or more.
	Warmup int
}

// Keys are the values of Query.By, with their meanings.
var Keys = [][2]string{
	{"op", "instruction"}, {"category", "kind of instruction"}, {"scope", "path of named scopes"}, {"source", "file and line"}, {"module", "program"},
	{"group", "groups of --groups"}, {"stage", "stages of our kernels, by static shares"},
}

// Spread is the distribution of a time over steps: median, 10th and 90th percentile, in picoseconds.
type Spread struct {
	Median float64 `json:"median_ps"`
	Low    float64 `json:"low_ps"`
	High   float64 `json:"high_ps"`
}

// Row sums the events of one key. Times are picoseconds.
type Row struct {
	Name     string  `json:"name"`
	Count    int     `json:"count"`
	Self     float64 `json:"self_ps"`          // over the whole trace, without the events inside
	Total    float64 `json:"total_ps"`         // including the events inside
	Share    float64 `json:"share"`            // of the self time of all rows; 0 if the trace is cut
	Step     Spread  `json:"step"`             // self time per step
	Module   string  `json:"module,omitempty"` // program of an instruction, if several have an instruction of that name
	Category string  `json:"category,omitempty"`
	Scope    string  `json:"scope,omitempty"`
	Source   string  `json:"source,omitempty"`
	Flops    float64 `json:"flops,omitempty"` // of all events, by XLA's cost model
	Bytes    float64 `json:"bytes,omitempty"`

	steps []float64
}

// Steps describes the steps of a trace.
type Steps struct {
	From   string `json:"from,omitempty"` // what marks them; "": nothing does
	Count  int    `json:"count"`          // on the device that has most
	Warmup int    `json:"warmup"`         // number of these left out of medians
	Time   Spread `json:"time"`
	Gap    Spread `json:"gap"` // time when no op ran
}

// Summary shows where the time goes.
type Summary struct {
	Files    []string       `json:"files"`
	Hosts    []string       `json:"hosts,omitempty"`
	Devices  []string       `json:"devices"`            // planes whose events are summed
	Facts    map[string]any `json:"facts,omitempty"`    // of the first device
	Versions map[string]any `json:"versions,omitempty"` // of the programs that made the trace
	Line     string         `json:"line"`
	By       string         `json:"by"`
	Steps    Steps          `json:"steps"`
	Count    int            `json:"count"`
	Self     float64        `json:"self_ps"`
	Async    *Row           `json:"async,omitempty"` // the line of asynchronous ops, which overlap the others
	Rows     []*Row         `json:"rows"`            // largest self time first
	Warnings []string       `json:"warnings,omitempty"`
	Cut      bool           `json:"cut,omitempty"`
}

// window is a step of a plane, with the events in it.
type window struct {
	begin, end int64
	number     int // of the sample; negative: warm-up
	busy       []Event
}

// Sum sums events by a query. The error says what the trace lacks for the query.
func (t *Trace) Sum(q Query) (*Summary, error) {
	q.By = cmp.Or(q.By, "op")
	lines, name := t.opLines(q.Line)
	programs := titlesOf(lines)
	key, err := q.key(programs)
	if err != nil {
		return nil, err
	}
	if len(lines) == 0 {
		return nil, fmt.Errorf("%s: %s", strings.Join(t.Files, ", "), t.noOps(q.Line))
	}
	s := &Summary{Files: t.Files, Hosts: t.Hosts, Line: name, By: q.By, Warnings: slices.Clone(t.Warnings), Cut: t.Cut}
	rows := map[string]*Row{}
	samples := 0
	var all []*window
	for _, p := range t.Planes {
		if len(lines[p]) == 0 {
			continue
		}
		s.Devices = append(s.Devices, p.Name)
		if p.Device() && s.Facts == nil {
			s.Facts = facts(p)
		}
		steps, from := t.steps(p)
		s.Steps.From = cmp.Or(s.Steps.From, from)
		warmup := q.warmup(len(steps))
		if len(steps) > s.Steps.Count {
			s.Steps.Count, s.Steps.Warmup = len(steps), min(warmup, len(steps))
		}
		for i, w := range steps {
			if w.number = -1; i >= warmup {
				w.number = samples
				samples++
			}
		}
		for _, l := range lines[p] {
			l.sum(steps, key, rows)
			s.Count += len(l.Events)
		}
		all = append(all, steps...)
	}
	s.finish(rows, all, samples)
	s.async(t)
	s.versions(t)
	return s, nil
}

// warmup returns the number of steps to leave out of medians.
func (q Query) warmup(steps int) int {
	if q.Warmup >= 0 {
		return q.Warmup
	}
	if steps < 4 {
		return 0
	}
	return max(1, steps/4)
}

// share is a fraction of an event's time, and the key it goes to.
type share struct {
	key  string
	part float64
}

// Check returns an error for an invalid query.
func (q Query) Check() error {
	q.By = cmp.Or(q.By, "op")
	_, err := q.key(nil)
	return err
}

// key returns the function that assigns an op's time to keys.
func (q Query) key(programs titles) (func(*Op) []share, error) {
	one := func(of func(*Op) string) func(*Op) []share {
		return func(o *Op) []share { return []share{{cmp.Or(of(o), "(none)"), 1}} }
	}
	switch q.By {
	case "op":
		return one(func(o *Op) string { // names are unique within a program
			if p := programs.of(o); p != "" {
				return o.Name + inProgram + p
			}
			return o.Name
		}), nil
	case "category":
		return one(func(o *Op) string { return o.Category }), nil
	case "scope":
		return one(func(o *Op) string { return o.Scope }), nil
	case "source":
		return one(func(o *Op) string { return o.Source }), nil
	case "module":
		return one(programs.of), nil
	case "group":
		if len(q.Groups) == 0 {
			return nil, fmt.Errorf("groups are needed: NAME=REGEXP;..., or a file")
		}
		return one(q.Groups.Of), nil
	case "stage":
		if q.Stages == nil {
			return nil, fmt.Errorf("the static shares of stages are needed: a file that gdngen explain -o json wrote for the kernel")
		}
		return q.Stages.shares, nil
	}
	var names []string
	for _, k := range Keys {
		names = append(names, k[0])
	}
	return nil, fmt.Errorf("by %q: want %s", q.By, strings.Join(names, ", "))
}

// opLines returns the lines of ops per plane. If no device has XLA Ops, ops are the instructions among all events, as on CPUs and GPUs.
func (t *Trace) opLines(name string) (map[*Plane][]*Line, string) {
	found := map[*Plane][]*Line{}
	pick := func(of func(*Plane, *Line) *Line) bool {
		for _, p := range t.Planes {
			for _, l := range p.Lines {
				if x := of(p, l); x != nil && len(x.Events) > 0 {
					found[p] = append(found[p], x)
				}
			}
		}
		return len(found) > 0
	}
	if name != "" {
		pick(func(_ *Plane, l *Line) *Line {
			if l.Name == name || strings.HasPrefix(l.Name, name+"/") {
				return l
			}
			return nil
		})
		return found, name
	}
	if pick(func(p *Plane, l *Line) *Line {
		if p.Device() && l.Name == OpsLine {
			return l
		}
		return nil
	}) {
		return found, OpsLine
	}
	pick(func(_ *Plane, l *Line) *Line {
		return &Line{l.Name, slices.DeleteFunc(slices.Clone(l.Events), func(e Event) bool { return !e.Op.HLO })}
	})
	return found, "instructions among all events"
}

func (t *Trace) noOps(line string) string {
	var names []string
	events := 0
	for _, p := range t.Planes {
		for _, l := range p.Lines {
			if events += len(l.Events); len(l.Events) > 0 && l.Name != "" && !slices.Contains(names, l.Name) {
				names = append(names, l.Name)
			}
		}
	}
	slices.SortFunc(names, compareNames)
	has := "its lines have no names"
	if len(names) > 0 {
		has = "its lines are " + strings.Join(names, ", ")
	}
	switch {
	case events == 0:
		return "the trace has no events"
	case t.kineto:
		return "a trace of PyTorch's profiler (Kineto): none of its events is an instruction of XLA, and " + has + ". Take one by --line, or give a trace of jax.profiler"
	case line == "":
		return "no instructions in this trace: no device has a line " + OpsLine + ", and no event names its instruction; " + has
	}
	return fmt.Sprintf("no line %q in this trace; %s", line, has)
}

// steps returns the steps of a plane: the line Steps, the calls of its longest program, or steps announced by the host.
func (t *Trace) steps(p *Plane) (list []*window, from string) {
	var events []Event
	if l := p.Line("Steps"); l != nil {
		events, from = l.Events, "Steps"
	} else if l := p.Line(ModulesLine); l != nil {
		longest := map[string]int64{}
		for _, e := range l.Events {
			longest[e.Op.Name] += e.Duration
			if from == "" || longest[e.Op.Name] > longest[from] {
				from = e.Op.Name
			}
		}
		for _, e := range l.Events {
			if e.Op.Name == from {
				events = append(events, e)
			}
		}
		from = "calls of " + from
	} else {
		for _, h := range t.Planes {
			if h.Host != p.Host || h.Device() {
				continue
			}
			for _, l := range h.Lines {
				for _, e := range l.Events {
					if e.Op.Step {
						events, from = append(events, e), "annotations of the host"
					}
				}
			}
		}
		slices.SortStableFunc(events, func(a, b Event) int { return cmp.Compare(a.Start, b.Start) })
	}
	for _, e := range events {
		if e.Duration > 0 && (len(list) == 0 || e.Start >= list[len(list)-1].end) {
			list = append(list, &window{begin: e.Start, end: e.End()})
		}
	}
	return list, from
}

// sum adds the events of a line to rows and steps.
func (l *Line) sum(steps []*window, key func(*Op) []share, rows map[string]*Row) {
	self := l.selfTimes()
	at := 0
	for i, e := range l.Events {
		for at < len(steps) && steps[at].end <= e.Start {
			at++
		}
		var step *window
		if at < len(steps) && e.Start >= steps[at].begin {
			step = steps[at]
			step.busy = append(step.busy, e)
		}
		for _, x := range key(e.Op) {
			r := rows[x.key]
			if r == nil {
				name, module, _ := strings.Cut(x.key, inProgram)
				r = &Row{Name: name, Module: module, Category: e.Op.Category, Scope: e.Op.Scope, Source: e.Op.Source}
				rows[x.key] = r
			}
			r.Count++
			r.Self += x.part * float64(self[i])
			r.Total += x.part * float64(e.Duration)
			r.Flops += x.part * e.Op.Flops
			r.Bytes += x.part * e.Op.Bytes
			if step != nil && step.number >= 0 {
				for len(r.steps) <= step.number {
					r.steps = append(r.steps, 0)
				}
				r.steps[step.number] += x.part * float64(self[i])
			}
		}
	}
}

// inProgram separates the names of instruction and program in the key of a row.
const inProgram = "\x00"

// finish computes the figures that depend on the sums.
func (s *Summary) finish(rows map[string]*Row, steps []*window, samples int) {
	for _, r := range rows {
		s.Self += r.Self
		r.Step = spread(append(r.steps, make([]float64, samples-len(r.steps))...))
		if s.By == "category" || s.By == "module" || s.By == "group" || s.By == "stage" {
			r.Scope, r.Source = "", ""
		}
		s.Rows = append(s.Rows, r)
	}
	slices.SortFunc(s.Rows, func(a, b *Row) int { return cmp.Or(cmp.Compare(b.Self, a.Self), compareNames(a.Name, b.Name)) })
	of := map[string]int{}
	for _, r := range s.Rows {
		of[r.Name]++
	}
	for _, r := range s.Rows {
		if r.Module != "" && of[r.Name] > 1 { // several programs have this instruction
			r.Name += " (" + r.Module + ")"
		}
		if !s.Cut && s.Self > 0 {
			r.Share = r.Self / s.Self
		}
	}
	var times, gaps []float64
	for _, w := range steps {
		if w.number >= 0 {
			times = append(times, float64(w.end-w.begin))
			gaps = append(gaps, float64(w.end-w.begin-w.covered()))
		}
	}
	s.Steps.Time, s.Steps.Gap = spread(times), spread(gaps)
	switch {
	case s.Steps.Count == 0:
		s.Warnings = append(s.Warnings, "nothing in this trace marks steps: figures are of the whole trace")
	case s.Steps.Count-s.Steps.Warmup < 5:
		s.Warnings = append(s.Warnings, fmt.Sprintf("only %d steps count: medians of fewer than five say little", s.Steps.Count-s.Steps.Warmup))
	}
}

// covered returns the time of a step in which at least one event ran.
func (w *window) covered() (sum int64) {
	slices.SortFunc(w.busy, func(a, b Event) int { return cmp.Compare(a.Start, b.Start) })
	end := w.begin
	for _, e := range w.busy {
		from, to := max(end, e.Start), min(e.End(), w.end)
		if to > from {
			sum += to - from
			end = to
		}
	}
	return sum
}

// async sums the asynchronous ops.
func (s *Summary) async(t *Trace) {
	for _, p := range t.Planes {
		if l := p.Line("Async XLA Ops"); l != nil && s.Line == OpsLine && p.Device() {
			if s.Async == nil {
				s.Async = &Row{Name: l.Name}
			}
			s.Async.Count += len(l.Events)
			for _, e := range l.Events {
				s.Async.Total += float64(e.Duration)
			}
		}
	}
}

// versions collects the versions of the programs that made the trace.
func (s *Summary) versions(t *Trace) {
	for _, p := range t.Planes {
		for name, v := range p.Stats {
			if strings.HasSuffix(name, "_version") {
				if s.Versions == nil {
					s.Versions = map[string]any{}
				}
				s.Versions[name] = v
			}
		}
	}
}

// spread returns the distribution of values; zeros for no values.
func spread(values []float64) Spread {
	if len(values) == 0 {
		return Spread{}
	}
	v := slices.Clone(values)
	slices.Sort(v)
	at := func(q float64) float64 { // interpolated between neighbours
		x := q * float64(len(v)-1)
		i := int(math.Floor(x))
		if i+1 == len(v) {
			return v[i]
		}
		return v[i] + (x-float64(i))*(v[i+1]-v[i])
	}
	return Spread{at(.5), at(.1), at(.9)}
}

// facts returns the stats that describe a device.
func facts(p *Plane) map[string]any {
	f := map[string]any{}
	for _, name := range []string{"device_type_string", "peak_teraflops_per_second", "peak_hbm_bw_gigabytes_per_second"} {
		if v := p.Stats[name]; v != nil {
			f[name] = v
		}
	}
	return f
}

// Group is a named pattern for ops.
type Group struct {
	Name    string
	pattern *regexp.Regexp
}

// Groups are patterns for ops; an op belongs to the first that matches.
type Groups []Group

// Other is the group of ops that match no group.
const Other = "other"

// ParseGroups reads NAME=REGEXP;...; it errs for a bad pattern.
func ParseGroups(text string) (Groups, error) {
	var l Groups
	for _, x := range strings.Split(text, ";") {
		if strings.TrimSpace(x) == "" {
			continue
		}
		name, pattern, ok := strings.Cut(x, "=")
		if name = strings.TrimSpace(name); !ok || name == "" || pattern == "" {
			return nil, fmt.Errorf("group %q: want NAME=REGEXP", x)
		}
		var err error
		if l, err = l.add(name, pattern); err != nil {
			return nil, err
		}
	}
	if len(l) == 0 {
		return nil, fmt.Errorf("no groups in %q: want NAME=REGEXP;...", text)
	}
	return l, nil
}

func (l Groups) add(name, pattern string) (Groups, error) {
	re, err := regexp.Compile(pattern)
	if err != nil {
		return nil, fmt.Errorf("group %s: %w", name, err)
	}
	return append(l, Group{name, re}), nil
}

// Of returns the first group whose pattern matches the scope, name, category or source of an op; Other if none does.
func (l Groups) Of(o *Op) string {
	for _, g := range l {
		for _, text := range []string{o.Scope, o.Name, o.Category, o.Source} {
			if g.pattern.MatchString(text) {
				return g.Name
			}
		}
	}
	return Other
}

// DefaultGroups are groups for a model with gated delta rule layers.
const DefaultGroups = `rule=(?i)gdn|gated_?delta|delta_?rule;projections=(?i)proj|dot_general|convolution fusion|einsum;control flow=(?i)\bwhile\b|\bconditional\b|^while|^call\b;collectives=(?i)all-?(reduce|gather|to-?all)|reduce-?scatter|collective;copies=(?i)^copy|data formatting|transpose`
