package gdn

import (
	"slices"
	"strconv"
)

// Machine is what the choice of how much shares a program depends on.
type Machine struct {
	Cores   int // that share a grid's parallel points
	MXUSize int // rows and columns of a matrix unit
}

// register is the lanes of a vector register.
const register = 128

// Suited gives forms of v for s on a machine, the most wanted first and then those that need less memory: value heads, batch
// rows and chunks that share a program, chunks of a step, and tokens of a chunk. The caller takes the first that fits. Only
// fused variants of overlapping phases have forms; of others v itself is the only one.
//
// Eight heads in lockstep hide the latency of a matrix unit of 128, sixteen that of 256. Where there are fewer, batch rows
// take their place, then chunks. Each core gets a program before a program gets more heads. Heads narrower than a register are
// read with tokens along the lanes, as TPUs keep them.
func (v Variant) Suited(s Spec, m Machine) []Variant {
	if v.Algo != AlgoChunk || v.Ahead == 0 || v.Flow != FlowFused {
		return []Variant{v}
	}
	full := 8
	if m.MXUSize > 128 {
		full = 16
	}
	heads := s.headCounts(full)
	for len(heads) > 1 && s.Batch*s.HeadsV/heads[0] < m.Cores {
		heads = heads[1:]
	}
	var list []Variant
	add := func(w Variant) {
		if w = w.Canon(); w.Check(s) == nil && !slices.Contains(list, w) {
			list = append(list, w)
		}
	}
	for chunk := v.Chunk; chunk >= min(v.Chunk, 32); chunk /= 2 {
		for _, h := range heads {
			w := v
			w.Chunk, w.Heads = chunk, h
			if narrow := s.K < register && s.V < register && s.Tokens >= register; narrow && w.Layout == HeadsInner && chunk%register == 0 {
				w.Layout = HeadsTurned
			}
			if h == s.HeadsV {
				w.Heads = 0
			}
			add(w.fill(s, m, h, full))
			add(w)
			w.Steps = 1
			add(w)
		}
	}
	return list
}

// fill takes batch rows, then chunks into programs of h heads that are not full.
func (v Variant) fill(s Spec, m Machine, h, full int) Variant {
	for s.Batch%(2*v.Batch) == 0 && 2*v.Batch*h <= full && s.Batch/(2*v.Batch)*(s.HeadsV/h) >= m.Cores {
		v.Batch *= 2
	}
	switch n := v.Batch * h; {
	case s.Seqs > 0 || n > 4:
	case n > 2:
		if s.Tokens >= 16*v.Chunk { // else the first and last steps weigh too much
			v.Steps = 4
		}
	default:
		v.Chunks = 4 / n
	}
	return v
}

// headCounts lists how many value heads a program may take, the most first: at most full unless a key head has more, and so
// that windows of tokens hold whole words of two bf16 rows of keys.
func (s Spec) headCounts(full int) []int {
	var list []int
	legal := lookupAxis("heads").Values
	for n := s.HeadsV; n >= s.Groups(); n-- {
		if n < s.HeadsV && (!slices.Contains(legal, strconv.Itoa(n)) || !s.lockstep(n) || n/s.Groups()%2 != 0) {
			continue
		}
		if n <= full || n == s.Groups() {
			list = append(list, n)
		}
	}
	if len(list) == 0 {
		list = []int{s.HeadsV}
	}
	return list
}

// suited gives the forms of a named variant: those of Suited, after the form of the variant that takes its place for long sequences.
// That one is wanted where a program has five to eight heads for a matrix unit of 256 and at least two of its steps: more tiles in
// lockstep then hide more latency, and the first and last steps do not weigh too much.
func (n NamedVariant) suited(s Spec, m Machine) ([]Variant, error) {
	v, err := ParseVariant(n.Text)
	if err != nil {
		return nil, err
	}
	forms := v.Suited(s, m)
	if s.Direction != Forward && m.MXUSize <= 128 { // matrix units are full: products of all heads in a row keep them so
		for i := range forms {
			forms[i].Stagger, forms[i].BackLate = 0, 0
		}
	}
	if n.Long == "" || m.MXUSize <= 128 || s.Seqs > 0 || s.Direction != Forward {
		return forms, nil
	}
	long, err := LookupVariant(n.Long)
	if err != nil {
		return nil, err
	}
	short := forms[0].Fit(s)
	long.Heads, long.Batch = forms[0].Heads, forms[0].Batch
	step := long.Chunks * long.Chunk
	padding := (step - s.Tokens%step) % step
	entries := short.Heads * short.Batch * short.Chunks
	if entries > 4 && entries <= 8 && short.Layout == long.Layout && s.Tokens >= 2*step && padding <= s.Tokens/8 && long.Check(s) == nil {
		forms = append([]Variant{long}, forms...)
	}
	return forms, nil
}
