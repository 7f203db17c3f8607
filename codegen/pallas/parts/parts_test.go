package parts

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// What is too long loses statements to parts where few values pass, in a loop too, and keeps their order; what adds to a list of others stays.
func TestCut(t *testing.T) {
	statement := func(depth, i int) string {
		return fmt.Sprintf("%sx_%d = f(x_%d)", strings.Repeat("    ", depth), i+1, i)
	}
	for depth := range 2 {
		f := &Function{Params: []Value{{"refs", "Any"}, {"x_0", "jax.Array"}}, Locals: map[string]string{"out": "Tiles"}, Returns: []string{"x_40", "out"}}
		f.Lines = []string{"out = []"}
		if depth > 0 {
			f.Lines = append(f.Lines, "for i in range(4):")
		}
		for i := range 40 {
			f.Locals[fmt.Sprintf("x_%d", i+1)] = "jax.Array"
			if i == 30 {
				f.Lines = append(f.Lines, strings.Repeat("    ", depth)+"out.append(x_30)")
			}
			f.Lines = append(f.Lines, statement(depth, i))
		}
		var parts []Part
		f.Cut(30, func(p Part) string {
			parts = append(parts, p)
			return fmt.Sprintf("%s = part_%d(%s)", p.Results[0].Name, len(parts), p.Params[0].Name)
		})
		require.LessOrEqual(t, f.length(), 30)
		require.NotEmpty(t, parts)
		for _, p := range parts {
			require.Equal(t, len(p.Params), 1, "one value passes in")
			require.Equal(t, len(p.Results), 1, "and one out")
			require.LessOrEqual(t, len(p.Lines), 30)
			require.NotContains(t, strings.Join(p.Lines, "\n"), "append")
			require.False(t, strings.HasPrefix(p.Lines[0], " "))
		}
		var whole []string // in the order in which it runs
		for _, l := range f.Lines {
			at := 0
			if _, call, ok := strings.Cut(l, " = part_"); ok {
				_, err := fmt.Sscanf(call, "%d(", &at)
				require.NoError(t, err)
				for _, l := range parts[at-1].Lines {
					whole = append(whole, strings.Repeat("    ", depth)+l)
				}
				continue
			}
			whole = append(whole, l)
		}
		n := 0
		for _, l := range whole {
			if strings.Contains(l, "= f(") {
				require.Equal(t, statement(depth, n), l)
				n++
			}
		}
		require.Equal(t, 40, n)
	}
}

// A list that others add to does not begin in a part.
func TestCutKeepsLists(t *testing.T) {
	f := &Function{Locals: map[string]string{"a": "Tiles", "b": "Tiles"}, Returns: []string{"a", "b"}}
	for _, list := range []string{"a", "b"} {
		f.Lines = append(f.Lines, list+" = []")
		for range 20 {
			f.Lines = append(f.Lines, list+".append(one)")
		}
	}
	var got []string
	f.Cut(30, func(p Part) string {
		got = append(got, p.Results[0].Name)
		require.Len(t, p.Lines, 21)
		return p.Results[0].Name + " = part()"
	})
	require.Len(t, got, 1)
}

// A part is named after what most of its results are.
func TestSubject(t *testing.T) {
	require.Equal(t, "products", Subject([]string{"decayeds", "products_2", "products_3"}))
	require.Equal(t, "row", Subject([]string{"row", "column"}))
	require.Equal(t, "stores", Subject(nil))
}
