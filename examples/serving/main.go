// Command serving is a small server of the gated delta rule: a pool of states on the device, and steps that interleave packed
// prefill of new prompts with one decode token of every sequence under way. It runs on this machine's CPU through PJRT, draws requests
// at random, and at the end compares every output of every request with the float64 reference.
//
//	go run ./examples/serving -requests 24
//	go run ./examples/serving -model DIR      # a whole model by gdn/lm: prompts in pieces, forks of a common prefix, greedy answers
//
// What it shows:
//
//   - One pool [slots, Hv, V, K] of states stays on the device. Programs take slots by index and write them in place; index -1
//     is a row without a sequence. So a batch needs neither gathering nor copying of states.
//   - The state that a sequence starts from is named separately from the one that it leaves. A new request starts from none (-1), whatever
//     its slot held before, and requests that begin with the same tokens (-prefix) start from one state that was kept: a prefix cache.
//   - Decode takes a window of tokens (-window): one that is certain, and drafts behind it. It leaves a state after each, and a sequence
//     goes on from that of the last draft that was right, so that wrong ones are rolled back by an index.
//   - Prompts of several requests are packed into one call, however long each is. A prompt longer than the budget of a step goes on
//     in the next one from its slot: chunked prefill.
//   - Programs have static shapes. Tokens and batch are rounded up to a power of two, so that a handful of programs serves all;
//     tokens beyond the prompts belong to a sequence with index -1.
//   - A request whose inputs are not finite (-poisoned) harms itself alone: its outputs are NaN, those of the others the same to
//     the bit.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"os"

	"github.com/gdngen/gdngen/codegen/ptx"
	"github.com/gdngen/gdngen/codegen/route"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/truth"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/pjrt"
	"github.com/gdngen/gdngen/pjrt/plugins"
)

func main() {
	log.SetFlags(0)
	c := config{layer: gdn.NewSpec(1, 1, 4, 8, 128, 128)} // one layer of Qwen3-Next, a quarter of its heads
	flag.IntVar(&c.requests, "requests", 24, "requests to serve")
	flag.IntVar(&c.slots, "slots", 8, "states in the pool: sequences under way at once")
	flag.IntVar(&c.budget, "budget", 256, "prompt tokens of a step")
	flag.IntVar(&c.longest, "longest", 400, "longest prompt")
	flag.Uint64Var(&c.seed, "seed", 1, "seed of the requests")
	flag.IntVar(&c.prefix, "prefix", 64, "tokens that every second request begins with, whose state is kept (0: none)")
	flag.IntVar(&c.window, "window", 4, "tokens of a decode step: one, and drafts that may be wrong")
	flag.IntVar(&c.poisoned, "poisoned", -1, "number of a request that has NaN in its prompt (-1: none)")
	flag.StringVar(&c.model, "model", "", "folder of a whole model (see examples/chat), served in place of the layer")
	flag.StringVar(&c.backend, "backend", "", "of the model: xla or go; by default GOMLX_BACKEND, or xla")
	flag.StringVar(&c.plugin, "plugin", "", "PJRT plugin of the device (default: the pinned one for CPUs)")
	prefill := flag.String("prefill", gdn.Auto, "how prefill is computed (see gdngen help variant)")
	decode := flag.String("decode", gdn.Auto, "how decode is computed")
	flag.Parse()
	var err, bad error
	prompts := c.layer
	prompts.Tokens, prompts.Seqs = max(c.budget, 1), 2
	c.prefill, err = variant(prompts, *prefill)
	c.decode, bad = variant(c.layer, *decode)
	c.auto = *prefill == gdn.Auto && *decode == gdn.Auto
	if err = errors.Join(err, bad); err == nil && (min(c.requests, c.slots, c.budget, c.longest) < 1 || flag.NArg() > 0) {
		err = errors.New("requests, slots, budget and longest are at least 1, and there are no arguments")
	}
	if err == nil && (c.prefix < 0 || c.window < 1 || c.window > 16) {
		err = errors.New("a prefix has 0 tokens or more, and a window 1 to 16")
	}
	if err == nil && (c.poisoned < -1 || c.poisoned >= c.requests) {
		err = fmt.Errorf("there is no request %d to poison: they count from 0 to %d", c.poisoned, c.requests-1)
	}
	if err != nil {
		log.Println("wrong usage:", err)
		os.Exit(2)
	}
	serve := c.run
	if c.model != "" {
		serve = c.serveModel
	}
	if err := serve(os.Stdout); err != nil {
		log.Fatal(err)
	}
}

// variant reads the text of a variant; auto is the best known for the spec on a CPU.
func variant(s gdn.Spec, text string) (gdn.Variant, error) {
	f, err := route.Resolve(s, text, nil, nil)
	if err != nil {
		return gdn.Variant{}, err
	}
	return f.Variant, nil
}

// config is the configuration of the server.
type config struct {
	layer                            gdn.Spec // head counts and widths
	prefill, decode                  gdn.Variant
	requests, slots, budget, longest int
	prefix, window                   int // tokens
	poisoned                         int // a request; -1: none
	seed                             uint64
	plugin                           string
	model, backend                   string     // a folder; empty: the layer is served
	auto                             bool       // the best known: on a GPU its kernels
	ptx                              *ptx.Maker // of a GPU that takes kernels inside of StableHLO
}

// run serves the requests and checks the outputs.
func (c *config) run(out io.Writer) error {
	layer := c.layer
	layer.DType, layer.Out, layer.Gates, layer.GateDType, layer.State = ir.BF16, ir.BF16, gdn.GatesFused, ir.BF16, gdn.StateVK
	done, err := c.serve(layer, out)
	if err != nil {
		return err
	}
	return c.judge(layer, done, out)
}

// judge checks the outputs against float64, and that a poisoned request shows its NaN.
func (c *config) judge(layer gdn.Spec, done []*request, out io.Writer) error {
	worst := 0.0
	for _, q := range done {
		if q.id == c.poisoned {
			if !q.bad() {
				return fmt.Errorf("request %d has NaN in its prompt, and no output shows it", q.id)
			}
			fmt.Fprintf(out, "request %d was poisoned, and its outputs show it\n", q.id)
			continue
		}
		off, err := q.check(layer)
		if err != nil {
			return err
		}
		worst = max(worst, off)
	}
	precisions := []string{c.prefill.Precision().String(), c.decode.Precision().String()}
	if c.ptx != nil {
		prompts := layer
		prompts.Seqs, prompts.Tokens = c.slots, c.budget
		precisions = []string{c.ptx.Precision(prompts), c.ptx.Precision(layer)}
	}
	limit, err := outputLimit(layer, precisions...)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "largest error of an output over the largest output of its request, against float64: %.1e (limit %.1e)\n", worst, limit)
	if !(worst <= limit) {
		return fmt.Errorf("the outputs are wrong: %.1e is beyond the limit", worst)
	}
	return nil
}

// serve draws the requests and serves them all.
func (c *config) serve(layer gdn.Spec, out io.Writer) ([]*request, error) {
	p, err := plugins.CPU(context.Background(), plugins.Options{Path: c.plugin, Progress: os.Stderr})
	if err != nil {
		return nil, err
	}
	engine, err := pjrt.Open(p.Path)
	if err != nil {
		return nil, err
	}
	defer engine.Close()
	if c.auto {
		if c.ptx, err = ptx.OnEngine(context.Background(), engine, plugins.Options{Progress: os.Stderr}); err != nil {
			log.Println("plain StableHLO:", err)
		}
	}
	server, err := newServer(engine, layer, *c)
	if err != nil {
		return nil, err
	}
	r := rand.New(rand.NewPCG(c.seed, 0))
	if c.prefix > 0 {
		if err := server.keep(newRequest(layer, -1, c.prefix, 0, r)); err != nil {
			return nil, fmt.Errorf("prefix: %w", err)
		}
	}
	for i := range c.requests {
		q := newRequest(layer, i, 1+r.IntN(c.longest), 1+r.IntN(24), r)
		if i%2 == 1 && server.cached != nil {
			q.beginWith(server.cached)
		}
		if i == c.poisoned {
			q.poison()
		}
		server.waiting = append(server.waiting, q)
	}
	var t tally
	for server.busy() {
		r, err := server.step()
		if err != nil {
			return nil, fmt.Errorf("step %d: %w", t.steps+1, err)
		}
		t.add(r)
	}
	server.summarise(t, out)
	return server.done, nil
}

// outputLimit returns the error that rounding of the output and the arithmetic of the less accurate program allow.
func outputLimit(s gdn.Spec, precisions ...string) (float64, error) {
	class, err := truth.LookupClass("random")
	if err != nil {
		return 0, err
	}
	most := 0.0
	for _, precision := range precisions {
		limit, err := class.Limit(s, precision, s.Out)
		if err != nil {
			return 0, err
		}
		most = max(most, limit)
	}
	return most, nil
}
