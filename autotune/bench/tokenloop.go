package bench

import (
	"fmt"

	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/ir"
)

// TokenLoop returns the program that speed-ups are relative to: it follows the reference of a definition, one token after another with all heads of a
// token at once, for the same runtime. Gates are computed for all tokens before the loop. Other rules than the gated delta rule, and a convolution, are
// errors.
func TokenLoop(s gdn.Spec) (*ir.Module, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	if s.Rule != (gdn.Rule{}) {
		return nil, fmt.Errorf("token loop of %s: it is written for the gated delta rule: leave out rule=%s", s, s.Rule)
	}
	if s.Conv > 0 {
		return nil, fmt.Errorf("token loop of %s: it takes q, k and v behind the convolution: leave out conv", s)
	}
	if s.Rows == gdn.RowsQKV {
		return nil, fmt.Errorf("token loop of %s: it takes q, k and v apart: set rows=flat", s)
	}
	if s.Pool > 0 {
		return nil, fmt.Errorf("token loop of %s: a pool of states has none", s)
	}
	m, b := ir.NewModule("token_loop")
	args := map[string]*ir.Value{}
	for _, p := range s.Inputs() {
		args[p.Name] = b.Param(p.Name, p.Type)
	}
	b.Stage("gates")
	tokens := s.Batch * s.Tokens
	flat := func(name string, dims ...int) *ir.Value {
		return b.Convert(b.Reshape(args[name], append([]int{tokens}, dims...)...), ir.F32)
	}
	q, k, v := flat("q", s.HeadsK, s.K), flat("k", s.HeadsK, s.K), flat("v", s.HeadsV, s.V)
	if s.L2Norm {
		q, k = normalise(b, q), normalise(b, k)
	}
	decay, beta := gates(b, s, args, flat)

	b.Stage("loop")
	n := s.Sequences()
	owner, length := owners(b, s, args["cu_seqlens"])
	state := []int{s.HeadsV, s.K, s.V}
	if s.State == gdn.StateVK {
		state = []int{s.HeadsV, s.V, s.K}
	}
	states := b.Const(ir.T(ir.F32, append([]int{n}, state...)...), 0)
	if s.Init {
		states = b.Convert(args["initial_state"], ir.F32)
	}
	o := b.Const(ir.T(ir.F32, tokens, s.HeadsV, s.V), 0)
	carried := b.Loop(tokens, []*ir.Value{states, o}, func(b *ir.Builder, t *ir.Value, carried []*ir.Value) []*ir.Value {
		row := func(x, at *ir.Value) *ir.Value { return b.Reshape(b.RowsAt(x, at, 1), x.Type.Shape[1:]...) }
		put := func(x, y, at *ir.Value) *ir.Value {
			return b.PutRows(x, b.Reshape(y, append([]int{1}, y.Type.Shape...)...), at)
		}
		perHead := func(x *ir.Value) *ir.Value { // [Hk, K] to [Hv, K]
			x = b.Broadcast(x, []int{s.HeadsK, s.Groups(), s.K}, 0, 2)
			return b.Reshape(x, s.HeadsV, s.K)
		}
		seq := row(owner, t)
		qt, kt, vt := perHead(row(q, t)), perHead(row(k, t)), row(v, t)
		along := func(x *ir.Value, axis int) *ir.Value { return b.Broadcast(x, state, 0, axis) }
		kAxis, vAxis := 1, 2
		if s.State == gdn.StateVK {
			kAxis, vAxis = 2, 1
		}
		read := func(x, state *ir.Value) *ir.Value { // [Hv, K] times the state: [Hv, V]
			return b.Dot(x, state, ir.DotDims{LB: []int{0}, RB: []int{0}, LC: []int{1}, RC: []int{kAxis}}, ir.PrecF32)
		}
		st := b.Mul(row(carried[0], seq), b.Broadcast(row(decay, t), state, 0))
		u := b.Mul(b.Broadcast(row(beta, t), vt.Type.Shape, 0), b.Sub(vt, read(kt, st)))
		st = b.Add(st, b.Mul(along(kt, kAxis), along(u, vAxis)))
		return []*ir.Value{put(carried[0], st, seq), put(carried[1], b.Scale(read(qt, st), s.EffectiveScale()), t)}
	})

	b.Stage("out")
	outputs := s.Outputs()
	results := []*ir.Value{b.Convert(b.Reshape(carried[1], outputs[0].Type.Shape...), s.Out)}
	names := []string{outputs[0].Name}
	if s.Final {
		final := carried[0]
		if s.Empty == gdn.EmptyZero {
			used := b.Compare(ir.GT, length, b.Like(length, 0))
			final = b.Select(b.Broadcast(used, final.Type.Shape, 0), final, b.Like(final, 0))
		}
		results, names = append(results, b.Convert(final, s.StateDType)), append(names, outputs[1].Name)
	}
	if s.InPlace {
		m.Reuse = []ir.Reuse{{Result: "final_state", Param: "initial_state"}}
	}
	if err := b.Finish(m, names, results); err != nil {
		return nil, fmt.Errorf("token loop of %s: %w", s, err)
	}
	return m, nil
}

// gates returns decay and beta, [tokens, Hv].
func gates(b *ir.Builder, s gdn.Spec, args map[string]*ir.Value, flat func(string, ...int) *ir.Value) (decay, beta *ir.Value) {
	if s.Gates == gdn.GatesGiven {
		return b.Exp(flat("g", s.HeadsV)), flat("beta", s.HeadsV)
	}
	a := flat("a", s.HeadsV)
	head := func(name string) *ir.Value { return b.Broadcast(args[name], a.Type.Shape, 1) }
	x := b.Add(a, head("dt_bias"))
	// softplus(x) = max(x, 0) + log1p(exp(-|x|)), which does not overflow
	zero := b.Like(x, 0)
	soft := b.Add(b.Max(x, zero), b.Unary(ir.OpLog1p, b.Exp(b.Neg(b.Unary(ir.OpAbs, x)))))
	decay = b.Exp(b.Neg(b.Mul(b.Exp(head("A_log")), soft)))
	beta = b.Unary(ir.OpLogistic, flat("b", s.HeadsV))
	if s.NegEigval {
		beta = b.Scale(beta, 2)
	}
	return decay, beta
}

// normalise scales the rows of [tokens, heads, K] to length 1.
func normalise(b *ir.Builder, x *ir.Value) *ir.Value {
	sum := b.Sum(b.Mul(x, x), 2)
	r := b.Unary(ir.OpRsqrt, b.Add(sum, b.Like(sum, 1e-6)))
	return b.Mul(x, b.Broadcast(r, x.Type.Shape, 0, 1))
}

// owners returns the sequence of each token, [tokens] i32, and for packed sequences their lengths.
func owners(b *ir.Builder, s gdn.Spec, cu *ir.Value) (owner, length *ir.Value) {
	tokens := s.Batch * s.Tokens
	t := b.Iota(ir.T(ir.I32, tokens), 0)
	if s.Seqs == 0 {
		return b.Div(t, b.Like(t, float64(s.Tokens))), nil
	}
	cu = b.Convert(cu, ir.I32)
	begin, end := b.SliceAxis(cu, 0, 0, s.Seqs), b.SliceAxis(cu, 0, 1, s.Seqs+1)
	shape := []int{tokens, s.Seqs}
	ended := b.Compare(ir.LE, b.Broadcast(end, shape, 1), b.Broadcast(t, shape, 0))
	ones := b.Const(ir.T(ir.I32, shape...), 1)
	return b.Sum(b.Select(ended, ones, b.Like(ones, 0)), 1), b.Sub(end, begin)
}
