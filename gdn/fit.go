package gdn

import (
	"slices"
	"strconv"
	"strings"

	"github.com/gdngen/gdngen/ir/target"
)

// Machine is what the choice of how much shares a program depends on.
type Machine = target.Machine

// register is the lanes of a vector register.
const register = target.Lanes

// Suited gives forms of v for s on a machine, the most wanted first and then those that need less memory: value heads, batch
// rows and chunks that share a program, chunks of a step, and tokens of a chunk. The caller takes the first that fits. Only
// fused variants of overlapping phases have forms; of others v itself is the only one.
//
// Eight heads interleaved hide the latency of a matrix unit of 128, sixteen that of 256. Where there are fewer, batch rows
// take their place, then chunks. Each core gets a program before a program gets more heads. Heads narrower than a register are
// read with tokens along the lanes, as TPUs keep them.
func (v Variant) Suited(s Spec, m Machine) []Variant {
	if m.MXUSize > 128 {
		return v.filling(s, m, 16)
	}
	return v.filling(s, m, 8)
}

// filling gives the forms of v whose programs are full with a number of heads x batch rows.
func (v Variant) filling(s Spec, m Machine, full int) []Variant {
	if v.Algo != AlgoChunk || v.Forward.PhasesBefore == 0 || v.Flow != FlowFused {
		return []Variant{v}
	}
	s = v.Packing(s)
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
			w.Chunk, w.Mapping.Heads = chunk, h
			if narrow := s.K < register && s.V < register && s.Tokens >= register; narrow && w.Layout == LayoutBTHD && chunk%register == 0 {
				w.Layout = LayoutBHDT
			}
			if h == s.HeadsV {
				w.Mapping.Heads = 0
			}
			add(w.fill(s, m, h, full))
			for w.Mapping.Pack == PackAligned && w.Mapping.Chunks > 1 {
				w.Mapping.Chunks /= 2
				add(w.fill(s, m, h, full))
			}
			add(w)
			w.Forward.Steps = 1
			add(w)
		}
	}
	if len(list) == 0 {
		list = []Variant{v} // Check says why none is built
	}
	return list
}

// fill takes batch rows, then chunks into programs of h heads that are not full.
func (v Variant) fill(s Spec, m Machine, h, full int) Variant {
	for s.Batch%(2*v.Mapping.Batch) == 0 && 2*v.Mapping.Batch*h <= full && s.Batch/(2*v.Mapping.Batch)*(s.HeadsV/h) >= m.Cores {
		v.Mapping.Batch *= 2
	}
	switch n := v.Mapping.Batch * h; {
	case v.Mapping.Pack == PackAligned: // at most twice as many rows as fill a program
		for v.Mapping.Chunks > 1 && v.Mapping.Chunks*h > 2*full {
			v.Mapping.Chunks /= 2
		}
	case s.Seqs > 0 || n > 4:
	case n > 2:
		if s.Tokens >= 16*v.Chunk { // else the first and last steps weigh too much
			v.Forward.Steps = 4
		}
	default:
		v.Mapping.Chunks = 4 / n
	}
	return v
}

// headCounts lists how many value heads a program may take, the most first: at most full unless a key head has more, and so
// that windows of tokens hold whole words of two bf16 rows of keys. Where none does, as of 48 value heads of 16 key heads,
// it is the least whose rows of keys and values are whole tiles: 24. Heads that fill no tiles of rows, such as ten, are in one program first.
func (s Spec) headCounts(full int) []int {
	var list []int
	legal := lookupAxis("heads").Values
	for n := s.HeadsV; n >= s.Groups(); n-- {
		if n < s.HeadsV && (!slices.Contains(legal, strconv.Itoa(n)) || !s.wholeGroups(n) || n/s.Groups()%2 != 0) {
			continue
		}
		if n <= full || n == s.Groups() {
			list = append(list, n)
		}
	}
	if len(list) == 0 {
		least := s.HeadsV
		for n := full + 1; n < s.HeadsV; n++ {
			if slices.Contains(legal, strconv.Itoa(n)) && s.wholeGroups(n) && n%target.Sublanes == 0 && n/s.Groups()%target.Sublanes == 0 {
				least = n
				break
			}
		}
		list = []int{least}
	}
	if !s.Tiled() && list[0] != s.HeadsV && s.HeadsV <= mostTogether {
		list = append([]int{s.HeadsV}, list...)
	}
	return list
}

// mostTogether bounds the heads that are in one program since they fill no tiles of rows.
const mostTogether = 40

// Tiled says whether the heads of a token fill tiles of rows, of which XLA has such of 1, 2, 4 and 8. A program of a part of others has rows that XLA lays
// out anew: ten heads, two a program, take 14.22 cycles on v6e, 9.6 of them so.
func (s Spec) Tiled() bool {
	whole := func(n int) bool { return n <= 2 || n == 4 || n%target.Sublanes == 0 }
	return whole(s.HeadsK) && whole(s.HeadsV)
}

// ofRows is v with heads side by side where rows are flat, so that nothing is moved before the kernel. Kernels cut lanes at whole registers alone, and
// those of a few tokens take heads as an axis.
func (v Variant) ofRows(s Spec) Variant {
	w := v
	w.Layout = LayoutBTLanes
	if s.Rows == RowsHeads || v.Algo != AlgoChunk || v.Layout != LayoutBTHD || s.K%register != 0 || s.V%register != 0 || w.Check(s) != nil {
		return v
	}
	return w.Canon()
}

// forms gives those in which the row's variant suits s, if the row is for s and m; last is the variant of the last row of its job.
func (c *Champion) forms(last Variant, s Spec, m Machine) ([]Variant, error) {
	w := c.where
	w.rules, w.given, w.upTo1, w.beyond1, w.untiled, w.raw, w.byHead, w.ordered = allRules, false, false, false, false, false, false, false // championsFor has looked at them
	if w.mxu != 0 && w.mxu != m.MXUSize || w.vmem != 0 && (m.VMEM == 0 || m.VMEM > w.vmem<<20) {
		return nil, nil
	}
	v, err := ParseVariant(c.Text)
	if s.L2Norm && c.job == jobTraining && s.Rule.kind() == allRules {
		v.Backward.HeadSkew = 0 // norms' gradients are work of the phase behind the state, whose groups of heads take turns then
		if w.packed {
			v.Backward.PhasesBefore = 0 // with norms what passes between phases fills the registers
		}
		// On v5e 9.07 for 9.98. Else sums over lanes, for norms' gradients, are the last work of a step, and matrix units idle beside them.
		if w.mxu == 128 && w.steps > 0 {
			v.Backward.StateDelay, v.Backward.Grain = 10, 100
		}
	}
	switch {
	case err != nil:
		return nil, err
	case c.Host != HostTPU || c.job == jobDecode:
		if w.tokens > 0 && s.Tokens > w.tokens || s.Batch*s.HeadsV < w.least {
			return nil, nil
		}
		list := []Variant{v}
		for c.Host == HostTPU && v.Mapping.Batch > 1 { // sequences of a step, whose states may need more memory than there is
			v.Mapping.Batch /= 2
			list = append(list, v)
		}
		return list, nil
	case c.job == jobPacked:
		list, err := suitedBefore(c.Text, s, m)
		// Forms of few visits have a window for the state of each, and XLA copies a pool of which there are several windows.
		if err != nil || w.segments > 0 && (s.Pool > 0 || last.Fit(s).segments(s) > w.segments) || w.tokens > 0 && s.Tokens > w.tokens ||
			w.most > 0 && list[0].Fit(s).states(s, m) > w.most || v.segments(s) < w.steps*v.Mapping.Chunks {
			return nil, err
		}
		return list, nil
	case w == (where{}), w.packed && last.Fit(s).Packing(s).Seqs > 0:
		list := v.Suited(s, m)
		fit := list[0].visiting(s).Fit(s)
		if w.most > 0 && (fit.Mapping.Chunks < v.Mapping.Chunks || fit.states(s, m) > w.most || v.segments(s) < w.steps*v.Mapping.Chunks) {
			return nil, nil
		}
		return list, nil
	case w.packed, last.Fit(s).Packing(s).Seqs > 0: // gradients of packed sequences
		return nil, nil
	}
	return w.forms(v, last, s, m), nil
}

// What a program of rows that follow one another has interleaved: as many rows as give it so many heads, and where rows have too few chunks for
// that, as give it so many heads x chunks.
const (
	chainHeads   = 8
	chainEntries = 16
)

// chainFilled is the most tokens of a row that is no whole number of steps. Filled rows that lie one behind another are a copy more than filled rows apart,
// which a short row's pipeline outweighs: eight rows of 500 tokens 98748 cycles for 108774 on v6e, four of 1000 104018 for 96066, two of 4000 249336 for 200348.
const chainFilled = 512

// chained gives the forms for s in which rows follow one another: those of one row with the tokens of all, or of as many rows as fill a program, which are in
// lockstep. Rows are whole steps: of chunks interleaved only so many are taken that little of a row is padding. With several cores each has programs of its own.
func (c *Champion) chained(last Variant, s Spec, m Machine) ([]Variant, error) {
	if c.Host != HostTPU || s.Batch == 1 || m.Cores > 1 || s.job() != jobPrefill && s.job() != jobTraining {
		return nil, nil
	}
	one := s
	one.Batch = 1
	for s.Batch%(2*one.Batch) == 0 && one.Batch*s.HeadsV < chainHeads {
		one.Batch *= 2
	}
	one.Tokens = s.Batch / one.Batch * (s.Tokens + padding(s.Tokens, last.Fit(s).Chunk))
	forms, err := c.forms(last, one, m)
	var list []Variant
	for _, v := range forms {
		if v.Chunk != forms[0].Chunk || v.Layout != forms[0].Layout { // those after the most wanted are for less memory
			break
		}
		v.Mapping.Chain, v.Forward.Steps = true, 1
		chunk := v.Fit(s).Chunk
		for v.Mapping.Chunks > 1 && 8*(padding(s.Tokens, v.Mapping.Chunks*chunk)-padding(s.Tokens, chunk)) > s.Tokens {
			v.Mapping.Chunks /= 2
		}
		for h := v.Fit(s).Mapping.Heads; s.Batch%(2*v.Mapping.Batch) == 0 && v.Mapping.Batch*h*v.Mapping.Chunks < chainEntries; {
			v.Mapping.Batch *= 2
		}
		whole := s.Tokens <= chainFilled || padding(s.Tokens, v.Mapping.Chunks*chunk) == 0
		if whole && v.Fit(s).Mapping.Chain && v.Check(s) == nil {
			list = append(list, v.Canon())
		}
	}
	return list, err
}

// padding is how many tokens fill others up to whole steps.
func padding(tokens, step int) int { return (step - tokens%step) % step }

// suitedBefore gives the forms of a text: those that suit the variant of its name, with the text's changes.
func suitedBefore(text string, s Spec, m Machine) ([]Variant, error) {
	name, _, _ := strings.Cut(text, ",")
	named, err := LookupVariant(name)
	if err != nil {
		return nil, err
	}
	var list []Variant
	for _, form := range named.Suited(s, m) {
		v, err := parseVariantOn(text, func(string) (Variant, error) { return form, nil })
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	return list, nil
}

// mostVisited bounds the visits x heads of a step. More fill the vector memory, and take long to compile.
const mostVisited = 32

// visiting is v with visits of sequences to blocks of tokens where v would gather packed sequences into chunks, which takes the compiler's gathers longer
// than the kernel's work: packed training 19.1 against 6.2 cycles a token and value head on v6e.
func (v Variant) visiting(s Spec) Variant {
	w := v
	w.Mapping.Pack, w.Forward.Fetch = PackSegments, FetchCopies
	for w.Mapping.Chunks > 1 && w.Mapping.Chunks*w.Fit(s).Mapping.Heads > mostVisited {
		w.Mapping.Chunks /= 2
	}
	if v.Fit(s).Mapping.Pack == PackGather && w.Fit(s).Mapping.Pack == PackSegments && w.Check(s) == nil {
		return w.Canon()
	}
	return v
}

// states are the heads x batch rows of a program of a fitted variant, in tiles of a matrix unit.
func (v Variant) states(s Spec, m Machine) int {
	tiles := func(d int) int { return (d + m.MXUSize - 1) / max(m.MXUSize, 1) }
	return v.Mapping.Heads * v.Mapping.Batch * tiles(s.K) * tiles(s.V)
}

// segments bounds those of packed sequences to blocks of a chunk: one for each block, and one more where a block's first token does not
// begin a sequence.
func (v Variant) segments(s Spec) int { return (s.Tokens+v.Chunk-1)/v.Chunk + s.Seqs - 1 }

// forms gives those of v on sequences that are not packed. Chunks interleaved need enough steps of them and little padding, unless
// they are few. They fill programs of fewer heads, but not in a training step, whose backward kernel takes one chunk after another.
func (w where) forms(v, last Variant, s Spec, m Machine) []Variant {
	var full Variant
	if w.steps > 0 && w.tokens == 0 && s.Direction == Forward {
		full = last.filling(s, m, w.most)[0]
	} else {
		full = last.Suited(s, m)[0]
	}
	if states := full.Fit(s).states(s, m); states < w.least || w.most > 0 && states > w.most {
		return nil
	}
	if v.Mapping.Chunks == 1 {
		if w.tokens > 0 && s.Tokens > w.tokens {
			return nil
		}
		return v.Suited(s, m)
	}
	v.Mapping.Heads, v.Mapping.Batch, v.Layout = full.Mapping.Heads, full.Mapping.Batch, full.Layout
	if s.L2Norm {
		v.Forward.PrologueEnd = 100 // norms are work of the first phase
	}
	if s.Conv > 0 { // the convolution of values is work of the state's phase, which so has more of the slot: bench on v6e 96516 cycles by wall for 99067
		v.Forward.StateDelay, v.Forward.PrologueEnd = 3, 90
	}
	step := v.Mapping.Chunks * v.Chunk
	padding := padding(s.Tokens, step)
	suits := s.Tokens+padding >= w.steps*step && padding <= s.Tokens/8
	if w.tokens > 0 {
		suits = s.Tokens <= w.tokens && (suits || w.steps == 0)
	}
	if !suits || v.Check(s) != nil {
		return nil
	}
	return []Variant{v}
}
