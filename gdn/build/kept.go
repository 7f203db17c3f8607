package build

import (
	"slices"

	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/ir"
)

// What a training step keeps, by axis save: S before each chunk always, which the backward pass can not make without walking all of the sequence (with
// save=none it does: a forward grid runs again); T of save=inverse, for which a chunk alone is enough, but which is a chain of products one behind the
// other; U of save=all, two products with S and T. At chunk 128 and K = V = 128 each is 128 x 128 numbers a chunk and head.

// kept are the operands that the forward pass keeps for the backward pass; those that are nil are made again.
type kept struct {
	s, t, u []*operand // one, or a part each
}

// list has them in the order of names.
func (k kept) list() []*operand { return slices.Concat(k.s, k.t, k.u) }

// names of what is kept, as outputs of the forward and inputs of the backward module of Training: kept_s, then kept_s_rest where it is two parts, and so on.
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

// KeptBytes is what v keeps in main memory from the forward to the backward pass of a training step, in bytes of the whole spec. With save=none it is 0: the
// states that are made again live inside the backward program. It is of the sizes that hold gives what is kept, padding of chunks included.
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
	// S, T and U as plan.forward holds them: each with the precision of the products that read it.
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

// hold gives a value [N, R, L] the form in which it is kept: f32, or bf16 parts as far as the products at p use them. Words hold two rows
// of bf16, where rows pair: [N, R/2, L] u32.
//
// A product in one bf16 pass rounds its operands to bf16, so to keep them so loses nothing that it would see. One in three passes takes two parts, the
// number rounded and the rest rounded: both are kept where parts are made at all (split_at=def, refine=yes), and joined when they are loaded.
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

// pairedInverse says whether T, kept as two parts, is one matrix: the rest, turned, fills the half above the diagonal, where T is
// zero. The diagonal is ones, without a rest.
//
//	T rounded  [1 . .]    rest  [. . .]    kept  [1 x y]
//	           [a 1 .]          [x . .]          [a 1 z]
//	           [b c 1]          [y z .]          [b c 1]
//
// 256 in place of 512 bytes a token and value head at chunk 128. And the gradients take T^T: the upper half is turned already.
func pairedInverse(v gdn.Variant) bool { return keepsParts(v, v.ApplyPrecision()) }

// keepsParts says whether what products at p take is kept as two parts.
func keepsParts(v gdn.Variant, p ir.Precision) bool {
	return v.Training.Saved == ir.BF16 && p == ir.PrecBF16x3 && (v.Numerics.Split == gdn.SplitDef || v.Inverse.Refine)
}

// paired is T as one matrix: an OR of words, since one of the two is zero everywhere.
func (e *chunks) paired(t *ir.Value) *ir.Value {
	b, parts := e.b.Stage("keep"), e.Cut(t)
	return b.Halves(b.Or(b.Words(parts[0]), b.Words(b.Transpose(parts[1], 0, 2, 1))))
}

// loadTurnedInverse is T^T of what is kept of T: the lower half turned, and of a pair the upper half as it is, joined as parts of one value.
func (e *reverse) loadTurnedInverse() *ir.Value {
	t := e.loadKept(e.in.kept.t)
	if !pairedInverse(e.v) {
		return e.Turned(t)
	}
	return e.Joined([]*ir.Value{e.b.Transpose(e.Lower(t), 0, 2, 1), e.Upper(t, 1)})
}

// loadKept is what hold kept of a value, its parts joined.
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
