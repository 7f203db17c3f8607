//go:build linux && (amd64 || arm64)

package aot

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"time"

	"github.com/gdngen/gdngen/pjrt/child"
	"github.com/gdngen/gdngen/pjrt/plugins"
)

// RunWorkerIfAsked must be the first call of main and of TestMain. In a process started by a Compiler it serves compile requests and
// never returns; in others it returns at once.
func RunWorkerIfAsked() {
	plugins.RunTrialIfAsked()
	library := os.Getenv(workerVariable)
	if library == "" {
		return
	}
	os.Unsetenv(workerVariable)
	child.DieBySignal()
	orders, replies := child.Pipes()
	serve(library, orders, replies)
	os.Exit(0)
}

// serve answers orders until their pipe closes.
func serve(library string, orders *json.Decoder, replies *json.Encoder) {
	p, err := openPlugin(library)
	if replies.Encode(failed(stageLoad, err)) != nil || err != nil {
		return
	}
	topologies := map[string]*topology{} // never destroyed: libtpu dies when one is
	for {
		var o order
		if orders.Decode(&o) != nil {
			return
		}
		a := p.obey(&o, topologies)
		a.RSS = child.Resident("self")
		if replies.Encode(a) != nil {
			return
		}
	}
}

// failed returns the reply for an error at a stage; success for nil.
func failed(stage string, err error) *reply {
	if err == nil {
		return &reply{}
	}
	a := &reply{Stage: stage, Msg: err.Error()}
	if e := (*statusError)(nil); errors.As(err, &e) {
		a.Code, a.Msg = e.code, e.msg
	}
	return a
}

// obey executes one order.
func (p *plugin) obey(o *order, topologies map[string]*topology) *reply {
	start := time.Now()
	t := topologies[o.Topology]
	if t == nil {
		var err error
		if t, err = p.newTopology(o.Topology, o.Device); err != nil {
			return failed(stageTopology, err)
		}
		topologies[o.Topology] = t
	}
	e, err := t.compile(o.Module, compileOptions(o.Flags))
	if err != nil {
		return failed(stageCompile, err)
	}
	defer e.destroy()
	r, err := e.describe()
	if err != nil {
		return failed(stageQuery, err)
	}
	if err := awaitDump(o.DumpDir, o.Schedule); err != nil {
		return failed(stageDump, err)
	}
	if o.HLO != "" {
		if r.OptimizedHLO, err = dumpedHLO(o.DumpDir, o.HLO); err != nil {
			return failed(stageDump, err)
		}
	}
	r.Elapsed = time.Since(start)
	return &reply{Result: r}
}

// unimplemented is the status of a query that a plugin does not support.
const unimplemented = 12

// describe queries an executable for the fields of a Result. Fields that the plugin does not know stay zero.
func (e *executable) describe() (*Result, error) {
	var r Result
	var fingerprint string
	for _, query := range []func() error{
		func() (err error) { r.CodeBytes, err = e.codeBytes(); return },
		func() (err error) { r.Memory, err = e.memory(); return },
		func() (err error) { r.Cost, err = e.cost(); return },
		func() (err error) { fingerprint, err = e.fingerprint(); return },
	} {
		unknown := (*statusError)(nil)
		if err := query(); err != nil && !(errors.As(err, &unknown) && unknown.code == unimplemented) {
			return nil, err
		}
	}
	r.Fingerprint = hex.EncodeToString([]byte(fingerprint))
	return &r, nil
}
