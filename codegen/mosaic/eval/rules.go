package eval

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gdngen/gdngen/codegen/mlir"
	"github.com/gdngen/gdngen/codegen/mlir/tensor"
)

const dialect = "stable_mosaic."

// compute returns the result of an operation on tensors.
type compute func(a []*tensor.Tensor) (*tensor.Tensor, error)

// rule says how an operation runs: pure from tensors to one tensor, or exec on the frame. Both check types and attributes once; attrs
// are the allowed attributes.
type rule struct {
	attrs []string
	pure  func(o *mlir.Op) (compute, error)
	exec  func(k *Kernel, o *mlir.Op) (func(f frame) error, error)
}

// rules is the table of operations, by name without the dialect.
var rules map[string]rule

func init() { // scf's rules refer back to the table
	rules = map[string]rule{
		"arith.constant": {attrs: []string{"value"}, pure: constant},

		"arith.addf": floats(tensor.Add), "arith.subf": floats(tensor.Sub), "arith.mulf": floats(tensor.Mul), "arith.divf": floats(tensor.Div),
		"arith.maximumf": floats(tensor.Max), "arith.minimumf": floats(tensor.Min),

		"arith.addi": ints(tensor.AddI), "arith.subi": ints(tensor.SubI), "arith.muli": ints(tensor.MulI),
		"arith.divsi": ints(tensor.DivS), "arith.divui": ints(tensor.DivU), "arith.maxsi": ints(tensor.MaxS), "arith.minsi": ints(tensor.MinS),
		"arith.andi": ints(tensor.And), "arith.ori": ints(tensor.Or), "arith.xori": ints(tensor.Xor),
		"arith.shli": ints(tensor.Shl), "arith.shrui": ints(tensor.ShrU),

		"arith.negf": unary("neg"), "math.absf": unary("abs"), "math.exp": unary("exp"), "math.exp2": unary("exp2"), "math.log": unary("log"),
		"math.log2": unary("log2"), "math.log1p": unary("log1p"), "math.sqrt": unary("sqrt"), "math.rsqrt": unary("rsqrt"), "math.tanh": unary("tanh"),
		"math.absi": {pure: absolute},

		"arith.cmpf":   {attrs: []string{"predicate"}, pure: compareFloats},
		"arith.cmpi":   {attrs: []string{"predicate"}, pure: compareInts},
		"arith.select": {pure: choose},

		"arith.extf": converted(mlir.BF16, mlir.F32), "arith.truncf": converted(mlir.F32, mlir.BF16),
		"arith.sitofp": converted(mlir.I32, mlir.F32), "arith.fptosi": converted(mlir.F32, mlir.I32),
		"arith.uitofp": {pure: fromUnsigned}, "arith.fptoui": {pure: toUnsigned},
		"arith.extui": {pure: widen}, "arith.trunci": converted(mlir.I32, mlir.I16), "arith.index_cast": converted(mlir.I32, mlir.Index),
		"arith.bitcast": {pure: sameBits}, "tpu.bitcast": {pure: registerBits},
		"tpu.pack_elementwise": {attrs: []string{"target_type"}, pure: pack},

		"vector.shape_cast":            {pure: shapeCast},
		"vector.broadcast":             {pure: broadcast},
		"vector.extract":               {attrs: []string{"static_position"}, pure: extract},
		"vector.extract_strided_slice": {attrs: []string{"offsets", "sizes", "strides"}, pure: slice},
		"vector.multi_reduction":       {attrs: []string{"kind", "reduction_dims"}, pure: reduction},
		"tpu.iota":                     {attrs: []string{"dimensions"}, pure: iota},
		"tpu.transpose":                {attrs: []string{"permutation"}, pure: transpose},
		"tpu.concatenate":              {attrs: []string{"dimension"}, pure: concatenate},
		"tpu.dynamic_gather":           {attrs: []string{"dimensions"}, pure: gather},
		"tpu.matmul":                   {attrs: []string{"dimension_numbers", "precision", "transpose_lhs", "transpose_lhs_hint", "transpose_rhs"}, pure: matmul},
		"tpu.assume_multiple":          {attrs: []string{"multiple"}, pure: assumeMultiple},

		"memref.load":        {exec: loadScalar},
		"memref.store":       {exec: storeScalar},
		"vector.load":        {exec: load},
		"tpu.strided_load":   {attrs: []string{"strides"}, exec: load},
		"tpu.vector_store":   {attrs: []string{"add", "operandSegmentSizes", "strides"}, exec: store},
		"tpu.strided_store":  {attrs: []string{"strides"}, exec: store},
		"tpu.memref_slice":   {attrs: []string{"operandSegmentSizes"}, exec: sliceRef},
		"tpu.memref_squeeze": {exec: reshapeRef}, "tpu.memref_reshape": {exec: reshapeRef},
		"tpu.memref_bitcast": {exec: bitcastRef},
		"tpu.enqueue_dma":    {attrs: []string{"operandSegmentSizes", "priority", "strict_ordering"}, exec: startCopy},
		"tpu.wait_dma2":      {attrs: []string{"operandSegmentSizes", "strict_ordering"}, exec: waitCopy},

		"scf.if":  {exec: branch},
		"scf.for": {exec: loop},
	}
}

// prepare returns the function of an operation, or an error that says why it can not run.
func (k *Kernel) prepare(o *mlir.Op) (func(f frame) error, error) {
	fail := func(err error) error {
		if _, ok := err.(*located); ok {
			return err
		}
		return &located{o.Where(), err}
	}
	name, ok := strings.CutPrefix(o.Name, dialect)
	r, known := rules[name]
	if !ok || !known {
		return nil, fail(fmt.Errorf("the evaluator has no rule for this operation"))
	}
	for _, a := range o.Attrs.Names() {
		if !slices.Contains(r.attrs, a) {
			return nil, fail(fmt.Errorf("attribute %s is not supported", a))
		}
	}
	if r.exec != nil {
		run, err := r.exec(k, o)
		if err != nil {
			return nil, fail(err)
		}
		return run, nil
	}
	if len(o.Outs) != 1 || len(o.Regions) > 0 {
		return nil, fail(fmt.Errorf("one result and no region are expected"))
	}
	for _, t := range append(o.Ins[:len(o.Ins):len(o.Ins)], o.Outs...) {
		if t.Kind != mlir.Scalar && t.Kind != mlir.Vector {
			return nil, fail(fmt.Errorf("%s: numbers and vectors are expected", t))
		}
	}
	c, err := r.pure(o)
	if err != nil {
		return nil, fail(err)
	}
	out, ins, want := o.Results[0], o.Operands, o.Outs[0]
	return func(f frame) error {
		t, err := c(f.tensors(ins))
		if err != nil {
			return err
		}
		if !t.Is(want) {
			return fmt.Errorf("gives %s, declared %s", t, want)
		}
		f[out].t = t
		return nil
	}, nil
}

// takes checks the number of operands.
func takes(o *mlir.Op, n int) error {
	if len(o.Ins) != n {
		return fmt.Errorf("%d operands, %d are expected", len(o.Ins), n)
	}
	return nil
}

// alike checks that there are n operands, all of the result's type.
func alike(o *mlir.Op, n int) error {
	if err := takes(o, n); err != nil {
		return err
	}
	for i, t := range o.Ins {
		if !t.Equal(o.Outs[0]) {
			return fmt.Errorf("operand %d is %s, the result %s", i, t, o.Outs[0])
		}
	}
	return nil
}

// attrInts returns an attribute of integers.
func attrInts(o *mlir.Op, name string) ([]int, error) {
	l, ok := mlir.Ints(o.Attrs[name])
	if !ok {
		return nil, fmt.Errorf("attribute %s: integers are expected", name)
	}
	return l, nil
}

// attrInt returns an attribute of one integer.
func attrInt(o *mlir.Op, name string) (int, error) {
	l, ok := mlir.Ints([]mlir.Attr{o.Attrs[name]})
	if !ok {
		return 0, fmt.Errorf("attribute %s: an integer is expected", name)
	}
	return l[0], nil
}

// within checks that dimensions are distinct and valid for a rank.
func within(name string, dims []int, rank int) error {
	for i, d := range dims {
		if d < 0 || d >= rank || slices.Contains(dims[:i], d) {
			return fmt.Errorf("%s %v of rank %d", name, dims, rank)
		}
	}
	return nil
}

// off checks that flags are not set.
func off(o *mlir.Op, names ...string) error {
	for _, n := range names {
		if v, ok := o.Attrs[n]; ok && v != false {
			return fmt.Errorf("attribute %s = %v is not supported", n, v)
		}
	}
	return nil
}
