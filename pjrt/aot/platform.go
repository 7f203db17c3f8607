package aot

import (
	"maps"
	"path/filepath"

	"github.com/gdngen/gdngen/ir/target"
)

// platform says what the worker and its orders need for one kind of device.
type platform struct {
	plugin        string // its name in messages
	library, path string // the file that is loaded: its name for messages, and its path
	schedule, hlo string // patterns of dumped files: the schedule, and the optimised module
	vague         bool   // fingerprints do not identify device and code
	passes        string // the variable that carries Request.Passes; "" for none
	// environment returns variables that must be set before the plugin is loaded. link is its dump folder.
	environment   func(link, passes, extra string) []string
	checkTopology func(name string) error
	// device returns the options of a topology; flags are set for every compile, besides the request's.
	device func(name string) map[string]string
	flags  map[string]string
}

// tpuEnvironment must be set before libtpu is loaded: otherwise its start queries a metadata server for minutes, takes a lock file and
// prints.
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

// Files that XLA dumps for a GPU: the thunks, the thunks after passes if these changed any, and the module they were made from.
const (
	ThunkFiles       = "*.thunk_sequence.txt"
	PassedThunkFiles = "*.thunk_sequence_after_thunk_passes.txt"
	HLOFiles         = "*gpu_after_optimizations.txt"
)

// cudaPlatform compiles for NVIDIA GPUs: without a client, the plugin takes a description of the device.
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

// order returns a request in the form that the worker takes.
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
