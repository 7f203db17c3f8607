package route_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/codegen/route"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/internal/rotate"
	"github.com/gdngen/gdngen/ir/target"
	"github.com/gdngen/gdngen/pjrt/aot"
	"github.com/gdngen/gdngen/pjrt/pjrttest"
	"github.com/gdngen/gdngen/pjrt/plugins"
)

func TestMain(m *testing.M) {
	aot.RunWorkerIfAsked()
	os.Exit(m.Run())
}

// The TPU compiler takes whole programs, each for two targets that rotate by commit.
func TestCompile(t *testing.T) {
	c := pjrttest.TPU(t)
	for i, row := range []struct{ spec, variant string }{
		{"t=256,hk=1,hv=2,k=128,v=128,dtype=bf16", "tpu"},
		{"t=100,hk=2,hv=2,k=64,v=128,dtype=bf16,gates=fused,gatedtype=bf16,seqs=3,init,state=vk,empty=zero,packed", "bf16,chunk=32"},
		{"b=4,t=1,hk=1,hv=4,k=128,v=128,dtype=bf16,gates=fused,init", "token,batch=2"},
		{"b=2,t=50,hk=1,hv=2,k=48,v=60,l2norm", "chunk=16,leaf=4,leafby=neumann,layout=bthd,fuse=kernel,chunks=2"},
		{"t=70,hk=1,hv=1,k=96,v=256,final=false", "split-uw,chunk=32,phases_before=1"},
		{"t=64,hk=2,hv=2,k=256,v=96,dtype=bf16,init", "solve=block,leaf=16,flow=solve,prec=bf16x3,heads=1"},
	} {
		s, v := spec(t, row.spec), variant(t, row.variant)
		for _, target := range rotate.Sample(20+uint64(i), target.All(), 2) {
			a, err := route.Program(s, v, "mosaic", target)
			require.NoError(t, err, "%s by %s for %s", s, v, target.Name)
			_, err = c.Compile(t.Context(), aot.Request{Topology: target.Topology, Module: a.Text, Flags: target.Flags})
			require.NoError(t, err, "%s by %s for %s", s, v, target.Name)
		}
	}
}

// The oldest libtpu that docs/device.md promises takes two programs, a prompt with logarithms to base 2 and packed sequences, where the
// cache has that release.
func TestOldestLibtpu(t *testing.T) {
	cache, err := plugins.CacheDir()
	require.NoError(t, err)
	path := filepath.Join(cache, "plugins", "libtpu-0.0.42.1", "libtpu.so")
	if _, err := os.Stat(path); err != nil {
		t.Logf("nothing is compiled by libtpu 0.0.42.1: %v; docs/device.md says how it comes there", err)
		return
	}
	c := aot.New(aot.Options{Libtpu: path, Timeout: 5 * time.Minute})
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	v6e, err := target.Lookup("v6e")
	require.NoError(t, err)
	for text, name := range map[string]string{"t=256,hk=1,hv=2,k=128,v=128,dtype=bf16": "tpu", "t=256,hk=1,hv=2,k=128,v=128,dtype=bf16,seqs=3": "tpu-packed"} {
		a, err := route.Program(spec(t, text), variant(t, name), "mosaic", v6e)
		require.NoError(t, err)
		_, err = c.Compile(t.Context(), aot.Request{Topology: v6e.Topology, Module: a.Text})
		require.NoError(t, err, "%s by %s", text, name)
	}
}

// A program that can not fit is refused before the compiler sees it, with what takes the room and what to change.
func TestTooLarge(t *testing.T) {
	target, err := target.Lookup("v5e")
	require.NoError(t, err)
	s, v := spec(t, "b=8,t=256,hk=32,hv=32,k=256,v=256,dtype=bf16"), variant(t, "batch=8,layout=bthd,solve=forward")
	_, err = route.Program(s, v, "mosaic", target)
	require.ErrorContains(t, err, "of vector memory, v5e has 128 MiB: put fewer heads, batch rows or chunks in a program, or shorten the chunk; the biggest users: output 1 vmem:f32[8,32,256,256] twice (128.00 MiB)")
	v.Mapping.Heads, v.Mapping.Batch, v.Layout = 4, 1, gdn.LayoutBHTD
	_, err = route.Program(s, v, "mosaic", target)
	require.NoError(t, err)
}
