package report

import (
	"cmp"
	"crypto/sha256"
	"encoding/csv"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gdngen/gdngen/autotune/journal"
	"github.com/gdngen/gdngen/gdn"
)

// Export is a form that a journal can be given to other tools in.
type Export struct {
	Name, Doc string
	Write     func(w io.Writer, dir string, s *journal.State) error
}

// Exports lists the forms.
var Exports = []Export{
	{"t4", "Kernel Tuner's T4 results, schema 1.0.0 (JSON): objective in-order_cycles or issue_cycles of the first target", writeT4},
	{"traces", "FlashInfer-Bench traces (JSON lines): correctness by class, static cycles by ruler in its extra; latency is 0 where no device is attached", writeTraces},
	{"csv", "a row for each candidate and target", writeCSV},
	{"markdown", "a log: hypothesis, change, exact command, result, hot spots before and after, verdict, next", Markdown},
}

// LookupExport finds a form by name.
func LookupExport(name string) (Export, error) {
	var names []string
	for _, e := range Exports {
		if e.Name == name {
			return e, nil
		}
		names = append(names, e.Name)
	}
	return Export{}, fmt.Errorf("unknown format %q (known: %s)", name, strings.Join(names, " "))
}

// configuration is a variant as axes and values; a text of a program has its hash.
func configuration(c *journal.Candidate) map[string]string {
	m := map[string]string{}
	v, err := gdn.ParseVariant(c.Variant)
	if err != nil || c.Variant == "" {
		m["program"] = c.IR
		return m
	}
	for _, a := range gdn.Axes {
		if (a.Applies == nil || a.Applies(v)) && a.Name != "prec" {
			m[a.Name] = a.Get(&v)
		}
	}
	return m
}

type t4Result struct {
	Timestamp     string            `json:"timestamp"`
	Configuration map[string]string `json:"configuration"`
	Objectives    []string          `json:"objectives"`
	Times         t4Times           `json:"times"`
	Invalidity    string            `json:"invalidity"`
	Correctness   float64           `json:"correctness"`
	Measurements  []t4Measurement   `json:"measurements"`
}

type t4Times struct {
	Compilation float64   `json:"compilation_time"`
	Runtimes    []float64 `json:"runtimes"`
	Framework   float64   `json:"framework"`
	Search      float64   `json:"search_algorithm"`
	Validation  float64   `json:"validation"`
}

type t4Measurement struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
}

// invalidity maps verdicts to T4's.
var invalidity = map[journal.Verdict]string{journal.Improved: "correct", journal.Close: "correct", journal.Worse: "correct", journal.Duplicate: "constraints",
	journal.Pruned: "constraints", journal.Invalid: "constraints", journal.Numerics: "correctness", journal.EmitError: "compile", journal.CompileReject: "compile",
	journal.VMEM: "compile", journal.CostUnknown: "compile", journal.Internal: "compile", journal.Timeout: "timeout", journal.Crash: "compile"}

// cyclesSuffix ends the names of objectives, behind the ruler.
const cyclesSuffix = "_cycles"

// objective is what a run ranks by on its first target.
func objective(s *journal.State) string {
	for _, c := range s.Now().Candidates() {
		if cost := c.Cost(s.Header.Targets[0]); cost != nil {
			return string(cost.RulerName()) + cyclesSuffix
		}
	}
	return string(s.Header.RulerName()) + cyclesSuffix
}

func writeT4(w io.Writer, _ string, s *journal.State) error {
	out := struct {
		Version string     `json:"schema_version"`
		Results []t4Result `json:"results"`
	}{"1.0.0", []t4Result{}}
	times := s.Times()
	for i, c := range s.Now().Candidates() {
		r := t4Result{Timestamp: times[i].At.Format(time.RFC3339Nano), Configuration: configuration(c), Objectives: []string{objective(s)},
			Invalidity: invalidity[c.Verdict], Times: t4Times{Runtimes: []float64{}}, Measurements: []t4Measurement{}}
		for gate, seconds := range times[i].Wall {
			switch {
			case strings.Contains(gate, "/"):
			case gate == "emit" || gate == "compile" || gate == "targets":
				r.Times.Compilation += 1e3 * seconds
			case gate == "interpret" || gate == "numerics" || gate == "cpu":
				r.Times.Validation += 1e3 * seconds
			default:
				r.Times.Framework += 1e3 * seconds
			}
		}
		if r.Invalidity == "correct" {
			r.Correctness = 1
		}
		for k, t := range s.Header.Targets {
			if cost := c.Cost(t); cost != nil {
				name := string(cost.RulerName()) + cyclesSuffix
				if k > 0 {
					name += "/" + t
				}
				r.Measurements = append(r.Measurements, t4Measurement{name, float64(cost.Score), "cycles"})
			}
		}
		if x := times[i].Runs; x != nil {
			r.Times.Runtimes = []float64{1e3 * x.Seconds}
			r.Measurements = append(r.Measurements, t4Measurement{"time", 1e3 * x.Seconds, "ms"})
		}
		if e := c.Worst(); e != nil && !math.IsNaN(float64(e.Error)) && !math.IsInf(float64(e.Error), 0) {
			r.Measurements = append(r.Measurements, t4Measurement{"largest_error", float64(e.Error), "of the largest value"})
		}
		out.Results = append(out.Results, r)
	}
	e := json.NewEncoder(w)
	e.SetIndent("", " ")
	return e.Encode(out)
}

type trace struct {
	Definition string        `json:"definition"`
	Workload   traceWorkload `json:"workload"`
	Solution   string        `json:"solution"`
	Evaluation traceResult   `json:"evaluation"`
}

type traceWorkload struct {
	Axes   map[string]int               `json:"axes"`
	Inputs map[string]map[string]string `json:"inputs"`
	UUID   string                       `json:"uuid"`
}

type traceResult struct {
	Status      string            `json:"status"`
	Environment traceEnvironment  `json:"environment"`
	Timestamp   string            `json:"timestamp"`
	Log         string            `json:"log"`
	Correctness *traceCorrectness `json:"correctness,omitempty"`
	Performance *tracePerformance `json:"performance,omitempty"`
}

type traceEnvironment struct {
	Hardware string            `json:"hardware"`
	Libs     map[string]string `json:"libs"`
}

type traceCorrectness struct {
	Relative journal.Figure `json:"max_relative_error"`
	Absolute journal.Figure `json:"max_absolute_error"`
	Extra    map[string]any `json:"extra"`
}

type tracePerformance struct {
	Latency   float64 `json:"latency_ms"`
	Reference float64 `json:"reference_latency_ms"`
	Speedup   float64 `json:"speedup_factor"`
}

// traceStatus maps verdicts to the statuses of traces.
var traceStatus = map[string]string{"correct": "PASSED", "constraints": "COMPILE_ERROR", "correctness": "INCORRECT_NUMERICAL", "compile": "COMPILE_ERROR", "timeout": "TIMEOUT"}

func writeTraces(w io.Writer, _ string, s *journal.State) error {
	spec, err := gdn.Parse(s.Header.Spec)
	if err != nil {
		return err
	}
	work := traceWorkload{Inputs: map[string]map[string]string{}, UUID: uuid(s.Header.Spec), Axes: map[string]int{"batch_size": spec.Batch, "seq_len": spec.Tokens,
		"num_q_heads": spec.HeadsK, "num_k_heads": spec.HeadsK, "num_v_heads": spec.HeadsV, "head_size": spec.K, "head_size_v": spec.V}}
	for _, p := range spec.Inputs() {
		work.Inputs[p.Name] = map[string]string{"type": "random"}
	}
	libs := map[string]string{"gdngen": s.Header.Generator}
	for name, version := range s.Header.Plugins {
		libs[name] = version
	}
	times := s.Times()
	e := json.NewEncoder(w)
	for i, c := range s.Now().Candidates() {
		t := trace{Definition: definition(spec), Workload: work, Solution: solution(c), Evaluation: traceResult{Timestamp: times[i].At.Format(time.RFC3339Nano),
			Environment: traceEnvironment{"static:" + strings.Join(s.Header.Targets, "+"), libs}, Status: traceStatus[invalidity[c.Verdict]], Log: string(c.Verdict) + ": " + c.Reason}}
		r := &t.Evaluation
		if r.Status == "PASSED" || r.Status == "INCORRECT_NUMERICAL" {
			r.Correctness = &traceCorrectness{Extra: map[string]any{"errors": c.Errors, "static_cycles": staticCycles(c), "ruler": s.Header.RulerName()}}
			if x := c.Worst(); x != nil {
				r.Correctness.Relative = x.Error
			}
		}
		if r.Status == "PASSED" {
			r.Performance = &tracePerformance{}
			if x := times[i].Runs; x != nil {
				r.Environment.Hardware = x.Device
				*r.Performance = tracePerformance{1e3 * x.Seconds, 1e3 * x.Seconds / x.Ratio, 1 / x.Ratio}
			}
		}
		if err := e.Encode(t); err != nil {
			return err
		}
	}
	return nil
}

func staticCycles(c *journal.Candidate) map[string]int64 {
	m := map[string]int64{}
	for _, k := range c.Costs {
		if k.Verdict == "" {
			m[k.Target] = k.Score
		}
	}
	return m
}

// definition names what a spec computes, without its batch and tokens.
func definition(s gdn.Spec) string {
	return fmt.Sprintf("gdn_qk%d_v%d_k%d_d%d", s.HeadsK, s.HeadsV, s.K, s.V)
}

func solution(c *journal.Candidate) string {
	if c.IR == "" {
		return fmt.Sprintf("gdngen_%d", c.ID)
	}
	return fmt.Sprintf("gdngen_%d_%s", c.ID, c.IR[:min(12, len(c.IR))])
}

// uuid makes an identifier of a text.
func uuid(text string) string {
	sum := sha256.Sum256([]byte(text))
	h := hex.EncodeToString(sum[:16])
	return strings.Join([]string{h[:8], h[8:12], h[12:16], h[16:20], h[20:]}, "-")
}

func writeCSV(w io.Writer, _ string, s *journal.State) error {
	out := csv.NewWriter(w)
	times := s.Times()
	head := []string{"id", "parent", "iteration", "verdict", "gate", "cause", "reason", "variant", "change", "hypothesis", "expected_gain", "risk", "target", "ruler", "cycles", "wall", "hbm_cycles", "score",
		"cycles_per_token_head", "spills", "vmem", "slot", "fill", "hot", "worst_class", "error", "limit", "device_seconds", "device_ratio", "device_low", "device_high", "seconds", "at"}
	if err := out.Write(head); err != nil {
		return err
	}
	iteration := 0
	for i, c := range s.Now().Candidates() {
		if !c.Scalar {
			iteration++
		}
		number := func(x any) string { return fmt.Sprint(x) }
		common := []string{number(c.ID), number(c.Parent), number(iteration), string(c.Verdict), c.Gate, string(c.Cause), c.Reason, c.Variant, strings.Join(c.Change, " "), c.Hypothesis,
			number(float64(c.Gain)), number(float64(c.Risk))}
		worst := []string{"", "", ""}
		if e := c.Worst(); e != nil {
			worst = []string{e.Class, number(float64(e.Error)), number(float64(e.Limit))}
		}
		runs := []string{"", "", "", ""}
		if x := times[i].Runs; x != nil {
			runs = []string{number(x.Seconds), number(x.Ratio), number(x.Low), number(x.High)}
		}
		seconds := 0.
		for gate, x := range times[i].Wall {
			if !strings.Contains(gate, "/") {
				seconds += x
			}
		}
		tail := slices.Concat(worst, runs, []string{strconv.FormatFloat(seconds, 'f', 3, 64), times[i].At.Format(time.RFC3339Nano)})
		rows := 0
		for _, k := range c.Costs {
			if k.Verdict != "" {
				continue
			}
			cost := []string{k.Target, string(k.RulerName()), number(k.Cycles), number(k.Wall), number(k.HBM), number(k.Score), number(float64(k.PerToken)), number(k.Spills), number(k.VMEM), k.Slot, number(float64(k.Fill)), strings.Join(k.Hot(), " ")}
			if err := out.Write(slices.Concat(common, cost, tail)); err != nil {
				return err
			}
			rows++
		}
		if rows == 0 {
			if err := out.Write(slices.Concat(common, make([]string, 12), tail)); err != nil {
				return err
			}
		}
	}
	out.Flush()
	return out.Error()
}

// Command is the command line that judges a candidate again. Where a run weighs several specs it has a command for each, since the
// figures of the record are weighed sums.
func Command(h *journal.Header, c *journal.Candidate) string {
	targets := strings.Join(h.Targets, ",")
	switch {
	case c.Variant == "" && c.IR == "":
		return "none: the proposer gave nothing to judge"
	case c.Variant == "":
		return fmt.Sprintf("gdngen run show DIR --object %s", c.Objects["proposal"])
	case c.Gate == "numerics" || c.Verdict == journal.Numerics:
		return fmt.Sprintf("gdngen check --spec '%s' --variant '%s'", h.Spec, c.Variant)
	}
	specs := []string{h.Spec}
	if len(h.Shapes) > 0 {
		specs = nil
		for _, x := range h.Shapes {
			specs = append(specs, x.Spec)
		}
	}
	var commands []string
	for _, s := range specs {
		commands = append(commands, fmt.Sprintf("gdngen explain --spec '%s' --variant '%s' --target %s", s, c.Variant, targets))
	}
	return strings.Join(commands, " && ")
}

// Markdown writes the log of a run.
func Markdown(w io.Writer, dir string, s *journal.State) error {
	p := &printer{out: w}
	h := s.Header
	p.printf("# Search of %s\n\nTargets %s; strategy %s, seed %d; gdngen %s", h.Spec, strings.Join(h.Targets, ", "), h.Strategy, h.Seed, h.Generator)
	for _, name := range slices.Sorted(mapKeys(h.Plugins)) {
		p.printf(", %s %s", name, h.Plugins[name])
	}
	p.printf(". Figures are static %s cycles per token and value head; nothing ran on a TPU unless a device is named.\n", h.RulerName())
	if len(h.Shapes) > 1 {
		p.printf("\nWeighed shapes:\n\n")
		for _, x := range h.Shapes {
			p.printf("- `%s`, weight %g\n", x.Spec, float64(x.Weight))
		}
	}
	v, times := s.Now(), s.Times()
	all := v.Candidates()
	iteration := 0
	for i, c := range all {
		if !c.Scalar {
			iteration++
		}
		kind := fmt.Sprintf("iteration %d", iteration)
		if c.Scalar {
			kind = "tuning of a scalar, no iteration"
		}
		p.printf("\n## %d. %s (%s)\n\n", c.ID, headline(c), kind)
		p.printf("- **Hypothesis**: %s", c.Hypothesis)
		if c.Parent > 0 {
			p.printf(" (expected gain %.1f %%, risk %.0f %%)", 100*float64(c.Gain), 100*float64(c.Risk))
		}
		p.printf("\n- **Change**: %s\n- **Variant**: `%s`\n- **Command**: `%s`\n", change(c), named(c.Variant), Command(h, c))
		p.printf("- **Result**: %s\n", result(h, c, times[i].Runs))
		if bets, compared := v.BetsOf(c); compared {
			p.printf("- **Bet**: %s\n", cmp.Or(strings.Join(bets, "; "), "none"))
		}
		if before, after := hotSpots(v, c); before != "" || after != "" {
			p.printf("- **Hot spots**: before %s; after %s\n", cmp.Or(before, "not known"), cmp.Or(after, "not known"))
		}
		p.printf("- **Verdict**: %s at %s: %s\n", c.Verdict, c.Gate, Clip(c.Reason, 400))
		if c.Cause != "" {
			p.printf("- **Cause**: %s: %s\n", c.Cause, Clip(c.Evidence, 400))
		}
		for _, n := range s.NotesOf(c.ID) {
			p.printf("- **Elsewhere**: %s\n", n.String())
		}
		next := "the strategy has nothing more, or the run ended here"
		if i+1 < len(all) {
			next = fmt.Sprintf("#%d, %s", all[i+1].ID, headline(all[i+1]))
		}
		p.printf("- **Next**: %s\n", cmp.Or(Clip(c.Next, 400), next))
	}
	return p.err
}

func mapKeys(m map[string]string) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

func headline(c *journal.Candidate) string {
	switch {
	case c.Gate == journal.GateProposal:
		return "no proposal"
	case c.Parent > 0 && len(c.Change) > 0:
		return fmt.Sprintf("%s on #%d", strings.Join(c.Change, ", "), c.Parent)
	case c.Variant == "":
		return "the text of a program"
	}
	return Clip(c.Variant, 80)
}

func change(c *journal.Candidate) string {
	if c.Parent == 0 {
		return "none: it stands by itself"
	}
	if len(c.Change) == 0 {
		return fmt.Sprintf("of candidate %d, not told", c.Parent)
	}
	return fmt.Sprintf("`%s` in candidate %d", strings.Join(c.Change, ","), c.Parent)
}

func result(h *journal.Header, c *journal.Candidate, runs *journal.Timing) string {
	var parts []string
	for _, t := range h.Targets {
		if k := c.Cost(t); k != nil {
			parts = append(parts, fmt.Sprintf("%s %.3f (%d %s cycles, %d spills)", t, float64(k.PerToken), k.Score, k.RulerName(), k.Spills))
		}
	}
	for _, k := range c.Costs {
		if k.Verdict != "" {
			parts = append(parts, fmt.Sprintf("%s %s", k.Target, k.Verdict))
		}
	}
	if len(parts) == 0 {
		parts = append(parts, "no cost")
	}
	if e := c.Worst(); e != nil {
		parts = append(parts, fmt.Sprintf("largest error %.2g of %.2g allowed, on %s inputs", float64(e.Error), float64(e.Limit), e.Class))
	}
	if runs != nil {
		parts = append(parts, fmt.Sprintf("on %s %s", runs.Device, measured(runs)))
	}
	return strings.Join(parts, "; ")
}

// hotSpots are the stages that take most on the first target: of what a candidate is seen as a change of, and its own.
func hotSpots(v journal.View, c *journal.Candidate) (before, after string) {
	text := func(c *journal.Candidate, t string) string {
		if c == nil || c.Cost(t) == nil || len(c.Cost(t).Stages) == 0 {
			return ""
		}
		k := c.Cost(t)
		var l []string
		for _, s := range k.Stages[:min(3, len(k.Stages))] {
			l = append(l, fmt.Sprintf("%s %d", cmp.Or(s.Name, "(no location)"), s.Cycles))
		}
		return strings.Join(l, ", ")
	}
	t := v.Header().Targets[0]
	from, _ := Before(v, c, t)
	return text(from, t), text(c, t)
}
