package lab

import (
	"fmt"
	"math"
	"os"

	"github.com/erkkah/margaid"
)

// Plot draws the loss of every step, and a running mean of it, as an SVG file.
func Plot(path string, losses []float64) error {
	if len(losses) < 2 {
		return nil
	}
	raw, mean := margaid.NewSeries(margaid.Titled("loss")), margaid.NewSeries(margaid.Titled("running mean"))
	average := losses[0]
	for i, l := range losses {
		if math.IsNaN(l) || math.IsInf(l, 0) {
			continue
		}
		average += (l - average) / 20
		raw.Add(margaid.MakeValue(float64(i+1), l))
		mean.Add(margaid.MakeValue(float64(i+1), average))
	}
	if raw.Size() < 2 || raw.MinY() == raw.MaxY() {
		return nil
	}
	d := margaid.New(800, 450, margaid.WithAutorange(margaid.XAxis, raw), margaid.WithAutorange(margaid.YAxis, raw), margaid.WithInset(60), margaid.WithPadding(2))
	d.Line(raw, margaid.UsingAxes(margaid.XAxis, margaid.YAxis), margaid.UsingStrokeWidth(.6))
	d.Line(mean, margaid.UsingAxes(margaid.XAxis, margaid.YAxis), margaid.UsingStrokeWidth(2))
	d.Axis(raw, margaid.XAxis, d.ValueTicker('f', 0, 10), false, "step")
	d.Axis(raw, margaid.YAxis, d.ValueTicker('f', 1, 10), true, "loss, nats")
	d.Frame()
	d.Legend(margaid.RightTop)
	f, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("plot: %w", err)
	}
	if err := d.Render(f); err != nil {
		f.Close()
		return fmt.Errorf("plot: %w", err)
	}
	return f.Close()
}
