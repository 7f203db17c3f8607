package route_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/codegen/route"
	"github.com/gdngen/gdngen/gdn"
)

// The kernel of a mixed batch's prompts has as much room for registers that are spilled as it has alone: the pool that it takes from the decodes stays in
// HBM. With 6 MiB in place of 16 a pool of 513 states was refused on v6e.
func TestMixedRoom(t *testing.T) {
	s := spec(t, "t=520,hk=2,hv=8,k=128,v=128,dtype=bf16,gates=fused,gatedtype=bf16,l2norm,seqs=11,packed,init,inplace,pool=513,read,mixed=1")
	v, target := forTPU(t, s, gdn.Auto, "v6e")
	limits := func(s gdn.Spec) [][]string {
		program, err := route.Program(s, v, "mosaic", target)
		require.NoError(t, err)
		return regexp.MustCompile(`scoped_memory_configs[^]]*size.22: ([0-9]+)`).FindAllStringSubmatch(program.Text, -1)
	}
	mixed, alone := limits(s), limits(s.Prompts())
	require.NotEmpty(t, alone)
	require.Contains(t, mixed, alone[0])
	program, err := route.Program(s, v, "mosaic", target)
	require.NoError(t, err)
	prompts := regexp.MustCompile(`custom_call @tpu_custom_call\(([^)]*)\) \{[^\n]*kernel_name = "packed"`).FindStringSubmatch(program.Text)
	require.Len(t, prompts, 2)
	pool := prompts[1][strings.LastIndex(prompts[1], " ")+1:]
	require.Equal(t, 1, strings.Count(prompts[1], pool), "of several windows on a pool XLA makes copies of it: %s", prompts[1])
}
