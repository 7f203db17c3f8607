package gdn

import (
	"fmt"

	"github.com/gdngen/gdngen/ir"
)

// minChunk is the least chunk of the chunkwise form; maxToken the most tokens that a grid step of the recurrence unrolls.
const (
	minChunk = 8
	maxToken = 16
)

// Fit adapts the sizes of v to s: the chunk shrinks to the least power of two that holds the tokens, a leaf to its chunk,
// lockstep counts to the largest legal value not above them. Packed sequences that are gathered take one chunk a grid step, and so do
// visits where heads are spread over programs. Choices that the spec, which must be valid, leaves without effect go to their default. A
// build fits its variant, so variants that fit alike build alike.
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
	v.Mapping.Chain = v.Mapping.Chain && v.chains(s)
	switch {
	case v.Mapping.Pack == PackStream:
		v.Fuse, v.Forward.Steps = PlaceXLA, 1
		for v.Mapping.Batch = max(1, lanes); v.Mapping.Batch > s.Seqs; v.Mapping.Batch /= 2 {
		}
		if v.Mapping.Batch > 1 {
			v.Mapping.Chunks = 1
		}
	case v.Mapping.Pack == PackAligned, v.Mapping.Pack == PackSegments && v.Mapping.Heads == s.HeadsV: // one program copies what several visits give
		v.Forward.Steps = 1
	case v.Algo == AlgoToken || s.Seqs > 0:
		v.Mapping.Chunks, v.Forward.Steps = 1, 1
	}
	tokens := s.Tokens
	if v.Mapping.Pack == PackAligned || v.Mapping.Pack == PackSegments { // a block has a visit for each sequence that starts in it
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
		v.Forward.Fetch = FetchWindows
	}
	return v.Canon()
}

// packs says whether packed sequences of s are taken as v packs them: by all value heads of them in a program, unless blocks have visits. Aligned blocks want a
// pool that has a state for each sequence (build/internal/pool, Slots).
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

// chunkOf is the least power of two that holds the tokens, or the chunk of v where that is less.
func (v Variant) chunkOf(s Spec) int {
	limit, chunk := v.Chunk, minChunk
	if v.Algo == AlgoToken {
		limit, chunk = min(limit, maxToken), 1
	}
	if s.Window { // one step leaves all states
		limit = maxToken
	}
	for chunk < s.Tokens && chunk < limit {
		chunk *= 2
	}
	for s.Every > 0 && s.Every%chunk != 0 { // chunks end where states are wanted
		chunk /= 2
	}
	return chunk
}

// copies says whether a kernel may copy its blocks: those that a table numbers, or of one program that takes several steps. Windows of
// several programs run on from one to the next, where copies would begin anew.
func (v Variant) copies(s Spec) bool {
	if v.Mapping.Pack == PackAligned || v.Mapping.Pack == PackSegments {
		return true
	}
	if v.Mapping.Chain {
		s.Tokens, s.Batch = s.Tokens*s.Batch, v.Mapping.Batch
	}
	return s.Seqs == 0 && s.Batch == v.Mapping.Batch && s.HeadsV == v.Mapping.Heads && v.Forward.Steps == 1 && s.Tokens > v.Mapping.Chunks*v.Chunk
}

// chains says whether batch rows of s can follow one another: each with a state of its own, and nothing else that passes from chunk to chunk, as the last
// tokens of a chunk do to a convolution.
func (v Variant) chains(s Spec) bool {
	return s.Batch > v.Mapping.Batch && s.Seqs == 0 && s.Pool == 0 && s.Every == 0 && (s.Conv == 0 || v.Fuse != PlaceKernel)
}

// fitTraining takes the choices that a backward pass has not: one form and flow, beta in the columns, all
// value heads of a key head in a program.
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

// wholeGroups says whether a program may take n value heads: whole groups of key heads, or an equal part of one group.
func (s Spec) wholeGroups(n int) bool {
	g := s.Groups()
	return s.HeadsV%n == 0 && (n%g == 0 || g%n == 0)
}

// Check says why v can not be built for s.
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

// UnsupportedError says what of a spec no variant computes.
type UnsupportedError struct{ Reason string }

func (e *UnsupportedError) Error() string { return "variant: " + e.Reason }

// of is the precision that is chosen, or p where none is.
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

// ApplyPrecision, GradPrecision and UpdatePrecision are those of the products that apply T, that make gradients within a chunk, and that update the state.
func (v Variant) ApplyPrecision() ir.Precision { return v.Numerics.PrecApply.of(v.Numerics.PrecIntra) }
func (v Variant) GradPrecision() ir.Precision  { return v.Training.PrecGrad.of(v.Numerics.PrecIntra) }
func (v Variant) UpdatePrecision() ir.Precision {
	return v.Training.PrecUpdate.of(v.Numerics.PrecState)
}

// Precision is the lowest precision that the variant uses, by which tolerances are chosen. It includes storage in
// bf16 and decays in powers of 2, whose error after a reset is that of decay=clamp.
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

// Unsafe says why v loses its numbers, above all on correlated keys or where a sequence beside it has NaN, or is empty. It assumes |k| <= 1,
// and beta <= 1 or, where the spec has negative eigenvalues, beta <= 2. Powers of A grow with the size of the block although its inverse
// does not, so a power series is safe on small leaves alone.
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

// seriesSafe is the static guard on a power series over a block.
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

// maxMasked bounds sequences x tokens of packed sequences as batch rows.
const maxMasked = 1 << 12

// Packing is the spec that a fitted variant computes in place of packed sequences: one sequence that is not
// gathered is a batch row; where other sequences are masked, each sequence is a batch row. Pools name states by
// sequence.
func (v Variant) Packing(s Spec) Spec {
	switch {
	case v.Mapping.Pack == PackGather && s.Seqs == 1 && s.Pool == 0:
		s.Seqs, s.Empty = 0, EmptyKeep
	case v.Mapping.Pack == PackMasked:
		s.Batch, s.Seqs = s.Seqs, 0
	}
	return s
}

// maskable says whether the sequences of a spec can be batch rows.
func (s Spec) maskable() bool { return s.Pool == 0 && s.Seqs*s.Tokens <= maxMasked }

// Native says whether the state stays in the order and type of the spec: it is read and written by the kernel as it is.
func (v Variant) Native() bool {
	return v.Algo == AlgoToken && (v.Unit != UnitMatrix || v.KQ == JointJoined)
}
