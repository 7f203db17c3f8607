// Package extent says how the kernels of a JAX file count batch rows and tokens.
package extent

import (
	"fmt"

	"github.com/gdngen/gdngen/codegen/pallas/loops"
	"github.com/gdngen/gdngen/codegen/pallas/sizes"
	"github.com/gdngen/gdngen/gdn"
)

// Extent is how a file counts batch rows and tokens: rows in groups that one program interleaves, tokens in steps.
type Extent struct {
	Rows     int // rows of a group; 1 for packed sequences
	Unit     int // tokens of a step; with Segments, of a varlen block
	Segments int // varlen blocks per step, if packed sequences use them: one per block and one more per sequence; 0: none
	MinSteps int // least number of steps, since phases of successive steps overlap
}

// Of returns the extent of a fitted variant.
func Of(s gdn.Spec, v gdn.Variant) Extent {
	e := Extent{Rows: max(1, v.Mapping.Batch), Unit: v.Chunk * v.Mapping.Chunks * v.Forward.Steps, MinSteps: 1}
	switch {
	case s.Seqs > 0 && (v.Mapping.Pack == gdn.PackAligned || v.Mapping.Pack == gdn.PackSegments && v.Mapping.Chunks > 1):
		e.Unit, e.Segments = v.Chunk, v.Mapping.Chunks
	case s.Seqs > 0:
		e.Unit = v.Chunk
	case s.Direction != gdn.Forward:
		e.Unit = v.Chunk * max(v.Mapping.Chunks*v.Forward.Steps, v.Backward.Steps)
	}
	if s.Seqs > 0 {
		e.Rows = 1
	}
	return e
}

// Visiting returns the varlen blocks of a fitted variant; nil if it has none.
func (e Extent) Visiting(s gdn.Spec, v gdn.Variant) *loops.Segments {
	if e.Segments == 0 || v.Fit(s).Mapping.Pack != gdn.PackAligned {
		return nil
	}
	return &loops.Segments{Blocks: s.Tokens / e.Unit, Chunk: e.Unit, Places: e.Segments, Drop: s.Empty == gdn.EmptyZero}
}

// Spec returns s at another size.
func (e Extent) Spec(s gdn.Spec, z sizes.Size) gdn.Spec {
	tokens := e.Unit * z.Steps
	if e.Segments > 0 {
		tokens = e.Unit * (e.Segments*z.Steps - z.Rows)
	}
	s.Tokens = tokens
	if s.Seqs > 0 {
		s.Seqs = z.Rows
	} else {
		s.Batch = e.Rows * z.Rows
	}
	return s
}

// Probes returns the sizes at which a file is written: sizes.Small if a spec is invalid at one of sizes.Probes.
func (e Extent) Probes(s gdn.Spec) []sizes.Size {
	for _, z := range sizes.Probes {
		if e.Spec(s, z).Validate() != nil {
			return sizes.Small
		}
	}
	return sizes.Probes
}

// Tokens returns a phrase that says in which multiples the kernels take tokens.
func (e Extent) Tokens() string {
	return fmt.Sprintf("tokens by %d", e.Unit)
}
