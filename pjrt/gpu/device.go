package gpu

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/ir/array"
	"github.com/gdngen/gdngen/ir/target"
)

//go:embed device.py
var deviceText string

// Info is the driver's description of the attached GPU.
type Info struct {
	Name       string  `json:"name"`
	Capability int     `json:"capability"`
	SMs        int     `json:"sms"`
	L2         int     `json:"l2"`
	Memory     int     `json:"memory"`
	Clock      float64 `json:"clock"` // cycles per second, at most
	Driver     int     `json:"driver"`
}

// Target returns the GPU target of a device; it errs for an unknown one.
func (i Info) Target() (*target.GPU, error) {
	return target.GPUOf(target.Device{Kind: i.Name, Capability: i.Capability, SMs: i.SMs, Memory: i.Memory})
}

// NoDevice says why no GPU can be used here.
type NoDevice struct{ Reason string }

func (e *NoDevice) Error() string { return e.Reason }

// Driver returns a *NoDevice if NVIDIA's driver library is missing, before anything is downloaded. Without python3 to look for it, it
// returns nil.
func Driver(ctx context.Context) error {
	python, err := exec.LookPath("python3")
	if err != nil {
		return nil
	}
	name := cmp.Or(os.Getenv("GDNGEN_CUDA_DRIVER"), "libcuda.so.1")
	text, err := exec.CommandContext(ctx, python, "-c", "import ctypes, sys\ntry: ctypes.CDLL(sys.argv[1])\nexcept OSError as e: print(e)", name).Output()
	if said := strings.TrimSpace(string(text)); err == nil && said != "" {
		return &NoDevice{"no driver of NVIDIA is here: " + said}
	}
	return nil
}

// job is a program for the device, with its wanted outputs.
type job struct {
	Name     string               `json:"name"`
	Tensors  map[string]jobTensor `json:"tensors"`
	Launches []jobLaunch          `json:"launches"`
	Outputs  map[string]string    `json:"outputs,omitempty"` // tensors, with the files they are written to
	Time     int                  `json:"time,omitempty"`    // runs per round
}

type jobTensor struct {
	Bytes int    `json:"bytes"`
	File  string `json:"file,omitempty"` // with its values
	Fill  int    `json:"fill,omitempty"` // the value of each byte, without a file
}

type jobLaunch struct {
	Cubin     string        `json:"cubin"`
	Function  string        `json:"function"`
	Grid      [3]int        `json:"grid"`
	Threads   int           `json:"threads"`
	Shared    int           `json:"shared"`
	Arguments []jobArgument `json:"arguments"`
}

type jobArgument struct {
	Kind   string  `json:"kind"` // tensor, i32 or f32
	Tensor string  `json:"tensor,omitempty"`
	Value  float64 `json:"value,omitempty"`
}

// reply is the result of a job.
type reply struct {
	Name  string    `json:"name"`
	Error string    `json:"error"`
	Times []float64 `json:"us"` // per run, one entry per round
}

// newJob puts a file's launches into a job's folder, with the inputs and the initial contents of outputs.
func newJob(dir, name string, launches []Launch, tensors map[string]*array.Array) (*job, error) {
	j := &job{Name: name, Tensors: map[string]jobTensor{}}
	for name, x := range tensors {
		file := fmt.Sprintf("%x-%s.in", &x.Data[0], name)
		j.Tensors[name] = jobTensor{Bytes: len(x.Data), File: file}
		if err := os.WriteFile(filepath.Join(dir, file), x.Data, 0o644); err != nil {
			return nil, err
		}
	}
	for _, l := range launches {
		if err := j.add(dir, l); err != nil {
			return nil, err
		}
	}
	return j, nil
}

// add adds a launch to a job, and its code to the folder.
func (j *job) add(dir string, l Launch) error {
	file := l.SHA256 + ".cubin"
	if err := os.WriteFile(filepath.Join(dir, file), l.Cubin, 0o644); err != nil {
		return err
	}
	if l.Scratch > 0 {
		return fmt.Errorf("kernel %s wants %d bytes of scratch memory, which no launch here has", l.Kernel, l.Scratch)
	}
	launch := jobLaunch{Cubin: file, Function: l.Kernel, Grid: l.Grid, Threads: 32 * l.Warps, Shared: l.Shared}
	for _, a := range l.Arguments {
		if a.Scalar {
			launch.Arguments = append(launch.Arguments, jobArgument{Kind: strings.ToLower(a.DType), Value: a.Value})
			continue
		}
		if _, ok := j.Tensors[a.Tensor]; !ok {
			t, err := a.Type()
			if err != nil {
				return err
			}
			j.Tensors[a.Tensor] = jobTensor{Bytes: t.Bytes(), Fill: 0xff} // NaN where nothing is written
		}
		launch.Arguments = append(launch.Arguments, jobArgument{Kind: "tensor", Tensor: a.Tensor})
	}
	j.Launches = append(j.Launches, launch)
	return nil
}

// device runs jobs in a child, the only process that uses the driver. It leaves outputs in the folder.
func (t *Toolkit) device(ctx context.Context, dir string, jobs ...*job) (Info, []reply, error) {
	text, err := json.Marshal(map[string]any{"programs": append([]*job{}, jobs...)})
	if err != nil {
		return Info{}, nil, err
	}
	program, file, results := filepath.Join(dir, "device.py"), filepath.Join(dir, "job.json"), filepath.Join(dir, "results.json")
	for path, text := range map[string][]byte{program: []byte(deviceText), file: text} {
		if err := os.WriteFile(path, text, 0o644); err != nil {
			return Info{}, nil, err
		}
	}
	if err := run(ctx, t.Command(ctx, program, file, results), 0); err != nil {
		return Info{}, nil, err
	}
	if text, err = os.ReadFile(results); err != nil {
		return Info{}, nil, err
	}
	var answer struct {
		Device   Info    `json:"device"`
		Error    string  `json:"error"`
		Programs []reply `json:"programs"`
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		return Info{}, nil, err
	}
	if answer.Error != "" {
		return Info{}, nil, &NoDevice{answer.Error}
	}
	for _, p := range answer.Programs {
		if p.Error != "" {
			return answer.Device, nil, fmt.Errorf("%s, on %s: %s", p.Name, answer.Device.Name, p.Error)
		}
	}
	return answer.Device, answer.Programs, nil
}

// Device returns the description of the attached GPU.
func (t *Toolkit) Device(ctx context.Context) (Info, error) {
	dir, err := os.MkdirTemp("", "gdngen-device-")
	if err != nil {
		return Info{}, err
	}
	defer os.RemoveAll(dir)
	info, _, err := t.device(ctx, dir)
	return info, err
}

// Run computes a file's launches on the attached GPU: a spec's outputs from its inputs.
func (t *Toolkit) Run(ctx context.Context, launches []Launch, s gdn.Spec, inputs map[string]*array.Array) (map[string]*array.Array, error) {
	var outputs []string
	for _, p := range s.Outputs() {
		outputs = append(outputs, p.Name)
	}
	return t.run(ctx, launches, s.String(), arguments(s, inputs), outputs)
}

// run returns the contents of the named tensors after some launches.
func (t *Toolkit) run(ctx context.Context, launches []Launch, name string, tensors map[string]*array.Array, outputs []string) (map[string]*array.Array, error) {
	dir, err := os.MkdirTemp("", "gdngen-device-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	j, err := newJob(dir, name, launches, tensors)
	if err != nil {
		return nil, err
	}
	j.Outputs = map[string]string{}
	for _, name := range outputs {
		j.Outputs[name] = name + ".out"
	}
	if _, _, err := t.device(ctx, dir, j); err != nil {
		return nil, err
	}
	after := map[string]*array.Array{}
	for _, name := range outputs {
		x := array.New(tensors[name].Type, tensors[name].Shape...)
		data, err := os.ReadFile(filepath.Join(dir, name+".out"))
		if err != nil {
			return nil, err
		}
		if len(data) != len(x.Data) {
			return nil, fmt.Errorf("output %s: %d bytes from the device, want %d", name, len(data), len(x.Data))
		}
		copy(x.Data, data)
		after[name] = x
	}
	return after, nil
}

// Timed is a program to time: the launches of a spec's file, with inputs.
type Timed struct {
	Name     string
	Spec     gdn.Spec
	Inputs   map[string]*array.Array
	Launches []Launch
}

// timedRuns is the number of runs per round.
const timedRuns = 50

// Time returns the median microseconds per run of each program: runs are back to back in a graph, over copies of the tensors that no
// cache holds.
func (t *Toolkit) Time(ctx context.Context, programs []Timed) ([]float64, error) {
	dir, err := os.MkdirTemp("", "gdngen-device-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	var jobs []*job
	for _, p := range programs {
		j, err := newJob(dir, p.Name, p.Launches, arguments(p.Spec, p.Inputs))
		if err != nil {
			return nil, err
		}
		j.Time = timedRuns
		jobs = append(jobs, j)
	}
	_, list, err := t.device(ctx, dir, jobs...)
	if err != nil {
		return nil, err
	}
	var times []float64
	for _, x := range list {
		times = append(times, median(x.Times))
	}
	return times, nil
}

func median(list []float64) float64 {
	list = slices.Sorted(slices.Values(list))
	return list[len(list)/2]
}
