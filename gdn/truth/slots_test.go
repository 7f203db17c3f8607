package truth

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/gdntest"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/array"
)

func int32s(values ...int64) *array.Array {
	return array.FromInt64s(ir.I32, []int{len(values)}, values)
}

// stepOf is the spec and the inputs of token t alone of a window, with states named by the caller.
func stepOf(s gdn.Spec, inputs map[string]*array.Array, t int) (gdn.Spec, map[string]*array.Array) {
	one := s
	one.Tokens, one.Window = 1, false
	in := map[string]*array.Array{}
	for _, p := range one.Inputs() {
		a := inputs[p.Name]
		if p.Type.Rank() > 2 && p.Type.Shape[1] == 1 && p.Name != "initial_state" { // [B, 1, ...]
			row := p.Type.Size() / s.Batch
			var x []float64
			for n := range s.Batch {
				x = append(x, a.Float64s()[(n*s.Tokens+t)*row:][:row]...)
			}
			a = array.FromFloat64s(p.Type.DType, p.Type.Shape, x)
		}
		in[p.Name] = a
	}
	return one, in
}

// A window is as many steps, each of which leaves a state of its own: the last of the group is where the next begins.
func TestWindowIsSteps(t *testing.T) {
	for _, text := range []string{"b=3,t=4,hk=1,hv=2,k=8,v=6,init,pool=20,read,window", "b=3,t=3,hk=1,hv=2,k=8,v=6,init,pool=15,read,window,rule=kda,state=vk"} {
		s := gdntest.MustParse(t, text)
		inputs := generate(t, "random", s, 1)
		n := int64(s.Tokens)
		inputs["state_indices"], inputs["read_indices"] = int32s(1, -1, 4), int32s(1*n+1, 0, -1)
		want := reference(t, s, inputs)
		width := s.StateType().Size() / s.Pool
		pool := inputs["initial_state"]
		reads := []int64{1*n + 1, 0, -1}
		for i := range s.Tokens {
			one, in := stepOf(s, inputs, i)
			in["initial_state"] = pool
			in["state_indices"], in["read_indices"] = int32s(1*n+int64(i), -1, 4*n+int64(i)), int32s(reads...)
			got := reference(t, one, in)
			pool = got["final_state"].Convert(ir.F32)
			reads = []int64{1*n + int64(i), 0, 4*n + int64(i)}
			row := got["o"].IRType().Size() / s.Batch
			for b := range s.Batch {
				at := (b*s.Tokens + i) * row
				require.InDeltaSlice(t, got["o"].Float64s()[b*row:][:row], want["o"].Float64s()[at:][:row], 1e-6)
			}
		}
		require.InDeltaSlice(t, pool.Float64s(), want["final_state"].Float64s(), 1e-6)
		require.Equal(t, inputs["initial_state"].Float64s()[:n*int64(width)], want["final_state"].Float64s()[:n*int64(width)], "group 0 is nobody's")
	}
}

// A fresh sequence starts from zeros, whatever its slot holds, and sequences that share a prefix start from one state.
func TestNamedStates(t *testing.T) {
	s := gdntest.MustParse(t, "b=3,t=5,hk=1,k=8,init,pool=6,read")
	inputs := generate(t, "random", s, 1)
	inputs["state_indices"], inputs["read_indices"] = int32s(0, 1, 2), int32s(-1, 5, 5)
	got := reference(t, s, inputs)["final_state"].Float64s()

	plain := s
	plain.Pool, plain.Read = 0, false
	width := s.StateType().Size() / s.Pool
	states := inputs["initial_state"].Float64s()
	x := append(make([]float64, width), append(append([]float64{}, states[5*width:]...), states[5*width:]...)...)
	inputs["initial_state"] = array.FromFloat64s(ir.F32, plain.StateType().Shape, x)
	delete(inputs, "state_indices")
	delete(inputs, "read_indices")
	want := reference(t, plain, inputs)["final_state"].Float64s()
	require.Equal(t, want, got[:3*width])
	require.Equal(t, states[3*width:], got[3*width:])
}

func TestCheckNamedStates(t *testing.T) {
	s := gdntest.MustParse(t, "b=3,t=2,hk=1,k=4,init,pool=8,read,window")
	for want, in := range map[string][2]*array.Array{
		"state_indices: is 4 at entry 0: want a state of the pool, 0 to 3":              {int32s(4, 1, 2), int32s(0, 0, 0)},
		"state_indices: all 3 sequences are skipped":                                    {int32s(-1, -1, -1), int32s(0, 0, 0)},
		"read_indices: is 8 at entry 1: want a state of the pool, 0 to 7":               {int32s(0, 1, 2), int32s(0, 8, 6)},
		"read_indices: is -2 at entry 2: want a state":                                  {int32s(0, 1, 2), int32s(0, 6, -2)},
		"read_indices: is 3 at entry 0: the sequence of entry 1 leaves its state there": {int32s(0, 1, 2), int32s(3, 6, 6)},
		"two sequences can not share a state":                                           {int32s(1, 1, 2), int32s(3, 6, 6)},
		"let one of them wait for the next":                                             {int32s(0, 1, -1), int32s(2, 6, 99)},
	} {
		inputs := generate(t, "random", s, 1)
		inputs["state_indices"], inputs["read_indices"] = in[0], in[1]
		_, err := Reference(s, inputs)
		require.ErrorContains(t, err, want)
	}
	inputs := generate(t, "random", s, 1)
	inputs["state_indices"], inputs["read_indices"] = int32s(0, -1, 2), int32s(1, 99, 6)
	require.NoError(t, CheckInputs(s, inputs), "what is skipped reads nothing")
}
