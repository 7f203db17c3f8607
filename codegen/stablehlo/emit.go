package stablehlo

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gdngen/gdngen/codegen"
	"github.com/gdngen/gdngen/codegen/plain"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/target"
)

// Backend emits whole programs for a CPU or GPU.
type Backend struct{}

// Name returns "stablehlo".
func (Backend) Name() string { return "stablehlo" }

// Supports returns an error for ops that exist only inside kernels.
func (Backend) Supports(op ir.Op) error {
	if op == ir.OpGrid {
		return nil // batched first
	}
	if op == ir.BadOp || op >= ir.NumOps {
		return fmt.Errorf("unknown op %s", op)
	}
	switch r := rules[op]; {
	case r.refuse != "":
		return fmt.Errorf("%s: %s", op, r.refuse)
	case r.emit == nil && r.multi == nil:
		return fmt.Errorf("%s: %s", op, noRow)
	}
	return nil
}

// noRow is the error for an op without a rule.
const noRow = "has no row in the rules of codegen/stablehlo"

// Emit batches the module's grids and renders it; the target is ignored.
func (Backend) Emit(m *ir.Module, _ *target.Target) (*codegen.Artifact, error) {
	m, err := plain.Batch(m)
	if err != nil {
		return nil, err
	}
	text, err := Emitter{}.Emit(m)
	if err != nil {
		return nil, err
	}
	return &codegen.Artifact{Text: text}, nil
}

// Emitter renders modules without grids.
type Emitter struct {
	// Native keeps bf16 values in bf16 tensors.
	Native bool
	// Kernel returns the call of a kernel: the text after "%r = ", or after "%r:2 = " for two results. It implies Native, since a
	// kernel's operands have their own types.
	Kernel func(in *ir.Instr, operands []string) (string, error)
}

// Emit returns the text of a module. Errors name the instruction.
func (em Emitter) Emit(m *ir.Module) (string, error) {
	p := &printer{native: em.Native || em.Kernel != nil, kernel: em.Kernel, names: map[*ir.Value]string{}, stored: map[*ir.Value]string{}, depth: 2}
	var params, results []string
	for _, v := range m.Params() {
		params = append(params, fmt.Sprintf("%%%s: %s%s", v.Name, TensorType(v.Type), reused(m, v.Name)))
	}
	for _, v := range m.Body.Yield {
		results = append(results, TensorType(v.Type))
	}
	for _, v := range m.Params() {
		p.keep(v, "%"+v.Name)
	}
	if err := p.block(m.Body.Instrs); err != nil {
		return "", fmt.Errorf("module %s: %w", m.Name, err)
	}
	outs := make([]string, len(m.Body.Yield))
	for i, v := range m.Body.Yield {
		outs[i] = p.own(v)
	}
	if len(outs) > 0 {
		p.line("return %s : %s", strings.Join(outs, ", "), strings.Join(results, ", "))
	} else {
		p.line("return")
	}
	return fmt.Sprintf("module @%s {\n  func.func public @main(%s) -> (%s) {\n%s  }\n}\n",
		m.Name, strings.Join(params, ", "), strings.Join(results, ", "), p.text.String()), nil
}

// reused returns the attribute of a parameter whose memory a result reuses.
func reused(m *ir.Module, param string) string {
	for _, r := range m.Reuse {
		if r.Param == param {
			return fmt.Sprintf(" {tf.aliasing_output = %d : i32}", slices.Index(m.Results, r.Result))
		}
	}
	return ""
}

// printer writes the lines of one function.
type printer struct {
	native bool
	kernel func(in *ir.Instr, operands []string) (string, error)
	names  map[*ir.Value]string // values in their carrier types
	stored map[*ir.Value]string // arrays in their own type, if the carrier type differs
	next   int
	depth  int
	text   strings.Builder
}

// line writes one indented line.
func (p *printer) line(format string, args ...any) {
	p.text.WriteString(strings.Repeat("  ", p.depth))
	fmt.Fprintf(&p.text, format, args...)
	p.text.WriteByte('\n')
}

// fresh returns a new value name.
func (p *printer) fresh() string {
	p.next++
	return fmt.Sprintf("%%%d", p.next-1)
}

// let writes an operation of one result and returns the result's name.
func (p *printer) let(format string, args ...any) string {
	r := p.fresh()
	p.line("%s = %s", r, fmt.Sprintf(format, args...))
	return r
}

func (p *printer) block(instrs []*ir.Instr) error {
	for _, in := range instrs {
		if err := p.instr(in); err != nil {
			return err
		}
	}
	return nil
}

func (p *printer) instr(in *ir.Instr) error {
	if in.Op == ir.BadOp || in.Op >= ir.NumOps {
		return fmt.Errorf("unknown op %s", in.Op)
	}
	args := make([]string, len(in.Args))
	for i, a := range in.Args {
		args[i] = p.names[a]
	}
	rule := rules[in.Op]
	var results []string
	err := error(nil)
	switch {
	case in.Op == ir.OpKernel && p.kernel != nil:
		results, err = p.call(in, args)
	case rule.refuse != "":
		err = errors.New(rule.refuse)
	case rule.multi != nil:
		results, err = rule.multi(p, in, args)
	case rule.emit == nil:
		err = errors.New(noRow)
	default:
		results = []string{rule.emit(p, in, args)}
	}
	if err != nil {
		if _, ok := err.(*codegen.Error); ok { // inside a kernel
			return err
		}
		return codegen.Refuse("stablehlo", in, err)
	}
	for i, r := range in.Results {
		p.names[r] = results[i]
	}
	return nil
}

// several writes an operation of n results and returns their names.
func (p *printer) several(n int, text string) []string {
	r := p.fresh()
	if n == 1 {
		p.line("%s = %s", r, text)
		return []string{r}
	}
	p.line("%s:%d = %s", r, n, text)
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("%s#%d", r, i)
	}
	return names
}

func (p *printer) call(in *ir.Instr, args []string) ([]string, error) {
	text, err := p.kernel(in, args)
	if err != nil {
		return nil, err
	}
	return p.several(len(in.Results), text), nil
}
