package build

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/gdntest"
	"github.com/gdngen/gdngen/internal/rotate"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/array"
)

// mixedSpecs are mixed batches with all options that they support.
var mixedSpecs = []string{
	"t=40,hk=1,hv=2,k=16,v=8,gates=fused,l2norm,seqs=7,packed,init,pool=9,inplace,read,mixed=1,conv=4,convrows=4,convstate,convbias,rows=qkv",
	"t=50,hk=1,hv=2,k=16,gates=fused,gatedtype=bf16,l2norm,seqs=8,packed,init,pool=36,inplace,read,mixed=4,conv=4,convstate,rows=flat",
	"t=45,hk=1,k=16,gates=fused,l2norm,seqs=6,packed,init,pool=7,read,mixed=1,conv=3,convstate,rule=kda,bound=-5,state=vk",
	"t=21,hk=2,hv=4,k=8,seqs=5,packed,init,pool=6,read,mixed=1,dtype=bf16",
	"t=16,hk=1,hv=2,k=8,l2norm,seqs=30,packed,init,pool=62,read,mixed=2,rule=deltanet",
}

// Every legitimate variant computes mixed batches.
func TestMixedBatches(t *testing.T) { byEveryVariant(t, mixedSpecs) }

// Batches of any lengths, a few of a hundred by commit: no sequence or all, decodes alone, prompts alone, prompts of no token, of one and of hundreds.
func TestRandomMixed(t *testing.T) {
	seeds := make([]uint64, 100)
	for i := range seeds {
		seeds[i] = uint64(i)
	}
	for _, seed := range rotate.Sample(29, seeds, 3) {
		r := rand.New(rand.NewPCG(seed, 1))
		w, places := []int{1, 1, 1, 4}[r.IntN(4)], 1+r.IntN(12)
		tokens := []int{places * w, 60, 64, 750}[r.IntN(4)] // blocks of 16: some are whole, some are not
		s := gdntest.MustParse(t, fmt.Sprintf("t=%d,hk=1,hv=2,k=16,v=8,gates=fused,l2norm,seqs=%d,packed,init,pool=%d,read,mixed=%d,conv=4,convstate", tokens, places, w*(places+1+r.IntN(3)), w))
		inputs := drawInputs(t, "random", s, seed)
		decodes, cu := min(r.IntN(places+1), tokens/w), []int64{0}
		for n := range places {
			left := tokens - int(cu[n])
			l := min(left, []int{0, 1, 2 + r.IntN(15), 17 + r.IntN(700)}[r.IntN(4)])
			if n < decodes {
				l = 1 + r.IntN(w)
			}
			cu = append(cu, cu[n]+int64(l))
		}
		inputs["cu_seqlens"] = array.FromInt64s(ir.I32, []int{places + 1}, cu)
		inputs["distribution"] = array.FromInt64s(ir.I32, []int{3}, []int64{int64(decodes), 0, int64(decodes + r.IntN(places-decodes+1))})
		for _, name := range []string{"cpu-packed", "tpu-packed", "tpu", sideBySide[0]} {
			v := gdntest.MustVariant(t, name)
			withinLimits(t, s, v, "random", inputs, interpret(t, s, v, inputs))
		}
	}
}

// mixedCall is a call of a mixed batch whose inputs a test changes.
type mixedCall struct {
	s      gdn.Spec
	inputs map[string]*array.Array
}

// set changes the numbers of an input that names something.
func (c mixedCall) set(name string, change func(l []int64)) mixedCall {
	x, in := c.inputs[name], maps.Clone(c.inputs)
	l := x.Int64s()
	change(l)
	in[name] = array.FromInt64s(x.Type, x.Shape, l)
	return mixedCall{c.s, in}
}

// poison puts NaN into the rows of inputs that a test names: tokens, or states of the pool.
func (c mixedCall) poison(token, state func(i int) bool) mixedCall {
	in := maps.Clone(c.inputs)
	for _, p := range c.s.Inputs() {
		of := token
		switch {
		case p.Name == "initial_state" || p.Name == "initial_conv":
			of = state
		case p.Type.Shape[0] != c.s.Tokens || p.Type.DType == ir.I32:
			continue
		}
		l := slices.Clone(in[p.Name].Float64s())
		each := len(l) / p.Type.Shape[0]
		for i := range l {
			if of(i / each) {
				l[i] = math.NaN()
			}
		}
		in[p.Name] = array.FromFloat64s(p.Type.DType, p.Type.Shape, l)
	}
	return mixedCall{c.s, in}
}

// Padding, slots that no sequence starts from, and one request's tokens and states, whatever they hold, change no bit of the others; nor does a sequence that
// may not be: with a slot beyond the pool, with one that another sequence has, or a window that is too long. Its own outputs are zeros.
func TestMixedContain(t *testing.T) {
	for i, text := range mixedSpecs {
		s := gdntest.MustParse(t, text)
		for _, name := range append([]string{"cpu-packed", "default", "token", "tpu-packed", "tpu"}, sideBySide...) {
			v := gdntest.MustVariant(t, name)
			if v.Check(s) != nil {
				continue
			}
			t.Run(fmt.Sprint(name, i), func(t *testing.T) {
				t.Parallel()
				call := mixedCall{s, drawInputs(t, "random", s, 2)}
				want := interpret(t, s, v, call.inputs)
				cu, names, reads := call.inputs["cu_seqlens"].Int64s(), call.inputs["state_indices"].Int64s(), call.inputs["read_indices"].Int64s()
				part := call.inputs["distribution"].Int64s()
				all := int(min(part[2], int64(s.Seqs)))
				group := s.Checkpoints()
				within := func(n, token int) bool { return int64(token) >= cu[n] && int64(token) < cu[n+1] }
				// same compares all but what sequence n has; -1: all.
				same := func(what string, n int, c mixedCall) {
					got := interpret(t, s, v, c.inputs)
					for out, rows := range map[string]int{"o": s.Tokens, "final_state": s.Pool, "final_conv": s.Pool} {
						if want[out] == nil {
							continue
						}
						w, g := want[out].Float64s(), got[out].Float64s()
						each := len(w) / rows
						for row := range rows {
							own := n >= 0 && (out == "o" && within(n, row) || out != "o" && int64(row/group) == names[n])
							left := slices.Index(names[:all], int64(row/group)) // the sequence that leaves it: a prompt the first of its group
							used := out == "o" || left >= 0 && cu[left] < cu[left+1] && (int64(left) < part[0] || row%group == 0)
							if !own && used {
								require.True(t, slices.Equal(w[row*each:][:each], g[row*each:][:each]), "%s: row %d of %s, %v", what, row, out, n)
							}
							if own && out == "o" && what != "a request" {
								require.Zero(t, g[row*each], "%s: row %d of %s", what, row, out)
							}
						}
					}
				}
				padding := call.poison(func(i int) bool { return int64(i) >= cu[all] }, func(state int) bool {
					for n := range all {
						if names[n] >= 0 && reads[n] == int64(state) {
							return false
						}
					}
					return true
				})
				garbage := func(l []int64) {
					for n := all; n < s.Seqs; n++ {
						l[n] = int64(n%3)*7 - 3
					}
				}
				same("padding", -1, padding.set("state_indices", garbage).set("read_indices", garbage).set("cu_seqlens", func(l []int64) { garbage(l[1:]) }))
				for n := range all {
					if cu[n] == cu[n+1] || names[n] < 0 || n > 0 && n < all-1 && n != int(part[0]) {
						continue
					}
					same("a request", n, call.poison(func(i int) bool { return within(n, i) }, func(state int) bool { return int64(state/group) == names[n] }))
					same("a slot beyond the pool", n, call.set("state_indices", func(l []int64) { l[n] = int64(s.Pool/group + n) }))
					if first := slices.IndexFunc(names[:n], func(x int64) bool { return x >= 0 }); first >= 0 && cu[first] < cu[first+1] {
						same("a slot that is taken", n, call.set("state_indices", func(l []int64) { l[n] = names[first] }))
					}
				}
				if last := int(part[0]); last < all && cu[last+1]-cu[last] > int64(s.Mixed) {
					same("a long window", last, call.set("distribution", func(l []int64) { l[0]++ }))
				}
			})
		}
	}
}
