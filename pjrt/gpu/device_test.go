package gpu

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/codegen/triton"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/truth"
	"github.com/gdngen/gdngen/ir/target"
	"github.com/gdngen/gdngen/pjrt/gpu/sass"
)

// stub builds a driver that has no GPU, for the child to load in place of NVIDIA's, and gives the folder of what its launches do.
func stub(t *testing.T) string {
	dir := t.TempDir()
	library := filepath.Join(dir, "libstub.so")
	out, err := exec.Command("gcc", "-shared", "-fPIC", "-o", library, "testdata/driver.c").CombinedOutput()
	require.NoError(t, err, string(out))
	t.Setenv("GDNGEN_CUDA_DRIVER", library)
	t.Setenv("STUB", dir)
	return dir
}

// compiled is a decode step for the stub, and its inputs.
func compiled(t *testing.T, k *Toolkit, spec string) FrontProgram {
	s, err := gdn.Parse(spec)
	require.NoError(t, err)
	v, source := program(t, s, "auto")
	launches, err := k.Compile(t.Context(), source, s, h100(t))
	require.NoError(t, err)
	class, err := truth.LookupClass("random")
	require.NoError(t, err)
	inputs, err := class.Generate(s, 1)
	require.NoError(t, err)
	work := triton.WorkOf(s, v)
	return FrontProgram{Timed{"decode", s, inputs, launches}, "auto", work.Of}
}

// What the child does with a driver: who the device is, outputs of launches from what the device writes, and faults.
func TestDevice(t *testing.T) {
	k := open(t)
	t.Setenv("GDNGEN_CUDA_DRIVER", "/no/such/driver.so")
	_, err := k.Device(t.Context())
	require.True(t, errors.As(err, new(*NoDevice)))
	require.ErrorContains(t, err, "no driver of NVIDIA is here")

	dir := stub(t)
	info, err := k.Device(t.Context())
	require.NoError(t, err)
	require.Equal(t, Info{Name: "Stub H100", Capability: 90, SMs: 132, L2: 4096, Memory: 85000000000, Clock: 1.98e9, Driver: 13000}, info)
	g, err := info.Target()
	require.NoError(t, err)
	require.Equal(t, "h100", g.Name)
	_, err = Info{Name: "A100", Capability: 80}.Target()
	require.ErrorContains(t, err, "A100 has compute capability 8.0, and kernels are for 9.0 and 10.x")

	p := compiled(t, k, "contest-decode,b=1,hk=1,hv=1")
	l := p.Launches[0]
	names := map[string]int{}
	for i, a := range l.Arguments {
		require.False(t, a.Scalar)
		names[a.Tensor] = i
	}
	want := map[string][]byte{}
	for _, o := range p.Spec.Outputs() {
		i, ok := names[o.Name]
		require.True(t, ok, o.Name)
		kind, err := l.Arguments[i].Type()
		require.NoError(t, err)
		want[o.Name] = make([]byte, kind.Bytes())
		for j := range want[o.Name] {
			want[o.Name][j] = byte(7*j + i)
		}
		require.NoError(t, os.WriteFile(filepath.Join(dir, fmt.Sprintf("decode.%d", i)), want[o.Name], 0o644))
	}
	got, err := k.Run(t.Context(), p.Launches, p.Spec, p.Inputs)
	require.NoError(t, err)
	for name, data := range want {
		require.Equal(t, data, got[name].Data, name)
	}

	require.NoError(t, os.WriteFile(filepath.Join(dir, "times.txt"), []byte("decode 0 3.5\n"), 0o644))
	times, err := k.Time(t.Context(), []Timed{p.Timed, p.Timed})
	require.NoError(t, err)
	require.InEpsilonSlice(t, []float64{3.5, 3.5}, times, 1e-4)
	t.Setenv("STUB_FAULT", "decode")
	_, err = k.Time(t.Context(), []Timed{p.Timed})
	require.ErrorContains(t, err, "decode, on Stub H100: cuLaunchKernel: CUDA_ERROR_LAUNCH_FAILED (719)")
}

// A table is fitted to times that a device of another table gives: its constants are found, modelled times come nearer, and the fit is kept.
func TestCalibrate(t *testing.T) {
	k := open(t)
	dir := stub(t)
	kernels, err := k.microkernels(t.Context(), h100(t))
	require.NoError(t, err)
	hidden := fitted(h100(t))
	hidden.Timing.DRAM, hidden.Timing.Shared, hidden.Timing.Shuffle, hidden.Timing.MatmulUse, hidden.Timing.Launch, hidden.Copy = 760, 24, 27, .7, 1.5, 2.8e12
	times := ""
	for i := range micros {
		m := &micros[i]
		code, err := sass.Parse(kernels[m.name].SASS, kernels[m.name].Usage)
		require.NoError(t, err)
		turn, err := m.turn(code, hidden)
		require.NoError(t, err)
		cycles := turn * float64(m.turns)
		times += fmt.Sprintf("%s %f %f\n", m.name, cycles, cycles/1700+1.5)
	}
	times += fmt.Sprintf("empty 0 1.5\ncopy 0 %f\n", 2*copied(h100(t))/2.8e6)
	p := compiled(t, k, "contest-decode,b=1")
	list, err := Model(p.Launches, hidden, p.Work)
	require.NoError(t, err)
	times += fmt.Sprintf("decode 0 %f\n", Time(list)+1.5)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "times.txt"), []byte(times), 0o644))

	c, err := k.Calibrate(t.Context(), h100(t), []FrontProgram{p, p, p}, t.Logf)
	require.NoError(t, err)
	got := c.Table.Timing
	for name, x := range map[string][2]float64{
		"DRAM": {760, got.DRAM}, "Shared": {24, got.Shared}, "Shuffle": {27, got.Shuffle}, "Launch": {1.5, got.Launch},
		"Special": {h100(t).Timing.Special, got.Special}, "MatmulUse": {.7, got.MatmulUse}, "Copy": {2.8e12, c.Table.Copy}, "Clock": {1.7e9, c.Table.Clock},
	} {
		require.InEpsilon(t, x[0], x[1], .03, name)
	}
	require.Equal(t, h100(t).Timing.Double, got.Double, "what nothing tells is kept")
	require.Greater(t, c.Before, 1.1)
	require.Less(t, c.After, 1.06, "but for the clock")
	for _, r := range c.Micro[:len(micros)] {
		require.InDelta(t, 0, r.Residual, .01, r.Name)
	}

	file := filepath.Join(t.TempDir(), "folder", "gpu-h100.json")
	require.NoError(t, c.Save(file))
	again, err := ReadCalibration(file)
	require.NoError(t, err)
	require.Equal(t, c, again)
	g := *h100(t)
	require.NoError(t, g.Calibrate(again.Table))
	require.InEpsilon(t, 760, g.Timing.DRAM, .03)
	require.Contains(t, g.Calibrated, "Stub H100, 20")
	again.Table.Copy = 0
	require.ErrorContains(t, new(target.GPU).Calibrate(again.Table), "copy is 0")
}
