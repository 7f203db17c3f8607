package autotune

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"time"

	"github.com/gdngen/gdngen/autotune/journal"
	"github.com/gdngen/gdngen/codegen"
	"github.com/gdngen/gdngen/codegen/lower"
	"github.com/gdngen/gdngen/codegen/mosaic"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/pjrt/aot"
	"github.com/gdngen/gdngen/pjrt/llo"
)

// artifacts is what emitting and compiling leave for the next gate.
type artifacts struct {
	tiled *ir.Module // the module with its grids lowered to kernels, for every target
	text  string     // for the target at hand
	dump  string     // folder of its schedule; removed once it is read
}

func (w *Work) artifacts() *artifacts {
	a, ok := w.compiled.(*artifacts)
	if !ok {
		a = new(artifacts)
		w.compiled = a
	}
	return a
}

// emitFor makes the text for a target and keeps it as an object.
func (l *Lab) emitFor(w *Work, t *codegen.Target) (*Refusal, error) {
	defer w.clock("emit/"+t.Name, time.Now())
	a := w.artifacts()
	if a.tiled == nil {
		m, err := lower.Kernels(w.Module)
		if err != nil {
			return refuse(journal.EmitError, "%v", err), nil
		}
		a.tiled = m
	}
	e, err := mosaic.Backend{}.Emit(a.tiled, t)
	if err != nil && needsVMEM(a.tiled) > t.VMEM {
		return refuse(journal.VMEM, "%v", err), nil
	}
	if err != nil {
		return refuse(journal.EmitError, "%v", err), nil
	}
	a.text = e.Text
	w.Objects["module/"+t.Name] = []byte(e.Text)
	return nil, nil
}

// needsVMEM is the vector memory in bytes of the kernel that needs most.
func needsVMEM(m *ir.Module) (bytes int) {
	m.Body.Walk(func(in *ir.Instr) {
		if in.Op == ir.OpKernel {
			bytes = max(bytes, mosaic.VMEMBytes(in))
		}
	})
	return bytes
}

// compileFor compiles the text for a target. It returns a cost only where the compiler's answer is a verdict.
func (l *Lab) compileFor(ctx context.Context, w *Work, t *codegen.Target) (*journal.Cost, error) {
	var c *aot.Compiler
	select {
	case c = <-l.compilers:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { l.compilers <- c }()
	defer w.clock("compile/"+t.Name, time.Now())
	dir, err := os.MkdirTemp("", "gdngen-dump-")
	if err != nil {
		return nil, err
	}
	_, err = c.Compile(ctx, aot.Request{Topology: t.Topology, Module: w.artifacts().text, DumpDir: dir, Flags: t.Flags})
	if err == nil {
		w.artifacts().dump = dir
		return nil, nil
	}
	os.RemoveAll(dir)
	if v := compileVerdict(err); v != "" {
		return &journal.Cost{Target: t.Name, Verdict: v, Reason: firstLines(err.Error())}, nil
	}
	return nil, err
}

// compileVerdict maps an error of the compiler to a verdict; empty where the machinery is to blame.
func compileVerdict(err error) journal.Verdict {
	for _, row := range []struct {
		is      func(error) bool
		verdict journal.Verdict
	}{
		{is[*aot.RejectError], journal.CompileReject},
		{is[*aot.VMEMError], journal.VMEM},
		{is[*aot.TimeoutError], journal.Timeout},
		{is[*aot.CrashError], journal.Crash},
	} {
		if row.is(err) {
			return row.verdict
		}
	}
	return ""
}

func is[E error](err error) bool {
	var e E
	return errors.As(err, &e)
}

// firstLines shortens a compiler's message, whose later lines are its stack.
func firstLines(s string) string {
	lines := strings.SplitN(s, "\n", 4)
	s = strings.Join(lines[:min(3, len(lines))], " ")
	if len(s) > 600 {
		s = s[:600] + "..."
	}
	return s
}

// costFor reads the schedule. One that the cost model does not understand counts as refused: it has no cost.
func (l *Lab) costFor(w *Work, t *codegen.Target) journal.Cost {
	defer w.clock("cost/"+t.Name, time.Now())
	dump := w.artifacts().dump
	defer os.RemoveAll(dump)
	r, err := llo.Analyze(dump, t)
	if err != nil {
		return journal.Cost{Target: t.Name, Verdict: journal.CompileReject, Reason: "compiled, but without a cost: " + err.Error()}
	}
	c := journal.Cost{Target: t.Name, Cycles: r.Cycles, VMEM: r.VMEM, Schedule: r.Schedule}
	for _, op := range r.Ops {
		c.Spills += op.Calls * op.Spills
	}
	c.HBM = hbmCycles(max(r.HBMBytes, w.Spec.NecessaryBytes()), t)
	c.Score = max(c.Cycles, c.HBM)
	c.PerToken = journal.Figure(float64(c.Score) / float64(w.Spec.Batch*w.Spec.Tokens*w.Spec.HeadsV))
	if text, err := json.Marshal(r); err == nil {
		w.Objects["schedule/"+t.Name] = text
	}
	return c
}
