package truth

import (
	"math"
	"math/rand/v2"
	"slices"
)

// keyKind is a distribution of keys, and of queries if they are not normal. Only classes of one kind can share a key head.
type keyKind struct {
	draw, queries func(r *rand.Rand, heads, width, tokens int) []float64
}

var (
	normal    = &keyKind{draw: normalKeys}
	flat      = &keyKind{draw: flatKeys, queries: flatKeys} // values are from U(0,1) too
	cosine9   = &keyKind{draw: correlatedKeys(.9)}
	cosine99  = &keyKind{draw: correlatedKeys(.99)}
	oneKey    = &keyKind{draw: correlatedKeys(1)}
	drifting  = &keyKind{draw: driftingKeys(.95)}
	withZeros = &keyKind{draw: zeroRows(5), queries: zeroRows(7)}
)

func normalKeys(r *rand.Rand, heads, width, tokens int) []float64 {
	return unitRows(fill(tokens*heads*width, r.NormFloat64), width)
}

func flatKeys(r *rand.Rand, heads, width, tokens int) []float64 {
	return unitRows(fill(tokens*heads*width, r.Float64), width)
}

// correlatedKeys draws unit keys; any two of a head have the given cosine on average.
func correlatedKeys(cosine float64) func(r *rand.Rand, heads, width, tokens int) []float64 {
	return func(r *rand.Rand, heads, width, tokens int) []float64 {
		base := normalKeys(r, heads, width, 1)
		x := fill(tokens*heads*width, r.NormFloat64)
		for i := range tokens * heads {
			row, common := x[i*width:][:width], base[i%heads*width:][:width]
			dot := 0.0
			for j := range row {
				dot += row[j] * common[j]
			}
			for j := range row {
				row[j] -= dot * common[j]
			}
			unit(row)
			for j := range row {
				row[j] = math.Sqrt(cosine)*common[j] + math.Sqrt(1-cosine)*row[j]
			}
		}
		return x
	}
}

// driftingKeys draws unit keys of slowly changing direction: normal rows, autoregressive with the given factor.
func driftingKeys(factor float64) func(r *rand.Rand, heads, width, tokens int) []float64 {
	return func(r *rand.Rand, heads, width, tokens int) []float64 {
		x := fill(tokens*heads*width, r.NormFloat64)
		for i := heads * width; i < len(x); i++ {
			x[i] = factor*x[i-heads*width] + math.Sqrt(1-factor*factor)*x[i]
		}
		return unitRows(x, width)
	}
}

// zeroRows draws normal keys, with zeros at every n-th token.
func zeroRows(n int) func(r *rand.Rand, heads, width, tokens int) []float64 {
	return func(r *rand.Rand, heads, width, tokens int) []float64 {
		x := normalKeys(r, heads, width, tokens)
		for t := n / 2; t < tokens; t += n {
			clear(x[t*heads*width:][:heads*width])
		}
		return x
	}
}

// gate draws the log decay or beta of a token.
type gate func(r *rand.Rand, token int) float64

func constant(x float64) gate { return func(*rand.Rand, int) float64 { return x } }

func sigmoid(x float64) float64 { return 1 / (1 + math.Exp(-x)) }

func sigmoidBeta(r *rand.Rand, _ int) float64 { return sigmoid(r.NormFloat64()) }

func flatBeta(r *rand.Rand, _ int) float64 { return sigmoid(r.Float64()) }

// flatLogSigmoid and logSigmoid draw log(sigmoid(x)) / normaliser, for x from U(0,1) or normal.
func flatLogSigmoid(normaliser float64) gate {
	return func(r *rand.Rand, _ int) float64 { return math.Log(sigmoid(r.Float64())) / normaliser }
}

func logSigmoid(normaliser float64) gate {
	return func(r *rand.Rand, _ int) float64 { return math.Log(sigmoid(r.NormFloat64())) / normaliser }
}

func uniformDecay(most float64) gate {
	return func(r *rand.Rand, _ int) float64 { return -most * r.Float64() }
}

// cutting is a decay near 1, except at one of 64 tokens.
func cutting(r *rand.Rand, token int) float64 {
	if token%64 == 32 {
		return -4 - 4*r.Float64()
	}
	return -.01 * r.Float64()
}

// holding is one gate for the first 128 of 512 tokens, and another for the rest.
func holding(first, then gate) gate {
	return func(r *rand.Rand, token int) float64 {
		if token%512 < 128 {
			return first(r, token)
		}
		return then(r, token)
	}
}

// mixedChannels forgets by channel: every fourth at random, all other odd ones always.
func mixedChannels(r *rand.Rand, _, channel int) float64 {
	odd := channel%2 == 1
	if channel%4 == 3 {
		odd = r.IntN(2) == 1
	}
	if odd {
		return -30
	}
	return 0
}

// clearedChannels draws a log decay that clears some channels.
func clearedChannels(r *rand.Rand, token, channel int) float64 {
	g := logSigmoid(4)(r, token)
	if r.Float64() < .03 || token%64 == 40 && channel%2 == 0 {
		return -1e4
	}
	return g
}

// resets replaces a random share of the log decays by one of the given values.
func resets(decay gate, share float64, values ...float64) gate {
	return func(r *rand.Rand, token int) float64 {
		g := decay(r, token)
		if r.Float64() < share {
			g = values[r.IntN(len(values))]
		}
		return g
	}
}

func fill(n int, next func() float64) []float64 {
	x := make([]float64, n)
	for i := range x {
		x[i] = next()
	}
	return x
}

// unit scales a row to length 1.
func unit(row []float64) {
	sum := 0.0
	for _, e := range row {
		sum += e * e
	}
	if sum == 0 {
		return
	}
	for i := range row {
		row[i] /= math.Sqrt(sum)
	}
}

func unitRows(x []float64, width int) []float64 {
	for row := range slices.Chunk(x, width) {
		unit(row)
	}
	return x
}
