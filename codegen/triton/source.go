package triton

import (
	_ "embed"
	"fmt"
	"math/bits"
	"regexp"
	"strconv"
	"strings"
	"text/template"

	"github.com/gdngen/gdngen/codegen/python"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/ir"
)

//go:embed source.py.tmpl
var sourceText string

var templates = template.Must(template.New("source").Parse(sourceText))

// Name is the backend's name in gdngen's flags.
const Name = "triton"

// Source writes the Python file of a spec by a variant. version is the generator's.
func Source(s gdn.Spec, v Variant, version string) (string, error) {
	if err := v.Check(s); err != nil {
		return "", err
	}
	return newData(s, v, version).render()
}

// AtLaunch writes the Python file of a decode step or of a packed prefill for any number of sequences and tokens: they are those of a call, as
// are the scale, the last argument of run, and whether there is an initial state, which may be None. s is the spec of any one of them, with
// an initial state.
func AtLaunch(s gdn.Spec, v Variant, version string) (string, error) {
	if err := v.Check(s); err != nil {
		return "", err
	}
	if !decodes(s) && (s.Seqs == 0 || !s.Packed) || !s.Init || s.Pool > 0 {
		return "", fmt.Errorf("triton: %s: sizes of a call are for a decode step or packed sequences without a batch, with an initial state and without a pool", s)
	}
	d := newData(s, v, version)
	d.atLaunch(s)
	return d.render()
}

func (d *data) render() (string, error) {
	var b strings.Builder
	if err := templates.ExecuteTemplate(&b, "file", d); err != nil {
		return "", err
	}
	text := spaced(b.String())
	if err := python.Check(map[string]string{"file.py": text}); err != nil {
		return "", fmt.Errorf("triton: the Python of this spec and variant would not run, which is a fault of the generator: %w", err)
	}
	return text, nil
}

var blankLines = regexp.MustCompile(`\n{4,}`)

// spaced brings the blank lines of a rendered file in order: none where a template left a line out, two between functions.
func spaced(text string) string {
	lines := strings.Split(text, "\n")
	var out []string
	inDoc := false
	for i, line := range lines {
		line = strings.TrimRight(line, " ")
		quotes := strings.Count(line, `"""`)
		if line == "" && !inDoc {
			// inside a function no line is blank
			next := ""
			for _, l := range lines[i+1:] {
				if strings.TrimSpace(l) != "" {
					next = l
					break
				}
			}
			if strings.HasPrefix(next, "    ") {
				continue
			}
		}
		out = append(out, line)
		if quotes == 1 {
			inDoc = !inDoc
		}
	}
	return strings.TrimSpace(blankLines.ReplaceAllString(strings.Join(out, "\n"), "\n\n\n")) + "\n"
}

// data is what the templates know.
type data struct {
	Version, Spec, Variant          string
	HK, HV, K, V, KP, VP, BV, Tiles int
	PadK, PadV                      bool
	KName, VName                    string // of the widths of blocks
	Sequences, Tokens               int
	SequencesP                      int // in a power of two
	Packed                          bool
	Widest                          int    // elements of a token, of q or v
	AtLaunch                        bool   // sizes, scale and state are those of a call
	Scale, ScaleParam, ScaleValue   string // as kernels name it
	Chunked, Fuse                   bool
	Chunk, Part, Leaf, Levels       int
	Sides                           []int // of the merges
	Warps, PrepareWarps, Stages     int
	Inverse, Prec, Solve            string
	Half, HalfType, Operand, Scores string
	Solved, TSize                   string // precision of the product with T, where it has one of its own; elements of a chunk's T
	Rest                            bool   // T is held in two parts
	Fused, NegEigval, L2Norm        bool
	Pool, Init, Final, InPlace, VK  bool
	States, Groups                  int  // of the pool: what read_indices and state_indices name
	Read                            bool // states to start from have names of their own
	EmptyZero, ScanInit, ScanFinal  bool
	Gates, Params, Public, Shapes   string
	CuParam, CuArg, Held            string
	SpanParam, SpanArg, ScanParam   string // what a kernel needs that finds the sequence of a span
	PreparedParams, PreparedArgs    string
	MapParams, MapArgs              string
	Like, LikeF32                   string // tensors whose element type buffers have
	MapBV, MapTiles, MapColumns     int    // of the map of a part
	StartBV, StartTiles             int    // of the states that parts start from
	MapWarps, StartWarps            int
	Carry, Columns                  string // precision of the prefix; columns of a state, as the kernel names them
	Rounds                          bool   // some operands are rounded to tf32, which tensor cores would truncate
	Chunks, Parts                   string // how many there are at most
}

func newData(s gdn.Spec, v Variant, version string) *data {
	d := &data{
		Version: version, Spec: s.String(), Variant: v.Text(s),
		HK: s.HeadsK, HV: s.HeadsV, K: s.K, V: s.V, KP: max(16, power(s.K)), VP: max(16, power(s.V)), BV: v.BV,
		Sequences: s.Sequences(), Tokens: s.Tokens, SequencesP: power(s.Sequences()), Packed: s.Seqs > 0,
		ScaleValue: strconv.FormatFloat(s.EffectiveScale(), 'g', -1, 64), Scale: "SCALE",
		Chunked: !decodes(s), Fuse: v.Kernels == "one", Chunk: v.Chunk, Part: v.Part * v.Chunk, Leaf: v.Leaf,
		Warps: v.Warps, PrepareWarps: v.PrepareWarps, Stages: v.Stages, Inverse: v.Inverse, Prec: v.Prec, Solve: v.Solve,
		Fused: s.Gates == gdn.GatesFused, NegEigval: s.NegEigval, L2Norm: s.L2Norm,
		Pool: s.Pool > 0, States: s.Pool, Groups: s.Pool / s.Checkpoints(), Read: s.Read, Init: s.Init, Final: s.Final, InPlace: s.InPlace, VK: s.State == gdn.StateVK, EmptyZero: s.Empty == gdn.EmptyZero,
		Gates: "g, beta", LikeF32: "g", Held: "n", Half: "bf16", HalfType: "tl.bfloat16",
	}
	if !d.Chunked {
		d.KP, d.VP = power(s.K), power(s.V)
		d.VP = max(d.VP, v.BV)
	}
	d.Tiles = d.VP / v.BV
	d.PadK, d.PadV = d.KP != s.K, d.VP != s.V
	d.KName, d.VName = "K", "V"
	if d.PadK || d.PadV {
		d.KName, d.VName = "KP", "VP"
	}
	if d.Fused {
		d.Gates, d.LikeF32 = "A_log, a, dt_bias, b", "A_log"
	}
	if s.DType == ir.F16 {
		d.Half, d.HalfType = "f16", "tl.float16"
	}
	d.Operand, d.Like, d.Scores = "tl.float32", d.LikeF32, "product"
	if v.Prec == "bf16" {
		d.Operand, d.Like = d.HalfType, "q"
	}
	if s.DType != ir.F32 && (!s.L2Norm || v.Prec == "bf16") {
		d.Scores = "tl.dot" // of operands that are in half precision already
	}
	if d.TSize = "(C * C)"; d.Chunked && v.TParts == 2 && (v.Prec == "bf16" || v.Prec == "tf32") {
		if d.Solved, d.Rest = "tf32x3", v.Prec == "bf16"; d.Rest {
			d.TSize = "(2 * C * C)"
		}
	}
	for side := v.Leaf; side < v.Chunk; side *= 2 {
		d.Sides = append(d.Sides, side)
	}
	d.Levels = bits.Len(uint(v.Chunk/max(1, v.Leaf))) - 1
	if d.Pool {
		d.Held = "tl.maximum(held, 0)"
	}
	if d.Packed {
		d.CuParam, d.CuArg = ", cu_seqlens", "cu_seqlens, "
	}
	if !d.Fuse {
		d.MapParams, d.MapArgs = ", T_in, G_in, rate_in", ", T, G, rate"
		d.PreparedParams, d.PreparedArgs = ", T_in, P_in, G_in, rate_in", ", T, P, G, rate"
	}
	d.SpanParam, d.SpanArg, d.ScanParam = d.CuParam, d.CuArg, d.CuParam
	d.ScanInit, d.ScanFinal = d.Init && d.Part == 0, d.Final && d.Part == 0
	d.MapColumns = d.VP + d.KP
	d.MapBV, d.MapWarps, d.StartBV, d.StartWarps, d.Columns = v.MapBV, v.Warps, startBV, startWarps, "BV"
	d.MapTiles, d.StartTiles = d.MapColumns/max(1, v.MapBV), d.VP/startBV
	if d.Carry = v.Prec; v.Prec == "bf16" {
		d.Carry = "tf32" // as many bits as what is carried has, and more
	}
	d.Rounds = d.Prec == "tf32" || d.Solve == "tf32" && d.Inverse != "substitution" || d.Carry == "tf32" && d.Part > 0
	d.Chunks, d.Parts = d.count(v.Chunk), d.count(d.Part)
	d.signature(s)
	return d
}

// atLaunch leaves sizes, scale and state to a call.
func (d *data) atLaunch(s gdn.Spec) {
	d.AtLaunch, d.Scale, d.ScaleParam, d.Widest = true, "scale", ", scale", max(s.HeadsK*s.K, s.HeadsV*s.V)
	var shapes []string
	for _, p := range append(s.Inputs(), s.Outputs()...) {
		shape := fmt.Sprint(p.Type.Shape)
		first, rest, more := strings.Cut(strings.Trim(shape, "[]"), " ")
		switch p.Name {
		case "A_log", "dt_bias":
		case "cu_seqlens":
			first = "sequences + 1"
		case "initial_state", "final_state":
			first = "sequences"
		default:
			if first = "tokens"; !d.Packed {
				first = "sequences"
			}
		}
		if more {
			first += ", " + strings.ReplaceAll(rest, " ", ", ")
		}
		shapes = append(shapes, p.Name+" ["+first+"] "+p.Type.DType.String())
	}
	d.Shapes = strings.Join(shapes, ", ")
	s.Batch, s.Tokens, s.Seqs, s.Scale = 1, 1, 0, 0
	d.Spec = strings.TrimPrefix(s.String(), "b=1,t=1,")
	if d.Packed {
		d.SequencesP = someSequences
		d.SpanParam, d.SpanArg = ", cu_seqlens, sequences", "cu_seqlens, sequences, "
		if d.Part > 0 {
			d.ScanParam = d.SpanParam
		}
	}
	d.Chunks, d.Parts = d.count(d.Chunk), d.count(d.Part)
}

// count is the number of spans of a size, or of packed sequences a bound: it is reached where each has one token more than whole spans.
func (d *data) count(size int) string {
	switch {
	case size == 0:
		return ""
	case d.AtLaunch:
		return fmt.Sprintf("(tokens + sequences * %d) // %d", size-1, size)
	case d.Packed:
		return strconv.Itoa((d.Tokens + d.Sequences*(size-1)) / size)
	}
	return strconv.Itoa(d.Sequences * ((d.Tokens + size - 1) / size))
}

// Operands are those of a product in float32, by its precision.
func (d *data) Operands(a, b string) string {
	if d.Prec == "tf32" {
		return "rounded(" + a + "), rounded(" + b + ")"
	}
	return a + ".to(tl.float32), " + b + ".to(tl.float32)"
}

// signature writes the parameters of the kernels and of run, with their shapes.
func (d *data) signature(s gdn.Spec) {
	var names, shapes []string
	for _, p := range append(s.Inputs(), s.Outputs()...) {
		names = append(names, p.Name)
		shapes = append(shapes, p.Name+" "+strings.ReplaceAll(fmt.Sprint(p.Type.Shape), " ", ", ")+" "+p.Type.DType.String())
	}
	d.Params, d.Public, d.Shapes = strings.Join(names, ", "), strings.Join(names, ", "), strings.Join(shapes, ", ")
}

// A program of combine holds startBV columns: the prefix is short, and narrow programs are many.
const startBV, startWarps = 16, 4

// someSequences are looked at together where their number is known at launch alone.
const someSequences = 64

// Programs is the programs of a kernel that has one for each tile of a sequence's head.
func (d *data) Programs() string { return d.ofSequences(d.HV * d.Tiles) }

// StartPrograms is the same of the states that parts start from.
func (d *data) StartPrograms() string { return d.ofSequences(d.HV * d.StartTiles) }

func (d *data) ofSequences(each int) string {
	if d.AtLaunch {
		return fmt.Sprintf("sequences * %d", each)
	}
	return strconv.Itoa(d.Sequences * each)
}

// Starts is what templates know where states are those that parts start from.
func (d *data) Starts() *data {
	starts := *d
	starts.Columns = "START_BV"
	return &starts
}

// Source is where the state lies that a sequence starts from, in place of that which it leaves.
func (d *data) Source(left string) string {
	if d.Read {
		return "at_source"
	}
	return left
}

// SourceMask is which elements of it there are: none where a sequence starts from zeros.
func (d *data) SourceMask(rk, rv string) string {
	if d.Read {
		return "(source >= 0) & " + d.StateMask(rk, rv)
	}
	return d.StateMask(rk, rv)
}

// StateMask is which elements of a padded state there are, or of a pool's state that none holds; empty: all.
func (d *data) StateMask(rk, rv string) string {
	var l []string
	if d.Pool {
		l = append(l, "(held >= 0)")
	}
	if d.PadK {
		l = append(l, "("+rk+" < K)")
	}
	if d.PadV {
		l = append(l, "("+rv+" < V)")
	}
	return strings.Join(l, " & ")
}
