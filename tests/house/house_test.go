// Package house holds the test of which package may know which.
package house

import (
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const module = "github.com/gdngen/gdngen/"

// rooms are packages, and which of ours each may depend on, at any depth. A name that ends in a slash stands for all below it.
var rooms = []struct {
	packages, may []string
	why           string
}{
	{[]string{"target"}, nil, "facts of machines stand on the ground"},
	{[]string{"ir", "ir/array", "ir/interp"}, []string{"ir", "ir/", "internal/vector"}, "the IR and its meaning know no machine and no rule"},
	{[]string{"ir/passes"}, []string{"ir", "ir/", "internal/vector"}, "a pass for every target knows no machine, no rule and no emitter"},
	{[]string{"lower/plain"}, []string{"ir", "ir/", "internal/vector"}, "what lowers to plain ops knows no machine"},
	{[]string{"lower/tpu", "lower/tpu/internal/pipeline", "lower/tpu/internal/tiles"}, []string{"lower/tpu/internal/", "ir", "ir/", "internal/vector", "target"}, "what lowers to kernels of a TPU knows no rule and no emitter"},
	{[]string{"lower/tpu/internal/pipeline"}, []string{"lower/tpu/internal/tiles", "ir", "ir/", "internal/vector", "target"}, "a schedule is applied to any kernel, however it was tiled"},
	{[]string{"lower/pass"}, []string{"lower/", "ir", "ir/", "internal/vector", "target"}, "a pass knows no rule and no emitter"},
	{[]string{"codegen", "codegen/mosaic", "codegen/stablehlo"}, []string{"codegen", "codegen/", "lower/", "ir", "ir/", "internal/vector", "target"},
		"an emitter knows no rule"},
	{[]string{"codegen/pallas"}, []string{"codegen", "codegen/", "lower/", "gdn", "gdn/truth", "ir", "ir/", "internal/suggest", "internal/vector", "target"},
		"Python files know specs, and are given programs: no builder"},
	{[]string{"gdn"}, []string{"ir", "ir/", "internal/suggest", "internal/vector", "target"}, "a spec and a variant know neither how they are built nor what must come out"},
	{[]string{"gdn/schedule"}, []string{"gdn", "ir", "ir/", "internal/suggest", "internal/vector", "target"}, "a schedule knows no builder: it is for what is built"},
	{[]string{"gdn/build", "gdn/build/internal/channel", "gdn/build/internal/chunkwise", "gdn/build/internal/gate", "gdn/build/internal/gradient", "gdn/build/internal/inverse", "gdn/build/internal/packs", "gdn/build/internal/pool",
		"gdn/build/internal/recurrence", "gdn/build/internal/tile", "gdn/build/internal/visits"}, []string{"gdn", "gdn/schedule", "gdn/build/internal/", "ir", "ir/", "internal/suggest", "internal/vector", "target"}, "builders know neither the truth nor emitters"},
	{[]string{"gdn/truth"}, []string{"gdn", "ir", "ir/", "internal/suggest", "internal/vector", "target"}, "the truth knows no builder"},
	{[]string{"gdn/build/internal/tile"}, []string{"gdn", "gdn/build/internal/visits", "ir", "ir/", "internal/suggest", "internal/vector", "target"}, "what bodies are written with knows no algorithm"},
	{[]string{"pjrt/llo", "pjrt/llo/hlo"}, []string{"pjrt/llo/", "target"}, "schedules are read without a rule or an emitter"},
	{[]string{"pjrt", "pjrt/aot", "pjrt/plugins", "pjrt/child"}, []string{"pjrt", "pjrt/", "internal/terminal", "ir", "ir/array", "target"},
		"compilers and devices know no rule and no emitter"},
}

// Packages import downwards only.
func TestRooms(t *testing.T) {
	for _, room := range rooms {
		for _, p := range room.packages {
			out, err := exec.Command("go", "list", "-deps", module+p).Output()
			require.NoError(t, err)
			for dep := range strings.FieldsSeq(string(out)) {
				dep, ours := strings.CutPrefix(dep, module)
				if !ours || dep == p {
					continue
				}
				known := slices.ContainsFunc(room.may, func(m string) bool {
					return m == dep || strings.HasSuffix(m, "/") && strings.HasPrefix(dep, m)
				})
				require.True(t, known, "%s depends on %s: %s", p, dep, room.why)
			}
		}
	}
}
