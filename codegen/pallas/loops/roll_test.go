package loops

import (
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/ir"
)

// What a head does as another one stands apart from what it does before or after that, whichever is found first.
func TestTrim(t *testing.T) {
	// Letters are ops: head "abc" does the first three of "abcd".
	parts := func(heads ...string) (out [][]*Node) {
		for _, h := range heads {
			var part []*Node
			for _, letter := range h {
				part = append(part, &Node{In: &ir.Instr{Op: ir.OpConst, Attrs: ir.Attrs{Value: float64(letter)}, Results: []*ir.Value{{Type: ir.T(ir.F32, 8)}}}})
			}
			out = append(out, part)
		}
		return out
	}
	for _, test := range []struct{ heads, want []string }{
		{[]string{"abc", "abcd"}, []string{"abc", "abc", "d"}},
		{[]string{"zabc", "abc"}, []string{"z", "abc", "abc"}},
		{[]string{"ab", "abc"}, []string{"ab", "abc"}}, // too few to be a round
		{[]string{"abc", "abcdefg", "x", "efg"}, []string{"abc", "abc", "defg", "x", "efg"}},
	} {
		var got []string
		for _, part := range trim(parts(test.heads...)) {
			text := ""
			for _, n := range part {
				text += string(rune(n.In.Attrs.Value))
			}
			got = append(got, text)
		}
		require.Equal(t, test.want, got)
	}
}

// TestValues: 2 h + 1 for four rounds of h, with i of two rounds, with quotients and rests, and where rounds are not known.
func TestValues(t *testing.T) {
	h, i := &Variable{Rounds: 4}, &Variable{Rounds: 2}
	for _, test := range []struct {
		form Form
		want []int
	}{
		{Number(3), []int{3}},
		{Form{C: 1, Div: 1, T: []Term{{V: h, K: 2}}}, []int{1, 3, 5, 7}},
		{Form{C: 4, Div: 1, T: []Term{{V: h, K: -1}}}, []int{1, 2, 3, 4}},
		{Form{Div: 1, T: []Term{{V: h, K: 2}, {V: i, K: 1}}}, []int{0, 1, 2, 3, 4, 5, 6, 7}},
		{Form{Div: 1, T: []Term{{V: h, K: 3, Div: 2}, {V: h, K: 1, Mod: 2}}}, []int{0, 1, 3, 4}},
		{Form{C: 1, Div: 2, T: []Term{{V: h, K: 1}}}, []int{0, 1, 2, 3, 4, 5, 6, 7}},
		{Form{C: 1, Div: 1, T: []Term{{V: &Variable{}, K: 2}}}, []int{0, 1, 2, 3, 4, 5, 6, 7}},
	} {
		got := slices.Sorted(maps.Keys(test.form.Values(8)))
		require.Subset(t, got, test.want)
		require.Subset(t, test.want, slices.DeleteFunc(got, func(x int) bool { return x < 0 || x > 7 }), test.form)
	}
}
