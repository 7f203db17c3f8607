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

// Provenance says where a file comes from.
type Provenance struct {
	Version  string // of the generator
	Revision string // of its source, for the README of a package alone; empty where the build does not know it
	Command  string // that writes a package anew; may be empty
	Costs    []Cost // empty: not counted
	Libtpu   string // the compiler that they were counted with
	Unasked  bool   // nobody asked for costs

	Tell func(string) // called before each file of kernels in a package is built, which takes seconds; may be nil
}

// Spec is what a file for s computes: an initial state is always taken, as zeros by default.
func Spec(s gdn.Spec) gdn.Spec {
	s.Init = true
	return s
}

// Source writes the Python file of a spec by a variant, as b builds it: kernels, what calls them, a differentiable function and a self-check.
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

// runs says whether Python that is about to be given away can run, as far as its text shows.
func runs(files map[string]string) error {
	if err := python.Check(files); err != nil {
		return fmt.Errorf("pallas: the Python of this spec and variant would not run, which is a fault of the generator: %w; take another variant or the mosaic backend, and report it with the command", err)
	}
	return nil
}

// file is a Python file and the facts of its spec.
type file struct {
	*code
	variant gdn.Variant // as it suits every size
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
	Short, Train                       bool   // a package has kernels for short sequences, and of the gradient
	TokenHints, TokenArgs, TokenPairs  string // of those without a state
	Result, OutType, StateType, OutDoc string
	Scale, CheckArgs, DTypes, AxesText string
	Bound, Closed                      string // the lowest log decay, empty for none; a raw gate that decays nothing
	Seqs, Tokens                       int
	HeadsK, HeadsV, K, V               int
	Axes                               []fileAxes
	extent.Extent
	Fused, NegEigval, L2Norm, Packed bool
	StateVK, EmptyZero, Final        bool
	Kernels, Kept                    bool   // the gradient is by kernels; which read what the forward pass keeps
	Decode, Exact                    bool   // it is for few tokens of each sequence; its outputs are exact sums
	Numbers                          bool   // some gates are a number a head
	Pool                             bool   // states may lie in a pool
	Part                             bool   // of a package
	Ungraded                         bool   // it has no gradient: another file of the package has
	Ragged                           bool   // q, k, v and o may end within a block of tokens
	Options, Kinds, KindNames        string // of the compiler, and devices that want them, in a package
	Imports                          string // of modules of kernels
	Orders                           orders.List
	VMEM                             int // MiB of vector memory that kernels may take
	Limit, GradientLimit, Name, Run  string
}

// by is a rule in float32 by JAX or in float64 by NumPy.
type by struct {
	fileData
	Np, Sigmoid string
}

// JAX has the rule in JAX.
func (d fileData) JAX() by { return by{d, "jnp", "jax.nn.sigmoid"} }

// Chunk is the name of the function over whole sequences in a package.
func (d fileData) Chunk() string { return "chunk_" + d.Text.Function }

// Alike says whether files of a package have the same functions around their kernels: those over sequences of equal length.
func (d fileData) Alike() bool { return d.Part && !d.Decode && d.Seqs == 0 }

// NumPy has the rule in NumPy.
func (d fileData) NumPy() by { return by{d, "np", "_sigmoid"} }

type fileParam struct{ Name, Shape, Type, Doc string }

// Steps are the arguments of one token.
func (d fileData) Steps() (out []fileParam) {
	for _, p := range d.Params {
		if p.Name != "initial_state" {
			out = append(out, fileParam{p.Name, p.Shape, p.Type, ofStep(p.Doc)})
		}
	}
	return out
}

// Shapes are the arguments of tokens, those of a shape together.
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

// StepShapes are Shapes of one token.
func (d fileData) StepShapes() (out []fileParam) {
	for _, p := range d.Shapes() {
		out = append(out, fileParam{Name: p.Name, Doc: ofStep(p.Doc)})
	}
	return out
}

// StateAxes are the axes of a state.
func (d fileData) StateAxes() string { return map[bool]string{true: "HVK", false: "HKV"}[d.StateVK] }

// StepDoc is the output of one token.
func (d fileData) StepDoc() string { return ofStep(d.OutDoc) }

func ofStep(doc string) string { return strings.Replace(doc, "T, ", "", 1) }

// StateDoc are states of batch rows, PoolDoc those of a pool.
func (d fileData) StateDoc() string {
	doc, _, _ := strings.Cut(d.Params[len(d.Params)-1].Doc, "],")
	return doc + "]"
}

// PoolDoc are states of a pool.
func (d fileData) PoolDoc() string { return strings.Replace(d.StateDoc(), "[B", "[P", 1) }

// Filled is what tokens are where all blocks of so many but the last are full.
func (d fileData) Filled(unit string) string {
	if d.MinSteps > 1 {
		return fmt.Sprintf("> %d * %s", d.MinSteps-1, unit)
	}
	return ">= " + unit
}

// Lowers says whether all kernels have forms that a TPU takes, which those for small widths have not.
func (d fileData) Lowers() bool { return d.K%128 == 0 && d.V%128 == 0 }

// GateNames are the arguments of a token but q, k and v, as a set of Python.
func (d fileData) GateNames() string {
	var names []string
	for _, a := range d.Axes {
		if a.Gate && a.Name != "o" {
			names = append(names, strconv.Quote(a.Name))
		}
	}
	return "{" + strings.Join(names, ", ") + "}"
}

// TestLimit is the limit of a package's tests, whose kernels may sum in another order than the rule in plain JAX.
func (d fileData) TestLimit() string {
	if limit, _ := strconv.ParseFloat(d.Limit, 64); limit < 5e-6 {
		return "5e-6"
	}
	return d.Limit
}

// fileAxes names the axes of an argument or result by letters.
type fileAxes struct {
	Name, Axes string
	Gate       bool // of tokens
}

// axesDoc is a shape of axes, with the element type and, where they are given, widths, for a docstring.
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
	s = s.ByHeads() // a reshape of flat rows in the same jit moves nothing (describeAll)
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

// fillGates has gates fill the blocks of ragged tokens: they are brought into another order.
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

// twoPasses says whether the passes of a gradient are programs of their own for a rule, between which a caller computes.
func twoPasses(r gdn.Rule) bool { return r == (gdn.Rule{}) || r.Channels() }

// Tiles lowers a module to what Emit takes: kernels on tiles, their schedules still apart from their bodies.
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
		d.Scale = "q.shape[-1] ** -0.5" // of whatever width
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

// floatText is a number with what tells it from an integer.
func floatText(x float64) string {
	s := strconv.FormatFloat(x, 'g', -1, 64)
	if !strings.ContainsAny(s, ".e") {
		s += ".0"
	}
	return s
}

// gradients says how a file's gradient is computed, by whether it is for training.
var gradients = map[bool]string{false: ", with a gradient in plain JAX", true: " of the rule and of its gradient"}

// describeAll is the docstring of a file: what it computes, for which spec, by which variant, at what cost.
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
				text += " wall " + each(c.Wall) + ","
			}
			l = append(l, text+" throughput "+each(c.Cycles))
		}
		fmt.Fprintf(&b, "  cost: static cycles of Mosaic kernels alike (a token and value head), %s:\n    %s\n", p.Libtpu, strings.Join(l, "\n    "))
	}
	b.WriteString(runIt)
	return b.String()
}

// runIt is what is said of a file, and not of a part of a package.
const runIt = "\nRun this file to check it against float64.\n"

// text is the file, which can be run.
func (f *file) text() string {
	code := f.source(false) + "\n\n\n" + f.test + "\n\n\nif __name__ == \"__main__\":\n    _self_check()\n"
	code = strings.Replace(code, "Ref = Any  # jax.Ref or a view of one, which has no type\n", "Ref = Any  # jax.Ref or a view of one, which has no type\nLIMIT, GRADIENT_LIMIT = "+f.data.Limit+", "+f.data.GradientLimit+"\n", 1)
	return pytext.Format(fmt.Sprintf("\"\"\"%s\"\"\"\n\n%s\n%s\n\n%s", f.doc, imports(code), exported(f.functions()), code))
}

// source is what stands below the imports of a file, or of a part of a package.
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

// functions are those that a file is for.
func (f *file) functions() []string {
	all := []string{f.data.Text.Function}
	if f.data.Pool {
		all = append(all, all[0]+"_pool")
	}
	return all
}

// exported is the list of what a file gives.
func exported(names []string) string {
	return "__all__ = [\"" + strings.Join(names, "\", \"") + "\"]"
}
