package device

import (
	"encoding/json"
	"errors"
	"os"

	"github.com/gdngen/gdngen/pjrt"
	"github.com/gdngen/gdngen/pjrt/child"
)

// workerVariable marks a process as a device worker; its value is the plugin's path.
const workerVariable = "GDNGEN_DEVICE_WORKER"

// RunWorkerIfAsked must be the first call of main and of TestMain in programs that open devices. In a process started by Open it serves
// its device and never returns; in others it returns at once.
func RunWorkerIfAsked() {
	plugin := os.Getenv(workerVariable)
	if plugin == "" {
		return
	}
	os.Unsetenv(workerVariable)
	child.DieBySignal()
	orders, replies := child.Pipes()
	serve(plugin, orders, replies)
	os.Exit(0)
}

// server is a device in its worker process.
type server struct {
	engine   *pjrt.Engine
	programs map[int]*pjrt.Program
}

// serve answers orders until their pipe closes.
func serve(plugin string, orders *json.Decoder, replies *json.Encoder) {
	s := &server{programs: map[int]*pjrt.Program{}}
	hello := s.open(plugin)
	if replies.Encode(hello) != nil || hello.Fault != "" {
		return
	}
	for {
		var o order
		if orders.Decode(&o) != nil || replies.Encode(s.obey(&o)) != nil {
			return
		}
	}
}

func failed(f fault, err error) *reply { return &reply{Fault: f, Message: err.Error()} }

func (s *server) open(plugin string) *reply {
	var err error
	if s.engine, err = pjrt.Open(plugin); err != nil {
		return failed(faultOpen, err)
	}
	kind, err := s.engine.Kind()
	if err != nil {
		return failed(faultOpen, err)
	}
	return &reply{Info: &Info{Platform: s.engine.Platform(), Version: s.engine.Version(), Kind: kind, Devices: s.engine.Devices(), Attributes: s.engine.Attributes()}}
}

// obey executes one order.
func (s *server) obey(o *order) *reply {
	switch {
	case o.Compile != nil:
		p, err := s.engine.Compile(o.Compile.Text)
		if refused := (*pjrt.CompileError)(nil); errors.As(err, &refused) {
			return &reply{Fault: faultCompile, Code: refused.Code, Message: refused.Message}
		}
		if err != nil {
			return failed(faultRun, err)
		}
		s.programs[o.Compile.Program] = p
	case o.Run != nil:
		args, err := read(o.Run.Arguments)
		if err != nil {
			return failed(faultArrays, err)
		}
		got, err := s.programs[o.Run.Program].Run(args...)
		if err != nil {
			return failed(faultRun, err)
		}
		list, err := save(o.Run.Results, got)
		if err != nil {
			return failed(faultArrays, err)
		}
		return &reply{Results: list}
	case o.Pairs != nil:
		return s.pairs(o.Pairs)
	case o.Profile != nil:
		return s.profile(o.Profile)
	case o.Free != 0:
		if p := s.programs[o.Free]; p != nil {
			p.Close() // a program that can not be freed is freed with the process
		}
		delete(s.programs, o.Free)
	}
	return &reply{}
}

func (s *server) pairs(o *pairsOrder) *reply {
	args, err := read(o.Arguments)
	if err != nil {
		return failed(faultArrays, err)
	}
	took, err := pjrt.Interleave(pjrt.TimeOptions{Warmup: o.Warmup, Trials: o.Trials}, s.programs[o.Programs[0]], s.programs[o.Programs[1]], args...)
	if err != nil {
		return failed(faultRun, err)
	}
	r := &reply{Pairs: make([][2]int, len(took))}
	for i, p := range took {
		r.Pairs[i] = [2]int{int(p[0]), int(p[1])}
	}
	return r
}

func (s *server) profile(o *profileOrder) *reply {
	var pieces []pjrt.Piece
	for _, p := range o.Pieces {
		args, err := read(p.Arguments)
		if err != nil {
			return failed(faultArrays, err)
		}
		pieces = append(pieces, pjrt.Piece{Program: s.programs[p.Program], Times: p.Times, Args: args})
	}
	x, err := s.engine.Profile(o.Options, pieces...)
	r := &reply{}
	if none := (*pjrt.NoProfilerError)(nil); errors.As(err, &none) {
		r.Absent = none.Reason
	} else if err != nil {
		return failed(faultRun, err)
	}
	for _, step := range x.Steps {
		took := make([]int, len(step))
		for i, t := range step {
			took[i] = int(t)
		}
		r.Steps = append(r.Steps, took)
	}
	if r.Absent == "" {
		if err := os.WriteFile(o.Space, x.Space, 0o600); err != nil {
			return failed(faultArrays, err)
		}
	}
	return r
}
