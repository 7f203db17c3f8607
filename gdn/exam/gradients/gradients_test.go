package gradients

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/codegen/route"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/internal/rotate"
	"github.com/gdngen/gdngen/ir/array"
	"github.com/gdngen/gdngen/ir/interp"
	"github.com/gdngen/gdngen/ir/target"
)

var (
	update = flag.Bool("update", false, "make gradients.tsv and the table of docs/data/gradients.md anew")
	try    = flag.String("try", "", "print the errors of this variant, and of no class")
	only   = flag.String("only", "", "with -update or -try: cases whose key has this text")
)

// head of gradients.tsv, with date and commit.
const head = `# Errors of training steps: class of accuracy, case, variant, then rms ratios of o, dq, dk, dv, dg, dbeta, dinitial_state (0: there is none).
# %s, on commit %s: go test ./gdn/exam/gradients -timeout 2h -update
`

// classes are those that auto has training steps for.
var classes = []string{"fast", "f32-like"}

// chosen is what auto takes for the preset train on v6e.
func chosen(t *testing.T, class string) gdn.Variant {
	s, err := gdn.Parse("train")
	require.NoError(t, err)
	target, err := target.Lookup("v6e")
	require.NoError(t, err)
	f, err := route.Resolve(s, gdn.Auto+"-"+class, target, nil)
	require.NoError(t, err)
	return f.Variant
}

func measured(t *testing.T, class string, v gdn.Variant, c Case) Row {
	off, err := c.Measure(func(s gdn.Spec, in map[string]*array.Array) (map[string]*array.Array, error) {
		m, err := route.NewForm(s, v).Kernels()
		if err != nil {
			return nil, err
		}
		return interp.Run(m, in, interp.Options{})
	})
	require.NoError(t, err)
	return Row{class, c.Key(), v.Short(), off}
}

// shortTokens is the most tokens of a case that a run of the tests makes anew, so that it takes seconds.
const shortTokens = 1500

// The table has a row for each case and class, by the variant that auto takes now. Each run of the test makes one of the short ones anew.
func TestTable(t *testing.T) {
	switch {
	case *try != "":
		v, err := gdn.ParseVariant(*try)
		require.NoError(t, err)
		for _, c := range Cases {
			if strings.Contains(c.Key(), *only) {
				t.Log(measured(t, "try", v, c))
			}
		}
		return
	case *update:
		remake(t)
		return
	}
	require.Len(t, Table, len(classes)*len(Cases))
	for _, class := range classes {
		v := chosen(t, class)
		for _, c := range Cases {
			j := slices.IndexFunc(Table, func(r Row) bool { return r.Class == class && r.Case == c.Key() })
			require.GreaterOrEqual(t, j, 0, "gradients.tsv lacks %s of %s: -update", c.Key(), class)
			require.Equal(t, v.Short(), Table[j].Variant, "auto takes another variant: -update")
		}
	}
	short := slices.DeleteFunc(slices.Clone(Cases), func(c Case) bool { return c.Tokens > shortTokens })
	turn := rotate.Rand(23).IntN(len(short) * len(classes))
	class, c := classes[turn/len(short)], short[turn%len(short)]
	j := slices.IndexFunc(Table, func(r Row) bool { return r.Class == class && r.Case == c.Key() })
	require.Equal(t, Table[j].String(), measured(t, class, chosen(t, class), c).String(), "turn %d", turn)
}

// remake writes gradients.tsv; rows that are not asked for stay.
func remake(t *testing.T) {
	commit, err := exec.Command("git", "rev-parse", "--short", "HEAD").Output()
	require.NoError(t, err)
	text := fmt.Sprintf(head, time.Now().UTC().Format(time.DateOnly), strings.TrimSpace(string(commit)))
	var rows []Row
	for _, class := range classes {
		v := chosen(t, class)
		for _, c := range Cases {
			i := slices.IndexFunc(Table, func(r Row) bool { return r.Class == class && r.Case == c.Key() })
			switch {
			case strings.Contains(c.Key(), *only):
				rows = append(rows, measured(t, class, v, c))
			case i >= 0:
				rows = append(rows, Table[i])
			default:
				continue
			}
			t.Log(rows[len(rows)-1])
			text += rows[len(rows)-1].String() + "\n"
		}
	}
	require.NoError(t, os.WriteFile("gradients.tsv", []byte(text), 0o644))
	Table = mustParse(text)
}

// docs/data/gradients.md has the table as it is; -update writes it there.
func TestDocs(t *testing.T) {
	const file = "../../../docs/data/gradients.md"
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	before, rest, ok := strings.Cut(string(data), "<!-- gradients -->\n")
	require.True(t, ok)
	_, after, ok := strings.Cut(rest, "<!-- end -->")
	require.True(t, ok)
	text := before + "<!-- gradients -->\n" + Markdown(classes) + "<!-- end -->" + after
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(text), 0o644))
		return
	}
	require.Equal(t, text, string(data), "docs/data/gradients.md: go test ./gdn/exam/gradients -run Docs -update")
}

// The class that claims the limits of flash-linear-attention holds them, but for what a case names.
func TestClaims(t *testing.T) {
	for _, c := range Cases {
		i := slices.IndexFunc(Table, func(r Row) bool { return r.Class == "f32-like" && r.Case == c.Key() })
		require.GreaterOrEqual(t, i, 0)
		require.Subset(t, c.Beyond, Table[i].Missed(), c.Key())
	}
}
