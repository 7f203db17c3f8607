package route_test

import (
	"bytes"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/truth"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/array"
	"github.com/gdngen/gdngen/pjrt/pjrttest"
)

// named are specs whose sequences start from states that are named.
var named = []string{
	"b=7,t=1,hk=2,hv=4,k=64,v=64,dtype=bf16,init,pool=9,state=vk,inplace,read",
	"b=8,t=1,hk=2,hv=4,k=128,v=128,dtype=bf16,init,pool=11,inplace,read", // two steps, whose copies take turns as rows of two chunks do
	"b=7,t=3,hk=2,hv=4,k=64,v=64,dtype=bf16,init,pool=27,inplace,read,window",
	"b=4,t=2,hk=2,hv=2,k=64,v=64,dtype=bf16,init,pool=12,state=vk,inplace,read,window,rule=kda",
	"b=7,t=1,hk=2,hv=4,k=64,v=64,dtype=bf16,gates=fused,gatedtype=bf16,l2norm,init,pool=9,inplace,read,conv=4,convrows=4,convstate",
	"b=7,t=3,hk=2,hv=4,k=128,v=64,dtype=bf16,l2norm,init,pool=24,inplace,read,window,conv=4,convstate,convbias",
	"t=90,hk=2,hv=4,k=64,v=64,dtype=bf16,gates=fused,l2norm,seqs=6,init,pool=8,packed,inplace,read,conv=4,convrows=4,convstate",
	"t=90,hk=2,hv=4,k=64,v=64,dtype=bf16,seqs=6,init,pool=8,inplace,read",
	"t=270,hk=2,hv=4,k=64,v=64,dtype=bf16,gates=fused,gatedtype=bf16,l2norm,seqs=5,init,state=vk,empty=zero,packed,pool=9,inplace,read",
	"t=150,hk=2,hv=4,k=64,v=64,dtype=bf16,gates=fused,gatedtype=bf16,l2norm,seqs=6,init,packed,pool=8,inplace,read,mixed=1,conv=4,convrows=4,convstate",
	"t=150,hk=1,hv=2,k=128,v=128,dtype=bf16,gates=fused,gatedtype=bf16,l2norm,seqs=6,init,packed,pool=8,inplace,read,mixed=1,conv=4,convrows=4,convstate,rows=qkv",
}

// freshStarts runs a program as it is, and with NaN in all states that no sequence starts from: outputs and the states that
// sequences leave are the same to the bit, and agree with the reference.
func freshStarts(t *testing.T, s gdn.Spec, precision string, run func(map[string]*array.Array) map[string]*array.Array) {
	t.Helper()
	class, err := truth.LookupClass("random")
	require.NoError(t, err)
	inputs, err := class.Generate(s, 1)
	require.NoError(t, err)
	exact, err := truth.Reference(s, inputs)
	require.NoError(t, err)
	want := run(inputs)
	for _, o := range s.Outputs() {
		off, limit, err := class.Error(s, precision, o, want, exact)
		require.NoError(t, err)
		require.LessOrEqual(t, off, limit, o.Name)
	}

	reads, written := inputs["read_indices"].Int64s(), inputs["state_indices"].Int64s()
	require.Contains(t, reads, int64(-1), "none is fresh")
	group, left := s.Checkpoints(), []string{"state"}
	if s.Mixed > 0 { // where sequences without tokens, and padding, leave nothing
		cu := inputs["cu_seqlens"].Int64s()
		for n := range written {
			if int64(n) >= inputs["distribution"].Int64s()[2] || cu[n] == cu[n+1] {
				written[n] = -1
			}
		}
	}
	if s.ConvState {
		left = append(left, "conv")
	}
	for _, name := range left {
		a := inputs["initial_"+name]
		x := a.Float64s()
		for i := range x {
			if !slices.Contains(reads, int64(i/(len(x)/s.Pool))) {
				x[i] = math.NaN()
			}
		}
		inputs["initial_"+name] = array.FromFloat64s(a.Type, a.Shape, x)
	}
	got := run(inputs)
	require.Equal(t, want["o"].Data, got["o"].Data)
	for _, name := range left {
		a, b := want["final_"+name].Data, got["final_"+name].Data
		for slot := range s.Pool {
			if bytes := len(a) / s.Pool; slices.Contains(written, int64(slot/group)) {
				require.Equal(t, a[slot*bytes:][:bytes], b[slot*bytes:][:bytes], "%s of slot %d", name, slot)
			}
		}
	}
}

// A poolCheck judges a spec with named states by what computes it.
type poolCheck func(t *testing.T, s gdn.Spec, precision string, run func(map[string]*array.Array) map[string]*array.Array)

// byText runs a check on specs by the text that is emitted for each TPU.
func byText(t *testing.T, texts []string, check poolCheck) {
	for _, text := range texts {
		for _, name := range []string{"v5e", "v6e", "tpu7x"} {
			t.Run(name+" on "+text, func(t *testing.T) {
				s := spec(t, text)
				v, target := forTPU(t, s, gdn.Auto, name)
				check(t, s, v.Precision().String(), ofText(t, s, v, target))
			})
		}
	}
}

// byCPU runs it on a CPU.
func byCPU(t *testing.T, texts []string, check poolCheck) {
	cpu := pjrttest.CPU(t)
	for _, text := range texts {
		t.Run(text, func(t *testing.T) {
			s := spec(t, text)
			v, run := onCPU(t, s, cpu)
			check(t, s, v.Precision().String(), run)
		})
	}
}

// A sequence starts from the state that is named, or from zeros, whatever is in the slots that it leaves its own in: by the text
// that is emitted for each TPU.
func TestNamedStatesText(t *testing.T) { byText(t, named, freshStarts) }

// So it is on a CPU.
func TestNamedStatesCPU(t *testing.T) {
	byCPU(t, append(named, "t=90,hk=2,hv=4,k=64,v=64,dtype=bf16,seqs=6,init,pool=8,read,packed,rule=kda"), freshStarts)
}

// unknownNames gives one sequence names that no state of the pool has: all outputs and states are those of a sequence without one, to the bit. Nor do
// they change with the tokens of a sequence without a state, be they NaN.
func unknownNames(t *testing.T, s gdn.Spec, _ string, run func(map[string]*array.Array) map[string]*array.Array) {
	t.Helper()
	class, err := truth.LookupClass("random")
	require.NoError(t, err)
	inputs, err := class.Generate(s, 2)
	require.NoError(t, err)
	const stray = 1 // a sequence
	naming := func(name int64) map[string]*array.Array {
		for _, list := range []string{"state_indices", "read_indices"} {
			if a := inputs[list]; a != nil {
				names := a.Int64s()
				names[stray] = name
				inputs[list] = array.FromInt64s(ir.I32, a.Shape, names)
			}
		}
		return run(inputs)
	}
	want := naming(-1)
	finite := inputs
	for _, in := range s.Inputs() {
		if slices.Contains([]string{"q", "k", "v", "g", "beta", "a", "b"}, in.Name) {
			inputs = poison{in.Name, math.NaN()}.into(s, inputs, victim{stray, -1})
		}
	}
	got := naming(-1)
	for _, o := range s.Outputs() {
		require.True(t, bytes.Equal(want[o.Name].Data, got[o.Name].Data), "%s with NaN in a sequence without a state", o.Name)
	}
	inputs = finite
	for _, name := range []int64{int64(s.Pool / s.Checkpoints()), int64(s.Pool), 1 << 20, math.MaxInt32, math.MinInt32} {
		got := naming(name)
		for _, o := range s.Outputs() {
			if o.Name == "o" && name > 0 && name < int64(s.Pool) && s.Read { // a group too many, which is the name of a state to read
				continue
			}
			require.True(t, bytes.Equal(want[o.Name].Data, got[o.Name].Data), "%s with a state %d of %d", o.Name, name, s.Pool)
		}
	}
}

// pools are specs with names that a caller may have wrong.
var pools = append([]string{
	"b=7,t=1,hk=2,hv=4,k=64,v=64,dtype=bf16,init,pool=9,state=vk,inplace",
	"t=270,hk=2,hv=4,k=64,v=64,dtype=bf16,seqs=5,init,pool=9",
	"t=270,hk=2,hv=4,k=64,v=64,dtype=bf16,l2norm,seqs=5,init,pool=9,inplace",
}, named...)

// A name that no state has reaches no state, by the text that is emitted for each TPU.
func TestUnknownNamesText(t *testing.T) { byText(t, pools, unknownNames) }

// So it is on a CPU.
func TestUnknownNamesCPU(t *testing.T) { byCPU(t, pools, unknownNames) }

// What leaves no state after each token says so, and what would.
func TestWindowNeedsRecurrence(t *testing.T) {
	s := spec(t, "b=2,t=4,hk=1,k=8,init,pool=8,read,window")
	for _, text := range []string{"default", "tpu", "token", "algo=token,kq=separate"} {
		require.ErrorContains(t, variant(t, text).Check(s), "set algo=token with unit=vector, lanes or sums, or with kq=joined", text)
	}
	for _, text := range []string{"decode", "decode-f32", "cpu-decode", "algo=token,kq=joined"} {
		require.NoError(t, variant(t, text).Check(s), text)
	}
}
