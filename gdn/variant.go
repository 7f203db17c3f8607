package gdn

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/gdngen/gdngen/ir"
)

// The choices of a Variant. What each means is its row of Axes.
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
	Fetch        uint8
	Own          uint8
	DecayBy      uint8
	Sums         uint8
	Grads        uint8
)

// Values of the choices.
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
	OwnInherit Own = iota // that of precintra, or of precstate
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
	FetchWindows Fetch = iota
	FetchCopies
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

// Variant is how a kernel computes the rule: the form of the mathematics and how arrays lie, then the parts below. It is comparable, and
// has a text form (String, ParseVariant), which is also its JSON form, and a Hash. Start from DefaultVariant. Two variants that differ only
// in axes that do not apply to them are made equal by Canon; ParseVariant and With return canonical variants.
type Variant struct {
	Algo      Algo
	Chunk     int // tokens of a chunk, a power of two
	Form      Form
	Flow      Flow
	Decay     Decay
	KQ        Joint
	Share     bool
	Beta      Side
	Fold      bool
	Out       Out
	Span      int // tokens whose pairs have one boundary, where each channel has a decay
	Scale     Scale
	TailDecay TailDecay
	Unit      Unit // where the token recurrence has its products

	Layout       TokenLayout
	Fuse         Place
	TransposeK   Transpose
	RowBroadcast RowBroadcast // of the sums of decay of rows over lanes

	Inverse  Inverse
	Mapping  Mapping
	Numerics Numerics
	Training Training
	Forward  ForwardSchedule
	Backward BackwardSchedule
}

// Inverse is how T = (I + A)^-1 is made. Which of the choices a solver has, the axes say: a leaf is for merge, ladder and block, and what
// merges take is for merge alone.
type Inverse struct {
	Solve      Solve
	Leaf       int // block that the inversion starts from
	LeafBy     LeafBy
	LeafNewton int
	Merge      Merge
	MergePairs int // widest block whose merges take two heads in a product
	Mask       Mask
	Refine     bool
}

// Mapping is what a program has of the work.
type Mapping struct {
	Heads  int  // value heads of a program; 0: all
	Batch  int  // batch rows of a program, or sequences of a stream
	Chunks int  // chunks of a program
	Chain  bool // batch rows follow one another in one program
	Pack   Pack // how packed sequences fall into chunks
}

// Numerics is how products are rounded, and what is kept between them.
type Numerics struct {
	PrecInv       ir.Precision
	PrecIntra     ir.Precision
	PrecState     ir.Precision
	PrecApply     Own // of the products with the inverse
	Split         Split
	Store         ir.DType
	DecayBF16     DecayBF16
	ErrorFeedback int // blocks of rows of V' of which each takes what rounding left of the one before; 0: none
}

// Training is what a training step keeps and how its gradients are made.
type Training struct {
	PrecGrad   Own       // of the products that make gradients inside a chunk
	PrecUpdate Own       // of the state's update, and of the gradient of what it adds
	Save       Save      // what the forward pass keeps for the backward pass
	Saved      ir.DType  // its type
	DecayBy    DecayBy   // how the gradient of the decay is summed
	DecaySums  Sums      // how it is summed over lanes
	Grads      Grads     // where tokens of dq and dk are
	DecayBF16  DecayBF16 // which products with decay of the backward kernel are in bf16
}

// DefaultVariant has every axis at its default: float32, chunk 64, blocks merged from leaves of 8, all heads of a batch
// row in one program. It runs well on a CPU; the named variant cpu runs better there.
func DefaultVariant() Variant {
	var v Variant
	for _, a := range Axes {
		if a.Default != "" {
			if err := a.Set(&v, a.Default); err != nil {
				panic(fmt.Sprintf("axis %s: default: %v", a.Name, err)) // the table is wrong; a test reads it whole
			}
		}
	}
	return v
}

// Canon puts every axis that does not apply at its default. An axis is judged after those that it depends on, so a choice that does
// not apply decides nothing: Canon of Canon is Canon, and variants that are equal in all that applies become equal.
func (v Variant) Canon() Variant {
	for _, a := range judged {
		if !a.Applies(v) {
			_ = a.Set(&v, a.Default)
		}
	}
	return v
}

// String gives the canonical text, axes in the order of the table: those marked Always, and the others that apply and
// differ from their default. ParseVariant gives Canon back.
//
//	algo=chunk,chunk=128,solve=merge,leaf=16,flow=fused,layout=bthd,prec=bf16x1,store=bf16
func (v Variant) String() string { return v.text(func(Axis) bool { return true }) }

// Cell is the text of the structural axes alone: variants that share it differ in scalars only.
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

// Hash identifies the variant: 16 hexadecimal digits of the SHA-256 of its text.
func (v Variant) Hash() string {
	sum := sha256.Sum256([]byte(v.String()))
	return hex.EncodeToString(sum[:8])
}

// With changes one axis of Canon, named as in the text form, and puts axes that no longer apply at their default.
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

// parseVariantOn reads the text form with names given by lookup.
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

// needs gives ", or take CHOICES" with the first one or two other choices by which all wanted axes apply, or nothing.
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
