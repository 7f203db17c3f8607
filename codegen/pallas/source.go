package pallas

import (
	"bytes"
	_ "embed"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"text/template"

	"github.com/gdngen/gdngen/codegen/pallas/extent"
	"github.com/gdngen/gdngen/codegen/pallas/family"
	"github.com/gdngen/gdngen/codegen/pallas/folder"
	"github.com/gdngen/gdngen/codegen/pallas/helpers"
	"github.com/gdngen/gdngen/codegen/pallas/lists"
	"github.com/gdngen/gdngen/codegen/pallas/orders"
	"github.com/gdngen/gdngen/codegen/pallas/pytext"
	"github.com/gdngen/gdngen/codegen/pass"
	"github.com/gdngen/gdngen/codegen/python"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/truth"
	"github.com/gdngen/gdngen/ir"
)

//go:embed source.py.tmpl
var sourceText string

var templates = template.Must(template.Must(template.New("source").Parse(sourceText+family.Templates)).ParseFS(packageText, "*.py.tmpl"))

// Cost is the static cost of the kernels on a target.
type Cost = orders.Cost

// Provenance says how a file was made.
type Provenance struct {
	Version  string // of the generator
	Revision string // of its source, for a package's README; "" if unknown
	Command  string // the command that writes a package again; may be ""
	Costs    []Cost // empty: not counted
	Libtpu   string // the compiler that Costs were counted with
	Unasked  bool   // costs were not asked for

	Tell func(string) // called before each kernel file of a package is built, which takes seconds; may be nil
}

// Spec returns the spec that a file for s computes: it always takes an initial state, zeros by default.
func Spec(s gdn.Spec) gdn.Spec {
	s.Init = true
	return s
}

// Source writes the Python file of a spec by a variant, from b's modules: kernels, the functions that call them, a differentiable
// function and a self-check.
func Source(s gdn.Spec, v gdn.Variant, b Build, p Provenance) (string, error) {
	f, err := newFile(s, v, b, p)
	if err != nil {
		return "", err
	}
	text := f.text()
	if err := runs(map[string]string{"file.py": text}); err != nil {
		return "", err
	}
	return text, nil
}

// runs returns an error if the text of Python files shows that they can not run.
func runs(files map[string]string) error {
	if err := python.Check(files); err != nil {
		return fmt.Errorf("pallas: the Python of this spec and variant would not run, which is a fault of the generator: %w; take another variant or the mosaic backend, and report it with the command", err)
	}
	return nil
}

// file is a Python file and the facts of its spec.
type file struct {
	*code
	variant gdn.Variant // fitted to every size
	extent  extent.Extent
	doc     string
	test    string
	data    fileData
}

type fileData struct {
	Rule                               gdn.Rule
	Text                               family.Rule
	Params                             []fileParam
	ArgHints, Args, PublicHints        string
	Short, Train                       bool   // whether a package has kernels for short sequences, and for the gradient
	TokenHints, TokenArgs, TokenPairs  string // of the arguments without the state
	Result, OutType, StateType, OutDoc string
	Scale, CheckArgs, DTypes, AxesText string
	Bound, Closed                      string // the lowest log decay, "" for none; a raw gate without decay
	Seqs, Tokens                       int
	HeadsK, HeadsV, K, V               int
	Axes                               []fileAxes
	extent.Extent
	Fused, NegEigval, L2Norm, Packed bool
	StateVK, EmptyZero, Final        bool
	Kernels, Kept                    bool   // the gradient is by kernels; they read values that the forward pass saved
	Decode, Exact                    bool   // for few tokens per sequence; outputs are exact sums
	Numbers                          bool   // some gates have one number per head
	Pool                             bool   // states may be in a pool
	Part                             bool   // it is part of a package
	Ungraded                         bool   // no gradient: another file of the package has it
	Ragged                           bool   // q, k, v and o may end within a block of tokens
	Options, Kinds, KindNames        string // compiler options in a package, and the device kinds that need them
	Imports                          string // of kernel modules
	Orders                           orders.List
	VMEM                             int // MiB of VMEM that kernels may take
	Limit, GradientLimit, Name, Run  string
}

// by is a rule in float32 by JAX, or in float64 by NumPy.
type by struct {
	fileData
	Np, Sigmoid string
}

// JAX returns the data for the rule in JAX.
func (d fileData) JAX() by { return by{d, "jnp", "jax.nn.sigmoid"} }

// Chunk returns the name of a package's function over whole sequences.
func (d fileData) Chunk() string { return "chunk_" + d.Text.Function }

// Alike reports whether a package's file has the common functions around its kernels, for sequences of equal length.
func (d fileData) Alike() bool { return d.Part && !d.Decode && d.Seqs == 0 }

// NumPy returns the data for the rule in NumPy.
func (d fileData) NumPy() by { return by{d, "np", "_sigmoid"} }

type fileParam struct{ Name, Shape, Type, Doc string }

// Steps returns the arguments for one token.
func (d fileData) Steps() (out []fileParam) {
	for _, p := range d.Params {
		if p.Name != "initial_state" {
			out = append(out, fileParam{p.Name, p.Shape, p.Type, ofStep(p.Doc)})
		}
	}
	return out
}

// Shapes returns the arguments of tokens, with equal shapes joined.
func (d fileData) Shapes() (out []fileParam) {
	for _, p := range d.Params {
		shape, _, _ := strings.Cut(p.Doc, "],")
		switch last := len(out) - 1; {
		case p.Name == "initial_state" || p.Name == "cu_seqlens":
		case last >= 0 && out[last].Doc == shape+"]":
			out[last].Name += ", " + p.Name
		default:
			out = append(out, fileParam{Name: p.Name, Doc: shape + "]"})
		}
	}
	return out
}

// StepShapes returns Shapes for one token.
func (d fileData) StepShapes() (out []fileParam) {
	for _, p := range d.Shapes() {
		out = append(out, fileParam{Name: p.Name, Doc: ofStep(p.Doc)})
	}
	return out
}

// StateAxes returns the axes of a state.
func (d fileData) StateAxes() string { return map[bool]string{true: "HVK", false: "HKV"}[d.StateVK] }

// StepDoc returns the shape of one token's output.
func (d fileData) StepDoc() string { return ofStep(d.OutDoc) }

func ofStep(doc string) string { return strings.Replace(doc, "T, ", "", 1) }

// StateDoc returns the shape of states of batch rows.
func (d fileData) StateDoc() string {
	doc, _, _ := strings.Cut(d.Params[len(d.Params)-1].Doc, "],")
	return doc + "]"
}

// PoolDoc returns the shape of states of a pool.
func (d fileData) PoolDoc() string { return strings.Replace(d.StateDoc(), "[B", "[P", 1) }

// Filled returns a condition on the number of tokens: all blocks of unit tokens but the last are full.
func (d fileData) Filled(unit string) string {
	if d.MinSteps > 1 {
		return fmt.Sprintf("> %d * %s", d.MinSteps-1, unit)
	}
	return ">= " + unit
}

// Lowers reports whether all kernels have widths that a TPU takes: multiples of 128.
func (d fileData) Lowers() bool { return d.K%128 == 0 && d.V%128 == 0 }

// GateNames returns the arguments of a token except q, k and v, as a Python set.
func (d fileData) GateNames() string {
	var names []string
	for _, a := range d.Axes {
		if a.Gate && a.Name != "o" {
			names = append(names, strconv.Quote(a.Name))
		}
	}
	return "{" + strings.Join(names, ", ") + "}"
}

// TestLimit returns the error limit of a package's tests, at least 5e-6: kernels may sum in another order than plain JAX.
func (d fileData) TestLimit() string {
	if limit, _ := strconv.ParseFloat(d.Limit, 64); limit < 5e-6 {
		return "5e-6"
	}
	return d.Limit
}

// fileAxes names the axes of an argument or result by letters.
type fileAxes struct {
	Name, Axes string
	Gate       bool // has a token axis
}

// axesDoc returns axes, element type and optionally widths as a shape for a docstring.
func axesDoc(t ir.Type, axes string, widths bool) string {
	l := strings.Split(axes, "")
	for i, a := range l {
		switch {
		case a == "E":
			l[i] = "N+1"
		case widths && (a == "K" || a == "V"):
			l[i] = strconv.Itoa(t.Shape[i])
		}
	}
	return fmt.Sprintf("%s[%s]", t.DType, strings.Join(l, ", "))
}

func newFile(s gdn.Spec, v gdn.Variant, build Build, p Provenance) (*file, error) {
	given := s
	if s.Conv > 0 && s.Mixed == 0 {
		return nil, fmt.Errorf("pallas: conv: files take q, k and v behind the convolution: take the mosaic backend, or leave out conv")
	}
	s = Spec(s)
	switch {
	case s.Mixed > 0:
		return nil, fmt.Errorf("pallas: mixed: a mixed batch is a package: give --package")
	case s.Direction == gdn.Train && !twoPasses(s.Rule):
		return nil, fmt.Errorf("pallas: kernels of a gradient are for rule=gdn and for decays of channels, not for rule=%s: take direction=forward for its gradient in plain JAX", s.Rule)
	case s.Direction == gdn.Backward:
		return nil, fmt.Errorf("pallas: a file computes the forward pass and its gradient: take direction=forward for a gradient in plain JAX, direction=train for kernels of both")
	case s.Rows == gdn.RowsQKV:
		return nil, fmt.Errorf("pallas: rows=qkv: files take q, k and v apart: slice qkv before, with rows=flat, or take the mosaic backend")
	case s.Pool > 0 || s.InPlace:
		return nil, fmt.Errorf("pallas: states in a pool or in place are for servers: take the mosaic backend, or a spec without pool and inplace")
	case s.Every > 0:
		return nil, fmt.Errorf("pallas: every: states within a sequence are written by the mosaic backend; leave out every")
	case s.DType == ir.F16 || s.Out == ir.F16:
		return nil, fmt.Errorf("pallas: TPU kernels have no f16: take bf16")
	}
	s = s.ByHeads() // reshaping flat rows in the same jit moves nothing (describeAll)
	f, err := anySize(s, v, build)
	if err != nil {
		return nil, err
	}
	s.Direction = gdn.Forward
	v = f.variant
	if err := f.describe(s, v); err != nil {
		return nil, err
	}
	if f.data.Ragged {
		f.fillGates()
	}
	if f.data.Decode {
		if err := f.writeDecode(); err != nil {
			return nil, err
		}
	}
	f.doc = f.describeAll(given, s, p)
	var b bytes.Buffer
	if err := templates.ExecuteTemplate(&b, "rule", f.data); err != nil {
		return nil, err
	}
	b.Reset()
	if err := templates.ExecuteTemplate(&b, "check", f.data); err != nil {
		return nil, err
	}
	f.test = strings.TrimSpace(pytext.Spaced(b.String()))
	return f, nil
}

// fillGates pads gates to whole blocks if tokens are ragged, since gates are reordered.
func (f *file) fillGates() {
	pad := " = args\n"
	for _, a := range f.data.Axes {
		if a.Gate {
			pad += fmt.Sprintf("    %s = _padded(AXES, %[1]q, %[1]s, \"T\", %d * steps)\n", a.Name, f.extent.Unit)
		}
	}
	for i, text := range f.funcs {
		if strings.HasPrefix(text, "def "+f.data.Run+"(") {
			f.funcs[i] = strings.Replace(text, " = args\n", pad, 1)
		}
	}
}

// twoPasses reports whether a rule's forward and backward passes are separate programs, between which a caller computes.
func twoPasses(r gdn.Rule) bool { return r == (gdn.Rule{}) || r.Channels() }

// Tiles lowers a module to the form that Emit takes: kernels on tiles, not yet ordered by their schedules.
func Tiles(m *ir.Module) (*ir.Module, error) {
	return pass.Apply(m, pass.Tiles...)
}

func (f *file) describe(s gdn.Spec, v gdn.Variant) error {
	d := &f.data
	d.Rule, d.Text = s.Rule, family.Of(s.Rule)
	if s.Bound != 0 {
		d.Bound = floatText(s.Bound)
	}
	d.Closed = strings.TrimSuffix(strings.Replace(floatText(s.ClosedDecay()), "e+", "e", 1), ".0")
	d.Seqs, d.Tokens = s.Seqs, s.Tokens
	d.Fused, d.NegEigval, d.L2Norm, d.Packed = s.Gates == gdn.GatesFused, s.NegEigval, s.L2Norm, s.Packed
	d.StateVK, d.EmptyZero, d.Final = s.State == gdn.StateVK, s.Empty == gdn.EmptyZero, s.Final
	if d.Scale = floatText(s.EffectiveScale()); s.EffectiveScale() == s.DefaultScale() {
		d.Scale = "q.shape[-1] ** -0.5" // for any width
	}
	d.OutType, d.StateType = dtypes[s.Out], dtypes[s.StateDType]
	d.OutDoc = axesDoc(s.Outputs()[0].Type, family.Axes(s, "o"), !d.Decode)
	d.HeadsK, d.HeadsV, d.K, d.V, d.Extent = s.HeadsK, s.HeadsV, s.K, s.V, f.extent
	d.Result = "jax.Array"
	if s.Final {
		d.Result = "tuple[jax.Array, jax.Array]"
	}
	var names, hints, public, last, pairs []string
	var axesOf, types []lists.Pair
	for _, p := range s.Inputs() {
		axes := family.Axes(s, p.Name)
		d.Numbers = d.Numbers || axes == "BTH"
		d.Axes = append(d.Axes, fileAxes{p.Name, axes, strings.Contains(axes, "T") && !slices.Contains([]string{"q", "k", "v"}, p.Name)})
		d.Params = append(d.Params, fileParam{Name: p.Name, Shape: shapeText(p.Type.Shape), Type: dtypes[p.Type.DType], Doc: axesDoc(p.Type, axes, !d.Decode) + ", " + family.Doc(s, p.Name)})
		names, hints, pairs = append(names, p.Name), append(hints, p.Name+": jax.Array"), append(pairs, fmt.Sprintf("%q: %s", p.Name, p.Name))
		types = append(types, lists.Pair{Key: strconv.Quote(p.Name), Value: dtypes[p.Type.DType]})
		if p.Name == "initial_state" {
			last = append(last, "initial_state: jax.Array | None = None")
		} else {
			public = append(public, p.Name+": jax.Array")
		}
	}
	for _, p := range s.Results() {
		d.Axes = append(d.Axes, fileAxes{Name: p.Name, Axes: family.Axes(s, p.Name)})
	}
	n := len(s.Differentiable()) - 1 // without the state
	d.TokenHints, d.TokenArgs, d.TokenPairs = strings.Join(hints[:n], ", "), strings.Join(names[:n], ", "), strings.Join(pairs[:n], ", ")
	d.Args, d.ArgHints, d.PublicHints = strings.Join(names, ", "), strings.Join(hints, ", "), strings.Join(append(public, last...), ", ")
	d.CheckArgs, d.DTypes = d.Args, lists.FromKeys("DTYPES", types)
	for _, a := range d.Axes {
		axesOf = append(axesOf, lists.Pair{Key: strconv.Quote(a.Name), Value: strconv.Quote(a.Axes)})
	}
	d.AxesText = lists.Dict("AXES", axesOf)
	class, err := truth.LookupClass("random")
	if err != nil {
		return err
	}
	limit, err := class.Limit(s, v.Fit(s).Precision().String(), s.Out)
	if err != nil {
		return err
	}
	d.Limit = strconv.FormatFloat(limit, 'g', 2, 64)
	d.GradientLimit = "1e-3"
	if s.DType == ir.BF16 {
		d.GradientLimit = "2e-2"
	}
	return nil
}

// floatText returns a float as Python text, with a point or exponent.
func floatText(x float64) string {
	s := strconv.FormatFloat(x, 'g', -1, 64)
	if !strings.ContainsAny(s, ".e") {
		s += ".0"
	}
	return s
}

// gradients describes a file's gradient, by whether it is for training.
var gradients = map[bool]string{false: ", with a gradient in plain JAX", true: " of the rule and of its gradient"}

// describeAll returns the docstring of a file: what it computes, for which spec, by which variant, at what cost.
func (f *file) describeAll(given, s gdn.Spec, p Provenance) string {
	var b strings.Builder
	b.WriteString(f.data.Text.Title + " for TPUs: Pallas kernels" + gradients[given.Direction == gdn.Train] + ".\n\n")
	b.WriteString(pytext.WrapAt(";", fmt.Sprintf("Written by %s %s; generate it anew instead of editing it.", folder.Address, p.Version)) + "\n\n")
	b.WriteString(pytext.WrapList("  spec: ", given.String()))
	b.WriteString(pytext.WrapList("  variant: ", f.variant.String()))
	if given.Rows == gdn.RowsFlat && f.variant.Layout == gdn.LayoutBTLanes {
		b.WriteString("  rows: the kernels read [B, T, heads * width]; reshape such of a projection in the same\n    jit, which moves nothing\n")
	}
	if f.data.Decode {
		fmt.Fprintf(&b, "  sizes: any; at most %d tokens\n", writtenTokens)
	} else {
		fmt.Fprintf(&b, "  sizes: any; the kernels take %d and %d heads and %s\n", s.HeadsK, s.HeadsV, f.extent.Tokens())
	}
	if len(p.Costs) == 0 {
		fmt.Fprintf(&b, "  cost: not counted (%s)\n", map[bool]string{false: "no libtpu", true: "by --target none"}[p.Unasked])
	} else {
		var l []string
		for _, c := range p.Costs {
			each := func(cycles int64) string {
				return fmt.Sprintf("%d (%.2f)", cycles, float64(cycles)/float64(s.Work()))
			}
			text := c.Target
			if c.Wall > 0 {
				text += " in-order " + each(c.Wall) + ","
			}
			l = append(l, text+" issue "+each(c.Cycles))
		}
		fmt.Fprintf(&b, "  cost: static cycles of Mosaic kernels alike (a token and value head), %s:\n    %s\n", p.Libtpu, strings.Join(l, "\n    "))
	}
	b.WriteString(runIt)
	return b.String()
}

// runIt is in a file's docstring, not in a part of a package.
const runIt = "\nRun this file to check it against float64.\n"

// text returns the whole file, which can be run.
func (f *file) text() string {
	code := f.source(false) + "\n\n\n" + f.test + "\n\n\nif __name__ == \"__main__\":\n    _self_check()\n"
	code = strings.Replace(code, "Ref = Any  # jax.Ref or a view of one, which has no type\n", "Ref = Any  # jax.Ref or a view of one, which has no type\nLIMIT, GRADIENT_LIMIT = "+f.data.Limit+", "+f.data.GradientLimit+"\n", 1)
	return pytext.Format(fmt.Sprintf("\"\"\"%s\"\"\"\n\n%s\n%s\n\n%s", f.doc, imports(code), exported(f.functions()), code))
}

// source returns the text after the imports of a file, or of a part of a package.
func (f *file) source(part bool) string {
	f.data.Part = part
	var b bytes.Buffer
	if err := templates.ExecuteTemplate(&b, "rule", f.data); err != nil {
		panic(err) // newFile has executed it
	}
	pre := f.preamble()
	if f.helpers["interleave"] && !part {
		pre += "\n\n" + helpers.Pipeline
	}
	return pre + "\n\n" + f.body() + "\n\n\n" + strings.TrimSpace(pytext.Spaced(b.String()))
}

// functions returns the public functions of a file.
func (f *file) functions() []string {
	all := []string{f.data.Text.Function}
	if f.data.Pool {
		all = append(all, all[0]+"_pool")
	}
	return all
}

// exported returns the text of __all__.
func exported(names []string) string {
	return "__all__ = [\"" + strings.Join(names, "\", \"") + "\"]"
}
