package eval

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gdngen/gdngen/codegen/mlir"
	"github.com/gdngen/gdngen/codegen/mlir/tensor"
	"github.com/gdngen/gdngen/ir/array"
)

// Call computes the results of a custom call.
type Call func(args []*tensor.Tensor) ([]*tensor.Tensor, error)

// Kernels returns the function of a custom call; it is called once per call in the text.
type Kernels func(o *mlir.Op) (Call, error)

// Program is a parsed module, ready to run.
type Program struct {
	main *mlir.Func
	body *block
}

// Parse reads a module and prepares all operations of its function main. It errs for anything without a rule. kernels may be nil if
// there are no custom calls.
func Parse(text string, kernels Kernels) (*Program, error) {
	m, err := mlir.Parse(text)
	if err != nil {
		return nil, err
	}
	f, err := m.Func("main")
	if err != nil {
		return nil, err
	}
	c := &compiler{kernels}
	b, err := c.block(f.Body, f.Outs)
	if err != nil {
		return nil, fmt.Errorf("module @%s: %w", m.Name, err)
	}
	return &Program{f, b}, nil
}

// Run returns the results of main; it errs if inputs do not match main's parameters.
func (p *Program) Run(inputs ...*array.Array) ([]*array.Array, error) {
	if len(inputs) != len(p.body.params) {
		return nil, fmt.Errorf("main takes %d arrays, %d are given", len(p.body.params), len(inputs))
	}
	f := make(frame, len(p.main.Values))
	for i, v := range p.body.params {
		t, err := tensor.Of(inputs[i], p.main.Body.Types[i])
		if err != nil {
			return nil, fmt.Errorf("input %d: %w", i, err)
		}
		f[v] = t
	}
	if err := p.body.run(f); err != nil {
		return nil, err
	}
	out := make([]*array.Array, len(p.body.yield))
	for i, v := range p.body.yield {
		a, err := f[v].Array()
		if err != nil {
			return nil, fmt.Errorf("result %d: %w", i, err)
		}
		out[i] = a
	}
	return out, nil
}

// frame holds the values of main.
type frame []*tensor.Tensor

func (f frame) of(ids []int) []*tensor.Tensor {
	ts := make([]*tensor.Tensor, len(ids))
	for i, id := range ids {
		ts[i] = f[id]
	}
	return ts
}

// step is a prepared operation.
type step struct {
	op  *mlir.Op
	run func(f frame) error
}

type block struct {
	params []int
	steps  []step
	yield  []int
}

func (b *block) run(f frame) error {
	for _, s := range b.steps {
		if err := s.exec(f); err != nil {
			return fmt.Errorf("%s: %w", s.op.Where(), err)
		}
	}
	return nil
}

// exec runs a step. Package tensor panics on shapes that do not fit; exec returns the panic as an error.
func (s step) exec(f frame) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("an operation that does not fit its operands: %v", r)
		}
	}()
	return s.run(f)
}

type compiler struct{ kernels Kernels }

// block prepares operations up to the return, whose operands must have the types outs.
func (c *compiler) block(b *mlir.Block, outs []mlir.Type) (*block, error) {
	n := len(b.Ops) - 1
	if n < 0 || b.Ops[n].Name != "return" && b.Ops[n].Name != "stablehlo.return" {
		return nil, fmt.Errorf("a block without a return")
	}
	if end := b.Ops[n]; !slices.EqualFunc(end.Ins, outs, mlir.Type.Equal) {
		return nil, fmt.Errorf("%s: gives %v, %v are expected", end.Where(), end.Ins, outs)
	}
	p := &block{params: b.Params, yield: b.Ops[n].Operands}
	for _, o := range b.Ops[:n] {
		run, err := c.prepare(o)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", o.Where(), err)
		}
		p.steps = append(p.steps, step{o, run})
	}
	return p, nil
}

// prepare returns the function of an operation, or an error that says why it can not run.
func (c *compiler) prepare(o *mlir.Op) (func(frame) error, error) {
	for _, t := range append(o.Ins[:len(o.Ins):len(o.Ins)], o.Outs...) {
		if t.Kind != mlir.Tensor {
			return nil, fmt.Errorf("%s: tensors are expected", t)
		}
	}
	switch o.Name {
	case "stablehlo.while":
		return c.while(o)
	case "stablehlo.custom_call":
		return c.call(o)
	}
	name, ok := strings.CutPrefix(o.Name, "stablehlo.")
	r, known := rules[name]
	if !ok || !known {
		return nil, fmt.Errorf("the evaluator has no rule for this operation")
	}
	for _, a := range o.Attrs.Names() {
		if !slices.Contains(r.attrs, a) {
			return nil, fmt.Errorf("attribute %s is not supported", a)
		}
	}
	if len(o.Ins) != r.ins && r.ins >= 0 || len(o.Outs) != 1 || len(o.Regions) > 0 && !r.region {
		return nil, fmt.Errorf("%d operands and %d results: %d and 1 are expected", len(o.Ins), len(o.Outs), r.ins)
	}
	if r.check != nil {
		if err := r.check(o); err != nil {
			return nil, err
		}
	}
	f, err := r.make(o)
	if err != nil {
		return nil, err
	}
	want, out := o.Outs[0], o.Results[0]
	return func(fr frame) error {
		t, err := f(fr.of(o.Operands))
		if err != nil {
			return err
		}
		if !t.Is(want) {
			return fmt.Errorf("gives %s, declared %s", t, want)
		}
		fr[out] = t
		return nil
	}, nil
}

// while runs its second region as long as the first returns true.
func (c *compiler) while(o *mlir.Op) (func(frame) error, error) {
	if len(o.Regions) != 2 {
		return nil, fmt.Errorf("a condition and a body are expected")
	}
	cond, err := c.block(o.Regions[0], []mlir.Type{{Kind: mlir.Tensor, Elem: mlir.I1}})
	if err != nil {
		return nil, err
	}
	body, err := c.block(o.Regions[1], o.Outs)
	if err != nil {
		return nil, err
	}
	return func(f frame) error {
		carried := f.of(o.Operands)
		for {
			for i, t := range carried {
				f[cond.params[i]], f[body.params[i]] = t, t
			}
			if err := cond.run(f); err != nil {
				return err
			}
			if f[cond.yield[0]].N[0] == 0 {
				break
			}
			if err := body.run(f); err != nil {
				return err
			}
			carried = f.of(body.yield)
		}
		for i, t := range carried {
			f[o.Results[i]] = t
		}
		return nil
	}, nil
}

func (c *compiler) call(o *mlir.Op) (func(frame) error, error) {
	if c.kernels == nil {
		return nil, fmt.Errorf("no custom calls are expected")
	}
	call, err := c.kernels(o)
	if err != nil {
		return nil, err
	}
	return func(f frame) error {
		outs, err := call(f.of(o.Operands))
		if err != nil {
			return err
		}
		for i, t := range outs {
			if !t.Is(o.Outs[i]) {
				return fmt.Errorf("result %d is %s, declared %s", i, t, o.Outs[i])
			}
			f[o.Results[i]] = t
		}
		return nil
	}, nil
}
