package tpu

import (
	"github.com/gdngen/gdngen/codegen/tpu/internal/pipeline"
	"github.com/gdngen/gdngen/ir"
)

// Pipeline orders the body of every kernel that has a schedule (ir.Sched) and overlaps the phases
// of successive chunks, as codegen/tpu/internal/pipeline draws it.
func Pipeline(m *ir.Module) (*ir.Module, error) { return pipeline.Apply(m) }

// PipelineBy is Pipeline by schedules of the caller's, by the names of kernels, so that kernels
// that are tiled once can have one schedule after another. Kernels without one keep their order.
func PipelineBy(m *ir.Module, scheds map[string]*ir.Sched) (*ir.Module, error) {
	return pipeline.ApplyBy(m, scheds)
}

// Place is where an instruction of a pipelined kernel's step stands.
type Place = pipeline.Place

// Places is Pipeline, and tells where each instruction in the steps' bodies stands.
func Places(m *ir.Module) (*ir.Module, map[*ir.Instr]Place, error) { return pipeline.Places(m) }
