// Package interp runs ir modules. It is the definition of every op. Rules:
//
// 1. Floats are rounded to their element type after every op, to nearest even. Ops on types
// narrower than f32 compute in f32 and round once; functions such as exp compute in float64 and
// round once. Integers wrap at their width. 2. Sums run in index order, so results do not depend on
// the number of processors. 3. A grid follows the comments of ir.Grid to the letter: its parallel
// points run concurrently, and what would make them dependent (a carry window shared between them,
// an output block written twice or never) is an error. 4. A kernel runs its points one after
// another. Memory that nothing has written reads as NaN in floats and as the pattern 0x7EADBEEF in
// integers; so does the target of a copy until the copy is waited for. 5. An error is an *Error
// that names the instruction, its location and the grid point. No verified module panics.
package interp

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/array"
)

// Options limit a run.
type Options struct {
	// MaxElements is the most elements any one value may have; 0 means 1<<28.
	MaxElements int
}

// Error is a fault of a run.
type Error struct {
	Op    ir.Op
	Task  ir.Task
	Pos   ir.Pos
	Point string // the grid points around the instruction, outermost first; empty outside grids
	Instr string // the instruction's text, without its body
	What  string
}

func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s", e.Op)
	if l := e.Task.String(); l != "" {
		fmt.Fprintf(&b, " @%s", l)
	}
	if p := e.Pos.String(); p != "" {
		fmt.Fprintf(&b, " (%s)", p)
	}
	if e.Point != "" {
		fmt.Fprintf(&b, " at grid point %s", e.Point)
	}
	fmt.Fprintf(&b, ": %s\n    in: %s", e.What, e.Instr)
	return b.String()
}

// Run verifies the module and computes its results from arguments, both by name. The arguments are
// left as they are. A module is compiled to code first: values get numbers, so that a step finds
// its operands in a slice, and each knows which values nothing reads after it. Kernels of thousands
// of instructions run thousands of times, once a point, and would spend most of their time in maps.
func Run(m *ir.Module, args map[string]*array.Array, opt Options) (results map[string]*array.Array, err error) {
	if err := m.Verify(); err != nil {
		return nil, err
	}
	defer func() {
		if r := recover(); r != nil {
			results, err = nil, fmt.Errorf("module %s: interpreter fault: %v", m.Name, r)
		}
	}()
	if opt.MaxElements == 0 {
		opt.MaxElements = 1 << 28
	}
	c := compiler{slots: map[*ir.Value]int{}, consts: map[string]*tensor{}, max: opt.MaxElements}
	for _, p := range m.Body.Params {
		if err := checkArg(p, args[p.Name]); err != nil {
			return nil, fmt.Errorf("module %s: %w", m.Name, err)
		}
	}
	for name := range args {
		if !slices.ContainsFunc(m.Body.Params, func(p *ir.Value) bool { return p.Name == name }) {
			return nil, fmt.Errorf("module %s: no parameter named %q", m.Name, name)
		}
	}
	body, err := c.block(m.Body)
	if err != nil {
		return nil, err
	}
	fr := &frame{cells: make([]cell, len(c.slots))}
	for i, p := range m.Body.Params {
		fr.cells[body.params[i]].t = fromArray(args[p.Name])
	}
	if err := fr.exec(body); err != nil {
		return nil, err
	}
	results = map[string]*array.Array{}
	for i, name := range m.Results {
		results[name] = fr.cells[body.yield[i]].t.array()
	}
	return results, nil
}

func checkArg(p *ir.Value, a *array.Array) error {
	if a == nil {
		return fmt.Errorf("argument %s (%s) is missing", p.Name, p.Type)
	}
	if err := a.Check(); err != nil {
		return fmt.Errorf("argument %s: %w", p.Name, err)
	}
	if !a.IRType().Equal(p.Type) {
		return fmt.Errorf("argument %s is %s, wants %s", p.Name, a, p.Type)
	}
	return nil
}

// code is a block with its values numbered.
type code struct {
	steps         []step
	params, yield []int
}

// step is an instruction: the cells of its operands and results, and those that nothing reads
// afterwards.
type step struct {
	in            *ir.Instr
	rule          rule
	args, results []int
	body          *code
	free          []int
}

// rule executes one op. It may keep nothing between steps: points of a grid run at the same time.
type rule func(fr *frame, s *step) error

// compiler numbers the values of a module. One number serves a value wherever it is used, in bodies
// too, so a body reads what is around it by its own cells.
type compiler struct {
	slots  map[*ir.Value]int
	consts map[string]*tensor
	max    int
}

func (c *compiler) slot(v *ir.Value) int {
	i, ok := c.slots[v]
	if !ok {
		i = len(c.slots)
		c.slots[v] = i
	}
	return i
}

func (c *compiler) list(vs []*ir.Value) []int {
	out := make([]int, len(vs))
	for i, v := range vs {
		out[i] = c.slot(v)
	}
	return out
}

// block compiles a block and the bodies in it. Sizes are checked here, before anything is
// allocated: the text of a module comes from outside, and one dimension too many is no reason to
// run out of memory.
func (c *compiler) block(b *ir.Block) (*code, error) {
	k := &code{params: c.list(b.Params)}
	for _, in := range b.Instrs {
		s := step{in: in, rule: rules[in.Op], args: c.list(in.Args), results: c.list(in.Results)}
		made := in.Results
		if in.Body != nil {
			made = append(slices.Clone(made), in.Body.Params...)
		}
		for _, r := range made {
			if r.Type.Size() > c.max {
				return nil, fault(in, nil, fmt.Errorf("a value of %s has more than %d elements", r.Type, c.max))
			}
		}
		// Constants are evaluated here. A kernel names the same zeros and masks in each of its
		// phases.
		if in.Op == ir.OpConst || in.Op == ir.OpIota {
			t, err := c.constant(in)
			if err != nil {
				return nil, fault(in, nil, err)
			}
			s.rule = func(fr *frame, s *step) error {
				fr.cells[s.results[0]].t = t
				return nil
			}
		}
		if in.Body != nil {
			var err error
			if s.body, err = c.block(in.Body); err != nil {
				return nil, err
			}
		}
		k.steps = append(k.steps, s)
	}
	k.yield = c.list(b.Yield)
	k.markFree()
	return k, nil
}

// constant evaluates a constant once for all its uses.
func (c *compiler) constant(in *ir.Instr) (*tensor, error) {
	key := fmt.Sprint(in.Op, in.Result().Type, in.Attrs.Axis, math.Float64bits(in.Attrs.Value))
	if t := c.consts[key]; t != nil {
		return t, nil
	}
	f := constant
	if in.Op == ir.OpIota {
		f = iota
	}
	t, err := f(in, nil)
	c.consts[key] = t
	return t, err
}

// markFree finds the last use of every value that the block defines. A chunk's intermediate values
// of eight heads are megabytes; freed after their last use, they are garbage while the point runs.
// What a block does not define belongs to the block around it, which may read it again; what it
// yields is read by whoever runs the block.
func (k *code) markFree() {
	last := map[int]int{}
	for _, p := range k.params {
		last[p] = -1
	}
	for i := range k.steps {
		for _, r := range k.steps[i].results {
			last[r] = i
		}
		k.steps[i].uses(func(slot int) {
			if _, mine := last[slot]; mine {
				last[slot] = i
			}
		})
	}
	for _, y := range k.yield {
		delete(last, y)
	}
	for slot, i := range last {
		if i >= 0 {
			k.steps[i].free = append(k.steps[i].free, slot)
		}
	}
}

// uses visits the cells that a step reads, those that its body reads included.
func (s *step) uses(f func(int)) {
	for _, a := range s.args {
		f(a)
	}
	if s.body == nil {
		return
	}
	for i := range s.body.steps {
		s.body.steps[i].uses(f)
	}
	for _, y := range s.body.yield {
		f(y)
	}
}

// cell holds a value or a reference.
type cell struct {
	t   *tensor
	ref *ref
}

// frame is the state of one thread of execution. Each group of points of a grid has one of its own,
// a copy of the cells around the grid: tensors are immutable, so that sharing them is safe.
type frame struct {
	cells []cell
	grid  *ir.Grid // innermost, nil outside grids
	id    []int    // its point
	outer string   // the points of the grids around it
	dma   *[]transfer
}

// exec runs a block. An error gets the name of the innermost instruction that it comes from.
func (fr *frame) exec(k *code) error {
	for i := range k.steps {
		s := &k.steps[i]
		if err := s.rule(fr, s); err != nil {
			return fault(s.in, fr, err)
		}
		for _, f := range s.free {
			fr.cells[f] = cell{}
		}
	}
	return nil
}

// point prints where the frame is.
func (fr *frame) point() string {
	if fr.grid == nil {
		return fr.outer
	}
	s := make([]string, len(fr.id))
	for i, d := range fr.grid.Dims {
		s[i] = fmt.Sprintf("%s=%d", d.Name, fr.id[i])
	}
	return strings.TrimSpace(fr.outer + " (" + strings.Join(s, ", ") + ")")
}

// fault makes an error of an instruction, unless it is one already.
func fault(in *ir.Instr, fr *frame, err error) error {
	if e, ok := err.(*Error); ok {
		return e
	}
	e := &Error{Op: in.Op, Task: in.Task, Pos: in.Pos, Instr: in.String(), What: err.Error()}
	if fr != nil {
		e.Point = fr.point()
	}
	return e
}

func (fr *frame) tensors(slots []int) []*tensor {
	out := make([]*tensor, len(slots))
	for i, s := range slots {
		out[i] = fr.cells[s].t
	}
	return out
}

// loop runs the body Count times. Carried values pass by cells, so that nothing is copied. Until,
// by which a loop may end early, changes no result, and so is not asked.
func (fr *frame) loop(s *step) error {
	carried := make([]cell, len(s.args))
	for i, a := range s.args {
		carried[i] = fr.cells[a]
	}
	for i := range s.in.Attrs.Count {
		index := newTensor(ir.I32, nil)
		index.n[0] = int64(int32(i))
		fr.cells[s.body.params[0]].t = index
		for j, c := range carried {
			fr.cells[s.body.params[j+1]] = c
		}
		if err := fr.exec(s.body); err != nil {
			return err
		}
		for j, y := range s.body.yield {
			carried[j] = fr.cells[y]
		}
	}
	for i, r := range s.results {
		fr.cells[r] = carried[i]
	}
	return nil
}
