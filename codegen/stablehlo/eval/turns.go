package eval

import (
	"fmt"
	"slices"

	"github.com/gdngen/gdngen/codegen/mlir"
	"github.com/gdngen/gdngen/codegen/mlir/tensor"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/array"
)

// Turns counts how often the body of each loop of main runs, in total, by the line of the loop. It computes only values that loop
// conditions depend on. inputs are the values of the integer operands among these, by operand number; it errs if one is missing.
//
// Example: a loop over 8 groups of sequences has 8 turns. Its inner loop over the chunks of a group, 3 and 5 in alternation, has 8 x 4 =
// 32.
func Turns(text string, inputs map[int][]int64) (map[int]int64, error) {
	m, err := mlir.Parse(text)
	if err != nil {
		return nil, err
	}
	f, err := m.Func("main")
	if err != nil {
		return nil, err
	}
	t := &turns{needed: make([]bool, len(f.Values)), count: map[int]int64{}, frame: make(frame, len(f.Values))}
	for t.changed = true; t.changed; {
		t.changed = false
		t.mark(f.Body)
	}
	for i, v := range f.Body.Params {
		if !t.needed[v] {
			continue
		}
		if t.frame[v], err = integers64(i, f.Body.Types[i], inputs); err != nil {
			return nil, err
		}
	}
	return t.count, t.run(f.Body)
}

// integers64 returns operand i with the given values.
func integers64(i int, want mlir.Type, inputs map[int][]int64) (*tensor.Tensor, error) {
	values, ok := inputs[i]
	if !ok {
		return nil, fmt.Errorf("the turns of a loop depend on operand %d, whose values are not known", i)
	}
	size := 1
	for _, n := range want.Shape {
		size *= n
	}
	kind, ok := map[mlir.Elem]ir.DType{mlir.I32: ir.I32, mlir.I64: ir.I64}[want.Elem]
	if !ok || size != len(values) {
		return nil, fmt.Errorf("operand %d is %s, and %d integers are given", i, want, len(values))
	}
	return tensor.Of(array.FromInt64s(kind, want.Shape, values), want)
}

type turns struct {
	compiler
	needed  []bool // per value: a condition depends on it
	changed bool
	count   map[int]int64 // per line
	frame   frame
	ready   map[*mlir.Op]func(frame) error
}

func (t *turns) need(v int) {
	if !t.needed[v] {
		t.needed[v], t.changed = true, true
	}
}

// mark marks the conditions of all loops of a block as needed, with all that they depend on, until nothing is added.
func (t *turns) mark(b *mlir.Block) {
	for i := len(b.Ops) - 1; i >= 0; i-- {
		o := b.Ops[i]
		if o.Name != "stablehlo.while" {
			for _, r := range o.Results {
				if t.needed[r] {
					for _, v := range o.Operands {
						t.need(v)
					}
				}
			}
			continue
		}
		condition, body := o.Regions[0], o.Regions[1]
		t.need(yield(condition)[0])
		t.mark(condition)
		t.mark(body)
		for i, v := range yield(body) {
			if t.needed[o.Results[i]] || t.needed[condition.Params[i]] || t.needed[body.Params[i]] {
				t.need(v)
				t.need(o.Operands[i])
				t.need(condition.Params[i])
			}
		}
	}
}

// yield returns the values that a block returns.
func yield(b *mlir.Block) []int { return b.Ops[len(b.Ops)-1].Operands }

// run computes the needed values of a block, and counts the turns of its loops.
func (t *turns) run(b *mlir.Block) error {
	for _, o := range b.Ops[:len(b.Ops)-1] {
		var err error
		if o.Name == "stablehlo.while" {
			err = t.loop(o)
		} else if slices.ContainsFunc(o.Results, func(v int) bool { return t.needed[v] }) {
			err = t.compute(o)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", o.Where(), err)
		}
	}
	return nil
}

func (t *turns) compute(o *mlir.Op) error {
	if t.ready[o] == nil {
		run, err := t.prepare(o)
		if err != nil {
			return err
		}
		if t.ready == nil {
			t.ready = map[*mlir.Op]func(frame) error{}
		}
		t.ready[o] = run
	}
	return step{o, t.ready[o]}.exec(t.frame)
}

func (t *turns) loop(o *mlir.Op) error {
	condition, body := o.Regions[0], o.Regions[1]
	carried := t.frame.of(o.Operands)
	t.count[o.Line] += 0 // a loop that ends at once has 0 turns
	for {
		for i, x := range carried {
			t.frame[condition.Params[i]], t.frame[body.Params[i]] = x, x
		}
		if err := t.run(condition); err != nil {
			return err
		}
		if t.frame[yield(condition)[0]].N[0] == 0 {
			break
		}
		t.count[o.Line]++
		if err := t.run(body); err != nil {
			return err
		}
		carried = t.frame.of(yield(body))
	}
	for i, x := range carried {
		t.frame[o.Results[i]] = x
	}
	return nil
}
