package eval

import (
	"fmt"
	"math"

	"github.com/gdngen/gdngen/codegen/mlir"
	"github.com/gdngen/gdngen/codegen/mlir/tensor"
)

// memory is the memory behind references: an array in HBM, a window, scratch, a table or semaphores.
type memory struct {
	name  string
	elem  mlir.Elem
	words []uint32 // elements of 32 bits
	short []uint16 // elements of 16 bits
	sems  []semaphore
	fixed string // why it must not be written; "" if it may

	// The state of each element, nil if all are known: known halves (bits 0 and 1), arriving (bit 2), and from bit 3 on the number of
	// copies that read it.
	state   []uint8
	unknown int // elements that are not simply known

	written []bool // elements overwritten, of an array that an input shares with an output
}

const (
	known    = 3
	arriving = 4
	leaving  = 8
)

func newMemory(name string, e mlir.Elem, size int) (*memory, error) {
	m := &memory{name: name, elem: e}
	switch e {
	case mlir.F32, mlir.I32:
		m.words = make([]uint32, size)
	case mlir.BF16, mlir.I16:
		m.short = make([]uint16, size)
	case mlir.Semaphore:
		m.sems = make([]semaphore, size)
	default:
		return nil, fmt.Errorf("%s: no memory of %s in a kernel", name, e)
	}
	return m, nil
}

func (m *memory) size() int { return len(m.words) + len(m.short) }

// forget makes all elements unknown.
func (m *memory) forget() {
	if m.elem == mlir.Semaphore {
		return
	}
	if m.state == nil {
		m.state = make([]uint8, m.size())
	} else {
		clear(m.state)
	}
	m.unknown = m.size()
}

// track gives every element its own state.
func (m *memory) track() {
	if m.state == nil {
		m.state = make([]uint8, m.size())
		for i := range m.state {
			m.state[i] = known
		}
	}
}

// of returns memory with a tensor's elements.
func of(name string, t *tensor.Tensor) (*memory, error) {
	m, err := newMemory(name, t.Elem, t.Size())
	if err != nil {
		return nil, err
	}
	m.put(0, t, 0, t.Size())
	return m, nil
}

// put copies n elements of a tensor to an address.
func (m *memory) put(at int, t *tensor.Tensor, from, n int) {
	switch {
	case m.elem == mlir.F32:
		dst := m.words[at:][:n]
		for i, v := range t.F[from:][:n] {
			dst[i] = math.Float32bits(v)
		}
	case m.elem == mlir.BF16:
		dst := m.short[at:][:n]
		for i, v := range t.F[from:][:n] {
			dst[i] = uint16(math.Float32bits(v) >> 16)
		}
	case m.words != nil:
		dst := m.words[at:][:n]
		for i, v := range t.N[from:][:n] {
			dst[i] = uint32(v)
		}
	default:
		dst := m.short[at:][:n]
		for i, v := range t.N[from:][:n] {
			dst[i] = uint16(v)
		}
	}
}

// get copies n elements at an address to a tensor.
func (m *memory) get(t *tensor.Tensor, to, at, n int) {
	switch {
	case m.elem == mlir.F32:
		dst := t.F[to:][:n]
		for i, b := range m.words[at:][:n] {
			dst[i] = math.Float32frombits(b)
		}
	case m.elem == mlir.BF16:
		dst := t.F[to:][:n]
		for i, b := range m.short[at:][:n] {
			dst[i] = math.Float32frombits(uint32(b) << 16)
		}
	case m.words != nil:
		dst := t.N[to:][:n]
		for i, b := range m.words[at:][:n] {
			dst[i] = int32(b)
		}
	default:
		dst := t.N[to:][:n]
		for i, b := range m.short[at:][:n] {
			dst[i] = int32(int16(b))
		}
	}
}

// tensor returns the contents of an array in HBM; unknown elements are poison.
func (m *memory) tensor(shape []int) *tensor.Tensor {
	t := tensor.New(m.elem, shape...)
	if m.get(t, 0, 0, m.size()); m.unknown > 0 {
		m.poison(t, 0, 0, m.size(), known)
	}
	return t
}

// readable counts the elements that are known in half (1 or 2), or in both halves (3). It errs for elements that a copy will write.
func (m *memory) readable(at, n int, half uint8) (int, error) {
	if m.unknown == 0 {
		return n, nil
	}
	good := 0
	for i, s := range m.state[at : at+n] {
		switch {
		case s&arriving != 0:
			return 0, fmt.Errorf("element %d of %s is read while a copy to it is in flight", at+i, m.name)
		case s&half == half:
			good++
		}
	}
	return good, nil
}

// poison replaces unknown elements by poison: n elements of t from index from, at address at.
func (m *memory) poison(t *tensor.Tensor, from, at, n int, half uint8) {
	for i, s := range m.state[at : at+n] {
		if s&half != half {
			t.SetBits(from+i, poison>>(32-8*t.Elem.Bytes()))
		}
	}
}

// poison is the value of unknown memory: NaN as f32, and in both halves as bf16; as a 32-bit number far out of any range.
const poison = 0x7fc07fc0

// write marks elements, or one half of each, as written.
func (m *memory) write(at, n int, half uint8) error {
	if m.fixed != "" {
		return fmt.Errorf("%s is written: %s", m.name, m.fixed)
	}
	if m.written != nil {
		for i := range n {
			m.written[at+i] = true
		}
	}
	if m.unknown == 0 {
		return nil
	}
	for i, s := range m.state[at : at+n] {
		if s > known {
			return fmt.Errorf("element %d of %s is written while a copy of it is in flight", at+i, m.name)
		}
		if s != known && s|half == known {
			m.unknown--
		}
		m.state[at+i] = s | half
	}
	return nil
}

// ref is a view of a memory. In a view of another width, addresses count the view's elements, and cols is the length of a row. Row r of
// 32 bits is rows 2r (the low half) and 2r+1 of 16 bits.
type ref struct {
	mem        *memory
	elem       mlir.Elem
	shape, str []int
	off        int
	cols       int // 0: the width of the memory
	space      string
}

func newRef(m *memory, t mlir.Type) *ref {
	return &ref{mem: m, elem: t.Elem, shape: t.Shape, str: tensor.Strides(t.Shape), space: t.Space}
}

// part returns the block of a reference from starts on, with sizes elements by steps.
func (r *ref) part(starts, sizes, steps []int) (*ref, error) {
	p := *r
	p.shape, p.str = sizes, make([]int, len(sizes))
	for d, n := range sizes {
		step := 1
		if steps != nil {
			step = steps[d]
		}
		if last := starts[d] + (n-1)*step; starts[d] < 0 || last >= r.shape[d] || n < 1 || step < 1 {
			return nil, fmt.Errorf("elements %d to %d of dimension %d are outside %s of %v", starts[d], last, d, r.mem.name, r.shape)
		}
		p.str[d] = step * r.str[d]
		p.off += starts[d] * r.str[d]
	}
	return &p, nil
}

// dense reports whether the elements are contiguous.
func (r *ref) dense() bool {
	n := 1
	for d := len(r.shape) - 1; d >= 0; d-- {
		if r.shape[d] != 1 && r.str[d] != n {
			return false
		}
		n *= r.shape[d]
	}
	return true
}

// rows calls f for each row of the view with its first address, the index of its first element, and its length.
func (r *ref) rows(f func(at, i, n int) error) error {
	if n := len(r.str); n > 0 && r.str[n-1] != 1 && r.shape[n-1] != 1 {
		return fmt.Errorf("steps along the lanes of %s", r.mem.name)
	}
	var err error
	tensor.Block{Shape: r.shape, DstStr: tensor.Strides(r.shape), SrcStr: r.str, Src: r.off}.Each(func(i, at, n int) {
		if err == nil {
			err = f(at, i, n)
		}
	})
	return err
}

// halves returns, for a row's 32-bit elements in 16-bit memory, both addresses; for the opposite case, the element's address and half.
func (r *ref) halves(at int) (lo, hi int, half uint8) {
	row, col := at/r.cols, at%r.cols
	if r.elem.Bytes() == 4 {
		return 2*row*r.cols + col, (2*row+1)*r.cols + col, known
	}
	lo = row/2*r.cols + col
	return lo, lo, uint8(1 + row%2)
}

// load reads the whole view; unknown elements are poison. It errs if no element is known.
func (r *ref) load() (*tensor.Tensor, error) {
	t := tensor.New(r.elem, r.shape...)
	good := 0
	err := r.rows(func(at, i, n int) error {
		k, err := r.loadRow(t, at, i, n)
		good += k
		return err
	})
	if err == nil && good == 0 {
		err = fmt.Errorf("%s is read where nothing has been written", r.mem.name)
	}
	return t, err
}

// loadRow reads a row, and returns the number of its known elements.
func (r *ref) loadRow(t *tensor.Tensor, at, i, n int) (int, error) {
	m := r.mem
	lo, hi, half := at, at, uint8(known)
	if r.cols > 0 {
		lo, hi, half = r.halves(at)
	}
	good, err := m.readable(lo, n, half)
	if err != nil {
		return 0, err
	}
	switch {
	case r.cols == 0:
		m.get(t, i, at, n)
	case r.elem.Bytes() == 2:
		for j := range n {
			t.SetBits(i+j, uint64(m.words[lo+j]>>(16*(half-1))&0xffff))
		}
	default:
		k, err := m.readable(hi, n, half)
		if err != nil {
			return 0, err
		}
		good = min(good, k)
		for j := range n {
			t.SetBits(i+j, uint64(m.short[lo+j])|uint64(m.short[hi+j])<<16)
		}
	}
	if good < n {
		m.poison(t, i, lo, n, half)
		m.poison(t, i, hi, n, half)
	}
	return good, nil
}

// store writes the whole view; t has its elements in row-major order.
func (r *ref) store(t *tensor.Tensor) error {
	m := r.mem
	return r.rows(func(at, i, n int) error {
		if r.cols == 0 {
			err := m.write(at, n, known)
			if err == nil {
				m.put(at, t, i, n)
			}
			return err
		}
		lo, hi, half := r.halves(at)
		if err := m.write(lo, n, half); err != nil {
			return err
		}
		if r.elem.Bytes() == 2 {
			shift := 16 * (half - 1)
			for j := range n {
				m.words[lo+j] = m.words[lo+j]&^(0xffff<<shift) | uint32(t.Bits(i+j))<<shift
			}
			return nil
		}
		if err := m.write(hi, n, known); err != nil {
			return err
		}
		for j := range n {
			b := t.Bits(i + j)
			m.short[lo+j], m.short[hi+j] = uint16(b), uint16(b>>16)
		}
		return nil
	})
}
