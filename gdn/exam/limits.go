package exam

import (
	"crypto/sha256"
	_ "embed"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/truth"
	"github.com/gdngen/gdngen/ir"
)

// Limit bounds the errors of one output of one value head, each relative to the reference.
type Limit struct {
	RMS, Max, Bias float64
	rows, width    float64 // in the derivation
	tokens         float64 // tokens of the derivation / tokens of the spec
	rounding       float64 // largest relative error of the output's element type
}

// margins are factors on the largest errors found for a class. A kernel rounds at other places and in other orders than the derivation. Limits
// for more than one bf16 pass can be loose, since faults exceed them by far.
var margins = map[string]Limit{
	"f32":    {RMS: 4, Max: 4, Bias: 6},
	"bf16x3": {RMS: 4, Max: 4, Bias: 6},
	"bf16x1": {RMS: 1.5, Max: 2, Bias: 2.5},
}

//go:embed limits.txt
var limitsText string

// Version returns 16 hexadecimal digits of a hash of limits.txt, to invalidate stored verdicts.
func Version() string { return fmt.Sprintf("%x", sha256.Sum256([]byte(limitsText)))[:16] }

type limitKey struct {
	precision, class, output string
	tokens                   int
}

// found has the largest errors of the derivation.
var found = mustRead(limitsText)

// lengths are the token counts with derived limits. A spec uses the shortest one that is at least its own length, or the longest of
// its class.
var lengths = []int{300, 1056, 4096}

// atBound is the suffix of channel classes with log decays cut at Kimi's bound, for specs with a bound.
const (
	atBound      = "@-5"
	derivedBound = -5
)

// derivedWidth is K and V in the derivation.
const derivedWidth = 128

func mustRead(text string) map[limitKey]Limit {
	m := map[limitKey]Limit{}
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) == 0 || f[0] == "#" {
			continue
		}
		var x [4]float64
		for i := range x {
			var err error
			if x[i], err = strconv.ParseFloat(f[3+i], 64); err != nil {
				panic(fmt.Sprintf("exam: limits.txt: %q: %v", line, err))
			}
		}
		m[limitKey{f[0], f[1], f[2], int(x[0])}] = Limit{RMS: x[1], Max: x[2], Bias: x[3]}
	}
	return m
}

// LimitOf returns the limit of output p on a class of inputs at a precision (f32, bf16x6, bf16x3 or bf16x1). longest is the token count of the longest
// sequence, with which errors grow; their scatter depends on s.Tokens. It fails for an unknown combination.
func LimitOf(c truth.Class, s gdn.Spec, longest int, precision string, p gdn.Param) (Limit, error) {
	if precision == "bf16x6" {
		precision = "f32"
	}
	margin, ok := margins[precision]
	if !ok {
		return Limit{}, fmt.Errorf("unknown precision %q (known: f32 bf16x6 bf16x3 bf16x1)", precision)
	}
	name := c.Name
	if s.NegEigval && c.Doubles() {
		name += "*2"
	}
	if c.OfChannels() && s.Bound != 0 && !c.AtBound() {
		name += atBound
	}
	output := p.Name
	if output == "states" { // each is the final state of a shorter call
		output = "final_state"
	}
	l, tokens := Limit{}, 0
	for _, n := range lengths {
		if x, ok := found[limitKey{precision, name, output, n}]; ok && (tokens == 0 || tokens < longest) {
			l, tokens = x, n
		}
	}
	if tokens == 0 {
		return l, fmt.Errorf("no limit of %s on %s at %s is derived: run go test ./gdn/exam -run Derive -update=all", p.Name, name, precision)
	}
	l.RMS, l.Max, l.Bias = l.RMS*margin.RMS, l.Max*margin.Max, l.Bias*margin.Bias
	// A kernel may take tokens one by one and round each decay to float32.
	steps := float64(longest) * 0x1p-25
	l.RMS, l.Max, l.Bias = l.RMS+steps, l.Max+steps, l.Bias+steps
	l.rows, l.width, l.tokens = derivedWidth, derivedWidth, float64(tokens)/float64(s.Tokens)
	if p.Name == "o" {
		l.rows = float64(tokens)
	}
	l.rounding = map[ir.DType]float64{ir.BF16: 0x1p-8, ir.F16: 0x1p-11, ir.F32: 0x1p-24}[p.Type.DType]
	return l, nil
}

// of returns the limit of each of Kinds for n elements. Fewer elements or tokens than in the derivation scatter more: errors within a row share one source,
// and so do all elements that a token writes. Rounding the output once is uniform over half a unit in the last place. Its rms adds in squares; its
// projection, where large elements weigh most, falls with the root of the number of elements.
func (l Limit) of(n int) [5]float64 {
	scatter := math.Sqrt(max(1, l.rows*l.width/float64(n), l.tokens))
	wider := 1 + (scatter-1)/8
	rounded := l.rounding / math.Sqrt(3)
	bias := l.Bias*scatter + 10*rounded/math.Sqrt(float64(n))
	return [5]float64{math.Hypot(l.RMS*wider, 1.05*rounded), l.Max*wider + l.rounding, bias, bias, bias}
}
