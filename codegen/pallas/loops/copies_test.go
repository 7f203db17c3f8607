package loops

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/ir"
)

// What begins the copies of a step, waits for them, and begins those of the next is one function, called with the step; not where one of the copies is another.
func TestCopies(t *testing.T) {
	for _, test := range []struct{ copies, other int }{{4, -1}, {4, 2}, {3, -1}} {
		m, b := ir.NewModule("copies")
		hbm, vmem, table := ir.T(ir.F32, 64, 128), ir.T(ir.F32, 16, 128), ir.T(ir.I32, 32)
		hbm.Space, vmem.Space, table.Space = ir.HBM, ir.VMEM, ir.SMEM
		sem := ir.T(ir.Sem)
		sem.Space = ir.VMEM
		from, to, s, names := b.Param("from", hbm), b.Param("to", vmem), b.Param("sem", sem), b.Param("table", table)
		i32 := func(x int) *ir.Value { return b.Const(ir.T(ir.I32), float64(x)) }
		step := b.ProgramID(0)
		place := func(op ir.Op, shift, other int) {
			b.When(b.Compare(ir.GT, step, i32(5+shift)), func(b *ir.Builder) {
				at := b.Add(step, i32(shift))
				for i := range test.copies {
					block := b.Load(names, nil, []int{i}, nil, at)
					if i == other {
						block = b.Load(names, nil, []int{i + 9}, nil, at)
					}
					b.Append(op, []*ir.Value{from, to, s, block, b.And(at, i32(1))}, ir.Attrs{Dims: []int{8, 128}}, nil)
				}
			})
		}
		place(ir.OpDMAStart, 0, -1)
		place(ir.OpDMAWait, 0, -1)
		place(ir.OpDMAStart, 1, test.other)
		of := map[*ir.Value]*Item{}
		for i, p := range []*ir.Value{from, to, s, names} {
			of[p] = &Item{Typ: p.Type, Param: i + 1}
		}
		calls := map[string][]string{}
		var def *Node
		for _, n := range Copies(ToNodes(m.Body.Instrs, of, nil)) {
			switch n.Call {
			case "copies":
				def = n
			case "copy":
				require.Same(t, def.Defs[0], n.Args[0].Item)
				require.Len(t, n.Args, 2+len(n.Params), "the step and the condition")
				calls[n.Note] = append(calls[n.Note], n.Args[1].Item.Maker.In.Op.String())
			}
		}
		if test.copies < fewCopies || test.other >= 0 {
			require.Empty(t, calls)
			continue
		}
		require.Len(t, def.Params, 1)
		require.Equal(t, map[string][]string{"start": {"program_id", "add"}, "wait": {"program_id"}}, calls)
	}
}
