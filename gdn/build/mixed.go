package build

import (
	"maps"
	"slices"

	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/build/internal/packs"
	"github.com/gdngen/gdngen/gdn/build/internal/pool"
	"github.com/gdngen/gdngen/gdn/build/internal/segments"
	"github.com/gdngen/gdngen/ir"
)

// A mixed batch (gdn.Spec.Mixed) is two programs in one, which share a pool: the first sequences are batch rows of a
// token or a window each (Spec.Decodes), which leave their states, and the others are packed sequences behind them
// (Spec.Prompts). Both are made for the most that there may be, and a run says by names of states what of them there
// is: a sequence of the other program has none, so that its states are neither read nor written, and its outputs are
// zeros.
//
//	S 4, T 12, distribution 2 2 3, cu_seqlens 0 1 2 9 .
//	decodes    rows of tokens 0 1 2 3     states a b - -
//	prompts    cu_seqlens 2 9 12 12 12 12   states c - - - -, the second of the padding

// mixing is what a mixed batch is cut by: lists of i32.
type mixing struct {
	segments.Lists
	s             gdn.Spec
	args          map[string]*ir.Value
	first, all    *ir.Value // [S+2] each: the number of decodes, and of all sequences
	tokens        *ir.Value // [1] of the decodes
	bounds        *ir.Value // [S+1] where sequences begin and the last ends; padding entries are empty
	begin, length *ir.Value // [S]
	place         *ir.Value // [S] 0, 1 and so on
	decodes       *ir.Value // [S] bool: it is a decode, or a window, as long as it may be
	names, reads  *ir.Value // [S] the state of a sequence, or its group of states, and the one it starts from; -1: none
}

// listed are the inputs that say where sequences and states are.
var listed = []string{"cu_seqlens", "state_indices", "read_indices"}

// mixed writes the program of a mixed batch. It has the plan of the prompts, with the grids of both to schedule.
func (base Base) mixed(b *ir.Builder) (*plan, []*ir.Value, error) {
	s := base.spec
	x := &mixing{Lists: segments.Lists{Builder: b}, s: s, args: map[string]*ir.Value{}}
	for _, in := range s.Inputs() {
		x.args[in.Name] = b.Param(in.Name, in.Type)
	}
	b.Stage("glue")
	p := base.part(b, s.Prompts(), base.variant, unlisted(b, s.Prompts(), x.args))
	tabled := x.tabling(p)
	if !tabled {
		x.cut()
	}
	rows := s.Decodes()
	if whole := (s.Seqs + 3) / 4 * 4; s.Mixed == 1 && whole <= s.Tokens && base.variant.Fuse == gdn.PlaceKernel {
		rows.Batch = whole // steps of several, where places are an odd number
	}
	first := base.part(b, rows, base.variant.Decoding().Fit(rows), x.ofDecodes(rows))
	step := 1 // sequences of a step
	if first.pooled() {
		step = first.v.Mapping.Batch
	}
	if tabled {
		first.args["state_indices"], first.named, first.live = x.tabled(rows.Batch, step, p)
	} else {
		lists := x.decodeLists(rows.Batch, step)
		first.args["state_indices"], first.args["read_indices"], first.runs, first.clean = lists.states, lists.reads, lists.runs, true
		for name, y := range x.promptLists() {
			p.args[name] = y
		}
	}
	results, err := first.results(rows)
	if err != nil {
		return nil, nil, err
	}
	decoded := map[string]*ir.Value{}
	for i, out := range rows.Outputs() {
		decoded[out.Name] = results[i]
	}
	p.given("initial_state", decoded["final_state"])
	if s.ConvState {
		p.given("initial_conv", decoded["final_conv"])
	}
	ahead := tabled && p.putsAhead(rows.Batch)
	if ahead {
		p.decoded = padRows(b, b.Reshape(decoded["o"], 1, rows.Batch, decoded["o"].Type.Size()/rows.Batch), aheadRows(rows.Batch))
	}
	if results, err = p.results(s.Prompts()); err != nil {
		return nil, nil, err
	}
	b.Stage("glue")
	if !ahead {
		results[0] = x.joined(p, decoded["o"], results[0])
	}
	for _, c := range *first.carriers {
		c.Decodes = true
		*p.carriers = append(*p.carriers, c)
	}
	return p, results, b.Err()
}

// padRows are rows [1, R, lanes] with rows of zeros behind them.
func padRows(b *ir.Builder, x *ir.Value, rows int) *ir.Value {
	return b.Pad(x, 0, []int{0, 0, 0}, []int{0, rows - x.Type.Shape[1], 0})
}

// part is the plan of a part of a mixed batch.
func (base Base) part(b *ir.Builder, s gdn.Spec, v gdn.Variant, given map[string]*ir.Value) *plan {
	part := baseOf(s, v)
	if s.Seqs > 0 {
		part.variant, part.ordered, part.reversed = base.variant, base.ordered, base.reversed
	}
	p := part.plan(b, s.Inputs(), given)
	p.prompts = s.Seqs > 0
	return p
}

// results writes the program of a part.
func (p *plan) results(s gdn.Spec) ([]*ir.Value, error) {
	results, err := p.emit()
	if err != nil {
		return nil, err
	}
	return p.asTaken(s.Outputs(), p.only(results, s)), nil
}

// cut finds the sequences. Those that share a state with one before them have none, as those whose name no state has,
// and as a decode of two tokens.
func (x *mixing) cut() {
	b, n := x.Builder, x.s.Seqs
	entry := func(i int) *ir.Value { return x.Clip(x.Number(x.args["distribution"], i, n+2), 0, n) }
	x.all = entry(2)
	x.first = b.Min(entry(0), x.all)
	cu := x.Clip(b.Convert(x.args["cu_seqlens"], ir.I32), 0, x.s.Tokens)
	within := func(last *ir.Value) (inside, ends *ir.Value) { // what of cu_seqlens there is, and 0 behind it
		inside = b.Compare(ir.LE, x.Count(n+1), x.From(last, 0, n+1))
		return inside, b.Select(inside, cu, b.Like(cu, 0))
	}
	inside, ends := within(x.all)
	x.bounds = b.Select(inside, cu, x.Most(ends, n+1))
	_, ends = within(x.first)
	x.tokens = x.Most(ends, 1)
	x.begin = x.From(x.bounds, 0, n)
	x.length = b.Sub(x.From(x.bounds, 1, n), x.begin)
	x.place = x.Count(n)
	own := pool.Of{Written: x.args["state_indices"], Group: x.s.Checkpoints(), States: x.s.Pool}
	held := b.And(own.Held(b), b.And(b.Compare(ir.LT, x.place, x.From(x.all, 0, n)), b.Compare(ir.GT, x.length, b.Like(x.length, 0))))
	table := []int{n, n}
	named := b.Select(held, own.Written, b.Like(own.Written, -1))
	alike := b.Compare(ir.EQ, b.Broadcast(named, table, 0), b.Broadcast(own.Written, table, 1))
	before := b.Compare(ir.LT, b.Iota(ir.T(ir.I32, table...), 0), b.Iota(ir.T(ir.I32, table...), 1)) // entry i, j: sequence i has the state of j, which comes behind it
	real := ir.T(ir.F32, table...)
	taken := b.Append(ir.OpReduceMax, []*ir.Value{b.Select(b.And(alike, before), b.Const(real, 1), b.Const(real, 0))}, ir.Attrs{Dims: []int{0}}, nil)[0]
	late := b.Compare(ir.GE, x.place, x.From(x.first, 0, n)) // a prompt, or of the padding
	fits := b.Compare(ir.LE, x.length, b.Like(x.length, float64(x.s.Mixed)))
	if x.s.Mixed == 1 { // rows are tokens
		fits = b.And(fits, b.Compare(ir.EQ, x.begin, x.place))
	}
	x.decodes = b.And(b.Compare(ir.LT, x.place, x.From(x.first, 0, n)), fits)
	ok := b.And(held, b.Compare(ir.EQ, taken, b.Like(taken, 0)))
	ok = b.And(ok, b.Or(fits, late))
	x.names = b.Select(ok, own.Written, b.Like(own.Written, -1))
	x.reads = x.Clip(x.args["read_indices"], -1, x.s.Pool)
}

// unlisted are inputs of a spec, of which those that say where sequences and states are come later.
func unlisted(b *ir.Builder, s gdn.Spec, args map[string]*ir.Value) map[string]*ir.Value {
	given := maps.Clone(args)
	for _, in := range s.Inputs() {
		if slices.Contains(listed, in.Name) {
			given[in.Name] = b.Const(in.Type, 0)
		}
	}
	return given
}

// decodeLists are the states [rows] that decodes leave, and those that they start from, where they leave one, in the order of the places of steps, and how many
// steps run, [1].
type decodeLists struct{ states, reads, runs *ir.Value }

// decodeLists are those of rows in steps of so many. Entries of the first places of all steps come first, then those of the second.
func (x *mixing) decodeLists(rows, step int) decodeLists {
	states := x.Select(x.decodes, x.names, x.Like(x.names, -1))
	reads := x.Select(x.Compare(ir.GE, states, x.Like(states, 0)), x.reads, x.Like(states, -1))
	steps := rows / step
	entry := x.Count(rows)
	if x.Kernel { // as wide as registers
		entry = x.Count(segments.Stride(rows, true))
	}
	place := x.Div(entry, x.Like(entry, float64(steps)))
	seq := x.Add(x.Scale(x.Sub(entry, x.Scale(place, float64(steps))), float64(step)), place)
	if x.Kernel {
		seq = x.Select(x.Compare(ir.LT, entry, x.Like(entry, float64(rows))), seq, x.Like(seq, -1))
	}
	placed := func(y *ir.Value) *ir.Value { return x.Plus(x.Over(seq, ir.EQ, x.place, x.Plus(y, 1)), -1) }
	runs := x.Plus(x.From(x.first, 0, 1), step-1)
	return decodeLists{placed(states), placed(reads), x.Div(runs, x.Like(runs, float64(step)))}
}

// ofDecodes are the inputs of the program of the first sequences, without the lists of their states.
func (x *mixing) ofDecodes(rows gdn.Spec) map[string]*ir.Value {
	b, n := x.Builder, rows.Batch
	given, closed := map[string]*ir.Value{}, map[string]float64{"a": x.s.ClosedDecay(), "b": gdn.ClosedGate, "w": gdn.ClosedGate}
	var at, real *ir.Value // of windows: the token of each place of a row, -1 for none
	if w := rows.Tokens; w > 1 {
		table := []int{n, w}
		of := func(y *ir.Value) *ir.Value { return b.Broadcast(b.SliceAxis(y, 0, 0, n), table, 0) }
		t := b.Iota(ir.T(ir.I32, table...), 1)
		inside := b.And(of(x.decodes), b.Compare(ir.LT, t, of(x.length)))
		token := b.Add(of(x.begin), t)
		at = b.Reshape(b.Select(inside, token, b.Like(token, -1)), n*w)
		real = b.Reshape(inside, n*w)
	}
	for _, in := range rows.Inputs() {
		y := x.args[in.Name]
		switch {
		case slices.Contains(listed, in.Name):
			y = b.Const(in.Type, 0)
		case y.Type.Equal(in.Type): // of all tokens
		case at == nil:
			y = b.Reshape(b.SliceAxis(y, 0, 0, n), in.Type.Shape...)
		default:
			y = b.GatherRows(y, at, 0)
			if fill, raw := closed[in.Name]; raw {
				y = b.Select(b.Broadcast(real, y.Type.Shape, 0), y, b.Like(y, fill))
			}
			y = b.Reshape(y, in.Type.Shape...)
		}
		given[in.Name] = y
	}
	return given
}

// promptLists are the lists of the program of the others. Those come first, then the padding; tokens of decodes are of nobody, in front of them.
// Spare sequences begin behind the last token, where nothing is.
func (x *mixing) promptLists() map[string]*ir.Value {
	b, n := x.Builder, x.s.Seqs
	// from takes the entries of l from that of the first prompt on, and fill behind the last.
	from := func(count int, l *ir.Value, fill int) *ir.Value {
		size := l.Type.Shape[0]
		at := b.Add(x.Count(count), x.From(x.first, 0, count))
		at = b.Select(b.Compare(ir.LT, at, x.Plus(x.From(x.all, 0, count), size-n)), at, b.Like(at, -1))
		return x.Plus(x.Over(at, ir.EQ, x.Count(size), x.Plus(l, -fill)), fill)
	}
	return map[string]*ir.Value{
		"cu_seqlens":    from(n+2, x.bounds, x.s.Tokens),
		"state_indices": from(n+1, b.Max(b.Scale(x.names, float64(x.s.Checkpoints())), b.Like(x.names, -1)), -1),
		"read_indices":  from(n+1, x.reads, -1),
	}
}

// joined puts the outputs of decodes, [rows, tokens, ...], into the outputs of all tokens by the plan of the prompts.
func (x *mixing) joined(p *plan, decoded, o *ir.Value) *ir.Value {
	b, w := x.Builder, x.s.Mixed
	n := min(decoded.Type.Shape[0]*w, x.s.Tokens)
	own := b.Reshape(decoded, join([]int{decoded.Type.Shape[0] * w}, o.Type.Shape[1:])...)
	token := b.Iota(ir.T(ir.I32, n), 0)
	if w > 1 {
		seq := packs.Chunking{Builder: b}.NotAfter(b.SliceAxis(x.bounds, 0, 1, x.s.Seqs+1), n)
		pos := b.Sub(token, b.GatherRows(x.begin, seq, 0))
		row := b.Add(b.Scale(seq, float64(w)), pos)
		own = b.GatherRows(own, b.Select(b.Compare(ir.LT, pos, b.Like(pos, float64(w))), row, b.Like(row, -1)), 0)
	}
	if p.front() > 0 {
		head, rows := b.Pad(own, 0, make([]int, o.Type.Rank()), join([]int{x.s.Tokens - n}, make([]int, o.Type.Rank()-1))), b.Iota(ir.T(ir.I32, x.s.Tokens), 0)
		decoded := b.Compare(ir.LT, rows, b.Broadcast(b.Reshape(x.tokens), rows.Type.Shape))
		return b.Select(b.Broadcast(decoded, o.Type.Shape, 0), head, o)
	}
	head := b.SliceAxis(o, 0, 0, n)
	of := b.Compare(ir.LT, token, b.Broadcast(b.Reshape(x.tokens), token.Type.Shape))
	return b.PutRows(o, b.Select(b.Broadcast(of, head.Type.Shape, 0), own, head), b.Const(ir.T(ir.I32), 0))
}
