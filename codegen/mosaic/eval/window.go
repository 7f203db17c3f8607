package eval

import (
	"fmt"
	"slices"

	"github.com/gdngen/gdngen/codegen/mlir"
	"github.com/gdngen/gdngen/codegen/mlir/tensor"
)

// window shows one block of an array at a time. index computes the block's numbers from the grid point and tables.
type window struct {
	name  string
	block []int
	index *function
	typ   mlir.Type // of the body's parameter
	out   bool
}

// newWindow reads the description of a window; nil for an empty one.
func (k *Kernel) newWindow(m *mlir.Module, attr mlir.Attr, t mlir.Type) (*window, error) {
	d, ok := attr.(mlir.Dict)
	if !ok {
		return nil, fmt.Errorf("the description of a window is expected, not %v", attr)
	}
	if len(d) == 0 {
		return nil, nil
	}
	for _, n := range d.Names() {
		switch n {
		case "transform_indices", "window_bounds":
		case "pipeline_mode": // it changes when the window is fetched, not what
		default:
			return nil, fmt.Errorf("%s of a window is not supported", n)
		}
	}
	sym, ok := d["transform_indices"].(mlir.Symbol)
	if !ok {
		return nil, fmt.Errorf("a window without transform_indices")
	}
	f, err := m.Func(string(sym))
	if err != nil {
		return nil, err
	}
	w := &window{typ: t}
	if w.index, err = k.newFunction(f); err != nil {
		return nil, err
	}
	if w.block, ok = d["window_bounds"].([]int); !ok || !slices.Equal(w.block, t.Shape) || len(f.Outs) != len(w.block) || slices.Contains(w.block, 0) {
		return nil, fmt.Errorf("a window of %v, with %d indices, shown as %s", d["window_bounds"], len(f.Outs), t)
	}
	for _, o := range f.Outs {
		if !o.Equal(mlir.Type{Elem: mlir.I32}) {
			return nil, fmt.Errorf("function @%s: a block index is %s", f.Name, o)
		}
	}
	return w, nil
}

// view is a window during a run.
type view struct {
	*window
	array *memory
	whole []int // shape of the array
	at    []int // the block shown; nil for none
	buf   *memory
	by    map[string]string // programs that wrote each block
}

// show brings the block of a grid point into the window. program names the point on the parallel axes.
func (v *view) show(args []value, program string) error {
	out, err := v.index.call(args)
	if err != nil {
		return err
	}
	at := make([]int, len(out))
	for d, x := range out {
		at[d] = x.t.Int()
		if b := v.block[d]; at[d] < 0 || (at[d]+1)*b > v.whole[d] {
			return fmt.Errorf("%s: block %v of %v is outside the array of %v", v.name, at[:d+1], v.block, v.whole)
		}
	}
	if v.at != nil && slices.Equal(at, v.at) {
		return nil
	}
	if err := v.writeBack(); err != nil {
		return err
	}
	if v.buf, err = newMemory(v.name, v.array.elem, tensor.Size(v.block)); err != nil {
		return err
	}
	v.at = at
	if !v.out {
		return v.fetch()
	}
	v.buf.forget()
	key := fmt.Sprint(at)
	if first, ok := v.by[key]; ok && first != program {
		return fmt.Errorf("%s: block %v is written at parallel point %s and at %s", v.name, at, first, program)
	}
	v.by[key] = program
	return nil
}

// blockOf returns the copy between the array and the buffer.
func (v *view) blockOf() tensor.Block {
	str := tensor.Strides(v.whole)
	b := tensor.Block{Shape: v.block, DstStr: tensor.Strides(v.block), SrcStr: str}
	for d, i := range v.at {
		b.Src += i * v.block[d] * str[d]
	}
	return b
}

func (v *view) fetch() error {
	var err error
	v.blockOf().Each(func(here, there, n int) {
		if err != nil {
			return
		}
		if v.array.written != nil && slices.Contains(v.array.written[there:there+n], true) {
			err = fmt.Errorf("%s: block %v is fetched after its alias was written there: it may be fetched before that on a device", v.name, v.at)
			return
		}
		if _, err = v.array.readable(there, n, known); err == nil {
			v.buf.copy(here, v.array, there, n)
		}
	})
	v.buf.fixed = "the window of an input is read only"
	return err
}

// writeBack writes an output's block back; unknown elements become unknown in the array.
func (v *view) writeBack() error {
	if !v.out || v.at == nil {
		v.at = nil
		return nil
	}
	var err error
	v.blockOf().Each(func(here, there, n int) {
		if err != nil {
			return
		}
		if err = v.array.write(there, n, known); err == nil {
			v.array.copy(there, v.buf, here, n)
			v.array.blur(there, v.buf, here, n)
		}
	})
	v.at = nil
	return err
}

// copy copies elements of a memory of the same type, whatever their states.
func (m *memory) copy(to int, src *memory, from, n int) {
	if m.words != nil {
		copy(m.words[to:to+n], src.words[from:from+n])
	} else {
		copy(m.short[to:to+n], src.short[from:from+n])
	}
}

// blur makes elements unknown that are unknown in the source.
func (m *memory) blur(to int, src *memory, from, n int) {
	if src.unknown == 0 {
		return
	}
	for i := range n {
		if src.state[from+i]&known != known {
			m.track()
			m.state[to+i] = 0
			m.unknown++
		}
	}
}
