package pools

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/codegen/route"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/truth"
	"github.com/gdngen/gdngen/ir/array"
	"github.com/gdngen/gdngen/pjrt/pjrttest"
)

// What is measured in float64 with rounded states is what a kernel with a pool in bfloat16 does, step by step.
func TestKernelRoundsAsMeasured(t *testing.T) {
	const steps = 400
	one, err := gdn.Parse("b=1,t=1,hk=1,k=128,init,statedtype=bf16,state=vk")
	require.NoError(t, err)
	form, err := route.Resolve(one, "cpu-decode", nil, nil)
	require.NoError(t, err)
	a, err := route.Program(one, form.Variant, "stablehlo", nil)
	require.NoError(t, err)
	p, err := pjrttest.CPU(t).Compile(a.Text)
	require.NoError(t, err)
	defer p.Close()
	for _, name := range []string{"random", "cos.9"} {
		whole := one
		whole.Tokens, whole.Init, whole.Final = steps, false, false
		whole.State, whole.StateDType = gdn.StateKV, gdn.NewSpec(1, 1, 1, 1, 1, 1).StateDType
		class, err := truth.LookupClass(name)
		require.NoError(t, err)
		inputs, err := class.Generate(whole, 1)
		require.NoError(t, err)
		exact, err := truth.Reference(whole, inputs)
		require.NoError(t, err)

		state := array.New(one.StateDType, one.StateType().Shape...)
		want := exact["o"].Float64s()
		var e, r float64
		for i := range steps {
			var args []*array.Array
			for _, in := range one.Inputs() {
				if in.Name == "initial_state" {
					args = append(args, state)
					continue
				}
				n := in.Type.Size()
				args = append(args, array.FromFloat64s(in.Type.DType, in.Type.Shape, inputs[in.Name].Float64s()[i*n:][:n]))
			}
			out, err := p.Run(args...)
			require.NoError(t, err)
			state = out[1]
			if i >= steps/2 {
				for j, x := range out[0].Float64s() {
					y := want[i*Width+j]
					e, r = e+(x-y)*(x-y), r+y*y
				}
			}
		}
		measured, err := Measure("gdn", name, Types[1], steps, steps/2)
		require.NoError(t, err)
		require.InEpsilon(t, measured, math.Sqrt(e/r), .05, name)
	}
}
