package irtest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/ir"
)

func TestEveryTensorOpIsGenerated(t *testing.T) {
	seen := map[ir.Op]bool{}
	for seed := range uint64(60) {
		m, _ := Program(t, seed, 60)
		m.Body.Walk(func(in *ir.Instr) { seen[in.Op] = true })
	}
	for op := ir.BadOp + 1; op < ir.NumOps; op++ {
		if ir.Ops[op].Level != ir.Kernel && op != ir.OpKernel && op != ir.OpRefCast {
			require.True(t, seen[op], op.String())
		}
	}
}
