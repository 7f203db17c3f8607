package gpu

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var memory = regexp.MustCompile(`\t(st\.shared|stmatrix|cp\.async\.wait|fence\.proxy\.async|wgmma\.mma_async)`)

// unfenced are products of warp groups in PTX that may read shared memory before what threads wrote there is seen: PTX wants a fence between the two.
func unfenced(ptx string) (lines []int) {
	written := false
	for i, line := range strings.Split(ptx, "\n") {
		switch m := memory.FindString(line); {
		case strings.Contains(m, "fence"):
			written = false
		case strings.Contains(m, "wgmma") && written:
			lines = append(lines, i+1)
		case m != "" && !strings.Contains(m, "wgmma"):
			written = true
		}
	}
	return lines
}

// The kernels that a selftest runs to see faults of a Triton are right in the interpreter, have the products that were compiled wrongly, and by the pinned Triton
// no product that reads what is not fenced. On a device their errors are told, and a kernel that can not run.
func TestProbes(t *testing.T) {
	k := open(t)
	require.Equal(t, []int{3}, unfenced("\tcp.async.wait_group 0;\n\tbar.sync 0;\n\twgmma.mma_async.x;\n\tfence.proxy.async.y;\n\twgmma.mma_async.x;"))
	for i, p := range Probes {
		tensors := p.tensors()
		after, err := k.compute(t.Context(), p.source(), tensors)
		require.NoError(t, err)
		require.Less(t, off(tensors, after), ProbeLimit, p.Name)
		require.True(t, math.IsNaN(off(tensors, tensors)), "nothing is written")
		after["dk"].Data[7] ^= 0x40
		require.Greater(t, off(tensors, after), ProbeLimit)

		launches, err := k.compile(t.Context(), p.source(), tensors, h100(t))
		require.NoError(t, err)
		require.Len(t, launches, 1)
		require.Equal(t, []int{128 / p.columns, 1, 1}, launches[0].Grid[:])
		product := fmt.Sprintf("wgmma.mma_async.sync.aligned.m64n%dk16.f32.bf16.bf16", p.columns)
		require.Equal(t, []int{20, 24}[i], strings.Count(launches[0].PTX, product), "the form that was compiled wrongly")
		require.Contains(t, launches[0].PTX, "ldmatrix.sync.aligned.m8n8.x4.trans", "an operand from registers, transposed")
		require.Empty(t, unfenced(launches[0].PTX), p.Name)
	}

	dir := stub(t)
	p := Probes[0]
	tensors := p.tensors()
	after, err := k.compute(t.Context(), p.source(), tensors)
	require.NoError(t, err)
	for i, name := range []string{"dk", "dq"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, fmt.Sprintf("probe.%d", 7-i)), after[name].Data, 0o644))
	}
	e, err := k.Probe(t.Context(), p, h100(t))
	require.NoError(t, err)
	require.Less(t, e, ProbeLimit)
	t.Setenv("STUB_FAULT", "probe")
	_, err = k.Probe(t.Context(), p, h100(t))
	require.ErrorContains(t, err, "probe transposed, on Stub H100: cuLaunchKernel: CUDA_ERROR_LAUNCH_FAILED (719)")
}
