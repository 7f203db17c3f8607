package model

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/array"
)

// Training runs training steps piece by piece: embedding, layers, loss, gradients, and AdamW on float32 weights. Values pass between pieces
// through the host. In the random text four of five tokens are the successor of the previous one, so there is something to learn.
type Training struct {
	// Args are the arguments of the last run of each module, by its hash.
	Args map[string][]*array.Array

	c        Config
	v        gdn.Variant
	run      func(m *ir.Module, args []*array.Array) ([]*array.Array, error)
	draw     *rand.Rand
	pieces   map[string][]Piece
	optimise map[string]Piece
	modules  map[string]*ir.Module
	layers   []*trained // the last one is the head
}

// trained is a layer with its weights and their moments, all as rows for the optimiser, and the values of the current step.
type trained struct {
	kind    string
	names   []string // names of weights, in the order of the rows
	types   map[string]ir.Type
	w, m, v *array.Array
	values  map[string]*array.Array
}

// ErrNoLoss reports a model without a vocabulary, which cannot be trained.
var ErrNoLoss = errors.New("model: without a vocabulary there is no loss to train by: set vocab")

// NewTraining returns a Training with random weights; run executes modules. It fails with ErrNoLoss for a model without a vocabulary.
func NewTraining(c Config, v gdn.Variant, run func(m *ir.Module, args []*array.Array) ([]*array.Array, error)) (*Training, error) {
	if c.Vocab == 0 {
		return nil, ErrNoLoss
	}
	t := &Training{Args: map[string][]*array.Array{}, c: c, v: v, run: run, draw: rand.New(rand.NewPCG(1, 2)),
		pieces: map[string][]Piece{}, optimise: map[string]Piece{}, modules: map[string]*ir.Module{}}
	core, _ := Core(c)
	for _, p := range Pieces(c) {
		if p.Build == nil {
			p = core
		}
		t.pieces[p.Kind] = append(t.pieces[p.Kind], p)
	}
	for _, p := range Optimiser(c) {
		t.optimise[p.Kind] = p
	}
	for i := range c.Layers {
		kind := "rule"
		if n := c.AttentionEvery; n > 0 && (i+1)%n == 0 || i >= c.Layers-c.AttentionLayers {
			kind = "attention"
		}
		kinds := []string{kind, "mlp"}[:1+min(1, c.MLP)]
		if i == c.Layers-1 {
			kinds = append(kinds, "model")
		}
		for _, kind := range kinds {
			l, err := t.layer(kind)
			if err != nil {
				return nil, err
			}
			t.layers = append(t.layers, l)
		}
	}
	return t, nil
}

// module returns the module of a pass of a piece.
func (t *Training) module(p Piece, backward bool) (*ir.Module, error) {
	key := fmt.Sprint(p.Kind, p.Name, backward)
	if t.modules[key] == nil {
		m, err := p.Build(t.v, backward)
		if err != nil {
			return nil, fmt.Errorf("%s, %s: %w", p.Kind, p.Name, err)
		}
		t.modules[key] = m
	}
	return t.modules[key], nil
}

// layer draws the weights of a layer: the inputs whose gradients its backward pass returns.
func (t *Training) layer(kind string) (*trained, error) {
	l := &trained{kind: kind, types: map[string]ir.Type{}}
	var rows []float32
	for _, p := range t.pieces[kind] {
		forward, err := t.module(p, false)
		if err != nil {
			return nil, err
		}
		back, err := t.module(p, true)
		if err != nil {
			return nil, err
		}
		for _, x := range forward.Params() {
			if x.Name == "x" || x.Name == "qkv" || x.Name == "o" || !slices.Contains(back.Results, "d"+x.Name) {
				continue
			}
			l.names, l.types[x.Name] = append(l.names, x.Name), x.Type
			for range x.Type.Size() {
				rows = append(rows, float32(t.first(x.Name, x.Type)))
			}
		}
	}
	rows = append(rows, make([]float32, (lanes-len(rows)%lanes)%lanes)...)
	shape := []int{len(rows) / lanes, lanes}
	l.w, l.m, l.v = array.FromFloat32s(ir.F32, shape, rows), array.New(ir.F32, shape...), array.New(ir.F32, shape...)
	return l, nil
}

// first returns the initial value of an element of a weight.
func (t *Training) first(name string, of ir.Type) float64 {
	switch {
	case name == "w_logits":
		return .02 * t.draw.NormFloat64()
	case strings.HasPrefix(name, "w_"), name == "taps":
		return t.draw.NormFloat64() / math.Sqrt(float64(of.Shape[0]))
	case name == "scale", name == "weight":
		return 1
	}
	return 0 // A_log and dt_bias
}

// unpack converts the rows of a layer's weights to its pieces' inputs.
func (l *trained) unpack() {
	l.values = map[string]*array.Array{}
	rows := l.w.Float32s()
	for _, name := range l.names {
		of := l.types[name]
		l.values[name], rows = array.FromFloat32s(of.DType, of.Shape, rows[:of.Size()]), rows[of.Size():]
	}
}

// compute runs a pass of a piece on its layer's values, and adds the results to them.
func (t *Training) compute(p Piece, backward bool, values map[string]*array.Array) error {
	m, err := t.module(p, backward)
	if err != nil {
		return err
	}
	var args []*array.Array
	for _, x := range m.Params() {
		if values[x.Name] == nil {
			return fmt.Errorf("%s, %s takes %s, which nothing made", p.Kind, p.Name, x.Name)
		}
		args = append(args, values[x.Name])
	}
	results, err := t.run(m, args)
	if err != nil {
		return fmt.Errorf("%s, %s: %w", p.Kind, p.Name, err)
	}
	t.Args[m.Hash()] = args
	for i, name := range m.Results {
		values[name] = results[i]
	}
	return nil
}

// text draws the tokens of a step and the following token of each.
func (t *Training) text() (tokens, labels []int64) {
	for range t.c.Batch {
		at := t.draw.Int64N(int64(t.c.Vocab))
		for range t.c.Tokens {
			tokens = append(tokens, at)
			if at = (at + 1) % int64(t.c.Vocab); t.draw.IntN(5) == 0 {
				at = t.draw.Int64N(int64(t.c.Vocab))
			}
			labels = append(labels, at)
		}
	}
	return tokens, labels
}

// Step trains one step on newly drawn text, and returns the mean loss before the update.
func (t *Training) Step() (loss float64, err error) {
	tokens, labels := t.text()
	for _, l := range t.layers {
		l.unpack()
	}
	head, vocab, hidden := t.layers[len(t.layers)-1], t.c.Vocab, t.c.Hidden
	table := head.values["w_logits"].Float32s() // [hidden, vocab], shared with the embedding
	x := make([]float32, len(tokens)*hidden)
	for i, token := range tokens {
		for j := range hidden {
			x[i*hidden+j] = table[j*vocab+int(token)]
		}
	}
	out := array.FromFloat32s(ir.BF16, []int{len(tokens), hidden}, x)
	head.values["labels"] = array.FromInt64s(ir.I32, []int{len(labels)}, labels)
	for _, l := range t.layers {
		l.values["x"] = out
		for _, p := range t.pieces[l.kind] {
			if err := t.compute(p, false, l.values); err != nil {
				return 0, err
			}
		}
		out = l.values["out"]
	}
	loss = head.values["loss"].Float64s()[0]
	for _, l := range slices.Backward(t.layers) {
		l.values["dout"] = out
		for _, p := range slices.Backward(t.pieces[l.kind]) {
			if err := t.compute(p, true, l.values); err != nil {
				return 0, err
			}
		}
		out = l.values["dx"]
	}
	d := head.values["dw_logits"].Float32s()
	for i, x := range out.Float32s() {
		d[i%hidden*vocab+int(tokens[i/hidden])] += x
	}
	head.values["dw_logits"] = array.FromFloat32s(ir.F32, head.values["dw_logits"].Shape, d)
	for _, l := range t.layers {
		if err := t.update(l); err != nil {
			return 0, err
		}
	}
	return loss, nil
}

// update runs the optimiser on the weights of a layer.
func (t *Training) update(l *trained) error {
	var rows []float32
	for _, name := range l.names {
		rows = append(rows, l.values["d"+name].Float32s()...)
	}
	rows = append(rows, make([]float32, l.w.Size()-len(rows))...)
	values := map[string]*array.Array{"w": l.w, "m": l.m, "v": l.v, "dw": array.FromFloat32s(ir.F32, l.w.Shape, rows)}
	if err := t.compute(t.optimise[l.kind], false, values); err != nil {
		return err
	}
	l.w, l.m, l.v = values["w_next"], values["m_next"], values["v_next"]
	return nil
}
