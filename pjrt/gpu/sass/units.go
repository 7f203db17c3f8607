package sass

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/gdngen/gdngen/ir/target"
)

// Units of a scheduler.
const (
	tensor  = "tensor"
	memory  = "memory" // loads, stores, shuffles
	special = "special"
	system  = "system"
	vector  = "vector"
	uniform = "uniform"
	double  = "double"
	integer = "integer"
)

// use is what an instruction needs: a unit, the cycles that it keeps the unit busy, and the latency after that until its scoreboard is
// released.
type use struct {
	unit          string
	busy, latency float64
}

var (
	shapeOf    = regexp.MustCompile(`(\d+)x(\d+)x(\d+)`)
	mmaShape   = regexp.MustCompile(`MMA\.(\d+)`)
	wideOp     = regexp.MustCompile(`\.(128|64)\b`)
	sharedLeft = regexp.MustCompile(`HGMMA\S* R\d+, gdesc`) // its left operand is in shared memory
)

// words returns the number of 32-bit words that each thread moves.
func words(op string) float64 {
	if m := wideOp.FindStringSubmatch(op); m != nil {
		n, _ := strconv.Atoi(m[1])
		return float64(n) / 32
	}
	return 1
}

// row gives the use of instructions whose names begin with one of names.
type row struct {
	names []string
	use   func(op string, t *target.GPUTiming) use
}

func fixed(unit string, busy float64, latency func(*target.GPUTiming) float64) func(string, *target.GPUTiming) use {
	return func(_ string, t *target.GPUTiming) use { return use{unit, busy, latency(t)} }
}

func moves(latency func(*target.GPUTiming) float64) func(string, *target.GPUTiming) use {
	return func(op string, t *target.GPUTiming) use { return use{memory, 4 * words(op), latency(t)} }
}

// rows are the instructions; the first match counts. Matrix products are handled separately. A unit of 16 lanes takes a warp of 32 in
// two cycles, a unit of four lanes in eight.
var rows = []row{
	{[]string{"LDGSTS", "UTMALDG", "UBLKCP"}, moves(func(*target.GPUTiming) float64 { return 0 })}, // waits are for groups, not scoreboards
	{[]string{"LDG"}, moves(func(t *target.GPUTiming) float64 { return t.DRAM })},
	{[]string{"STG", "RED", "ATOM"}, moves(func(t *target.GPUTiming) float64 { return t.GlobalStore })},
	{[]string{"LDSM"}, fixed(memory, 16, func(t *target.GPUTiming) float64 { return t.Fragment })},
	{[]string{"LDS", "LDL"}, moves(func(t *target.GPUTiming) float64 { return t.Shared })},
	{[]string{"STS", "STL", "STSM"}, moves(func(t *target.GPUTiming) float64 { return t.Store })},
	{[]string{"SHFL"}, fixed(memory, 4, func(t *target.GPUTiming) float64 { return t.Shuffle })},
	{[]string{"MUFU"}, fixed(special, 8, func(t *target.GPUTiming) float64 { return t.Special })},
	{[]string{"S2R", "CS2R", "S2UR"}, fixed(system, 4, func(t *target.GPUTiming) float64 { return t.SystemReg })},
	{[]string{"FFMA", "FMUL", "FADD", "HFMA2", "IMAD"}, fixed(vector, 1, func(t *target.GPUTiming) float64 { return t.Vector })},
	{[]string{"UTC"}, fixed(integer, 2, func(t *target.GPUTiming) float64 { return t.Integer })},
	{[]string{"U"}, fixed(uniform, 2, func(t *target.GPUTiming) float64 { return t.Uniform })},
	{[]string{"DADD", "DMUL", "DFMA"}, fixed(double, 2, func(t *target.GPUTiming) float64 { return t.Double })},
	{[]string{"F2F", "I2F", "F2I"}, fixed(special, 8, func(t *target.GPUTiming) float64 { return t.Special })},
	{[]string{""}, fixed(integer, 2, func(t *target.GPUTiming) float64 { return t.Integer })},
}

func begins(op string, names ...string) bool {
	for _, n := range names {
		if strings.HasPrefix(op, n) {
			return true
		}
	}
	return false
}

// useOf returns the use of an instruction on a GPU.
func useOf(i instr, g *target.GPU) use {
	switch {
	case begins(i.op, "HGMMA", "QGMMA", "IGMMA"):
		return groupProduct(i, g)
	case begins(i.op, "HMMA", "IMMA", "QMMA"):
		m, n, k := 16.0, 8.0, 16.0
		if s := mmaShape.FindStringSubmatch(i.op); s != nil && s[1] == "1688" {
			k = 8
		} else if s != nil && s[1] == "1684" {
			k = 4
		}
		rate := float64(g.MatmulBF16) * g.Timing.MatmulUse
		if strings.Contains(i.op, "TF32") {
			rate /= 2
		}
		return use{tensor, m * n * k / rate, g.Timing.Matmul}
	}
	for _, r := range rows {
		if begins(i.op, r.names...) {
			return r.use(i.op, g.Timing)
		}
	}
	panic("sass: the last row fits all")
}

// groupProduct is a product of a warp group (wgmma). Its four warps share the four tensor cores, which stream the right operand from
// shared memory at 128 bytes a cycle, and the left one too if it is there. It is asynchronous: users wait for its group.
func groupProduct(i instr, g *target.GPU) use {
	var m, n, k float64
	if s := shapeOf.FindStringSubmatch(i.op); s != nil {
		m, n, k = number(s[1]), number(s[2]), number(s[3])
	}
	rate, size := float64(4*g.MatmulBF16), 2.0
	if strings.Contains(i.text, "TF32") {
		rate, size = rate/2, 4
	}
	stream := k * n * size / 128
	if sharedLeft.MatchString(i.text) {
		stream += m * k * size / 128
	}
	return use{tensor, max(m*n*k/rate, stream), 0}
}

func number(text string) float64 {
	x, _ := strconv.ParseFloat(text, 64)
	return x
}
