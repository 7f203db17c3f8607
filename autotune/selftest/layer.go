package selftest

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/gdngen/gdngen/autotune/journal"
	"github.com/gdngen/gdngen/autotune/mfu"
	"github.com/gdngen/gdngen/codegen"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/model"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/array"
	"github.com/gdngen/gdngen/ir/interp"
	"github.com/gdngen/gdngen/pjrt/device"
	"github.com/gdngen/gdngen/pjrt/machine"
)

// The groups of tests.
const (
	Both    = "both"
	Kernels = "kernels"
	Layer   = "layer"
)

// Sets lists the groups of tests that a selftest can be restricted to.
var Sets = []string{Kernels, Layer, Both}

// LayerLimit is the largest allowed error of a layer's output, as a share of its root mean square: a layer rounds to
// bf16, by 2^-9, some ten times in sequence, and sums products in another order than the reference.
const LayerLimit = 1.0 / 64

// Layers are models whose layers are tested, forward and backward, by the device's program: norm, projections, convolution, rule,
// gated norm, projection; attention; and the feed-forward part. Works has the caches of the convolution.
var Layers = []model.Config{
	{Name: "a layer of the gated delta rule", Hidden: 128, Layers: 1, MLP: 128, Batch: 1, Tokens: 160,
		Rule: model.Rule{HeadsK: 1, HeadsV: 2, K: 128, V: 128, Conv: 4}},
	{Name: "a layer of KDA", Hidden: 128, Layers: 1, Batch: 1, Tokens: 160,
		Rule: model.Rule{Name: "kda", Bound: -5, HeadsK: 2, HeadsV: 2, K: 128, V: 128, Conv: 4, DecayRank: 128, GateRank: 128, SigmoidGate: true}},
}

// layers tests the layers. A quick test has only the first.
func (t *Test) layers(ctx context.Context, r *device.Runner, lock *machine.Lock, note func(format string, args ...any)) error {
	list := Layers
	if t.Quick {
		list = list[:1]
	}
	for i, c := range list {
		held, free, err := lock.Compute(ctx)
		if err != nil {
			return err
		}
		rows, err := t.layer(held, r, c)
		free()
		if err != nil {
			return err
		}
		t.Rows = append(t.Rows, rows...)
		note("[layer %d/%d] %s: %s", i+1, len(list), c.Name, outcome(rows))
	}
	return nil
}

// layer tests the pieces of a model in both passes. The backward pass gets the residuals of the interpreter's forward pass.
func (t *Test) layer(ctx context.Context, r *device.Runner, c model.Config) (rows []Case, err error) {
	if err := r.Ready(ctx); err != nil {
		return nil, err
	}
	v, err := mfu.Variant(c, gdn.Auto, r.Device().Target())
	if err != nil {
		return nil, err
	}
	draw := rand.New(rand.NewPCG(t.Seed, 3))
	for _, p := range model.Pieces(c) {
		if p.Build == nil || p.Kind == "model" { // Layers has no attention; every layer has a norm
			continue
		}
		values := map[string]*array.Array{}
		for _, pass := range model.Passes(false) {
			m, err := p.Build(v, pass == "backward")
			if err != nil {
				return nil, err
			}
			args := map[string]*array.Array{}
			for _, x := range m.Params() {
				if values[x.Name] == nil {
					values[x.Name] = drawn(draw, x.Name, x.Type)
				}
				args[x.Name] = values[x.Name]
			}
			want, err := interp.Run(m, args, interp.Options{})
			if err != nil {
				return nil, err
			}
			row := Case{Variant: gdn.Auto, Spec: fmt.Sprintf("%s, %s, %s", c.Name, p.Kind, pass), Class: "random", Kind: "rms", Status: Passed}
			begun := time.Now()
			got, err := r.Run(ctx, m, args)
			row.Seconds = time.Since(begun).Seconds()
			switch {
			case ctx.Err() != nil:
				return nil, ctx.Err()
			case is[*codegen.Error](err):
				row.Status, row.Reason = Skipped, err.Error()
			case err != nil:
				row.Status, row.Reason = Failed, err.Error()
			default:
				row.compare(m, got, want)
			}
			rows = append(rows, row)
			for name, x := range want {
				values[name] = x
			}
		}
	}
	return rows, nil
}

// drawn returns an argument of a layer: weights of products scaled by their rows, small gates, and other values of moderate size.
func drawn(draw *rand.Rand, name string, of ir.Type) *array.Array {
	scale := 1.0
	switch {
	case strings.HasPrefix(name, "w_"), name == "taps":
		scale = 1 / math.Sqrt(float64(of.Shape[0]))
	case name == "A_log", name == "dt_bias":
		scale = .1
	}
	v := make([]float64, of.Size())
	for i := range v {
		v[i] = scale * draw.NormFloat64()
	}
	return array.FromFloat64s(of.DType, of.Shape, v)
}

// compare judges the outputs of a module by the worst one.
func (row *Case) compare(m *ir.Module, got, want map[string]*array.Array) {
	worst := -1.0
	for _, name := range m.Results {
		var off, size float64
		x, y := got[name].Float64s(), want[name].Float64s()
		for i := range y {
			off, size = off+(x[i]-y[i])*(x[i]-y[i]), size+y[i]*y[i]
		}
		e := math.Sqrt(off / max(size, 1e-30))
		if !(e <= worst) { // true for NaN
			worst = e
			row.Output, row.Error, row.Limit = name, journal.Figure(e), LayerLimit
		}
		if !(e <= LayerLimit) {
			row.Status = Failed
			return
		}
	}
}
