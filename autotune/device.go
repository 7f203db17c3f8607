package autotune

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"gonum.org/v1/gonum/stat"

	"github.com/gdngen/gdngen/autotune/journal"
	"github.com/gdngen/gdngen/codegen/lower"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/pjrt"
)

// How a device is timed.
const (
	deviceWarmup = 3
	devicePairs  = 20
	resamples    = 2000
	confidence   = .95
	timedClass   = "random"
)

// onDevice times candidates that would be kept or held, where a device is attached: interleaved pairs with the champion of the first
// target. What it finds stands beside the static cycles, in the times of the record, and decides nothing.
func (l *Lab) onDevice(_ context.Context, w *Work) (*Refusal, error) {
	if l.device == nil || w.Text != "" {
		return nil, nil
	}
	if v, _, err := w.Known.Rank(w.Record); err != nil || v == journal.Slower {
		return nil, err
	}
	c, err := gdn.LookupClass(timedClass)
	if err != nil {
		return nil, err
	}
	inputs, err := c.Generate(w.Spec, w.Seed)
	if err != nil {
		return nil, err
	}
	args := arguments(w.Modules[0], inputs)
	mine, r, err := l.loadOnDevice(w, w.Modules[0])
	if r != nil || err != nil {
		w.Record.Notes = append(w.Record.Notes, "not timed on "+l.deviceName)
		return nil, err
	}
	defer mine.Close()
	other, against := mine, w.Record.ID
	if best := w.Known.Champion(w.Targets[0].Name); best != nil && best.Variant != "" {
		v, err := gdn.ParseVariant(best.Variant)
		if err != nil {
			return nil, err
		}
		m, err := gdn.Build(w.Spec, v)
		if err != nil {
			return nil, err
		}
		p, r, err := l.loadOnDevice(w, m)
		if err != nil {
			return nil, err
		}
		if r == nil {
			defer p.Close()
			other, against = p, best.ID
		}
	}
	pairs, err := pjrt.Interleave(pjrt.TimeOptions{Warmup: deviceWarmup, Trials: devicePairs}, mine, other, args...)
	if err != nil {
		return nil, err
	}
	w.Runs = compareRuns(pairs, rand.New(rand.NewPCG(w.Seed, uint64(w.Record.ID))))
	w.Runs.Device, w.Runs.Against = l.deviceName, against
	return nil, nil
}

// loadOnDevice compiles a module for the device: kernels where it is a TPU, a batched program elsewhere.
func (l *Lab) loadOnDevice(w *Work, m *ir.Module) (*pjrt.Program, *Refusal, error) {
	if !strings.Contains(strings.ToLower(l.device.Platform()), "tpu") {
		return load(l.device, m)
	}
	route, err := lower.Lookup("mosaic")
	if err != nil {
		return nil, nil, err
	}
	a, err := route.Emit(m, w.Targets[0])
	if err != nil {
		return nil, refuse(journal.EmitError, "%v", err), nil
	}
	p, err := l.device.Compile(a.Text)
	if is[*pjrt.CompileError](err) {
		return nil, refuse(journal.CompileReject, "%s: %v", l.deviceName, err), nil
	}
	return p, nil, err
}

// compareRuns sums up pairs of runs: the median ratio of the first of each to the second, and its interval by paired bootstrap.
func compareRuns(pairs [][2]time.Duration, rng *rand.Rand) *journal.Timing {
	ratios := make([]float64, len(pairs))
	seconds := make([]float64, len(pairs))
	for i, p := range pairs {
		ratios[i], seconds[i] = float64(p[0])/float64(max(p[1], 1)), p[0].Seconds()
	}
	medians := make([]float64, resamples)
	drawn := make([]float64, len(ratios))
	for i := range medians {
		for j := range drawn {
			drawn[j] = ratios[rng.IntN(len(ratios))]
		}
		medians[i] = median(drawn)
	}
	slices.Sort(medians)
	return &journal.Timing{Pairs: len(pairs), Seconds: median(seconds), Ratio: median(ratios),
		Low:  stat.Quantile((1-confidence)/2, stat.Empirical, medians, nil),
		High: stat.Quantile((1+confidence)/2, stat.Empirical, medians, nil)}
}

func median(l []float64) float64 {
	return stat.Quantile(.5, stat.LinInterp, slices.Sorted(slices.Values(l)), nil)
}
