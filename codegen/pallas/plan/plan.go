// Package plan divides the work of a kernel: the part before its steps, the steps, and the common work of each phase over all steps.
package plan

import (
	"fmt"
	"maps"
	"slices"

	"github.com/gdngen/gdngen/codegen/pallas/loops"
	"github.com/gdngen/gdngen/codegen/tpu"
	"github.com/gdngen/gdngen/ir"
)

// Plan is one kernel, with its work divided into steps and phases.
type Plan struct {
	In     *ir.Instr
	tasks  map[*ir.Instr]tpu.Place
	Params []*loops.Item
	of     map[*ir.Value]*loops.Item // parameters, and values made outside tasks

	inputs   map[*loops.Item]bool // references that are only read
	Prologue []*loops.Node        // before the steps
	before   []*ir.Instr          // the instructions of Prologue
	Steps    []*step
	Phases   []*Phase // nil if the steps' bodies are written out
}

// step is a body that some steps of the kernel run.
type step struct {
	Cond  loops.Ref // no item: every step
	Start []*loops.Node
	Slots []*slotWork
	all   []*ir.Instr
}

// slotWork is the work of one phase in one time slot of a step.
type slotWork struct {
	Phase, Time, chunk int
	instrs             []*ir.Instr
	Args               map[*loops.Variable]int // values of the phase's variables
	Refs               []*loops.Item           // parameters, in the order of the phase's Refs
}

// Phase is the common work of all slots of a phase.
type Phase struct {
	Nodes []*loops.Node
	Vars  []*loops.Variable
	Refs  []*loops.Item // stand-ins for the parameters that the slots pass
}

// New divides the work of a kernel; tasks are the places of its instructions.
func New(in *ir.Instr, tasks map[*ir.Instr]tpu.Place) (*Plan, error) {
	k := &Plan{In: in, tasks: tasks, of: map[*ir.Value]*loops.Item{}}
	scratch := len(in.Body.Params) - len(in.Attrs.Grid.Scratch)
	for i, p := range in.Body.Params {
		x := &loops.Item{Typ: p.Type, Param: i + 1, Scratch: i >= scratch}
		k.of[p] = x
		k.Params = append(k.Params, x)
	}
	single := &step{}
	var prologue []*ir.Instr
	var conds []*ir.Value
	for _, x := range in.Body.Instrs {
		if _, ok := tasks[x]; ok {
			single.all = append(single.all, x)
			continue
		}
		if x.Op == ir.OpWhen && len(tasks) > 0 && slices.ContainsFunc(x.Body.Instrs, func(y *ir.Instr) bool { _, ok := tasks[y]; return ok }) {
			s := &step{all: x.Body.Instrs}
			k.Steps, conds = append(k.Steps, s), append(conds, x.Args[0])
			continue
		}
		prologue = append(prologue, x)
	}
	k.before = prologue
	k.Prologue = loops.Copies(loops.ToNodes(prologue, k.of, tasks))
	for i, c := range conds {
		k.Steps[i].Cond = loops.Ref{Item: k.of[c]}
	}
	if len(single.all) > 0 {
		if len(k.Steps) > 0 {
			return nil, fmt.Errorf("work of steps stands outside of their bodies")
		}
		k.Steps = []*step{single}
	}
	for _, s := range k.Steps {
		k.split(s)
	}
	k.inputs = map[*loops.Item]bool{}
	for _, x := range k.Params[:in.Attrs.Grid.Tables+len(in.Attrs.Grid.In)] {
		k.inputs[x] = true
	}
	k.unify()
	return k, nil
}

// split sorts the instructions of a step by slot.
func (k *Plan) split(s *step) {
	at := map[[2]int]*slotWork{}
	var start []*ir.Instr
	defer func() { s.Start = loops.Roll(loops.ToNodes(start, maps.Clone(k.of), k.tasks)) }()
	for _, in := range s.all {
		t, ok := k.tasks[in]
		if !ok {
			start = append(start, in)
			continue
		}
		key := [2]int{t.Time, t.Phase}
		w := at[key]
		if w == nil {
			w = &slotWork{Phase: t.Phase, Time: t.Time, chunk: t.Chunk, Args: map[*loops.Variable]int{}}
			at[key] = w
			s.Slots = append(s.Slots, w)
		}
		w.instrs = append(w.instrs, in)
	}
	for _, w := range s.Slots {
		w.instrs = k.byStage(w.instrs)
	}
}

// RollPhases finds the loops of each phase; the stages in parameter beside are rolled separately.
func (k *Plan) RollPhases(beside []string) {
	lists := make([][4][]*loops.Node, len(k.Phases))
	each := func(f func([]*loops.Node) []*loops.Node) {
		for i, ph := range k.Phases {
			ph.Nodes = nil
			for j, l := range lists[i] {
				if len(l) > 0 {
					lists[i][j] = f(l)
					ph.Nodes = append(ph.Nodes, lists[i][j]...)
				}
			}
		}
	}
	for i, ph := range k.Phases {
		lists[i] = k.fork(loops.Fuse(loops.Copies(ph.Nodes)), beside)
	}
	each(func(l []*loops.Node) []*loops.Node { return loops.Arrange(l, k.inputs) })
	k.pool()
	each(loops.Roll)
}
