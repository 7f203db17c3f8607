package pools

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/internal/rotate"
)

var update = flag.Bool("update", false, "measure all rows anew and write them into docs/data/pools.md")

const docs = "../../../docs/data/pools.md"

// rules of the table: the gated delta rule, and one with a decay a channel.
var rules = []string{"gdn", "kda"}

func cell(t *testing.T, rule, class string, p Type) string {
	e, err := Measure(rule, class, p, Steps, Tail)
	require.NoError(t, err)
	return fmt.Sprintf("%.1e", e)
}

// The table of docs/data/pools.md is what is measured: a run of it in each test, which rotates by commit, and all with -update.
func TestTable(t *testing.T) {
	data, err := os.ReadFile(docs)
	require.NoError(t, err)
	before, rest, ok := strings.Cut(string(data), "<!-- pools -->\n")
	require.True(t, ok)
	block, after, ok := strings.Cut(rest, "<!-- end of pools -->")
	require.True(t, ok)
	if *update {
		require.NoError(t, os.WriteFile(docs, []byte(before+"<!-- pools -->\n"+table(t)+"<!-- end of pools -->"+after), 0o644))
		return
	}
	r := rotate.Rand(26)
	rule, class, p := rules[r.IntN(len(rules))], Classes[r.IntN(len(Classes))], r.IntN(len(Types))
	for line := range strings.Lines(block) {
		cells := strings.Split(strings.TrimSpace(line), " | ")
		if cells[0] == "| "+rule && cells[1] == "`"+class+"`" {
			require.Equal(t, cell(t, rule, class, Types[p]), strings.TrimSuffix(cells[2+p], " |"), "%s on %s by %s", Types[p].Name, class, rule)
			return
		}
	}
	require.Failf(t, "a row is missing", "%s on %s: go test ./gdn/exam/pools -update", rule, class)
}

func table(t *testing.T) string {
	var b strings.Builder
	b.WriteString("| rule | inputs |")
	for _, p := range Types {
		b.WriteString(" " + p.Name + " |")
	}
	b.WriteString("\n|---|---|" + strings.Repeat("---|", len(Types)) + "\n")
	for _, rule := range rules {
		for _, class := range Classes {
			fmt.Fprintf(&b, "| %s | `%s` |", rule, class)
			for _, p := range Types {
				fmt.Fprintf(&b, " %s |", cell(t, rule, class, p))
			}
			b.WriteByte('\n')
		}
	}
	return b.String()
}

// A pool of more bits is nearer, on the data of models; what is rounded lies where the type says.
func TestTypes(t *testing.T) {
	var errors []float64
	for _, name := range []string{"f32", "bf16", "int8"} {
		i := slices.IndexFunc(Types, func(p Type) bool { return p.Name == name })
		e, err := Measure("gdn", "random", Types[i], 200, 100)
		require.NoError(t, err)
		errors = append(errors, e)
	}
	require.Less(t, errors[0], 1e-6)
	require.Greater(t, errors[1], 1e-4)
	require.Greater(t, errors[2], 2*errors[1])

	row := make([]float64, 2*Width)
	row[0], row[1], row[Width] = 127, 3.4, .5
	eight := Types[slices.IndexFunc(Types, func(p Type) bool { return p.Name == "int8" })].Store()
	eight(row)
	require.Equal(t, []float64{127, 3, 0}, row[:3], "a channel's largest is 127 of its scale")
	require.InDelta(t, .5, row[Width], 1e-7, "another channel has a scale of its own")

	sum := 0.0
	dither := Types[slices.IndexFunc(Types, func(p Type) bool { return p.Name == "bf16, dithered" })].Store()
	for range 4000 {
		one := []float64{1 + 1./512}
		dither(one)
		require.Contains(t, []float64{1, 1 + 1./128}, one[0])
		sum += one[0]
	}
	require.InDelta(t, 1+1./512, sum/4000, 2e-4, "right in the mean")
}
