package target_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/codegen/lower"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/model"
	"github.com/gdngen/gdngen/measure"
	"github.com/gdngen/gdngen/pjrt/aot"
	"github.com/gdngen/gdngen/target"
)

// mayBeZero are the facts whose zero says something, with what.
var mayBeZero = map[string]string{
	"BF16VPU": "no bf16 in the vector unit", "RowGather": "gathers along lanes alone", "Flags": "the defaults of the compiler do",
	"OtherNames": "the field has no other name", "MostDelay": "all branches have BranchDelay", "Timing": "no wall", "Attention": "not measured",
	"Timing.MatmulPop": "addressed results", "Timing.PairFirst": "no pushes of pairs",
}

// Every target has every fact, and no two share what names a machine.
func TestEveryFact(t *testing.T) {
	names := map[string]string{}
	for _, row := range target.All() {
		var walk func(path string, v reflect.Value)
		walk = func(path string, v reflect.Value) {
			for i := range v.NumField() {
				name := strings.TrimPrefix(path+"."+v.Type().Field(i).Name, ".")
				f := v.Field(i)
				switch {
				case f.IsZero():
					require.Contains(t, mayBeZero, name, "%s has no %s", row.Name, name)
				case f.Kind() == reflect.Pointer:
					walk(name, f.Elem())
				case f.Kind() == reflect.Struct:
					walk(name, f)
				}
			}
		}
		walk("", reflect.ValueOf(*row))
		for _, name := range slices.Concat([]string{row.Name, row.Topology, row.Kind, row.PCI}, row.OtherNames) {
			require.NotContains(t, names, name, "%s and %s", row.Name, names[name])
			names[name] = row.Name
		}
	}
}

// A made-up generation is one row: what follows from facts works, and what is not known of it is refused or said.
func TestOneRow(t *testing.T) {
	v6e, err := target.Lookup("v6e")
	require.NoError(t, err)
	row := *v6e
	row.Name, row.Topology, row.Kind, row.PCI, row.OtherNames = "v9x", "v9x:2x2", "TPU v9 extra", "0x0099", []string{"maple"}
	row.MXUSize, row.VMEM, row.Timing, row.Attention = 128, 32<<20, nil, target.Attention{}
	made := target.Add(t, row)

	for _, name := range []string{"v9x", "Maple"} {
		found, err := target.Lookup(name)
		require.NoError(t, err)
		require.Same(t, made, found)
	}
	found, err := target.OfKind("TPU v9 extra")
	require.NoError(t, err)
	require.Same(t, made, found)
	require.Same(t, made, target.OfPCI("0x0099"))
	require.Nil(t, target.OfPCI(""))
	_, err = target.Lookup("v9")
	require.ErrorContains(t, err, "tpu7x v9x)")

	// Its sizes choose the variant, its memory and units the program and the bounds.
	s, err := gdn.Parse("bench,t=512")
	require.NoError(t, err)
	route, err := lower.Lookup("mosaic")
	require.NoError(t, err)
	text := func(x *target.Target) (gdn.Variant, string) {
		p, err := measure.Make(s, "auto", route, x)
		require.NoError(t, err)
		text, err := p.Text(x)
		require.NoError(t, err)
		return p.Variant, text
	}
	ours, program := text(made)
	theirs, other := text(v6e)
	require.NotEqual(t, theirs, ours, "matrix units of 128 rows have variants of their own")
	require.NotEqual(t, other, program)
	require.Equal(t, v6e.PeakFlops()/4, made.PeakFlops())
	require.NotEqual(t, measure.Facts(v6e), measure.Facts(made))

	require.Equal(t, measure.Throughput, measure.Wall.On("v9x"), "latencies are not known")
	_, err = model.AttentionCycles(model.Config{}, made, false)
	require.ErrorContains(t, err, "v9x is not known")

	// The compiler's child is asked for its topology: a wrong one is refused before, by the row.
	c := aot.New(aot.Options{Libtpu: "none"})
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	_, err = c.Compile(t.Context(), aot.Request{Topology: "v9x:0x2", Module: "module {}"})
	require.ErrorContains(t, err, "as in v9x:2x2")
}

// Costs are kept by the facts of a target: these are those that tests/programs/costs.tsv was made with.
func TestFacts(t *testing.T) {
	for name, facts := range map[string]string{"v5e": "f1844723", "v6e": "5a68a2c9", "tpu7x": "e5c37be0"} {
		x, err := target.Lookup(name)
		require.NoError(t, err)
		require.Equal(t, facts, measure.Facts(x), name)
	}
}
