package exam

import (
	"fmt"
	"math"
	"slices"

	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/truth"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/array"
)

// The kinds of marks. There are three biases: along the reference, its carried part, and its derivative by the decay.
const (
	RMS     = "rms"
	Max     = "max"
	Bias    = "bias"
	Carried = "bias of the carried state"
	Decay   = "bias of the decay"
)

// Kinds lists the kinds in the order of Limit.of and figures.errors.
var Kinds = []string{RMS, Max, Bias, Carried, Decay}

// Mark is one error of one output on one class of inputs, and its limit.
type Mark struct {
	Class, Output, Kind string
	Row, Head           int // batch row and value head; -1 if the output is judged as a whole
	Seed                uint64
	Error, Limit        float64
}

// Family returns the kind of the mark, Bias for all three biases.
func (m Mark) Family() string {
	if m.Kind == Carried || m.Kind == Decay {
		return Bias
	}
	return m.Kind
}

// Use returns Error / Limit: NaN if the output has NaN or infinities.
func (m Mark) Use() float64 { return m.Error / m.Limit }

// Pass reports whether the error is within the limit.
func (m Mark) Pass() bool { return m.Use() <= 1 }

func (m Mark) String() string {
	place := ""
	if m.Head >= 0 {
		place = fmt.Sprintf(" at row %d, value head %d", m.Row, m.Head)
	}
	return fmt.Sprintf("%s: %s of %s is %.2g, %.2g is allowed%s", m.Class, m.Kind, m.Output, m.Error, m.Limit, place)
}

// Worse reports whether the mark has a larger Use than another mark; NaN is the worst.
func (m Mark) Worse(than Mark) bool {
	return !math.IsNaN(than.Use()) && (math.IsNaN(m.Use()) || m.Use() > than.Use())
}

// Worst returns the mark with the largest Use of each group, in the order in which groups first occur.
func Worst[K comparable](marks []Mark, group func(Mark) K) []Mark {
	at := map[K]int{}
	var l []Mark
	for _, m := range marks {
		i, seen := at[group(m)]
		if !seen {
			at[group(m)] = len(l)
			l = append(l, m)
		} else if m.Worse(l[i]) {
			l[i] = m
		}
	}
	return l
}

// Judge compares outputs with the reference and returns a mark per output, value head and kind; training steps get one mark per output. precision (f32,
// bf16x6, bf16x3, bf16x1) selects the limits. A missing output, a wrong shape and an unknown precision are errors.
func (x *Case) Judge(precision string, got map[string]*array.Array) ([]Mark, error) {
	for _, p := range x.Spec.Outputs() {
		a := got[p.Name]
		if a == nil {
			return nil, fmt.Errorf("the program gives no %s", p.Name)
		}
		if !slices.Equal(a.Shape, p.Type.Shape) {
			return nil, fmt.Errorf("the program gives %s as %v, the spec wants %v", p.Name, a, p.Type)
		}
	}
	if x.Spec.Direction != gdn.Forward {
		return x.judgeWhole(precision, got)
	}
	var marks []Mark
	for _, p := range x.Spec.Outputs() {
		if gdn.IsConvState(p.Name) {
			off := array.Compare(got[p.Name], x.Want[p.Name]).RelMax
			marks = append(marks, Mark{Class: x.Classes[0].Name, Output: p.Name, Kind: Max, Row: -1, Head: -1, Seed: x.Seed, Error: off, Limit: truth.Copied})
			continue
		}
		l, err := x.judgeOutput(precision, p, got[p.Name])
		if err != nil {
			return nil, err
		}
		marks = append(marks, l...)
	}
	return marks, nil
}

// judgeWhole marks the outputs of a training step by the limits of their class: gradients by rms, o and the state by their largest error. A
// gradient above its limit has at least that of rounding.
func (x *Case) judgeWhole(precision string, got map[string]*array.Array) ([]Mark, error) {
	var marks []Mark
	c := x.Classes[0]
	for _, p := range x.Spec.Outputs() {
		off, limit, err := c.Error(x.Spec, precision, p, got, x.Want)
		if err != nil {
			return nil, err
		}
		kind := RMS
		if x.Spec.IsResult(p.Name) {
			kind = Max
		} else if off > limit {
			rounded, err := x.rounding(precision, p)
			if err != nil {
				return nil, err
			}
			limit = max(limit, rounded)
		}
		marks = append(marks, Mark{Class: c.Name, Output: p.Name, Kind: kind, Row: -1, Head: -1, Seed: x.Seed, Error: off, Limit: limit})
	}
	return marks, nil
}

// output is one output of a run, with its shares.
type output struct {
	got, want, carried, decay []float64
}

// rounding returns the error that rounding k . dS to float32 once makes in gradient p, which no float32 kernel avoids. It is zero for another
// precision, without norms, with a convolution, and for dq and dk.
//
// Keys rounded to float32 behind their norm move each of the K terms of k . dS by itself, and so the sum by a rounding unit times the root of their
// sum of squares. Rounding the sum moves it by a unit of the sum, up to sqrt(K) times as much. The first is computed, in float64. It is small unless
// k . dS of two tokens cancel, as they do for equal keys with beta 1 and no decay.
func (x *Case) rounding(precision string, p gdn.Param) (float64, error) {
	s := x.Spec
	if precision != "f32" && precision != "bf16x6" || !s.L2Norm || s.Conv > 0 || p.Name == "dq" || p.Name == "dk" {
		return 0, nil
	}
	s.L2Norm, s.DType, s.Out = false, ir.F32, ir.F32
	inputs := map[string]*array.Array{}
	for _, in := range s.Inputs() {
		a := x.Inputs[in.Name]
		if in.Name == "q" || in.Name == "k" {
			unit := a.Float64s()
			truth.NormaliseRows(unit, s.K)
			a = array.FromFloat64s(ir.F32, a.Shape, unit)
		}
		inputs[in.Name] = a.Convert(in.Type.DType)
	}
	got, err := truth.Reference(s, inputs)
	if err != nil {
		return 0, err
	}
	off, _, err := x.Classes[0].Error(x.Spec, precision, p, got, x.Want)
	return off * math.Sqrt(float64(s.K)), err
}

// judgeOutput marks one output per value head and batch row. A bf16 state that a token hardly decays rounds back to its old value, so even the exact result
// has the full bias of the decay. The bias of the exact result is therefore added to the limits.
func (x *Case) judgeOutput(precision string, p gdn.Param, got *array.Array) ([]Mark, error) {
	s := x.Spec
	o := output{got: got.Float64s(), want: x.Want[p.Name].Float64s(), carried: x.shares.Carried[p.Name].Float64s(), decay: x.shares.Decay[p.Name].Float64s()}
	stored := o
	stored.got = array.FromFloat64s(p.Type.DType, x.Want[p.Name].Shape, o.want).Float64s()
	longest := x.longestTokens()
	var marks []Mark
	for i := range s.Batch * s.HeadsV {
		var f, best figures // errors of the computed output, and of the exact result rounded to the output's type
		for _, span := range x.spans(p, i/s.HeadsV, i%s.HeadsV) {
			f.add(o, span[0], span[1])
			best.add(stored, span[0], span[1])
		}
		if f.n == 0 {
			continue
		}
		if p.Name == "o" && x.shares.Expected != nil {
			f.expect(x.shares.Expected, i/s.HeadsV, i%s.HeadsV, s)
		}
		l, err := LimitOf(x.Classes[i], s, longest, precision, p)
		if err != nil {
			return nil, err
		}
		errors, limits, least := f.errors(), l.of(f.n), best.errors()
		for j, kind := range Kinds {
			m := Mark{Class: x.Classes[i].Name, Output: p.Name, Kind: kind, Row: i / s.HeadsV, Head: i % s.HeadsV, Seed: x.Seed,
				Error: errors[j], Limit: limits[j]}
			if m.Family() == Bias {
				m.Limit += least[j]
			}
			marks = append(marks, m)
		}
	}
	return marks, nil
}

// spans returns the ranges [begin, end) of an output that belong to one value head of one batch row.
func (x *Case) spans(p gdn.Param, row, h int) [][2]int {
	s := x.Spec
	var l [][2]int
	if p.Name == "o" {
		for t := range s.Tokens {
			at := ((row*s.Tokens+t)*s.HeadsV + h) * s.V
			l = append(l, [2]int{at, at + s.V})
		}
		return l
	}
	states := x.statesOf(row)
	if p.Name == "states" {
		states = nil
		for i := range s.Tokens / s.Every {
			states = append(states, row*(s.Tokens/s.Every)+i)
		}
	}
	for _, state := range states {
		at := (state*s.HeadsV + h) * s.K * s.V
		l = append(l, [2]int{at, at + s.K*s.V})
	}
	return l
}

// statesOf lists the states judged with a batch row: its own, or all if sequences are packed. Pool states without a
// sequence belong to row 0.
func (x *Case) statesOf(row int) []int {
	s := x.Spec
	var l []int
	if s.Pool == 0 {
		for i := range s.States() {
			if s.Seqs > 0 || i == row {
				l = append(l, i)
			}
		}
		return l
	}
	indices := x.Inputs["state_indices"].Int64s()
	for i := range s.Pool {
		at := slices.Index(indices, int64(i/s.Checkpoints()))
		if s.Seqs > 0 || at == row || at < 0 && row == 0 {
			l = append(l, i)
		}
	}
	return l
}

// figures are sums over the elements of an output: e is the error, r the reference, c its carried part, d its derivative by the decay.
type figures struct {
	n                          int
	ee, rr, cc, dd, er, ec, ed float64
	maxE, maxR                 float64
	broken                     bool
}

func (f *figures) add(o output, begin, end int) {
	f.n += end - begin
	for i := begin; i < end; i++ {
		r, c, d := o.want[i], o.carried[i], o.decay[i]
		e := o.got[i] - r
		f.broken = f.broken || math.IsNaN(e) || math.IsInf(e, 0)
		f.ee += e * e
		f.rr += r * r
		f.cc += c * c
		f.dd += d * d
		f.er += e * r
		f.ec += e * c
		f.ed += e * d
		f.maxE, f.maxR = max(f.maxE, math.Abs(e)), max(f.maxR, math.Abs(r))
	}
}

// expect raises the size of the reference to its average over query directions, since with few tokens it may nearly vanish by chance.
func (f *figures) expect(squares []float64, row, h int, s gdn.Spec) {
	sum, most := 0.0, 0.0
	for t := range s.Tokens {
		x := squares[(row*s.Tokens+t)*s.HeadsV+h]
		sum, most = sum+x, max(most, x)
	}
	f.rr, f.maxR = max(f.rr, sum*float64(s.V)), max(f.maxR, math.Sqrt(most))
}

// errors returns one error for each of Kinds. Projections use unit vectors and are divided by the norm of the reference, so a small
// share does not enlarge its bias.
func (f *figures) errors() [5]float64 {
	over := func(x, y float64) float64 {
		switch {
		case f.broken:
			return math.NaN()
		case x == 0:
			return 0
		case y == 0:
			return math.Inf(1)
		}
		return x / y
	}
	size := math.Sqrt(f.rr)
	along := func(e, length float64) float64 {
		if length == 0 && !f.broken {
			return 0
		}
		return over(math.Abs(e), math.Sqrt(length)*size)
	}
	return [5]float64{over(math.Sqrt(f.ee), size), over(f.maxE, f.maxR), along(f.er, f.rr), along(f.ec, f.cc), along(f.ed, f.dd)}
}
