package gdn

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gdngen/gdngen/internal/suggest"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/target"
)

// Gates selects the gate inputs: final values, or raw values that the kernel transforms.
type Gates uint8

// The gate inputs.
const (
	GatesGiven Gates = iota // g (log decay) and beta
	GatesFused              // A_log, a, dt_bias, b; the kernel computes g and beta
)

// Layout is the order of the last two axes of the state.
type Layout uint8

// The state layouts.
const (
	StateKV Layout = iota // [N, Hv, K, V]
	StateVK               // [N, Hv, V, K]
)

// Empty selects the final state of a sequence without tokens.
type Empty uint8

// The choices for an empty sequence.
const (
	EmptyKeep Empty = iota // its initial state
	EmptyZero              // zeros, whatever its initial state
)

// Direction selects the computed pass.
type Direction uint8

// The directions.
const (
	Forward  Direction = iota
	Backward           // gradients of the inputs, from the inputs and the gradients of the outputs
	Train              // forward and backward: the outputs, then the gradients
)

var (
	gatesNames     = []string{GatesGiven: "given", GatesFused: "fused"}
	layoutNames    = []string{StateKV: "kv", StateVK: "vk"}
	emptyNames     = []string{EmptyKeep: "keep", EmptyZero: "zero"}
	directionNames = []string{Forward: "forward", Backward: "backward", Train: "train"}
)

func (g Gates) String() string     { return enumName(gatesNames, int(g)) }
func (l Layout) String() string    { return enumName(layoutNames, int(l)) }
func (e Empty) String() string     { return enumName(emptyNames, int(e)) }
func (d Direction) String() string { return enumName(directionNames, int(d)) }

func enumName(names []string, i int) string {
	if i < len(names) {
		return names[i]
	}
	return fmt.Sprintf("invalid(%d)", i)
}

// Spec is the problem: sizes, element types, layouts and options. It is comparable, and has a text form (String,
// Parse), a JSON form and a Hash. Start from NewSpec, which sets the defaults.
type Spec struct {
	Rule       Rule
	Direction  Direction
	Batch      int      // B
	Tokens     int      // T; 1 is a decode step
	HeadsK     int      // Hk: query and key heads
	HeadsV     int      // Hv: value heads, a multiple of Hk
	K          int      // width of a query or key
	V          int      // width of a value
	DType      ir.DType // of q, k, v: f32, bf16 or f16
	Out        ir.DType // of o; DType unless set otherwise
	Gates      Gates
	GateDType  ir.DType // of a and b when the gates are fused: f32 or bf16
	Bound      float64  // per-channel decay: lower bound of the log decay, below 0; raw gates become a bounded sigmoid, given gates must respect it; 0: none
	NegEigval  bool     // beta, or erase, in (0,2): doubles the sigmoid of raw gates; for given gates it only states the range
	L2Norm     bool     // q and k are L2-normalized per token and head
	Seqs       int      // number of sequences packed along the tokens; 0: none, and no cu_seqlens
	Init       bool     // initial_state is an input; otherwise states start at zero
	Final      bool     // final_state is an output
	Scale      float64  // multiplies q; 0 means K^-1/2
	State      Layout
	StateDType ir.DType // of initial_state and final_state: f32 or bf16
	Empty      Empty
	Packed     bool // tensors have no batch axis: q is [T, Hk, K]
	Pool       int  // number of states in a pool that sequences index; 0: one state per sequence, in order
	InPlace    bool // final_state reuses the memory of initial_state, which the caller gives up
	Read       bool // sequences start from the states in read_indices (-1: zeros) and write the states in state_indices
	Every      int  // output a state after every so many tokens; 0: none
	Window     bool // output a state after each token: state_indices names groups of Tokens states, the checkpoints of a window
	Rows       Rows // layout of q, k, v and o
	Conv       int  // taps of a short causal convolution with SiLU on each channel of q, k and v, before the rule; 0: none
	ConvBias   bool // the convolution has a bias for each channel
	ConvRows   int  // inputs per channel in a convolution cache, at least Conv-1; 0: Conv-1
	Mixed      int  // mixed batch: the first of Seqs sequences have up to this many tokens each, then come prompts, then padding, by distribution; 0: none
	ConvState  bool // convolution caches go with the states: initial_conv with initial_state, final_conv with final_state
}

// NewSpec returns a valid float32 spec with given gates, a final state and every other option at its default.
func NewSpec(batch, tokens, headsK, headsV, k, v int) Spec {
	return Spec{Batch: batch, Tokens: tokens, HeadsK: headsK, HeadsV: headsV, K: k, V: v,
		DType: ir.F32, Out: ir.F32, GateDType: ir.F32, StateDType: ir.F32, Final: true}
}

// Param is a named input or output with its type.
type Param struct {
	Name string
	Type ir.Type
}

// Work returns batch rows x tokens x value heads, the divisor of "cycles per token and value head".
func (s Spec) Work() int { return s.Batch * s.Tokens * s.HeadsV }

// Groups returns the number of value heads per key head.
func (s Spec) Groups() int { return s.HeadsV / s.HeadsK }

// Sequences returns the number of sequences: Seqs if they are packed, else Batch.
func (s Spec) Sequences() int {
	if s.Seqs > 0 {
		return s.Seqs
	}
	return s.Batch
}

// DefaultScale returns K^-1/2.
func (s Spec) DefaultScale() float64 { return 1 / math.Sqrt(float64(s.K)) }

// EffectiveScale returns Scale, or DefaultScale if Scale is 0.
func (s Spec) EffectiveScale() float64 {
	if s.Scale == 0 {
		return s.DefaultScale()
	}
	return s.Scale
}

// Inputs returns the inputs in fixed order, each only if the spec has it: q, k, v or qkv; conv_q, conv_k, conv_v; bias_q, bias_k, bias_v; the gates g, beta
// or erase, write (raw: A_log, a, dt_bias, b, w); initial_state, initial_conv, state_indices, read_indices, cu_seqlens, distribution; for gradients
// also do, dfinal_state and the gradients of other results.
func (s Spec) Inputs() []Param {
	p := s.Differentiable()
	if s.Pool > 0 {
		p = append(p, Param{"state_indices", ir.T(ir.I32, s.Sequences())})
	}
	if s.Read {
		p = append(p, Param{"read_indices", ir.T(ir.I32, s.Sequences())})
	}
	if s.Seqs > 0 {
		d := ir.I64
		if s.Mixed > 0 { // as what names the states
			d = ir.I32
		}
		p = append(p, Param{"cu_seqlens", ir.T(d, s.Seqs+1)})
	}
	if s.Mixed > 0 {
		p = append(p, Param{"distribution", ir.T(ir.I32, 3)})
	}
	if s.Direction != Forward {
		p = append(p, Gradients(s.Results())...)
	}
	return p
}

// Gradients returns the parameters with "d" before their names and the same types.
func Gradients(l []Param) []Param {
	var d []Param
	for _, p := range l {
		d = append(d, Param{"d" + p.Name, p.Type})
	}
	return d
}

// Differentiable returns the inputs that have gradients: all but indices.
func (s Spec) Differentiable() []Param {
	p := append(append(s.projected(), s.convParams()...), s.GateParams()...)
	if s.Init {
		p = append(p, Param{"initial_state", s.StateType()})
	}
	if s.Init && s.ConvState {
		p = append(p, Param{"initial_conv", s.ConvStateType()})
	}
	return p
}

// convParams returns the taps of q, k and v [heads, W, width], the current token's tap last, and their biases [heads, width].
func (s Spec) convParams() []Param {
	if s.Conv == 0 {
		return nil
	}
	p := []Param{
		{"conv_q", ir.T(s.DType, s.HeadsK, s.Conv, s.K)},
		{"conv_k", ir.T(s.DType, s.HeadsK, s.Conv, s.K)},
		{"conv_v", ir.T(s.DType, s.HeadsV, s.Conv, s.V)},
	}
	if s.ConvBias {
		p = append(p, Param{"bias_q", ir.T(s.DType, s.HeadsK, s.K)}, Param{"bias_k", ir.T(s.DType, s.HeadsK, s.K)}, Param{"bias_v", ir.T(s.DType, s.HeadsV, s.V)})
	}
	return p
}

// ConvChannels returns the number of convolved channels of a token: q, then k, then v.
func (s Spec) ConvChannels() int { return 2*s.HeadsK*s.K + s.HeadsV*s.V }

// CacheRows returns the number of rows of a convolution cache: ConvRows, or W-1 if it is 0.
func (s Spec) CacheRows() int { return cmp.Or(s.ConvRows, s.Conv-1) }

// ConvStateType returns the type [states, rows, channels] of the convolution caches in one input or output. A cache has the last inputs of a sequence
// before the convolution, the oldest first, with zeros before its first token.
func (s Spec) ConvStateType() ir.Type {
	return ir.T(s.DType, s.States(), s.CacheRows(), s.ConvChannels())
}

// Outputs returns the outputs in fixed order. Forward: Results. Backward: the gradients of Differentiable, in their order. Train: both, results first.
func (s Spec) Outputs() []Param {
	switch s.Direction {
	case Backward:
		return Gradients(s.Differentiable())
	case Train:
		return append(s.Results(), Gradients(s.Differentiable())...)
	}
	return s.Results()
}

// Results returns the outputs of the forward pass: o, then final_state, states, final_conv and convs if the spec has them.
func (s Spec) Results() []Param {
	p := []Param{{"o", s.tokenType(s.Out, s.HeadsV, s.V)}}
	if s.Final {
		p = append(p, Param{"final_state", s.StateType()})
	}
	if s.Every > 0 {
		t := s.StateType()
		p = append(p, Param{"states", ir.T(t.DType, append([]int{s.Batch, s.Tokens / s.Every}, t.Shape[1:]...)...)})
	}
	if t := s.ConvStateType(); s.ConvState {
		if s.Final {
			p = append(p, Param{"final_conv", t})
		}
		if s.Every > 0 {
			p = append(p, Param{"convs", ir.T(t.DType, append([]int{s.Batch, s.Tokens / s.Every}, t.Shape[1:]...)...)})
		}
	}
	return p
}

// IsConvState reports whether an output is a convolution cache. A cache copies inputs, so it must be exact.
func IsConvState(name string) bool { return name == "final_conv" || name == "convs" }

// IsResult reports whether an output belongs to the forward pass; the others are gradients.
func (s Spec) IsResult(name string) bool {
	return slices.ContainsFunc(s.Results(), func(p Param) bool { return p.Name == name })
}

// States returns the number of states in initial_state and final_state: Pool, or one per sequence.
func (s Spec) States() int {
	if s.Pool > 0 {
		return s.Pool
	}
	return s.Sequences()
}

// Checkpoints returns the number of states that one entry of state_indices names: 1, or one per token of a window.
func (s Spec) Checkpoints() int {
	if s.Window {
		return s.Tokens
	}
	return max(s.Mixed, 1)
}

// StateType returns the type of an input or output of states, [states, Hv, K, V] or [states, Hv, V, K].
func (s Spec) StateType() ir.Type {
	if s.State == StateVK {
		return ir.T(s.StateDType, s.States(), s.HeadsV, s.V, s.K)
	}
	return ir.T(s.StateDType, s.States(), s.HeadsV, s.K, s.V)
}

// Transposed reports whether XLA stores states on a TPU with their last two axes swapped. It pads the last axis to whole registers of 128 lanes and the
// one before to whole sublanes. [K, V] = [128, 96] is stored as 96 rows of 128, a quarter less than 128 rows padded to 128.
func (s Spec) Transposed() bool {
	shape := s.StateType().Shape
	rows, lanes := shape[2], shape[3]
	filled := func(rows, lanes int) int {
		up := func(n, unit int) int { return (n + unit - 1) / unit * unit }
		return up(rows, target.Sublanes) * up(lanes, target.Lanes)
	}
	return filled(lanes, rows) < filled(rows, lanes)
}

// NecessaryBytes returns the lower bound of HBM traffic in bytes: each input read once, each output written once.
// With a pool only the states of the sequences count. For a mixed batch, windows count one state, since their number is known only at run time.
func (s Spec) NecessaryBytes() int64 {
	s.Pool = 0
	var n int64
	for _, p := range append(s.Inputs(), s.Outputs()...) {
		n += int64(p.Type.Bytes())
	}
	left := s.StateType().Bytes()
	if s.ConvState {
		left += s.ConvStateType().Bytes()
	}
	if s.Mixed > 0 { // the number of windows is known only at run time
		return n
	}
	return n + int64(s.Checkpoints()-1)*int64(left)
}

// Flops counts the multiplications and additions of the matrix products of the chunkwise form, with chunk tokens a chunk. Forward: K K^T and Q K^T per
// key head; K S, Q S, T x, P x and K^T x per value head. Backward: K K^T, Q K^T and their gradients (3 products) per key head; 6 products with a state and
// 4 with a value per value head. An additive rule has no K K^T, K S and T x. The inverse T is not counted, since its cost depends on the method.
// A chunk of 1 or less counts the token recurrence.
func (s Spec) Flops(chunk int) float64 {
	tokens := float64(s.Batch) * float64(s.Tokens)
	hk, hv, k, v := float64(s.HeadsK), float64(s.HeadsV), float64(s.K), float64(s.V)
	c := float64(min(chunk, s.Tokens))
	forward, backward := hk*4*c*k+hv*(6*k*v+4*c*v), hk*10*c*k+hv*(12*k*v+8*c*v)
	if c <= 1 {
		forward, backward = hv*7*k*v, hv*14*k*v
	}
	if !s.Rule.Writes() {
		forward, backward = hk*2*c*k+hv*(4*k*v+2*c*v), hk*6*c*k+hv*(8*k*v+4*c*v)
		if c <= 1 {
			forward, backward = hv*5*k*v, hv*10*k*v
		}
	}
	switch s.Direction {
	case Backward:
		return tokens * backward
	case Train:
		return tokens * (forward + backward)
	}
	return tokens * forward
}

// Size limits: element counts fit 32-bit indices, and a typing mistake cannot exhaust the memory.
const (
	maxBatch    = 1 << 16
	MaxTokens   = 1 << 24
	maxHeads    = 1 << 12
	maxWidth    = 1 << 12
	maxSeqs     = 1 << 16
	maxElements = 1 << 31
)

// Validate returns an error for the first field out of bounds. It also refuses options that would have no effect.
func (s Spec) Validate() error {
	for _, f := range fields {
		if f.check == nil {
			continue
		}
		if err := f.check(&s); err != nil {
			return fmt.Errorf("spec: %s (%s): %w", f.key, f.name, err)
		}
	}
	for _, p := range append(s.Inputs(), s.Outputs()...) {
		n := 1.0
		for _, d := range p.Type.Shape {
			n *= float64(d)
		}
		if n >= maxElements {
			return fmt.Errorf("spec: %s %v has %.3g elements; at most 2^31-1 are allowed: make the batch, tokens or heads smaller", p.Name, p.Type, n)
		}
	}
	return nil
}

// Hash returns 16 hexadecimal digits of the SHA-256 of the spec's text.
func (s Spec) Hash() string {
	sum := sha256.Sum256([]byte(s.String()))
	return hex.EncodeToString(sum[:8])
}

// Preset is a spec with a name.
type Preset struct {
	Name, Doc, Text string
}

// Presets lists the named specs. Parse accepts a name as its first entry; later entries change that spec.
var Presets = []Preset{
	{"bench", "the bench work: prefill of 4096 tokens in bf16", "b=1,t=4096,hk=4,hv=8,k=128,v=128,dtype=bf16"},
	{"train", "a training step of the bench work", "b=1,t=4096,hk=4,hv=8,k=128,v=128,dtype=bf16,direction=train"},
	{"tiny", "small enough for the interpreter", "b=1,t=32,hk=1,hv=2,k=16,v=16,dtype=f32"},
	{"decode", "one decode step of a batch of 64", "b=64,t=1,hk=4,hv=8,k=128,v=128,dtype=bf16,init"},
	{"decode-pool", "a decode step of 64 sequences whose states lie in a pool, updated in place",
		"b=64,t=1,hk=4,hv=8,k=128,v=128,dtype=bf16,init,pool=256,inplace"},
	{"contest-decode", "FlashInfer contest definition gdn_decode_qk4_v8_d128_k_last, batch 64",
		"b=64,t=1,hk=4,hv=8,k=128,v=128,dtype=bf16,gates=fused,gatedtype=bf16,init,state=vk"},
	{"contest-prefill", "FlashInfer contest definition gdn_prefill_qk4_v8_d128_k_last, 8192 tokens in 32 sequences",
		"b=1,t=8192,hk=4,hv=8,k=128,v=128,dtype=bf16,gates=fused,gatedtype=bf16,seqs=32,init,state=vk,empty=zero,packed"},
}

// LookupPreset returns the preset with this name, or an error.
func LookupPreset(name string) (Spec, error) {
	names := make([]string, len(Presets))
	for i, p := range Presets {
		if p.Name == name {
			return Parse(p.Text)
		}
		names[i] = p.Name
	}
	return Spec{}, fmt.Errorf("spec: unknown preset %q%s (known: %s)", name, suggest.Name(name, names), strings.Join(names, " "))
}
