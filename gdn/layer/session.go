package layer

import (
	"fmt"
	"slices"

	"github.com/gomlx/gomlx/backends"
	. "github.com/gomlx/gomlx/pkg/core/graph"
	"github.com/gomlx/gomlx/pkg/core/tensors"
	"github.com/gomlx/gomlx/pkg/ml/context"

	"github.com/gdngen/gdngen/gdn/layer/device"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/array"
)

// Session runs one layer over a prompt and the tokens that follow it, a call at a time, the caches staying on the device.
type Session struct {
	cfg   Config
	exec  *context.Exec
	cache []*tensors.Tensor
}

// NewSession makes a session on the weights in the scope of ctx, which Load or a training has put there; without weights
// there it is an error. The variant is as Builder.Variant takes it.
func NewSession(b backends.Backend, ctx *context.Context, c Config, variant string) (*Session, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	empty := true
	for range ctx.IterVariablesInScope() {
		empty = false
		break
	}
	if empty {
		return nil, fmt.Errorf("layer: there are no weights in scope %q: Load puts them there, or train a layer made by New in the same scope", ctx.Scope())
	}
	s := &Session{cfg: c}
	var err error
	s.exec, err = context.NewExec(b, ctx.Reuse(), func(ctx *context.Context, in []*Node) []*Node {
		l := New(ctx, in[0]).With(c).Variant(variant)
		if len(in) == 2 || len(in) == 4 {
			l.Mask(in[1])
		}
		if n := len(in); n >= 3 {
			l.Cache(&Cache{Conv: in[n-2], State: in[n-1]})
		}
		y, k := l.DoneWithCache()
		return []*Node{y, k.Conv, k.State}
	})
	return s, err
}

// Run computes the next tokens, [batch, tokens, hidden] in float32 or bfloat16, whatever the type of the weights. The mask, [batch, tokens], may be nil. No tokens give
// none, and leave the caches as they are.
func (s *Session) Run(x, mask *array.Array) (*array.Array, error) {
	if len(x.Shape) == 3 && x.Shape[1] == 0 {
		return s.runNone(x, mask)
	}
	var args []any
	for _, a := range []*array.Array{x, mask} {
		if a == nil {
			continue
		}
		t, err := device.Tensor(a)
		if err != nil {
			return nil, err
		}
		args = append(args, t)
	}
	for _, c := range s.cache {
		args = append(args, c)
	}
	out, err := s.exec.Exec(args...)
	if err != nil {
		return nil, err
	}
	s.cache = out[1:]
	return device.Array(out[0])
}

// runNone is Run of no tokens, of which a backend makes no program.
func (s *Session) runNone(x, mask *array.Array) (*array.Array, error) {
	c, batch := s.cfg, x.Shape[0]
	if batch == 0 || x.Shape[2] != c.Hidden {
		return nil, fmt.Errorf("layer: x is %v, want [batch, tokens, %d] and at least one row", x, c.Hidden)
	}
	if mask != nil && !slices.Equal(mask.Shape, []int{batch, 0}) {
		return nil, fmt.Errorf("layer: the mask is %v, want [%d 0], one value for each token", mask, batch)
	}
	if s.cache == nil {
		for _, a := range []*array.Array{array.New(x.Type, batch, c.Channels(), c.ConvWidth), array.New(ir.F32, batch, c.HeadsV, c.KeyDim, c.ValueDim)} {
			t, err := device.Tensor(a)
			if err != nil {
				return nil, err
			}
			s.cache = append(s.cache, t)
		}
	}
	if rows := s.cache[0].Shape().Dim(0); rows != batch {
		return nil, fmt.Errorf("layer: x is %v, %d rows, but the session goes on with %d", x, batch, rows)
	}
	return array.New(x.Type, batch, 0, c.Hidden), nil
}

// Caches gives copies of the convolution's cache, [batch, channels, taps], and of the state, [batch, value heads, key width,
// value width]; an error before the first Run.
func (s *Session) Caches() (conv, state *array.Array, err error) {
	if s.cache == nil {
		return nil, nil, fmt.Errorf("layer: the session has run nothing yet")
	}
	if conv, err = device.Array(s.cache[0]); err != nil {
		return nil, nil, err
	}
	state, err = device.Array(s.cache[1])
	return conv, state, err
}

// Finalize frees the compiled programs.
func (s *Session) Finalize() { s.exec.Finalize() }
