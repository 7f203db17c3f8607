package judge

import (
	"github.com/gdngen/gdngen/gdn"
)

// Widths of the heads of a tiny spec. Keys of few channels are more alike, so errors are larger: gradients of a training step, in one pass,
// err 1.7 times as much at 16 channels as at 128, and 1.1 times at 64. A narrower spec would refuse variants that pass at full width.
const (
	tinyWidth     = 16
	tinyGradients = 64
)

// tiny returns a spec like s that the interpreter runs quickly: one chunk and a part of the next, narrow heads.
func tiny(s gdn.Spec, v gdn.Variant) gdn.Spec {
	f := v.Fit(s)
	s = fewHeads(s, f)
	s.Tokens = min(s.Tokens, f.Chunk*f.Mapping.Chunks+max(1, f.Chunk/4))
	width := tinyWidth
	if s.Direction != gdn.Forward {
		width = tinyGradients
	}
	s.K, s.V = min(s.K, width), min(s.V, width)
	return s
}

// moderateTokens spans several chunks of most variants, and a part of one.
const moderateTokens = 300

// moderate returns a spec like s with heads of full width, over at least two grid steps. Most variants share it.
func moderate(s gdn.Spec, v gdn.Variant) gdn.Spec {
	f := v.Fit(s)
	s = fewHeads(s, f)
	s.Tokens = min(s.Tokens, max(moderateTokens, 2*f.Chunk*f.Mapping.Chunks+f.Chunk/4))
	return s
}

// longTokens is the length of a run in which small faults of each chunk add up.
const longTokens = 4096

// shortTokens: specs with at most so many tokens (decoding) have no long run.
const shortTokens = 64

// long returns a spec like s with more than longTokens tokens, whatever s has.
func long(s gdn.Spec, v gdn.Variant) gdn.Spec {
	s = fewHeads(s, v.Fit(s))
	s.Tokens = longTokens + moderateTokens
	return s
}

// fewHeads keeps the heads of one program, or of two if programs share heads; two batch rows, since one hides faults
// between rows; and at most six sequences: enough for empty and single-token ones first, between and last.
func fewHeads(s gdn.Spec, f gdn.Variant) gdn.Spec {
	g := s.Groups()
	heads := g
	if f.Mapping.Heads < s.HeadsV {
		heads = max(g, min(2*f.Mapping.Heads, s.HeadsV))
	}
	s.HeadsK, s.HeadsV = heads/g, heads
	s.Batch = min(s.Batch, max(2, f.Mapping.Batch))
	s.Seqs = min(s.Seqs, 6)
	return s
}
