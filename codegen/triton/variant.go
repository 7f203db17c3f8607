package triton

import (
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"strings"

	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/ir"
)

// Variant is how a spec is computed: the algorithm, its precision and its mapping to programs. It is comparable, and its text (String, Parse)
// is its identity.
type Variant struct {
	BV           int    // columns of a state, over V, that a program holds
	Warps        int    // of a program that holds a state
	Stages       int    // of the software pipeline over chunks
	Chunk        int    // tokens of a chunk
	Kernels      string // one: T and P are made where states are; two: by a kernel of their own, prepare
	PrepareWarps int    // of a program of prepare
	Part         int    // chunks of a part, parts running beside each other; 0: a sequence is not cut
	MapBV        int    // columns of a part's map that a program holds
	Inverse      string // blocks, masked or substitution
	Leaf         int    // rows of a block that is inverted by substitution, before merges
	Prec         string // of products with values and states: bf16, tf32, tf32x3 or ieee
	Solve        string // of products inside of the inverse: tf32, tf32x3 or ieee
	TParts       int    // parts of T = (I + A)^-1 in its product: 1 or 2
}

// Axis is one choice of a variant.
type Axis struct {
	Name, Doc string
	Values    []string // that are allowed

	get    func(*Variant) *int
	text   func(*Variant) *string
	applys func(gdn.Spec, Variant) bool // nil: always
}

func prefill(s gdn.Spec, _ Variant) bool { return !decodes(s) }

// Axes lists the choices, in the order of the text.
var Axes = []Axis{
	{Name: "bv", Doc: "columns of a state that a program holds; V over it is the programs of a head", Values: powers(4, 256), get: func(v *Variant) *int { return &v.BV }},
	{Name: "warps", Doc: "warps of a program that holds a state", Values: powers(1, 16), get: func(v *Variant) *int { return &v.Warps }},
	{Name: "stages", Doc: "stages of the software pipeline over chunks", Values: []string{"1", "2", "3", "4"}, get: func(v *Variant) *int { return &v.Stages }, applys: prefill},
	{Name: "chunk", Doc: "tokens of a chunk", Values: powers(16, 128), get: func(v *Variant) *int { return &v.Chunk }, applys: prefill},
	{Name: "kernels", Doc: "one: T and P are made where states are; two: by a kernel of their own, once for all programs of a head", Values: []string{"one", "two"}, text: func(v *Variant) *string { return &v.Kernels }, applys: prefill},
	{Name: "preparewarps", Doc: "warps of a program that makes T and P", Values: powers(1, 16), get: func(v *Variant) *int { return &v.PrepareWarps },
		applys: func(s gdn.Spec, v Variant) bool { return prefill(s, v) && v.Kernels == "two" }},
	{Name: "part", Doc: "chunks of a part; parts of a sequence run beside each other and are combined by a prefix (context parallelism); 0: not cut",
		Values: append([]string{"0"}, powers(1, 256)...), get: func(v *Variant) *int { return &v.Part }, applys: prefill},
	{Name: "mapbv", Doc: "columns of a part's map, of V + K, that a program holds", Values: powers(16, 256), get: func(v *Variant) *int { return &v.MapBV },
		applys: func(s gdn.Spec, v Variant) bool { return prefill(s, v) && v.Part > 0 }},
	{Name: "inverse", Doc: "of I + A: blocks, leaves on the diagonal merged pair by pair; masked, the same by products of the whole chunk; substitution, row by row",
		Values: []string{"blocks", "masked", "substitution"}, text: func(v *Variant) *string { return &v.Inverse }, applys: prefill},
	{Name: "leaf", Doc: "rows of a leaf of the inverse", Values: powers(16, 64), get: func(v *Variant) *int { return &v.Leaf },
		applys: func(s gdn.Spec, v Variant) bool { return prefill(s, v) && v.Inverse != "substitution" }},
	{Name: "prec", Doc: "operands of products with values and states", Values: []string{"bf16", "tf32", "tf32x3", "ieee"}, text: func(v *Variant) *string { return &v.Prec }, applys: prefill},
	{Name: "solve", Doc: "operands of products inside of the inverse", Values: []string{"tf32", "tf32x3", "ieee"}, text: func(v *Variant) *string { return &v.Solve },
		applys: func(s gdn.Spec, v Variant) bool { return prefill(s, v) && v.Inverse != "substitution" }},
	{Name: "tparts", Doc: "parts that T = (I + A)^-1 has in its product: with 2 its rows cancel as they should where keys agree", Values: []string{"1", "2"}, get: func(v *Variant) *int { return &v.TParts },
		applys: func(s gdn.Spec, v Variant) bool { return prefill(s, v) && (v.Prec == "bf16" || v.Prec == "tf32") }},
}

// powers lists the powers of two from one to another.
func powers(from, to int) (list []string) {
	for n := from; n <= to; n *= 2 {
		list = append(list, strconv.Itoa(n))
	}
	return list
}

func (a Axis) value(v Variant) string {
	if a.get != nil {
		return strconv.Itoa(*a.get(&v))
	}
	return *a.text(&v)
}

// Value is the value of an axis; ok is false where it changes no program of the spec, or there is none of that name.
func (v Variant) Value(s gdn.Spec, axis string) (value string, ok bool) {
	i := slices.IndexFunc(Axes, func(a Axis) bool { return a.Name == axis })
	if i < 0 || !Axes[i].Applies(s, v) {
		return "", false
	}
	return Axes[i].value(v), true
}

// structural are the axes that make another program, rather than the same in other sizes.
var structural = []string{"kernels", "part", "inverse", "prec", "solve", "tparts"}

// Cell returns the structural axes of a variant as text: variants of one cell differ only in sizes. The number of
// chunks of a part counts only as none or some.
func (v Variant) Cell(s gdn.Spec) string {
	var parts []string
	for _, name := range structural {
		value, ok := v.Value(s, name)
		if !ok {
			continue
		}
		if name == "part" && value != "0" {
			value = "n"
		}
		parts = append(parts, name+"="+value)
	}
	return strings.Join(parts, ",")
}

// Applies says whether the axis changes a program.
func (a Axis) Applies(s gdn.Spec, v Variant) bool { return a.applys == nil || a.applys(s, v) }

// With gives the variant with another value of an axis.
func (v Variant) With(axis, value string) (Variant, error) {
	var names []string
	for _, a := range Axes {
		names = append(names, a.Name)
		if a.Name != axis {
			continue
		}
		if !slices.Contains(a.Values, value) {
			return v, fmt.Errorf("triton variant: %s=%s: want %s", axis, value, strings.Join(a.Values, ", "))
		}
		if a.get != nil {
			*a.get(&v), _ = strconv.Atoi(value)
		} else {
			*a.text(&v) = value
		}
		return v, nil
	}
	return v, fmt.Errorf("triton variant: there is no axis %q (axes: %s)", axis, strings.Join(names, " "))
}

// decodes says whether a spec is one step of the recurrence.
func decodes(s gdn.Spec) bool { return s.Tokens == 1 && s.Seqs == 0 }

// Default returns the variant from which a search for a spec starts. A decode step has one warp and 8 columns a
// program, or 4 if there are few programs. A prefill whose sequences would leave a GPU idle is split into parts of
// chunks of 64; another has chunks of 32, in wide programs without a pipeline if programs are many. float32 inputs keep
// their precision, with chunks of 64. The choices come from times on an h100 and an h200 for the contest's heads
// (docs/gpu.md), and from modelled times elsewhere.
func Default(s gdn.Spec) Variant {
	v := Variant{BV: 8, Warps: 1, Stages: 2, Chunk: 64, Kernels: "two", PrepareWarps: 2, MapBV: 64, Inverse: "blocks", Leaf: 16, Prec: "bf16", Solve: "tf32x3", TParts: 2}
	if s.DType == ir.F32 {
		v.Prec = "tf32x3"
	}
	if decodes(s) && s.Sequences()*s.HeadsV*power(s.V)/v.BV < 256 {
		v.BV = 4 // few programs: latency counts, and narrow ones have less to add up
	}
	if !decodes(s) {
		v.BV, v.Warps = min(32, max(16, power(s.V))), 4
		// 132 to 148 multiprocessors want a program each, or two narrow ones
		programs, chunks := s.Sequences()*s.HeadsV*max(1, power(s.V)/v.BV), s.Tokens/max(1, s.Seqs)/v.Chunk
		half := v.Prec == "bf16"
		wide := half && power(s.V) >= 64
		switch {
		case programs < 256 && chunks >= 16:
			if v.Part = power(max(4, chunks*programs/256)); wide {
				v.BV = 64
			}
		case wide && programs >= 256: // programs share loads through the cache, and two programs of an SM hide each other's latency
			v.BV, v.Stages, v.Chunk, v.PrepareWarps = 64, 1, 32, 1
		case half:
			v.Chunk = 32 // T of 32 rows is cheap to make
		}
	}
	return v.kept(s)
}

// kept is a variant of our own choice in its canonical form, with a pipeline where Triton's code would stray without.
func (v Variant) kept(s gdn.Spec) Variant {
	if v = v.canon(s); v.miscompiles(s) {
		v.Stages = 2
	}
	return v
}

// miscompiles says that Triton's code of a variant would read beyond its shared memory. Since 3.6 the products of a warp group that have fewer than 64
// columns and are outside of a pipeline do so on an h100 (triton-lang/triton issues 10486, 10573 and 11366; seen with columns of 16 and 32, with 4
// and 8 warps, in scan and summarise; 2 warps form no group). The other kernels ran: the loads of combine, whose products have 16 columns, are in a
// pipeline, and those of prepare have 64 columns or are of fewer rows than a group takes.
func (v Variant) miscompiles(s gdn.Spec) bool {
	return !decodes(s) && v.Stages == 1 && v.Warps >= 4 && (v.BV < 64 || v.Part > 0 && v.MapBV < 64)
}

// Presets are named variants: starting points beside the default.
var Presets = []struct{ Name, Doc, Text string }{
	{"naive", "substitution over rows of 64, the widest tile of V, no context parallelism", "bv=256,inverse=substitution,part=0,stages=1"},
}

// Parse reads a variant of a spec: auto or a preset first, then changes such as bv=32,prec=tf32.
func Parse(text string, s gdn.Spec) (Variant, error) {
	v := Default(s)
	name, changes, _ := strings.Cut(text, ",")
	name = strings.TrimSpace(name)
	p := slices.IndexFunc(Presets, func(p struct{ Name, Doc, Text string }) bool { return p.Name == name })
	switch {
	case p >= 0:
		var err error
		if v, err = v.changed(Presets[p].Text); err != nil {
			return v, err
		}
		v.BV = min(v.BV, max(16, power(s.V))) // the widest tile that there is
		v = v.kept(s)
	case name != "" && name != "auto":
		changes = text
	}
	v, err := v.changed(changes)
	if err != nil {
		return v, err
	}
	v = v.canon(s)
	return v, v.Check(s)
}

// changed follows changes such as bv=32,prec=tf32.
func (v Variant) changed(text string) (Variant, error) {
	if strings.TrimSpace(text) == "" {
		return v, nil
	}
	for change := range strings.SplitSeq(text, ",") {
		axis, value, set := strings.Cut(strings.TrimSpace(change), "=")
		if !set {
			return v, fmt.Errorf("triton variant: %q: want auto, naive, or changes such as bv=32,prec=tf32", strings.TrimSpace(change))
		}
		var err error
		if v, err = v.With(axis, value); err != nil {
			return v, err
		}
	}
	return v, nil
}

// canon sets what changes nothing to its default, so that equal programs have equal variants.
func (v Variant) canon(s gdn.Spec) Variant {
	usual := Variant{Stages: 2, Chunk: 64, Kernels: "two", PrepareWarps: 2, MapBV: 64, Inverse: "blocks", Leaf: 16, Prec: "bf16", Solve: "tf32x3", TParts: 2}
	for _, a := range Axes {
		if a.Applies(s, v) {
			continue
		}
		if a.get != nil {
			*a.get(&v) = *a.get(&usual)
		} else {
			*a.text(&v) = *a.text(&usual)
		}
	}
	v.BV = min(v.BV, max(power(s.V), v.leastBV(s)))
	v.MapBV = min(v.MapBV, max(16, power(s.K)), max(16, power(s.V)))
	if v.Leaf > v.Chunk {
		v.Leaf = v.Chunk
	}
	return v
}

func (v Variant) leastBV(s gdn.Spec) int {
	if decodes(s) {
		return 4
	}
	return 16 // the narrowest product of Triton
}

// Text is the variant of a spec: the axes that change its program.
func (v Variant) Text(s gdn.Spec) string {
	var parts []string
	for _, a := range Axes {
		if a.Applies(s, v) {
			parts = append(parts, a.Name+"="+a.value(v))
		}
	}
	return strings.Join(parts, ",")
}

// Precision is what the errors of a variant are judged at (see gdn/exam). tf32 has no limits of its own: it is held to those of bf16.
func (v Variant) Precision(s gdn.Spec) string {
	switch {
	case decodes(s) || v.Prec == "ieee" && v.Solve == "ieee":
		return "f32"
	case v.Prec == "tf32x3" && v.Solve != "tf32", v.Prec == "ieee" && v.Solve == "tf32x3":
		return "bf16x3"
	}
	return "bf16x1"
}

// power is the least power of two that is not below n.
func power(n int) int { return 1 << bits.Len(uint(max(n, 1)-1)) }

// Supports says why a spec has no Triton program.
func Supports(s gdn.Spec) error {
	switch {
	case s.Rule != (gdn.Rule{}):
		return fmt.Errorf("triton: rule=%s: kernels of the gated delta rule alone are written; --backend stablehlo has every rule, by XLA", s.Rule)
	case s.Direction != gdn.Forward:
		return fmt.Errorf("triton: direction=%s: kernels of the forward pass alone are written; gen --package of a spec without direction has gradients for torch, --backend stablehlo by XLA", s.Direction)
	case s.Window || s.Every > 0:
		return fmt.Errorf("triton: window, every: kernels leave the state after the last token alone; leave them out")
	case s.Conv > 0:
		return fmt.Errorf("triton: conv: kernels take q, k and v behind the convolution; leave it out")
	case s.Rows == gdn.RowsQKV:
		return fmt.Errorf("triton: rows=qkv: kernels take q, k and v apart, in the order of elements of rows=heads; take rows=flat")
	case max(s.K, s.V) > 256:
		return fmt.Errorf("triton: k=%d, v=%d: heads of at most 256 are written, as a state must fit the registers of a program", s.K, s.V)
	}
	return nil
}

// Check says why a variant can not compute a spec.
func (v Variant) Check(s gdn.Spec) error {
	if err := Supports(s); err != nil {
		return err
	}
	fault := func(format string, args ...any) error { return fmt.Errorf("triton variant: "+format, args...) }
	switch least := v.leastBV(s); {
	case v.BV < least:
		return fault("bv=%d: products of Triton are at least %d wide", v.BV, least)
	case decodes(s):
		return nil
	case v.Prec == "bf16" && s.DType == ir.F32:
		return fault("prec=bf16 rounds inputs that dtype=f32 promises to keep: take tf32x3, or tf32 for speed")
	case v.Kernels == "one" && v.Inverse == "substitution":
		return fault("inverse=substitution goes with kernels=two: each program of a head would repeat it")
	case v.Inverse != "substitution" && v.Leaf > v.Chunk:
		return fault("leaf=%d exceeds chunk=%d", v.Leaf, v.Chunk)
	case v.miscompiles(s):
		mend := "take stages=2"
		if power(s.V) >= 64 {
			mend += ", or 64 columns"
		}
		return fault("stages=1 with fewer than 64 columns (bv=%d, mapbv=%d) reads beyond shared memory, by a fault of Triton 3.6: %s", v.BV, v.MapBV, mend)
	}
	return nil
}
