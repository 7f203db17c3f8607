package loops

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/ir"
)

// Chunks of which one begins before the one before it ends come one after another, each in the order of the second; what the first has and
// others have not comes before. Where one differs, all stay as they are.
func TestByChunk(t *testing.T) {
	typ := ir.T(ir.F32, 8, 128)
	for _, test := range []struct{ order, want string }{
		{"s a0 a1 b0 a2 b1 b2", "s a0 b0 a1 b1 a2 b2"},
		{"a0 s a1 b0 a2 b1 b2", "s a0 b0 a1 b1 a2 b2"},
		{"s a0 a1 b0 a2 b1 c2", ""},
		{"s a0 a1 b0 b1", ""},
	} {
		made := map[string]*Item{"x": {Typ: typ}, "b-1": {Typ: typ}}
		names := map[*Node]string{}
		var nodes []*Node
		for _, name := range strings.Fields(test.order) {
			op, chunk := ir.OpNeg, 0
			args := []string{"x"}
			if _, err := fmt.Sscanf(name[1:], "%d", &chunk); err == nil && name[0] != 'a' {
				op, args = map[byte]ir.Op{'b': ir.OpAdd, 'c': ir.OpMul}[name[0]], []string{"a" + name[1:], fmt.Sprintf("b%d", chunk-1)}
			}
			if name == "s" {
				op, chunk = ir.OpExp, 0
			}
			n := &Node{In: &ir.Instr{Op: op, Task: ir.Task{Stage: "state", Chunk: chunk}, Results: []*ir.Value{{Type: typ}}}, Stage: "state"}
			for _, a := range args {
				n.Args = append(n.Args, Ref{Item: made[a]})
				n.In.Args = append(n.In.Args, &ir.Value{Type: typ})
			}
			made[name] = &Item{Typ: typ, Maker: n}
			n.Defs, names[n] = []*Item{made[name]}, name
			nodes = append(nodes, n)
		}
		var got []string
		for _, n := range byChunk(nodes) {
			got = append(got, names[n])
		}
		require.Equal(t, test.want, strings.Join(got, " "), test.order)
	}
}
