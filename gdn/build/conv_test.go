package build

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/gdntest"
	"github.com/gdngen/gdngen/gdn/truth"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/array"
	"github.com/gdngen/gdngen/ir/interp"
)

// Every legitimate variant convolves, in its kernel or before it, chunks that begin anywhere and shapes of any number of heads.
func TestConvolution(t *testing.T) {
	specs := []gdn.Spec{
		gdntest.MustParse(t, "b=2,t=70,hk=1,hv=2,k=32,v=16,gates=fused,l2norm,conv=4"),
		gdntest.MustParse(t, "t=40,hk=2,hv=6,k=16,l2norm,conv=8,packed"),
		gdntest.MustParse(t, "t=5,hk=1,k=16,l2norm,conv=8"), // fewer tokens than taps
		gdntest.MustParse(t, "t=70,hk=1,hv=2,k=32,v=16,l2norm,conv=2,rule=kda"),
	}
	for _, n := range gdn.Variants {
		if n.Negative {
			continue
		}
		for _, fuse := range []gdn.Place{gdn.PlaceXLA, gdn.PlaceKernel} {
			v := gdntest.MustVariant(t, n.Text)
			v.Fuse = fuse
			t.Run(fmt.Sprintf("%s/%s", n.Name, fuse), func(t *testing.T) {
				t.Parallel()
				for _, s := range specs {
					if v.Check(s) != nil {
						continue
					}
					for _, class := range []string{"random", "cos.9"} {
						c, err := truth.LookupClass(class)
						require.NoError(t, err)
						limit, err := c.Limit(s, v.Precision().String(), s.Out)
						require.NoError(t, err)
						inputs := drawInputs(t, class, s, 1)
						require.LessOrEqual(t, worst(interpret(t, s, v, inputs), exact(t, s, inputs)), limit, "%s on %s", s, class)
					}
				}
			})
		}
	}
}

// A spec with a convolution is the spec without one, of inputs that another program convolved.
func TestConvolutionComesFirst(t *testing.T) {
	s := gdntest.MustParse(t, "b=2,t=20,hk=1,hv=2,k=16,v=8,gates=fused,l2norm,conv=4")
	inputs := drawInputs(t, "random", s, 1)
	want := exact(t, s, inputs)
	plain := s
	plain.Conv = 0
	for _, name := range []string{"q", "k", "v"} {
		x, w := inputs[name], inputs["conv_"+name]
		m, b := ir.NewModule("convolution")
		in, taps := b.Param("x", x.IRType()), b.Param("w", w.IRType())
		var sum *ir.Value
		for back := range s.Conv { // of the token so many before, which the padding has in front
			shape := x.Shape
			shifted := b.Slice(b.Pad(in, 0, []int{0, back, 0, 0}, []int{0, 0, 0, 0}), []int{0, 0, 0, 0}, shape)
			tap := b.Broadcast(b.Reshape(b.SliceAxis(taps, 1, s.Conv-1-back, s.Conv-back), shape[2:]...), shape, 2, 3)
			if term := b.Mul(shifted, tap); sum == nil {
				sum = term
			} else {
				sum = b.Add(sum, term)
			}
		}
		require.NoError(t, b.Finish(m, []string{"y"}, []*ir.Value{b.Mul(sum, b.Unary(ir.OpLogistic, sum))}))
		out, err := interp.Run(m, map[string]*array.Array{"x": x, "w": w}, interp.Options{})
		require.NoError(t, err)
		inputs[name] = out["y"]
		delete(inputs, "conv_"+name)
	}
	require.Less(t, worst(exact(t, plain, inputs), want), 1e-5)
}
