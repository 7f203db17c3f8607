package build

import (
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/build/internal/packs"
	"github.com/gdngen/gdngen/gdn/build/internal/pool"
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

// mixing is what a mixed batch is cut by, all of it i32.
type mixing struct {
	*ir.Builder
	s             gdn.Spec
	args          map[string]*ir.Value
	first, tokens *ir.Value // the number of decodes, and of their tokens
	all           *ir.Value // the number of sequences
	bounds        *ir.Value // [S+1] where sequences begin and the last ends; padding entries are empty
	begin, length *ir.Value // [S]
	place         *ir.Value // [S] 0, 1 and so on
	decodes       *ir.Value // [S] bool: it is a decode, or a window, as long as it may be
	names         *ir.Value // [S] the state of a sequence, or its group of states; -1: none
}

// mixed writes the program of a mixed batch. It has the plan of the prompts, with the grids of both to schedule.
func (base Base) mixed(b *ir.Builder) (*plan, []*ir.Value, error) {
	s := base.spec
	x := &mixing{Builder: b, s: s, args: map[string]*ir.Value{}}
	for _, in := range s.Inputs() {
		x.args[in.Name] = b.Param(in.Name, in.Type)
	}
	b.Stage("glue")
	x.cut()
	rows := s.Decodes()
	first, results, err := base.part(b, rows, base.variant.Decoding().Fit(rows), x.ofDecodes(rows), b.Reshape(b.Max(x.first, b.Const(x.first.Type, 1)), 1))
	if err != nil {
		return nil, nil, err
	}
	given := x.ofPrompts()
	decoded := map[string]*ir.Value{}
	for i, out := range rows.Outputs() {
		decoded[out.Name] = results[i]
	}
	given["initial_state"] = decoded["final_state"]
	if s.ConvState {
		given["initial_conv"] = decoded["final_conv"]
	}
	p, results, err := base.part(b, s.Prompts(), base.variant, given, nil)
	if err != nil {
		return nil, nil, err
	}
	b.Stage("glue")
	results[0] = x.joined(decoded["o"], results[0])
	for _, c := range *first.carriers {
		c.Decodes = true
		*p.carriers = append(*p.carriers, c)
	}
	return p, results, b.Err()
}

// part writes the program of a part of a mixed batch; runs is how many of its batch rows there are.
func (base Base) part(b *ir.Builder, s gdn.Spec, v gdn.Variant, given map[string]*ir.Value, runs *ir.Value) (*plan, []*ir.Value, error) {
	part := baseOf(s, v)
	if s.Seqs > 0 {
		part.variant, part.ordered, part.reversed = base.variant, base.ordered, base.reversed
	}
	p := part.plan(b, s.Inputs(), given)
	p.prompts, p.runs = s.Seqs > 0, runs
	results, err := p.emit()
	if err != nil {
		return nil, nil, err
	}
	return p, p.asTaken(s.Outputs(), p.only(results, s)), nil
}

// cut finds the sequences. Those that share a state with one before them have none, as those whose name no state has,
// and as a decode of two tokens.
func (x *mixing) cut() {
	b, n := x.Builder, x.s.Seqs
	number := ir.T(ir.I32)
	entry := func(i int) *ir.Value {
		y := b.Reshape(b.SliceAxis(x.args["distribution"], 0, i, i+1))
		return b.Max(b.Min(y, b.Const(number, float64(n))), b.Const(number, 0))
	}
	all := entry(2)
	x.first, x.all = b.Min(entry(0), all), all
	cu := b.Convert(x.args["cu_seqlens"], ir.I32)
	cu = b.Max(b.Min(cu, b.Like(cu, float64(x.s.Tokens))), b.Like(cu, 0))
	until := func(last *ir.Value) (inside, end *ir.Value) { // what of cu_seqlens there is, and the largest of it
		inside = b.Compare(ir.LE, b.Iota(cu.Type, 0), b.Broadcast(last, cu.Type.Shape))
		return inside, b.Append(ir.OpReduceMax, []*ir.Value{b.Select(inside, cu, b.Like(cu, 0))}, ir.Attrs{Dims: []int{0}}, nil)[0]
	}
	inside, end := until(all)
	x.bounds = b.Select(inside, cu, b.Broadcast(end, cu.Type.Shape))
	_, x.tokens = until(x.first)
	x.begin = b.SliceAxis(x.bounds, 0, 0, n)
	x.length = b.Sub(b.SliceAxis(x.bounds, 0, 1, n+1), x.begin)
	x.place = b.Iota(ir.T(ir.I32, n), 0)
	own := pool.Of{Written: x.args["state_indices"], Group: x.s.Checkpoints(), States: x.s.Pool}
	held := b.And(own.Held(b), b.And(b.Compare(ir.LT, x.place, b.Broadcast(all, []int{n})), b.Compare(ir.GT, x.length, b.Like(x.length, 0))))
	table := ir.T(ir.I32, n, n)
	named := b.Select(held, own.Written, b.Like(own.Written, -1))
	alike := b.Compare(ir.EQ, b.Broadcast(named, table.Shape, 0), b.Broadcast(own.Written, table.Shape, 1))
	before := b.Compare(ir.LT, b.Iota(table, 0), b.Iota(table, 1)) // entry i, j: sequence i has the state of j, which comes behind it
	taken := b.Append(ir.OpReduceMax, []*ir.Value{b.Select(b.And(alike, before), b.Const(table, 1), b.Const(table, 0))}, ir.Attrs{Dims: []int{0}}, nil)[0]
	isDecode := b.Compare(ir.LT, x.place, b.Broadcast(x.first, []int{n}))
	fits := b.Compare(ir.LE, x.length, b.Like(x.length, float64(x.s.Mixed)))
	if x.s.Mixed == 1 { // rows are tokens
		fits = b.And(fits, b.Compare(ir.EQ, x.begin, x.place))
	}
	x.decodes = b.And(isDecode, fits)
	ok := b.And(held, b.Compare(ir.EQ, taken, b.Like(taken, 0)))
	ok = b.And(ok, b.Or(fits, b.Unary(ir.OpNot, isDecode)))
	x.names = b.Select(ok, own.Written, b.Like(own.Written, -1))
}

// ofDecodes are the inputs of the program of the first sequences.
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
		case in.Name == "state_indices":
			y = b.Select(x.decodes, x.names, b.Like(x.names, -1))
			y = b.SliceAxis(y, 0, 0, n)
		case in.Name == "read_indices":
			y = b.SliceAxis(y, 0, 0, n)
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

// ofPrompts are the inputs of the program of the others. Those come first, then the padding; tokens of decodes are of nobody, in front of them.
// Spare sequences begin behind the last token, where nothing is.
func (x *mixing) ofPrompts() map[string]*ir.Value {
	b, n := x.Builder, x.s.Seqs
	given := map[string]*ir.Value{}
	for _, in := range x.s.Prompts().Inputs() {
		given[in.Name] = x.args[in.Name]
	}
	// from takes the entries of l from that of the first prompt on, and fill behind the last.
	from := func(count int, l *ir.Value, fill float64) *ir.Value {
		t := ir.T(ir.I32, count, l.Type.Shape[0])
		at := b.Add(b.Iota(t, 0), b.Broadcast(x.first, t.Shape))
		hit := b.And(b.Compare(ir.EQ, b.Iota(t, 1), at), b.Compare(ir.LT, at, b.Broadcast(b.Add(x.all, b.Const(x.all.Type, float64(l.Type.Shape[0]-n))), t.Shape)))
		y := b.Sum(b.Select(hit, b.Broadcast(b.Sub(l, b.Like(l, fill)), t.Shape, 1), b.Const(t, 0)), 1)
		return b.Add(y, b.Like(y, fill))
	}
	given["cu_seqlens"] = b.Convert(from(n+2, x.bounds, float64(x.s.Tokens)), ir.I64)
	given["state_indices"] = from(n+1, b.Max(b.Scale(x.names, float64(x.s.Checkpoints())), b.Like(x.names, -1)), -1)
	given["read_indices"] = from(n+1, x.args["read_indices"], -1)
	return given
}

// joined puts the outputs of decodes, [rows, tokens, ...], into the outputs of all tokens.
func (x *mixing) joined(decoded, o *ir.Value) *ir.Value {
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
	head := b.SliceAxis(o, 0, 0, n)
	of := b.Compare(ir.LT, token, b.Broadcast(x.tokens, token.Type.Shape))
	return b.PutRows(o, b.Select(b.Broadcast(of, head.Type.Shape, 0), own, head), b.Const(ir.T(ir.I32), 0))
}
