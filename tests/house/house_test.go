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
	{[]string{"ir/target"}, nil, "facts of machines stand on the ground"},
	{[]string{"ir", "ir/array", "ir/interp"}, []string{"ir", "ir/array", "ir/interp", "ir/passes", "internal/vector"}, "the IR and its meaning know no machine and no rule"},
	{[]string{"ir/passes"}, []string{"ir", "ir/array", "ir/interp", "ir/passes", "internal/vector"}, "a pass for every target knows no machine, no rule and no emitter"},
	{[]string{"codegen/plain"}, []string{"ir", "ir/array", "ir/interp", "ir/passes", "internal/vector"}, "what lowers to plain ops knows no machine"},
	{[]string{"codegen/tpu", "codegen/tpu/internal/pipeline", "codegen/tpu/internal/tiles"}, []string{"codegen/tpu/internal/", "ir", "ir/", "internal/vector", "ir/target"}, "what lowers to kernels of a TPU knows no rule and no emitter"},
	{[]string{"codegen/tpu/internal/pipeline"}, []string{"codegen/tpu/internal/tiles", "ir", "ir/", "internal/vector", "ir/target"}, "a schedule is applied to any kernel, however it was tiled"},
	{[]string{"codegen/pass"}, []string{"codegen/tpu", "codegen/tpu/", "codegen/plain", "ir", "ir/", "internal/vector", "ir/target"}, "a pass knows no rule and no emitter"},
	{[]string{"codegen", "codegen/mosaic", "codegen/stablehlo"}, []string{"codegen", "codegen/", "ir", "ir/", "internal/vector", "ir/target"},
		"an emitter knows no rule"},
	{[]string{"codegen/pallas"}, []string{"codegen", "codegen/", "gdn", "gdn/truth", "ir", "ir/", "internal/suggest", "internal/vector", "ir/target"},
		"Python files know specs, and are given programs: no builder"},
	{[]string{"codegen/python"}, nil, "what reads Python knows nothing of who writes it"},
	{[]string{"gdn"}, []string{"ir", "ir/", "internal/suggest", "internal/vector", "ir/target"}, "a spec and a variant know neither how they are built nor what must come out"},
	{[]string{"gdn/schedule"}, []string{"gdn", "ir", "ir/", "internal/suggest", "internal/vector", "ir/target"}, "a schedule knows no builder: it is for what is built"},
	{[]string{"gdn/build", "gdn/build/internal/channel", "gdn/build/internal/chunkwise", "gdn/build/internal/gate", "gdn/build/internal/gradient", "gdn/build/internal/inverse", "gdn/build/internal/packs", "gdn/build/internal/pool",
		"gdn/build/internal/recurrence", "gdn/build/internal/tile", "gdn/build/internal/segments"}, []string{"gdn", "gdn/schedule", "gdn/build/internal/", "ir", "ir/", "internal/suggest", "internal/vector", "ir/target"}, "builders know neither the truth nor emitters"},
	{[]string{"gdn/truth"}, []string{"gdn", "ir", "ir/", "internal/suggest", "internal/vector", "ir/target"}, "the truth knows no builder"},
	{[]string{"gdn/build/internal/tile"}, []string{"gdn", "gdn/build/internal/segments", "ir", "ir/", "internal/suggest", "internal/vector", "ir/target"}, "what bodies are written with knows no algorithm"},
	{[]string{"pjrt/llo", "pjrt/llo/hlo"}, []string{"pjrt/llo/", "ir/target"}, "schedules are read without a rule or an emitter"},
	{[]string{"pjrt", "pjrt/aot", "pjrt/plugins", "pjrt/child", "pjrt/device"}, []string{"pjrt", "pjrt/", "internal/disk", "internal/terminal", "ir", "ir/array", "ir/target"},
		"compilers and devices know no rule and no emitter; a file's hash is the disk's"},
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
