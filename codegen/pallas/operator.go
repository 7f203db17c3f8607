package pallas

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gdngen/gdngen/codegen/pallas/family"
	"github.com/gdngen/gdngen/codegen/pallas/folder"
	"github.com/gdngen/gdngen/codegen/pallas/helpers"
	"github.com/gdngen/gdngen/codegen/pallas/pytext"
	"github.com/gdngen/gdngen/codegen/pallas/sizes"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/truth"
	"github.com/gdngen/gdngen/ir"
)

// operatorData is the data of the templates of a mixed-batch package.
type operatorData struct {
	Name, Doc                  string
	Text                       family.Rule
	Tokens, Places, Window     int // tokens T and sequences S of a batch, and tokens of a window
	HeadsK, HeadsV, K, V       int
	Taps, Rows                 int // of the convolution and of its cache
	DType, StateType, GateType string
	Bias, Channels, NegEigval  bool
	Bound                      string // the lowest log decay; "" for none
	Limit                      string
}

// Decays returns the number of log decays per token.
func (d operatorData) Decays() int {
	if d.Channels {
		return d.HeadsV * d.K
	}
	return d.HeadsV
}

// Dim returns the number of channels per token: queries, keys and values.
func (d operatorData) Dim() int { return 2*d.HeadsK*d.K + d.HeadsV*d.V }

// operatorPools are the pool sizes at which a package's kernels are written, to find the text for any size.
var operatorPools = []sizes.Size{{Rows: 211, Steps: 1}, {Rows: 223, Steps: 1}, {Rows: 227, Steps: 1}}

// operatorFields lists the spec fields that a mixed-batch package requires.
const operatorFields = "gates=fused,l2norm,packed,init,inplace,read,conv,convstate,rows=qkv"

// checkOperator returns an error that says what a spec lacks.
func checkOperator(s gdn.Spec) error {
	given := s.Gates == gdn.GatesFused && s.L2Norm && s.Init && s.Final && s.InPlace && s.ConvState && s.Rows == gdn.RowsQKV
	switch {
	case !given:
		return fmt.Errorf("pallas: a package of mixed batches takes projections as they come, with both caches: give %s", operatorFields)
	case s.State != gdn.StateKV || s.DType == ir.F16 || s.Rule.SplitGates() || !s.Rule.Decays() || !s.Rule.Writes():
		return fmt.Errorf("pallas: a package of mixed batches is for rule=gdn and rule=kda, states [K, V], bf16 or f32")
	case s.EffectiveScale() != s.DefaultScale():
		return fmt.Errorf("pallas: a package of mixed batches scales by %g: leave out scale", s.DefaultScale())
	}
	return nil
}

// Operator writes a Python package of a mixed batch (gdn.Spec.Mixed) of T tokens and S sequences, over a pool of any number of states.
// Its function fused_conv1d_gdn runs the kernels of a variant; a second one computes the same token by token in plain JAX. It errs if
// the spec is no such batch.
func Operator(name string, s gdn.Spec, v gdn.Variant, build Build, p Provenance) ([]File, error) {
	if err := checkOperator(s); err != nil {
		return nil, err
	}
	c, err := operatorKernels(s, v, build)
	if err != nil {
		return nil, err
	}
	limit, err := operatorLimit(s, v)
	if err != nil {
		return nil, err
	}
	d := operatorData{Name: name, Text: family.Of(s.Rule), Tokens: s.Tokens, Places: s.Seqs, Window: s.Mixed, HeadsK: s.HeadsK, HeadsV: s.HeadsV, K: s.K, V: s.V,
		Taps: s.Conv, Rows: s.CacheRows(), DType: dtypes[s.DType], StateType: dtypes[s.StateDType], GateType: dtypes[s.GateDType], Bias: s.ConvBias,
		Channels: s.Rule.Channels(), NegEigval: s.NegEigval, Limit: limit}
	if s.Bound != 0 {
		d.Bound = floatText(s.Bound)
	}
	d.Doc = "Written by " + folder.Address + " " + p.Version + "; generate it anew instead of editing it.\n\n" +
		pytext.WrapList("  spec: ", s.String()) + pytext.WrapList("  variant: ", v.Fit(s).String())
	code := c.preamble() + "\n\n" + c.body()
	files := []File{
		{Path: "LICENSE", Text: folder.License},
		{Path: "README.md", Text: operatorReadme(d, p)},
		{Path: "pyproject.toml", Text: folder.Project(name, d.Text.Title)},
		{Path: "src/" + name + "/py.typed", Text: "\n"},
	}
	own := ""
	if c.helpers["interleave"] {
		own = "\n" + pytext.ImportFrom(name+".pipeline", []string{"_interleave"})
		text := "\"\"\"Orders the phases of kernels while JAX traces them.\"\"\"\n\n" + imports(helpers.Pipeline) + "\nRef = jax.Ref\n\n" + helpers.Pipeline
		files = append(files, File{Path: "src/" + name + "/pipeline.py", Text: pytext.Format(text)})
	}
	kernels := "\"\"\"Kernels of mixed batches.\n\n" + d.Doc + "\"\"\"\n\n" + imports(code) + own + "\n" + exported([]string{"run"}) + "\n\n\n" + code + "\n"
	files = append(files, File{Path: "src/" + name + "/kernels.py", Text: pytext.Format(kernels)})
	for path, t := range map[string]string{"src/" + name + "/api.py": "operator", "src/" + name + "/_reference.py": "operator_reference", "src/" + name + "/__init__.py": "operator_init", "tests/test_operator.py": "operator_tests"} {
		var b bytes.Buffer
		if err := templates.ExecuteTemplate(&b, t, d); err != nil {
			return nil, err
		}
		files = append(files, File{Path: path, Text: pytext.Format(pytext.Spaced(b.String()))})
	}
	slices.SortFunc(files, func(a, b File) int { return strings.Compare(a.Path, b.Path) })
	texts := map[string]string{}
	for _, f := range files {
		texts[f.Path] = f.Text
	}
	return files, runs(texts)
}

// operatorKernels writes the kernels of mixed batches for any pool size: run takes the pool as rows, in groups of a window.
func operatorKernels(s gdn.Spec, v gdn.Variant, build Build) (*code, error) {
	var c *code
	var texts [][]string
	for _, pool := range operatorPools {
		s.Pool = pool.Rows * s.Mixed
		modules, err := build(s, v)
		if err != nil {
			return nil, err
		}
		m, err := Tiles(modules[0])
		if err != nil {
			return nil, err
		}
		at, err := write(program{name: "run", Module: m})
		if err != nil {
			return nil, err
		}
		texts = append(texts, at.funcs)
		if c == nil {
			c = at
		}
	}
	funcs, err := sizes.Unify(texts, operatorPools)
	if err != nil {
		return nil, fmt.Errorf("pallas: no package for every pool: %w", err)
	}
	for i, text := range funcs {
		funcs[i] = sizes.Unpack(text)
	}
	c.funcs = funcs
	return c, nil
}

// operatorLimit returns the error limit of outputs on random inputs, relative to the largest value, as a number for Python.
func operatorLimit(s gdn.Spec, v gdn.Variant) (string, error) {
	class, err := truth.LookupClass("random")
	if err != nil {
		return "", err
	}
	limit, err := class.Limit(s, v.Fit(s).Precision().String(), s.Out)
	limit = max(limit, 5e-6) // as in TestLimit
	return strconv.FormatFloat(limit, 'g', 2, 64), err
}

// operatorReadme returns the text of README.md.
func operatorReadme(d operatorData, p Provenance) string {
	command := ""
	if p.Command != "" {
		command = "\n```sh\n" + p.Command + "\n```\n"
	}
	cost := ""
	for _, c := range p.Costs {
		cost += fmt.Sprintf("| %s | %d | %d |\n", c.Target, c.Wall, c.Cycles)
	}
	if cost != "" {
		cost = "\n## Cost\nStatic cycles of Mosaic kernels by the same variant, " + p.Libtpu + "; nothing ran on a TPU:\n\n| TPU | in-order | issue |\n|---|---:|---:|\n" + cost
	}
	return fmt.Sprintf(`# %s

Convolution, SiLU, norms, gates and rule (%s) of a ragged batch of decodes%s and prompts, in
one call, with two caches in place. Written by https://%s %s, whose licence it has;
generate it anew instead of editing it.
%s
`+"`fused_conv1d_gdn`"+` takes up to %d tokens of up to %d sequences; fewer are filled up. Which of
them are decodes and which prompts are values of the run, so one program serves every
batch. The pool has any number of states, on which no cost of the kernels depends.

Off a TPU it runs token by token in plain JAX (`+"`backend=\"plain\"`"+`), or by the kernels interpreted
(`+"`backend=\"interpret\"`"+`). `+"`pip install .[test]`"+` and `+"`pytest`"+` compare both with float64.
%s`, d.Name, d.Text.Title, map[bool]string{true: ", windows of drafts"}[d.Window > 1], folder.Address, p.Version, command, d.Tokens, d.Places, cost)
}
