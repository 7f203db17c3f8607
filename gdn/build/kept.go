package build

import (
	"slices"

	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/ir"
)

// Values saved by a training step, by axis save. S before each chunk is always saved, since the backward pass could only recompute it by a forward grid over
// the whole sequence, as save=none does. save=inverse adds T, which one chunk determines, but by a long chain of products. save=all adds U,
// two products with S and T. At chunk 128 and K = V = 128 each is 128 x 128 numbers per chunk and head.

// kept are the saved operands for the backward pass; nil ones are recomputed.
type kept struct {
	s, t, u []*operand // one operand, or one per part
}

// list returns them in the order of names.
func (k kept) list() []*operand { return slices.Concat(k.s, k.t, k.u) }

// names returns the names of saved values in Training's modules: kept_s, then kept_s_rest if there are two parts, and so on.
func (k kept) names() []string {
	var l []string
	for _, n := range []struct {
		name string
		ops  []*operand
	}{{"kept_s", k.s}, {"kept_t", k.t}, {"kept_u", k.u}} {
		for i := range n.ops {
			l = append(l, n.name+[]string{"", "_rest"}[i])
		}
	}
	return l
}

// KeptBytes returns the bytes in HBM that a training step saves from the forward to the backward pass, for the whole spec, with padding of chunks. It is 0
// with save=none, whose recomputed states exist inside the backward program only.
func KeptBytes(s gdn.Spec, v gdn.Variant) int64 {
	s.Direction = gdn.Train
	f := v.Fit(s)
	if f.Training.Save == gdn.SaveNone {
		return 0
	}
	c := newPlan(s, f, nil, nil)
	chunks := int64(s.Batch) * int64(c.nc) * int64(s.HeadsV)
	bytes := func(rows, width int, p ir.Precision) int64 {
		n := int64(f.Training.Saved.Bytes())
		if keepsParts(f, p) {
			n *= 2
		}
		return n * int64(rows) * int64(width)
	}
	// S, T and U in the form that plan.forward saves, with the precision of the products that read each.
	total := bytes(s.K, s.V, f.Numerics.PrecState)
	switch {
	case f.Training.Save < gdn.SaveInverse:
	case pairedInverse(f):
		total += bytes(f.Chunk, f.Chunk, ir.PrecBF16x1)
	default:
		total += bytes(f.Chunk, f.Chunk, f.ApplyPrecision())
	}
	if f.Training.Save >= gdn.SaveAll {
		total += bytes(f.Chunk, s.V, f.GradPrecision())
	}
	return chunks * total
}

// hold converts a value [N, R, L] to its saved form: f32, or as many bf16 parts as products at p use. Words hold two bf16 rows
// if R is even: [N, R/2, L] u32.
//
// A product in one bf16 pass rounds its operands to bf16, so saving bf16 loses nothing. A product in three passes uses two parts: the rounded number and
// the rounded remainder. Both are saved if parts are computed at all (split_at=def, refine=yes), and joined when loaded.
func (e *chunks) hold(x *ir.Value, p ir.Precision) []blockOut {
	e.b.Stage("keep")
	if e.v.Training.Saved == ir.F32 {
		return []blockOut{e.made(e.b.Convert(x, ir.F32))}
	}
	parts := []*ir.Value{e.b.Convert(x, ir.BF16)}
	if keepsParts(e.v, p) {
		parts = e.Cut(x)
	}
	var outs []blockOut
	for _, part := range parts {
		if part.Type.Shape[1]%2 == 0 {
			part = e.b.Words(part)
		}
		outs = append(outs, e.made(part))
	}
	return outs
}

// pairedInverse reports whether the two parts of T are saved as one matrix. The remainder, transposed, fills the half above the diagonal, where T is
// zero. The diagonal is ones, with remainder zero.
//
//	T rounded  [1 . .]    rest  [. . .]    kept  [1 x y]
//	           [a 1 .]          [x . .]          [a 1 z]
//	           [b c 1]          [y z .]          [b c 1]
//
// This takes 256 instead of 512 bytes per token and value head at chunk 128. The gradients use T^T, for which the upper half is already transposed.
func pairedInverse(v gdn.Variant) bool { return keepsParts(v, v.ApplyPrecision()) }

// keepsParts reports whether operands of products at p are saved as two parts.
func keepsParts(v gdn.Variant, p ir.Precision) bool {
	return v.Training.Saved == ir.BF16 && p == ir.PrecBF16x3 && (v.Numerics.Split == gdn.SplitDef || v.Inverse.Refine)
}

// paired returns T as one matrix, by an OR of words, since one of the two is zero everywhere.
func (e *chunks) paired(t *ir.Value) *ir.Value {
	b, parts := e.b.Stage("keep"), e.Cut(t)
	return b.Halves(b.Or(b.Words(parts[0]), b.Words(b.Transpose(parts[1], 0, 2, 1))))
}

// loadTurnedInverse returns T^T from saved T: the lower half transposed, joined with the upper half of a pair as the second part.
func (e *reverse) loadTurnedInverse() *ir.Value {
	t := e.loadKept(e.in.kept.t)
	if !pairedInverse(e.v) {
		return e.Turned(t)
	}
	return e.Joined([]*ir.Value{e.b.Transpose(e.Lower(t), 0, 2, 1), e.Upper(t, 1)})
}

// loadKept returns a value saved by hold, its parts joined.
func (e *reverse) loadKept(l []*operand) *ir.Value {
	var parts []*ir.Value
	for _, o := range l {
		x := e.loadMade(o)
		if x.Type.DType == ir.U32 {
			x = e.b.Halves(x)
		}
		parts = append(parts, x)
	}
	if len(parts) == 1 {
		return parts[0]
	}
	return e.Joined(parts)
}
