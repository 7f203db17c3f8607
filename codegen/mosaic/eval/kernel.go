package eval

import (
	"fmt"
	"math"
	"slices"

	"github.com/gdngen/gdngen/codegen/mlir"
	"github.com/gdngen/gdngen/codegen/mlir/tensor"
)

// Kernel is a Mosaic module that is ready to run.
type Kernel struct {
	Name     string
	body     *function
	grid     []int // points of each axis; dynamic if an operand gives it
	parallel []bool
	tables   int
	scratch  int
	types    []mlir.Type // of the operands: tables, inputs, outputs, scratch
	windows  []*window   // of inputs and outputs; nil for an array in HBM
	blocks   []*block    // of all functions and regions
}

// Idle returns the operations that no run has executed, by line, and the number of all operations: idle ones have not been checked.
func (k *Kernel) Idle() (idle []*mlir.Op, all int) {
	for _, b := range k.blocks {
		all += len(b.steps)
		for _, s := range b.steps {
			if !s.ran {
				idle = append(idle, s.op)
			}
		}
	}
	slices.SortFunc(idle, func(a, b *mlir.Op) int { return a.Line - b.Line })
	return idle, all
}

// dynamic marks an axis whose number of points is an operand.
const dynamic = math.MinInt64

// maxPoints is the largest grid.
const maxPoints = 1 << 24

// ParseKernel reads a Mosaic module and prepares its operations; it errs if one has no rule.
func ParseKernel(text string) (*Kernel, error) {
	m, err := mlir.Parse(text)
	if err != nil {
		return nil, err
	}
	k, err := newKernel(m)
	if err != nil {
		return nil, fmt.Errorf("kernel @%s: %w", m.Name, err)
	}
	return k, nil
}

func newKernel(m *mlir.Module) (*Kernel, error) {
	if _, ok := m.Attrs["stable_mosaic.version"]; !ok {
		return nil, fmt.Errorf("no stable_mosaic.version: this is no Mosaic module")
	}
	f, err := m.Func(m.Name)
	if err != nil {
		return nil, err
	}
	for _, n := range f.Attrs.Names() {
		if !slices.Contains([]string{"dimension_semantics", "function_type", "iteration_bounds", "scalar_prefetch", "scratch_operands", "sym_name", "tpu.core_type", "window_params"}, n) {
			return nil, fmt.Errorf("attribute %s is not supported", n)
		}
	}
	k := &Kernel{Name: m.Name}
	if k.grid, _ = f.Attrs["iteration_bounds"].([]int); len(k.grid) == 0 {
		return nil, fmt.Errorf("no iteration_bounds")
	}
	if err := k.semantics(f.Attrs["dimension_semantics"]); err != nil {
		return nil, err
	}
	if k.tables, err = count(f, "scalar_prefetch"); err != nil {
		return nil, err
	}
	if k.scratch, err = count(f, "scratch_operands"); err != nil {
		return nil, err
	}
	ids := len(k.grid)
	if len(f.Body.Types) < ids+k.tables+k.scratch || len(f.Outs) > 0 {
		return nil, fmt.Errorf("%d parameters for %d axes, %d tables and %d scratch", len(f.Body.Types), ids, k.tables, k.scratch)
	}
	for _, t := range f.Body.Types[:ids] {
		if !t.Equal(mlir.Type{Elem: mlir.I32}) {
			return nil, fmt.Errorf("a grid index is %s", t)
		}
	}
	if k.types = f.Body.Types[ids:]; slices.ContainsFunc(k.types, func(t mlir.Type) bool { return t.Kind != mlir.Memref }) {
		return nil, fmt.Errorf("a parameter is no reference")
	}
	if k.body, err = k.newFunction(f); err != nil {
		return nil, err
	}
	return k, k.readWindows(m, f)
}

// count returns an attribute that is a number of operands.
func count(f *mlir.Func, name string) (int, error) {
	l, ok := mlir.Ints([]mlir.Attr{f.Attrs[name]})
	if !ok || l[0] < 0 || l[0] > len(f.Body.Types) {
		return 0, fmt.Errorf("attribute %s: a number of operands is expected", name)
	}
	return l[0], nil
}

// semantics reads which axes are parallel.
func (k *Kernel) semantics(attr mlir.Attr) error {
	list, _ := attr.([]mlir.Attr)
	if len(list) != len(k.grid) {
		return fmt.Errorf("%d dimension_semantics of %d axes", len(list), len(k.grid))
	}
	for i, a := range list {
		s, _ := a.(mlir.Opaque)
		if s.Name != "tpu.dimension_semantics" || s.Body != "parallel" && s.Body != "arbitrary" {
			return fmt.Errorf("dimension_semantics %v is not supported", a)
		}
		k.parallel = append(k.parallel, s.Body == "parallel")
		if n := k.grid[i]; n != dynamic && (n < 1 || n > maxPoints) {
			return fmt.Errorf("%d points along axis %d", n, i)
		}
	}
	return nil
}

func (k *Kernel) readWindows(m *mlir.Module, f *mlir.Func) error {
	params, _ := f.Attrs["window_params"].([]mlir.Attr)
	arrays := k.types[k.tables : len(k.types)-k.scratch]
	if len(params) != len(arrays) {
		return fmt.Errorf("%d window_params of %d arrays", len(params), len(arrays))
	}
	want := f.Body.Types[:len(k.grid)+k.tables]
	for i, t := range arrays {
		w, err := k.newWindow(m, params[i], t)
		if err != nil {
			return fmt.Errorf("array %d: %w", i, err)
		}
		k.windows = append(k.windows, w)
		if w == nil {
			if t.Space != "hbm" && t.Space != "any" {
				return fmt.Errorf("array %d is %s without a window", i, t)
			}
			continue
		}
		fn, _ := m.Func(string(params[i].(mlir.Dict)["transform_indices"].(mlir.Symbol)))
		if !slices.EqualFunc(fn.Body.Types, want, mlir.Type.Equal) {
			return fmt.Errorf("function @%s takes %v, grid and tables are %v", fn.Name, fn.Body.Types, want)
		}
	}
	return nil
}

// bounds returns the number of operands that give numbers of points; they come before all others.
func (k *Kernel) bounds() int {
	n := 0
	for _, g := range k.grid {
		if g == dynamic {
			n++
		}
	}
	return n
}

// Check compares a call with the kernel: the types of operands, including numbers of points, and of results. alias maps a result to the
// operand whose memory it shares.
func (k *Kernel) Check(ins, outs []mlir.Type, alias map[int]int) error {
	nb := k.bounds()
	arrays := k.types[:len(k.types)-k.scratch]
	if len(ins)+len(outs) != nb+len(arrays) {
		return fmt.Errorf("kernel @%s takes %d operands and results, a call gives %d", k.Name, nb+len(arrays), len(ins)+len(outs))
	}
	for _, t := range ins[:min(nb, len(ins))] {
		if t.Elem != mlir.I32 || t.Size() != 1 {
			return fmt.Errorf("kernel @%s: a number of points is %s", k.Name, t)
		}
	}
	for i, t := range append(ins[nb:len(ins):len(ins)], outs...) {
		p := arrays[i]
		window := i >= k.tables && k.windows[i-k.tables] != nil
		if signless(t.Elem) != p.Elem || len(t.Shape) != len(p.Shape) || !window && !slices.Equal(t.Shape, p.Shape) {
			return fmt.Errorf("kernel @%s: operand %d is %s, the kernel has %s", k.Name, i, t, p)
		}
	}
	for o, i := range alias {
		if o < 0 || o >= len(outs) || i < nb+k.tables || i >= len(ins) || !outs[o].Equal(ins[i]) {
			return fmt.Errorf("kernel @%s: result %d can not share the memory of operand %d", k.Name, o, i)
		}
	}
	return nil
}

// signless returns the kernel's element type for one of StableHLO.
func signless(e mlir.Elem) mlir.Elem {
	switch e {
	case mlir.U32:
		return mlir.I32
	case mlir.U16:
		return mlir.I16
	}
	return e
}

// launch is one run of a kernel.
type launch struct {
	*Kernel
	grid    []int
	args    []value // of the body: grid indices, tables, arrays or windows, scratch
	scratch []*memory
	views   []*view
	arrays  []*memory
}

// Run computes a call that Check accepts, and returns its results. ins are the operands, with numbers of points first.
func (k *Kernel) Run(ins []*tensor.Tensor, outs []mlir.Type, alias map[int]int) ([]*tensor.Tensor, error) {
	r, err := k.run(ins, outs, alias)
	if err != nil {
		return nil, fmt.Errorf("kernel @%s: %w", k.Name, err)
	}
	return r, nil
}

func (k *Kernel) run(ins []*tensor.Tensor, outs []mlir.Type, alias map[int]int) ([]*tensor.Tensor, error) {
	l := &launch{Kernel: k, grid: slices.Clone(k.grid)}
	nb := 0
	for i, n := range l.grid {
		if n == dynamic {
			l.grid[i] = ins[nb].Int()
			if nb++; l.grid[i] < 0 || l.grid[i] > maxPoints {
				return nil, fmt.Errorf("operand %d: %d points run along axis %d", nb-1, l.grid[i], i)
			}
		}
	}
	if err := l.place(ins, nb, outs, alias); err != nil {
		return nil, err
	}
	if err := l.points(); err != nil {
		return nil, err
	}
	results := make([]*tensor.Tensor, len(outs))
	for i, t := range outs {
		m := l.arrays[len(ins)-nb-k.tables+i]
		results[i] = m.tensor(t.Shape)
		results[i].Elem = t.Elem
		if t.Elem == mlir.U16 {
			results[i] = tensor.Bitcast(results[i].As(mlir.I16), mlir.U16)
		}
	}
	return results, nil
}

// place makes the memories of a call: tables, arrays, windows on them, scratch.
func (l *launch) place(ins []*tensor.Tensor, nb int, outs []mlir.Type, alias map[int]int) error {
	l.args = make([]value, len(l.grid))
	operands := ins[nb:]
	shapes := make([][]int, 0, len(l.types))
	var mems []*memory
	for i, x := range operands {
		name := fmt.Sprintf("input %d", i-l.tables)
		if i < l.tables {
			name = fmt.Sprintf("table %d", i)
		}
		m, err := of(name, x.As(signless(x.Elem)))
		if err != nil {
			return err
		}
		m.fixed = "an input is read only"
		mems, shapes = append(mems, m), append(shapes, x.Shape)
	}
	for i, t := range outs {
		if j, ok := alias[i]; ok {
			m := mems[j-nb]
			m.fixed, m.written = "", make([]bool, m.size())
			m.track()
			mems, shapes = append(mems, m), append(shapes, t.Shape)
			continue
		}
		m, err := newMemory(fmt.Sprintf("output %d", i), signless(t.Elem), t.Size())
		if err != nil {
			return err
		}
		m.forget()
		mems, shapes = append(mems, m), append(shapes, t.Shape)
	}
	for i, m := range mems {
		t := l.types[i]
		if i < l.tables || l.windows[i-l.tables] == nil {
			l.args = append(l.args, value{r: newRef(m, t)})
			if i >= l.tables {
				l.views = append(l.views, nil)
			}
			continue
		}
		v := &view{window: l.windows[i-l.tables], array: m, whole: shapes[i], by: map[string]string{}}
		w := *v.window
		if w.out = i >= len(operands); w.out {
			w.name = fmt.Sprintf("the window of output %d", i-len(operands))
		} else {
			w.name = fmt.Sprintf("the window of input %d", i-l.tables)
		}
		v.window = &w
		l.views = append(l.views, v)
		l.args = append(l.args, value{})
	}
	l.arrays = mems[l.tables:]
	for i, t := range l.types[len(l.types)-l.Kernel.scratch:] {
		m, err := newMemory(fmt.Sprintf("scratch %d", i), t.Elem, t.Size())
		if err != nil {
			return err
		}
		m.forget()
		l.scratch = append(l.scratch, m)
		l.args = append(l.args, value{r: newRef(m, t)})
	}
	return nil
}

// points runs the body at every point of the grid, the last axis fastest.
func (l *launch) points() error {
	at := make([]int, len(l.grid))
	if slices.Contains(l.grid, 0) {
		return nil
	}
	program := ""
	for first := true; ; first = false {
		var p []int
		for i, a := range at {
			if l.parallel[i] {
				p = append(p, a)
			}
		}
		if now := fmt.Sprint(p); first || now != program {
			program = now
			if err := l.turn(); err != nil {
				return err
			}
		}
		if err := l.point(at, program); err != nil {
			return fmt.Errorf("at grid point %v: %w", at, err)
		}
		d := len(at) - 1
		for ; d >= 0; d-- {
			if at[d]++; at[d] < l.grid[d] {
				break
			}
			at[d] = 0
		}
		if d < 0 {
			return l.turn()
		}
	}
}

// turn ends a program: windows are written back, scratch becomes unknown, and no copy may be in flight.
func (l *launch) turn() error {
	if err := landed(l.scratch, "a program ends"); err != nil {
		return err
	}
	for _, v := range l.views {
		if v != nil {
			if err := v.writeBack(); err != nil {
				return err
			}
		}
	}
	for _, m := range l.scratch {
		m.forget()
	}
	return nil
}

func (l *launch) point(at []int, program string) error {
	for i, a := range at {
		l.args[i].t = tensor.Scalar(mlir.I32, a)
	}
	ids := len(at)
	for _, out := range []bool{true, false} { // the worst case: windows are written back before others are fetched
		for i, v := range l.views {
			if v == nil || v.out != out {
				continue
			}
			if err := v.show(l.args[:ids+l.tables], program); err != nil {
				return err
			}
			l.args[ids+l.tables+i].r = newRef(v.buf, v.typ)
		}
	}
	_, err := l.body.call(l.args)
	return err
}
