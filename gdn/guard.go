package gdn

import (
	"fmt"

	"github.com/gdngen/gdngen/ir"
)

// minChunk is the smallest chunk of the chunkwise form, maxToken the most tokens that a grid step of the recurrence unrolls.
const (
	minChunk = 8
	maxToken = 16
)

// Fit returns the canonical variant that a build for s really uses; variants with equal Fit build equal programs. s must be valid. The chunk shrinks to
// the least power of two that holds the tokens (at least 8), a leaf to its chunk, counts of interleaved heads, rows and chunks to legal values. Gathered
// packed sequences take one chunk a grid step, as do varlen blocks with heads spread over programs. Axes without effect on s get their default.
func (v Variant) Fit(s Spec) Variant {
	v, s = v.Canon(), s.Prompts()
	v.Chunk = v.chunkOf(s)
	v.Inverse.Leaf = min(v.Inverse.Leaf, v.Chunk)
	if v.Mapping.Heads <= 0 || v.Mapping.Heads > s.HeadsV {
		v.Mapping.Heads = s.HeadsV
	}
	if v.Native() && s.Pool > 0 { // states are copied whole
		v.Mapping.Heads = s.HeadsV
	}
	for !s.wholeGroups(v.Mapping.Heads) {
		v.Mapping.Heads--
	}
	if s.Gates == GatesGiven && !s.L2Norm {
		v.Fuse = PlaceXLA
	}
	if s.Direction != Forward {
		v = v.fitTraining(s)
	} else {
		v = v.reset(Group.ofTraining)
	}
	if min(v.Mapping.Heads, s.Groups()) == 1 {
		v.Share = true
	}
	if !v.packs(s) {
		v.Mapping.Pack = PackGather
	}
	v = v.fitRule(s)
	s = v.Packing(s)
	lanes := v.Mapping.Batch
	v.Mapping.Batch = max(1, min(v.Mapping.Batch, s.Batch))
	for s.Batch%v.Mapping.Batch != 0 {
		v.Mapping.Batch--
	}
	v.Mapping.PersistentRows = v.Mapping.PersistentRows && v.chains(s)
	switch {
	case v.Mapping.Pack == PackStream:
		v.Fuse, v.Forward.Steps = PlaceXLA, 1
		for v.Mapping.Batch = max(1, lanes); v.Mapping.Batch > s.Seqs; v.Mapping.Batch /= 2 {
		}
		if v.Mapping.Batch > 1 {
			v.Mapping.Chunks = 1
		}
	case v.Mapping.Pack == PackAligned, v.Mapping.Pack == PackSegments && v.Mapping.Heads == s.HeadsV: // one program copies the results of several varlen blocks
		v.Forward.Steps = 1
	case v.Algo == AlgoToken || s.Seqs > 0:
		v.Mapping.Chunks, v.Forward.Steps = 1, 1
	}
	tokens := s.Tokens
	if v.Mapping.Pack == PackAligned || v.Mapping.Pack == PackSegments { // each sequence that starts inside a block adds a varlen block
		tokens += (s.Seqs - 1) * v.Chunk
	}
	for v.Mapping.Chunks > 1 && (v.Mapping.Chunks-1)*v.Chunk >= tokens {
		v.Mapping.Chunks /= 2
	}
	if s.Seqs > 0 {
		v.Backward.Steps = 1
	}
	for v.Backward.Steps > 1 && (v.Backward.Steps-1)*v.Chunk >= s.Tokens {
		v.Backward.Steps /= 2
	}
	for v.Forward.Steps > 1 && (v.Forward.Steps-1)*v.Mapping.Chunks*v.Chunk >= s.Tokens {
		v.Forward.Steps /= 2
	}
	if !v.copies(s) {
		v.Forward.Prefetch = PrefetchBlocks
	}
	return v.Canon()
}

// packs reports whether s can be packed as v.Mapping.Pack says. Apart from segments and aligned, a program must have all value heads of the sequences.
// Aligned blocks need at least as many pool states as sequences (build/internal/pool, Slots).
func (v Variant) packs(s Spec) bool {
	forward := s.Seqs > 0 && s.Direction == Forward
	whole := forward && v.Mapping.Heads == s.HeadsV
	switch v.Mapping.Pack {
	case PackSegments:
		return (s.Seqs > 1 || s.Seqs == 1 && s.Pool > 0) && visitable(v)
	case PackAligned:
		return forward && v.Mapping.Heads%s.Groups() == 0 && s.States() >= s.Seqs && alignable(v)
	case PackMasked:
		return whole && s.maskable()
	case PackStream:
		return whole && streamable(v)
	}
	return whole
}

// chunkOf returns the chunk for s, in tokens: the least power of two that holds the tokens, at most v.Chunk, and a divisor of s.Every.
func (v Variant) chunkOf(s Spec) int {
	limit, chunk := v.Chunk, minChunk
	if v.Algo == AlgoToken {
		limit, chunk = min(limit, maxToken), 1
	}
	if s.Window { // one step writes all states
		limit = maxToken
	}
	for chunk < s.Tokens && chunk < limit {
		chunk *= 2
	}
	for s.Every > 0 && s.Every%chunk != 0 { // chunks end at the tokens whose states are outputs
		chunk /= 2
	}
	return chunk
}

// copies reports whether a kernel may copy its own blocks (prefetch=dma): blocks numbered by a table, or one program with several steps. With
// several programs, pipelined windows prefetch across programs, but copies would start cold in each.
func (v Variant) copies(s Spec) bool {
	if v.Mapping.Pack == PackAligned || v.Mapping.Pack == PackSegments {
		return true
	}
	if v.Mapping.PersistentRows {
		s.Tokens, s.Batch = s.Tokens*s.Batch, v.Mapping.Batch
	}
	return s.Seqs == 0 && s.Batch == v.Mapping.Batch && s.HeadsV == v.Mapping.Heads && v.Forward.Steps == 1 && s.Tokens > v.Mapping.Chunks*v.Chunk
}

// chains reports whether batch rows of s can run back to back. Each row must have its own state, and nothing else may pass from chunk to chunk, such as
// the last tokens of a chunk for a convolution in the kernel.
func (v Variant) chains(s Spec) bool {
	return s.Batch > v.Mapping.Batch && s.Seqs == 0 && s.Pool == 0 && s.Every == 0 && (s.Conv == 0 || v.Fuse != PlaceKernel)
}

// fitTraining fixes the axes that a backward pass does not support: form, flow, tail decay, beta on the left. A program takes all
// value heads of a key head.
func (v Variant) fitTraining(s Spec) Variant {
	v.Form, v.Flow, v.TailDecay = FormVPrime, FlowFused, TailDecayK
	if v.Beta == BetaLeft {
		v.Beta = BetaRight
	}
	v.Mapping.Heads = max(v.Mapping.Heads, s.Groups())
	if s.Direction == Backward && v.Training.Save == SaveNone {
		v.Training.Save = SaveState
	}
	return v
}

// wholeGroups reports whether a program may take n value heads: whole groups of key heads, or an equal part of one group.
func (s Spec) wholeGroups(n int) bool {
	g := s.Groups()
	return s.HeadsV%n == 0 && (n%g == 0 || g%n == 0)
}

// Check returns an error that says why v cannot be built for s, and which axes to set instead; nil if it can. It validates s too.
func (v Variant) Check(s Spec) error {
	if err := s.Validate(); err != nil {
		return err
	}
	s = s.Prompts()
	for _, a := range Axes {
		w := v
		if err := a.Set(&w, a.Get(&v)); err != nil {
			return fmt.Errorf("variant: %s (%s): %w", a.Name, a.Doc, err)
		}
	}
	if s.Direction != Forward && v.Algo != AlgoChunk {
		return fmt.Errorf("variant: direction=%s needs algo=chunk: the token recurrence has no backward pass", s.Direction)
	}
	if s.Direction != Forward && !s.Rule.Writes() && !s.Rule.Channels() {
		return &UnsupportedError{fmt.Sprintf("direction=%s needs a delta update or a decay a channel (gdn, deltanet, kda or gla): gradients of rule=%s are computed by the reference alone", s.Direction, s.Rule)}
	}
	if s.Window && !v.Native() {
		return fmt.Errorf("variant: the states after each token of a window are made by the token recurrence on states as the spec has them: set algo=token with unit=vector, lanes or sums, or with kq=joined")
	}
	switch c := v.Canon(); {
	case c.Out == OutJoined && !c.Fold:
		return fmt.Errorf("variant: out=joined needs exp(G) in the rows of Q: set fold=yes, or another out")
	case c.Mapping.Pack == PackAligned && !alignable(c):
		return fmt.Errorf("variant: pack=aligned needs one kernel on tokens as they are, whose states meet no other products: set flow=fused, layout=bthd, fold=no, error_feedback=0, out=separate, transpose_k=value and decay=base2 or clamp, or another pack")
	case c.Mapping.Pack == PackSegments && !visitable(c):
		return fmt.Errorf("variant: pack=segments needs one kernel that takes chunks: set algo=chunk and flow=fused, or another pack")
	case c.Mapping.Pack == PackMasked && s.Seqs > 0 && !s.maskable():
		return fmt.Errorf("variant: pack=masked takes all tokens for each sequence, without a pool, and %d tokens in %d sequences are too many (at most %d together): set another pack", s.Tokens, s.Seqs, maxMasked)
	case c.Mapping.Pack == PackStream && !streamable(c):
		return fmt.Errorf("variant: pack=stream needs plain ops on tokens as they are: set flow=fused, layout=bthd, out=separate, transpose_k=value, split_at=use and phases_before=0, or another pack")
	case c.Form == FormMap && !mappable(c, s):
		return fmt.Errorf("variant: form=map needs one kernel in which K has the decay: set flow=fused, fold=yes, out=separate, transpose_k=key and tail_decay=k, or another form")
	case c.Out == OutShared && c.TransposeK != TransposeKey:
		return fmt.Errorf("variant: out=shared needs K turned before the product: set transpose_k=key, or another out")
	}
	if f := v.Fit(s); (v.Layout == LayoutBTHD || v.Layout == LayoutBTLanes) && f.Mapping.Heads < s.Groups() {
		return fmt.Errorf("variant: layout=%s needs all %d value heads of a key head in a program, here heads=%d: set heads=0, or layout=bhtd", v.Layout, s.Groups(), v.Mapping.Heads)
	}
	return nil
}

// UnsupportedError reports a property of a spec that no variant supports.
type UnsupportedError struct{ Reason string }

func (e *UnsupportedError) Error() string { return "variant: " + e.Reason }

// of returns the chosen precision, or p for OwnInherit.
func (o Own) of(p ir.Precision) ir.Precision {
	switch o {
	case OwnF32:
		return ir.PrecF32
	case OwnBF16x1:
		return ir.PrecBF16x1
	case OwnBF16x3:
		return ir.PrecBF16x3
	case OwnBF16x6:
		return ir.PrecBF16x6
	}
	return p
}

// ApplyPrecision, GradPrecision and UpdatePrecision return the precision of products with T, of gradients within a chunk, and of the state update.
func (v Variant) ApplyPrecision() ir.Precision { return v.Numerics.PrecApply.of(v.Numerics.PrecIntra) }
func (v Variant) GradPrecision() ir.Precision  { return v.Training.PrecGrad.of(v.Numerics.PrecIntra) }
func (v Variant) UpdatePrecision() ir.Precision {
	return v.Training.PrecUpdate.of(v.Numerics.PrecState)
}

// Precision returns the lowest precision in v; tolerances depend on it. Storage in bf16 counts as bf16x1. decay=base2 counts as bf16x3 at best, since
// its error after a reset is as large as with decay=clamp.
func (v Variant) Precision() ir.Precision {
	rank := map[ir.Precision]int{ir.PrecF32: 0, ir.PrecBF16x6: 1, ir.PrecBF16x3: 2, ir.PrecBF16x1: 3}
	v = v.Canon()
	low := v.Numerics.PrecState
	for _, p := range []ir.Precision{v.Numerics.PrecInv, v.Numerics.PrecIntra, v.ApplyPrecision(), v.GradPrecision(), v.UpdatePrecision()} {
		if rank[p] > rank[low] {
			low = p
		}
	}
	if v.Decay == DecayBase2 && rank[low] < rank[ir.PrecBF16x3] {
		low = ir.PrecBF16x3
	}
	if v.Numerics.Store == ir.BF16 || v.Training.Saved == ir.BF16 {
		low = ir.PrecBF16x1
	}
	return low
}

// Unsafe returns why v may overflow or lose accuracy on s, or "" if it is safe: mostly on correlated keys, or if another sequence in the block has NaN.
// It assumes |k| <= 1, and beta <= 1, or <= 2 with NegEigval. A power series over A is only safe on small leaves: powers of A grow with the block
// although the inverse does not.
func (v Variant) Unsafe(s Spec) string {
	v = v.Fit(s)
	if v.Mapping.Pack == PackAligned && (s.Seqs > 1 || s.Pool > 0) && v.Inverse.Mask == MaskSelect {
		return "pack=aligned has two sequences in all products of a block, and mask=select multiplies what is of the other by zero: NaN or overflow of one is in both; mask=words clears it, and pack=segments, gather and masked keep sequences apart"
	}
	switch {
	case v.Algo == AlgoToken:
	case v.Inverse.Solve == SolveNeumann, v.Inverse.Solve == SolveNewton:
		if v.Chunk > minChunk || !seriesSafe(v.Chunk, 0, v.Numerics.PrecInv, s.NegEigval) {
			return fmt.Sprintf("solve=%s is a power series over the whole chunk of %d: its terms grow without bound on correlated keys", v.Inverse.Solve, v.Chunk)
		}
	case leafed(v) && v.Inverse.Leaf > 1 && v.Inverse.LeafBy == LeafNeumann && !seriesSafe(v.Inverse.Leaf, v.Inverse.LeafNewton, v.Numerics.PrecInv, s.NegEigval):
		return fmt.Sprintf("a power series on a leaf of %d with %d Newton steps at %s%s: safe are 4 at any precision, 8 from bf16x3 on, and at f32 or bf16x6 16 with one step and 32 with two",
			v.Inverse.Leaf, v.Inverse.LeafNewton, v.Numerics.PrecInv, map[bool]string{true: " and beta up to 2, which rules out 8 and 32 too"}[s.NegEigval])
	case s.Direction != Forward && !s.Rule.Channels() && v.Training.DecayBy == DecayByInverse && v.Numerics.PrecInv == ir.PrecBF16x1 && !v.Inverse.Refine:
		return "decaygrad=inverse sums over tokens what cancels only as far as the inverse is accurate, and precinv=bf16x1 is not: dg is off by 2 to 5 %, more on keys alike"
	}
	return ""
}

// seriesSafe reports whether a power series over a block of this size is accurate enough at precision p.
func seriesSafe(block, newton int, p ir.Precision, beta2 bool) bool {
	full := p == ir.PrecF32 || p == ir.PrecBF16x6
	switch {
	case block <= 4:
		return true
	case block <= 8:
		return p != ir.PrecBF16x1 && !beta2
	case block <= 16:
		return full && newton >= 1
	case block <= 32:
		return full && newton >= 2 && !beta2
	}
	return false
}

// maxMasked bounds sequences x tokens for pack=masked, where each packed sequence becomes a batch row of all tokens.
const maxMasked = 1 << 12

// Packing returns the spec that the fitted variant computes instead of s. One gathered sequence without a pool becomes a batch row; with pack=masked every
// sequence becomes a batch row. Otherwise it returns s.
func (v Variant) Packing(s Spec) Spec {
	switch {
	case v.Mapping.Pack == PackGather && s.Seqs == 1 && s.Pool == 0:
		s.Seqs, s.Empty = 0, EmptyKeep
	case v.Mapping.Pack == PackMasked:
		s.Batch, s.Seqs = s.Seqs, 0
	}
	return s
}

// maskable reports whether pack=masked can take s.
func (s Spec) maskable() bool { return s.Pool == 0 && s.Seqs*s.Tokens <= maxMasked }

// Native reports whether the kernel reads and writes the state in the spec's own order and type.
func (v Variant) Native() bool {
	return v.Algo == AlgoToken && (v.Unit != UnitMatrix || v.KQ == JointJoined)
}
