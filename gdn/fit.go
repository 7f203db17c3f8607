package gdn

import (
	"slices"
	"strconv"
	"strings"

	"github.com/gdngen/gdngen/ir/target"
)

// Machine describes the target: its cores, MXU size and memory decide how much work one program takes.
type Machine = target.Machine

// register is the number of lanes of a vector register.
const register = target.Lanes

// Suited returns v with heads, batch rows, chunks, steps and chunk size adapted to s and m: the preferred form first, then forms that need less memory.
// The caller takes the first that fits. Only fused chunkwise variants with overlapping phases have several forms; for others it returns v alone.
//
// Eight interleaved heads hide the latency of an MXU of 128, sixteen that of one of 256. With fewer heads, batch rows are interleaved, then chunks.
// Every core gets a program before a program gets more heads. Heads narrower than a register are
// read with tokens along the lanes, the layout that TPUs store them in.
func (v Variant) Suited(s Spec, m Machine) []Variant {
	if m.MXUSize > 128 {
		return v.filling(s, m, 16)
	}
	return v.filling(s, m, 8)
}

// filling returns the forms of v whose programs have up to full heads x batch rows.
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
		list = []Variant{v} // Check reports why none can be built
	}
	return list
}

// fill adds batch rows, then chunks or steps, to programs of h heads until they have about full heads x rows.
func (v Variant) fill(s Spec, m Machine, h, full int) Variant {
	for s.Batch%(2*v.Mapping.Batch) == 0 && 2*v.Mapping.Batch*h <= full && s.Batch/(2*v.Mapping.Batch)*(s.HeadsV/h) >= m.Cores {
		v.Mapping.Batch *= 2
	}
	switch n := v.Mapping.Batch * h; {
	case v.Mapping.Pack == PackAligned: // at most twice as many heads x chunks as fill a program
		for v.Mapping.Chunks > 1 && v.Mapping.Chunks*h > 2*full {
			v.Mapping.Chunks /= 2
		}
	case s.Seqs > 0 || n > 4:
	case n > 2:
		if s.Tokens >= 16*v.Chunk { // with fewer tokens the first and last step cost too much
			v.Forward.Steps = 4
		}
	default:
		v.Mapping.Chunks = 4 / n
	}
	return v
}

// headCounts returns the head counts a program may take, the largest first: at most full (unless one key head has more value heads) and an even number
// of key heads, so that token windows hold whole words of two bf16 key rows. If none qualifies, it returns the smallest count whose rows of keys and
// values are whole tiles, for example 24 of 48 value heads with 16 key heads. Head counts that fill no tiles, such as ten, come first as one program.
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

// mostTogether is the largest number of heads that share one program because they fill no tiles of rows.
const mostTogether = 40

// Tiled reports whether the heads of a token fill XLA's row tiles of 1, 2, 4 or 8. If not, XLA copies the rows of a program that takes only some heads:
// ten heads with two a program take 14.22 cycles on v6e, 9.6 of them for this copy.
func (s Spec) Tiled() bool {
	whole := func(n int) bool { return n <= 2 || n == 4 || n%target.Sublanes == 0 }
	return whole(s.HeadsK) && whole(s.HeadsV)
}

// ofRows returns v with heads next to each other in memory if s has flat rows, so that no copy is needed before the kernel. Otherwise it returns v.
// Kernels slice lanes at whole registers only, and decode kernels take heads as an axis.
func (v Variant) ofRows(s Spec) Variant {
	w := v
	w.Layout = LayoutBTLanes
	if s.Rows == RowsHeads || v.Algo != AlgoChunk || v.Layout != LayoutBTHD || w.Check(s) != nil || s.loose(v.Fit(s).Mapping.Heads) {
		return v
	}
	return w.Canon()
}

// loose reports whether the flat rows of programs of n heads do not begin at registers, so that they have no blocks.
func (s Spec) loose(n int) bool {
	return n < s.HeadsV && (n*s.HeadsK/s.HeadsV*s.K%register != 0 || n*s.V%register != 0)
}

// forms returns the row's variant adapted to s and m, or nil if the row does not apply. last is the variant of the job's last row.
func (c *Champion) forms(last Variant, s Spec, m Machine) ([]Variant, error) {
	w := c.where
	w.rules, w.given, w.upTo1, w.beyond1, w.untiled, w.raw, w.byHead, w.ordered, w.mixed = allRules, false, false, false, false, false, false, false, false // already checked by championsFor
	if w.mxu != 0 && w.mxu != m.MXUSize || w.vmem != 0 && (m.VMEM == 0 || m.VMEM > w.vmem<<20) {
		return nil, nil
	}
	v, err := ParseVariant(c.Text)
	if s.L2Norm && c.job == jobTraining && s.Rule.kind() == allRules {
		v.Backward.HeadSkew = 0 // gradients of norms run in the phase after the state, whose head groups then take turns
		if w.packed {
			v.Backward.PhasesBefore = 0 // with norms, values passed between phases fill the registers
		}
		// v5e: 9.07 cycles instead of 9.98. Otherwise lane sums for gradients of norms are a step's last work, and the MXUs idle meanwhile.
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
		for c.Host == HostTPU && v.Mapping.Batch > 1 { // sequences of a step, whose states may exceed memory
			v.Mapping.Batch /= 2
			list = append(list, v)
		}
		return list, nil
	case c.job == jobPacked:
		list, err := suitedBefore(c.Text, s, m)
		// Forms for few varlen blocks have a window for the state of each block, and XLA copies a pool that has several windows.
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

// Targets for programs of back-to-back rows: rows are interleaved until they have chainHeads heads, then until they have chainEntries heads x chunks.
const (
	chainHeads   = 8
	chainEntries = 16
)

// chainFilled is the longest padded row that runs back to back. Back-to-back rows with padding need one more copy than separate rows, which only pays
// for short ones. v6e cycles against separate rows: 8 rows of 500 tokens 98748 / 108774, 4 of 1000 104018 / 96066, 2 of 4000 249336 / 200348.
const chainFilled = 512

// chained returns forms for s whose batch rows run back to back in one program, or nil. Rows are interleaved if one row has too few heads. The number
// of interleaved chunks is reduced until padding a row to whole steps costs at most 1/8 of it. Machines with several cores have no such form.
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
		if v.Chunk != forms[0].Chunk || v.Layout != forms[0].Layout { // later forms only save memory
			break
		}
		v.Mapping.PersistentRows, v.Forward.Steps = true, 1
		chunk := v.Fit(s).Chunk
		for v.Mapping.Chunks > 1 && 8*(padding(s.Tokens, v.Mapping.Chunks*chunk)-padding(s.Tokens, chunk)) > s.Tokens {
			v.Mapping.Chunks /= 2
		}
		for h := v.Fit(s).Mapping.Heads; s.Batch%(2*v.Mapping.Batch) == 0 && v.Mapping.Batch*h*v.Mapping.Chunks < chainEntries; {
			v.Mapping.Batch *= 2
		}
		whole := s.Tokens <= chainFilled || padding(s.Tokens, v.Mapping.Chunks*chunk) == 0
		if whole && v.Fit(s).Mapping.PersistentRows && v.Check(s) == nil {
			list = append(list, v.Canon())
		}
	}
	return list, err
}

// padding returns the number of tokens that pad a row to whole steps.
func padding(tokens, step int) int { return (step - tokens%step) % step }

// suitedBefore returns the forms of a text: its named variant is adapted first, then the text's axis changes are applied.
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

// mostVisited bounds varlen blocks x heads of a step. More would fill the vector memory and compile slowly.
const mostVisited = 32

// visiting returns v with masked varlen blocks (pack=segments) where v would gather packed sequences into chunks. XLA's gathers take longer than the
// kernel: packed training costs 19.1 cycles a token and value head with them on v6e, 6.2 without.
func (v Variant) visiting(s Spec) Variant {
	w := v
	w.Mapping.Pack, w.Forward.Prefetch = PackSegments, PrefetchDMA
	for w.Mapping.Chunks > 1 && w.Mapping.Chunks*w.Fit(s).Mapping.Heads > mostVisited {
		w.Mapping.Chunks /= 2
	}
	if v.Fit(s).Mapping.Pack == PackGather && w.Fit(s).Mapping.Pack == PackSegments && w.Check(s) == nil {
		return w.Canon()
	}
	return v
}

// states returns heads x batch rows of a program of a fitted variant, times the MXU tiles of [K, V].
func (v Variant) states(s Spec, m Machine) int {
	tiles := func(d int) int { return (d + m.MXUSize - 1) / max(m.MXUSize, 1) }
	return v.Mapping.Heads * v.Mapping.Batch * tiles(s.K) * tiles(s.V)
}

// segments returns an upper bound on varlen blocks (pairs of a block of one chunk and a sequence in it): one for each block, and one more for each
// sequence that begins inside a block.
func (v Variant) segments(s Spec) int { return (s.Tokens+v.Chunk-1)/v.Chunk + s.Seqs - 1 }

// forms returns the forms of v for unpacked sequences, or nil. Interleaved chunks need at least w.steps steps and at most 1/8 padding, unless the row is
// for few tokens. They fill programs of few heads. Training gets none, since its backward kernel takes one chunk after another.
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
		return slices.DeleteFunc(v.Suited(s, m), func(x Variant) bool { return w.flat && s.loose(x.Fit(s).Mapping.Heads) })
	}
	v.Mapping.Heads, v.Mapping.Batch, v.Layout = full.Mapping.Heads, full.Mapping.Batch, full.Layout
	if s.L2Norm {
		v.Forward.PrologueEnd = 100 // norms are computed in the first phase
	}
	if s.Conv > 0 { // the convolution of v runs in the state's phase and needs more of the slot: on v6e 96516 in-order cycles instead of 99067
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
