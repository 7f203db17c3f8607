package lm

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/gdngen/gdngen/gdn/layer"
	"github.com/gdngen/gdngen/gdn/layer/device"
	"github.com/gdngen/gdngen/ir"
)

// Model is a model with its weights on a backend.
type Model struct {
	Config
	exec *model.Exec
}

// Open loads the model in a folder, and holds its weights in a type: Float32 or BFloat16. It computes in float32.
func Open(b compute.Backend, folder string, d dtypes.DType) (*Model, error) {
	c, err := ReadConfig(filepath.Join(folder, "config.json"))
	if err != nil {
		return nil, err
	}
	if d != dtypes.Float32 && d != dtypes.BFloat16 {
		return nil, fmt.Errorf("lm: weights can not be held as %s, only as Float32 or BFloat16", d)
	}
	w, err := layer.OpenWeights(folder)
	if err != nil {
		return nil, err
	}
	defer w.Close()
	store := model.NewStore()
	if err := c.load(store.RootScope(), w, d); err != nil {
		return nil, fmt.Errorf("lm: %s: %w", folder, err)
	}
	m := &Model{Config: c}
	m.exec, err = model.NewExec(b, store, func(scope *model.Scope, in []*Node) []*Node {
		g := &builder{c: c, scope: scope, begin: in[1]}
		logits, caches := g.logits(in[0], in[2:])
		return append([]*Node{logits}, caches...)
	})
	if err != nil {
		return nil, fmt.Errorf("lm: %w", err)
	}
	m.exec.SetMaxCache(-1)
	return m, nil
}

// Finalize frees the compiled programs.
func (m *Model) Finalize() { m.exec.Finalize() }

// load puts the weights of the model into a scope.
func (c Config) load(scope *model.Scope, w *layer.Weights, d dtypes.DType) error {
	prefix := ""
	for _, p := range c.Prefixes {
		if slices.Contains(w.Names(), p+"embed_tokens.weight") {
			prefix = p
		}
	}
	if prefix == "" {
		return fmt.Errorf("no tensor %s is there", strings.Join(c.Prefixes, "embed_tokens.weight or ")+"embed_tokens.weight")
	}
	e, _ := device.ElementType(d)
	var errs []error
	read := func(to *model.Scope, variable, name string, shape ...int) {
		errs = append(errs, readOne(w, e, to, variable, name, shape))
	}
	read(scope, "embed_tokens", prefix+"embed_tokens.weight", c.Vocabulary, c.Hidden)
	read(scope, "norm", prefix+"norm.weight", c.Hidden)
	if !c.Tied {
		read(scope, "lm_head", "lm_head.weight", c.Vocabulary, c.Hidden)
	}
	for i, attention := range c.Attention {
		s, at := scope.At("layer_%d", i), fmt.Sprintf("%slayers.%d.", prefix, i)
		for _, n := range []string{"input_layernorm", "post_attention_layernorm"} {
			read(s, n, at+n+".weight", c.Hidden)
		}
		read(s, "gate_proj", at+"mlp.gate_proj.weight", c.Width, c.Hidden)
		read(s, "up_proj", at+"mlp.up_proj.weight", c.Width, c.Hidden)
		read(s, "down_proj", at+"mlp.down_proj.weight", c.Hidden, c.Width)
		if !attention {
			_, err := layer.Load(s.At("gdn"), w, at+"linear_attn.", c.Layer, d)
			errs = append(errs, err)
			continue
		}
		at += "self_attn."
		read(s, "q_proj", at+"q_proj.weight", 2*c.Heads*c.HeadDim, c.Hidden)
		read(s, "k_proj", at+"k_proj.weight", c.KVHeads*c.HeadDim, c.Hidden)
		read(s, "v_proj", at+"v_proj.weight", c.KVHeads*c.HeadDim, c.Hidden)
		read(s, "o_proj", at+"o_proj.weight", c.Hidden, c.Heads*c.HeadDim)
		read(s, "q_norm", at+"q_norm.weight", c.HeadDim)
		read(s, "k_norm", at+"k_norm.weight", c.HeadDim)
	}
	return errors.Join(errs...)
}

// readOne makes a variable of a tensor.
func readOne(w *layer.Weights, e ir.DType, to *model.Scope, variable, name string, shape []int) error {
	a, err := w.Read(name)
	if err != nil {
		return err
	}
	if !slices.Equal(a.Shape, shape) {
		return fmt.Errorf("tensor %s is %v, want the shape %v", name, a, shape)
	}
	if !a.Type.IsFloat() {
		return fmt.Errorf("tensor %s is %v, want f32, bf16 or f16", name, a)
	}
	t, err := device.Tensor(a.Convert(e))
	if err == nil {
		_, err = to.CreateVariable(variable, t)
	}
	return err
}

// Session is sequences under way: what the model remembers of their tokens, on the device.
type Session struct {
	m        *Model
	caches   []*tensors.Tensor // two a layer
	capacity int               // of keys and values
	tokens   int
	logits   []float32 // of the last tokens, a row a sequence
	rows     int
}

// Session starts sequences without a token.
func (m *Model) Session() *Session { return &Session{m: m} }

// Fork gives a session that goes on from the same tokens by itself.
func (s *Session) Fork() *Session {
	other := *s
	return &other
}

// Tokens tells how many tokens each sequence has.
func (s *Session) Tokens() int { return s.tokens }

// Step takes the next tokens of each sequence, as many of each, and gives the logits of all, [sequences, tokens, vocabulary] in a row.
func (s *Session) Step(tokens [][]int32) ([]float32, error) {
	flat, err := s.flat(tokens)
	if err != nil {
		return nil, err
	}
	rows, n := len(tokens), len(tokens[0])
	if err := s.grow(rows, n); err != nil {
		return nil, err
	}
	args := []any{tensors.FromFlatDataAndDimensions(flat, rows, n), int32(s.tokens)}
	for _, c := range s.caches {
		args = append(args, c)
	}
	out, err := s.m.exec.Call(args...)
	if err != nil {
		return nil, fmt.Errorf("lm: %w", err)
	}
	logits, err := tensors.CopyFlatData[float32](out[0])
	if err != nil {
		return nil, fmt.Errorf("lm: %w", err)
	}
	s.caches, s.rows, s.tokens = out[1:], rows, s.tokens+n
	v := s.m.Vocabulary
	s.logits = nil
	for i := range rows {
		s.logits = append(s.logits, logits[((i+1)*n-1)*v:(i+1)*n*v]...)
	}
	return logits, nil
}

// flat checks the tokens of a step.
func (s *Session) flat(tokens [][]int32) (flat []int32, err error) {
	if len(tokens) == 0 || len(tokens[0]) == 0 {
		return nil, errors.New("lm: a step needs at least one token of at least one sequence")
	}
	if s.rows != 0 && len(tokens) != s.rows {
		return nil, fmt.Errorf("lm: tokens of %d sequences, the session has %d", len(tokens), s.rows)
	}
	for i, row := range tokens {
		if len(row) != len(tokens[0]) {
			return nil, fmt.Errorf("lm: %d tokens of sequence %d, %d of the first: a step takes as many of each", len(row), i, len(tokens[0]))
		}
		for _, t := range row {
			if t < 0 || int(t) >= s.m.Vocabulary {
				return nil, fmt.Errorf("lm: token %d is not in the vocabulary of %d", t, s.m.Vocabulary)
			}
		}
		flat = append(flat, row...)
	}
	return flat, nil
}

// grow makes caches for n tokens more.
func (s *Session) grow(rows, n int) error {
	c, need := s.m.Config, s.tokens+n
	capacity := max(s.capacity, 64)
	for capacity < need {
		capacity *= 2
	}
	if s.caches != nil && capacity == s.capacity {
		return nil
	}
	caches := make([]*tensors.Tensor, 2*len(c.Attention))
	for i, attention := range c.Attention {
		if !attention {
			if s.caches == nil {
				caches[2*i] = tensors.FromShape(shapes.Make(dtypes.Float32, rows, c.Layer.Channels(), c.Layer.ConvWidth))
				caches[2*i+1] = tensors.FromShape(shapes.Make(dtypes.Float32, rows, c.Layer.HeadsV, c.Layer.KeyDim, c.Layer.ValueDim))
			} else {
				caches[2*i], caches[2*i+1] = s.caches[2*i], s.caches[2*i+1]
			}
			continue
		}
		for j := 2 * i; j < 2*i+2; j++ {
			caches[j] = tensors.FromShape(shapes.Make(dtypes.Float32, rows, c.KVHeads, capacity, c.HeadDim))
			if s.caches == nil {
				continue
			}
			if err := widen(caches[j], s.caches[j], rows*c.KVHeads); err != nil {
				return fmt.Errorf("lm: %w", err)
			}
		}
	}
	s.caches, s.capacity = caches, capacity
	return nil
}

// widen copies a cache into a larger one, block by block.
func widen(to, from *tensors.Tensor, blocks int) (err error) {
	old := from.ConstBytes(func(a []byte) {
		err = to.MutableBytes(func(b []byte) {
			for i := range blocks {
				copy(b[i*len(b)/blocks:], a[i*len(a)/blocks:(i+1)*len(a)/blocks])
			}
		})
	})
	return errors.Join(old, err)
}

// Generate continues each sequence by n tokens, the likeliest each time, and takes them in.
func (s *Session) Generate(n int) ([][]int32, error) {
	if s.logits == nil {
		return nil, errors.New("lm: the session has no token yet: give a prompt to Step first")
	}
	out := make([][]int32, s.rows)
	for range n {
		next := make([][]int32, s.rows)
		for i := range next {
			next[i] = []int32{likeliest(s.logits[i*s.m.Vocabulary : (i+1)*s.m.Vocabulary])}
			out[i] = append(out[i], next[i][0])
		}
		if _, err := s.Step(next); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// likeliest is the first of the largest logits.
func likeliest(logits []float32) int32 {
	best := 0
	for i, v := range logits {
		if v > logits[best] {
			best = i
		}
	}
	return int32(best)
}
