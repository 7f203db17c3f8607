package target

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// GPU is one model of NVIDIA's GPUs: the facts that its generator, its checks and its cost model need. Rates are those of the whole device.
//
// A field whose zero is a fact has a tag with its meaning. Any other that is zero is a fact that the row names in Unknown: see Check.
type GPU struct {
	Name       string   // h100
	OtherNames []string `zero:"the field has no other name"`
	Kind       string   // what the runtime calls such a device
	Capability int      // compute capability: 90 is 9.0
	SMs        int      // streaming multiprocessors
	Schedulers int      // of an SM: each issues one warp instruction a cycle
	Registers  int      // of 32 bits, of an SM
	Shared     int      // bytes of shared memory of an SM
	// SharedProgram is the most shared memory of one program (thread block), and SharedReserved what the driver takes of each besides.
	SharedProgram, SharedReserved int
	Threads                       int     // of an SM, at most
	Programs                      int     // thread blocks of an SM, at most
	L2                            int     // bytes of the second cache
	Memory                        int     // bytes of main memory that programs may have
	DRAM                          float64 // bytes per second of main memory by its data sheet
	Copy                          float64 // bytes per second that a copy reaches: the floor of modelled times
	Clock                         float64 // cycles per second under load
	MatmulBF16                    int     // multiply-adds of one scheduler's matrix unit a cycle
	Timing                        *GPUTiming
	Calibrated                    string `zero:"the table is of public microbenchmarks"` // the device that it was fitted on, and when

	Unknown []string `zero:"all is known"` // facts that nobody has found out: names of fields
}

// GPUTiming is the latencies and issue intervals by which times of machine code are modelled, in cycles: one table for all kernels.
type GPUTiming struct {
	DRAM        float64 // from a load of main memory to its value
	Shared      float64 // from a load of shared memory to its value
	Fragment    float64 // from ldmatrix to its value
	Store       float64 // until a store to shared memory has read its registers
	GlobalStore float64 // until a store to main memory has
	Shuffle     float64
	Special     float64 // exp2, rsqrt and conversions
	SystemReg   float64
	Vector      float64 // multiply-adds of f32
	Integer     float64 // integers, logic, selects
	Uniform     float64
	Double      float64
	Matmul      float64 // of one warp, mma.sync
	MatmulUse   float64 // share of the matrix unit that mma.sync reaches
	Barrier     float64
	Release     float64 // until an instruction frees the registers that it reads
	Launch      float64 // microseconds of the shortest kernel, in a graph
}

// GPUCalibration is what a device said of a row's table.
type GPUCalibration struct {
	Timing GPUTiming `json:"timing"`
	Copy   float64   `json:"copy"`  // bytes per second
	Clock  float64   `json:"clock"` // cycles per second under load
	Device string    `json:"device"`
	Date   string    `json:"date"`
}

// Calibrate replaces the table of a GPU by what a device said, for this process; it goes before anything is modelled.
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
// descriptions that XLA compiles with (xla/backends/gpu/target_config). What `gdngen device calibrate --attached` tells of the h100 (Copy, Clock, and of
// Timing all but Store, GlobalStore, SystemReg, Vector, Integer, Uniform, Double, Matmul and Release, which are public microbenchmarks) was
// told by an H100 80GB HBM3 on 2026-11-26. The b200's Copy is the figure of XLA. Clocks of rows without Timing are the highest, not those under load.
// An h20 reaches 148 TFLOP/s by its data sheet, by what clock and what units is not public.
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

// chip gives a row what all GPUs of compute capability 9.0 and 10.x have.
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

// PeakFlops is the most floating point operations per cycle: all matrix units full of bf16.
func (g *GPU) PeakFlops() float64 { return 2 * float64(g.SMs*g.Schedulers*g.MatmulBF16) }

// GPUs lists the supported models, oldest first.
func GPUs() []*GPU {
	list := make([]*GPU, len(gpus))
	for i := range gpus {
		list[i] = &gpus[i]
	}
	return list
}

// GPUNames lists the names of the GPUs.
func GPUNames() []string {
	var names []string
	for _, g := range gpus {
		names = append(names, g.Name)
	}
	return names
}

// LookupGPU finds a GPU by name, or by another that the field has for it; case makes no difference.
func LookupGPU(name string) (*GPU, error) {
	name = strings.ToLower(name)
	for i := range gpus {
		if gpus[i].Name == name || slices.Contains(gpus[i].OtherNames, name) {
			return &gpus[i], nil
		}
	}
	return nil, fmt.Errorf("unknown GPU %q (known: %s)", name, strings.Join(GPUNames(), " "))
}

// Start is the row that a calibration begins with: the GPU, where it has no table with that of another of its compute capability. It is nil where
// none has one, and for a GPU that is no row, whose calibration nothing would read.
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

// Device is what is known of an attached GPU; what is zero is not known.
type Device struct {
	Kind            string // what the runtime calls it
	Capability, SMs int
	Memory          int // bytes
}

// near says that nothing known of a device contradicts a row.
func (d Device) near(g *GPU) bool {
	return (d.Capability == 0 || d.Capability == g.Capability) && (d.SMs == 0 || d.SMs == g.SMs) && (d.Memory == 0 || 20*abs(d.Memory-g.Memory) <= 3*g.Memory)
}

func abs(x int) int { return max(x, -x) }

// GPUOf finds the GPU that a device is: the row of its name, another row of its compute capability, multiprocessors and memory, else a row of its own, in
// which all is Unknown that only rows tell. Every device of compute capability 9.0 or 10.x has one, for kernels depend on no more.
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

// Missing says of a GPU that is no row what is not known of it; empty for a row.
func (g *GPU) Missing() string {
	if _, err := LookupGPU(g.Name); err == nil {
		return ""
	}
	return fmt.Sprintf("%s is no row of GPUs: it takes the kernels of its compute capability, %d.%d, and no times are modelled, for of it are not known %s",
		g.Kind, g.Capability/10, g.Capability%10, strings.Join(slices.Sorted(slices.Values(g.Unknown)), ", "))
}

// ParseGPUs reads names of GPUs, separated by commas; "all" stands for every one. A TPU generation is refused by name.
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

// AreGPUs says whether names, separated by commas, begin with that of a GPU; ParseGPUs refuses others behind it by name. "all" are TPU generations.
func AreGPUs(text string) bool {
	first, _, _ := strings.Cut(text, ",")
	_, err := LookupGPU(strings.TrimSpace(first))
	return err == nil
}

// GPUError says that a GPU was named where a TPU generation is wanted.
type GPUError struct{ Name string }

func (e *GPUError) Error() string {
	return fmt.Sprintf("target %s is a GPU, and this is for TPU generations (%s): for GPUs there are gen --backend triton, check --engine triton, compile --target and explain --target", e.Name, strings.Join(Names(), " "))
}

// Check finds what is wrong with a row, all of it.
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
