package target

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// GPU is one model of NVIDIA's GPUs, with the facts for its generator, checks and cost model. Rates are for the whole device.
//
// A field that may be zero has a tag with the meaning of zero. Other zero fields must be listed in Unknown: see Check.
type GPU struct {
	Name       string   // h100
	OtherNames []string `zero:"the field has no other name"`
	Kind       string   // device name from the runtime
	Capability int      // compute capability: 90 is 9.0
	SMs        int      // number of streaming multiprocessors
	Schedulers int      // per SM; each issues one warp instruction per cycle
	Registers  int      // 32-bit registers per SM
	Shared     int      // bytes of shared memory per SM
	// SharedProgram is the largest shared memory of a thread block in bytes; the driver takes SharedReserved more for each.
	SharedProgram, SharedReserved int
	Threads                       int     // most threads per SM
	Programs                      int     // most thread blocks per SM
	L2                            int     // bytes of L2 cache
	Memory                        int     // bytes of HBM available to programs
	DRAM                          float64 // HBM bytes per second by the data sheet
	Copy                          float64 // HBM bytes per second that a copy reaches: the floor of modelled times
	Clock                         float64 // cycles per second under load
	MatmulBF16                    int     // multiply-adds per cycle of one scheduler's tensor core
	Timing                        *GPUTiming
	Calibrated                    string `zero:"the table is of public microbenchmarks"` // device and date of the calibration

	Unknown []string `zero:"all is known"` // names of fields with unknown facts
}

// GPUTiming has latencies and issue intervals in cycles for modelling machine code: one table for all kernels.
type GPUTiming struct {
	DRAM        float64 // from a load of HBM to its value
	Shared      float64 // from a load of shared memory to its value
	Fragment    float64 // from ldmatrix to its value
	Store       float64 // until a store to shared memory has read its registers
	GlobalStore float64 // until a store to HBM has read its registers
	Shuffle     float64
	Special     float64 // exp2, rsqrt and conversions
	SystemReg   float64
	Vector      float64 // multiply-adds of f32
	Integer     float64 // integers, logic, selects
	Uniform     float64
	Double      float64
	Matmul      float64 // mma.sync of one warp
	MatmulUse   float64 // fraction of the tensor core that mma.sync reaches
	Barrier     float64
	Release     float64 // until an instruction releases its source registers
	Launch      float64 // microseconds of the shortest kernel in a graph
}

// GPUCalibration has measurements of a device that replace a row's table.
type GPUCalibration struct {
	Timing GPUTiming `json:"timing"`
	Copy   float64   `json:"copy"`  // bytes per second
	Clock  float64   `json:"clock"` // cycles per second under load
	Device string    `json:"device"`
	Date   string    `json:"date"`
}

// Calibrate replaces a GPU's timing table for this process. Call it before modelling anything. It fails unless copy, clock, DRAM and MatmulUse are positive.
func (g *GPU) Calibrate(c GPUCalibration) error {
	for name, x := range map[string]float64{"copy": c.Copy, "clock": c.Clock, "timing.DRAM": c.Timing.DRAM, "timing.MatmulUse": c.Timing.MatmulUse} {
		if !(x > 0) {
			return fmt.Errorf("calibration of %s: %s is %v, and more than 0 is wanted: calibrate again", g.Name, name, x)
		}
	}
	g.Timing, g.Copy, g.Clock, g.Calibrated = &c.Timing, c.Copy, c.Clock, c.Device+", "+c.Date
	return nil
}

// gpus are the supported models, oldest first. Sources: data sheets and architecture white papers of NVIDIA, and the device
// descriptions that XLA compiles with (xla/backends/gpu/target_config). For the h100, Copy, Clock and most of Timing were measured by
// `gdngen device calibrate --attached` on an H100 80GB HBM3, 2026-11-26. Its Store, GlobalStore, SystemReg, Vector, Integer, Uniform, Double, Matmul and
// Release are public microbenchmarks. The b200's Copy is XLA's figure. Rows without Timing have the highest clock, not the clock under load.
// An h20 reaches 148 TFLOP/s by its data sheet; by which clock and units is not public.
var gpus = []GPU{
	chip(GPU{
		Name: "h100", OtherNames: []string{"hopper", "sm90"}, Kind: "NVIDIA H100 80GB HBM3", Capability: 90, SMs: 132,
		L2: 50 << 20, Memory: 84942979072, DRAM: 3.35e12, Copy: 2.825e12, Clock: 1.773e9,
		Timing: &GPUTiming{
			DRAM: 489, Shared: 33.1, Fragment: 21.2, Store: 20, GlobalStore: 30, Shuffle: 20, Special: 9, SystemReg: 25, Vector: 4, Integer: 5, Uniform: 12, Double: 10,
			Matmul: 33, MatmulUse: .667, Barrier: 19.1, Release: 12, Launch: .856,
		},
	}),
	chip(GPU{Name: "h200", Kind: "NVIDIA H200", Capability: 90, SMs: 132, L2: 50 << 20, Memory: 151397597184, DRAM: 4.8e12, Clock: 1.98e9, Unknown: []string{"Copy", "Timing"}}),
	chip(GPU{Name: "gh200", Kind: "NVIDIA GH200 480GB", Capability: 90, SMs: 132, L2: 60 << 20, Memory: 102 << 30, DRAM: 4e12, Clock: 1.98e9, Unknown: []string{"Copy", "Timing"}}),
	chip(GPU{Name: "h20", Kind: "NVIDIA H20", Capability: 90, SMs: 78, L2: 60 << 20, Memory: 102 << 30, DRAM: 4e12, Clock: 1.98e9, Unknown: []string{"Copy", "Timing", "MatmulBF16"}}),
	chip(GPU{
		Name: "b200", OtherNames: []string{"blackwell", "sm100"}, Kind: "NVIDIA B200", Capability: 100, SMs: 148,
		L2: 132644864, Memory: 191514411008, DRAM: 8e12, Copy: 7.67e12, Clock: 1.965e9, Unknown: []string{"Timing"},
	}),
	chip(GPU{Name: "gb200", Kind: "NVIDIA GB200", Capability: 100, SMs: 152, L2: 135528448, Memory: 197897748480, DRAM: 7.928e12, Clock: 2.062e9, Unknown: []string{"Copy", "Timing"}}),
	chip(GPU{Name: "b300", OtherNames: []string{"sm103"}, Kind: "NVIDIA B300", Capability: 103, SMs: 158, L2: 135528448, Memory: 297021865984, DRAM: 7.936e12, Clock: 1.965e9, Unknown: []string{"Copy", "Timing"}}),
	chip(GPU{Name: "gb300", Kind: "NVIDIA GB300", Capability: 103, SMs: 152, L2: 135528448, Memory: 297021079552, DRAM: 7.928e12, Clock: 2.07e9, Unknown: []string{"Copy", "Timing"}}),
}

// chip adds the facts that all GPUs of compute capability 9.0 and 10.x share.
func chip(g GPU) GPU {
	g.Schedulers, g.Registers, g.Shared, g.SharedProgram, g.SharedReserved, g.Threads, g.Programs = 4, 65536, 233472, 232448, 1024, 2048, 32
	if !slices.Contains(g.Unknown, "MatmulBF16") {
		g.MatmulBF16 = 512
		if g.Capability >= 100 {
			g.MatmulBF16 = 1024
		}
	}
	return g
}

// PeakFlops returns the largest number of bf16 floating point operations per cycle, with all tensor cores busy.
func (g *GPU) PeakFlops() float64 { return 2 * float64(g.SMs*g.Schedulers*g.MatmulBF16) }

// GPUs returns the supported models, oldest first.
func GPUs() []*GPU {
	list := make([]*GPU, len(gpus))
	for i := range gpus {
		list[i] = &gpus[i]
	}
	return list
}

// GPUNames returns the names of the GPUs.
func GPUNames() []string {
	var names []string
	for _, g := range gpus {
		names = append(names, g.Name)
	}
	return names
}

// LookupGPU returns the GPU with this name or alternative name, ignoring case, or an error that lists the names.
func LookupGPU(name string) (*GPU, error) {
	name = strings.ToLower(name)
	for i := range gpus {
		if gpus[i].Name == name || slices.Contains(gpus[i].OtherNames, name) {
			return &gpus[i], nil
		}
	}
	return nil, fmt.Errorf("unknown GPU %q (known: %s)", name, strings.Join(GPUNames(), " "))
}

// Start returns the row from which a calibration starts: g itself, or g with the timing of a GPU of the same compute capability. It is nil if no such
// GPU has timing, and for a GPU without a row, since nothing would read its calibration.
func (g *GPU) Start() *GPU {
	if g.Timing != nil {
		return g
	}
	i := slices.IndexFunc(gpus, func(x GPU) bool { return x.Capability == g.Capability && x.Timing != nil })
	if i < 0 || g.Missing() != "" {
		return nil
	}
	own := *g
	own.Timing, own.Copy = gpus[i].Timing, gpus[i].Copy
	return &own
}

// Device describes an attached GPU; zero fields are unknown.
type Device struct {
	Kind            string // device name from the runtime
	Capability, SMs int
	Memory          int // bytes
}

// near reports whether the known facts of a device agree with a row (memory within 15 %).
func (d Device) near(g *GPU) bool {
	return (d.Capability == 0 || d.Capability == g.Capability) && (d.SMs == 0 || d.SMs == g.SMs) && (d.Memory == 0 || 20*abs(d.Memory-g.Memory) <= 3*g.Memory)
}

func abs(x int) int { return max(x, -x) }

// GPUOf returns the GPU for a device: the row with its name, else a row with its compute capability, SM count and memory, else a new row whose
// other facts are Unknown. Kernels only depend on compute capability, so every device of 9.0 or 10.x works; other devices are errors.
func GPUOf(d Device) (*GPU, error) {
	for word := range strings.FieldsSeq(strings.ToLower(d.Kind)) {
		if i := slices.IndexFunc(gpus, func(g GPU) bool { return g.Name == word && d.near(&g) }); i >= 0 {
			return &gpus[i], nil
		}
	}
	switch {
	case d.Capability == 0:
		return nil, fmt.Errorf("%s: no row has this name (%s), and by its compute capability, which would do, it is not known", d.Kind, strings.Join(GPUNames(), " "))
	case d.Capability != 90 && d.Capability/10 != 10:
		return nil, fmt.Errorf("%s has compute capability %d.%d, and kernels are for 9.0 and 10.x", d.Kind, d.Capability/10, d.Capability%10)
	}
	if i := slices.IndexFunc(gpus, func(g GPU) bool { return d.SMs != 0 && d.Memory != 0 && d.near(&g) }); i >= 0 {
		return &gpus[i], nil
	}
	g := chip(GPU{Name: fmt.Sprintf("gpu%dx%d", d.Capability, d.SMs), Kind: d.Kind, Capability: d.Capability, SMs: d.SMs, Memory: d.Memory,
		Unknown: []string{"L2", "DRAM", "Copy", "Clock", "MatmulBF16", "Timing"}})
	for name, x := range map[string]int{"SMs": d.SMs, "Memory": d.Memory} {
		if x == 0 {
			g.Unknown = append(g.Unknown, name)
		}
	}
	return &g, nil
}

// Missing returns, for a GPU without a row, a sentence that lists its unknown facts; "" for a row.
func (g *GPU) Missing() string {
	if _, err := LookupGPU(g.Name); err == nil {
		return ""
	}
	return fmt.Sprintf("%s is no row of GPUs: it takes the kernels of its compute capability, %d.%d, and no times are modelled, for of it are not known %s",
		g.Kind, g.Capability/10, g.Capability%10, strings.Join(slices.Sorted(slices.Values(g.Unknown)), ", "))
}

// ParseGPUs returns the GPUs with these names, separated by commas; "all" means every one. Unknown names, TPU generations and duplicates are errors.
func ParseGPUs(text string) ([]*GPU, error) {
	if text == "all" {
		return GPUs(), nil
	}
	var list []*GPU
	for name := range strings.SplitSeq(strings.TrimSuffix(text, ","), ",") {
		g, err := LookupGPU(strings.TrimSpace(name))
		if t, no := Lookup(strings.TrimSpace(name)); err != nil && no == nil {
			return nil, fmt.Errorf("target %s is a TPU generation, and this is for GPUs (%s)", t.Name, strings.Join(GPUNames(), " "))
		}
		if err != nil {
			return nil, err
		}
		if slices.Contains(list, g) {
			return nil, fmt.Errorf("target %s is given twice", g.Name)
		}
		list = append(list, g)
	}
	return list, nil
}

// AreGPUs reports whether the first of the names, separated by commas, is a GPU; ParseGPUs then refuses other names. "all" means TPU generations.
func AreGPUs(text string) bool {
	first, _, _ := strings.Cut(text, ",")
	_, err := LookupGPU(strings.TrimSpace(first))
	return err == nil
}

// GPUError reports a GPU name where a TPU generation is required.
type GPUError struct{ Name string }

func (e *GPUError) Error() string {
	return fmt.Sprintf("target %s is a GPU, and this is for TPU generations (%s): for GPUs there are gen --backend triton, check --engine triton, compile --target and explain --target", e.Name, strings.Join(Names(), " "))
}

// Check returns all faults of a row joined.
func (g *GPU) Check() error {
	faults := facts(g.Name, reflect.ValueOf(*g), g.Unknown)
	for _, name := range append([]string{g.Name}, g.OtherNames...) {
		if !plainName.MatchString(name) {
			faults = append(faults, fmt.Errorf("target %s: name %q: use small letters and digits, a letter first", g.Name, name))
		}
	}
	if g.SharedProgram > g.Shared-g.SharedReserved {
		faults = append(faults, fmt.Errorf("target %s: a program may have %d bytes of shared memory, more than the %d of an SM", g.Name, g.SharedProgram, g.Shared-g.SharedReserved))
	}
	return errors.Join(faults...)
}
