package bench

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"strings"

	"github.com/gdngen/gdngen/autotune/flashinfer"
	"github.com/gdngen/gdngen/autotune/measure"
	"github.com/gdngen/gdngen/internal/terminal"
	"github.com/gdngen/gdngen/pjrt/machine"
)

// Report is the result of a sweep: a row per group of shapes.
type Report struct {
	Run      string      `json:"run"`
	Protocol Protocol    `json:"protocol"`
	Hardware string      `json:"hardware,omitempty"`
	Rows     []Row       `json:"rows,omitempty"`
	Static   []StaticRow `json:"static,omitempty"` // not measured: modelled from the compiler's schedules
	Compiler string      `json:"compiler,omitempty"`
}

// TraceLine describes a trace in one line: shape, status, latency and speed-up, or the error.
func TraceLine(t *flashinfer.Trace) string {
	w, e := t.Workload, t.Evaluation
	text := fmt.Sprintf("%s %s", axesText(w), e.Status)
	if p := e.Performance; p != nil && p.LatencyMS == 0 {
		return text + fmt.Sprintf(", not timed, off by at most %.1e", e.Correctness.MaxAbsolute)
	} else if p != nil {
		text += fmt.Sprintf(" %s, %.2f x the reference", msText(p.LatencyMS), p.Speedup)
		if _, others, ok := strings.Cut(e.Log, machine.Disturbed); ok {
			text += "; " + machine.Disturbed + others
		}
		return text
	}
	log, _, _ := strings.Cut(e.Log, "\n")
	if lines := strings.Split(e.Log, "\n"); e.Status == flashinfer.IncorrectNumerical {
		log = lines[len(lines)-1]
	}
	return text + " (" + log + ")"
}

// axesText names the shape of a workload.
func axesText(w *flashinfer.Workload) string {
	if n, ok := w.Axes["total_seq_len"]; ok {
		return fmt.Sprintf("prefill %d tokens, %d sequences", n, w.Axes["num_seqs"])
	}
	if n, ok := w.Axes["batch_size"]; ok {
		return fmt.Sprintf("decode batch %d", n)
	}
	return w.UUID
}

func msText(ms float64) string {
	switch {
	case ms < 1:
		return fmt.Sprintf("%.0f us", ms*1e3)
	case ms < 100:
		return fmt.Sprintf("%.2f ms", ms)
	}
	return fmt.Sprintf("%.0f ms", ms)
}

// Lines returns the rows of all tables, for JSON lines.
func (r *Report) Lines() []any {
	var list []any
	for _, x := range r.Rows {
		list = append(list, x)
	}
	for _, x := range r.Static {
		list = append(list, x)
	}
	return list
}

// Write prints the tables.
func (r *Report) Write(w io.Writer) {
	if len(r.Rows) > 0 {
		p := r.Protocol
		caches := "cold caches"
		if !p.Cold {
			caches = "warm caches"
		}
		if p.Server != "" {
			fmt.Fprintf(w, "measured on %s, by %s\n\n", r.Hardware, p.Server)
		} else if !p.Timed() {
			fmt.Fprintf(w, "judged on %s, not timed: trials %d\n\n", r.Hardware, p.Trials)
		} else {
			fmt.Fprintf(w, "measured on %s: trials %d, iterations at most %d, %s\n\n", r.Hardware, p.Trials, p.Iterations, caches)
		}
		t := terminal.NewTable("DEFINITION", "SHAPES", ">PASSED", ">LATENCY", ">REFERENCE", ">SPEED-UP", ">LEAST", ">ITS SPEED-UP", ">MAX ABS ERROR", ">OF LARGEST")
		for _, x := range r.Rows {
			shapes := cmp.Or(x.Shapes, "all")
			if x.Passed == 0 || x.LatencyMS == 0 {
				t.Add(x.Definition, shapes, fmt.Sprintf("%d/%d", x.Passed, x.Workloads), "-", "-", "-", "-", "-", fmt.Sprintf("%.1e", x.MaxAbsolute), fmt.Sprintf("%.1e", x.OfLargest))
				continue
			}
			t.Add(x.Definition, shapes, fmt.Sprintf("%d/%d", x.Passed, x.Workloads), msText(x.LatencyMS), msText(x.ReferenceMS),
				fmt.Sprintf("%.2f x", x.Speedup), msText(x.LeastMS), fmt.Sprintf("%.2f x", x.LeastUp), fmt.Sprintf("%.1e", x.MaxAbsolute), fmt.Sprintf("%.1e", x.OfLargest))
		}
		t.Write(w)
		if r.Protocol.Timed() {
			fmt.Fprintln(w, "\nGeometric means over workloads that passed: mean latencies, and LEAST of the fastest execution. The reference is a loop over tokens in the same runtime.")
		}
	}
	r.writeStatic(w)
}

// writeStatic prints the static costs by definition, target and group of shapes.
func (r *Report) writeStatic(w io.Writer) {
	if len(r.Static) == 0 {
		return
	}
	if len(r.Rows) > 0 {
		fmt.Fprintln(w)
	}
	fmt.Fprintf(w, "static, by %s: nothing ran on a TPU\n\n", r.Compiler)
	t := terminal.NewTable("DEFINITION", "TARGET", "SHAPES", ">WORKLOADS", ">MODELLED", ">SCHEDULE", ">HBM FLOOR", ">OVER FLOOR", ">WORST")
	for _, x := range staticSums(r.Static) {
		count := fmt.Sprintf("%.0f", x.n)
		if x.refused > 0 {
			count = fmt.Sprintf("%.0f of %.0f", x.n, x.n+x.refused)
		}
		if x.n == 0 {
			t.Add(x.definition, x.target, x.group, count, "-", "-", "-", "-", "-")
			continue
		}
		us := func(log float64) string { return fmt.Sprintf("%.1f us", math.Exp(log/x.n)) }
		t.Add(x.definition, x.target, x.group, count, us(x.modelled), us(x.compute), us(x.floor), fmt.Sprintf("%.2f x", math.Exp((x.modelled-x.floor)/x.n)), fmt.Sprintf("%.2f x", x.worst))
	}
	t.Write(w)
	fmt.Fprintln(w, "\nModelled time is the larger of the schedule's cycles, in order where the target's latencies are known, at the clock of the target and of the HBM traffic at its bandwidth, the floor that of the necessary traffic; geometric means, and the worst of the workloads over the floor.")
	fmt.Fprintf(w, "Rows of every shape are in %s.\n%s\n", filepath.Join(r.Run, StaticFile), measure.StaticNote)
	said := map[string]bool{}
	for _, x := range r.Static {
		reason := x.Target + ": " + x.Refused
		if x.Refused == "" || said[reason] {
			continue
		}
		if len(said) == 0 {
			fmt.Fprintln(w, "\nrefused")
		}
		said[reason] = true
		fmt.Fprintf(w, "  %s (%s)\n", reason, x.Spec)
	}
}
