package interp

import (
	"encoding/binary"
	"math"

	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/array"
)

// tensor is a dense row-major value. Exactly one of the slices holds the elements: d for F64, f for
// the other floats (each a float32 that its type can hold), n for integers and bool (each within
// its type's range). Tensors are immutable once made, so they may share storage.
type tensor struct {
	dt    ir.DType
	shape []int
	f     []float32
	d     []float64
	n     []int64
}

// newTensor is zeros.
func newTensor(dt ir.DType, shape []int) *tensor {
	size := 1
	for _, s := range shape {
		size *= s
	}
	t := &tensor{dt: dt, shape: shape}
	switch {
	case dt == ir.F64:
		t.d = make([]float64, size)
	case dt.IsFloat():
		t.f = make([]float32, size)
	default:
		t.n = make([]int64, size)
	}
	return t
}

func newLike(t ir.Type) *tensor { return newTensor(t.DType, t.Shape) }

func (t *tensor) size() int { return len(t.f) + len(t.d) + len(t.n) }

// reshaped shares the storage.
func (t *tensor) reshaped(shape []int) *tensor {
	u := *t
	u.shape = shape
	return &u
}

// scalar is the value of an integer or bool scalar.
func (t *tensor) scalar() int64 { return t.n[0] }

// fromArray takes the elements of an array, and array gives them back.
func fromArray(a *array.Array) *tensor {
	t := &tensor{dt: a.Type, shape: a.Shape}
	switch {
	case a.Type == ir.F64:
		t.d = a.Float64s()
	case a.Type.IsFloat():
		t.f = a.Float32s()
	default:
		t.n = a.Int64s()
	}
	return t
}

func (t *tensor) array() *array.Array {
	switch {
	case t.dt == ir.F64:
		return array.FromFloat64s(t.dt, t.shape, t.d)
	case t.dt.IsFloat():
		return array.FromFloat32s(t.dt, t.shape, t.f)
	}
	return array.FromInt64s(t.dt, t.shape, t.n)
}

// round brings float32 values into the range of a narrower type, in place.
func round(dt ir.DType, v []float32) {
	switch dt {
	case ir.BF16:
		roundBF16(v, v)
	case ir.F16:
		for i, x := range v {
			v[i] = array.RoundF16(x)
		}
	}
}

// roundBF16 rounds to the upper 16 bits of a float32, to nearest, ties to even: half of the last
// place is added, and one more where the last place is odd. A NaN keeps a bit in its upper half, or
// it would become infinity.
//
//	0x3f808000, the tie above 1     + 0x7fff + 0  ->  0x3f80ffff  ->  0x3f80
//	0x3f818000, the tie above that  + 0x7fff + 1  ->  0x3f820000  ->  0x3f82
func roundBF16(dst, src []float32) {
	dst = dst[:len(src)]
	for i, x := range src {
		b := math.Float32bits(x)
		if x == x {
			b += 0x7fff + b>>16&1
		} else {
			b |= 0x400000
		}
		dst[i] = math.Float32frombits(b &^ 0xffff)
	}
}

// wrap brings integers into the range of their type, in place.
func wrap(dt ir.DType, v []int64) {
	switch dt {
	case ir.I32:
		for i, x := range v {
			v[i] = int64(int32(x))
		}
	case ir.U32:
		for i, x := range v {
			v[i] = int64(uint32(x))
		}
	case ir.U16:
		for i, x := range v {
			v[i] = int64(uint16(x))
		}
	}
}

// splat fills a new tensor with the constant v, converted as array.FromFloat64s does.
func splat(t ir.Type, v float64) *tensor {
	one := fromArray(array.FromFloat64s(t.DType, []int{1}, []float64{v}))
	out := newLike(t)
	if out.size() > 0 {
		block{dst: out, src: one, dStr: strides(t.Shape), sStr: make([]int, len(t.Shape)), shape: t.Shape}.copy()
	}
	return out
}

// strides are the row-major strides of a shape.
func strides(shape []int) []int {
	s := make([]int, len(shape))
	n := 1
	for i := len(shape) - 1; i >= 0; i-- {
		s[i] = n
		n *= shape[i]
	}
	return s
}

// block is a strided copy between two tensors of one element type; every op that moves elements is
// one or more of these.
type block struct {
	dst, src   *tensor
	dOff, sOff int
	dStr, sStr []int
	shape      []int
}

// copy runs the copy. An empty shape of any dimension 0 copies nothing. Dimensions that are in a
// run on both sides are one: most moves then are a few calls of copy, and the rest loops with a
// stride in it.
func (b block) copy() {
	// Drop dimensions of 1 and join neighbours that are contiguous on both sides.
	var buf [24]int
	shape, ds, ss := buf[0:0:8], buf[8:8:16], buf[16:16:24]
	for i, n := range b.shape {
		if n == 0 {
			return
		}
		if n == 1 {
			continue
		}
		if k := len(shape) - 1; k >= 0 && ds[k] == n*b.dStr[i] && ss[k] == n*b.sStr[i] {
			shape[k] *= n
			ds[k], ss[k] = b.dStr[i], b.sStr[i]
			continue
		}
		shape, ds, ss = append(shape, n), append(ds, b.dStr[i]), append(ss, b.sStr[i])
	}
	switch {
	case b.dst.f != nil:
		strided(b.dst.f, b.dOff, ds, b.src.f, b.sOff, ss, shape)
	case b.dst.d != nil:
		strided(b.dst.d, b.dOff, ds, b.src.d, b.sOff, ss, shape)
	default:
		strided(b.dst.n, b.dOff, ds, b.src.n, b.sOff, ss, shape)
	}
}

// strided copies by strides of both sides. A stride of 0 in the source repeats an element: a
// broadcast.
func strided[T any](dst []T, do int, ds []int, src []T, so int, ss []int, shape []int) {
	switch len(shape) {
	case 0:
		dst[do] = src[so]
		return
	case 1:
		n, dk, sk := shape[0], ds[0], ss[0]
		switch {
		case dk == 1 && sk == 1:
			copy(dst[do:do+n], src[so:so+n])
		case dk == 1 && sk == 0:
			x, row := src[so], dst[do:do+n]
			for i := range row {
				row[i] = x
			}
		case dk == 1:
			row := dst[do : do+n]
			for i := range row {
				row[i] = src[so]
				so += sk
			}
		default:
			for range n {
				dst[do] = src[so]
				do, so = do+dk, so+sk
			}
		}
		return
	}
	for range shape[0] {
		strided(dst, do, ds[1:], src, so, ss[1:], shape[1:])
		do, so = do+ds[0], so+ss[0]
	}
}

// bits of one element, as an unsigned number of the type's width.
func (t *tensor) bits(i int) uint64 {
	switch t.dt {
	case ir.F64:
		return math.Float64bits(t.d[i])
	case ir.F32:
		return uint64(math.Float32bits(t.f[i]))
	case ir.BF16:
		return uint64(math.Float32bits(t.f[i]) >> 16)
	case ir.F16:
		return uint64(binary.LittleEndian.Uint16(array.FromFloat32s(ir.F16, []int{1}, t.f[i:i+1]).Data))
	case ir.I32, ir.U32:
		return uint64(uint32(t.n[i]))
	case ir.U16:
		return uint64(uint16(t.n[i]))
	}
	return uint64(t.n[i])
}

// setBits is the inverse of bits.
func (t *tensor) setBits(i int, b uint64) {
	switch t.dt {
	case ir.F64:
		t.d[i] = math.Float64frombits(b)
	case ir.F32:
		t.f[i] = math.Float32frombits(uint32(b))
	case ir.BF16:
		t.f[i] = math.Float32frombits(uint32(b) << 16)
	case ir.F16:
		var data [2]byte
		binary.LittleEndian.PutUint16(data[:], uint16(b))
		t.f[i] = (&array.Array{Type: ir.F16, Shape: []int{1}, Data: data[:]}).Float32s()[0]
	case ir.I32:
		t.n[i] = int64(int32(b))
	case ir.U32:
		t.n[i] = int64(uint32(b))
	case ir.U16:
		t.n[i] = int64(uint16(b))
	case ir.Bool:
		t.n[i] = int64(b & 1)
	default:
		t.n[i] = int64(b)
	}
}

// poison marks elements that nothing has written: NaN in floats, the pattern 0x7EADBEEF in
// integers, true in bools. NaN passes through all that is made of it; an integer of that size, as
// an index, is outside of everything.
func (t *tensor) poison() {
	for i := range t.f {
		t.f[i] = float32(math.NaN())
	}
	for i := range t.d {
		t.d[i] = math.NaN()
	}
	const pattern = 0x7EADBEEF7EADBEEF
	for i := range t.n {
		t.setBits(i, pattern)
	}
}
