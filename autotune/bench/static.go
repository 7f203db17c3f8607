package bench

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/gdngen/gdngen/autotune/flashinfer"
	"github.com/gdngen/gdngen/autotune/measure"
	"github.com/gdngen/gdngen/autotune/ruler"
	"github.com/gdngen/gdngen/codegen/route"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/internal/store"
	"github.com/gdngen/gdngen/ir/target"
)

// StaticRow is the modelled cost of the workloads of one shape on one target. Nothing in it was measured.
type StaticRow struct {
	Kind         string      `json:"kind"` // static
	Definition   string      `json:"definition"`
	Group        string      `json:"shapes"`
	Spec         string      `json:"spec"`
	Workloads    int         `json:"workloads"` // that have the shape
	Target       string      `json:"target"`
	Variant      string      `json:"variant"`
	Ruler        ruler.Ruler `json:"ruler,omitempty"` // unit of Cycles and ComputeUS
	Cycles       int64       `json:"cycles,omitempty"`
	Issue        int64       `json:"issue,omitempty"` // issue cycles
	ComputeUS    float64     `json:"compute_us,omitempty"`
	HBMUS        float64     `json:"hbm_us,omitempty"` // time of the module's HBM traffic, or of the necessary traffic if the module's is unknown
	ModelledUS   float64     `json:"modelled_us,omitempty"`
	FloorUS      float64     `json:"hbm_floor_us,omitempty"` // time of the necessary traffic
	HBMBytes     int64       `json:"hbm_bytes,omitempty"`
	NecessaryHBM int64       `json:"necessary_hbm_bytes,omitempty"`
	Refused      string      `json:"refused,omitempty"`
}

// StaticFile is the JSON-lines file of the rows in the folder of a run.
const StaticFile = "static.jsonl"

// Static models the cost of workloads on TPUs that are absent.
type Static struct {
	Instrument *measure.Instrument
	Targets    []*target.Target
	Variant    string // text; auto is chosen for each shape and target
	InPlace    bool   // final states overwrite the initial ones
	File       string // file to which the rows are written as they come
	Progress   func(done, total int, row *StaticRow, left time.Duration)
}

// shape is a spec that workloads share.
type shape struct {
	definition, group string
	spec              gdn.Spec
	workloads         int
}

// shapes lists the distinct specs of the workloads in order of first use.
func (c *Static) shapes(items []Item) ([]*shape, error) {
	var list []*shape
	for _, it := range items {
		p, err := flashinfer.NewProblem(it.Definition)
		if err != nil {
			return nil, err
		}
		at := map[gdn.Spec]*shape{}
		for _, w := range it.Workloads {
			s, err := p.Spec(w)
			if err != nil {
				return nil, err
			}
			s.InPlace = c.InPlace && s.Init && s.Final
			if at[s] == nil {
				at[s] = &shape{it.Definition.Name, Group(w), s, 0}
				list = append(list, at[s])
			}
			at[s].workloads++
		}
	}
	return list, nil
}

// VariantError says that no kernel of a spec takes the variant.
type VariantError struct{ Err error }

func (e *VariantError) Error() string { return e.Err.Error() }
func (e *VariantError) Unwrap() error { return e.Err }

// Cost returns a row for each shape of the workloads on each target. A variant that fits no kernel is a *VariantError.
// Compiles are cached in the instrument, so a stopped sweep resumes.
func (c *Static) Cost(ctx context.Context, items []Item) (rows []StaticRow, err error) {
	list, err := c.shapes(items)
	if err != nil {
		return nil, err
	}
	begin, total := time.Now(), len(list)*len(c.Targets)
	for _, x := range list {
		var forms measure.Forms
		for _, t := range c.Targets {
			f, err := route.Resolve(x.spec, c.Variant, t, nil)
			if err != nil {
				return nil, &VariantError{err}
			}
			cost, err := forms.Cost(ctx, c.Instrument, f, t)
			if err != nil {
				return nil, err
			}
			row := StaticRow{Kind: "static", Definition: x.definition, Group: x.group, Spec: x.spec.String(), Workloads: x.workloads, Target: t.Name, Variant: f.Variant.String(), Refused: cost.Refused}
			row.model(cost, x.spec, t)
			rows = append(rows, row)
			if err := writeStaticFile(c.File, rows); err != nil {
				return nil, err
			}
			done := len(rows)
			c.Progress(done, total, &row, time.Since(begin)/time.Duration(done)*time.Duration(total-done))
		}
	}
	return rows, nil
}

// model fills in the fields that follow from cycles and traffic.
func (r *StaticRow) model(c *measure.Cost, s gdn.Spec, t *target.Target) {
	if c.Refused != "" {
		return
	}
	took, unknown := c.By(ruler.InOrder, t.Name)
	if unknown != "" {
		r.Refused = unknown
		return
	}
	r.Ruler, r.Cycles, r.Issue = ruler.InOrder.On(t.Name), took, c.Cycles
	r.HBMBytes, r.NecessaryHBM = max(c.HBMBytes, 0), s.NecessaryBytes()
	us := func(bytes int64) float64 { return float64(bytes) / t.HBM * 1e6 }
	r.ComputeUS = float64(took) / t.Clock * 1e6
	r.HBMUS, r.FloorUS = us(max(r.HBMBytes, r.NecessaryHBM)), us(r.NecessaryHBM)
	r.ModelledUS = max(r.ComputeUS, r.HBMUS)
}

// writeStaticFile writes rows, and keeps the file's rows of other shapes, targets and variants.
func writeStaticFile(path string, made []StaticRow) error {
	old, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	same := func(x, y StaticRow) bool {
		return x.Definition == y.Definition && x.Spec == y.Spec && x.Target == y.Target && x.Variant == y.Variant
	}
	var rows []StaticRow
	for line := range bytes.Lines(old) {
		var row StaticRow
		if json.Unmarshal(line, &row) == nil && !slices.ContainsFunc(made, func(x StaticRow) bool { return same(x, row) }) {
			rows = append(rows, row)
		}
	}
	var data []byte
	for _, row := range append(rows, made...) {
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

// staticSum sums up workloads of a definition on a target, of one group or of all: numbers costed and refused, sums of
// logarithms, and the largest ratio of the modelled time to the floor.
type staticSum struct {
	definition, target, group       string
	n, refused                      float64
	modelled, compute, floor, worst float64
}

// staticSums returns the sums by definition, target and group. A target with several groups also has a sum over all groups, last.
func staticSums(rows []StaticRow) []*staticSum {
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
