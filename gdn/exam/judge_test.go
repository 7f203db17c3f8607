package exam

import (
	"maps"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/floats"

	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/truth"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/array"
)

// drawCase is a small one, of several classes.
func drawCase(t *testing.T, text string) *Case {
	s, err := gdn.Parse(text)
	require.NoError(t, err)
	deals := Deal(s, Supported(s))
	x, err := Draw(s, deals[0], 3)
	require.NoError(t, err)
	return x
}

// answers are the right ones, after a change of one output.
func (x *Case) answers(output string, change func(v []float64)) map[string]*array.Array {
	got := map[string]*array.Array{}
	for _, p := range x.Spec.Outputs() {
		v := x.Want[p.Name].Float64s()
		if p.Name == output {
			change(v)
		}
		got[p.Name] = array.FromFloat64s(p.Type.DType, p.Type.Shape, v)
	}
	return got
}

// worstOf is the worst mark, or none where all pass.
func worstOf(t *testing.T, x *Case, got map[string]*array.Array) Mark {
	marks, err := x.Judge("bf16x1", got)
	require.NoError(t, err)
	for _, m := range Worst(marks, func(Mark) bool { return true }) {
		if !m.Pass() {
			return m
		}
	}
	return Mark{}
}

// Right answers pass; a scale that is off by less than rounding is bias; one element is a largest error; what is not finite never passes.
func TestJudge(t *testing.T) {
	x := drawCase(t, "b=2,t=150,hk=2,hv=4,k=64,v=64,dtype=bf16,init")
	require.Zero(t, worstOf(t, x, x.answers("", nil)))

	m := worstOf(t, x, x.answers("o", func(v []float64) {
		for i := range v {
			v[i] *= 1.003
		}
	}))
	require.Equal(t, []string{Bias, "o"}, []string{m.Kind, m.Output})

	// One element of row 1, value head 2.
	m = worstOf(t, x, x.answers("o", func(v []float64) { v[((150+149)*4+2)*64+5] += 10 }))
	require.Equal(t, []int{1, 2}, []int{m.Row, m.Head})
	require.Equal(t, x.Classes[1*4+2].Name, m.Class)

	m = worstOf(t, x, x.answers("final_state", func(v []float64) { v[7] = math.NaN() }))
	require.Equal(t, []int{0, 0}, []int{m.Row, m.Head})
	require.True(t, math.IsNaN(m.Error))
	require.False(t, m.Pass())

	_, err := x.Judge("bf16x1", map[string]*array.Array{"o": x.Want["o"]})
	require.ErrorContains(t, err, "gives no final_state")
	_, err = x.Judge("bf16x1", map[string]*array.Array{"o": x.Want["final_state"], "final_state": x.Want["final_state"]})
	require.ErrorContains(t, err, "the spec wants")
	_, err = x.Judge("fp8", x.answers("", nil))
	require.ErrorContains(t, err, "unknown precision")
}

// A query of one token that all but misses its key leaves an output far below what rounding does to q.k: it is held to what queries of
// any direction give, and a fault of a thousandth still shows.
func TestOneToken(t *testing.T) {
	s, err := gdn.Parse("b=2,t=1,hk=1,hv=2,k=16,v=16,dtype=f32")
	require.NoError(t, err)
	c, err := truth.LookupClass("random")
	require.NoError(t, err)
	x, err := blank(s, slices.Repeat([]truth.Class{c}, s.Batch*s.HeadsV), 3)
	require.NoError(t, err)
	q, k := x.Inputs["q"].Float64s(), x.Inputs["k"].Float64s()
	for row := range s.Batch {
		q, k := q[row*s.K:][:s.K], k[row*s.K:][:s.K]
		floats.AddScaled(q, -floats.Dot(q, k)/floats.Dot(k, k), k)
	}
	x.Inputs["q"] = array.FromFloat64s(ir.F32, x.Inputs["q"].Shape, q)
	require.NoError(t, x.solve())

	size := make([]float64, s.Batch*s.HeadsV*s.V)
	for i := range size {
		size[i] = math.Sqrt(x.shares.Expected[i/s.V])
		require.Less(t, math.Abs(x.Want["o"].Float64s()[i]), 1e-5*size[i])
	}
	pass := func(share float64) bool {
		marks, err := x.Judge("f32", x.answers("o", func(v []float64) { floats.AddScaled(v, share, size) }))
		require.NoError(t, err)
		return !slices.ContainsFunc(marks, func(m Mark) bool { return !m.Pass() })
	}
	require.True(t, pass(0x1p-24))
	require.False(t, pass(1e-3))
}

// The exact state of one token, held in bf16, passes on every class: where it hardly decays it rounds back to what it was.
func TestStateRoundsBack(t *testing.T) {
	s, err := gdn.Parse("b=4,t=1,hk=1,hv=2,k=64,v=64,dtype=bf16,statedtype=bf16,init")
	require.NoError(t, err)
	for _, c := range Supported(s) {
		x, err := Draw(s, slices.Repeat([]truth.Class{c}, s.Batch*s.HeadsV), 3)
		require.NoError(t, err)
		require.Zero(t, worstOf(t, x, x.answers("", nil)), c.Name)
		if c.Name == "beta0" {
			m := worstOf(t, x, x.answers("final_state", func(v []float64) { floats.Scale(.998, v) }))
			require.Equal(t, Bias, m.Family(), "a decay that is not the state's is seen still")
		}
	}
}

// A state of a pool is judged with the batch row or sequence that has it, and every state once.
func TestSpans(t *testing.T) {
	for _, text := range []string{"b=3,t=4,hk=1,hv=2,k=4,init", "b=3,t=1,hk=1,hv=2,k=4,init,pool=7", "t=40,hk=1,hv=2,k=4,init,seqs=5", "t=40,hk=1,hv=2,k=4,init,seqs=5,pool=4"} {
		x := drawCase(t, text)
		for _, p := range x.Spec.Outputs() {
			seen := map[int]int{}
			for row := range x.Spec.Batch {
				for h := range x.Spec.HeadsV {
					for _, span := range x.spans(p, row, h) {
						for i := span[0]; i < span[1]; i++ {
							seen[i]++
						}
					}
				}
			}
			require.Len(t, seen, p.Type.Size(), "%s of %s", p.Name, text)
			for _, n := range seen {
				require.Equal(t, 1, n)
			}
		}
	}
}

// Packed sequences are held to the limits of the longest of them: with the tokens of all, one key of 2000 tokens in ten sequences would be held to
// the limits of 2000.
func TestLongest(t *testing.T) {
	x := drawCase(t, "t=2000,hk=1,k=128,dtype=bf16,out=f32,seqs=10")
	cu := []int64{0, 1, 1, 100, 399, 700, 900, 1100, 1400, 1700, 2000}
	x.Inputs["cu_seqlens"] = array.FromInt64s(ir.I64, []int{11}, cu)
	require.Equal(t, 301, x.longestTokens())
	require.Equal(t, 4, x.longest())
	c, err := truth.LookupClass("identical")
	require.NoError(t, err)
	p := x.Spec.Outputs()[0]
	of := func(longest int) Limit {
		l, err := LimitOf(c, x.Spec, longest, "bf16x1", p)
		require.NoError(t, err)
		return l
	}
	require.NotEqual(t, of(300).RMS, of(2000).RMS)
	require.Equal(t, of(300).tokens, 300./2000)
	require.Equal(t, of(1056).tokens, of(301).tokens, "the shortest that holds them")
}

// The worst of each group comes once, and what is not finite is worse than all else.
func TestWorst(t *testing.T) {
	l := []Mark{{Class: "x", Error: 1, Limit: 2}, {Class: "y", Error: 1, Limit: 1}, {Class: "x", Error: 3, Limit: 2}, {Class: "y", Error: math.NaN(), Limit: 1}, {Class: "y", Error: 9, Limit: 1}}
	worst := Worst(l, func(m Mark) string { return m.Class })
	require.Len(t, worst, 2)
	require.Equal(t, l[2], worst[0])
	require.True(t, math.IsNaN(worst[1].Error))
}

// A Case is drawn once for equal arguments, and anew for others.
func TestCache(t *testing.T) {
	s, err := gdn.Parse("t=20,hk=1,k=4")
	require.NoError(t, err)
	var c Cache
	draw := func(class int, seed uint64) *Case {
		x, err := c.Draw(s, truth.Classes[class:class+1], seed)
		require.NoError(t, err)
		return x
	}
	require.Same(t, draw(0, 1), draw(0, 1))
	require.NotSame(t, draw(0, 1), draw(0, 2))
	require.NotSame(t, draw(0, 1), draw(1, 1))
}

// Every class has limits at every precision, for every output, with beta doubled too; fewer elements have wider ones.
func TestLimits(t *testing.T) {
	for _, text := range []string{"t=300,hk=1,k=128,dtype=bf16,out=f32,negeig", "t=300,hk=1,k=128,dtype=bf16,out=f32"} {
		s, err := gdn.Parse(text)
		require.NoError(t, err)
		if s.NegEigval {
			require.Len(t, Long(s), len(LongClasses))
		}
		for _, c := range Supported(s) {
			for _, p := range s.Outputs() {
				for _, precision := range []string{"f32", "bf16x6", "bf16x3", "bf16x1"} {
					for _, s.Tokens = range []int{1, 300, 2000, 100000} {
						l, err := LimitOf(c, s, s.Tokens, precision, p)
						require.NoError(t, err)
						few, many := l.of(1000), l.of(1000000)
						for i := range Kinds {
							require.GreaterOrEqual(t, few[i], many[i])
							require.Positive(t, many[i])
						}
					}
				}
			}
		}
	}
}

// Equal keys with norms amplify rounding to float32 by as much as each draw says: naive, off by 1.7e-5, passes, three times that does not. Where nothing
// cancels, as for random keys, for another output and for one bf16 pass, limits are those of the class.
func TestRoundingOfEqualKeys(t *testing.T) {
	s, err := gdn.Parse("t=1024,hk=1,hv=2,k=128,v=128,dtype=bf16,l2norm,direction=train")
	require.NoError(t, err)
	draw := func(class string) *Case {
		c, err := truth.LookupClass(class)
		require.NoError(t, err)
		x, err := Draw(s, []truth.Class{c}, 3)
		require.NoError(t, err)
		return x
	}
	// dbeta judges outputs whose dbeta is off by a share of itself.
	dbeta := func(x *Case, precision string, off float64) Mark {
		got := maps.Clone(x.Want)
		values := got["dbeta"].Float64s()
		for i := range values {
			values[i] *= 1 + off
		}
		got["dbeta"] = array.FromFloat64s(ir.F64, got["dbeta"].Shape, values)
		marks, err := x.Judge(precision, got)
		require.NoError(t, err)
		return marks[slices.IndexFunc(marks, func(m Mark) bool { return m.Output == "dbeta" })]
	}
	equal := draw("identical")
	require.True(t, dbeta(equal, "f32", 1.7e-5).Pass())
	require.True(t, dbeta(equal, "bf16x6", 1.7e-5).Pass())
	require.False(t, dbeta(equal, "f32", 5e-5).Pass())
	require.Equal(t, 8e-2, dbeta(equal, "bf16x1", 1).Limit)
	require.Equal(t, 1e-5, dbeta(draw("random"), "f32", 1.7e-5).Limit)
}
