package target_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/autotune/measure"
	"github.com/gdngen/gdngen/autotune/ruler"
	"github.com/gdngen/gdngen/codegen/route"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/model"
	"github.com/gdngen/gdngen/ir/target"
	"github.com/gdngen/gdngen/pjrt/aot"
	"github.com/gdngen/gdngen/pjrt/device"
)

// Every target has every fact, or says that it is not known, and no two share what names a machine.
func TestEveryFact(t *testing.T) {
	names := map[string]string{}
	for _, row := range target.All() {
		require.NoError(t, row.Check())
		for _, name := range slices.Concat([]string{row.Name, row.Topology, row.Kind, row.PCI}, row.OtherNames) {
			require.NotContains(t, names, name, "%s and %s", row.Name, names[name])
			names[name] = row.Name
		}
	}
}

// set gives each field at and below v, by its path, another value while do runs; a field of a kind that it does not know fails the test.
func set(t *testing.T, path string, v reflect.Value, do func(path string)) {
	old := reflect.New(v.Type()).Elem()
	old.Set(v)
	defer v.Set(old)
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			set(t, strings.TrimPrefix(path+"."+v.Type().Field(i).Name, "."), v.Field(i), do)
		}
		return
	case reflect.Pointer:
		other := reflect.New(v.Type().Elem())
		other.Elem().Set(v.Elem())
		v.Set(other)
		set(t, path, other.Elem(), do)
		return
	case reflect.String:
		v.SetString(v.String() + "x")
	case reflect.Int, reflect.Int64:
		v.SetInt(v.Int() + 1)
	case reflect.Float64:
		v.SetFloat(v.Float() + 1)
	case reflect.Bool:
		v.SetBool(!v.Bool())
	case reflect.Map:
		v.Set(reflect.ValueOf(map[string]string{"xla_made_up": "true"}))
	case reflect.Slice:
		v.Set(reflect.ValueOf([]string{"x"}))
	default:
		require.FailNow(t, "a field of a kind that this test can not change", path)
	}
	do(path)
}

// A row that leaves a fact out does not pass: no field may be zero but those whose zero is a fact.
func TestMissing(t *testing.T) {
	zero := map[string]bool{ // whose zero is a fact
		"Flags": true, "OtherNames": true, "MostDelay": true, "BF16VPU": true, "RowGather": true, "Unknown": true,
		"Timing.MatmulPop": true, "Timing.PairFirst": true,
	}
	v6e, err := target.Lookup("v6e")
	require.NoError(t, err)
	row, fields := *v6e, 0
	v := reflect.ValueOf(&row).Elem()
	set(t, "", v, func(path string) {
		fields++
		changed, below := reflect.ValueOf(&row).Elem(), strings.Split(path, ".")
		for i, name := range below {
			if changed = changed.FieldByName(name); i < len(below)-1 && changed.Kind() == reflect.Pointer {
				changed = changed.Elem()
			}
		}
		changed.SetZero()
		if zero[path] {
			require.NoError(t, row.Check(), path)
		} else {
			require.ErrorContains(t, row.Check(), path)
		}
	})
	require.Greater(t, fields, 60)
	require.Equal(t, *v6e, row, "as before")

	for fault, change := range map[string]func(){
		`target v6e: [Timing]: give the fact, or name Timing in Unknown`:   func() { row.Timing = nil },
		`target v6e: Clock is given and in Unknown`:                        func() { row.Unknown = []string{"Clock"} },
		`target v6e: Unknown has "Clok", which is no field`:                func() { row.Unknown = []string{"Clok"} },
		`target v6e: registers of 16 x 128: kernels are tiled for 8 x 128`: func() { row.Register.Rows = 16 },
		`target v6e: name "V6": use small letters and digits`:              func() { row.OtherNames = []string{"V6"} },
		`target v6e: topology "v6e": a generation and chips per dimension`: func() { row.Topology = "v6e" },
		`target v6e: PCI id "6f": four digits as Linux writes them`:        func() { row.PCI = "6f" },
	} {
		row = *v6e
		change()
		require.ErrorContains(t, row.Check(), fault)
	}
}

// What a cost follows from is in its key. Left out are facts that no schedule of a module is counted by.
func TestCostFacts(t *testing.T) {
	apart := []string{
		"OtherNames", "PCI", "Unknown", // names
		"RowGather", "Register.Rows", "Register.Lanes", // what is emitted follows: the text of a program is in the key
		"Slots.", "Attention.", // of estimates and bounds
		"MostDelay", // with the version of the cost model
	}
	v6e, err := target.Lookup("v6e")
	require.NoError(t, err)
	row := *v6e
	set(t, "", reflect.ValueOf(&row).Elem(), func(path string) {
		left := slices.ContainsFunc(apart, func(name string) bool { return strings.HasPrefix(path, name) })
		require.Equal(t, left, row.CostFacts() == v6e.CostFacts(), path)
	})
}

// A made-up generation is one row: what follows from facts works, and unknown facts are refused or reported.
func TestOneRow(t *testing.T) {
	v6e, err := target.Lookup("v6e")
	require.NoError(t, err)
	row := *v6e
	row.Name, row.Topology, row.Kind, row.PCI, row.OtherNames = "v9x", "v9x:2x2", "TPU v9 extra", "0x0099", []string{"maple"}
	row.MXUSize, row.VMEM, row.Timing, row.Attention = 128, 32<<20, nil, target.Attention{}
	row.Unknown = []string{"Timing", "Attention"}
	require.NoError(t, row.Check())
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
	require.ErrorContains(t, err, "tpu7x v9x; GPUs: h100 h200 gh200 h20 b200 gb200 b300 gb300)")

	// Its sizes choose the variant, its memory and units the program and the bounds.
	s, err := gdn.Parse("bench,t=512")
	require.NoError(t, err)
	route, err := route.Lookup("mosaic")
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
	require.NotEqual(t, theirs, ours, "MXUs of 128 rows have variants of their own")
	require.NotEqual(t, other, program)
	require.Equal(t, v6e.PeakFlops()/4, made.PeakFlops())
	require.NotEqual(t, measure.Facts(v6e), measure.Facts(made))

	require.Equal(t, ruler.Issue, ruler.InOrder.On("v9x"), "latencies are not known")
	_, err = model.AttentionCycles(model.Config{}, made, false)
	require.ErrorContains(t, err, "v9x is not known")

	// A device of its kind is one for its programs, and for no others.
	on, err := device.Info{Platform: "tpu", Kind: "TPU v9 extra"}.Match("plugin", []*target.Target{made}, true)
	require.NoError(t, err)
	require.Same(t, made, on)
	_, err = device.Info{Platform: "tpu", Kind: "TPU v9 extra"}.Match("plugin", []*target.Target{v6e}, true)
	require.ErrorContains(t, err, "is a v9x (TPU v9 extra), and programs are wanted for v6e (TPU v6 lite)")

	// The compiler's child is asked for its topology: a wrong one is refused before, by the row.
	c := aot.New(aot.Options{Libtpu: "none"})
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	_, err = c.Compile(t.Context(), aot.Request{Topology: "v9x:0x2", Module: "module {}"})
	require.ErrorContains(t, err, "as in v9x:2x2")
}

// Costs are kept by the facts of a target: these are those that tests/programs/costs.tsv was made with.
func TestFacts(t *testing.T) {
	for name, facts := range map[string]string{"v4": "d3b0664f", "v5e": "f1844723", "v5p": "dab4718c", "v6e": "5a68a2c9", "tpu7x": "e5c37be0"} {
		x, err := target.Lookup(name)
		require.NoError(t, err)
		require.Equal(t, facts, measure.Facts(x), name)
	}
}
