// Recall trains one Gated DeltaNet layer on multi-query associative recall: a sequence lists pairs of a key and a value, then
// asks for the values of all keys in another order. The layer must store the pairs in its state and read them back, which a
// short convolution alone can not do: with --mixer none accuracy stays at chance.
//
//	go run ./examples/recall
//	go run ./examples/recall --backend go
//	go run ./examples/recall --mixer none
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"slices"
	"strings"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/layers"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/gdngen/gdngen/examples/lab"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/layer"
)

// The task, and the size of the model.
const (
	pairs  = 8
	keys   = 32 // different keys, and as many values
	tokens = 4 * pairs
	width  = 64
	heads  = 2
	dim    = 32
	batch  = 32
)

func main() {
	backend := flag.String("backend", "", "xla or go; by default GOMLX_BACKEND, or xla")
	mixer := flag.String("mixer", "delta", "delta: the gated delta rule; kda: Kimi Delta Attention; none: the values pass as they are")
	steps := flag.Int("steps", 1000, "steps at most")
	target := flag.Float64("target", .99, "accuracy at which training stops")
	dir := flag.String("dir", "", "folder for the checkpoint and the plot of the loss; empty: none")
	seed := flag.Int64("seed", 1, "seed of weights and data")
	flag.Parse()
	if err := lab.Counts(flag.CommandLine, "steps"); err != nil {
		fmt.Fprintln(os.Stderr, "recall:", err)
		os.Exit(2)
	}
	stop, cancel := signal.NotifyContext(context.Background(), os.Interrupt)
	defer cancel()
	if err := run(stop, *backend, *mixer, *steps, *target, *dir, *seed); err != nil {
		fmt.Fprintln(os.Stderr, "recall:", err)
		os.Exit(1)
	}
}

func run(stop context.Context, backend, mixer string, steps int, target float64, dir string, seed int64) error {
	b, err := lab.OpenBackend(stop, backend, os.Stderr)
	if err != nil {
		return err
	}
	defer b.Finalize()
	r, err := train(stop, b, mixer, lab.Config{Steps: steps, Target: target, Dir: dir, Seed: seed, Every: 20, Save: 100, Title: "Associative recall", Progress: os.Stderr})
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(struct {
		Backend  string  `json:"backend"`
		Mixer    string  `json:"mixer"`
		Accuracy float64 `json:"accuracy"`
		*lab.Result
	}{b.Name(), mixer, r.Merit, r})
}

// train fills in the task's settings and trains.
func train(stop context.Context, b compute.Backend, mixer string, c lab.Config) (*lab.Result, error) {
	if mixers := []string{"delta", "kda", "none"}; !slices.Contains(mixers, mixer) {
		return nil, fmt.Errorf("unknown mixer %q (known: %s)", mixer, strings.Join(mixers, " "))
	}
	c.Model = func(scope *model.Scope, _ any, in []*Node) []*Node { return []*Node{logits(scope, mixer, in[0])} }
	c.Batch = func(step int) (inputs, labels []*tensors.Tensor) { return draw(uint64(c.Seed), uint64(step)) }
	c.Merit = "accuracy"
	store, err := lab.NewStore(c)
	if err != nil {
		return nil, err
	}
	var eval *model.Exec
	c.Evaluate = func() (float64, error) {
		if eval == nil {
			var err error
			if eval, err = model.NewExec(b, store, func(scope *model.Scope, x, y, w *Node) *Node {
				right := ConvertDType(Equal(ArgMax(logits(scope, mixer, x), -1, dtypes.Int32), Squeeze(y, -1)), dtypes.Float32)
				return Div(ReduceAllSum(Mul(right, w)), ReduceAllSum(w))
			}); err != nil {
				return 0, err
			}
		}
		sum := 0.
		const held = 8 // batches that training never sees
		for i := range held {
			x, y := draw(uint64(c.Seed)+1<<32, uint64(i))
			out, err := eval.Call(x[0], y[0], y[1])
			if err != nil {
				return 0, err
			}
			sum += float64(tensors.ToScalar[float32](out[0])) / held
		}
		return sum, nil
	}
	return lab.Train(stop, b, store, c)
}

// logits returns the logits of a model: an embedding, one layer with a residual, and a projection over keys and values.
func logits(scope *model.Scope, mixer string, x *Node) *Node {
	x = layers.Embedding(scope.In("embed"), x, dtypes.Float32, 2*keys, width)
	l := layer.New(scope.In("gdn"), layer.RMSNorm(scope.In("norm"), x)).Heads(heads, heads).HeadDims(dim, dim).InitGain(1)
	switch mixer {
	case "kda":
		l.KDA(dim, 0)
	case "none":
		l.Mixer(func(_ gdn.Spec, in map[string]*Node) map[string]*Node { return map[string]*Node{"o": in["v"]} })
	}
	x = Add(x, l.Done())
	return layer.Linear(scope.In("logits"), layer.RMSNorm(scope.In("final"), x), 2*keys)
}

// draw makes a batch: pairs, then queries each followed by its answer; only the answers to queries count.
func draw(seed, step uint64) (inputs, labels []*tensors.Tensor) {
	r := rand.New(rand.NewPCG(seed, step))
	x, y, w := make([]int32, batch*tokens), make([]int32, batch*tokens), make([]float32, batch*tokens)
	for b := range batch {
		at := x[b*tokens:]
		key := r.Perm(keys)[:pairs]
		value := make([]int32, pairs)
		for i := range key {
			value[i] = int32(keys + r.IntN(keys))
			at[2*i], at[2*i+1] = int32(key[i]), value[i]
		}
		for j, i := range r.Perm(pairs) {
			p := 2*pairs + 2*j
			at[p], at[p+1] = int32(key[i]), value[i]
			y[b*tokens+p], w[b*tokens+p] = value[i], 1
		}
	}
	return []*tensors.Tensor{tensors.FromFlatDataAndDimensions(x, batch, tokens, 1)},
		[]*tensors.Tensor{tensors.FromFlatDataAndDimensions(y, batch, tokens, 1), tensors.FromFlatDataAndDimensions(w, batch, tokens)}
}
