package gpu

import (
	"context"
	_ "embed"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"text/template"

	"github.com/gdngen/gdngen/ir/target"
	"github.com/gdngen/gdngen/pjrt/gpu/sass"
)

// micro is a microkernel: a loop that saturates one unit, or waits for it. Its time determines one constant of the table.
type micro struct {
	name  string
	warps int
	turns int
	// body is an unrolled step of PTX; count is how often it occurs per loop iteration.
	body     string
	count    int
	constant func(*target.GPUTiming) *float64
	low      float64 // the constant is in [low, high]
	high     float64
}

// stride is the distance in bytes between the chained loads from HBM: no page, line or bank is hit twice.
const stride = 66048

// micros are chains of dependent instructions, whose cycles are latencies, and one of independent products, whose cycles are a rate.
// Arithmetic and products of a warp need no microkernel: ptxas wrote their latencies into the code as stalls. Values are zeros from
// memory, unknown to the compiler. The chain through HBM is last, since the clock is up by then.
var micros = []micro{
	{name: "special", warps: 1, turns: 512, count: 32, body: "ex2.approx.ftz.f32 %f0, %f0;", constant: func(t *target.GPUTiming) *float64 { return &t.Special }, low: 1, high: 256},
	{name: "shuffle", warps: 1, turns: 512, count: 32, body: "shfl.sync.bfly.b32 %r0, %r0, 1, 31, 0xffffffff;", constant: func(t *target.GPUTiming) *float64 { return &t.Shuffle }, low: 1, high: 256},
	{name: "shared", warps: 1, turns: 512, count: 32, body: "ld.shared.b32 %r0, [%r9]; add.s32 %r9, %r9, %r0;", constant: func(t *target.GPUTiming) *float64 { return &t.Shared }, low: 1, high: 256},
	{name: "fragment", warps: 1, turns: 512, count: 16, body: "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r0, %r3, %r4, %r5}, [%r9]; add.s32 %r9, %r9, %r0;",
		constant: func(t *target.GPUTiming) *float64 { return &t.Fragment }, low: 1, high: 256},
	{name: "barrier", warps: 4, turns: 512, count: 16, body: "bar.sync 0;", constant: func(t *target.GPUTiming) *float64 { return &t.Barrier }, low: 1, high: 256},
	{name: "matmuluse", warps: 16, turns: 512, count: 2, body: product("0") + product("1") + product("2") + product("3") + product("4") + product("5") + product("6") + product("7"),
		constant: func(t *target.GPUTiming) *float64 { return &t.MatmulUse }, low: .02, high: 1},
	{name: "dram", warps: 1, turns: 64, count: 16, body: "ld.global.b32 %r0, [%rd2]; cvt.u64.u32 %rd4, %r0; add.s64 %rd2, %rd2, %rd4; add.s64 %rd2, %rd2, " + strconv.Itoa(stride) + ";",
		constant: func(t *target.GPUTiming) *float64 { return &t.DRAM }, low: 50, high: 5000},
}

// product returns a product of a warp that adds to accumulator n.
func product(n string) string {
	c := strings.ReplaceAll("{%cN_0, %cN_1, %cN_2, %cN_3}", "N", n)
	return "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 " + c + ", {%r1, %r2, %r1, %r2}, {%r1, %r2}, " + c + "; "
}

//go:embed micro.ptx.tmpl
var microText string

var microTemplate = template.Must(template.New("micro").Parse(microText))

// microPTX returns the PTX of a microkernel, or of copy or empty, whose m is nil.
func microPTX(name string, m *micro) (string, error) {
	var b strings.Builder
	data := map[string]any{"Name": name, "Accumulators": []int{0, 1, 2, 3, 4, 5, 6, 7}}
	if m != nil {
		data["Body"] = strings.ReplaceAll(strings.TrimSpace(strings.Repeat(m.body+"\n", m.count)), "\n", "\n\t")
	}
	err := microTemplate.Execute(&b, data)
	return b.String(), err
}

// microkernels compiles the microkernels for a GPU.
func (t *Toolkit) microkernels(ctx context.Context, g *target.GPU) (map[string]Launch, error) {
	dir, err := os.MkdirTemp("", "gdngen-gpu-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	args := []string{"assemble", filepath.Join(dir, launchesFile), strconv.Itoa(g.Capability)}
	write := func(name string, m *micro) error {
		text, err := microPTX(name, m)
		if err != nil {
			return err
		}
		path := filepath.Join(dir, name+".ptx")
		args = append(args, path)
		return os.WriteFile(path, []byte(text), 0o644)
	}
	for i := range micros {
		if err := write(micros[i].name, &micros[i]); err != nil {
			return nil, err
		}
	}
	for _, name := range []string{"copy", "empty"} {
		if err := write(name, nil); err != nil {
			return nil, err
		}
	}
	if err := writeChild(dir); err != nil {
		return nil, err
	}
	if err := t.child(ctx, args...); err != nil {
		return nil, err
	}
	c, err := ReadCapture(dir)
	if err != nil {
		return nil, err
	}
	kernels := map[string]Launch{}
	for _, l := range c.Launches {
		if l.Refused != "" {
			return nil, fmt.Errorf("microkernel %s: %s", l.Kernel, l.Refused)
		}
		kernels[l.Kernel] = l.Launch
	}
	return kernels, nil
}

// turn returns the modelled cycles per loop iteration of a microkernel.
func (m *micro) turn(code *sass.Code, g *target.GPU) (float64, error) {
	c, err := code.Model(sass.Launch{Programs: 1, Warps: m.warps, Trips: 4}, g)
	if err != nil {
		return 0, err
	}
	return c.Turn, nil
}

// solve sets the constant of a microkernel so that the modelled cycles per iteration match the measured ones. Cycles rise with a latency and
// fall with a rate, so bisection finds it.
func (m *micro) solve(code *sass.Code, g *target.GPU, took float64) (modelled float64, err error) {
	x := m.constant(g.Timing)
	at := func(v float64) (float64, error) {
		*x = v
		return m.turn(code, g)
	}
	low, high := m.low, m.high
	first, err := at(low)
	if err != nil {
		return 0, err
	}
	last, err := at(high)
	if err != nil {
		return 0, err
	}
	rises := last > first
	for range 50 {
		middle := (low + high) / 2
		cycles, err := at(middle)
		if err != nil {
			return 0, err
		}
		if cycles < took == rises {
			low = middle
		} else {
			high = middle
		}
	}
	return at(math.Round(1e3*(low+high)/2) / 1e3)
}

// job runs a microkernel once, and out then has its cycles. The microkernel of products runs on the whole device and is also timed:
// cycles over time are the clock under load.
func (m *micro) job(dir string, l Launch, g *target.GPU) (*job, error) {
	j := &job{Name: m.name, Tensors: map[string]jobTensor{"out": {Bytes: 1 << 14}, "data": {Bytes: stride * (m.turns*m.count + 1)}}, Outputs: map[string]string{"out": m.name + ".out"}}
	l.Grid, l.Warps = [3]int{1, 1, 1}, m.warps
	l.Arguments = []Argument{{Tensor: "out"}, {Tensor: "data"}, {Scalar: true, DType: "I32", Value: float64(m.turns)}}
	if m.name != "dram" {
		j.Tensors["data"] = jobTensor{Bytes: 4096}
	}
	if m.name == "matmuluse" {
		l.Grid[0], j.Time = g.SMs, timedRuns
	}
	return j, j.add(dir, l)
}

const copyTurns, copyPrograms, copyWarps = 64, 8, 8

// copied returns the number of bytes that the copy reads; it writes as many.
func copied(g *target.GPU) float64 {
	return float64(copyTurns * copyPrograms * g.SMs * copyWarps * 32 * 16)
}

// wideJob times the copy, or the empty kernel.
func wideJob(dir string, l Launch, g *target.GPU) (*job, error) {
	j := &job{Name: l.Kernel, Tensors: map[string]jobTensor{"out": {Bytes: 16}, "data": {Bytes: 16}}, Time: timedRuns}
	l.Grid, l.Warps = [3]int{1, 1, 1}, 1
	if l.Kernel == "copy" {
		l.Grid[0], l.Warps = copyPrograms*g.SMs, copyWarps
		j.Tensors = map[string]jobTensor{"out": {Bytes: int(copied(g))}, "data": {Bytes: int(copied(g))}}
	}
	l.Arguments = []Argument{{Tensor: "out"}, {Tensor: "data"}, {Scalar: true, DType: "I32", Value: copyTurns}}
	return j, j.add(dir, l)
}

// cycles returns the measured cycles of a microkernel's loop.
func (m *micro) cycles(dir string) (float64, error) {
	data, err := os.ReadFile(filepath.Join(dir, m.name+".out"))
	if err != nil {
		return 0, err
	}
	n := binary.LittleEndian.Uint64(data)
	if n == 0 || n > 1<<40 {
		return 0, fmt.Errorf("microkernel %s: the device says %d cycles", m.name, n)
	}
	return float64(n) / float64(m.turns), nil
}
