package tpu

import (
	"github.com/gdngen/gdngen/codegen/tpu/internal/pipeline"
	"github.com/gdngen/gdngen/ir"
)

// Pipeline orders the body of every kernel that has a schedule (ir.Sched), and overlaps the phases of successive chunks (see package
// codegen/tpu/internal/pipeline). It returns a new module.
func Pipeline(m *ir.Module) (*ir.Module, error) { return pipeline.Apply(m) }

// PipelineBy is Pipeline with schedules by kernel name, so that one tiled module can be scheduled several times. A kernel whose name is
// not in scheds keeps its order.
func PipelineBy(m *ir.Module, scheds map[string]*ir.Sched) (*ir.Module, error) {
	return pipeline.ApplyBy(m, scheds)
}

// Place is the position of an instruction in a step of a pipelined kernel.
type Place = pipeline.Place

// Places is Pipeline, and also returns the place of each instruction in the steps' bodies.
func Places(m *ir.Module) (*ir.Module, map[*ir.Instr]Place, error) { return pipeline.Places(m) }
