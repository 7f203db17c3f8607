// Charlm trains a small character language model in the form of Qwen3.5, of Gated DeltaNet and attention, and samples from it. The text is the
// beginning of Isaac Newton's Opticks (1730, public domain), or a file of yours. In the folder it leaves a model that gdn/lm reads.
//
//	go run ./examples/charlm --dir runs/opticks
//	go run ./examples/charlm --mixer attention                        # the same model of attention alone
//	go run ./examples/charlm --bfloat16                               # products in bfloat16, weights in float32
//	go run ./examples/charlm --dir runs/opticks --prompt "Colours"    # once it is trained: another sample
package main

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"slices"
	"unicode/utf8"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/ml/train/loss"
	"github.com/gomlx/gomlx/ml/train/optimizer/cosineschedule"

	"github.com/gdngen/gdngen/examples/lab"
	"github.com/gdngen/gdngen/gdn/lm"
)

//go:embed opticks.txt
var opticks []byte

// options are the flags.
type options struct {
	backend, dir, file, prompt  string
	steps, tokens, batch, draws int
	temperature                 float64
	seed                        int64
	half                        bool
	size                        size
}

func main() {
	var o options
	flag.StringVar(&o.backend, "backend", "", "xla or go; by default GOMLX_BACKEND, or xla")
	flag.StringVar(&o.dir, "dir", "", "folder for the checkpoint and the plot of the loss; empty: none")
	flag.StringVar(&o.file, "text", "", "file to train on; empty: the beginning of Opticks")
	flag.IntVar(&o.steps, "steps", 600, "steps in all, those before a resumption too")
	flag.IntVar(&o.tokens, "tokens", 128, "characters of a sequence")
	flag.IntVar(&o.batch, "batch", 16, "sequences of a step")
	flag.StringVar(&o.prompt, "prompt", "The Rays of Light", "what the sample continues")
	flag.IntVar(&o.draws, "sample", 400, "characters to sample")
	flag.Float64Var(&o.temperature, "temperature", .7, "of the sample; 0 takes the likeliest character")
	flag.Int64Var(&o.seed, "seed", 1, "seed of weights, data and sample")
	flag.BoolVar(&o.half, "bfloat16", false, "train with products in bfloat16, of weights in float32")
	flag.IntVar(&o.size.width, "width", 128, "features of the model")
	flag.IntVar(&o.size.blocks, "blocks", 2, "blocks of the model")
	flag.IntVar(&o.size.heads, "heads", 4, "heads of a layer")
	flag.IntVar(&o.size.dim, "dim", 32, "width of a query, key or value")
	flag.StringVar(&o.size.mixer, "mixer", "hybrid", "hybrid: every second block has attention; or rule, or attention, alone")
	flag.Parse()
	if err := lab.Counts(flag.CommandLine, "steps", "tokens", "batch", "sample", "width", "blocks", "heads", "dim"); err != nil {
		fmt.Fprintln(os.Stderr, "charlm:", err)
		os.Exit(2)
	}
	stop, cancel := signal.NotifyContext(context.Background(), os.Interrupt)
	defer cancel()
	if err := run(stop, o); err != nil {
		fmt.Fprintln(os.Stderr, "charlm:", err)
		os.Exit(1)
	}
}

func run(stop context.Context, o options) error {
	data := opticks
	if o.file != "" {
		var err error
		if data, err = os.ReadFile(o.file); err != nil {
			return err
		}
	}
	t, err := newText(data, o.tokens)
	if err != nil {
		return err
	}
	if _, err := t.encode(o.prompt); err != nil {
		return fmt.Errorf("-prompt: %w", err)
	}
	o.size.symbols = len(t.alphabet)
	b, err := lab.OpenBackend(stop, o.backend, os.Stderr)
	if err != nil {
		return err
	}
	defer b.Finalize()
	l := lab.Config{Steps: o.steps, Dir: o.dir, Seed: o.seed, Every: 100, Save: 50, Title: "Characters of a text, " + o.size.mixer, Progress: os.Stderr}
	store, r, err := train(stop, b, o, t, l)
	if err != nil {
		return err
	}
	if err := json.NewEncoder(os.Stdout).Encode(struct {
		Backend string  `json:"backend"`
		HeldOut float64 `json:"held_out_nats"`
		*lab.Result
	}{b.Name(), r.Merit, r}); err != nil {
		return err
	}
	c, err := o.size.config()
	if err != nil {
		return err
	}
	if o.dir != "" {
		if err := o.size.save(o.dir, store, c); err != nil {
			return err
		}
	}
	s, err := newSampler(b, store, c, t)
	if err != nil {
		return err
	}
	defer s.m.Finalize()
	out, err := s.sample(o.prompt, o.draws, o.temperature, rand.New(rand.NewPCG(uint64(o.seed), 7)))
	if err != nil {
		return err
	}
	fmt.Println(o.prompt + out)
	return nil
}

// train trains the model of o.
func train(stop context.Context, b compute.Backend, o options, t *text, c lab.Config) (*model.Store, *lab.Result, error) {
	made, err := o.size.config()
	if err != nil {
		return nil, nil, err
	}
	if o.half {
		made.Compute = dtypes.BFloat16
	}
	c.Params = map[string]any{cosineschedule.ParamPeriodSteps: c.Steps, cosineschedule.ParamWarmUpSteps: c.Steps / 20}
	c.Model = func(scope *model.Scope, _ any, in []*Node) []*Node {
		cosineschedule.New(scope, in[0].Graph(), dtypes.Float32).FromScope().Done()
		return []*Node{lm.Logits(scope, made, in[0])}
	}
	c.Batch = func(step int) (inputs, labels []*tensors.Tensor) {
		return t.draw(t.train, o.batch, o.tokens, rand.New(rand.NewPCG(uint64(o.seed), uint64(step))))
	}
	c.Merit = "held-out nats"
	store, err := lab.NewStore(c)
	if err != nil {
		return nil, nil, err
	}
	var eval *model.Exec
	c.Evaluate = func() (float64, error) {
		if eval == nil {
			var err error
			if eval, err = model.NewExec(b, store, func(scope *model.Scope, x, y *Node) *Node {
				return ReduceAllMean(loss.SparseCategoricalCrossEntropyLogits([]*Node{y}, []*Node{lm.Logits(scope, made, x)}))
			}); err != nil {
				return 0, err
			}
		}
		x, y := t.draw(t.held, o.batch, o.tokens, rand.New(rand.NewPCG(9, 9)))
		out, err := eval.Call(x[0], y[0])
		if err != nil {
			return 0, err
		}
		return float64(tensors.ToScalar[float32](out[0])), nil
	}
	r, err := lab.Train(stop, b, store, c)
	return store, r, err
}

// text is a text as numbers of its alphabet, the last tenth held out.
type text struct {
	alphabet    []byte // sorted
	train, held []int32
}

func newText(data []byte, tokens int) (*text, error) {
	t := &text{}
	for c := range 256 {
		if bytes.IndexByte(data, byte(c)) >= 0 {
			t.alphabet = append(t.alphabet, byte(c))
		}
	}
	all, err := t.encode(string(data))
	if err != nil {
		return nil, err
	}
	cut := len(all) * 9 / 10
	t.train, t.held = all[:cut], all[cut:]
	if len(t.held) < tokens+2 {
		return nil, fmt.Errorf("the text has %d characters; sequences of %d need at least %d", len(all), tokens, 10*(tokens+2))
	}
	return t, nil
}

// encode returns the numbers of a text's characters, or an error for a character outside the alphabet.
func (t *text) encode(s string) ([]int32, error) {
	out := make([]int32, len(s))
	for i := range len(s) {
		n, ok := slices.BinarySearch(t.alphabet, s[i])
		if !ok {
			c, _ := utf8.DecodeRuneInString(s[i:])
			return nil, fmt.Errorf("the character %q is not in the text that the model is trained on", c)
		}
		out[i] = int32(n)
	}
	return out, nil
}

// draw cuts random sequences out of a part of the text; each label is the next character.
func (t *text) draw(from []int32, batch, tokens int, r *rand.Rand) (inputs, labels []*tensors.Tensor) {
	var x, y []int32
	for range batch {
		at := r.IntN(len(from) - tokens - 1)
		x, y = append(x, from[at:at+tokens]...), append(y, from[at+1:at+tokens+1]...)
	}
	return []*tensors.Tensor{tensors.FromFlatDataAndDimensions(x, batch, tokens)}, []*tensors.Tensor{tensors.FromFlatDataAndDimensions(y, batch, tokens, 1)}
}
