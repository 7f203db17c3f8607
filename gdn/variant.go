package gdn

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/gdngen/gdngen/ir"
)

// The types of a Variant's enumerated fields. Axes has the values of each and what they mean.
type (
	Algo         uint8
	Solve        uint8
	LeafBy       uint8
	Merge        uint8
	Form         uint8
	Flow         uint8
	TokenLayout  uint8
	Decay        uint8
	Place        uint8
	Joint        uint8
	Out          uint8
	Side         uint8
	Mask         uint8
	Transpose    uint8
	RowBroadcast uint8
	Scale        uint8
	TailDecay    uint8
	DecayBF16    uint8
	Split        uint8
	Save         uint8
	Unit         uint8
	Pack         uint8
	Prefetch     uint8
	Own          uint8
	DecayBy      uint8
	Sums         uint8
	Grads        uint8
)

const (
	AlgoChunk Algo = iota
	AlgoToken
)

const (
	SolveMerge Solve = iota
	SolveLadder
	SolveBlock
	SolveForward
	SolveNeumann
	SolveNewton
)

const (
	LeafSubst LeafBy = iota
	LeafNeumann
)

const (
	MergePacked Merge = iota
	MergeRows
	MergeBlocks
)

const (
	FormVPrime Form = iota
	FormUW
	FormMap
)

const (
	FlowFused Flow = iota
	FlowSplit
	FlowSolve
)

const (
	LayoutBHTD TokenLayout = iota
	LayoutBTHD
	LayoutBTLanes
	LayoutBHDT
)

const (
	DecaySplit Decay = iota
	DecayClamp
	DecaySegment
	DecayBase2
)

const (
	PlaceXLA Place = iota
	PlaceKernel
)

const (
	JointSeparate Joint = iota
	JointJoined
)

const (
	OutSeparate Out = iota
	OutJoined
	OutShared
)

const (
	BetaLeft Side = iota
	BetaRight
	BetaExponent
)

const (
	MaskSelect Mask = iota
	MaskWords
)

const (
	SplitUse Split = iota
	SplitDef
)

const (
	SaveNone Save = iota
	SaveState
	SaveInverse
	SaveAll
)

const (
	DecayByTokens DecayBy = iota
	DecayByInverse
)

const (
	GradsInRows Grads = iota
	GradsInLanes
)

const (
	SumProducts Sums = iota
	SumLanes
)

const (
	OwnInherit Own = iota // inherits precintra or precstate
	OwnF32
	OwnBF16x1
	OwnBF16x3
	OwnBF16x6
)

const (
	TailDecayK TailDecay = iota
	TailDecayV
)

const (
	ScaleQuery Scale = iota
	ScaleOutput
)

const (
	DecayBF16None DecayBF16 = iota
	DecayBF16Rows
	DecayBF16Operands
	DecayBF16All
)

const (
	TransposeValue Transpose = iota
	TransposeKey
)

const (
	BroadcastLanes RowBroadcast = iota
	BroadcastTranspose
)

const (
	PrefetchBlocks Prefetch = iota
	PrefetchDMA
)

const (
	PackGather Pack = iota
	PackAligned
	PackStream
	PackMasked
	PackSegments
)

const (
	UnitMatrix Unit = iota
	UnitVector
	UnitLanes
	UnitSums
)

// Variant is how a kernel computes the rule: the mathematical form, array layouts, and the parts below. It is comparable, and
// has a text form (String, ParseVariant), which is also its JSON form, and a Hash. Start from DefaultVariant. Canon makes variants equal that differ only
// in axes that do not apply; ParseVariant and With return canonical variants.
type Variant struct {
	Algo      Algo
	Chunk     int // tokens per chunk, a power of two
	Form      Form
	Flow      Flow
	Decay     Decay
	KQ        Joint
	Share     bool
	Beta      Side
	Fold      bool
	Out       Out
	Span      int // tokens whose pairs share one boundary, with per-channel decays
	Scale     Scale
	TailDecay TailDecay
	Unit      Unit // the unit that computes the products of the token recurrence

	Layout       TokenLayout
	Fuse         Place
	TransposeK   Transpose
	RowBroadcast RowBroadcast // how sums of decays of rows are broadcast over lanes

	Inverse  Inverse
	Mapping  Mapping
	Numerics Numerics
	Training Training
	Forward  ForwardSchedule
	Backward BackwardSchedule
}

// Inverse is how T = (I + A)^-1 is computed. The conditions of the axes say which fields a solver uses: leaves for merge, ladder and block, merge
// options for merge only.
type Inverse struct {
	Solve      Solve
	Leaf       int // block size at which the inversion starts
	LeafBy     LeafBy
	LeafNewton int
	Merge      Merge
	MergePairs int // widest block whose merges take two heads in one product
	Mask       Mask
	Refine     bool
}

// Mapping is the share of the work of one program.
type Mapping struct {
	Heads          int  // value heads of a program; 0: all
	Batch          int  // batch rows of a program, or interleaved sequences of a stream
	Chunks         int  // chunks of a program
	PersistentRows bool // batch rows run back to back in one program
	Pack           Pack // how packed sequences are cut into chunks
}

// Numerics is the precision of products and of values stored between them.
type Numerics struct {
	PrecInv       ir.Precision
	PrecIntra     ir.Precision
	PrecState     ir.Precision
	PrecApply     Own // for products with the inverse
	Split         Split
	Store         ir.DType
	DecayBF16     DecayBF16
	ErrorFeedback int // row blocks of V' that pass their rounding error on to the next block; 0: none
}

// Training selects the values that a training step saves, and how gradients are computed.
type Training struct {
	PrecGrad   Own       // for products that make gradients inside a chunk
	PrecUpdate Own       // for the state's update and the gradient of its new term
	Save       Save      // values that the forward pass saves for the backward pass
	Saved      ir.DType  // their type
	DecayBy    DecayBy   // how the gradient of the decay is summed
	DecaySums  Sums      // how its lane sums are computed
	Grads      Grads     // layout of the tokens of dq and dk
	DecayBF16  DecayBF16 // backward products with decay that use bf16
}

// DefaultVariant returns the variant with every axis at its default: float32, chunk 64, blocks merged from leaves of 8, all heads of a batch
// row in one program. It is fast on a CPU, the named variant cpu is faster.
func DefaultVariant() Variant {
	var v Variant
	for _, a := range Axes {
		if a.Default != "" {
			if err := a.Set(&v, a.Default); err != nil {
				panic(fmt.Sprintf("axis %s: default: %v", a.Name, err)) // the table is wrong; a test covers all of it
			}
		}
	}
	return v
}

// Canon returns v with every axis that does not apply at its default. Axes are judged after the axes that their conditions read, so Canon is idempotent,
// and variants that agree in all axes that apply become equal.
func (v Variant) Canon() Variant {
	for _, a := range judged {
		if !a.Applies(v) {
			_ = a.Set(&v, a.Default)
		}
	}
	return v
}

// String returns the canonical text, axes in the order of the table: axes marked Always, and others that apply and
// differ from their default. ParseVariant of it returns Canon.
//
//	algo=chunk,chunk=128,solve=merge,leaf=16,flow=fused,layout=bthd,prec=bf16x1,store=bf16
func (v Variant) String() string { return v.text(func(Axis) bool { return true }) }

// Cell returns the text of the structural axes only. Variants with equal cells differ in sizes and schedule numbers only.
func (v Variant) Cell() string { return v.text(Axis.Structural) }

func (v Variant) text(keep func(Axis) bool) string {
	v = v.Canon()
	same := v.Numerics.PrecInv == v.Numerics.PrecState && v.Numerics.PrecIntra == v.Numerics.PrecState && v.Numerics.PrecState != ir.PrecF32 && v.Algo == AlgoChunk
	var parts []string
	for _, a := range Axes {
		value := a.Get(&v)
		switch {
		case !keep(a) || a.Applies != nil && !a.Applies(v):
		case a.Sets != nil:
			if same {
				parts = append(parts, a.Name+"="+value)
			}
		case same && a.Part() != "":
		case a.Always || value != a.Default:
			parts = append(parts, a.Name+"="+value)
		}
	}
	return strings.Join(parts, ",")
}

// Hash returns 16 hexadecimal digits of the SHA-256 of the variant's text.
func (v Variant) Hash() string {
	sum := sha256.Sum256([]byte(v.String()))
	return hex.EncodeToString(sum[:8])
}

// With returns Canon with one axis changed, and axes that no longer apply at their default. An unknown axis or value is an error.
func (v Variant) With(axis, value string) (Variant, error) {
	a := lookupAxis(axis)
	v = v.Canon()
	if a == nil {
		return v, unknownAxis(axis)
	}
	if a.Applies != nil && !a.Applies(v) {
		return v, fmt.Errorf("variant: %s (%s) does not apply to %s", a.Name, a.Doc, v)
	}
	if err := a.Set(&v, value); err != nil {
		return v, fmt.Errorf("variant: %s (%s): %w", a.Name, a.Doc, err)
	}
	return v.Canon(), nil
}

// ParseVariant reads the text form: entries axis=value separated by commas, applied in order over the default, each axis
// at most once. A name of Variants may come first, and entries after it change that variant. An axis that does not apply
// to the result is an error.
func ParseVariant(text string) (Variant, error) { return parseVariantOn(text, LookupVariant) }

// parseVariantOn is ParseVariant with lookup for names of variants.
func parseVariantOn(text string, lookup func(string) (Variant, error)) (Variant, error) {
	v := DefaultVariant()
	seen := map[string]bool{}
	for i, entry := range strings.Split(text, ",") {
		entry = strings.TrimSpace(entry)
		key, value, hasValue := strings.Cut(entry, "=")
		key, value = strings.TrimSpace(key), strings.TrimSpace(value)
		a := lookupAxis(key)
		switch {
		case entry == "" && text == entry:
			return Variant{}, fmt.Errorf("variant: the text is empty (example: %s)", Variants[0].Text)
		case entry == "":
			return Variant{}, fmt.Errorf("variant: entry %d of %q is empty: remove the comma", i+1, text)
		case a == nil && i == 0 && !hasValue:
			p, err := lookup(entry)
			if err != nil {
				return Variant{}, err
			}
			v = p
			continue
		case a == nil:
			return Variant{}, unknownAxis(key)
		case seen[a.Name]:
			return Variant{}, fmt.Errorf("variant: %s is given twice", a.Name)
		case !hasValue:
			return Variant{}, fmt.Errorf("variant: %s (%s) needs a value: %s=%s", a.Name, a.Doc, a.Name, strings.Join(a.Values, "|"))
		}
		seen[a.Name] = true
		if err := a.Set(&v, value); err != nil {
			return Variant{}, fmt.Errorf("variant: %s (%s): %w", a.Name, a.Doc, err)
		}
	}
	v = v.Canon()
	for _, a := range Axes {
		if seen[a.Name] && a.Applies != nil && !a.Applies(v) {
			return Variant{}, fmt.Errorf("variant: %s (%s) does not apply to %s: leave it out%s", a.Name, a.Doc, v, v.needs(seen))
		}
	}
	return v, nil
}

// needs returns ", or take CHOICES" with one or two changes of other axes that make all wanted axes apply, or "" if it finds none.
func (v Variant) needs(wanted map[string]bool) string {
	fits := func(w Variant) bool {
		for _, a := range Axes {
			if wanted[a.Name] && a.Applies != nil && !a.Applies(w) {
				return false
			}
		}
		return true
	}
	var choices func(v Variant, most int) []string
	choices = func(v Variant, most int) []string {
		if fits(v) {
			return []string{}
		}
		if most == 0 {
			return nil
		}
		for _, a := range Axes {
			for _, value := range a.Values {
				w, err := v.With(a.Name, value)
				if err != nil || w == v {
					continue
				}
				if rest := choices(w, most-1); rest != nil {
					return append([]string{a.Name + "=" + value}, rest...)
				}
			}
		}
		return nil
	}
	for most := range 3 {
		if c := choices(v, most); len(c) > 0 {
			return ", or take " + strings.Join(c, ",")
		}
	}
	return ""
}

// MarshalText writes the text form.
func (v Variant) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

// UnmarshalText reads the text form.
func (v *Variant) UnmarshalText(text []byte) error {
	p, err := ParseVariant(string(text))
	if err == nil {
		*v = p
	}
	return err
}
