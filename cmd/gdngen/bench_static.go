package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/gdngen/gdngen/autotune/bench"
	"github.com/gdngen/gdngen/autotune/flashinfer"
	"github.com/gdngen/gdngen/autotune/store"
	"github.com/gdngen/gdngen/codegen"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/internal/terminal"
)

// staticRow is the modelled cost of workloads of one shape on one target. Nothing in it was measured.
type staticRow struct {
	Kind         string  `json:"kind"` // static
	Definition   string  `json:"definition"`
	Group        string  `json:"shapes"`
	Spec         string  `json:"spec"`
	Workloads    int     `json:"workloads"` // that have the shape
	Target       string  `json:"target"`
	Variant      string  `json:"variant"`
	Cycles       int64   `json:"cycles,omitempty"`
	ComputeUS    float64 `json:"compute_us,omitempty"`
	HBMUS        float64 `json:"hbm_us,omitempty"` // of the module's traffic, or the necessary where the module's is not known
	ModelledUS   float64 `json:"modelled_us,omitempty"`
	FloorUS      float64 `json:"hbm_floor_us,omitempty"` // of the necessary traffic
	HBMBytes     int64   `json:"hbm_bytes,omitempty"`
	NecessaryHBM int64   `json:"necessary_hbm_bytes,omitempty"`
	Refused      string  `json:"refused,omitempty"`
}

// staticFile holds the rows in the folder of a run, as JSON lines.
const staticFile = "static.jsonl"

// staticCosts costs each shape of the workloads on each target. What the compiler gave is kept in the cache, so a sweep that was stopped
// does not compile it again.
func (a *app) staticCosts(b *benchFlags, r *benchResult) error {
	targets, err := parseTargets(b.targets)
	if err != nil {
		return err
	}
	meter, err := a.instrument(false)
	if err != nil {
		return err
	}
	meter.Note = nil // a bar tells of the progress
	r.Compiler = versionOf(a.tpu)
	type shape struct {
		definition, group string
		spec              gdn.Spec
		workloads         int
	}
	var list []*shape
	for _, it := range b.config.Items {
		p, err := flashinfer.NewProblem(it.Definition)
		if err != nil {
			return err
		}
		at := map[gdn.Spec]*shape{}
		for _, w := range it.Workloads {
			s, err := p.Spec(w)
			if err != nil {
				return err
			}
			s.InPlace = b.config.Protocol.InPlace && s.Init && s.Final
			if at[s] == nil {
				at[s] = &shape{it.Definition.Name, bench.Group(w), s, 0}
				list = append(list, at[s])
			}
			at[s].workloads++
		}
	}
	bar, begin, total := a.newBar(), time.Now(), len(list)*len(targets)
	defer bar.end()
	for _, x := range list {
		l := &lab{}
		for _, t := range targets {
			try, err := l.trial(x.spec, resultCandidate{Name: "--static-variant", Variant: cmp.Or(b.staticVariant, gdn.Auto)}, t)
			if err != nil {
				return usage(err)
			}
			cost, err := try.cost(a.ctx, meter, t)
			if err != nil {
				return err
			}
			row := staticRow{Kind: "static", Definition: x.definition, Group: x.group, Spec: x.spec.String(), Workloads: x.workloads, Target: t.Name, Variant: try.variant.String(), Refused: cost.Refused}
			row.model(cost, x.spec, t)
			r.Static = append(r.Static, row)
			if err := r.writeStaticFile(filepath.Join(b.dir, staticFile)); err != nil {
				return err
			}
			done := len(r.Static)
			left := time.Since(begin) / time.Duration(done) * time.Duration(total-done)
			bar.draw(done, total, fmt.Sprintf("static, %s: %s", t.Name, x.spec), left, row.Refused != "")
		}
	}
	return nil
}

// model fills in what follows from the cycles and the traffic.
func (r *staticRow) model(c *resultCost, s gdn.Spec, t *codegen.Target) {
	if c.Refused != "" {
		return
	}
	r.Cycles, r.HBMBytes, r.NecessaryHBM = c.Cycles, max(c.HBMBytes, 0), s.NecessaryBytes()
	us := func(bytes int64) float64 { return float64(bytes) / t.HBM * 1e6 }
	r.ComputeUS = float64(c.Cycles) / t.Clock * 1e6
	r.HBMUS, r.FloorUS = us(max(r.HBMBytes, r.NecessaryHBM)), us(r.NecessaryHBM)
	r.ModelledUS = max(r.ComputeUS, r.HBMUS)
}

// writeStaticFile writes the rows, and keeps those of other shapes, targets and variants that the file has.
func (r *benchResult) writeStaticFile(path string) error {
	old, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	same := func(x, y staticRow) bool {
		return x.Definition == y.Definition && x.Spec == y.Spec && x.Target == y.Target && x.Variant == y.Variant
	}
	var rows []staticRow
	for line := range bytes.Lines(old) {
		var row staticRow
		if json.Unmarshal(line, &row) == nil && !slices.ContainsFunc(r.Static, func(x staticRow) bool { return same(x, row) }) {
			rows = append(rows, row)
		}
	}
	var data []byte
	for _, row := range append(rows, r.Static...) {
		line, err := flashinfer.Line(row)
		if err != nil {
			return err
		}
		data = append(data, line...)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return store.WriteFile(path, data)
}

// writeStatic prints the static costs by definition, target and group of shapes.
func (r *benchResult) writeStatic(a *app, w io.Writer) {
	if len(r.Static) == 0 {
		return
	}
	if len(r.Rows) > 0 {
		fmt.Fprintln(w)
	}
	fmt.Fprintf(w, "static, by %s: nothing ran on a TPU\n\n", r.Compiler)
	t := terminal.NewTable("DEFINITION", "TARGET", "SHAPES", ">WORKLOADS", ">MODELLED", ">COMPUTE", ">HBM FLOOR", ">OVER FLOOR", ">WORST")
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
	fmt.Fprintln(w, "\nModelled time is the larger of the schedule's cycles at the clock of the target and of the main memory traffic at its bandwidth, the floor that of the necessary traffic; geometric means, and the worst of the workloads over the floor.")
	fmt.Fprintf(w, "Rows of every shape are in %s.\n%s\n", filepath.Join(r.Run, staticFile), staticNote)
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

// staticSum sums up workloads of a definition on a target, of one group or all: how many were costed and refused, sums of logarithms, and
// the largest ratio of the modelled time to the floor.
type staticSum struct {
	definition, target, group       string
	n, refused                      float64
	modelled, compute, floor, worst float64
}

// staticSums gives the sums by definition, target and group, and of each target that has several groups one of all, behind them.
func staticSums(rows []staticRow) []*staticSum {
	type key struct{ definition, target, group string }
	const all = "all"
	sums := map[key]*staticSum{}
	rank, groups := map[string]int{}, map[key]int{}
	var list []*staticSum
	for _, x := range rows {
		if _, ok := rank[x.Target]; !ok {
			rank[x.Target] = len(rank)
		}
		for _, group := range []string{x.Group, all} {
			k := key{x.Definition, x.Target, group}
			s := sums[k]
			if s == nil {
				s = &staticSum{definition: x.Definition, target: x.Target, group: group}
				sums[k] = s
				list = append(list, s)
				groups[key{x.Definition, x.Target, all}]++
			}
			n := float64(x.Workloads)
			if x.Refused != "" {
				s.refused += n
				continue
			}
			s.n += n
			s.modelled += n * math.Log(x.ModelledUS)
			s.compute += n * math.Log(x.ComputeUS)
			s.floor += n * math.Log(x.FloorUS)
			s.worst = max(s.worst, x.ModelledUS/x.FloorUS)
		}
	}
	list = slices.DeleteFunc(list, func(x *staticSum) bool { // with itself, two
		return x.group == all && groups[key{x.definition, x.target, all}] == 2
	})
	size := func(x *staticSum) int {
		if x.group == all {
			return math.MaxInt
		}
		return groupSize(x.group)
	}
	slices.SortStableFunc(list, func(x, y *staticSum) int {
		return cmp.Or(cmp.Compare(x.definition, y.definition), cmp.Compare(rank[x.target], rank[y.target]), cmp.Compare(size(x), size(y)))
	})
	return list
}

// groupSize is the number in the name of a group.
func groupSize(group string) int {
	var n int
	for _, format := range []string{"batch %d", "%d"} {
		if _, err := fmt.Sscanf(group, format, &n); err == nil {
			break
		}
	}
	return n
}
