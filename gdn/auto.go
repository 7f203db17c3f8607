package gdn

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gdngen/gdngen/internal/suggest"
	"github.com/gdngen/gdngen/ir"
)

// Host is what runs a program.
type Host uint8

// The hosts.
const (
	HostTPU      Host = iota // kernels of a TPU
	HostCPU                  // plain ops of a CPU or GPU
	HostLoops                // graph code of a framework that slices at run time
	HostUnrolled             // graph code whose loops are unrolled
)

// Accuracy is the class of errors that auto keeps to. Each includes those after it: more is always allowed.
type Accuracy uint8

// The classes of accuracy.
const (
	AccuracyAny  Accuracy = iota // fast for bf16 tensors, as float32 for others
	AccuracyFast                 // matrix products in one bf16 pass
	AccuracyFLA                  // at most the error of flash-linear-attention in bf16
	AccuracyF32                  // nearly that of float32
)

// accuracyNames are the classes as --accuracy takes them, and behind "auto-" in a text.
var accuracyNames = []string{"", "fast", "fla", "f32-like"}

// AccuracyNames lists the classes of accuracy, the fastest first.
func AccuracyNames() []string { return slices.Clone(accuracyNames[1:]) }

// ParseAccuracy finds a class by name; an empty name is AccuracyAny.
func ParseAccuracy(name string) (Accuracy, error) {
	i := slices.Index(accuracyNames, name)
	if i < 0 {
		return 0, fmt.Errorf("unknown accuracy %q%s (known: %s)", name, suggest.Name(name, accuracyNames[1:]), strings.Join(accuracyNames[1:], " "))
	}
	return Accuracy(i), nil
}

// Auto is the text that stands for the best known variant.
const Auto = "auto"

// String is the name of the class; it is empty for AccuracyAny.
func (a Accuracy) String() string { return accuracyNames[a] }

// For is the class that is wished for a spec: AccuracyAny follows from its tensors.
func (a Accuracy) For(s Spec) Accuracy {
	switch {
	case a != AccuracyAny:
		return a
	case s.DType == ir.F32:
		return AccuracyF32
	}
	return AccuracyFast
}

// Text is auto with a class of accuracy, such as auto-fla.
func (a Accuracy) Text() string {
	if a == AccuracyAny {
		return Auto
	}
	return Auto + "-" + accuracyNames[a]
}

// AutoNames lists the texts that stand for the best known variants: auto, and auto of each class of accuracy.
func AutoNames() []string {
	names := make([]string, len(accuracyNames))
	for i := range accuracyNames {
		names[i] = Accuracy(i).Text()
	}
	return names
}

// ParseAuto says whether a text stands for the best known variant: auto or auto-ACCURACY, and changes of axes behind it.
func ParseAuto(text string) (a Accuracy, ok bool) {
	name, _, _ := strings.Cut(text, ",")
	i := slices.Index(AutoNames(), strings.TrimSpace(name))
	return Accuracy(max(i, 0)), i >= 0
}

// WithAccuracy puts a class of accuracy into a text of auto.
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

// job is what a spec asks for, as far as it decides which variant is best.
type job uint8

const (
	jobPrefill  job = iota // many tokens of each batch row
	jobPacked              // sequences along the tokens
	jobDecode              // a few tokens of each batch row
	jobTraining            // gradients
)

// decodeTokens is the most tokens of a sequence for which the token recurrence is faster than chunks.
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

// Choice is a form that auto may take, and the row of Champions that it comes from.
type Choice struct {
	Variant Variant
	From    *Champion
}

// Choices gives the forms that a text of auto stands for, for a spec on a host, the most wanted first; the caller takes the first
// that fits its memory. Changes of axes hold in all of them.
//
// Rows of Champions are asked in their order, those of the least class of accuracy that is as good as the one wished. The last row of
// a job holds always. On a TPU each gives its variant in the forms that suit spec and machine.
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
	if names(text, "row_chain") { // whoever names the axis has the forms of rows apart, with what it says of them
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

// fewTokens is the most tokens of a row, and fewHeads the most rows of heads, whose decays are in float32. Factors in bf16 of decays alike are rounded
// alike, which few do not even out: outputs of resets have a bias of 9.9e-4 at 512 tokens (5.8e-4 is allowed), in float32 of 3.0e-4. It takes up to
// 3.7 % more cycles.
const fewTokens, fewHeads = 1024, 2

// evened is a form of prefill in one pass with decays in float32, where tokens or heads are few.
func (c *Champion) evened(v Variant, s Spec) Variant {
	w := v
	w.Numerics.DecayBF16 = DecayBF16None
	few := s.Tokens <= fewTokens || s.Batch*s.HeadsV <= fewHeads
	if c.Accuracy != AccuracyFast || c.job != jobPrefill || !few || s.Rule.Channels() || w.Check(s) != nil {
		return v
	}
	return w.Canon()
}

// names says whether a text sets an axis.
func names(text, axis string) bool {
	return slices.ContainsFunc(strings.Split(text, ","), func(change string) bool {
		name, _, _ := strings.Cut(change, "=")
		return strings.TrimSpace(name) == axis
	})
}

// championsFor lists the rows for a spec.
func championsFor(s Spec, h Host, wish Accuracy) []*Champion {
	kind := s.Rule.kind()
	for a := wish.For(s); a <= AccuracyF32; a++ {
		var all, own []*Champion // those for all rules, and for those of the spec's kind
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

// Short is the shortest text of a variant: its name, or that of the nearest one with what is changed.
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
		told := map[string]string{} // values that an axis which stands for others has set
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
