package bench

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/gdngen/gdngen/autotune/flashinfer"
)

// Row sums up workloads of a definition. Latencies and speed-ups are geometric means over the workloads that passed; errors are maxima.
type Row struct {
	Definition  string         `json:"definition"`
	Shapes      string         `json:"shapes"` // group of the workloads; empty: all of the definition
	Workloads   int            `json:"workloads"`
	Passed      int            `json:"passed"`
	Failed      map[string]int `json:"failed,omitempty"` // by status
	LatencyMS   float64        `json:"latency_ms,omitempty"`
	ReferenceMS float64        `json:"reference_latency_ms,omitempty"`
	Speedup     float64        `json:"speedup,omitempty"`
	MeanUp      float64        `json:"mean_speedup,omitempty"`     // arithmetic, as the contest scores
	LeastMS     float64        `json:"least_latency_ms,omitempty"` // of the fastest execution, which other work on the machine disturbs least
	LeastUp     float64        `json:"least_speedup,omitempty"`    // the reference's fastest latency over the solution's fastest
	MaxAbsolute float64        `json:"max_absolute_error"`
	OfLargest   float64        `json:"max_error_of_largest"`
}

// Summary sums up the store's traces of the items: rows by group of shapes, then one per definition.
func Summary(items []Item, store *Store) []Row {
	var rows []Row
	for _, it := range items {
		groups := map[string][]*flashinfer.Trace{}
		rank := map[string]int{}
		var all []*flashinfer.Trace
		for _, w := range it.Workloads {
			t := store.Done(it.Definition.Name, it.Solution.Name, w.UUID)
			if t == nil {
				continue
			}
			name, at := shapes(w)
			rank[name] = at
			groups[name] = append(groups[name], t)
			all = append(all, t)
		}
		names := slices.SortedFunc(maps.Keys(groups), func(x, y string) int { return cmp.Or(cmp.Compare(rank[x], rank[y]), cmp.Compare(x, y)) })
		for _, name := range names {
			rows = append(rows, sum(it.Definition.Name, name, groups[name]))
		}
		if len(all) > 0 && len(names) != 1 {
			rows = append(rows, sum(it.Definition.Name, "", all))
		}
	}
	return rows
}

// Group returns the name of a workload's group: its batch, or the power of two (64 at least) that holds its tokens.
func Group(w *flashinfer.Workload) string {
	name, _ := shapes(w)
	return name
}

// shapes returns the group of a workload, and its rank among groups.
func shapes(w *flashinfer.Workload) (name string, rank int) {
	if n, ok := w.Axes["total_seq_len"]; ok {
		top := 64
		for top < n {
			top *= 2
		}
		return fmt.Sprintf("%d tokens or fewer", top), top
	}
	if n, ok := w.Axes["batch_size"]; ok {
		return fmt.Sprintf("batch %d", n), n
	}
	return "other", math.MaxInt
}

func sum(definition, name string, traces []*flashinfer.Trace) Row {
	r := Row{Definition: definition, Shapes: name, Workloads: len(traces), Failed: map[string]int{}}
	var timed, latency, reference, speedup, least, leastUp float64
	for _, t := range traces {
		e := t.Evaluation
		if c := e.Correctness; c != nil {
			r.MaxAbsolute = max(r.MaxAbsolute, c.MaxAbsolute)
			r.OfLargest = max(r.OfLargest, float(c.Extra[ofLargest]))
		}
		if e.Status != flashinfer.Passed {
			r.Failed[string(e.Status)]++
			continue
		}
		r.Passed++
		if e.Performance.LatencyMS == 0 { // judged, not timed
			continue
		}
		timed++
		latency += math.Log(e.Performance.LatencyMS)
		reference += math.Log(e.Performance.ReferenceLatencyMS)
		speedup += math.Log(e.Performance.Speedup)
		r.MeanUp += e.Performance.Speedup
		fastest := e.Performance.LatencyMS // traces by other programs do not have the fastest execution
		ofLoop := e.Performance.ReferenceLatencyMS
		if x := e.Correctness.Extra[minLatency]; x != nil {
			fastest, ofLoop = float(x), float(e.Correctness.Extra[minReference])
		}
		least += math.Log(fastest)
		leastUp += math.Log(ofLoop / fastest)
	}
	if n := timed; n > 0 {
		r.MeanUp /= n
		r.LatencyMS, r.ReferenceMS, r.Speedup = math.Exp(latency/n), math.Exp(reference/n), math.Exp(speedup/n)
		r.LeastMS, r.LeastUp = math.Exp(least/n), math.Exp(leastUp/n)
	}
	return r
}

// float returns a number read from JSON, or one still in memory.
func float(v any) float64 {
	switch x := v.(type) {
	case float64:
		return x
	case interface{ Float64() (float64, error) }:
		f, _ := x.Float64()
		return f
	}
	return 0
}
