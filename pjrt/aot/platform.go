package aot

import (
	"maps"
	"path/filepath"

	"github.com/gdngen/gdngen/ir/target"
)

// platform is what one kind of devices asks of the worker and of its orders.
type platform struct {
	plugin        string // its name in messages
	library, path string // the file that is loaded, by name and by place
	schedule, hlo string // patterns of dumped files: the schedule, and the optimised module
	vague         bool   // its fingerprints are the same for other devices and other code
	passes        string // the variable that carries Request.Passes; empty where there is none
	// environment is what the plugin must find before it is loaded. link is where it dumps.
	environment   func(link, passes, extra string) []string
	checkTopology func(name string) error
	// device is the options of a topology, and flags what every compile has besides those of the request.
	device func(name string) map[string]string
	flags  map[string]string
}

// tpuEnvironment is what libtpu must find before it is loaded: without it, its start queries a metadata server
// for minutes, takes a lock file and prints.
var tpuEnvironment = []string{
	"TPU_SKIP_MDS_QUERY=1",
	"TPU_ACCELERATOR_TYPE=v5litepod-4",
	"TPU_WORKER_HOSTNAMES=localhost",
	"ALLOW_MULTIPLE_LIBTPU_LOAD=1",
	"TPU_MIN_LOG_LEVEL=3",
}

func platformOf(o Options) *platform {
	if o.CUDA != "" {
		return cudaPlatform(o.CUDA, o.Toolkit)
	}
	return &platform{
		plugin: "libtpu", library: "libtpu.so", path: o.Libtpu, schedule: "*-final_bundles.txt", hlo: "*-TLP-hlo.txt", passes: "LIBTPU_INIT_ARGS",
		environment: func(link, passes, extra string) []string {
			return append([]string{"LIBTPU_INIT_ARGS=" + initArgs(link, passes, extra)}, tpuEnvironment...)
		},
		checkTopology: checkTopology,
		device:        func(string) map[string]string { return nil },
	}
}

// Files that XLA dumps for a GPU: what it runs (the thunks, and again where passes over them changed any), and the module they were made of.
const (
	ThunkFiles       = "*.thunk_sequence.txt"
	PassedThunkFiles = "*.thunk_sequence_after_thunk_passes.txt"
	HLOFiles         = "*gpu_after_optimizations.txt"
)

// cudaPlatform compiles for NVIDIA GPUs: without a client the plugin takes a description of the device.
func cudaPlatform(plugin, toolkit string) *platform {
	if abs, err := filepath.Abs(toolkit); err == nil {
		toolkit = abs
	}
	return &platform{
		plugin: "the CUDA plugin", library: "CUDA plugin for PJRT", path: plugin, vague: true, schedule: ThunkFiles, hlo: HLOFiles,
		environment: func(link, _, extra string) []string {
			return []string{"XLA_FLAGS=--xla_dump_to=" + link + " --xla_dump_hlo_as_text " + extra, "TF_CPP_MIN_LOG_LEVEL=1"}
		},
		checkTopology: func(name string) error {
			if _, err := target.LookupGPU(name); err != nil {
				return &RequestError{Field: "Topology", Msg: err.Error()}
			}
			return nil
		},
		device: func(name string) map[string]string {
			g, err := target.LookupGPU(name)
			if err != nil {
				return nil // checkTopology refuses it
			}
			return map[string]string{"topology": "1x1x1", "target_config": g.XLA()}
		},
		flags: map[string]string{"xla_gpu_cuda_data_dir": toolkit},
	}
}

// order is a request as the worker takes it.
func (p *platform) order(r Request, dump string) *order {
	flags := maps.Clone(p.flags)
	if flags == nil {
		flags = map[string]string{}
	}
	maps.Copy(flags, r.Flags)
	o := &order{Topology: r.Topology, Module: r.Module, Device: p.device(r.Topology), Flags: flags, DumpDir: dump, Schedule: p.schedule}
	if r.WantHLO {
		o.HLO = p.hlo
	}
	return o
}
