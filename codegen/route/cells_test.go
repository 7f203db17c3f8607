package route_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/codegen/route"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/build"
	"github.com/gdngen/gdngen/ir"
)

// Variants that differ in their schedules alone share what is built and tiled, and get what each would alone.
func TestCells(t *testing.T) {
	for _, row := range []struct {
		spec, variant string
		same, other   []string // changes that keep the base, and that do not
	}{
		{"t=256,hk=2,hv=4,k=32,v=32,dtype=bf16", "tpu,chunk=32,mergepairs=0", []string{"phases_before=2,state_delay=6", "head_group=1", "state_delay=3", "prologue_end=80", "phases_before=1,interleave=yes", "steps=2"},
			[]string{"heads=2", "steps=4,chunks=4", "beta=left"}},
		{"t=96,seqs=3,hk=2,hv=4,k=32,v=32,dtype=bf16,init,inplace", "tpu-packed,chunk=32", []string{"state_delay=3", "head_group=2"}, []string{"prefetch=dma", "phases_before=0,steps=1,head_group=0"}},
		{"t=256,hk=2,hv=4,k=32,v=32,dtype=bf16,direction=train", "tpu-train,chunk=32", []string{"bwd.head_group=1", "bwd.head_skew=2", "bwd.state_delay=3", "bwd.phases_after=0"}, []string{"save=none"}},
	} {
		s, v := spec(t, row.spec), variant(t, row.variant)
		var cells route.Cells
		_, err := cells.Form(s, v).Kernels()
		require.NoError(t, err, row.variant)
		first := cells.Last()
		for i, changes := range append(append([]string{""}, row.same...), row.other...) {
			w := v
			if changes != "" {
				w = variant(t, row.variant+","+changes)
			}
			alone, err := build.Module(s, w)
			require.NoError(t, err, changes)
			f := cells.Form(s, w)
			m, err := f.Build()
			require.NoError(t, err, changes)
			require.Equal(t, alone.String(), m.String(), changes)
			want, err := route.Kernels(alone)
			require.NoError(t, err, changes)
			k, err := f.Kernels()
			require.NoError(t, err, changes)
			require.Equal(t, want.String(), k.String(), changes)
			now := cells.Last()
			if i <= len(row.same) {
				require.True(t, now == first, "%s has a base of its own", changes)
			} else {
				require.False(t, now == first, "%s has the base of another", changes)
			}
		}
		require.LessOrEqual(t, cells.Kept(), 4)
	}
	_, err := new(route.Cells).Form(spec(t, "tiny"), gdn.Variant{}).Kernels()
	require.Error(t, err)
}

// A schedule of another base is refused.
func TestSchedulesOfOneBase(t *testing.T) {
	s := spec(t, "tiny")
	base, err := build.BaseOf(s, variant(t, "tpu"))
	require.NoError(t, err)
	p, err := base.Build()
	require.NoError(t, err)
	_, err = p.Schedules(variant(t, "tpu,beta=left"))
	require.ErrorContains(t, err, "is none for a program of")
}

// What the second schedule of a cell costs: by a form of its own, and by one that shares what is built and tiled.
func BenchmarkSecondSchedule(b *testing.B) {
	s, err := gdn.Parse("bench")
	require.NoError(b, err)
	var vs []gdn.Variant
	for _, text := range []string{"tpu", "tpu,state_delay=3", "tpu,state_delay=6"} {
		v, err := gdn.ParseVariant(text)
		require.NoError(b, err)
		vs = append(vs, v)
	}
	kernels := func(b *testing.B, f *route.Form) *ir.Module {
		m, err := f.Kernels()
		require.NoError(b, err)
		return m
	}
	b.Run("alone", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			kernels(b, route.NewForm(s, vs[i%len(vs)]))
		}
	})
	b.Run("shared", func(b *testing.B) {
		var cells route.Cells
		kernels(b, cells.Form(s, vs[0]))
		for i := 0; b.Loop(); i++ {
			kernels(b, cells.Form(s, vs[1+i%2]))
		}
	})
}
