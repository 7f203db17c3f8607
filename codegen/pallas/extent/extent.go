// Package extent says how the kernels of a file count batch rows and tokens.
package extent

import (
	"fmt"

	"github.com/gdngen/gdngen/codegen/pallas/loops"
	"github.com/gdngen/gdngen/codegen/pallas/sizes"
	"github.com/gdngen/gdngen/gdn"
)

// Extent says how a file counts batch rows and tokens: by groups of rows that a program takes interleaved, and by steps.
type Extent struct {
	Rows     int // rows of a group; of packed sequences 1
	Unit     int // tokens of a step, or with Visits of a visit
	Segments int // visits of a step, where blocks of packed sequences are taken as they lie: there is one a block and one a sequence; 0 otherwise
	MinSteps int // phases of successive steps overlap, so that there must be as many
}

// Of is the extent of a fitted variant.
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

// Visiting is how a variant that is fitted visits blocks; nil where it does not.
func (e Extent) Visiting(s gdn.Spec, v gdn.Variant) *loops.Segments {
	if e.Segments == 0 || v.Fit(s).Mapping.Pack != gdn.PackAligned {
		return nil
	}
	return &loops.Segments{Blocks: s.Tokens / e.Unit, Chunk: e.Unit, Places: e.Segments, Drop: s.Empty == gdn.EmptyZero}
}

// Spec is s of another size.
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

// Probes are the sizes that a file is written at: small ones where a spec of others is none.
func (e Extent) Probes(s gdn.Spec) []sizes.Size {
	for _, z := range sizes.Probes {
		if e.Spec(s, z).Validate() != nil {
			return sizes.Small
		}
	}
	return sizes.Probes
}

// Tokens says how many tokens the kernels take.
func (e Extent) Tokens() string {
	return fmt.Sprintf("tokens by %d", e.Unit)
}
