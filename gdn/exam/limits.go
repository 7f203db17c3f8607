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

// Limit bounds the errors of one output of one value head.
type Limit struct {
	RMS, Max, Bias float64
	rows, width    float64 // of the derivation
	tokens         float64 // of the derivation, over those of the spec
	rounding       float64 // of the output's element type: the largest error relative to the element
}

// What the largest errors that were found in the arithmetic of a class are multiplied by. A kernel rounds elsewhere than the derivation
// does, in other orders. What computes in more than one pass has no use for tight limits: faults are far beyond.
var margins = map[string]Limit{
	"f32":    {RMS: 4, Max: 4, Bias: 6},
	"bf16x3": {RMS: 4, Max: 4, Bias: 6},
	"bf16x1": {RMS: 1.5, Max: 2, Bias: 2.5},
}

//go:embed limits.txt
var limitsText string

// Version names the table of limits, for those who keep what was judged by it.
func Version() string { return fmt.Sprintf("%x", sha256.Sum256([]byte(limitsText)))[:16] }

type limitKey struct {
	precision, class, output string
	tokens                   int
}

// found are the largest errors of the derivation.
var found = mustRead(limitsText)

// lengths are the numbers of tokens that limits are derived for, at most: the shortest that holds a spec's counts, or the longest of
// its class.
var lengths = []int{300, 1056, 4096}

// atBound marks a class of channels whose log decays are cut at Kimi's bound, for specs that have one.
const (
	atBound      = "@-5"
	derivedBound = -5
)

// derivedWidth is K and V of the derivation.
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

// LimitOf is the limit of an output on a class of inputs at a precision (f32, bf16x6, bf16x3 or bf16x1). The longest sequence has a number
// of tokens: what errors grow with. How far they scatter follows from all tokens.
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
	if output == "states" { // each is the last of a shorter call
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
	// A kernel may take the tokens one by one, and round each decay to float32.
	steps := float64(longest) * 0x1p-25
	l.RMS, l.Max, l.Bias = l.RMS+steps, l.Max+steps, l.Bias+steps
	l.rows, l.width, l.tokens = derivedWidth, derivedWidth, float64(tokens)/float64(s.Tokens)
	if p.Name == "o" {
		l.rows = float64(tokens)
	}
	l.rounding = map[ir.DType]float64{ir.BF16: 0x1p-8, ir.F16: 0x1p-11, ir.F32: 0x1p-24}[p.Type.DType]
	return l, nil
}

// of gives the limit of each of Kinds, for n elements. Fewer elements or tokens than in the derivation scatter more: the errors of the
// elements of a row have one source, and those of all that a token writes. Rounding the output once is even over half a unit in the last place, at worst of 1: its rms
// adds by squares, and of its projection, in which large elements weigh most, the root of the number of elements is left.
func (l Limit) of(n int) [5]float64 {
	scatter := math.Sqrt(max(1, l.rows*l.width/float64(n), l.tokens))
	wider := 1 + (scatter-1)/8
	rounded := l.rounding / math.Sqrt(3)
	bias := l.Bias*scatter + 10*rounded/math.Sqrt(float64(n))
	return [5]float64{math.Hypot(l.RMS*wider, 1.05*rounded), l.Max*wider + l.rounding, bias, bias, bias}
}
