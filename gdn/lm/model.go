package lm

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/gdngen/gdngen/gdn/layer"
)

// Model is a language model with its weights on a backend.
type Model struct {
	Config
	all, last *model.Exec // logits of all tokens of a call, or of the last only
}

// Open loads the model in a folder with weights held in type d, Float32 or BFloat16. It computes in float32.
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
	if err := c.load(b, store.RootScope(), w, d); err != nil {
		return nil, fmt.Errorf("lm: %s: %w", folder, err)
	}
	return New(b, store.RootScope(), c)
}

// New returns the model with the weights in a scope, from Open or from a graph of Logits.
func New(b compute.Backend, scope *model.Scope, c Config) (*Model, error) {
	c.Compute = dtypes.Float32
	m := &Model{Config: c}
	program := func(all bool) (*model.Exec, error) {
		exec, err := model.NewExec(b, scope.Store(), func(_ *model.Scope, in []*Node) []*Node {
			g := &builder{c: c, scope: scope, begin: in[1]}
			x, caches := g.features(in[0], in[2:])
			if !all {
				x = SliceAxis(x, 1, AxisElem(-1))
			}
			return append([]*Node{g.logits(x)}, caches...)
		})
		if err != nil {
			return nil, fmt.Errorf("lm: %w", err)
		}
		return exec.SetMaxCache(-1), nil
	}
	var err error
	if m.all, err = program(true); err == nil {
		m.last, err = program(false)
	}
	return m, err
}

// Finalize frees the compiled programs.
func (m *Model) Finalize() {
	m.all.Finalize()
	m.last.Finalize()
}

// Session is a set of sequences in progress, with their caches on the device.
type Session struct {
	m        *Model
	caches   []*tensors.Tensor // two per layer
	capacity int               // token capacity of keys and values
	tokens   int
	logits   []float32 // of the last tokens, one row per sequence
	rows     int
}

// Session returns a session of sequences without tokens.
func (m *Model) Session() *Session { return &Session{m: m} }

// Fork returns a copy that continues independently from the same tokens.
func (s *Session) Fork() *Session {
	other := *s
	return &other
}

// Tokens returns the number of tokens of each sequence.
func (s *Session) Tokens() int { return s.tokens }

// Step appends tokens to each sequence, equally many, and returns the logits of all of them, [sequences, tokens, vocabulary] flattened.
func (s *Session) Step(tokens [][]int32) ([]float32, error) { return s.step(s.m.all, tokens) }

// Take appends tokens like Step, and returns the logits of the last token only, [sequences, vocabulary] flattened.
func (s *Session) Take(tokens [][]int32) ([]float32, error) { return s.step(s.m.last, tokens) }

func (s *Session) step(exec *model.Exec, tokens [][]int32) ([]float32, error) {
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
	out, err := exec.Call(args...)
	if err != nil {
		return nil, fmt.Errorf("lm: %w", err)
	}
	logits, err := tensors.CopyFlatData[float32](out[0])
	if err != nil {
		return nil, fmt.Errorf("lm: %w", err)
	}
	s.caches, s.rows, s.tokens = out[1:], rows, s.tokens+n
	v, each := s.m.Vocabulary, len(logits)/rows
	s.logits = nil
	for i := range rows {
		s.logits = append(s.logits, logits[(i+1)*each-v:(i+1)*each]...)
	}
	return logits, nil
}

// flat checks and flattens the tokens of a step.
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

// grow makes room in the caches for n more tokens.
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
			width := c.HeadDim
			if l := c.Latent; l.Rank > 0 {
				width = []int{l.Rank, l.Whole}[j%2]
			}
			caches[j] = tensors.FromShape(shapes.Make(dtypes.Float32, rows, c.KVHeads, capacity, width))
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

// Generate appends n tokens to each sequence, the likeliest each time, and returns them.
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
		if _, err := s.Take(next); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// likeliest returns the first index of the largest logit.
func likeliest(logits []float32) int32 {
	best := 0
	for i, v := range logits {
		if v > logits[best] {
			best = i
		}
	}
	return int32(best)
}

// Draw samples a token from softmax(logits / temperature); 0 returns the likeliest.
func Draw(logits []float32, temperature float64, r *rand.Rand) int32 {
	best := likeliest(logits)
	if temperature <= 0 {
		return best
	}
	weights, sum := make([]float64, len(logits)), 0.
	for i, v := range logits {
		weights[i] = math.Exp(float64(v-logits[best]) / temperature)
		sum += weights[i]
	}
	at := r.Float64() * sum
	for i, w := range weights {
		if at -= w; at < 0 {
			return int32(i)
		}
	}
	return best
}
