package layer

import (
	"fmt"
	"math"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/ml/model/initializer"

	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/layer/device"
	"github.com/gdngen/gdngen/gdn/layer/irgraph"
)

// Names of the variables of a layer, in its scope. Matrices are [in, out].
const (
	VarQKV    = "qkv"     // [hidden, queries | keys | values]
	VarZ      = "z"       // [hidden, values]: the output gate
	VarZDown  = "z_down"  // [hidden, rank], where z is [rank, values]
	VarB      = "b"       // [hidden, value heads]: beta before its sigmoid
	VarA      = "a"       // [hidden, value heads]: the raw decay before softplus; with rule kda [hidden, value heads * key width]
	VarADown  = "a_down"  // [hidden, rank], where a is [rank, value heads * key width]
	VarConv   = "conv"    // [channels, taps], the last tap for the current token
	VarALog   = "A_log"   // [value heads], f32
	VarDtBias = "dt_bias" // [value heads], f32; with rule kda [value heads, key width]
	VarNorm   = "norm"    // [value width]
	VarOut    = "out"     // [values, hidden]
)

// Mixer computes the rule, from inputs named as in s.Inputs to results named as in s.Outputs.
type Mixer func(s gdn.Spec, inputs map[string]*Node) map[string]*Node

// Builder configures a layer. Its methods return it for chaining; Done or DoneWithCache builds the graph.
type Builder struct {
	scope     *model.Scope
	x         *Node
	cfg       Config
	gain      float64
	variant   string
	mask      *Node
	cuSeqlens *Node
	cache     *Cache
	mixer     Mixer
	made      dtypes.DType // of weights
}

// Cache is the state of a layer after the tokens so far.
type Cache struct {
	Conv  *Node // [sequences, channels, taps]: the last inputs of the convolution, the oldest first, zeros before the first token
	State *Node // [sequences, value heads, key width, value width], f32
}

// New starts a layer of Gated DeltaNet, or of Kimi Delta Attention, on x, [batch, tokens, features] of float32 or bfloat16. Sizes come from the
// hyperparameters (ParamHeadsK, ...) until a method sets them. Variables in scope are
// reused, missing ones are created.
func New(scope *model.Scope, x *Node) *Builder {
	if x.Rank() != 3 {
		panic(fmt.Errorf("layer: x is %s, want [batch, tokens, features]", x.Shape()))
	}
	if d := x.DType(); d != dtypes.Float32 && d != dtypes.BFloat16 {
		panic(fmt.Errorf("layer: x is %s, want Float32 or BFloat16, whatever the type of the weights", x.Shape()))
	}
	return &Builder{scope: scope, x: x, made: x.DType(), cfg: configOf(scope, x.Shape().Dim(-1)),
		gain:    model.GetParamOr(scope, ParamInitGain, math.Pow(2, -2.5)),
		variant: model.GetParamOr(scope, ParamVariant, "")}
}

// Config returns the current sizes and options, for Save, Load and NewSession of the same layer.
func (b *Builder) Config() Config { return b.cfg }

// With sets all sizes and options at once, for example from ReadConfig.
func (b *Builder) With(c Config) *Builder {
	b.cfg = c
	return b
}

// Heads sets the numbers of query and key heads and of value heads; value must be a multiple of key.
func (b *Builder) Heads(key, value int) *Builder {
	b.cfg.HeadsK, b.cfg.HeadsV = key, value
	return b
}

// HeadDims sets the width of a query or key, and of a value.
func (b *Builder) HeadDims(key, value int) *Builder {
	b.cfg.KeyDim, b.cfg.ValueDim = key, value
	return b
}

// ConvWidth sets the number of taps of the short convolution.
func (b *Builder) ConvWidth(taps int) *Builder {
	b.cfg.ConvWidth = taps
	return b
}

// NegativeEigenvalues sets whether beta is in (0,2) instead of (0,1).
func (b *Builder) NegativeEigenvalues(allow bool) *Builder {
	b.cfg.NegEigval = allow
	return b
}

// KDA selects Kimi Delta Attention (Kimi Linear, https://arxiv.org/abs/2510.26692). Each key channel has its own decay, and the output gate is
// a sigmoid. rank is the rank of the projections of decay and output gate; 0 means full. A bound below 0, such as -5, is the
// lowest log decay of a token: bound sigmoid(exp(A_log) (a + dt_bias)) instead of -exp(A_log) softplus(a + dt_bias).
func (b *Builder) KDA(rank int, bound float64) *Builder {
	b.cfg.Rule, b.cfg.Bound, b.cfg.DecayRank, b.cfg.GateRank = kda, bound, rank, rank
	return b
}

// InitGain sets the gain of the Xavier-uniform initialisation of the projections.
func (b *Builder) InitGain(gain float64) *Builder {
	b.gain = gain
	return b
}

// WeightType sets the type of new weights; default is the type of x. Use Float32 to train in bfloat16 with float32 weights.
func (b *Builder) WeightType(d dtypes.DType) *Builder {
	b.made = d
	return b
}

// Mask marks the real tokens: [batch, tokens] of any type, zero for padding. A padded token changes no state, and
// padding may be on either side.
func (b *Builder) Mask(mask *Node) *Builder {
	b.mask = mask
	return b
}

// CuSeqlens packs sequences along the tokens of a batch of 1: int64 [sequences+1], sequence n owns tokens cu[n] to
// cu[n+1]-1. Neither the convolution nor the state passes from one to another.
func (b *Builder) CuSeqlens(cu *Node) *Builder {
	b.cuSeqlens = cu
	return b
}

// Cache continues after the tokens that c covers.
func (b *Builder) Cache(c *Cache) *Builder {
	b.cache = c
	return b
}

// Variant sets the variant: a text of gdn.ParseVariant, or an auto text for the best known on the backend. An empty text means
// auto. In training, auto selects the best for a step with its gradient.
func (b *Builder) Variant(text string) *Builder {
	b.variant = text
	return b
}

// Accuracy selects the best known variant of an accuracy class. On a CPU all variants compute in float32.
func (b *Builder) Accuracy(a gdn.Accuracy) *Builder { return b.Variant(a.Text()) }

// Mixer replaces the computation of the rule.
func (b *Builder) Mixer(f Mixer) *Builder {
	b.mixer = f
	return b
}

// Done returns the output, of the shape and type of x. It panics with an error for invalid sizes, options or inputs.
func (b *Builder) Done() *Node {
	y, _ := b.build(false)
	return y
}

// DoneWithCache is Done, and also returns the cache for later tokens.
func (b *Builder) DoneWithCache() (*Node, *Cache) { return b.build(true) }

func (b *Builder) build(remember bool) (*Node, *Cache) {
	if err := b.check(); err != nil {
		panic(err)
	}
	c, x := b.cfg, b.x
	batch, tokens := x.Shape().Dim(0), x.Shape().Dim(1)
	if b.mask != nil {
		x = whereReal(b.realTokens(), x)
	}
	// The order of drawing weights is fixed: another order would change the training for a seed.
	qkvFirst := b.matrix(VarQKV, c.Hidden, c.Channels())
	zFirst, zSecond := b.throughRank(VarZDown, VarZ, c.GateRank, c.ValueWidth())
	betaFirst := b.matrix(VarB, c.Hidden, c.HeadsV)
	aFirst, aSecond := b.throughRank(VarADown, VarA, c.DecayRank, c.DecayWidth())
	p := project(x, qkvFirst, zFirst, betaFirst, aFirst)
	qkv, z := p[0], zSecond(p[1])
	mixed, conv := b.convolve(qkv, remember)

	s := gdn.NewSpec(batch, tokens, c.HeadsK, c.HeadsV, c.KeyDim, c.ValueDim)
	s.Rule, s.Bound = c.Rule, c.Bound
	s.DType, _ = device.ElementType(x.DType()) // o stays float32 until after the norm
	s.Gates, s.L2Norm, s.NegEigval = gdn.GatesFused, true, c.NegEigval
	s.Init, s.Final = b.cache != nil, remember
	part := func(from, heads, dim int) *Node {
		return Reshape(SliceAxis(mixed, -1, AxisRange(from, from+heads*dim)), batch, tokens, heads, dim)
	}
	in := map[string]*Node{
		"q": part(0, c.HeadsK, c.KeyDim), "k": part(c.KeyWidth(), c.HeadsK, c.KeyDim), "v": part(2*c.KeyWidth(), c.HeadsV, c.ValueDim),
		"a": Reshape(b.rawGate(aSecond(p[3]), s.ClosedDecay()), append([]int{batch, tokens}, c.decayShape()...)...), "b": b.rawGate(p[2], gdn.ClosedGate),
		"A_log": b.vector(VarALog, logUniform(b.scope, 16), c.HeadsV), "dt_bias": b.vector(VarDtBias, timeSteps(b.scope, .001, .1), c.decayShape()...),
	}
	if b.cache != nil {
		in["initial_state"] = b.cache.State
	}
	if b.cuSeqlens != nil {
		s.Seqs = b.cuSeqlens.Shape().Dim(0) - 1
		in["cu_seqlens"] = ConvertDType(b.cuSeqlens, dtypes.Int64)
	}
	out := b.mix(s, in)

	o := ConvertDType(out["o"], dtypes.Float32)
	o = Div(o, Sqrt(AddScalar(ReduceAndKeep(Square(o), ReduceMean, -1), c.NormEps)))
	norm := ConvertDType(b.variable(VarNorm, b.made, initializer.One, c.ValueDim), dtypes.Float32)
	gate := ConvertDType(Reshape(z, o.Shape().Dimensions...), dtypes.Float32)
	o = Mul(Mul(o, Reshape(norm, 1, 1, 1, c.ValueDim)), c.outputGate()(gate))
	y := project(Narrow(Reshape(o, batch, tokens, c.ValueWidth()), x.DType()), b.matrix(VarOut, c.ValueWidth(), c.Hidden))[0]
	if !remember {
		return y, nil
	}
	return y, &Cache{Conv: conv, State: out["final_state"]}
}

// rawGate returns a raw gate of the tokens, [batch, tokens, n] in float32, with the value closed at padding.
func (b *Builder) rawGate(x *Node, closed float64) *Node {
	x = ConvertDType(x, dtypes.Float32)
	if b.mask == nil {
		return x
	}
	return Where(overAxes(b.realTokens(), x), x, FillScalar(x.Graph(), x.Shape(), closed))
}

// realTokens returns the mask as bools.
func (b *Builder) realTokens() *Node { return asBools(b.mask) }

// mix computes the rule.
func (b *Builder) mix(s gdn.Spec, in map[string]*Node) map[string]*Node {
	if b.mixer != nil {
		return b.mixer(s, in)
	}
	return applyText(s, b.variant, b.scope.Store().IsTraining(b.x.Graph()), in)
}

func (b *Builder) check() error {
	c, x := b.cfg, b.x
	if err := c.Check(); err != nil {
		return err
	}
	batch, tokens := x.Shape().Dim(0), x.Shape().Dim(1)
	if h := x.Shape().Dim(-1); h != c.Hidden {
		return fmt.Errorf("layer: x is %s, want [batch, tokens, %d]: the hidden size is %d", x.Shape(), c.Hidden, c.Hidden)
	}
	if m := b.mask; m != nil && (m.Rank() != 2 || m.Shape().Dim(0) != batch || m.Shape().Dim(1) != tokens) {
		return fmt.Errorf("layer: the mask is %s, want [%d, %d], one value for each token", m.Shape(), batch, tokens)
	}
	seqs := batch
	if cu := b.cuSeqlens; cu != nil {
		switch {
		case cu.Rank() != 1 || cu.Shape().Dim(0) < 2 || !cu.DType().IsInt():
			return fmt.Errorf("layer: cu_seqlens is %s, want integers [sequences+1]", cu.Shape())
		case batch != 1:
			return fmt.Errorf("layer: cu_seqlens packs sequences along the tokens of one batch row, but x is %s: reshape it to [1, %d, %d]", x.Shape(), batch*tokens, c.Hidden)
		case b.mask != nil:
			return fmt.Errorf("layer: a mask and cu_seqlens exclude each other")
		}
		seqs = cu.Shape().Dim(0) - 1
	}
	if k := b.cache; k != nil {
		conv, state := shapes.Make(x.DType(), seqs, c.Channels(), c.ConvWidth), shapes.Make(dtypes.Float32, seqs, c.HeadsV, c.KeyDim, c.ValueDim)
		if k.Conv == nil || !k.Conv.Shape().Equal(conv) {
			return fmt.Errorf("layer: the cache of the convolution is %s, want %s", shapeOf(k.Conv), conv)
		}
		if k.State == nil || !k.State.Shape().Equal(state) {
			return fmt.Errorf("layer: the state of the cache is %s, want %s", shapeOf(k.State), state)
		}
	}
	return nil
}

func shapeOf(n *Node) string {
	if n == nil {
		return "missing"
	}
	return n.Shape().String()
}

// EmptyCache returns the cache before the first token, all zeros.
func (c Config) EmptyCache(g *Graph, d dtypes.DType, sequences int) *Cache {
	return &Cache{Conv: Zeros(g, shapes.Make(d, sequences, c.Channels(), c.ConvWidth)),
		State: Zeros(g, shapes.Make(dtypes.Float32, sequences, c.HeadsV, c.KeyDim, c.ValueDim))}
}

// variable creates or finds a variable and returns its value in the type of x.
func (b *Builder) variable(name string, d dtypes.DType, init model.VariableInitializer, dims ...int) *Node {
	if v := b.scope.GetVariable(name); v != nil {
		if want := shapes.Make(v.DType(), dims...); !v.Shape().Equal(want) {
			panic(fmt.Errorf("layer: variable %s in scope %s is %s, want %s", name, b.scope.Scope(), v.Shape(), want))
		}
		return v.NodeValue(b.x.Graph())
	}
	return b.scope.WithInitializer(init).VariableWithShape(name, shapes.Make(d, dims...)).NodeValue(b.x.Graph())
}

func (b *Builder) matrix(name string, in, out int) *Node {
	limit := b.gain * math.Sqrt(6/float64(in+out))
	return b.asInput(b.variable(name, b.made, uniform(b.scope, -limit, limit), in, out))
}

// asInput converts a variable to the type of x, unless x is float32: see product.
func (b *Builder) asInput(v *Node) *Node {
	if v.DType() == b.x.DType() || b.x.DType() == dtypes.Float32 {
		return v
	}
	return Narrow(ConvertDType(v, dtypes.Float32), b.x.DType())
}

// throughRank projects the input to a width, in two steps if there is a rank. It returns the matrix of the first step, and a function for the
// rest.
func (b *Builder) throughRank(down, name string, rank, out int) (first *Node, second func(*Node) *Node) {
	if rank == 0 {
		return b.matrix(name, b.cfg.Hidden, out), func(x *Node) *Node { return x }
	}
	return b.matrix(down, b.cfg.Hidden, rank), func(x *Node) *Node { return project(x, b.matrix(name, rank, out))[0] }
}

func (b *Builder) vector(name string, init model.VariableInitializer, dims ...int) *Node {
	return ConvertDType(b.variable(name, dtypes.Float32, init, dims...), dtypes.Float32)
}

func uniform(scope *model.Scope, lo, hi float64) model.VariableInitializer {
	return initializer.RandomUniformFn(scope, lo, hi)
}

// logUniform draws log(u) with u from U(0, most).
func logUniform(scope *model.Scope, most float64) model.VariableInitializer {
	return func(g *Graph, s shapes.Shape) *Node {
		return Log(MaxScalar(uniform(scope, 0, most)(g, s), 1e-4))
	}
}

// timeSteps draws dt log-uniformly from lo to hi and returns the bias whose softplus is dt.
func timeSteps(scope *model.Scope, lo, hi float64) model.VariableInitializer {
	return func(g *Graph, s shapes.Shape) *Node {
		dt := MaxScalar(Exp(uniform(scope, math.Log(lo), math.Log(hi))(g, s)), 1e-4)
		return Add(dt, Log(Neg(Expm1(Neg(dt)))))
	}
}

// silu is x sigmoid(x).
func silu(x *Node) *Node { return Mul(x, Sigmoid(x)) }

// project multiplies the features of x [batch, tokens, in] by each of the matrices [in, out]. The gradient is two products per
// matrix; the gradients of x are summed in float32.
func project(x *Node, matrices ...*Node) []*Node {
	batch, tokens, in := x.Shape().Dim(0), x.Shape().Dim(1), x.Shape().Dim(2)
	var flat *Node
	var ws []*Node
	return withGradient(append([]*Node{x}, matrices...), func(a []*Node) (out []*Node) {
		flat, ws = Reshape(a[0], batch*tokens, in), a[1:]
		for _, w := range ws {
			out = append(out, Reshape(rounded(product(flat, 1, w, 0), x.DType()), batch, tokens, w.Shape().Dim(1)))
		}
		return out
	}, func(adjoints []*Node) []*Node {
		grads := make([]*Node, 1, 1+len(ws))
		for i, w := range ws {
			d := Reshape(adjoints[i], batch*tokens, w.Shape().Dim(1))
			dx := ConvertDType(product(d, 1, w, 1), dtypes.Float32)
			if grads[0] != nil {
				dx = Add(grads[0], dx)
			}
			grads[0] = dx
			grads = append(grads, rounded(product(flat, 0, d, 0), w.DType()))
		}
		grads[0] = Reshape(rounded(grads[0], x.DType()), batch, tokens, in)
		return grads
	})
}

// product contracts axis i of x with axis j of y. The result may be float32 instead of their type. For a few rows of float32 and a matrix of another
// type it multiplies and sums in one loop, which XLA fuses; a product would first copy the matrix.
func product(x *Node, i int, y *Node, j int) *Node {
	truncates := irgraph.Truncates(x.Graph().Backend())
	if x.DType() != y.DType() && !truncates && i == 1 && j == 0 && x.Shape().Dim(0) <= 4 {
		dims := []int{x.Shape().Dim(0), x.Shape().Dim(1), y.Shape().Dim(1)}
		wide := BroadcastToDims(ConvertDType(InsertAxes(y, 0), dtypes.Float32), dims...)
		return ReduceSum(Mul(BroadcastToDims(InsertAxes(x, 2), dims...), wide), 1)
	}
	if truncates || x.DType() != y.DType() {
		x, y = ConvertDType(x, dtypes.Float32), ConvertDType(y, dtypes.Float32)
	}
	return DotGeneral(x, []int{i}, nil, y, []int{j}, nil)
}

// rounded converts to the type d, to nearest; it has no gradient.
func rounded(x *Node, d dtypes.DType) *Node {
	e, _ := device.ElementType(d)
	return irgraph.Convert(x, e)
}

// Narrow converts float32 to type d, to nearest on every backend. Its gradient passes the adjoint as float32.
func Narrow(x *Node, d dtypes.DType) *Node {
	if d == dtypes.Float32 {
		return x
	}
	return withGradient([]*Node{x}, func(a []*Node) []*Node { return []*Node{rounded(a[0], d)} },
		func(adjoints []*Node) []*Node { return []*Node{ConvertDType(adjoints[0], dtypes.Float32)} })[0]
}
