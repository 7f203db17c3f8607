package target_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/ir/target"
)

// Every GPU has every fact, or says that it is not known, and no name is one of two machines.
func TestEveryGPU(t *testing.T) {
	names := map[string]bool{}
	for _, x := range target.All() {
		for _, name := range append([]string{x.Name}, x.OtherNames...) {
			names[name] = true
		}
	}
	for _, g := range target.GPUs() {
		require.NoError(t, g.Check())
		for _, name := range append([]string{g.Name}, g.OtherNames...) {
			require.False(t, names[name], name)
			names[name] = true
			found, err := target.LookupGPU(strings.ToUpper(name))
			require.NoError(t, err)
			require.Same(t, g, found)
		}
	}
	_, err := target.LookupGPU("h10")
	require.EqualError(t, err, `unknown GPU "h10" (known: h100 b200)`)
}

// A device of a model is one of its GPU, whatever its form; others are of none.
func TestGPUOfKind(t *testing.T) {
	for kind, name := range map[string]string{"NVIDIA H100 80GB HBM3": "h100", "NVIDIA H100 PCIe": "h100", "NVIDIA B200": "b200",
		"NVIDIA H200": "h100", "NVIDIA GH200 480GB": "h100", "NVIDIA H20": "h100", "NVIDIA H800": "h100", "NVIDIA GB200": "b200"} {
		g := target.GPUOfKind(kind)
		require.NotNil(t, g, kind)
		require.Equal(t, name, g.Name)
	}
	for _, kind := range []string{"", "NVIDIA A100-SXM4-80GB", "NVIDIA B300 SXM6", "TPU v6 lite", "cpu"} {
		require.Nil(t, target.GPUOfKind(kind), kind)
	}
}

// A GPU is no TPU: what is made for TPUs says so.
func TestGPURefused(t *testing.T) {
	_, err := target.Lookup("Hopper")
	require.ErrorContains(t, err, "target h100 is a GPU, and this is for TPU generations (v4 v5e v5p v6e tpu7x): for GPUs there are")
	_, err = target.Parse("v6e,b200")
	require.ErrorContains(t, err, "b200 is a GPU")
}

// A list of GPUs has no TPU, and none twice.
func TestParseGPUs(t *testing.T) {
	list, err := target.ParseGPUs("all")
	require.NoError(t, err)
	require.Equal(t, target.GPUs(), list)
	list, err = target.ParseGPUs("b200, sm90,")
	require.NoError(t, err)
	require.Equal(t, []*target.GPU{target.GPUs()[1], target.GPUs()[0]}, list)
	for text, fault := range map[string]string{
		"h100,v6e":    "target v6e is a TPU generation, and this is for GPUs (h100 b200)",
		"h100,hopper": "target h100 is given twice",
		"h101":        `unknown GPU "h101"`,
	} {
		_, err = target.ParseGPUs(text)
		require.ErrorContains(t, err, fault)
	}
}

// A row that leaves a fact out does not pass: no field may be zero but those whose zero is a fact.
func TestMissingGPU(t *testing.T) {
	h100, err := target.LookupGPU("h100")
	require.NoError(t, err)
	row, fields := *h100, 0
	set(t, "", reflect.ValueOf(&row).Elem(), func(path string) {
		fields++
		changed := reflect.ValueOf(&row).Elem()
		for _, name := range strings.Split(path, ".") {
			changed = reflect.Indirect(changed).FieldByName(name)
		}
		changed.SetZero()
		if path == "OtherNames" || path == "Kin" || path == "Unknown" || path == "Calibrated" { // whose zero is a fact
			require.NoError(t, row.Check(), path)
		} else {
			require.ErrorContains(t, row.Check(), path)
		}
	})
	require.Greater(t, fields, 25)
	row = *h100
	row.SharedProgram = row.Shared
	require.ErrorContains(t, row.Check(), "target h100: a program may have 233472 bytes of shared memory, more than the 232448 of an SM")
}

// The peaks are those of NVIDIA's data sheets (dense bf16: 989 and 2250 TFLOP/s), at the clocks of the rows.
func TestPeak(t *testing.T) {
	for name, peak := range map[string]float64{"h100": 989e12, "b200": 2250e12} {
		g, err := target.LookupGPU(name)
		require.NoError(t, err)
		require.InEpsilon(t, peak, g.PeakFlops()*g.Clock, .06, name)
	}
}
