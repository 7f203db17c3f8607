package gdn

import "fmt"

// A mixed batch (Spec.Mixed) is one step of a server: T tokens of up to S packed sequences, with all lengths known only at run time. distribution [3]
// orders the sequences. Sequences before distribution[0] have one token each, or a window of up to Mixed tokens. Sequences from there to
// distribution[2] (at most S) have any number of tokens. The rest is padding, and its entries of cu_seqlens, state_indices and read_indices are ignored.
// distribution[1] is not read.
//
//	S 5, T 16, distribution 2 2 4, cu_seqlens 0 1 2 7 12 99      tokens  a b ccccc ddddd ....
//
// Tokens after the last sequence are padding, with outputs of zero. A sequence without tokens keeps its state, and one with an index outside of the pool
// is skipped. With windows, state_indices names groups of Mixed states: a window writes a state after each token, a prompt the first of its group.
// A shorter window is filled up with zero tokens that do not change the state.

// checkMixed returns an error for a mixed batch that cannot be built.
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

// Decodes returns the spec of the first sequences of a mixed batch as batch rows, of one token or one window each.
func (s Spec) Decodes() Spec {
	s.Batch, s.Tokens, s.Window = min(s.Seqs, s.Tokens), s.Mixed, s.Mixed > 1
	s.Seqs, s.Packed, s.Mixed = 0, false, 0
	return s
}

// Prompts returns the spec of a mixed batch's other sequences, those that are not Decodes; s itself if it is no mixed
// batch. It has one more sequence, for padding. The tokens of the decodes come first in the rows and belong to no
// sequence.
func (s Spec) Prompts() Spec {
	if s.Mixed > 0 {
		s.Seqs, s.Mixed = s.Seqs+1, 0
	}
	return s
}

// Decoding returns the variant for the first sequences of a mixed batch whose prompts use v.
func (v Variant) Decoding() Variant {
	text := "cpu-decode"
	if v.Fuse == PlaceKernel {
		text = "decode-f32,hbm=yes"
	}
	w, err := ParseVariant(text)
	if err != nil {
		panic(err) // the texts are rows of Variants
	}
	return w
}
