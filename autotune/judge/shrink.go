package judge

import (
	"github.com/gdngen/gdngen/gdn"
)

// Widths of the heads of a tiny spec. Keys of few channels are more alike, so errors are larger: gradients of a training step, in one
// pass, err 1.7 times as much at 16 channels as at 128, and 1.1 times at 64. Narrower, the tiny spec would refuse what the real one passes.
const (
	tinyWidth     = 16
	tinyGradients = 64
)

// tiny is a spec like s that the interpreter runs in a moment: one chunk and a part of the next, narrow heads.
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

// moderateTokens holds several of most variants' chunks, and a part of one.
const moderateTokens = 300

// moderate is a spec like s that shows the errors of full heads over two grid steps at least. Most variants share it.
func moderate(s gdn.Spec, v gdn.Variant) gdn.Spec {
	f := v.Fit(s)
	s = fewHeads(s, f)
	s.Tokens = min(s.Tokens, max(moderateTokens, 2*f.Chunk*f.Mapping.Chunks+f.Chunk/4))
	return s
}

// longTokens are those of a run in which a small fault of each chunk adds up.
const longTokens = 4096

// shortTokens are the most of a spec that is for short sequences: decoding, of which there is no long run.
const shortTokens = 64

// long is a spec like s with many tokens, whatever s has.
func long(s gdn.Spec, v gdn.Variant) gdn.Spec {
	s = fewHeads(s, v.Fit(s))
	s.Tokens = longTokens + moderateTokens
	return s
}

// fewHeads keeps one program's worth of heads, two where programs share the heads; two batch rows, since one hides a fault of the
// others; and at most six sequences: room for empty ones and single tokens first, between and last.
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
