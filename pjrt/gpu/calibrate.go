package gpu

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"

	"gonum.org/v1/gonum/stat"

	"github.com/gdngen/gdngen/internal/store"
	"github.com/gdngen/gdngen/internal/terminal"
	"github.com/gdngen/gdngen/ir/target"
	"github.com/gdngen/gdngen/pjrt/gpu/sass"
)

// Calibration is a table of latencies fitted on a device, with the deviation of modelled from measured times before and after.
type Calibration struct {
	Target string                `json:"target"`
	Device Info                  `json:"device"`
	Triton string                `json:"triton"`
	Table  target.GPUCalibration `json:"table"`
	Micro  []MicroRow            `json:"microkernels"`
	Front  []FrontRow            `json:"programs,omitempty"`
	// Before and After are geometric means of the deviation of modelled from measured times, as factors above 1. Order is Spearman's
	// rank correlation of the fitted model's times with the measured ones, averaged over the works.
	Before float64 `json:"deviation_before,omitempty"`
	After  float64 `json:"deviation_after,omitempty"`
	Order  float64 `json:"rank_correlation,omitempty"`
}

// MicroRow is a microkernel: the cycles per loop iteration on the device, and the constant before and after.
type MicroRow struct {
	Name   string  `json:"name"`
	Cycles float64 `json:"cycles_a_turn"`
	Was    float64 `json:"was"`
	Is     float64 `json:"is"`
	// Residual is the deviation of modelled from measured cycles per iteration; not 0 if no constant in range fits.
	Residual float64 `json:"residual"`
}

// FrontRow is a program of the front: microseconds measured, and modelled by the table before and after.
type FrontRow struct {
	Work     string  `json:"work"`
	Variant  string  `json:"variant"`
	Measured float64 `json:"measured_us"`
	Before   float64 `json:"modelled_before_us"`
	After    float64 `json:"modelled_after_us"`
}

// FrontProgram is a program of the front: compiled for the device, with inputs, and the work of its kernels.
type FrontProgram struct {
	Timed
	Variant string
	Work    func(kernel string) (trips int, bytes int64)
}

// fitted returns a copy of g with its own timing table, which may be changed.
func fitted(g *target.GPU) *target.GPU {
	own := *g
	timing := *g.Timing
	own.Timing = &timing
	return &own
}

// Calibrate fits a GPU's table to the attached device by microkernels, and compares modelled with measured times of programs. It errs if
// the GPU has no table to start from.
func (t *Toolkit) Calibrate(ctx context.Context, g *target.GPU, front []FrontProgram, note func(string, ...any)) (*Calibration, error) {
	if g.Timing == nil {
		return nil, fmt.Errorf("%s has no table to begin with", g.Name)
	}
	c := &Calibration{Target: g.Name, Triton: cmp.Or(t.Version, t.Path)}
	own := fitted(g)
	note("timing %d microkernels", len(micros)+2)
	if err := t.askMicros(ctx, g, own, c); err != nil {
		return nil, err
	}
	c.Table = target.GPUCalibration{Timing: *own.Timing, Copy: own.Copy, Clock: own.Clock, Device: c.Device.Name, Date: time.Now().UTC().Format(time.DateOnly)}
	if len(front) == 0 {
		return c, nil
	}
	note("timing %d programs", len(front))
	var programs []Timed
	for _, p := range front {
		programs = append(programs, p.Timed)
	}
	times, err := t.Time(ctx, programs)
	if err != nil {
		return nil, err
	}
	for i, p := range front {
		row := FrontRow{Work: p.Name, Variant: p.Variant, Measured: times[i]}
		for _, x := range []struct {
			g  *target.GPU
			us *float64
		}{{g, &row.Before}, {own, &row.After}} {
			list, err := Model(p.Launches, x.g, p.Work)
			if err != nil {
				return nil, err
			}
			*x.us = Time(list) + float64(len(list))*x.g.Timing.Launch
		}
		c.Front = append(c.Front, row)
	}
	c.judge()
	return c, nil
}

// askMicros runs the microkernels and sets the constants that they determine.
func (t *Toolkit) askMicros(ctx context.Context, g, own *target.GPU, c *Calibration) error {
	kernels, err := t.microkernels(ctx, g)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "gdngen-device-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	var jobs []*job
	for i := range micros {
		j, err := micros[i].job(dir, kernels[micros[i].name], g)
		if err != nil {
			return err
		}
		jobs = append(jobs, j)
	}
	for _, name := range []string{"empty", "copy"} {
		j, err := wideJob(dir, kernels[name], g)
		if err != nil {
			return err
		}
		jobs = append(jobs, j)
	}
	info, list, err := t.device(ctx, dir, jobs...)
	if err != nil {
		return err
	}
	c.Device = info
	times := map[string]float64{}
	for _, x := range list {
		if len(x.Times) > 0 {
			times[x.Name] = median(x.Times)
		}
	}
	for i := range micros {
		m := &micros[i]
		took, err := m.cycles(dir)
		if err != nil {
			return err
		}
		code, err := sass.Parse(kernels[m.name].SASS, kernels[m.name].Usage)
		if err != nil {
			return err
		}
		was := *m.constant(g.Timing)
		got, err := m.solve(code, own, took)
		if err != nil {
			return err
		}
		c.Micro = append(c.Micro, MicroRow{m.name, took, was, *m.constant(own.Timing), got/took - 1})
		if us := times[m.name]; us > 0 {
			own.Clock = math.Round(took*float64(m.turns)/max(us-times["empty"], .1)) * 1e6
		}
	}
	own.Timing.Launch = math.Round(1e3*times["empty"]) / 1e3
	own.Copy = math.Round(2*copied(g)/times["copy"]/1e3) * 1e9
	c.Micro = append(c.Micro,
		MicroRow{Name: "empty kernel in a graph, us", Was: g.Timing.Launch, Is: own.Timing.Launch},
		MicroRow{Name: "copy, GB/s", Was: g.Copy / 1e9, Is: own.Copy / 1e9},
		MicroRow{Name: "clock under load, MHz", Was: g.Clock / 1e6, Is: own.Clock / 1e6})
	return nil
}

// judge computes the summary of the front.
func (c *Calibration) judge() {
	deviation := func(us func(FrontRow) float64) float64 {
		sum := 0.
		for _, r := range c.Front {
			sum += math.Abs(math.Log(us(r) / r.Measured))
		}
		return math.Exp(sum / float64(len(c.Front)))
	}
	c.Before = deviation(func(r FrontRow) float64 { return r.Before })
	c.After = deviation(func(r FrontRow) float64 { return r.After })
	works := map[string][]FrontRow{}
	for _, r := range c.Front {
		works[r.Work] = append(works[r.Work], r)
	}
	n := 0.
	for _, rows := range works {
		if len(rows) < 3 {
			continue
		}
		n++
		c.Order += stat.Correlation(ranks(rows, func(r FrontRow) float64 { return r.Measured }), ranks(rows, func(r FrontRow) float64 { return r.After }), nil)
	}
	if n > 0 {
		c.Order /= n
	}
}

// ranks returns each row's rank by a figure.
func ranks(rows []FrontRow, of func(FrontRow) float64) []float64 {
	order := make([]int, len(rows))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(of(rows[a]), of(rows[b])) })
	list := make([]float64, len(rows))
	for place, i := range order {
		list[i] = float64(place)
	}
	return list
}

// Save writes a calibration to a file atomically.
func (c *Calibration) Save(file string) error {
	text, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return err
	}
	return store.WriteBelow(filepath.Dir(file), filepath.Base(file), append(text, '\n'))
}

// ReadCalibration reads a file of Save.
func ReadCalibration(file string) (*Calibration, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	c := &Calibration{}
	if err := json.Unmarshal(text, c); err != nil {
		return nil, fmt.Errorf("%s: %w (remove it, or calibrate again)", file, err)
	}
	return c, nil
}

// Write prints the constants and the residuals.
func (c *Calibration) Write(w io.Writer) {
	fmt.Fprintf(w, "%s on %s, sm_%d\n\n", c.Target, c.Device.Name, c.Device.Capability)
	t := terminal.NewTable("MICROKERNEL", ">CYCLES A TURN", ">WAS", ">IS", ">RESIDUAL")
	for _, r := range c.Micro {
		cycles, residual := "", ""
		if r.Cycles > 0 {
			cycles, residual = fmt.Sprintf("%.1f", r.Cycles), fmt.Sprintf("%+.1f %%", 100*r.Residual)
		}
		t.Add(r.Name, cycles, fmt.Sprintf("%.4g", r.Was), fmt.Sprintf("%.4g", r.Is), residual)
	}
	t.Write(w)
	if len(c.Front) == 0 {
		return
	}
	fmt.Fprintln(w)
	t = terminal.NewTable("WORK", "VARIANT", ">MEASURED US", ">MODELLED BEFORE", ">AFTER")
	for _, r := range c.Front {
		t.Add(r.Work, r.Variant, fmt.Sprintf("%.1f", r.Measured), fmt.Sprintf("%.1f", r.Before), fmt.Sprintf("%.1f", r.After))
	}
	t.Write(w)
	fmt.Fprintf(w, "\ndeviation of modelled from measured: a factor of %.2f before, %.2f after; rank correlation within a work %.2f\n", c.Before, c.After, c.Order)
}
