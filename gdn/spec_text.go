package gdn

import (
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"

	"github.com/gdngen/gdngen/internal/suggest"
	"github.com/gdngen/gdngen/ir"
)

// field is one entry of the text and JSON forms of a Spec. The order of the table is the order of the text.
type field struct {
	key    string // in the text form
	name   string // in the JSON form; Parse takes it too
	doc    string
	values string // that are allowed
	always bool   // printed even at its default
	quoted bool   // a string in JSON
	isBool bool
	get    func(*Spec) string
	set    func(*Spec, string) error
	check  func(*Spec) error
}

var fields = []field{
	intField("b", "batch", "sequences of equal length", maxBatch, func(s *Spec) *int { return &s.Batch }, nil),
	intField("t", "tokens", "tokens of one sequence, or of all packed sequences", MaxTokens, func(s *Spec) *int { return &s.Tokens }, nil),
	intField("hk", "heads_k", "query and key heads", maxHeads, func(s *Spec) *int { return &s.HeadsK }, nil),
	intField("hv", "heads_v", "value heads, a multiple of hk", maxHeads, func(s *Spec) *int { return &s.HeadsV }, func(s *Spec) error {
		if s.HeadsV%s.HeadsK != 0 {
			return fmt.Errorf("%d is not a multiple of hk=%d: each query and key head serves hv/hk value heads", s.HeadsV, s.HeadsK)
		}
		return nil
	}),
	intField("k", "k", "width of a query or key", maxWidth, func(s *Spec) *int { return &s.K }, nil),
	intField("v", "v", "width of a value", maxWidth, func(s *Spec) *int { return &s.V }, nil),
	dtypeField("dtype", "dtype", "element type of q, k, v", true, func(s *Spec) *ir.DType { return &s.DType }, nil, ir.F32, ir.BF16, ir.F16),
	dtypeField("out", "out", "element type of o (default: dtype)", false, func(s *Spec) *ir.DType { return &s.Out }, nil, ir.F32, ir.BF16, ir.F16),
	enumField("gates", "gates", "given (g, beta from 0 on) or fused (A_log, a, dt_bias, b)", gatesNames, func(s *Spec) *Gates { return &s.Gates }, nil),
	dtypeField("gatedtype", "gate_dtype", "element type of a and b", false, func(s *Spec) *ir.DType { return &s.GateDType }, func(s *Spec) error {
		if s.Gates == GatesGiven && s.GateDType != ir.F32 {
			return fmt.Errorf("%v needs gates=fused: given gates are f32", s.GateDType)
		}
		return nil
	}, ir.F32, ir.BF16),
	boolField("negeig", "neg_eigval", "beta in (0,2)", func(s *Spec) *bool { return &s.NegEigval }, nil),
	boolField("l2norm", "l2norm", "q and k are normalised", func(s *Spec) *bool { return &s.L2Norm }, nil),
	{key: "seqs", name: "seqs", values: fmt.Sprintf("0 to %d", maxSeqs), doc: "number of packed sequences; 0: none, no cu_seqlens",
		get: func(s *Spec) string { return strconv.Itoa(s.Seqs) },
		set: func(s *Spec, v string) error { return setInt(&s.Seqs, v, 0, maxSeqs) },
		check: func(s *Spec) error {
			if s.Seqs < 0 || s.Seqs > maxSeqs {
				return fmt.Errorf("%d is out of range: 0 (none) to %d", s.Seqs, maxSeqs)
			}
			if s.Seqs > 0 && s.Batch != 1 {
				return fmt.Errorf("packed sequences need b=1, here b=%d: pack the batch along the tokens", s.Batch)
			}
			return nil
		}},
	enumField("rows", "rows", "how q, k, v, o and gates of channels lie: heads, [b, t, heads, width]; flat, [b, t, heads x width], as a projection gives them; qkv, flat, with one input qkv [b, t, hk k + hk k + hv v] in place of q, k and v", rowsNames, func(s *Spec) *Rows { return &s.Rows }, func(s *Spec) error {
		if s.Rows == RowsQKV && s.Direction != Forward {
			return fmt.Errorf("%s has no gradient of qkv as a whole: set rows=flat", s.Direction)
		}
		return nil
	}),
	boolField("init", "initial_state", "initial_state is an input", func(s *Spec) *bool { return &s.Init }, nil),
	boolField("final", "final_state", "final_state is an output", func(s *Spec) *bool { return &s.Final }, nil),
	{key: "scale", name: "scale", values: "a number", doc: "multiplies q; 0 means k^-1/2",
		get: func(s *Spec) string { return strconv.FormatFloat(s.Scale, 'g', -1, 64) },
		set: func(s *Spec, v string) error {
			x, err := strconv.ParseFloat(v, 64)
			if err != nil {
				return fmt.Errorf("%q is not a number", v)
			}
			s.Scale = x
			return checkScale(x)
		},
		check: func(s *Spec) error { return checkScale(s.Scale) }},
	enumField("state", "state_layout", "order of the last axes of the state: kv or vk", layoutNames, func(s *Spec) *Layout { return &s.State }, func(s *Spec) error {
		if s.State != StateKV && !s.Init && !s.Final {
			return fmt.Errorf("there is neither an initial nor a final state that could be %v", s.State)
		}
		return nil
	}),
	dtypeField("statedtype", "state_dtype", "element type of the states", false, func(s *Spec) *ir.DType { return &s.StateDType }, func(s *Spec) error {
		if s.StateDType != ir.F32 && !s.Init && !s.Final {
			return fmt.Errorf("there is neither an initial nor a final state that could be %v", s.StateDType)
		}
		return nil
	}, ir.F32, ir.BF16),
	enumField("empty", "empty", "final state of an empty sequence: keep the initial one, or zero", emptyNames, func(s *Spec) *Empty { return &s.Empty }, func(s *Spec) error {
		if s.Empty == EmptyZero && (s.Seqs == 0 || !s.Init || !s.Final) {
			return fmt.Errorf("zero differs from keep only with packed sequences (seqs), an initial state (init) and a final state")
		}
		return nil
	}),
	boolField("packed", "packed", "tensors have no batch axis", func(s *Spec) *bool { return &s.Packed }, func(s *Spec) error {
		if s.Packed && s.Batch != 1 {
			return fmt.Errorf("tensors without a batch axis need b=1, here b=%d", s.Batch)
		}
		return nil
	}),
	{key: "pool", name: "pool", values: fmt.Sprintf("0 to %d", maxSeqs), doc: "states of a pool that state_indices names for each sequence, -1 for none; 0: no pool",
		get: func(s *Spec) string { return strconv.Itoa(s.Pool) },
		set: func(s *Spec, v string) error { return setInt(&s.Pool, v, 0, maxSeqs) },
		check: func(s *Spec) error {
			if s.Pool < 0 || s.Pool > maxSeqs {
				return fmt.Errorf("%d is out of range: 0 (none) to %d", s.Pool, maxSeqs)
			}
			if s.Pool > 0 && (!s.Init || !s.Final) {
				return fmt.Errorf("a pool is read and written: it needs an initial state (init) and a final state")
			}
			return nil
		}},
	boolField("inplace", "in_place", "final_state takes the memory of initial_state", func(s *Spec) *bool { return &s.InPlace }, func(s *Spec) error {
		if s.InPlace && (!s.Init || !s.Final) {
			return fmt.Errorf("it needs an initial state (init) and a final state")
		}
		return nil
	}),
	boolField("read", "read_indices", "with a pool: sequences start from the states that read_indices names, -1 for a fresh one, and state_indices names those that they leave", func(s *Spec) *bool { return &s.Read }, func(s *Spec) error {
		if s.Read && s.Pool == 0 {
			return fmt.Errorf("states that are named need a pool (pool)")
		}
		return nil
	}),
	{key: "every", name: "states_every", values: fmt.Sprintf("0 or %d to %d", minEvery, MaxTokens), doc: "states is an output too, [b, t/every, ...]: the states after every so many tokens, a multiple of 16; 0: none",
		get: func(s *Spec) string { return strconv.Itoa(s.Every) },
		set: func(s *Spec, v string) error { return setInt(&s.Every, v, 0, MaxTokens) },
		check: func(s *Spec) error {
			switch {
			case s.Every == 0:
				return nil
			case s.Every < 0 || s.Every%minEvery != 0 || s.Every > s.Tokens:
				return fmt.Errorf("%d is no multiple of %d from %d to t=%d", s.Every, minEvery, minEvery, s.Tokens)
			case s.Seqs > 0:
				return fmt.Errorf("packed sequences have their states at their ends alone: leave out seqs, and make them batch rows (b)")
			case s.Direction != Forward:
				return fmt.Errorf("%s keeps its states for itself: leave out every", s.Direction)
			}
			return nil
		}},
	boolField("window", "window", "with read: a state after each of up to 16 tokens, checkpoints to go on from; state_indices names groups of t states", func(s *Spec) *bool { return &s.Window }, func(s *Spec) error {
		switch {
		case !s.Window:
			return nil
		case !s.Read:
			return fmt.Errorf("which checkpoint a sequence starts from must be named (read)")
		case s.Seqs > 0:
			return fmt.Errorf("a window has as many tokens for each sequence: leave out seqs, and make them batch rows (b)")
		case s.Tokens < 2 || s.Tokens > maxToken:
			return fmt.Errorf("a window has 2 to %d tokens, here t=%d", maxToken, s.Tokens)
		case s.Pool%s.Tokens != 0:
			return fmt.Errorf("pool=%d is not a multiple of t=%d: each sequence leaves a group of t states", s.Pool, s.Tokens)
		}
		return nil
	}),
	{key: "mixed", name: "mixed", values: fmt.Sprintf("0 to %d", maxToken), doc: "a mixed batch of packed sequences, by values of the run: the first distribution[0] sequences have one token, or with mixed above 1 a window of up to so many, and leave a state after each; those before distribution[2] any number; the others, and tokens behind, are padding; 0: none",
		get:   func(s *Spec) string { return strconv.Itoa(s.Mixed) },
		set:   func(s *Spec, v string) error { return setInt(&s.Mixed, v, 0, maxToken) },
		check: func(s *Spec) error { return s.checkMixed() }},
	{key: "rule", name: "rule", values: strings.Join(RuleNames(), " "), doc: "the recurrence: gdn, gated delta rule; deltanet: no decay; simple-gla: no beta; linear: neither; kda: a decay a channel; gla: kda without beta; gdn2: kda with erase and write gates a channel", quoted: true,
		get: func(s *Spec) string { return s.Rule.String() },
		set: func(s *Spec, v string) (err error) {
			s.Rule, err = ParseRule(v)
			return err
		},
		check: func(s *Spec) error {
			switch {
			case s.Gates == GatesFused && len(s.GateParams()) == 0:
				return fmt.Errorf("%s has no gates: leave out gates=fused", s.Rule)
			case s.NegEigval && !s.Rule.Writes():
				return fmt.Errorf("%s has no beta: leave out negeig", s.Rule)
			}
			return s.Rule.check()
		}},
	{key: "conv", name: "conv", values: fmt.Sprintf("0 or 2 to %d", maxConv), doc: "taps of a short causal convolution of each channel of q, k and v, with SiLU, before norms and rule; conv_q, conv_k and conv_v are inputs; 0: none",
		get:   func(s *Spec) string { return strconv.Itoa(s.Conv) },
		set:   func(s *Spec, v string) error { return setInt(&s.Conv, v, 0, maxConv) },
		check: func(s *Spec) error { return s.checkConv() }},
	boolField("convbias", "conv_bias", "the convolution has a bias a channel: bias_q, bias_k and bias_v are inputs", func(s *Spec) *bool { return &s.ConvBias }, func(s *Spec) error {
		if s.ConvBias && s.Conv == 0 {
			return fmt.Errorf("there is no convolution that it could be of: set conv")
		}
		return nil
	}),
	boolField("convstate", "conv_state", "the last inputs of the convolution go with the states, [states, convrows, channels of q, k and v]: initial_conv with init, final_conv with final, convs with every, by the names of a pool's states", func(s *Spec) *bool { return &s.ConvState }, func(s *Spec) error {
		switch {
		case s.ConvState && s.Conv == 0:
			return fmt.Errorf("there is no convolution that it could be of: set conv")
		case s.ConvState && !s.Init && !s.Final:
			return fmt.Errorf("there is neither an initial nor a final state that it could go with")
		}
		return nil
	}),
	{key: "convrows", name: "conv_rows", values: fmt.Sprintf("0 or conv-1 to %d", maxConv), doc: "with convstate: how many inputs a cache holds; 0: conv-1. A TPU keeps 4 rows of bf16 side by side, and 3 of all states apart, which a kernel can not take as they lie",
		get: func(s *Spec) string { return strconv.Itoa(s.ConvRows) },
		set: func(s *Spec, v string) error { return setInt(&s.ConvRows, v, 0, maxConv) },
		check: func(s *Spec) error {
			switch {
			case s.ConvRows == 0:
				return nil
			case !s.ConvState:
				return fmt.Errorf("there is no cache that could hold %d inputs: add convstate", s.ConvRows)
			case s.ConvRows < s.Conv-1 || s.ConvRows > maxConv:
				return fmt.Errorf("%d inputs are too few or too many: %d taps need %d, and %d are the most", s.ConvRows, s.Conv, s.Conv-1, maxConv)
			}
			return nil
		}},
	{key: "bound", name: "bound", values: fmt.Sprintf("%d to 0", lowestBound), doc: "with a decay a channel: no log decay is lower (Kimi's safe gate: -5); gates=fused are sigmoids times it; 0: no bound",
		get: func(s *Spec) string { return strconv.FormatFloat(s.Bound, 'g', -1, 64) },
		set: func(s *Spec, v string) error {
			x, err := strconv.ParseFloat(v, 64)
			if err != nil {
				return fmt.Errorf("%q is not a number", v)
			}
			s.Bound = x
			return checkBound(x)
		},
		check: func(s *Spec) error {
			if s.Bound != 0 && !s.Rule.Channels() {
				return fmt.Errorf("%v bounds the decays of channels, and rule=%s has one a head: leave out bound", s.Bound, s.Rule)
			}
			return checkBound(s.Bound)
		}},
	enumField("direction", "direction", "forward; backward: gradients; train: both", directionNames, func(s *Spec) *Direction { return &s.Direction }, func(s *Spec) error {
		if s.Direction != Forward && (s.Pool > 0 || s.InPlace) {
			return fmt.Errorf("%s keeps its states: leave out pool and inplace", s.Direction)
		}
		return nil
	}),
}

// Field documents one field of a Spec.
type Field struct {
	Key, Name string // names in the text form and in the JSON form
	Doc       string
	Values    string // allowed values
	Default   string // empty: none, or it depends on other fields
}

// Fields returns the fields of a Spec in the order of its text.
func Fields() []Field {
	base := NewSpec(1, 1, 1, 1, 1, 1)
	list := make([]Field, len(fields))
	for i, f := range fields {
		list[i] = Field{Key: f.key, Name: f.name, Doc: f.doc, Values: f.values}
		if !f.always && f.key != "out" {
			list[i].Default = f.get(&base)
		}
	}
	return list
}

func intField(key, name, doc string, limit int, at func(*Spec) *int, check func(*Spec) error) field {
	return field{key: key, name: name, doc: doc, always: true, values: fmt.Sprintf("1 to %d", limit),
		get: func(s *Spec) string { return strconv.Itoa(*at(s)) },
		set: func(s *Spec, v string) error {
			if v == "0" && (key == "t" || key == "b") { // generated programs and stored cases may have 0 here
				return fmt.Errorf("0 needs no kernel: outputs are empty, and states go on as they came, as packages, layers and check --cases give them; want 1 to %d", limit)
			}
			return setInt(at(s), v, 1, limit)
		},
		check: func(s *Spec) error {
			if n := *at(s); n < 1 || n > limit {
				return fmt.Errorf("%d is out of range: 1 to %d", n, limit)
			}
			if check != nil {
				return check(s)
			}
			return nil
		}}
}

func setInt(p *int, v string, low, high int) error {
	n, err := strconv.Atoi(v)
	if err != nil {
		return fmt.Errorf("%q is not an integer from %d to %d", v, low, high)
	}
	if n < low || n > high {
		return fmt.Errorf("%d is out of range: %d to %d", n, low, high)
	}
	*p = n
	return nil
}

// minEvery is the least interval of states as outputs, in tokens: chunks are powers of two and end there.
const minEvery = 16

// maxConv is the most taps of a convolution.
const maxConv = 32

// checkConv returns an error for a convolution that cannot be built.
func (s *Spec) checkConv() error {
	switch {
	case s.Conv == 0:
		return nil
	case s.Conv < 2 || s.Conv > maxConv:
		return fmt.Errorf("%d is no number of taps: 2 to %d, 0 for none", s.Conv, maxConv)
	case !s.L2Norm:
		return fmt.Errorf("what a convolution gives has any length, and keys must have length 1: add l2norm")
	case s.Direction != Forward:
		return fmt.Errorf("%s has no gradient of the taps: convolve before, and leave out conv", s.Direction)
	case s.Init && !s.ConvState:
		return fmt.Errorf("sequences that go on from a state go on from the last inputs of the convolution too: add convstate")
	case s.Tokens == 1 && !s.Init:
		return fmt.Errorf("one token has none before it: add init and convstate, or convolve before, and leave out conv")
	}
	return nil
}

// lowestBound is the lowest bound of a log decay that a spec may state. One token then keeps 5e-9 of the state, below float32 precision.
const lowestBound = -19

func checkBound(x float64) error {
	if !(x >= lowestBound && x <= 0) {
		return fmt.Errorf("%v is no bound of a log decay: %d to 0, 0 for none", x, lowestBound)
	}
	return nil
}

func checkScale(x float64) error {
	if math.IsNaN(x) || math.IsInf(x, 0) || math.Signbit(x) {
		return fmt.Errorf("%v is not a positive finite number, or 0 for k^-1/2", x)
	}
	return nil
}

func boolField(key, name, doc string, at func(*Spec) *bool, check func(*Spec) error) field {
	return field{key: key, name: name, doc: doc, values: "true false", isBool: true, check: check,
		get: func(s *Spec) string { return strconv.FormatBool(*at(s)) },
		set: func(s *Spec, v string) error {
			if v != "true" && v != "false" {
				return fmt.Errorf("%q is neither true nor false", v)
			}
			*at(s) = v == "true"
			return nil
		}}
}

func dtypeField(key, name, doc string, always bool, at func(*Spec) *ir.DType, check func(*Spec) error, allowed ...ir.DType) field {
	names := make([]string, len(allowed))
	for i, d := range allowed {
		names[i] = d.String()
	}
	wrong := func(v string) error {
		return fmt.Errorf("%q is not allowed%s (allowed: %s)", v, suggest.Name(v, names), strings.Join(names, " "))
	}
	return field{key: key, name: name, doc: doc, values: strings.Join(names, " "), always: always, quoted: true,
		get: func(s *Spec) string { return at(s).String() },
		set: func(s *Spec, v string) error {
			for _, d := range allowed {
				if d.String() == v {
					*at(s) = d
					return nil
				}
			}
			return wrong(v)
		},
		check: func(s *Spec) error {
			for _, d := range allowed {
				if *at(s) == d {
					if check != nil {
						return check(s)
					}
					return nil
				}
			}
			return wrong(at(s).String())
		}}
}

func enumField[E ~uint8](key, name, doc string, names []string, at func(*Spec) *E, check func(*Spec) error) field {
	return field{key: key, name: name, doc: doc, values: strings.Join(names, " "), quoted: true,
		get: func(s *Spec) string { return enumName(names, int(*at(s))) },
		set: func(s *Spec, v string) error {
			for i, n := range names {
				if n == v {
					*at(s) = E(i)
					return nil
				}
			}
			return fmt.Errorf("%q is not allowed%s (allowed: %s)", v, suggest.Name(v, names), strings.Join(names, " "))
		},
		check: func(s *Spec) error {
			if int(*at(s)) >= len(names) {
				return fmt.Errorf("%d is not allowed (allowed: %s)", *at(s), strings.Join(names, " "))
			}
			if check != nil {
				return check(s)
			}
			return nil
		}}
}

// String returns the canonical text: the sizes and dtype always, then the other fields that differ from their default, in
// a fixed order. A boolean that is true is its key alone. The text is safe in a shell, and Parse returns the same spec from it:
//
//	b=1,t=4096,hk=4,hv=8,k=128,v=128,dtype=bf16,gates=fused,l2norm,seqs=3,init,final=false,scale=1,state=vk
func (s Spec) String() string {
	base := NewSpec(1, 1, 1, 1, 1, 1)
	base.Out = s.DType
	var b strings.Builder
	for _, f := range fields {
		v := f.get(&s)
		if !f.always && v == f.get(&base) {
			continue
		}
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		b.WriteString(f.key)
		if !f.isBool || v != "true" {
			b.WriteString("=" + v)
		}
	}
	return b.String()
}

// otherValues maps names of other tools to values of fields.
var otherValues = map[string]string{"bfloat16": "bf16", "float32": "f32", "float16": "f16", "raw": "fused"}

// spacedEquals matches an equals sign and the spaces around it.
var spacedEquals = regexp.MustCompile(`\s*=\s*`)

// entries splits the text of a spec at commas and spaces.
func entries(text string) []string {
	var list []string
	for part := range strings.SplitSeq(spacedEquals.ReplaceAllString(strings.ToLower(text), "="), ",") {
		if words := strings.Fields(part); len(words) > 0 {
			list = append(list, words...)
		} else {
			list = append(list, "")
		}
	}
	return list
}

// Parse reads the text form: entries key=value separated by commas or spaces, in any order, each at most once; a boolean key alone
// is true. A preset's name may come first. Otherwise t, hk and k are required, and the defaults are b=1, hv=hk, v=k,
// dtype=f32. Case makes no difference. The result is valid; errors name the field and its allowed values.
func Parse(text string) (Spec, error) {
	s := NewSpec(1, 0, 0, 0, 0, 0)
	seen := map[string]bool{}
	preset := false
	for i, entry := range entries(text) {
		key, value, hasValue := strings.Cut(entry, "=")
		f := lookupField(key)
		switch {
		case strings.TrimSpace(text) == "":
			return Spec{}, fmt.Errorf("spec: the text is empty (example: %s)", Presets[0].Text)
		case entry == "":
			return Spec{}, fmt.Errorf("spec: entry %d of %q is empty: remove the comma", i+1, text)
		case f == nil && i == 0 && !hasValue:
			p, err := LookupPreset(entry)
			if err != nil {
				return Spec{}, err
			}
			s, preset = p, true
			continue
		case f == nil:
			return Spec{}, unknownField(key)
		case seen[f.key]:
			return Spec{}, fmt.Errorf("spec: %s is given twice", f.key)
		case !hasValue && !f.isBool:
			return Spec{}, fmt.Errorf("spec: %s (%s) needs a value: %s=...", f.key, f.doc, f.key)
		case !hasValue:
			value = "true"
		}
		seen[f.key] = true
		if other, ok := otherValues[value]; ok && f.quoted {
			value = other
		}
		if err := f.set(&s, value); err != nil {
			return Spec{}, fmt.Errorf("spec: %s (%s): %w", f.key, f.doc, err)
		}
	}
	return s.complete(seen, preset)
}

// complete sets absent fields whose default depends on other fields, and validates.
func (s Spec) complete(seen map[string]bool, preset bool) (Spec, error) {
	if !preset {
		for _, key := range []string{"t", "hk", "k"} {
			if !seen[key] {
				f := lookupField(key)
				return Spec{}, fmt.Errorf("spec: %s (%s) is missing: add %s=...", key, f.doc, key)
			}
		}
		if !seen["hv"] {
			s.HeadsV = s.HeadsK
		}
		if !seen["v"] {
			s.V = s.K
		}
	}
	if !seen["out"] && (!preset || seen["dtype"]) {
		s.Out = s.DType
	}
	if err := s.Validate(); err != nil {
		return Spec{}, err
	}
	return s, nil
}

func lookupField(key string) *field {
	for i := range fields {
		if fields[i].key == key || fields[i].name == key {
			return &fields[i]
		}
	}
	return nil
}

func unknownField(key string) error {
	var names, keys []string
	for _, f := range fields {
		keys = append(keys, f.key)
		names = append(names, f.key, f.name)
	}
	return fmt.Errorf("spec: unknown field %q%s (known: %s)", key, suggest.Name(key, names), strings.Join(keys, " "))
}

// MarshalJSON returns an object with every field under its long name.
func (s Spec) MarshalJSON() ([]byte, error) {
	entries := make([]string, len(fields))
	for i, f := range fields {
		v := f.get(&s)
		if f.quoted {
			v = strconv.Quote(v)
		}
		entries[i] = strconv.Quote(f.name) + ":" + v
	}
	return []byte("{" + strings.Join(entries, ",") + "}"), nil
}

// UnmarshalJSON reads an object of fields, with the defaults of Parse for those absent, or a string in the text form.
// The result is valid.
func (s *Spec) UnmarshalJSON(data []byte) error {
	var text string
	if json.Unmarshal(data, &text) == nil {
		p, err := Parse(text)
		*s = p
		return err
	}
	var object map[string]json.RawMessage
	if err := json.Unmarshal(data, &object); err != nil {
		return fmt.Errorf("spec: want a JSON object of fields, or the text form as a string: %w", err)
	}
	r := NewSpec(1, 0, 0, 0, 0, 0)
	seen := map[string]bool{}
	for key := range object {
		if f := lookupField(key); f == nil || f.name != key {
			return unknownField(key)
		}
	}
	for _, f := range fields {
		raw, ok := object[f.name]
		if !ok {
			continue
		}
		value := string(raw)
		if f.quoted {
			if err := json.Unmarshal(raw, &value); err != nil {
				return fmt.Errorf("spec: %s: %s is not a string", f.name, raw)
			}
		}
		if err := f.set(&r, value); err != nil {
			return fmt.Errorf("spec: %s: %w", f.name, err)
		}
		seen[f.key] = true
	}
	r, err := r.complete(seen, false)
	if err != nil {
		return err
	}
	*s = r
	return nil
}
