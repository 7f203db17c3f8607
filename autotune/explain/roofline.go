package explain

import (
	"fmt"
	"math"
)

// roofline has the roofs of a target and the points of a module, in units of its view box. x is work over traffic, y
// the share of the MXUs' peak, both on logarithmic scales of base 2.
type roofline struct {
	Width, Height            float64
	Left, Right, Top, Bottom float64
	Ridge                    float64 // flop per byte at which HBM and MXUs limit equally
	Roof                     string  // path
	X, Y                     []tick
	Points                   []rooflinePoint
}

// rooflinePoint is a module, with the work and traffic that its spec needs, or with its schedule's own.
type rooflinePoint struct {
	X, Y, Roof float64 // Roof is the roof's height above the point
	Class      string  // spec or module
	Text       string
}

// bound returns the cycles of a bound by its name, or 0.
func (e *Explanation) bound(name string) float64 {
	for _, b := range e.Bounds {
		if b.Name == name {
			return float64(b.Cycles)
		}
	}
	return 0
}

// roofline places the module by the needs of its spec, and by its own schedule. It is nil for a module without matrix
// products or without known traffic.
func (e *Explanation) roofline() *roofline {
	p := &roofline{Width: 560, Height: 300, Left: 62, Right: 530, Top: 16, Bottom: 244, Ridge: e.target.PeakFlops() * e.target.Clock / e.target.HBM}
	type point struct {
		class, text string
		work, share float64
	}
	var points []point
	for _, class := range []string{"spec", "module"} {
		mxu, hbm := e.bound("mxu, "+class), e.bound("hbm, "+class)
		if mxu > 0 && hbm > 0 && e.Took() > 0 {
			share := mxu / float64(e.Took())
			text := fmt.Sprintf("%s: %.0f flop a byte, %.1f %% of the MXUs' peak, %.1f %% of the roof there", class, p.Ridge*mxu/hbm, 100*share, 100*share/min(1, mxu/hbm))
			points = append(points, point{class, text, mxu / hbm, share})
		}
	}
	if len(points) == 0 {
		return nil
	}
	lo, hi, low := .25, 4., .25
	for _, x := range points {
		lo, hi, low = min(lo, x.work/2), max(hi, 2*x.work), min(low, x.share/2)
	}
	lo, hi, low = math.Log2(lo), math.Log2(hi), math.Log2(low)
	xAt := func(work float64) float64 { return p.Left + (p.Right-p.Left)*(math.Log2(work)-lo)/(hi-lo) }
	yAt := func(share float64) float64 { return p.Bottom + (p.Top-p.Bottom)*(max(math.Log2(share), low)-low)/-low }
	p.Roof = fmt.Sprintf("M%.1f %.1fL%.1f %.1fH%.1f", xAt(math.Exp2(max(lo, low))), yAt(math.Exp2(max(lo, low))), xAt(1), yAt(1), p.Right)
	for k := math.Ceil(lo); k <= hi; k++ {
		p.X = append(p.X, tick{X: xAt(math.Exp2(k)), Label: grouped(int64(math.Round(p.Ridge * math.Exp2(k))))})
	}
	for k := math.Ceil(low); k <= 0; k++ {
		p.Y = append(p.Y, tick{X: yAt(math.Exp2(k)), Label: fmt.Sprintf("%.3g %%", 100*math.Exp2(k))})
	}
	for _, x := range points {
		p.Points = append(p.Points, rooflinePoint{xAt(x.work), yAt(x.share), yAt(min(1, x.work)), x.class, x.text})
	}
	return p
}
