package gdn

import "fmt"

// A mixed batch (Spec.Mixed) is what a server runs in one step: T tokens of up to S sequences side by side, all by
// values of the run. distribution [3] says how the sequences follow one another: those before distribution[0] have
// one token each, or a window of up to Mixed tokens; those before distribution[2], of which more than S are S, have
// any number; the others are padding, whatever cu_seqlens, state_indices and read_indices have for them. Its middle
// number is not read.
//
//	S 5, T 16, distribution 2 2 4, cu_seqlens 0 1 2 7 12 99      tokens  a b ccccc ddddd ....
//
// Tokens behind the last sequence are padding, with outputs of zero. A sequence without tokens leaves its state as it
// is, and one whose name no state has is skipped. With windows state_indices names groups of Mixed states: a window
// leaves a state after each token, a prompt the first of its group. A window of fewer tokens is filled up with such
// as are zeros, and leave the state alone.

// checkMixed refuses what mixed batches are not built for.
func (s *Spec) checkMixed() error {
	switch {
	case s.Mixed == 0:
		return nil
	case s.Mixed < 0 || s.Mixed > maxToken:
		return fmt.Errorf("%d is out of range: 0 (none) to %d", s.Mixed, maxToken)
	case s.Seqs == 0 || !s.Packed:
		return fmt.Errorf("its sequences are packed: add packed, and seqs for the most of them")
	case !s.Read:
		return fmt.Errorf("its sequences start and end in a pool: add init, pool and read")
	case s.Pool%s.Mixed != 0 || s.Pool/s.Mixed <= s.Seqs:
		return fmt.Errorf("pool=%d is no multiple of %d for %d sequences and one more, which padding has", s.Pool, s.Mixed, s.Seqs)
	case s.Empty != EmptyKeep:
		return fmt.Errorf("a sequence without tokens leaves its state as it is: leave out empty")
	case s.Direction != Forward:
		return fmt.Errorf("%s keeps its states: leave out mixed", s.Direction)
	}
	return nil
}

// Decodes is the spec of the first sequences of a mixed batch, of one token or a window each, as batch rows.
func (s Spec) Decodes() Spec {
	s.Batch, s.Tokens, s.Window = min(s.Seqs, s.Tokens), s.Mixed, s.Mixed > 1
	s.Seqs, s.Packed, s.Mixed = 0, false, 0
	return s
}

// Prompts is the spec of the other sequences of a mixed batch. Tokens of the first ones are of a sequence without a
// state, and so is the padding, of one sequence more. A spec without a mixed batch is its own.
func (s Spec) Prompts() Spec {
	if s.Mixed > 0 {
		s.Seqs, s.Mixed = s.Seqs+1, 0
	}
	return s
}

// Decoding is the variant for the first sequences of a mixed batch whose prompts take v.
func (v Variant) Decoding() Variant {
	text := "cpu-decode"
	if v.Fuse == PlaceKernel {
		text = "decode-f32,main=yes"
	}
	w, err := ParseVariant(text)
	if err != nil {
		panic(err) // a row of Variants
	}
	return w
}
