// Parts computes a sequence in parts, three ways, and says how far each is from the whole:
//
//   - the rule as one GoMLX graph, where each part starts from the state that the part before leaves (layer.Rule);
//   - a block of a model, where a cache carries state and convolution (layer.Block);
//   - the short convolution and the rule forward and backward, as devices would compute them side by side (package parallel).
//
// It needs no plugin: GoMLX's backend in Go and the interpreter compute it.
//
//	go run ./examples/parts
//	go run ./examples/parts -parts 8
package main

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/layer"
	"github.com/gdngen/gdngen/gdn/layer/device"
	"github.com/gdngen/gdngen/gdn/parallel"
	"github.com/gdngen/gdngen/gdn/truth"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/array"
	"github.com/gdngen/gdngen/ir/interp"
)

// The sizes of all three.
const (
	tokens   = 64
	features = 16
	heads    = 2
	dim      = 8
	taps     = 4
)

// ways compute the sequence in n parts, and return the largest difference from the whole.
var ways = []struct {
	name string
	do   func(b compute.Backend, n int) (float64, error)
}{{"rule", ruleInParts}, {"block", blockInParts}, {"parallel", sideBySide}}

func main() {
	parts := flag.Int("parts", 4, "parts of the sequence of 64 tokens: 2, 4, 8 or 16")
	flag.Parse()
	if err := run(*parts); err != nil {
		fmt.Fprintln(os.Stderr, "parts:", err)
		os.Exit(1)
	}
}

func run(n int) error {
	if n < 2 || n > 16 || tokens%n != 0 {
		return fmt.Errorf("-parts %d: 2, 4, 8 or 16", n)
	}
	backend, err := device.Open(context.Background(), device.Go, device.Options{})
	if err != nil {
		return err
	}
	for _, way := range ways {
		off, err := way.do(backend, n)
		if err != nil {
			return fmt.Errorf("%s: %w", way.name, err)
		}
		fmt.Printf("%-8s in %d parts: %.1e from the whole at most\n", way.name, n, off)
	}
	return nil
}

// draw gives normal numbers of some shape in float32.
func draw(seed uint64, dims ...int) *tensors.Tensor {
	r, x := rand.New(rand.NewPCG(seed, 1)), make([]float32, shapes.Make(dtypes.Float32, dims...).Size())
	for i := range x {
		x[i] = float32(r.NormFloat64())
	}
	return tensors.FromFlatDataAndDimensions(x, dims...)
}

// farthest returns the largest difference of two nodes.
func farthest(x, y *Node) *Node { return ReduceAllMax(Abs(Sub(x, y))) }

// part returns the i-th of n parts of x along its tokens.
func part(x *Node, i, n int) *Node { return SliceAxis(x, 1, AxisRange(i*tokens/n, (i+1)*tokens/n)) }

// ruleInParts also packs two sequences into one batch row, and pads: both leave the same state as the whole.
func ruleInParts(b compute.Backend, n int) (float64, error) {
	rule := func(x [5]*Node) *layer.RuleBuilder {
		return layer.Rule(x[0], x[1], x[2], x[3], x[4]).L2Norm().Scale(.5).NegativeEigenvalues().Accuracy(gdn.AccuracyF32)
	}
	off, err := model.CallOnce(b, model.NewStore(), func(_ *model.Scope, q, k, v *Node) *Node {
		gate := ReduceMax(v, -1)
		x := [5]*Node{q, k, v, Neg(Abs(gate)), Sigmoid(gate)}
		want, last := rule(x).DoneWithState()
		state := ZerosLike(last)
		var outputs []*Node
		for i := range n {
			var of [5]*Node
			for j := range x {
				of[j] = part(x[j], i, n)
			}
			var o *Node
			o, state = rule(of).InitialState(state).DoneWithState()
			outputs = append(outputs, o)
		}
		g := q.Graph()
		all := OnesLike(SliceAxis(gate, 2, AxisRange(0, 1)))
		_, masked := rule(x).Mask(Reshape(all, 1, tokens)).DoneWithState()
		packed := rule(x).CuSeqlens(Const(g, []int64{0, tokens})).Variant("default").Done()
		channels := x
		channels[3] = BroadcastToShape(ExpandAxes(x[3], -1), k.Shape()) // one decay for each channel of a key, here the same for all
		bounded := rule(channels).Bound(-5).Done()
		return Max(Max(farthest(want, Concatenate(outputs, 1)), farthest(last, state)), Max(farthest(last, masked), Max(farthest(want, packed), farthest(want, bounded))))
	}, draw(1, 1, tokens, heads, dim), draw(2, 1, tokens, heads, dim), draw(3, 1, tokens, heads, dim))
	if err != nil {
		return 0, err
	}
	return float64(tensors.ToScalar[float32](off)), nil
}

func blockInParts(b compute.Backend, n int) (float64, error) {
	off, err := model.CallOnce(b, model.NewStore(), func(scope *model.Scope, x *Node) *Node {
		var cfg layer.Config
		set := func(b *layer.Builder) {
			b.Heads(heads, heads).HeadDims(dim, dim).ConvWidth(taps).NegativeEigenvalues(true).Accuracy(gdn.AccuracyF32)
			cfg = b.Config()
		}
		want := layer.Block(scope.In("block"), x, 2*features, set)
		packed := layer.Block(scope.Shared("block"), x, 2*features, func(b *layer.Builder) {
			set(b)
			b.CuSeqlens(Const(x.Graph(), []int64{0, tokens}))
		})
		cache := cfg.EmptyCache(x.Graph(), x.DType(), 1)
		var outputs []*Node
		for i := range n {
			var y *Node
			y, cache = layer.BlockWithCache(scope.Shared("block"), part(x, i, n), 2*features, func(b *layer.Builder) {
				set(b)
				b.Cache(cache)
			})
			outputs = append(outputs, y)
		}
		return Max(farthest(want, Concatenate(outputs, 1)), farthest(want, packed))
	}, draw(4, 1, tokens, features))
	if err != nil {
		return 0, err
	}
	return float64(tensors.ToScalar[float32](off)), nil
}

// interpreted runs a module in the interpreter; a program for devices would compile it.
func interpreted(m *ir.Module, inputs parallel.Arrays) (parallel.Arrays, error) {
	return interp.Run(m, inputs, interp.Options{})
}

// sideBySide splits a training step whose keys come out of a short convolution.
func sideBySide(_ compute.Backend, n int) (off float64, err error) {
	s, err := gdn.Parse(fmt.Sprintf("b=1,t=%d,hk=%d,hv=%d,k=%d,v=%d,init,l2norm", tokens, heads, heads, dim, dim))
	if err != nil {
		return 0, err
	}
	train := s
	train.Direction = gdn.Train
	class, err := truth.LookupClass("random")
	if err != nil {
		return 0, err
	}
	inputs, err := class.Generate(train, 5)
	if err != nil {
		return 0, err
	}
	c := parallel.Convolution{Batch: 1, Tokens: tokens, Channels: heads * dim, Taps: taps}
	wide, halo := inputs["k"].Reshape(1, tokens, heads*dim), array.New(ir.F32, 1, taps-1, heads*dim)
	weights := array.FromFloat64s(ir.F32, []int{taps, heads * dim}, slices.Repeat([]float64{.25}, taps*heads*dim))
	for i := range n {
		c.Tokens = tokens / n
		m, err := parallel.BuildConvolution(c, false)
		if err != nil {
			return 0, err
		}
		y, err := interpreted(m, parallel.Arrays{"x": parallel.Slice(wide, 1, i*c.Tokens, (i+1)*c.Tokens), "halo": halo, "taps": weights})
		if err != nil {
			return 0, err
		}
		halo = y["next"]
		if i == 0 {
			inputs["k"] = y["y"]
		} else {
			inputs["k"] = parallel.Concat(1, inputs["k"], y["y"])
		}
	}
	inputs["k"] = inputs["k"].Reshape(1, tokens, heads, dim)
	want, err := truth.Reference(train, inputs)
	if err != nil {
		return 0, err
	}
	v, err := gdn.ParseVariant("default")
	if err != nil {
		return 0, err
	}
	x, err := parallel.NewSplit(s, n, v, &v, interpreted)
	if err != nil {
		return 0, err
	}
	got, err := x.Forward(inputs)
	if err != nil {
		return 0, err
	}
	grads, err := x.Backward(inputs)
	if err != nil {
		return 0, err
	}
	maps.Copy(got, grads)
	for name, y := range got {
		off = max(off, array.Compare(y, want[name]).MaxAbs)
	}
	return off, nil
}
