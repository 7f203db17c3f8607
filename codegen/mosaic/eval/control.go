package eval

import (
	"fmt"
	"slices"

	"github.com/gdngen/gdngen/codegen/mlir"
	"github.com/gdngen/gdngen/codegen/mlir/tensor"
)

// branch runs the first region if the condition is true, else the second.
func branch(k *Kernel, o *mlir.Op) (func(frame) error, error) {
	if err := takes(o, 1); err != nil {
		return nil, err
	}
	if !o.Ins[0].Equal(mlir.Type{Elem: mlir.I1}) || len(o.Regions) != 2 || len(o.Outs) > 0 {
		return nil, fmt.Errorf("a condition and two regions without results are expected")
	}
	var sides [2]*block
	for i, r := range o.Regions {
		if r == nil {
			continue
		}
		if len(r.Params) > 0 {
			return nil, fmt.Errorf("a region of a branch has parameters")
		}
		var err error
		if sides[i], err = k.prepared(r, "scf.yield", nil); err != nil {
			return nil, err
		}
	}
	return func(f frame) error {
		side := sides[1]
		if f[o.Operands[0]].t.Int() != 0 {
			side = sides[0]
		}
		if side == nil {
			return nil
		}
		return side.run(f)
	}, nil
}

// loop counts from the first operand to below the second, by the third; the other operands are carried.
func loop(k *Kernel, o *mlir.Op) (func(frame) error, error) {
	i32 := mlir.Type{Elem: mlir.I32}
	if len(o.Ins) < 3 || len(o.Regions) != 1 || o.Regions[0] == nil {
		return nil, fmt.Errorf("bounds, a step and a body are expected")
	}
	for _, t := range o.Ins[:3] {
		if !t.Equal(i32) {
			return nil, fmt.Errorf("bounds and step are i32, not %s", t)
		}
	}
	want := append([]mlir.Type{i32}, o.Outs...)
	if !slices.EqualFunc(o.Ins[2:], want, mlir.Type.Equal) || !slices.EqualFunc(o.Regions[0].Types, want, mlir.Type.Equal) {
		return nil, fmt.Errorf("%v are carried from %v, and received as %v", o.Outs, o.Ins[3:], o.Regions[0].Types)
	}
	b, err := k.prepared(o.Regions[0], "scf.yield", o.Outs)
	if err != nil {
		return nil, err
	}
	return func(f frame) error {
		n := f.ints(o.Operands[:3])
		if n[2] < 1 {
			return fmt.Errorf("a loop by steps of %d", n[2])
		}
		carried := make([]value, len(o.Results))
		for i, v := range o.Operands[3:] {
			carried[i] = f[v]
		}
		for i := n[0]; i < n[1]; i += n[2] {
			f[b.params[0]].t = tensor.Scalar(mlir.I32, i)
			for j, v := range carried {
				f[b.params[1+j]] = v
			}
			if err := b.run(f); err != nil {
				return err
			}
			for j, v := range b.yield {
				carried[j] = f[v]
			}
		}
		for i, v := range carried {
			f[o.Results[i]] = v
		}
		return nil
	}, nil
}
