package plan

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/codegen/pallas/loops"
	"github.com/gdngen/gdngen/ir"
)

// What reads an element of a list reads what one node made as a whole: it comes behind that node, and takes the list from its stage.
func TestElementsOfList(t *testing.T) {
	list, element := &loops.Item{}, &loops.Item{}
	list.Add(element)
	node := func(stage string) *loops.Node { return &loops.Node{Stage: stage, In: &ir.Instr{Op: ir.OpOr}} }
	maker, reader := node("leaf"), node("keep")
	maker.Defs, reader.Args = []*loops.Item{list}, []loops.Ref{{Item: element}}
	nodes := []*loops.Node{maker, reader}
	segments := Segments(nodes)
	require.Equal(t, []*loops.Item{list}, segments[0].Results)
	require.Equal(t, []*loops.Item{list}, segments[1].Reads)
}
