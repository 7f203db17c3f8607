package truth

import (
	"fmt"
	"slices"

	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/ir/array"
)

// Deal distributes classes over the value heads of all batch rows, so that one run tests several. Each list has the class of every value head, rows first.
// Value heads of one key head share its keys, so they get classes with the same kind of keys. Example with four key heads of two value heads: {random,
// slow, beta0, cos.9} gives {random, slow, beta0, random, cos.9, cos.9, random, slow}. Remaining heads repeat the first classes.
func Deal(s gdn.Spec, classes []Class) [][]Class {
	if len(classes) == 0 {
		return nil
	}
	var kinds []*keyKind
	byKind := map[*keyKind][]Class{}
	for _, c := range classes {
		if byKind[c.keys] == nil {
			kinds = append(kinds, c.keys)
		}
		byKind[c.keys] = append(byKind[c.keys], c)
	}
	var hands [][]Class // classes of the value heads of one key head
	for _, kind := range kinds {
		for l := range slices.Chunk(byKind[kind], s.Groups()) {
			hand := make([]Class, s.Groups())
			for i := range hand {
				if i < len(l) {
					hand[i] = l[i]
				} else {
					hand[i] = byKind[kind][(i-len(l))%len(byKind[kind])]
				}
			}
			hands = append(hands, hand)
		}
	}
	var deals [][]Class
	seats := s.Batch * s.HeadsK
	for first := 0; first < len(hands); first += seats {
		var deal []Class
		for i := range seats {
			deal = append(deal, hands[(first+i)%len(hands)]...)
		}
		deals = append(deals, deal)
	}
	return deals
}

// GenerateMix draws the inputs of a forward spec with one class per value head and batch row, as listed by Deal. Every second value head starts from a zero
// state if the spec has initial states; with the next seed it is the other half. Depending on the seed, packed sequences are cut at random, or with empty
// and one-token ones at the start, in the middle and at the end. It fails for another direction, a wrong number of classes or an unsupported class.
func GenerateMix(s gdn.Spec, classes []Class, seed uint64) (map[string]*array.Array, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	if s.Direction != gdn.Forward || len(classes) != s.Batch*s.HeadsV {
		return nil, fmt.Errorf("a mix of %d classes for %d value heads of spec %s: it must be a forward spec, with one class a value head and batch row", len(classes), s.Batch*s.HeadsV, s)
	}
	for _, c := range classes {
		if err := c.Supports(s); err != nil {
			return nil, err
		}
	}
	m := mix{s, classes, seed, map[string][]float64{}}
	for row := range s.Batch {
		for h := range s.HeadsV {
			m.head(row, h)
		}
	}
	common := draw{Class{Name: "mix", keys: normal}, s, seed}
	if s.Gates == gdn.GatesFused {
		common.invertGates(m.values, m.values["g"], m.values["beta"])
	}
	common.convolution(m.values)
	common.rawSplitGates(m.values)
	m.values["initial_state"] = m.states(common)
	project(s, m.values)
	out := map[string]*array.Array{}
	for _, p := range s.Inputs() {
		if list := common.naming(p.Name, common.variedBounds); list != nil {
			out[p.Name] = array.FromInt64s(p.Type.DType, p.Type.Shape, list)
		} else {
			out[p.Name] = array.FromFloat64s(p.Type.DType, p.Type.Shape, m.values[p.Name])
		}
	}
	return out, nil
}

// mix is one call of GenerateMix.
type mix struct {
	s       gdn.Spec
	classes []Class
	seed    uint64
	values  map[string][]float64
}

// head draws the tensors of a value head, and the tensors of its key head if it is the first value head there.
func (m mix) head(row, h int) {
	s := m.s
	one := s
	one.Batch, one.HeadsK, one.HeadsV = 1, 1, 1
	d := draw{m.classes[row*s.HeadsV+h], one, m.seed<<16 + uint64(row*s.HeadsV+h)}
	if h%s.Groups() == 0 {
		m.put("q", row, h/s.Groups(), s.HeadsK, d.queries())
		m.put("k", row, h/s.Groups(), s.HeadsK, d.keys())
	}
	g, beta := d.gates()
	m.put("v", row, h, s.HeadsV, d.values())
	m.put("g", row, h, s.HeadsV, g)
	m.put("beta", row, h, s.HeadsV, beta)
	if s.Rule.SplitGates() {
		m.put("erase", row, h, s.HeadsV, d.erases())
		m.put("write", row, h, s.HeadsV, d.writes())
	}
}

// put writes the tokens of one head into the array of all heads.
func (m mix) put(name string, row, h, heads int, x []float64) {
	t := m.s.Tokens
	width := len(x) / t
	if m.values[name] == nil {
		m.values[name] = make([]float64, m.s.Batch*heads*len(x))
	}
	for i := range t {
		copy(m.values[name][((row*t+i)*heads+h)*width:][:width], x[i*width:])
	}
}

// states draws the initial states, zero for every second value head.
func (m mix) states(common draw) []float64 {
	x := common.normal("initial_state", common.stateSize(m.s.Init))
	size := m.s.K * m.s.V
	for i := 0; i*size < len(x); i++ {
		if (uint64(i%m.s.HeadsV)+m.seed)%2 == 0 {
			clear(x[i*size:][:size])
		}
	}
	return x
}

// variedBounds draws cu_seqlens with short sequences in places that depend on the seed.
func (d draw) variedBounds() []int64 {
	n, tokens := d.s.Seqs, int64(d.s.Tokens)
	short := []map[int]int64{{}, {0: 0, 1: 1, n - 1: 0}, {0: 1, n / 2: 0, n - 1: 1}}[d.seed%3]
	if n < 4 || tokens < 4 || len(short) == 0 {
		return d.bounds()
	}
	var fixed int64
	for _, l := range short {
		fixed += l
	}
	// The other sequences share the remaining tokens, cut at sorted random points.
	r := d.stream("cu_seqlens")
	cuts := []int64{0, tokens - fixed}
	for range n - len(short) - 1 {
		cuts = append(cuts, r.Int64N(tokens-fixed+1))
	}
	slices.Sort(cuts)
	cu := []int64{0}
	for i := range n {
		l, ok := short[i]
		if !ok {
			l, cuts = cuts[1]-cuts[0], cuts[1:]
		}
		cu = append(cu, cu[i]+l)
	}
	return cu
}
