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
	require.EqualError(t, err, `unknown GPU "h10" (known: h100 h200 gh200 h20 b200 gb200 b300 gb300)`)
}

// A device is the row of its name, or of its compute capability, multiprocessors and memory; else a row of its own that says what it lacks.
func TestGPUOf(t *testing.T) {
	const gb = 1000000000
	for _, x := range []struct {
		target.Device
		name, missing string
	}{
		{target.Device{Kind: "NVIDIA H100 80GB HBM3"}, "h100", ""},
		{target.Device{Kind: "NVIDIA H200", Capability: 90, SMs: 132, Memory: 150 * gb}, "h200", ""},
		{target.Device{Kind: "NVIDIA GH200 480GB", Capability: 90, SMs: 132}, "gh200", ""},
		{target.Device{Kind: "NVIDIA H20", Capability: 90, SMs: 78}, "h20", ""},
		{target.Device{Kind: "NVIDIA B300 SXM6 AC"}, "b300", ""},
		{target.Device{Kind: "NVIDIA GB200", Capability: 100, SMs: 152}, "gb200", ""},
		{target.Device{Kind: "an unheard-of name", Capability: 90, SMs: 132, Memory: 85 * gb}, "h100", ""},
		{target.Device{Kind: "NVIDIA H100 PCIe", Capability: 90, SMs: 114, Memory: 85 * gb}, "gpu90x114", "Clock, Copy, DRAM, L2, MatmulBF16, Timing"},
		{target.Device{Kind: "NVIDIA X", Capability: 101}, "gpu101x0", "Clock, Copy, DRAM, L2, MatmulBF16, Memory, SMs, Timing"},
	} {
		g, err := target.GPUOf(x.Device)
		require.NoError(t, err)
		require.NoError(t, g.Check())
		require.Equal(t, x.name, g.Name)
		require.Contains(t, g.Missing(), x.missing)
		require.Equal(t, x.missing == "", g.Missing() == "")
	}
	for fault, d := range map[string]target.Device{
		"compute capability 8.0, and kernels are for 9.0 and 10.x": {Kind: "NVIDIA A100-SXM4-80GB", Capability: 80},
		"12.0":                        {Kind: "NVIDIA RTX PRO 6000", Capability: 120},
		"it is not known":             {Kind: "NVIDIA H100X"},
		"no row has this name (h100 ": {},
	} {
		_, err := target.GPUOf(d)
		require.ErrorContains(t, err, fault)
	}
}

// A calibration begins with a table of the same compute capability.
func TestStart(t *testing.T) {
	for name, has := range map[string]bool{"h100": true, "h200": true, "h20": true, "b200": false, "b300": false} {
		g, err := target.LookupGPU(name)
		require.NoError(t, err)
		require.Equal(t, has, g.Start() != nil, name)
		require.Equal(t, name == "h100", g.Timing != nil, name)
	}
	g, err := target.GPUOf(target.Device{Kind: "NVIDIA H100 PCIe", Capability: 90, SMs: 114})
	require.NoError(t, err)
	require.Nil(t, g.Start(), "nothing would read it")
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
	require.Equal(t, []*target.GPU{target.GPUs()[4], target.GPUs()[0]}, list)
	for text, fault := range map[string]string{
		"h100,v6e":    "target v6e is a TPU generation, and this is for GPUs (h100 h200 gh200 h20 b200 gb200 b300 gb300)",
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
		if path == "OtherNames" || path == "Unknown" || path == "Calibrated" { // whose zero is a fact
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
