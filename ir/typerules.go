package ir

import (
	"fmt"
	"slices"
)

func isNumber(d DType) bool { return d.IsFloat() || d.IsInt() }
func isFloat(d DType) bool  { return d.IsFloat() }
func isAny(DType) bool      { return true }
func isInt(d DType) bool    { return d.IsInt() }
func isBits(d DType) bool   { return d.IsInt() || d == Bool }

func one(t Type) ([]Type, error) { return []Type{t}, nil }

// declared returns the explicit result type.
func declared(in *Instr) (Type, error) {
	if len(in.Results) != 1 {
		return Type{}, fmt.Errorf("wants one declared result type, has %d", len(in.Results))
	}
	t := in.Results[0].Type
	return t, checkType(t)
}

// declaredValue is declared for ops that make values.
func declaredValue(in *Instr) (Type, error) {
	t, err := declared(in)
	if err == nil && (t.IsRef() || t.DType == Sem) {
		err = fmt.Errorf("declared type %s is not a value", t)
	}
	return t, err
}

// checkType rejects types that no value or reference can have.
func checkType(t Type) error {
	if t.DType == Invalid || int(t.DType) >= len(dtypes) || int(t.Space) >= len(spaces) {
		return fmt.Errorf("unknown element type or memory space")
	}
	n := 1
	for _, d := range t.Shape {
		if d < 0 || (d > 0 && n > maxElements/d) {
			return fmt.Errorf("type %s is negative or has more than %d elements", t, maxElements)
		}
		n *= max(d, 1)
	}
	return nil
}

func tConst(in *Instr) ([]Type, error) {
	t, err := declaredValue(in)
	return []Type{t}, err
}

func tIota(in *Instr) ([]Type, error) {
	t, err := declaredValue(in)
	if err != nil {
		return nil, err
	}
	if in.Attrs.Axis < 0 || in.Attrs.Axis >= t.Rank() || !isNumber(t.DType) {
		return nil, fmt.Errorf("axis %d of %s", in.Attrs.Axis, t)
	}
	return one(t)
}

func tUnary(ok func(DType) bool) func(*Instr) ([]Type, error) {
	return func(in *Instr) ([]Type, error) {
		t := in.Args[0].Type
		if t.IsRef() || !ok(t.DType) {
			return nil, fmt.Errorf("not defined on %s", t)
		}
		return one(t)
	}
}

func tBinary(ok func(DType) bool) func(*Instr) ([]Type, error) {
	return func(in *Instr) ([]Type, error) {
		x, y := in.Args[0].Type, in.Args[1].Type
		if !x.Equal(y) {
			return nil, fmt.Errorf("operands differ: %s and %s", x, y)
		}
		if x.IsRef() || !ok(x.DType) {
			return nil, fmt.Errorf("not defined on %s", x)
		}
		return one(x)
	}
}

func tCompare(in *Instr) ([]Type, error) {
	if _, err := tBinary(func(d DType) bool { return isNumber(d) || d == Bool })(in); err != nil {
		return nil, err
	}
	return one(T(Bool, in.Args[0].Type.Shape...))
}

func tSelect(in *Instr) ([]Type, error) {
	c, x, y := in.Args[0].Type, in.Args[1].Type, in.Args[2].Type
	if !x.Equal(y) || x.IsRef() {
		return nil, fmt.Errorf("branches differ: %s and %s", x, y)
	}
	if !c.Equal(T(Bool, x.Shape...)) && !c.Equal(T(Bool)) {
		return nil, fmt.Errorf("condition %s for %s", c, x)
	}
	return one(x)
}

func tConvert(in *Instr) ([]Type, error) {
	t, err := declaredValue(in)
	if err != nil {
		return nil, err
	}
	x := in.Args[0].Type
	if x.IsRef() || t.IsRef() || !slices.Equal(x.Shape, t.Shape) {
		return nil, fmt.Errorf("%s to %s", x, t)
	}
	return one(t)
}

func tBitcast(in *Instr) ([]Type, error) {
	ts, err := tConvert(in)
	if err != nil {
		return nil, err
	}
	x := in.Args[0].Type.DType
	if d := ts[0].DType; d.Bytes() != x.Bytes() || d == Bool || x == Bool {
		return nil, fmt.Errorf("%s and %s differ in width", x, d)
	}
	return ts, nil
}

func tPack(in *Instr) ([]Type, error) {
	if _, err := tBinary(func(d DType) bool { return d == F32 })(in); err != nil {
		return nil, err
	}
	return one(T(U32, in.Args[0].Type.Shape...))
}

func tWords(in *Instr) ([]Type, error) {
	x := in.Args[0].Type
	n := x.Rank()
	if x.IsRef() || x.DType != BF16 || n < 2 || x.Shape[n-2]%2 != 0 {
		return nil, fmt.Errorf("wants bf16 with an even number of rows, has %s", x)
	}
	s := slices.Clone(x.Shape)
	s[n-2] /= 2
	return one(T(U32, s...))
}

func tHalves(in *Instr) ([]Type, error) {
	x := in.Args[0].Type
	n := x.Rank()
	if x.IsRef() || x.DType != U32 || n < 2 {
		return nil, fmt.Errorf("wants u32 rows, has %s", x)
	}
	s := slices.Clone(x.Shape)
	s[n-2] *= 2
	return one(T(BF16, s...))
}

func tBroadcast(in *Instr) ([]Type, error) {
	t, err := declaredValue(in)
	if err != nil {
		return nil, err
	}
	x, dims := in.Args[0].Type, in.Attrs.Dims
	if x.IsRef() || t.IsRef() || x.DType != t.DType || len(dims) != x.Rank() {
		return nil, fmt.Errorf("%s to %s with dims %v", x, t, dims)
	}
	for i, d := range dims {
		if d < 0 || d >= t.Rank() || (i > 0 && d <= dims[i-1]) || (x.Shape[i] != 1 && x.Shape[i] != t.Shape[d]) {
			return nil, fmt.Errorf("%s to %s with dims %v", x, t, dims)
		}
	}
	return one(t)
}

func tReshape(in *Instr) ([]Type, error) {
	t, err := declaredValue(in)
	if err != nil {
		return nil, err
	}
	x := in.Args[0].Type
	if x.IsRef() || t.IsRef() || x.DType != t.DType || x.Size() != t.Size() {
		return nil, fmt.Errorf("%s to %s", x, t)
	}
	return one(t)
}

func tTranspose(in *Instr) ([]Type, error) {
	x, perm := in.Args[0].Type, in.Attrs.Dims
	if x.IsRef() || !isPerm(perm, x.Rank()) {
		return nil, fmt.Errorf("%v is no permutation of the dimensions of %s", perm, x)
	}
	s := make([]int, len(perm))
	for i, p := range perm {
		s[i] = x.Shape[p]
	}
	return one(T(x.DType, s...))
}

func isPerm(p []int, n int) bool {
	seen := make([]bool, n)
	for _, i := range p {
		if i < 0 || i >= n || seen[i] {
			return false
		}
		seen[i] = true
	}
	return len(p) == n
}

// Step returns stride i, or 1 without strides.
func (a *Attrs) Step(i int) int {
	if a.Strides == nil {
		return 1
	}
	return a.Strides[i]
}

func tSlice(in *Instr) ([]Type, error) {
	x, a := in.Args[0].Type, &in.Attrs
	n := x.Rank()
	if x.IsRef() || len(a.Starts) != n || len(a.Limits) != n || (a.Strides != nil && len(a.Strides) != n) {
		return nil, fmt.Errorf("starts %v limits %v strides %v of %s", a.Starts, a.Limits, a.Strides, x)
	}
	s := make([]int, n)
	for i := range s {
		st := a.Step(i)
		if a.Starts[i] < 0 || a.Limits[i] < a.Starts[i] || a.Limits[i] > x.Shape[i] || st < 1 {
			return nil, fmt.Errorf("dimension %d of %s: %d to %d by %d", i, x, a.Starts[i], a.Limits[i], st)
		}
		if n := a.Limits[i] - a.Starts[i]; n > 0 {
			s[i] = (n-1)/st + 1
		}
	}
	return one(T(x.DType, s...))
}

func tConcat(in *Instr) ([]Type, error) {
	x, ax := in.Args[0].Type, in.Attrs.Axis
	if x.IsRef() || ax < 0 || ax >= x.Rank() {
		return nil, fmt.Errorf("axis %d of %s", ax, x)
	}
	s := slices.Clone(x.Shape)
	for _, v := range in.Args[1:] {
		y := v.Type
		if y.DType != x.DType || y.Rank() != x.Rank() || y.IsRef() {
			return nil, fmt.Errorf("%s and %s", x, y)
		}
		for i := range s {
			if i != ax && y.Shape[i] != x.Shape[i] {
				return nil, fmt.Errorf("%s and %s along axis %d", x, y, ax)
			}
		}
		s[ax] += y.Shape[ax]
	}
	return one(T(x.DType, s...))
}

func tPad(in *Instr) ([]Type, error) {
	x, a := in.Args[0].Type, &in.Attrs
	if x.IsRef() || len(a.Starts) != x.Rank() || len(a.Limits) != x.Rank() {
		return nil, fmt.Errorf("starts %v limits %v of %s", a.Starts, a.Limits, x)
	}
	s := slices.Clone(x.Shape)
	for i := range s {
		if lo, hi := a.Starts[i], a.Limits[i]; lo < 0 || hi < 0 || lo > maxElements || hi > maxElements {
			return nil, fmt.Errorf("padding of dimension %d by %d and %d", i, lo, hi)
		}
		s[i] += a.Starts[i] + a.Limits[i]
	}
	return one(T(x.DType, s...))
}

func tReduce(in *Instr) ([]Type, error) {
	x := in.Args[0].Type
	if x.IsRef() || !isNumber(x.DType) {
		return nil, fmt.Errorf("not defined on %s", x)
	}
	s := []int{}
	for i, d := range x.Shape {
		if !slices.Contains(in.Attrs.Dims, i) {
			s = append(s, d)
		}
	}
	if len(s)+len(in.Attrs.Dims) != x.Rank() {
		return nil, fmt.Errorf("dims %v of %s", in.Attrs.Dims, x)
	}
	return one(T(x.DType, s...))
}

func tCumsum(in *Instr) ([]Type, error) {
	x := in.Args[0].Type
	if x.IsRef() || !isNumber(x.DType) || in.Attrs.Axis < 0 || in.Attrs.Axis >= x.Rank() {
		return nil, fmt.Errorf("axis %d of %s", in.Attrs.Axis, x)
	}
	return one(x)
}

func tTake(in *Instr) ([]Type, error) {
	x, y, ax := in.Args[0].Type, in.Args[1].Type, in.Attrs.Axis
	if x.IsRef() || y.IsRef() || y.DType != I32 || x.Rank() != y.Rank() || ax < 0 || ax >= x.Rank() {
		return nil, fmt.Errorf("%s by %s along axis %d", x, y, ax)
	}
	for i := range x.Shape {
		if i != ax && x.Shape[i] != y.Shape[i] {
			return nil, fmt.Errorf("%s by %s along axis %d", x, y, ax)
		}
	}
	return one(T(x.DType, y.Shape...))
}

func tGatherRows(in *Instr) ([]Type, error) {
	x, y, ax := in.Args[0].Type, in.Args[1].Type, in.Attrs.Axis
	if x.IsRef() || y.IsRef() || y.DType != I32 || y.Rank() != 1 || ax < 0 || ax >= x.Rank() {
		return nil, fmt.Errorf("%s by %s along axis %d", x, y, ax)
	}
	s := slices.Clone(x.Shape)
	s[ax] = y.Shape[0]
	return one(T(x.DType, s...))
}

func scalars(vs []*Value, n int) error {
	if len(vs) != n {
		return fmt.Errorf("wants %d scalar indices, has %d", n, len(vs))
	}
	for _, v := range vs {
		if !v.Type.Equal(T(I32)) {
			return fmt.Errorf("index of type %s, wants i32[]", v.Type)
		}
	}
	return nil
}

func fits(block, whole []int) bool {
	if len(block) != len(whole) {
		return false
	}
	for i := range block {
		if block[i] > whole[i] {
			return false
		}
	}
	return true
}

func tDynSlice(in *Instr) ([]Type, error) {
	t, err := declaredValue(in)
	if err != nil {
		return nil, err
	}
	x := in.Args[0].Type
	if x.IsRef() || t.DType != x.DType || !fits(t.Shape, x.Shape) {
		return nil, fmt.Errorf("%s of %s", t, x)
	}
	return []Type{t}, scalars(in.Args[1:], x.Rank())
}

func tDynUpdate(in *Instr) ([]Type, error) {
	x, y := in.Args[0].Type, in.Args[1].Type
	if x.IsRef() || y.IsRef() || y.DType != x.DType || !fits(y.Shape, x.Shape) {
		return nil, fmt.Errorf("%s in %s", y, x)
	}
	return []Type{x}, scalars(in.Args[2:], x.Rank())
}

func tDot(in *Instr) ([]Type, error) {
	t, err := declaredValue(in)
	if err != nil {
		return nil, err
	}
	x, y, d := in.Args[0].Type, in.Args[1].Type, in.Attrs.Dot
	if d == nil || len(d.LB) != len(d.RB) || len(d.LC) != len(d.RC) {
		return nil, fmt.Errorf("dimension numbers do not pair")
	}
	if x.IsRef() || y.IsRef() || !x.DType.IsFloat() || !y.DType.IsFloat() || !t.DType.IsFloat() {
		return nil, fmt.Errorf("%s by %s to %s", x, y, t)
	}
	var s []int
	used := func(list ...[]int) map[int]bool {
		m := map[int]bool{}
		for _, l := range list {
			for _, i := range l {
				m[i] = true
			}
		}
		return m
	}
	lu, ru := used(d.LB, d.LC), used(d.RB, d.RC)
	if len(lu) != len(d.LB)+len(d.LC) || len(ru) != len(d.RB)+len(d.RC) {
		return nil, fmt.Errorf("a dimension is named twice: %+v", *d)
	}
	pair := func(l, r []int) error {
		for i := range l {
			if l[i] < 0 || l[i] >= x.Rank() || r[i] < 0 || r[i] >= y.Rank() || x.Shape[l[i]] != y.Shape[r[i]] {
				return fmt.Errorf("dimension %d of %s against %d of %s", l[i], x, r[i], y)
			}
		}
		return nil
	}
	if err := pair(d.LB, d.RB); err != nil {
		return nil, err
	}
	if err := pair(d.LC, d.RC); err != nil {
		return nil, err
	}
	for _, i := range d.LB {
		s = append(s, x.Shape[i])
	}
	for i, n := range x.Shape {
		if !lu[i] {
			s = append(s, n)
		}
	}
	for i, n := range y.Shape {
		if !ru[i] {
			s = append(s, n)
		}
	}
	if !slices.Equal(s, t.Shape) {
		return nil, fmt.Errorf("%s by %s gives shape %v, declared %s", x, y, s, t)
	}
	return one(t)
}
