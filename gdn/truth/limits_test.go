package truth

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/gdntest"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/array"
)

func TestClassLimits(t *testing.T) {
	s := gdntest.MustParse(t, "t=2,hk=1,k=2")
	for _, c := range Classes {
		if c.OfChannels() {
			continue
		}
		require.NotEmpty(t, c.Doc)
		last := 0.0
		for _, p := range []string{"f32", "bf16x3", "bf16x1"} {
			l, err := c.Limit(s, p, ir.F32)
			require.NoError(t, err)
			require.Greater(t, l, last, "%s %s", c.Name, p)
			last = l
			rounded, err := c.Limit(s, p, ir.BF16)
			require.NoError(t, err)
			require.InDelta(t, l+1./256, rounded, 1e-12)
		}
		_, err := c.Limit(s, "f23", ir.F32)
		require.ErrorContains(t, err, "unknown precision")
	}
	random, err := LookupClass("random")
	require.NoError(t, err)
	l, err := random.Limit(gdntest.MustParse(t, "t=2,hk=1,k=2,negeig"), "bf16x1", ir.F32)
	require.NoError(t, err)
	require.Equal(t, 2e-2, l)
	_, err = LookupClass("randon")
	require.ErrorContains(t, err, `did you mean "random"`)
}

// Rounding o to the spec's element type alone stays within what Limit adds for it.
func TestLimitCoversRounding(t *testing.T) {
	for _, d := range []ir.DType{ir.BF16, ir.F16} {
		s := gdntest.MustParse(t, "t=64,hk=2,k=16,dtype="+d.String())
		o := reference(t, s, generate(t, "random", s, 1))["o"]
		random, err := LookupClass("random")
		require.NoError(t, err)
		limit, err := random.Limit(s, "f32", d)
		require.NoError(t, err)
		require.LessOrEqual(t, array.Compare(o.Convert(d), o).RelMax, limit)
	}
}

// Where the gradient of the decay is a remainder of what cancels, float32 passes and a wrong sign or a missing gradient do not. With a size
// of its own it is judged by that alone. Between the two the bound has no jump.
func TestRemainder(t *testing.T) {
	dg := gdn.Param{Name: "dg", Type: ir.T(ir.F32, 64)}
	s := gdntest.MustParse(t, "t=64,hk=1,hv=1,k=16,v=16,direction=train")
	c, err := LookupClass("identical")
	require.NoError(t, err)
	// judge gives the error over its limit: dg is size at every token, dbeta is 1, and dg is computed as a multiple of what it is, and off by more.
	judge := func(size, multiple, more float64) float64 {
		array64 := func(x float64) *array.Array {
			return array.FromFloat64s(ir.F64, []int{64}, slices.Repeat([]float64{x}, 64))
		}
		want := map[string]*array.Array{"dg": array64(size), "dbeta": array64(1)}
		off, limit, err := c.Error(s, "f32", dg, map[string]*array.Array{"dg": array64(size*multiple + more)}, want)
		require.NoError(t, err)
		return off / limit
	}
	for _, size := range []float64{3e-4, 1e-3, 3e-3, .1, 1, 30} {
		for _, multiple := range []float64{-1, 0, 2} {
			require.Greater(t, judge(size, multiple, 0), 2., "%g times a dg of %g", multiple, size)
		}
	}
	// A rule without beta has terms of v . dv in its place.
	s.Rule, err = gdn.ParseRule("gla")
	require.NoError(t, err)
	of := func(x float64, dims ...int) *array.Array {
		a := array.New(ir.F64, dims...)
		return array.FromFloat64s(ir.F64, dims, slices.Repeat([]float64{x}, a.Size()))
	}
	want := map[string]*array.Array{"dg": of(7e-4, 64), "dv": of(.25, 64, 16)}
	off, limit, err := c.Error(s, "f32", dg, map[string]*array.Array{"dg": of(7e-4+4e-6, 64)}, want)
	require.NoError(t, err)
	require.Less(t, off/limit, .1)
	off, limit, err = c.Error(s, "f32", dg, map[string]*array.Array{"dg": of(-7e-4, 64)}, want)
	require.NoError(t, err)
	require.Greater(t, off/limit, 2.)
	s.Rule = gdn.Rule{}
	require.Less(t, judge(7e-4, 1, 4e-6), .1)    // naive on 80 tokens
	require.Greater(t, judge(7e-4, 1, 9e-5), 1.) // more than rounding of eight terms
	require.InDelta(t, 2, judge(.1, 1+2e-5, 0), 1e-6)
	before := judge(1e-5, 1, 1e-5)
	for size := 1e-5; size < 10; size *= 1.01 {
		now := judge(size, 1, 1e-5)
		require.InEpsilon(t, before, now, .03, "dg of %g", size)
		before = now
	}
}

// Where channels leave little of dA_log by chance, an error is over what they amount to, and half of a channel more is a fault; a decay a
// head has nothing to cancel.
func TestChannelSize(t *testing.T) {
	c, err := LookupClass("cos.75")
	require.NoError(t, err)
	pass := func(rule string, by float64) bool {
		s := gdntest.MustParse(t, "t=64,hk=1,hv=2,k=16,v=16,gates=fused,direction=train"+rule)
		list := func(x ...float64) *array.Array { return array.FromFloat64s(ir.F64, []int{len(x)}, x) }
		channels := slices.Repeat([]float64{.3, -.3}, 16)
		want := map[string]*array.Array{"dA_log": list(.01, -.01), "ddt_bias": list(channels...), "db": list(1e-6)}
		got := map[string]*array.Array{"dA_log": list(.01+by, -.01)}
		off, limit, err := c.Error(s, "bf16x1", gdn.Param{Name: "dA_log", Type: ir.T(ir.F32, 2)}, got, want)
		require.NoError(t, err)
		return off <= limit
	}
	require.True(t, pass(",rule=kda", .02))
	require.False(t, pass(",rule=kda", .15))
	require.False(t, pass("", .02))
}
