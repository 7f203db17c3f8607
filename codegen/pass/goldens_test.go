package pass

import (
	"flag"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/internal/golden"
	"github.com/gdngen/gdngen/ir"
)

var update = flag.Bool("update", false, "write the outputs of the goldens of passes anew")

// Each pass has goldens of some ten lines, which show one thing that it does: NAME-WHAT.txtar has a sentence, a module and what the pass makes
// of it. The input is written by hand, the output by
//
//	go test ./codegen/pass -run TestPassGoldens -update
func TestPassGoldens(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("testdata", "*.txtar"))
	require.NoError(t, err)
	shown := map[string]bool{}
	for _, file := range files {
		a, err := txtar.ParseFile(file)
		require.NoError(t, err)
		require.Equal(t, []string{"in.ir", "out.ir"}, []string{a.Files[0].Name, a.Files[1].Name}, file)
		m, err := ir.Parse(string(a.Files[0].Data))
		require.NoError(t, err, file)
		name, _, _ := strings.Cut(filepath.Base(file), "-")
		shown[name] = true
		out, err := Apply(m, name)
		require.NoError(t, err, file)
		require.NotEqual(t, m.String(), out.String(), "%s shows nothing", file)
		a.Files[1].Data = []byte(out.String())
		golden.Check(t, file, txtar.Format(a), *update, "go test ./codegen/pass -run TestPassGoldens -update")
	}
	require.False(t, slices.ContainsFunc(Table, func(p Pass) bool { return !shown[p.Name] }), "a pass without a golden: there are those of %v", shown)
}
