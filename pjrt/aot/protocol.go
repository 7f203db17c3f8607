package aot

// The worker and its parent exchange JSON lines: the worker says hello with one reply when its plugin is loaded, then
// answers every order with one reply. Stage is empty for success.

// order is what the parent asks of the worker.
type order struct {
	Topology, Module string
	Device           map[string]string `json:",omitempty"` // options of the topology: what the device is
	Flags            map[string]string `json:",omitempty"`
	DumpDir          string
	Schedule         string // pattern of the files without which the dump is not whole
	HLO              string `json:",omitempty"` // pattern of the file with the optimised module, where it is wanted
}

// reply is the worker's answer.
type reply struct {
	Stage  string  `json:",omitempty"`
	Code   int     `json:",omitempty"`
	Msg    string  `json:",omitempty"`
	Result *Result `json:",omitempty"`
	RSS    int64   // bytes resident after the request
}

// workerVariable tells a process that it is a compile worker; its value is the path of the plugin.
const workerVariable = "GDNGEN_AOT_WORKER"
