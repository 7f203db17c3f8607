package eval

import (
	"fmt"
	"slices"

	"github.com/gdngen/gdngen/codegen/mlir"
	"github.com/gdngen/gdngen/codegen/mlir/tensor"
)

// value is a tensor, scalars included, or a reference.
type value struct {
	t *tensor.Tensor
	r *ref
}

// frame holds the values of one call of a function.
type frame []value

func (f frame) tensors(ids []int) []*tensor.Tensor {
	ts := make([]*tensor.Tensor, len(ids))
	for i, id := range ids {
		ts[i] = f[id].t
	}
	return ts
}

// ints returns the values of integer scalars.
func (f frame) ints(ids []int) []int {
	ns := make([]int, len(ids))
	for i, id := range ids {
		ns[i] = f[id].t.Int()
	}
	return ns
}

// step is a prepared operation.
type step struct {
	op   *mlir.Op
	run  func(f frame) error
	last []int // values that no later operation of the block reads
	ran  bool
}

// block is a prepared block. yield are the operands of its last operation.
type block struct {
	params []int
	steps  []step
	yield  []int
}

// run executes the block. An error names the operation.
func (b *block) run(f frame) error {
	for i := range b.steps {
		s := &b.steps[i]
		s.ran = true
		if err := s.exec(f); err != nil {
			return err
		}
		for _, v := range s.last {
			f[v] = value{}
		}
	}
	return nil
}

// located is an error that names its operation.
type located struct {
	where string
	err   error
}

func (e *located) Error() string { return e.where + ": " + e.err.Error() }
func (e *located) Unwrap() error { return e.err }

// exec runs a step. Package tensor panics on shapes that do not fit; exec returns the panic as an error.
func (s *step) exec(f frame) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("an operation that does not fit its operands: %v", r)
		}
		if _, ok := err.(*located); err != nil && !ok {
			err = &located{s.op.Where(), err}
		}
	}()
	return s.run(f)
}

// prepared prepares a block. Its last operation must be the terminator, with operands of types outs.
func (k *Kernel) prepared(b *mlir.Block, terminator string, outs []mlir.Type) (*block, error) {
	n := len(b.Ops) - 1
	if n < 0 || b.Ops[n].Name != dialect+terminator {
		return nil, fmt.Errorf("a block without a last %s", terminator)
	}
	end := b.Ops[n]
	if !slices.EqualFunc(end.Ins, outs, mlir.Type.Equal) {
		return nil, fmt.Errorf("%s: gives %v, %v are expected", end.Where(), end.Ins, outs)
	}
	p := &block{params: b.Params, yield: end.Operands}
	for _, o := range b.Ops[:n] {
		run, err := k.prepare(o)
		if err != nil {
			return nil, err
		}
		p.steps = append(p.steps, step{op: o, run: run})
	}
	p.free(b)
	k.blocks = append(k.blocks, p)
	return p, nil
}

// free finds the last use of each value defined in the block, so that its memory can be freed.
func (p *block) free(b *mlir.Block) {
	own := map[int]bool{}
	for _, o := range b.Ops {
		for _, r := range o.Results {
			own[r] = true
		}
	}
	for _, v := range p.yield {
		delete(own, v)
	}
	for i := len(p.steps) - 1; i >= 0; i-- {
		s := &p.steps[i]
		uses(s.op, func(v int) {
			if own[v] {
				s.last = append(s.last, v)
				delete(own, v)
			}
		})
	}
}

// uses calls f for each operand of an operation and of the operations in its regions.
func uses(o *mlir.Op, f func(int)) {
	for _, v := range o.Operands {
		f(v)
	}
	for _, r := range o.Regions {
		if r != nil {
			for _, x := range r.Ops {
				uses(x, f)
			}
		}
	}
}

// function is a prepared function.
type function struct {
	body *block
	size int // of its frame
}

func (k *Kernel) newFunction(f *mlir.Func) (*function, error) {
	b, err := k.prepared(f.Body, "func.return", f.Outs)
	if err != nil {
		return nil, fmt.Errorf("function @%s: %w", f.Name, err)
	}
	return &function{b, len(f.Values)}, nil
}

// call runs a function and returns its results.
func (fn *function) call(args []value) ([]value, error) {
	f := make(frame, fn.size)
	for i, p := range fn.body.params {
		f[p] = args[i]
	}
	if err := fn.body.run(f); err != nil {
		return nil, err
	}
	out := make([]value, len(fn.body.yield))
	for i, v := range fn.body.yield {
		out[i] = f[v]
	}
	return out, nil
}
