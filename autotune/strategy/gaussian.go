package strategy

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/mat"

	"github.com/gdngen/gdngen/gdn"
)

// point is a variant in a model: the index of its value on each axis, -1 if the axis does not apply.
type point []int8

// pointOf returns the point of a fitted variant.
func pointOf(v gdn.Variant) point {
	p := make(point, len(gdn.Axes))
	for i, a := range gdn.Axes {
		if a.Sets != nil {
			continue
		}
		p[i] = -1
		if a.Applies == nil || a.Applies(v) {
			p[i] = int8(slices.Index(a.Values, a.Get(&v)))
		}
	}
	return p
}

// ordinal marks the axes whose values are numbers: neighbouring values are alike.
var ordinal = func() []bool {
	l := make([]bool, len(gdn.Axes))
	for i, a := range gdn.Axes {
		l[i] = len(a.Values) > 2 && a.Number()
	}
	return l
}()

// alike returns the similarity of two values of an axis: 1 for equal ones, half as much for each step between numbers,
// 0 for others.
func alike(axis int, x, y int8) float64 {
	switch {
	case x == y:
		return 1
	case x < 0 || y < 0 || !ordinal[axis]:
		return 0
	}
	return 1 / float64(int(1)<<max(x-y, y-x))
}

// prior is the prior of a Gaussian process, as variances.
type prior struct {
	level float64   // of the common level
	axes  []float64 // of the additive effect of a value, by axis
	local float64   // of the interaction of values, shared by variants that differ in few axes
}

// near is the number of differing axes at which the local parts have a correlation of 1/e.
const near = 3

// covariance returns the prior covariance of two variants: the level; the effects of the values that they share, or of
// neighbouring numbers; and the local part, which fades with the number of axes in which they differ.
//
//	heads=8 and heads=4, all else equal:   level + sum of axes - axis of heads / 2 + local e^(-.5/3)
func (p *prior) covariance(a, b point) float64 {
	sum, apart := p.level, 0.
	for i, scale := range p.axes {
		if a[i] == b[i] {
			sum += scale
			continue
		}
		s := alike(i, a[i], b[i])
		sum += scale * s
		apart += 1 - s
	}
	return sum + p.local*math.Exp(-apart/near)
}

// gaussian is a Gaussian process over variants: the sum of a level, of additive effects of single axes, and of a local
// part (C. E. Rasmussen and C. K. I. Williams, Gaussian Processes for Machine Learning, 2006, chapter 2). It predicts
// several quantities that are observed at the same points with the same noise.
type gaussian struct {
	prior   *prior
	points  []point
	lower   mat.TriDense    // the Cholesky factor of the covariance of the observations
	weights []*mat.VecDense // by quantity
}

// newGaussian conditions a prior on observations: values[q][i] is quantity q at points[i], with variance noise[i]. ok
// is false if that has no numerical solution. With K the covariance of the observations, noise on its diagonal, and L
// L^T = K, weights are K^-1 values: solved once, so that a prediction is one product.
func newGaussian(p *prior, points []point, noise []float64, values ...[]float64) (g *gaussian, ok bool) {
	n := len(points)
	g = &gaussian{prior: p, points: points}
	if n == 0 {
		g.weights = make([]*mat.VecDense, len(values))
		return g, true
	}
	k := mat.NewSymDense(n, nil)
	for i := range n {
		for j := i; j < n; j++ {
			k.SetSym(i, j, p.covariance(points[i], points[j]))
		}
		k.SetSym(i, i, k.At(i, i)+noise[i])
	}
	var factor mat.Cholesky
	if !factor.Factorize(k) {
		return nil, false
	}
	factor.LTo(&g.lower)
	for _, v := range values {
		w := mat.NewVecDense(n, nil)
		if factor.SolveVecTo(w, mat.NewVecDense(n, v)) != nil {
			return nil, false
		}
		g.weights = append(g.weights, w)
	}
	return g, true
}

// at returns the expectation of each quantity at a point, and their common variance: with k the covariance of x with
// the observations, k . weights, and c(x, x) - |L^-1 k|^2, which rounding may make negative.
func (g *gaussian) at(x point) (means []float64, variance float64) {
	variance = g.prior.covariance(x, x)
	means = make([]float64, len(g.weights))
	if len(g.points) == 0 {
		return means, variance
	}
	k := mat.NewVecDense(len(g.points), nil)
	for i, p := range g.points {
		k.SetVec(i, g.prior.covariance(x, p))
	}
	for i, w := range g.weights {
		means[i] = mat.Dot(k, w)
	}
	blas64.Trsv(blas.NoTrans, g.lower.RawTriangular(), k.RawVector())
	return means, max(variance-mat.Dot(k, k), 0)
}
