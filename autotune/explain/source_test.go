package explain

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/autotune/measure"
	"github.com/gdngen/gdngen/pjrt/llo"
)

// The lines of a foreign kernel are shown with its hot spots if their file is available; a module without locations says how to get some.
func TestSourceLines(t *testing.T) {
	file := filepath.Join(t.TempDir(), "mine.py")
	require.NoError(t, os.WriteFile(file, []byte("def kernel(x):\n    y = x @ w\n    "+strings.Repeat("z", 100)+"\n"), 0o644))
	e := &Explanation{module: &Module{Program: measure.Foreign("a.mlir", "")}}
	none := func(int64) string { return "-" }
	show := func(l ...llo.Location) string {
		var b bytes.Buffer
		e.writeLines(&b, &llo.OpReport{Calls: 2, Cycles: 100, Locations: l}, 8, none)
		return b.String()
	}
	text := show(llo.Location{File: file, Line: 2, Column: 5, Cycles: 60}, llo.Location{File: file, Line: 3, Cycles: 30}, llo.Location{File: file, Line: 9, Cycles: 5},
		llo.Location{File: "/nowhere.py", Line: 2, Cycles: 5})
	require.Contains(t, text, "mine.py:2:5     120      60.0%  y = x @ w\n")
	require.Contains(t, text, strings.Repeat("z", 77)+"...\n")
	require.NotContains(t, text, "PER TOKEN", "tokens are not known")
	require.Contains(t, show(llo.Location{File: "/nowhere.py", Line: 2, Cycles: 5}), "LOCATION         ISSUED  OF THE OP\n")
	require.Contains(t, show(), "no source lines: the module names none. JAX writes them with as_text(debug_info=True)")
	e.module.Program = measure.Foreign("a.mlir", "#loc1 = loc(\"/home/me/mine.py\":13:4 to :20)\n")
	require.Contains(t, show(), "no source lines: the module names some, and the compiler keeps them for kernels alone")
}
