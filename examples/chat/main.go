// Command chat talks with a model of a folder: Qwen3-Next, Qwen3.5, OLMo-hybrid or Kimi Linear, with the tokenizer.json beside it.
//
//	go run ./examples/chat --model DIR                      # asks for lines, and answers
//	go run ./examples/chat --model DIR --prompt "Hello"     # one answer
//	go run ./examples/chat --model DIR --measure            # speed and memory, with tokens that need no tokenizer
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"os"
	"strings"
	"time"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"

	"github.com/gdngen/gdngen/examples/lab"
	"github.com/gdngen/gdngen/gdn/lm"
)

type options struct {
	model, backend, prompt string
	half, measure, raw     bool
	tokens, given          int
	temperature            float64
	seed                   uint64
}

func main() {
	log.SetFlags(0)
	var o options
	flag.StringVar(&o.model, "model", "", "folder of the model: config.json, safetensors files, tokenizer.json")
	flag.StringVar(&o.backend, "backend", "", "xla or go; by default GOMLX_BACKEND, or xla")
	flag.BoolVar(&o.half, "bfloat16", false, "hold the weights in bfloat16: half of the memory")
	flag.StringVar(&o.prompt, "prompt", "", "answer this alone")
	flag.BoolVar(&o.raw, "raw", false, "continue the text, as a model without training in dialogue does")
	flag.IntVar(&o.tokens, "tokens", 256, "tokens of an answer at most")
	flag.Float64Var(&o.temperature, "temperature", .7, "0 takes the likeliest token")
	flag.Uint64Var(&o.seed, "seed", 1, "seed of the answers")
	flag.BoolVar(&o.measure, "measure", false, "print speed and memory as JSON")
	flag.IntVar(&o.given, "given", 128, "tokens of the prompt of --measure")
	flag.Parse()
	if err := lab.Counts(flag.CommandLine, "tokens", "given"); err != nil || o.model == "" || flag.NArg() > 0 {
		log.Println("wrong usage:", errors.Join(err, errors.New("--model names the folder, and there are no arguments")))
		os.Exit(2)
	}
	if err := run(o, os.Stdin, os.Stdout); err != nil {
		log.Fatal(err)
	}
}

func run(o options, in io.Reader, out io.Writer) error {
	b, err := lab.OpenBackend(context.Background(), o.backend, os.Stderr)
	if err != nil {
		return err
	}
	defer b.Finalize()
	d := dtypes.Float32
	if o.half {
		d = dtypes.BFloat16
	}
	m, err := lm.Open(b, o.model, d)
	if err != nil {
		return err
	}
	defer m.Finalize()
	if o.measure {
		return measure(b, m, o, d, out)
	}
	t, err := lm.OpenTokenizer(o.model)
	if err != nil {
		return err
	}
	c := &chat{o: o, t: t, s: m.Session(), draw: rand.New(rand.NewPCG(o.seed, 1)), out: out}
	if o.prompt != "" {
		return c.answer(o.prompt)
	}
	lines := bufio.NewScanner(in)
	for fmt.Fprint(out, "> "); lines.Scan(); fmt.Fprint(out, "> ") {
		if err := c.answer(lines.Text()); err != nil {
			return err
		}
	}
	return lines.Err()
}

// chat is a dialogue in progress.
type chat struct {
	o    options
	t    *lm.Tokenizer
	s    *lm.Session
	draw *rand.Rand
	out  io.Writer
}

const began, ended = "<|im_start|>", "<|im_end|>"

// answer feeds a person's words to the model, and prints the answer as it comes.
func (c *chat) answer(said string) error {
	if !c.o.raw && c.t.Has(began) {
		before := ""
		if c.s.Tokens() > 0 {
			before = "\n"
		}
		said = before + began + "user\n" + said + ended + "\n" + began + "assistant\n"
	}
	tokens := c.t.Encode(said)
	if len(tokens) == 0 {
		return nil
	}
	logits, err := c.s.Take([][]int32{tokens})
	var answer []int32
	shown := 0
	for err == nil && len(answer) < c.o.tokens {
		next := lm.Draw(logits, c.o.temperature, c.draw)
		logits, err = c.s.Take([][]int32{{next}})
		if c.t.Ends(next) {
			break
		}
		answer = append(answer, next)
		text := c.t.Decode(answer) // of all tokens: a letter may be several
		if shown < len(text) {
			fmt.Fprint(c.out, text[shown:])
			shown = len(text)
		}
	}
	fmt.Fprintln(c.out)
	return err
}

// measure prints tokens per second of a prompt and of greedy tokens after it, after a warm-up.
func measure(b compute.Backend, m *lm.Model, o options, d dtypes.DType, out io.Writer) error {
	prompt := make([]int32, o.given)
	for i := range prompt {
		prompt[i] = int32(i * 7919 % m.Vocabulary)
	}
	var prefill, decode time.Duration
	var busy float64
	var tokens [][]int32
	for _, n := range []int{2, o.tokens} {
		s, begin := m.Session(), time.Now()
		if _, err := s.Take([][]int32{prompt}); err != nil {
			return err
		}
		prefill, begin, busy = time.Since(begin), time.Now(), processor()
		var err error
		if tokens, err = s.Generate(n); err != nil {
			return err
		}
		decode, busy = time.Since(begin), processor()-busy
	}
	return json.NewEncoder(out).Encode(map[string]any{"by": b.Name(), "type": d.String(),
		"prefill_tokens_per_s": float64(o.given) / prefill.Seconds(), "decode_tokens_per_s": float64(o.tokens) / decode.Seconds(),
		"decode_processor_s": busy / float64(o.tokens), "peak_MiB": peak(), "tokens": tokens[0][:min(8, len(tokens[0]))]})
}

// processor returns the processor time of this process in seconds; 0 if the system does not report it.
func processor() float64 {
	data, _ := os.ReadFile("/proc/self/stat")
	_, after, _ := strings.Cut(string(data), ") ") // after the name
	var user, system float64
	if f := strings.Fields(after); len(f) > 12 {
		fmt.Sscan(f[11], &user)
		fmt.Sscan(f[12], &system)
	}
	return (user + system) / 100 // ticks a second of Linux
}

// peak returns the largest resident size so far in MiB; 0 if the system does not report it.
func peak() (kib int) {
	data, _ := os.ReadFile("/proc/self/status")
	for line := range strings.Lines(string(data)) {
		if n, err := fmt.Sscanf(line, "VmHWM: %d", &kib); n == 1 && err == nil {
			return kib >> 10
		}
	}
	return 0
}
