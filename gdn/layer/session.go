package layer

import (
	"fmt"
	"maps"
	"slices"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/gdngen/gdngen/gdn/layer/device"
	"github.com/gdngen/gdngen/ir/array"
)

// Session runs one layer over a prompt and later tokens, one call at a time; the caches stay on the device.
type Session struct {
	cfg   Config
	exec  *model.Exec
	cache []*tensors.Tensor
}

// NewSession returns a session on the weights in scope, from Load or a training; without weights it fails.
// variant is as for Builder.Variant.
func NewSession(b compute.Backend, scope *model.Scope, c Config, variant string) (*Session, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	wanted := slices.Sorted(maps.Keys(c.variableShapes()))
	missing := slices.DeleteFunc(slices.Clone(wanted), func(name string) bool { return scope.GetVariable(name) != nil })
	if len(missing) == len(wanted) {
		return nil, fmt.Errorf("layer: there are no weights in scope %q: Load puts them there, or train a layer made by New in the same scope", scope.Scope())
	}
	if len(missing) > 0 {
		return nil, fmt.Errorf("layer: scope %q has weights, but none of the names %v that this configuration needs", scope.Scope(), missing)
	}
	s := &Session{cfg: c}
	var err error
	s.exec, err = model.NewExec(b, scope.Store(), func(_ *model.Scope, in []*Node) []*Node {
		l := New(scope, in[0]).With(c).Variant(variant)
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

// Step computes the next tokens, [batch, tokens, hidden] in float32 or bfloat16 independent of the weights' type, and returns the output of the
// same shape; both stay in GoMLX's memory. The mask [batch, tokens] may be nil. Zero tokens return zero tokens and keep the caches.
func (s *Session) Step(x, mask *tensors.Tensor) (*tensors.Tensor, error) {
	if x.Rank() == 3 && x.Shape().Dim(1) == 0 {
		return s.none(x, mask)
	}
	args := []any{x}
	if mask != nil {
		args = append(args, mask)
	}
	for _, c := range s.cache {
		args = append(args, c)
	}
	out, err := s.exec.Call(args...)
	if err != nil {
		return nil, err
	}
	s.cache = out[1:]
	return out[0], nil
}

// none is Step for zero tokens, for which no backend makes a program.
func (s *Session) none(x, mask *tensors.Tensor) (*tensors.Tensor, error) {
	c, batch := s.cfg, x.Shape().Dim(0)
	if batch == 0 || x.Shape().Dim(2) != c.Hidden {
		return nil, fmt.Errorf("layer: x is %s, want [batch, tokens, %d] and at least one row", x.Shape(), c.Hidden)
	}
	if mask != nil && !slices.Equal(mask.Shape().Dimensions, []int{batch, 0}) {
		return nil, fmt.Errorf("layer: the mask is %s, want [%d, 0], one value for each token", mask.Shape(), batch)
	}
	if s.cache == nil {
		s.cache = []*tensors.Tensor{tensors.FromShape(shapes.Make(x.DType(), batch, c.Channels(), c.ConvWidth)),
			tensors.FromShape(shapes.Make(dtypes.Float32, batch, c.HeadsV, c.KeyDim, c.ValueDim))}
	}
	if rows := s.cache[0].Shape().Dim(0); rows != batch {
		return nil, fmt.Errorf("layer: x is %s, %d rows, but the session goes on with %d", x.Shape(), batch, rows)
	}
	return tensors.FromShape(x.Shape()), nil
}

// Run is Step for arrays.
func (s *Session) Run(x, mask *array.Array) (*array.Array, error) {
	in, err := device.Tensor(x)
	if err != nil {
		return nil, err
	}
	var masks *tensors.Tensor
	if mask != nil {
		if masks, err = device.Tensor(mask); err != nil {
			return nil, err
		}
	}
	y, err := s.Step(in, masks)
	if err != nil {
		return nil, err
	}
	return device.Array(y)
}

// Caches returns copies of the convolution's cache, [batch, channels, taps], and of the state, [batch, value heads, key width,
// value width]. It fails before the first step.
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
