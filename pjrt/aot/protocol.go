package aot

// The worker and its parent exchange JSON lines. The worker sends one reply when its plugin is loaded, and then one reply per order.
// Stage is empty for success.

// order is a request to the worker.
type order struct {
	Topology, Module string
	Device           map[string]string `json:",omitempty"` // options of the topology, which describe the device
	Flags            map[string]string `json:",omitempty"`
	DumpDir          string
	Schedule         string // pattern of the files that a complete dump includes
	HLO              string `json:",omitempty"` // pattern of the file with the optimised module, if wanted
}

// reply is the worker's reply.
type reply struct {
	Stage  string  `json:",omitempty"`
	Code   int     `json:",omitempty"`
	Msg    string  `json:",omitempty"`
	Result *Result `json:",omitempty"`
	RSS    int64   // resident bytes after the request
}

// workerVariable marks a process as a compile worker; its value is the plugin's path.
const workerVariable = "GDNGEN_AOT_WORKER"
