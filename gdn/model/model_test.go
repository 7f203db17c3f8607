package model

import (
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/codegen/pass"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/array"
	"github.com/gdngen/gdngen/ir/interp"
)

var tiny = Config{Name: "tiny", Hidden: 6, Layers: 4, AttentionEvery: 4, MLP: 5, Vocab: 7, Batch: 2, Tokens: 5,
	Rule: Rule{HeadsK: 1, HeadsV: 2, K: 4, V: 3, Conv: 3}, Attention: Attention{Heads: 2, HeadsKV: 1, Dim: 4}}

// tinyKDA has a decay a channel, projected through a rank as its output gate is.
var tinyKDA = Config{Name: "tiny-kda", Hidden: 6, Layers: 4, AttentionEvery: 4, MLP: 5, Vocab: 7, Batch: 2, Tokens: 5,
	Rule: Rule{Name: "kda", HeadsK: 2, HeadsV: 2, K: 4, V: 3, Conv: 3, Bound: -5, DecayRank: 2, GateRank: 3, SigmoidGate: true}, Attention: Attention{Heads: 2, HeadsKV: 1, Dim: 4}}

// rules are the programs of parts, with the parameter whose gradient a result of the backward pass is.
var rules = map[string]func(p *program, backward bool){
	"project":     func(p *program, backward bool) { p.project("x", "y", 4, 6, 5, backward) },
	"project in":  func(p *program, backward bool) { p.projectIn(tiny, backward) },
	"up and gate": func(p *program, backward bool) { p.upAndGate(4, 6, 5, backward) },
	"norm":        func(p *program, backward bool) { p.norm(4, 6, backward, "") },
	"convolution": func(p *program, backward bool) { p.convolution(tiny, backward) },
	"gated norm":  func(p *program, backward bool) { p.gatedNorm(tiny, backward) },

	"project in, channels": func(p *program, backward bool) { p.projectIn(tinyKDA, backward) },
	"project in, at once": func(p *program, backward bool) {
		c := tinyKDA
		c.Rule.DecayRank, c.Rule.GateRank = 0, 0
		p.projectIn(c, backward)
	},
	"gated norm, sigmoid": func(p *program, backward bool) { p.gatedNorm(tinyKDA, backward) },
	"swiglu":              func(p *program, backward bool) { p.swiglu(4, 5, backward) },
	"loss":                func(p *program, _ bool) { p.loss(4, 7, leastMemory) },
	"attention":           func(p *program, backward bool) { p.attention(tiny, backward) },
	"attention, gate": func(p *program, backward bool) {
		c := tiny
		c.Attention.Gate = true
		p.attention(c, backward)
	},
}

func modules(t *testing.T, rule func(*program, bool), backward bool) *ir.Module {
	m, b := ir.NewModule("part")
	p := &program{Builder: b, wide: ir.F64, narrow: ir.F64}
	rule(p, backward)
	require.NoError(t, b.Finish(m, p.names, p.results))
	return m
}

func random(r *rand.Rand, t ir.Type, scale float64) *array.Array {
	n := 1
	for _, d := range t.Shape {
		n *= d
	}
	v := make([]float64, n)
	for i := range v {
		v[i] = r.NormFloat64() * scale
	}
	return array.FromFloat64s(t.DType, t.Shape, v)
}

// eval interprets a module on those of the inputs that it has.
func eval(t *testing.T, m *ir.Module, inputs map[string]*array.Array) map[string]*array.Array {
	own := map[string]*array.Array{}
	for _, p := range m.Params() {
		own[p.Name] = inputs[p.Name]
	}
	out, err := interp.Run(m, own, interp.Options{})
	require.NoError(t, err)
	return out
}

// The gradients of every part are those of its forward pass, by central differences in float64.
func TestBackward(t *testing.T) {
	for rule, write := range rules {
		t.Run(rule, func(t *testing.T) {
			r := rand.New(rand.NewPCG(1, 2))
			forward, back := modules(t, write, false), modules(t, write, true)
			inputs := map[string]*array.Array{}
			fill := func(m *ir.Module) {
				for _, p := range m.Params() {
					if inputs[p.Name] != nil {
						continue
					}
					x := random(r, p.Type, 1)
					if p.Type.DType == ir.I32 {
						x = array.FromInt64s(ir.I32, p.Type.Shape, []int64{3, 0, 6, 3})
					}
					inputs[p.Name] = x
				}
			}
			fill(forward)
			run := func(m *ir.Module) map[string]*array.Array { return eval(t, m, inputs) }
			fill(back)
			grads := run(back)
			delete(grads, "loss") // which the module of the loss returns with the gradient
			// value is what the gradients are of: the loss, or the sum of the outputs weighted by their gradients.
			value := func() float64 {
				sum := 0.0
				for name, y := range run(forward) {
					weight := inputs["d"+name]
					for i, v := range y.Float64s() {
						switch {
						case name == "loss":
							sum += v
						case weight != nil:
							sum += v * weight.Float64s()[i]
						}
					}
				}
				return sum
			}
			require.NotEmpty(t, grads)
			for name, g := range grads {
				x := inputs[strings.TrimPrefix(name, "d")]
				require.NotNil(t, x, name)
				require.Equal(t, x.Shape, g.Shape, name)
				at := x.Float64s()
				moved := func(i int, by float64) float64 {
					y := slices.Clone(at)
					y[i] += by
					inputs[strings.TrimPrefix(name, "d")] = array.FromFloat64s(ir.F64, x.Shape, y)
					return value()
				}
				step, within := 1e-5, 1e-6
				if slices.Contains([]string{"project", "project in", "project in, channels", "project in, at once", "up and gate"}, rule) { // linear, with results in float32
					step, within = 1, 1e-5
				}
				if strings.HasPrefix(rule, "attention") { // its products are in float32
					step, within = 1e-2, 1e-3
				}
				for range 12 {
					i := r.IntN(len(at))
					require.InDelta(t, (moved(i, step)-moved(i, -step))/(2*step), g.Float64s()[i], within, "%s[%d]", name, i)
				}
				inputs[strings.TrimPrefix(name, "d")] = x
			}
		})
	}
}

// Where parts of a token are whole registers, their work is a grid: it computes what the plain program does, as kernel too.
func TestOverTokens(t *testing.T) {
	c := tiny
	c.Tokens, c.Batch, c.Rule = 2*blockTokens, 2, Rule{HeadsK: 1, HeadsV: 2, K: 128, V: 128, Conv: 4}
	long := c // where nothing has a halo, steps are longer
	long.Tokens = 2 * mostTokens
	fused, fusedLong := c, long // kernels make the projections that they read
	fused.Hidden, fusedLong.Hidden = 256, 256
	require.True(t, fused.fused() && fusedLong.fused() && !c.fused() && !long.fused())
	for name, write := range map[string]func(*program, bool){
		"convolution": func(p *program, backward bool) { p.convolution(c, backward) },
		"gated norm":  func(p *program, backward bool) { p.gatedNorm(long, backward) },
		"norm":        func(p *program, backward bool) { p.norm(2*mostTokens, 256, backward, "dout") },

		"convolution, fused": func(p *program, backward bool) { p.convolution(fused, backward) },
		"gated norm, fused":  func(p *program, backward bool) { p.gatedNorm(fusedLong, backward) },
	} {
		for _, backward := range []bool{false, true} {
			made := func(plain bool) *ir.Module {
				m, b := ir.NewModule("part")
				p := &program{Builder: b, wide: ir.F32, narrow: ir.BF16, plain: plain}
				write(p, backward)
				require.NoError(t, b.Finish(m, p.names, p.results))
				return m
			}
			plain, grid := made(true), made(false)
			kernel, err := pass.Apply(grid, pass.Kernels...)
			require.NoError(t, err, name)
			require.Contains(t, kernel.String(), "kernel")
			inputs, r := map[string]*array.Array{}, rand.New(rand.NewPCG(5, 6))
			for _, p := range plain.Params() {
				scale := 1.
				if strings.HasPrefix(p.Name, "w_") {
					scale = 1. / 16 // the root of what a product sums
				}
				inputs[p.Name] = random(r, p.Type, scale)
			}
			want := eval(t, plain, inputs)
			for _, m := range []*ir.Module{grid, kernel} {
				for name, got := range eval(t, m, inputs) {
					x, y := want[name].Float64s(), got.Float64s()
					for i := range x {
						require.InDelta(t, x[i], y[i], 1e-2*(1+math.Abs(x[i])), "%s[%d]", name, i)
					}
				}
			}
		}
	}
}

// A layer whose kernels make the projections that they read computes what it does by products of their own.
func TestFused(t *testing.T) {
	c := tiny
	c.Hidden, c.Tokens, c.Batch, c.Rule = 256, 2*blockTokens, 1, Rule{HeadsK: 1, HeadsV: 2, K: 128, V: 128, Conv: 4}
	apart := c
	apart.VMEM = 1
	require.True(t, c.fused() && !apart.fused())
	v, err := gdn.ParseVariant("default")
	require.NoError(t, err)
	var sum [2]float64
	for _, p := range Parts(c) {
		for i, x := range p.Moved {
			sum[i] += x
			require.False(t, x < 0 && p.Flops*float64(1+i)+x <= 0, "%s has work left", p.Name)
		}
	}
	require.Zero(t, sum)
	inputs, r := map[string]*array.Array{}, rand.New(rand.NewPCG(9, 10))
	for _, backward := range []bool{false, true} {
		var results []map[string]*array.Array
		for _, c := range []Config{apart, c} {
			m, err := Pieces(c)[0].Build(v, backward)
			require.NoError(t, err)
			for _, p := range m.Params() {
				scale := 1.
				if strings.HasPrefix(p.Name, "w_") {
					scale = 1. / 16
				}
				if inputs[p.Name] == nil {
					inputs[p.Name] = random(r, p.Type, scale)
				}
			}
			results = append(results, eval(t, m, inputs))
		}
		maps.Copy(inputs, results[1]) // its slope
		maps.Copy(inputs, results[0])
		delete(results[1], "slope")
		require.Len(t, results[1], len(results[0]))
		for name, want := range results[0] {
			x, y := want.Float64s(), results[1][name].Float64s()
			square, off := 0., 0.
			for i := range x {
				square, off = square+x[i]*x[i], off+(x[i]-y[i])*(x[i]-y[i])
			}
			require.Positive(t, square, name)
			require.Less(t, math.Sqrt(off/square), 1e-2, "%s", name)
		}
	}
}

// The kernel of the loss gives the loss and its gradient, wherever the label is among the registers of a token, and for logits whose exponentials overflow.
func TestLossKernel(t *testing.T) {
	const tokens, vocab = 64, 384
	require.Equal(t, 32, lossRows(tokens, vocab, leastMemory))
	m, b := ir.NewModule("part")
	p := &program{Builder: b, wide: ir.F32, narrow: ir.BF16}
	p.loss(tokens, vocab, leastMemory)
	require.NoError(t, b.Finish(m, p.names, p.results))
	kernel, err := pass.Apply(m, pass.Kernels...)
	require.NoError(t, err)
	require.Contains(t, kernel.String(), "kernel")

	r := rand.New(rand.NewPCG(7, 8))
	logits := random(r, ir.T(ir.BF16, tokens, vocab), 4)
	values := logits.Float64s()
	labels := make([]int64, tokens)
	for i := range labels {
		labels[i] = int64(i * 131 % vocab)
		for j := range vocab {
			values[i*vocab+j] += float64(i%3) * 1000 // a multiple of what bf16 rounds to up there
		}
	}
	copy(labels, []int64{0, 127, 128, 255, 256, vocab - 1})
	logits = array.FromFloat64s(ir.BF16, logits.Shape, values)
	values = logits.Float64s()
	for _, m := range []*ir.Module{m, kernel} {
		got := eval(t, m, map[string]*array.Array{"logits": logits, "labels": array.FromInt64s(ir.I32, []int{tokens}, labels)})
		loss, dlogits := 0.0, got["dlogits"].Float64s()
		for i := range tokens {
			row := values[i*vocab : (i+1)*vocab]
			most, sum := slices.Max(row), 0.0
			for _, x := range row {
				sum += math.Exp(x - most)
			}
			loss += (most + math.Log(sum) - row[labels[i]]) / tokens
			for j, x := range row {
				want := math.Exp(x-most) / sum
				if int64(j) == labels[i] {
					want--
				}
				require.InDelta(t, want, tokens*dlogits[i*vocab+j], math.Abs(want)/128+1e-6, "token %d, logit %d", i, j)
			}
		}
		require.InEpsilon(t, loss, got["loss"].Float64s()[0], 1e-4)
	}
	// What does not fill registers, or fits in no vector memory, has no kernel.
	require.Equal(t, 32, lossRows(4096, 50304, 128<<20))
	require.Equal(t, 16, lossRows(4096, 50304, leastMemory))
	require.Equal(t, 16, lossRows(4096, 248320, 128<<20))
	require.Zero(t, lossRows(4096, 151936, leastMemory))
	require.Zero(t, lossRows(4096, 1<<20, 128<<20))
	require.Zero(t, lossRows(4096, 1000, 128<<20))
}

// A model of every kind of layer learns: its loss begins at a guess's and falls.
func TestTraining(t *testing.T) {
	for _, c := range []Config{tiny, tinyKDA} {
		c.Tokens, c.Batch, c.Layers, c.AttentionEvery, c.Hidden, c.Rule.V = 32, 2, 2, 2, 16, 4
		v, err := gdn.ParseVariant("default,chunk=16")
		require.NoError(t, err)
		job, err := NewTraining(c, v, func(m *ir.Module, args []*array.Array) (results []*array.Array, err error) {
			in := map[string]*array.Array{}
			for i, p := range m.Params() {
				in[p.Name] = args[i]
			}
			out, err := interp.Run(m, in, interp.Options{})
			for _, name := range m.Results {
				results = append(results, out[name])
			}
			return results, err
		})
		require.NoError(t, err)
		var losses []float64
		for range 60 {
			loss, err := job.Step()
			require.NoError(t, err)
			losses = append(losses, loss)
		}
		require.InDelta(t, math.Log(float64(c.Vocab)), losses[0], .1)
		last := 0.0
		for _, x := range losses[50:] {
			last += x / 10
		}
		require.Less(t, last, losses[0]-.2, "%.3f", losses)
		require.NotEmpty(t, job.Args)
		c.Vocab = 0
		_, err = NewTraining(c, v, nil)
		require.ErrorContains(t, err, "set vocab")
	}
}

// Every part but the core of attention has modules of its passes.
func TestParts(t *testing.T) {
	v, err := gdn.ParseVariant("default")
	require.NoError(t, err)
	parts := Parts(tiny)
	require.Equal(t, []string{"rule", "attention", "mlp", "model"}, Kinds(parts))
	for _, p := range append(parts, Parts(tinyKDA)...) {
		require.Positive(t, p.Layers, p.Name)
		require.Equal(t, p.Name == "attention", p.Build == nil, p.Name)
		for _, pass := range p.Passes(false) {
			if p.Build != nil {
				m, err := p.Build(v, pass == "backward")
				require.NoError(t, err, p.Name)
				require.NoError(t, m.Verify())
			}
		}
	}
}

// A piece computes what its parts do one after another, and a residual; what has heads passes its border with them side by side.
func TestPieces(t *testing.T) {
	for _, c := range []Config{tiny, tinyKDA} {
		c.Tokens, c.Batch, c.Rule.V = 40, 1, 4
		t.Run(c.Name, func(t *testing.T) { testPieces(t, c) })
	}
}

func testPieces(t *testing.T, c Config) {
	for _, text := range []string{"default", "layout=bt_hd,save=all"} {
		v, err := gdn.ParseVariant(text)
		require.NoError(t, err)
		inputs := map[string]*array.Array{}
		as := func(x *array.Array, shape []int) *array.Array {
			return &array.Array{Type: x.Type, Shape: shape, Data: x.Data}
		}
		r := rand.New(rand.NewPCG(3, 4))
		given := 0
		for _, piece := range Pieces(c) {
			if piece.Name == "norm, project in" || piece.Name == "layer" || piece.Kind == "model" {
				clear(inputs) // of another layer
			}
			parts := slices.DeleteFunc(Parts(c), func(p Part) bool {
				return p.Kind != piece.Kind || piece.Name != "layer" && !slices.Contains(strings.Split(piece.Name, ", "), p.Name)
			})
			for _, backward := range []bool{false, true} {
				if piece.Build == nil {
					continue
				}
				m, err := piece.Build(v, backward)
				require.NoError(t, err)
				of := map[string]*array.Array{}
				for _, p := range m.Params() {
					if inputs[p.Name] == nil {
						inputs[p.Name] = random(r, p.Type, .5)
						if p.Type.DType == ir.I32 {
							inputs[p.Name] = array.New(ir.I32, p.Type.Shape...)
						}
					}
					of[p.Name] = as(inputs[p.Name], p.Type.Shape)
				}
				got := eval(t, m, of)
				for i := range parts {
					p := parts[i]
					if backward {
						p = parts[len(parts)-1-i]
					}
					if !slices.Contains(p.Passes(!backward), map[bool]string{false: "forward", true: "backward"}[backward]) {
						continue
					}
					m, err := p.Build(v, backward)
					require.NoError(t, err)
					maps.Copy(inputs, eval(t, m, inputs))
				}
				require.NotEmpty(t, got)
				for name, x := range got {
					want := inputs[name]
					if piece.Kind != "model" && (name == "out" || name == "dx") {
						residual := map[string]string{"out": "x", "dx": "dout"}[name]
						sum := want.Float64s()
						for i, y := range inputs[residual].Float64s() {
							sum[i] += y
						}
						want = array.FromFloat64s(want.Type, want.Shape, sum)
						inputs[name] = want
					}
					if name == "dx" { // the layer's is rounded once, parts' before the residual is added too
						got := x.Float64s()
						for i, y := range want.Float64s() {
							require.InDelta(t, y, got[i], max(math.Abs(y), 2)/128, "%s, %s", piece.Kind, piece.Name) // a unit of bf16
						}
						given++
						continue
					}
					require.Equal(t, as(want, besides(want.Shape)), x, "%s, %s, %v: %s", piece.Kind, piece.Name, backward, name)
					given++
				}
			}
		}
		require.Greater(t, given, 30)
	}
}

// Both passes of a piece agree on what passes between them: the forward pass gives what comes out and what the backward pass takes, as it takes it, and
// that gives the gradient of all that comes in.
func TestKept(t *testing.T) {
	v, err := gdn.ParseVariant("default")
	require.NoError(t, err)
	comesOut := map[string][]string{"norm, project in": {"qkv"}, "norm, head, loss": {"loss"}}
	for _, p := range Pieces(tiny) {
		if p.Build == nil {
			continue
		}
		name := p.Kind + ", " + p.Name
		forward, err := p.Build(v, false)
		require.NoError(t, err)
		back, err := p.Build(v, true)
		require.NoError(t, err)
		out := comesOut[p.Name]
		if out == nil {
			out = []string{"out"}
		}
		taken, outside := map[string]ir.Type{}, map[string]ir.Type{}
		for _, x := range back.Params() {
			taken[x.Name] = x.Type
		}
		for _, x := range forward.Params() {
			outside[x.Name] = x.Type
			residual := x.Name == "x" && p.Name == "project out" // whose gradient is dout, as the first piece takes it
			if x.Type.DType.IsFloat() && !residual {
				require.Contains(t, back.Results, "d"+x.Name, name)
			}
		}
		for i, result := range forward.Results {
			outside[result] = forward.Body.Yield[i].Type
			if !slices.Contains(out, result) {
				require.Contains(t, taken, result, name)
			}
		}
		require.Subset(t, forward.Results, out, name)
		for x, of := range taken {
			if known, ok := outside[x]; ok {
				require.Equal(t, known, of, "%s: %s", name, x)
			} else {
				require.Contains(t, []string{"dout", "dqkv"}, x, name)
			}
		}
	}
}

// Two parts that make one name are refused: they would be taken for each other.
func TestTwice(t *testing.T) {
	norm := Parts(tiny)[0]
	x := piece([]Part{norm, norm}, 0, 2)
	_, err := x.Build(gdn.Variant{}, false)
	require.ErrorContains(t, err, "norm makes n, which is there already")
}

// A step has more tokens where no operand has a halo and its blocks stay small.
func TestStepTokens(t *testing.T) {
	for _, c := range []struct {
		t, width int
		halo     bool
		want     int
	}{{4096, 1024, false, 512}, {4096, 4096, false, 128}, {4096, 2048, false, 256}, {384, 128, false, 128}, {4096, 1024, true, 256}, {100, 128, false, 0}} {
		_, b := ir.NewModule("m")
		m := tokenMap{tokens: []tokens{{pieces: []*ir.Value{b.Param("x", ir.T(ir.BF16, 1, c.t, c.width))}, before: c.halo}}}
		require.Equal(t, c.want, m.stepTokens(c.t), "%+v", c)
	}
}

func TestPresets(t *testing.T) {
	for _, name := range Presets() {
		c, err := Preset(name)
		require.NoError(t, err)
		require.Equal(t, name, c.Name)
	}
	c, err := Preset("130m")
	require.NoError(t, err)
	require.InDelta(t, 130e6, c.Parameters(), 2e6)
	require.Equal(t, []int{9, 3}, []int{c.layersOf("rule"), c.layersOf("attention")})

	_, err = Preset("70b")
	require.ErrorContains(t, err, "130m")
	_, err = Read(strings.NewReader(`{"hidden": 8, "width": 1}`))
	require.ErrorContains(t, err, "width")
	_, err = Read(strings.NewReader(`{"hidden": 8, "layers": 0}`))
	require.ErrorContains(t, err, "layers is 0")
	bad := tiny
	bad.Rule.HeadsV = 3
	bad.Rule.HeadsK = 2
	require.ErrorContains(t, bad.Validate(), "rule")
	bad = tiny
	bad.Attention.HeadsKV = 3
	require.ErrorContains(t, bad.Validate(), "heads_kv")
}

// The update of weights is AdamW's, by its definition in float64.
func TestOptimiser(t *testing.T) {
	var kinds []string
	for _, p := range Optimiser(tiny) {
		kinds = append(kinds, p.Kind)
	}
	require.Equal(t, Kinds(Parts(tiny)), kinds)
	m, err := module(func(p *program, _ bool) { p.adamW(3) })(gdn.Variant{}, false)
	require.NoError(t, err)
	in := map[string]*array.Array{}
	for i, name := range []string{"w", "m", "v", "dw"} {
		x := make([]float32, 3*lanes)
		for j := range x {
			x[j] = float32(math.Abs(math.Sin(float64(1 + i + 7*j))))
		}
		in[name] = array.FromFloat32s(ir.F32, []int{3, lanes}, x)
	}
	out, err := interp.Run(m, in, interp.Options{})
	require.NoError(t, err)
	at := func(name string, i int) float64 { return in[name].Float64s()[i] }
	for i := range 3 * lanes {
		g := at("dw", i)
		m1, v1 := .9*at("m", i)+.1*g, .999*at("v", i)+.001*g*g
		require.InDelta(t, at("w", i)-3e-4*(m1/math.Sqrt(v1)+.01*at("w", i)), out["w_next"].Float64s()[i], 1e-6)
		require.InDelta(t, m1, out["m_next"].Float64s()[i], 1e-6)
		require.InDelta(t, v1, out["v_next"].Float64s()[i], 1e-6)
	}
}
