package triton

import (
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/ir"
)

// Work has facts about a kernel's launch that its code does not show: iterations and HBM traffic.
type Work struct {
	Trips int   // of its loop over chunks, parts or rows, in the program that runs longest; 0: it has none
	Bytes int64 // of HBM that it reads and writes, where programs that share an input read it once
}

// Works is the work of kernels, by name.
type Works map[string]Work

// Of is the turns of a kernel's loop and the bytes that it moves.
func (w Works) Of(kernel string) (trips int, bytes int64) { return w[kernel].Trips, w[kernel].Bytes }

// WorkOf is the work of a variant's kernels. Packed sequences count as equally long.
func WorkOf(s gdn.Spec, v Variant) Works {
	if decodes(s) {
		return Works{"decode": {Bytes: s.NecessaryBytes()}}
	}
	d := newData(s, v, "")
	longest := s.Tokens
	if s.Seqs > 0 {
		longest = over(s.Tokens, s.Seqs)
	}
	chunks, parts := s.Sequences()*over(longest, v.Chunk), 0
	tokens := int64(s.Batch * s.Tokens)
	of := func(heads, width int, t ir.DType) int64 { return tokens * int64(heads*width*t.Bytes()) }
	qk, vv, o := 2*of(s.HeadsK, s.K, s.DType), of(s.HeadsV, s.V, s.DType), of(s.HeadsV, s.V, s.Out)
	gates := 2 * of(s.HeadsV, 1, s.GateDType)
	element := 4
	if d.Like == "q" {
		element = s.DType.Bytes()
	}
	squares := int64(chunks*s.HeadsV*v.Chunk) * int64(v.Chunk*element)
	ofT := squares
	if d.Rest {
		ofT *= 2
	}
	prepared := ofT + squares + int64(chunks*s.HeadsV*v.Chunk*2*4) // T, P, G and beta
	states := int64(0)
	for _, held := range []bool{s.Init, s.Final} {
		if held {
			states += int64(s.Sequences()*s.HeadsV*s.K*s.V) * int64(s.StateDType.Bytes())
		}
	}
	work := Works{}
	if v.Kernels == "two" {
		rows := 0
		if v.Inverse == "substitution" {
			rows = v.Chunk - 1
		}
		work["prepare"] = Work{Trips: rows, Bytes: qk + gates + prepared}
	} else {
		prepared = gates
	}
	if v.Part == 0 {
		work["scan"] = Work{Trips: over(longest, v.Chunk), Bytes: qk + vv + o + prepared + states}
		return work
	}
	each := over(longest, d.Part)
	parts = s.Sequences() * each
	maps := int64(parts*s.HeadsV*d.KP*d.MapColumns) * 4
	starts := int64(parts*s.HeadsV*d.KP*d.VP) * 4
	chunksOfPart := min(v.Part, over(longest, v.Chunk))
	work["summarise"] = Work{Trips: chunksOfPart, Bytes: qk/2 + vv + prepared - squares + maps}
	work["combine"] = Work{Trips: each, Bytes: maps + starts + states}
	work["scan"] = Work{Trips: chunksOfPart, Bytes: qk + vv + o + prepared + starts}
	if v.Kernels == "one" {
		work["summarise"] = Work{Trips: chunksOfPart, Bytes: qk/2 + vv + prepared + maps}
	}
	return work
}

// over is the quotient, rounded up.
func over(n, by int) int { return (n + by - 1) / by }

// writes are the parameters that a kernel writes; all others it only reads.
var writes = map[string][]string{
	"decode":    {"o", "final_state"},
	"prepare":   {"T_out", "P_out", "G_out", "rate_out"},
	"summarise": {"decays", "maps"},
	"combine":   {"maps", "final_state"}, // it replaces B in maps, and reads the rest and decays
	"scan":      {"o", "final_state"},
}

// Writes lists the parameters that a kernel writes. One that has a value before may keep parts of it.
func Writes(kernel string) []string { return writes[kernel] }
