package chains_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/codegen/pallas/chains"
	"github.com/gdngen/gdngen/ir"
)

// row is an instruction: its task, what it reads, and the chain that it is to have.
type row struct {
	name, task string
	reads      []string
	chain      int
}

func TestName(t *testing.T) {
	for _, test := range []struct {
		name string
		rows []row
	}{
		{"heads that become pairs are one strand, whose number is no tile's", []row{
			{"a0", "solve.h0", nil, 0}, {"a1", "solve.h1", nil, 0}, {"a2", "solve.h2", nil, 1}, {"a3", "solve.h3", nil, 1},
			{"c0", "solve.h0", []string{"a0", "a1"}, 0}, {"c1", "solve.h1", []string{"a2", "a3"}, 1},
			{"d1", "solve.h2", []string{"c1"}, 1},
		}},
		{"heads apart keep their numbers", []row{
			{"a1", "decay.h1", nil, 1}, {"a0", "decay.h0", nil, 0}, {"b1", "decay.h1", []string{"a1"}, 1}, {"b0", "decay.h0", []string{"a0"}, 0},
		}},
		{"a load goes with its readers, and what is sliced from a tile with it", []row{
			{"l0", "leaf", nil, 0}, {"l1", "leaf", nil, 1}, {"a0", "leaf.h0", []string{"l0"}, 0}, {"a1", "leaf.h1", []string{"l1"}, 1}, {"s1", "leaf", []string{"a1"}, 1},
		}},
		{"what three heads read ties none", []row{
			{"m", "leaf", nil, -1}, {"a0", "leaf.h0", []string{"m"}, 0}, {"a1", "leaf.h1", []string{"m"}, 1}, {"a2", "leaf.h2", []string{"m"}, 2},
		}},
		{"what a tile makes for three heads is no tile's", []row{
			{"m", "leaf.h0", nil, -1}, {"a0", "leaf.h0", []string{"m"}, 0}, {"a1", "leaf.h1", []string{"m"}, 1}, {"a2", "leaf.h2", []string{"m"}, 2},
		}},
		{"another stage is another strand", []row{
			{"a0", "leaf.h0", nil, 0}, {"a1", "leaf.h1", nil, 1}, {"b0", "solve.h0", []string{"a0", "a1"}, 0}, {"b1", "solve.h1", nil, 1},
		}},
		{"a head by itself goes with its pair", []row{
			{"a0", "decay.h0", nil, 0}, {"a1", "decay.h1", nil, 0}, {"c0", "decay.h0", []string{"a0", "a1"}, 0}, {"g3", "decay.h3", nil, 1}, {"g0", "decay.h0", nil, 0},
		}},
		{"what has no tile ties two heads for a tile that reads it", []row{
			{"a2", "state.h2", nil, 0}, {"a3", "state.h3", nil, 0}, {"c", "state", []string{"a2", "a3"}, 0}, {"d", "state.h2", []string{"c"}, 0},
		}},
		{"and none where only more of its kind reads it, as sums over all heads do", []row{
			{"a0", "dg.h0", nil, 0}, {"a1", "dg.h1", nil, 1}, {"c", "dg", []string{"a0", "a1"}, -1}, {"e", "dg", []string{"c"}, -1},
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			b, made := &ir.Block{}, map[string]*ir.Value{}
			for _, r := range test.rows {
				task, err := ir.ParseTask(r.task)
				require.NoError(t, err)
				in := &ir.Instr{Op: ir.OpAdd, Task: task}
				for _, name := range r.reads {
					in.Args = append(in.Args, made[name])
				}
				made[r.name] = &ir.Value{Def: in, Type: ir.T(ir.F32, 8, 128)}
				in.Results = []*ir.Value{made[r.name]}
				b.Instrs = append(b.Instrs, in)
			}
			chains.Name(b)
			for i, r := range test.rows {
				require.Equal(t, r.chain, b.Instrs[i].Task.Head, r.name)
			}
		})
	}
}

// TestOdd: of two heads in one chain the second's values are called so, with their names and without.
func TestOdd(t *testing.T) {
	b := &ir.Block{}
	add := func(task string, reads ...*ir.Value) *ir.Value {
		at, err := ir.ParseTask(task)
		require.NoError(t, err)
		in := &ir.Instr{Op: ir.OpAdd, Args: reads, Task: at}
		in.Results = []*ir.Value{{Def: in}}
		b.Instrs = append(b.Instrs, in)
		return in.Results[0]
	}
	u0, u1 := add("solve.h0").Called("u"), add("solve.h1").Called("u")
	x1 := add("solve.h1", u1)
	add("solve.h0", u0, x1)
	alone := add("decay.h1").Called("p")
	chains.Name(b)
	require.Equal(t, []string{"u", "u_odd", "_odd", "p"}, []string{u0.Def.Called(), u1.Def.Called(), x1.Def.Called(), alone.Def.Called()})
}
