//go:build cgo && ((linux && amd64) || darwin) && !noxla

package kernels_test

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/codegen/ptx"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/internal/layertest"
	"github.com/gdngen/gdngen/gdn/layer"
	"github.com/gdngen/gdngen/gdn/layer/device"
	"github.com/gdngen/gdngen/gdn/layer/kernels"
	"github.com/gdngen/gdngen/gdn/truth"
	"github.com/gdngen/gdngen/ir/array"
	"github.com/gdngen/gdngen/ir/target"
	"github.com/gdngen/gdngen/pjrt/aot"
	"github.com/gdngen/gdngen/pjrt/pjrttest"
	"github.com/gdngen/gdngen/pjrt/plugins"
)

// Tests that compile for TPUs run this binary again as a worker.
func TestMain(m *testing.M) {
	aot.RunWorkerIfAsked()
	os.Exit(m.Run())
}

func draw(t *testing.T, text string) (gdn.Spec, map[string]*array.Array) {
	t.Helper()
	s, err := gdn.Parse(text)
	require.NoError(t, err)
	c, err := truth.LookupClass("random")
	require.NoError(t, err)
	in, err := c.Generate(s, 1)
	require.NoError(t, err)
	return s, in
}

func agree(t *testing.T, s gdn.Spec, in, got map[string]*array.Array) {
	t.Helper()
	want, err := truth.Reference(s, in)
	require.NoError(t, err)
	for _, p := range s.Outputs() {
		require.Less(t, array.Compare(got[p.Name], want[p.Name]).Ratio, 1e-5, p.Name)
	}
}

// On a CPU the forward and the backward pass of a graph are our StableHLO.
func TestInserted(t *testing.T) {
	var programs []string
	k, err := kernels.Wrap(layertest.Backend(t, device.XLA), kernels.Options{Dump: func(p string) { programs = append(programs, p) }})
	require.NoError(t, err)
	s, in := draw(t, "b=1,t=70,hk=1,hv=2,k=16,v=24,init,direction=train")
	got, err := layer.Compute(k, s, nil, in)
	require.NoError(t, err)
	agree(t, s, in, got)
	require.Len(t, k.Inserted(), 2)
	require.Regexp(t, `^gdngen_gdn_forward_\d+$`, k.Inserted()[0])
	require.Regexp(t, `^gdngen_gdn_backward_\d+$`, k.Inserted()[1])
	require.Empty(t, k.Refused())
	require.Len(t, programs, 1)
	require.Contains(t, programs[0], "func.func private @"+k.Inserted()[0]+"(")
	require.Contains(t, programs[0], "stablehlo.while")

	// Kimi Delta Attention is inserted as well.
	s, in = draw(t, "b=1,t=70,hk=1,hv=2,k=16,v=24,init,gates=fused,l2norm,direction=train,rule=kda,bound=-5")
	got, err = layer.Compute(k, s, nil, in)
	require.NoError(t, err)
	agree(t, s, in, got)
	require.Len(t, k.Inserted(), 4)
	require.Empty(t, k.Refused())

	// A decode step, and a spec again: functions have names of their own.
	s, in = draw(t, "b=2,t=1,hk=1,hv=2,k=16,v=24,init")
	for range 2 {
		got, err = layer.Compute(k, s, nil, in)
		require.NoError(t, err)
		agree(t, s, in, got)
	}
	require.Len(t, k.Inserted(), 6)
}

// Where no kernel can be made, the same call computes by graph code, and says why.
func TestFallback(t *testing.T) {
	v4, err := target.Lookup("v4")
	require.NoError(t, err)
	k, err := kernels.Wrap(layertest.Backend(t, device.XLA), kernels.Options{Target: v4})
	require.NoError(t, err)
	s, in := draw(t, "b=1,t=8,hk=1,hv=1,k=2048,v=2048") // a state of 16 MiB, all the vector memory there is
	got, err := layer.Compute(k, s, nil, in)
	require.NoError(t, err)
	agree(t, s, in, got)
	require.Empty(t, k.Inserted())
	require.NotEmpty(t, k.Refused())
	require.ErrorContains(t, k.Refused()[0], "vector memory")

	// So it does on a backend that takes no programs.
	_, err = kernels.Wrap(layertest.Backend(t, device.Go), kernels.Options{})
	require.ErrorContains(t, err, "takes no generated programs")
	s, in = draw(t, "b=1,t=9,hk=1,hv=1,k=8,v=8")
	got, err = layer.Compute(layertest.Backend(t, device.Go), s, nil, in)
	require.NoError(t, err)
	agree(t, s, in, got)
}

// For a GPU the graph holds Triton's kernels as PTX, and XLA compiles it; a gradient is plain StableHLO.
func TestGPU(t *testing.T) {
	h100, err := target.LookupGPU("h100")
	require.NoError(t, err)
	maker, err := ptx.NewMaker(t.Context(), h100, plugins.Options{Progress: os.Stderr})
	var c plugins.CUDATools
	if err == nil {
		c, err = plugins.CUDA(t.Context(), plugins.Options{Progress: os.Stderr})
	}
	if err != nil && os.Getenv("CI") == "" {
		t.Skipf("not tested: %v", err)
	}
	require.NoError(t, err)
	var program string
	k, err := kernels.Wrap(layertest.Backend(t, device.XLA), kernels.Options{PTX: maker, Dump: func(p string) { program = p }})
	require.NoError(t, err)
	compiler := aot.New(aot.Options{CUDA: c.Path, Toolkit: c.Toolkit})
	defer compiler.Close()
	for text, calls := range map[string]int{
		"b=2,t=1,hk=1,hv=2,k=32,v=32,dtype=bf16,init":                 1,
		"b=2,t=1,hk=1,hv=2,k=32,v=32,dtype=bf16,init,direction=train": 1,
	} {
		program = ""
		s, in := draw(t, text)
		before := len(k.Inserted())
		_, err = layer.Compute(k, s, nil, in)
		require.ErrorContains(t, err, ptx.Target) // the client is a CPU's
		inserted := k.Inserted()[before:]
		require.NotEmpty(t, inserted)
		require.Contains(t, inserted[0], "gdngen_ptx_")
		require.Equal(t, s.Direction == gdn.Train, len(inserted) > 1, inserted)
		require.Equal(t, calls, strings.Count(program, ptx.Target))
		require.NoError(t, ptx.AssembleAll(t.Context(), c.PTXAS(), program, h100))
		_, err = compiler.Compile(t.Context(), aot.Request{Module: program, Topology: h100.Name})
		require.NoError(t, err)
	}

	// What the kernels can not compute is plain StableHLO, and says why.
	s, in := draw(t, "b=1,t=4,hk=1,hv=1,k=512,v=16")
	got, err := layer.Compute(k, s, nil, in)
	require.NoError(t, err)
	agree(t, s, in, got)
	require.ErrorContains(t, k.Refused()[0], "256")
}

// For a TPU the graph holds Mosaic kernels, and libtpu compiles it.
func TestTPU(t *testing.T) {
	v6e, err := target.Lookup("v6e")
	require.NoError(t, err)
	for _, text := range []string{
		"b=1,t=256,hk=1,hv=2,k=128,v=128,dtype=bf16,direction=train",
		"b=1,t=128,hk=1,hv=1,k=128,v=128,dtype=bf16,direction=train,rule=kda,bound=-5,gates=fused,l2norm",
	} {
		var program string
		k, err := kernels.Wrap(layertest.Backend(t, device.XLA), kernels.Options{Target: v6e, Dump: func(p string) { program = p }})
		require.NoError(t, err)
		s, in := draw(t, text)
		_, err = layer.Compute(k, s, nil, in)
		require.Error(t, err) // the client is a CPU's
		require.Len(t, k.Inserted(), 2, "%v", k.Refused())
		require.Contains(t, program, "@tpu_custom_call")
		require.NotContains(t, program, "stablehlo.while")

		_, err = pjrttest.TPU(t).Compile(context.Background(), aot.Request{Module: program, Topology: v6e.Topology, Flags: v6e.Flags})
		require.NoError(t, err)
	}
}
