package gdn

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gdngen/gdngen/internal/suggest"
	"github.com/gdngen/gdngen/ir"
)

// Host is the kind of program that auto chooses a variant for.
type Host uint8

// The hosts.
const (
	HostTPU      Host = iota // Pallas kernels on a TPU
	HostCPU                  // plain XLA ops on a CPU or GPU
	HostLoops                // framework graph code with loops; it slices arrays at run time
	HostUnrolled             // graph code whose loops are unrolled
)

// Accuracy is an error class, in ascending strictness. A variant of a stricter class also satisfies every looser one.
type Accuracy uint8

// The classes of accuracy.
const (
	AccuracyAny  Accuracy = iota // the default of the spec: AccuracyF32 for f32 tensors, else AccuracyFast
	AccuracyFast                 // matrix products in one bf16 pass
	AccuracyFLA                  // error at most that of flash-linear-attention in bf16
	AccuracyF32                  // error close to that of float32
)

// accuracyNames are the values of --accuracy and the suffixes of "auto-", indexed by Accuracy.
var accuracyNames = []string{"", "fast", "fla", "f32-like"}

// AccuracyNames returns the names of the classes, the fastest (least strict) first. AccuracyAny has no name.
func AccuracyNames() []string { return slices.Clone(accuracyNames[1:]) }

// ParseAccuracy returns the class with this name. The empty name is AccuracyAny; an unknown name is an error.
func ParseAccuracy(name string) (Accuracy, error) {
	i := slices.Index(accuracyNames, name)
	if i < 0 {
		return 0, fmt.Errorf("unknown accuracy %q%s (known: %s)", name, suggest.Name(name, accuracyNames[1:]), strings.Join(accuracyNames[1:], " "))
	}
	return Accuracy(i), nil
}

// Auto is the variant text that selects the best known variant.
const Auto = "auto"

// String returns the name of the class, empty for AccuracyAny.
func (a Accuracy) String() string { return accuracyNames[a] }

// For resolves AccuracyAny for s: AccuracyF32 if s.DType is f32, else AccuracyFast. It returns any other class as it is.
func (a Accuracy) For(s Spec) Accuracy {
	switch {
	case a != AccuracyAny:
		return a
	case s.DType == ir.F32:
		return AccuracyF32
	}
	return AccuracyFast
}

// Text returns the variant text of the class: "auto", or for example "auto-fla".
func (a Accuracy) Text() string {
	if a == AccuracyAny {
		return Auto
	}
	return Auto + "-" + accuracyNames[a]
}

// AutoNames returns Text of every class, indexed by Accuracy: "auto", "auto-fast", ...
func AutoNames() []string {
	names := make([]string, len(accuracyNames))
	for i := range accuracyNames {
		names[i] = Accuracy(i).Text()
	}
	return names
}

// ParseAuto returns the accuracy class of an auto text and true, or false for any other text. The text may end in axis changes: "auto-fla,chunk=64".
func ParseAuto(text string) (a Accuracy, ok bool) {
	name, _, _ := strings.Cut(text, ",")
	i := slices.Index(AutoNames(), strings.TrimSpace(name))
	return Accuracy(max(i, 0)), i >= 0
}

// WithAccuracy returns the auto text with class a, and its axis changes kept. It is an error if text is no auto text or already has another class.
// AccuracyAny returns text unchanged.
func WithAccuracy(text string, a Accuracy) (string, error) {
	if a == AccuracyAny {
		return text, nil
	}
	was, ok := ParseAuto(text)
	if !ok || was != AccuracyAny && was != a {
		return "", fmt.Errorf("an accuracy goes with auto, not with variant %s: leave one of them out", text)
	}
	_, changes, more := strings.Cut(text, ",")
	if more {
		changes = "," + changes
	}
	return a.Text() + changes, nil
}

// job classifies specs by the kind of variant that is best for them.
type job uint8

const (
	jobPrefill  job = iota // many tokens of each batch row
	jobPacked              // sequences packed along the tokens
	jobDecode              // at most decodeTokens tokens in each batch row, or a window
	jobTraining            // gradients
)

// decodeTokens is the largest number of tokens per sequence for which the token recurrence is faster than the chunkwise form.
const decodeTokens = 4

func (s Spec) job() job {
	whole := Variant{Mapping: Mapping{Pack: PackGather}}.Packing(s) // one sequence is a batch row
	switch {
	case s.Direction != Forward:
		return jobTraining
	case whole.Seqs > 0:
		return jobPacked
	case s.Seqs == 0 && s.Tokens <= decodeTokens || s.Window:
		return jobDecode
	}
	return jobPrefill
}

// Choice is a variant that auto may select, with the row of Champions it comes from.
type Choice struct {
	Variant Variant
	From    *Champion
}

// Choices returns the variants that an auto text may mean for s on host h, the preferred one first. The caller takes the first that fits its memory.
// Axis changes in text apply to every variant. Choices fails if text is no auto text, s is invalid, or the changes leave no legal variant.
//
// Rows of Champions are tried in table order, from the least strict class at least as accurate as the requested one. The last row of a job has no
// conditions. On a TPU each row contributes several variants, adapted to the spec and the machine.
func Choices(text string, s Spec, h Host, m Machine) ([]Choice, error) {
	wish, ok := ParseAuto(text)
	if !ok {
		return nil, fmt.Errorf("variant: %q is none of %s", text, strings.Join(AutoNames(), " "))
	}
	if err := s.Validate(); err != nil {
		return nil, err
	}
	rows := championsFor(s, h, wish)
	last, err := ParseVariant(rows[len(rows)-1].Text)
	if err != nil {
		return nil, err
	}
	var list []Choice
	var bad error
	kinds := []func(*Champion, Variant, Spec, Machine) ([]Variant, error){(*Champion).chained, (*Champion).forms}
	if names(text, "persistent_rows") { // a text that sets persistent_rows itself gets the variants without chaining, so that its value decides
		kinds = kinds[1:]
	}
	for _, formsOf := range kinds {
		for _, row := range rows {
			forms, err := formsOf(row, last, s, m)
			if err != nil {
				return nil, err
			}
			for _, form := range forms {
				if h == HostTPU {
					form = row.evened(form.visiting(s).ofRows(s), s)
				}
				v, err := parseVariantOn(text, func(string) (Variant, error) { return form, nil })
				if err == nil {
					err = v.Check(s)
				}
				if err != nil {
					bad = err
				} else if !slices.ContainsFunc(list, func(c Choice) bool { return c.Variant == v }) {
					list = append(list, Choice{v, row})
				}
			}
		}
	}
	if len(list) == 0 {
		if bad == nil {
			bad = fmt.Errorf("variant: no form of %s is known for %s", text, s)
		}
		return nil, bad
	}
	return list, nil
}

// fewTokens (tokens a row) and fewHeads (batch rows x value heads) bound the cases whose decays stay in float32. bf16 rounds equal decay factors
// the same way, and few tokens or heads do not average that out. At 512 tokens, outputs of resets have a bias of 9.9e-4 with bf16 decays
// (limit 5.8e-4) and 3.0e-4 with float32. Float32 costs up to 3.7 % more cycles.
const fewTokens, fewHeads = 1024, 2

// evened returns v with float32 decays where tokens or heads are few. It applies to prefill rows of class fast, without per-channel decays; else it returns v.
func (c *Champion) evened(v Variant, s Spec) Variant {
	w := v
	w.Numerics.DecayBF16 = DecayBF16None
	few := s.Tokens <= fewTokens || s.Batch*s.HeadsV <= fewHeads
	if c.Accuracy != AccuracyFast || c.job != jobPrefill || !few || s.Rule.Channels() || w.Check(s) != nil {
		return v
	}
	return w.Canon()
}

// names reports whether the text sets the axis.
func names(text, axis string) bool {
	return slices.ContainsFunc(strings.Split(text, ","), func(change string) bool {
		name, _, _ := strings.Cut(change, "=")
		return strings.TrimSpace(name) == axis
	})
}

// championsFor returns the rows that apply to s on h, in table order, from the least strict class not below wish that has any. It panics if none has.
func championsFor(s Spec, h Host, wish Accuracy) []*Champion {
	kind := s.Rule.kind()
	for a := wish.For(s); a <= AccuracyF32; a++ {
		var all, own []*Champion // rows for every rule; rows for the rule kind of s
		for i := range Champions {
			switch r := &Champions[i]; {
			case r.Host != h || r.Accuracy != a || r.job != s.job() || !r.where.asks(s):
			case r.where.rules == allRules:
				all = append(all, r)
			case r.where.rules == kind:
				own = append(own, r)
			}
		}
		if kind != channelRules || len(own) == 0 {
			own = append(own, all...)
		}
		if len(own) > 0 {
			return own
		}
	}
	panic(fmt.Sprintf("no champion for %s on host %d", s, h)) // a test reads the table whole
}

// Short returns the shortest text of v: its name, or the nearest named variant and the axes that differ.
// Example:
//
//	tpu-128,heads=4
func (v Variant) Short() string {
	v = v.Canon()
	best, text := len(Axes), v.String()
	for _, n := range Variants {
		w, err := ParseVariant(n.Text)
		if err != nil {
			continue
		}
		changes := []string{n.Name}
		told := map[string]string{} // values already implied by an axis that sets others
		for _, a := range Axes {
			if value := a.Get(&v); value != a.Get(&w) && told[a.Name] != value && (a.Applies == nil || a.Applies(v)) {
				changes = append(changes, a.Name+"="+value)
				for _, part := range a.Sets {
					told[part] = value
				}
			}
		}
		short := strings.Join(changes, ",")
		if back, err := ParseVariant(short); err == nil && back == v && len(changes) < best {
			best, text = len(changes), short
		}
	}
	return text
}
