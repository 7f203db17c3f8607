package lab

import (
	"errors"
	"fmt"
	"image/color"
	"math"
	"os"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// memory is the number of steps in the running mean of a loss.
const memory = 20

// Plot draws the loss of every step, and its running mean, as an SVG file of 16 by 9 cm on white. Losses that are not
// finite are left out; with fewer than two it draws nothing.
func Plot(path, title string, losses []float64) error {
	raw, mean := curves(losses)
	if len(raw) < 2 {
		return nil
	}
	p := plot.New()
	p.BackgroundColor = color.White
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = title, "step", "loss, nats"
	p.Title.Padding = vg.Millimeter
	p.Legend.Top, p.Legend.Padding = true, vg.Millimeter
	p.Add(plotter.NewGrid())
	for _, c := range []struct {
		name  string
		curve plotter.XYs
		width vg.Length
		color color.Color
	}{
		{"each step", raw, vg.Points(.5), color.RGBA{R: 150, G: 185, B: 225, A: 255}},
		{fmt.Sprintf("mean of some %d", memory), mean, vg.Points(1.5), color.RGBA{R: 20, G: 80, B: 160, A: 255}},
	} {
		line, err := plotter.NewLine(c.curve)
		if err != nil {
			return fmt.Errorf("plot: %w", err)
		}
		line.Width, line.Color = c.width, c.color
		p.Add(line)
		p.Legend.Add(c.name, line)
	}
	p.X.Min = 0 // round numbers of steps at the ticks
	c := vgsvg.NewWith(vgsvg.UseWH(16*vg.Centimeter, 9*vg.Centimeter), vgsvg.EmbedFonts(true))
	p.Draw(draw.Crop(draw.New(c), 0, -5*vg.Millimeter, 0, -vg.Millimeter)) // half of the last tick's label is beyond the axis
	f, err := os.Create(path)
	if err == nil {
		_, err = c.WriteTo(f)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		return fmt.Errorf("plot: %w", err)
	}
	return nil
}

// curves returns the finite losses by step, from 1, and their running mean. A loss n steps back has the weight (1 -
// 1/memory)^n. The mean divides by the sum of the weights, so that the first losses are not underrated.
func curves(losses []float64) (raw, mean plotter.XYs) {
	sum, weights := 0., 0.
	for i, l := range losses {
		if math.IsNaN(l) || math.IsInf(l, 0) {
			continue
		}
		const keep = 1 - 1./memory
		sum, weights = keep*sum+l, keep*weights+1
		raw = append(raw, plotter.XY{X: float64(i + 1), Y: l})
		mean = append(mean, plotter.XY{X: float64(i + 1), Y: sum / weights})
	}
	return raw, mean
}
