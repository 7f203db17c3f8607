package measure

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/gdngen/gdngen/codegen/ptx"
	"github.com/gdngen/gdngen/codegen/stablehlo/eval"
	"github.com/gdngen/gdngen/ir/target"
	"github.com/gdngen/gdngen/pjrt/aot"
	"github.com/gdngen/gdngen/pjrt/gpu/thunk"
)

// CompiledGPU is XLA's result for a program of StableHLO on a GPU.
type CompiledGPU struct {
	Result  aot.Result    `json:"result"`
	Report  *thunk.Report `json:"report,omitempty"`  // nil if XLA's files can not be read
	Unknown string        `json:"unknown,omitempty"` // why there is no report
	Dump    string        `json:"-"`                 // folder of XLA's files, if Options.Dump asks for one
}

// keptGPU is an entry of the cache.
type keptGPU struct {
	*CompiledGPU
	Reject *aot.RejectError `json:"reject,omitempty"`
}

// thunkModel is the version of the reader and cost model of thunks, part of the cache keys.
const thunkModel = "1"

// CompileGPU compiles a StableHLO program for a GPU that is not attached, and reads the kernels that XLA would run
// there. Trip counts of loops that depend on scalars are those for sequences of equal length, or follow from o.Scalars
// by operand number. If XLA's files can not be read, the result has Unknown set and there is no error.
func (x *Instrument) CompileGPU(ctx context.Context, p *Program, g *target.GPU, o Options) (*CompiledGPU, error) {
	text, err := p.Text(nil)
	if err != nil {
		return nil, err
	}
	from := []string{"gpu", thunkModel, x.Libtpu, g.XLA(), fmt.Sprint(g.Timing, g.Copy, o.Scalars), p.scalarText(), text}
	var k keptGPU
	if o.Dump == "" && x.Cache.get(&k, from...) {
		if k.Reject != nil {
			return nil, ofCompiler(k.Reject)
		}
		if k.CompiledGPU != nil {
			x.note("%s: compiled before, taken from the cache", g.Name)
			return k.CompiledGPU, nil
		}
	}
	if err := x.assemble(ctx, text, g); err != nil {
		return nil, err
	}
	dir, done, err := x.dumpFolder(o.Dump, g.Name)
	if err != nil {
		return nil, err
	}
	defer done()
	stop := x.waiting(g.Name, len(text))
	r, err := x.Compiler.Compile(ctx, aot.Request{Topology: g.Name, Module: text, DumpDir: dir})
	stop(err == nil)
	c := &CompiledGPU{}
	if err == nil {
		c.Result = *r
		if o.Dump != "" {
			c.Dump = dir
		}
		err = guard("reading XLA's files", func() error { return c.read(dir, p, text, g, o) })
	}
	k = keptGPU{CompiledGPU: c}
	if errors.As(err, &k.Reject) || err == nil {
		if err := x.Cache.put(k, from...); err != nil {
			return nil, err
		}
	}
	if err != nil {
		return nil, ofCompiler(err)
	}
	return c, nil
}

// assemble runs ptxas on the PTX inside of a program, which XLA does not check.
func (x *Instrument) assemble(ctx context.Context, text string, g *target.GPU) error {
	if !strings.Contains(text, ptx.Target) {
		return nil
	}
	err := ptx.AssembleAll(ctx, x.PTXAS, text, g)
	if is[*ptx.Error](err) {
		return refused(CompileReject, err)
	}
	if err != nil && ctx.Err() == nil {
		return &aot.InfraError{Op: "ask ptxas", Err: err}
	}
	return err
}

// TakesPTX returns why XLA does not take PTX inside of StableHLO for a GPU, or nil. The call is internal to XLA, so a
// small module is compiled, once for each build of the compiler.
func (x *Instrument) TakesPTX(ctx context.Context, g *target.GPU) error {
	c, err := x.CompileGPU(ctx, Foreign("a probe", ptx.ProbeModule()), g, Options{})
	if err != nil {
		return err
	}
	return ptx.Probed(c.Report)
}

// read counts the work that XLA would run.
func (c *CompiledGPU) read(dir string, p *Program, text string, g *target.GPU, o Options) error {
	program, err := thunk.Read(dir)
	if err != nil {
		c.Unknown = err.Error()
		return nil
	}
	turns, err := p.turns(text, o.Scalars)
	c.Report = program.Count(turns, g)
	if c.Report.Unknown != "" && err != nil {
		c.Report.Unknown += ": " + err.Error()
	}
	return nil
}

// scalarText returns the scalars that trip counts of loops depend on, as text.
func (p *Program) scalarText() string {
	if p.Spec == nil {
		return ""
	}
	return p.Spec.String()
}

// turns returns the trip counts of the loops, by line of the text.
func (p *Program) turns(text string, scalars map[string][]int64) (map[int]int64, error) {
	inputs := map[int][]int64{}
	if p.Spec != nil {
		for i, in := range p.Spec.Inputs() {
			if list := indices(*p.Spec, in.Name, nil); list != nil {
				inputs[i] = list
			}
		}
	}
	for name, values := range scalars {
		i, err := strconv.Atoi(name)
		if err != nil {
			return nil, fmt.Errorf("operand %q: of a program for a GPU an operand is named by its number", name)
		}
		inputs[i] = values
	}
	return eval.Turns(text, inputs)
}
