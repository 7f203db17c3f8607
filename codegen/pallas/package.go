package pallas

import (
	"bytes"
	"embed"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/gdngen/gdngen/codegen/pallas/folder"
	"github.com/gdngen/gdngen/codegen/pallas/helpers"
	"github.com/gdngen/gdngen/codegen/pallas/orders"
	"github.com/gdngen/gdngen/codegen/pallas/pytext"
	"github.com/gdngen/gdngen/codegen/pallas/share"
	"github.com/gdngen/gdngen/codegen/python"
	"github.com/gdngen/gdngen/gdn"
)

// File is a file of a package; its path has slashes.
type File = folder.File

// Wheel packs the files of Package(name, ...) as a wheel, which pip installs without a build. It returns the wheel's file name and its
// bytes.
func Wheel(name string, files []File) (file string, data []byte, err error) {
	return folder.Wheel(name, files)
}

var packageName = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)

// CheckPackage returns an error if name can not be the name of a Python package.
func CheckPackage(name string) error {
	if !packageName.MatchString(name) || slices.Contains(python.Keywords, name) {
		return fmt.Errorf("%q is not the name of a Python package: use lower-case letters, digits and _, and no keyword", name)
	}
	return nil
}

// Part is a group of kernels of a package: its spec and variant.
type Part = orders.Part

// shortTokens is the length of the sequences that get kernels of their own, since they fill no step of the kernels for long ones.
const shortTokens = 128

// Parts returns the kernel files of a package for a spec, each at the size for which its variant is to be chosen. Package drops the part
// for short sequences if its variant equals the long one's. A rule without gradient kernels has no part for training.
func Parts(s gdn.Spec) []Part {
	s.Seqs, s.Packed, s.Direction, s.Final, s.Pool, s.InPlace = 0, false, gdn.Forward, true, 0, false
	s = Spec(s)
	s.Tokens = max(s.Tokens, 2*mostTokens) // of whole sequences
	short, train, decode, packed := s, s, s, s
	short.Tokens = min(shortTokens, s.Tokens)
	train.Direction = gdn.Train
	decode.Batch, decode.Tokens = max(s.Batch, 8), 1
	packed.Batch, packed.Tokens, packed.Seqs = 1, s.Batch*s.Tokens, 8
	parts := []Part{{Name: "forward", Spec: s}, {Name: "short", Spec: short}, {Name: "train", Spec: train}, {Name: "decode", Spec: decode}, {Name: "packed", Spec: packed}}
	return slices.DeleteFunc(parts, func(p Part) bool { return p.Name == "train" && !twoPasses(s.Rule) })
}

// Package writes a Python package: pyproject.toml, kernel files, functions that call them, the rule in plain JAX, and tests that compare
// the two. name must pass CheckPackage. Kernels are made from build's modules.
func Package(name string, parts []Part, build Build, p Provenance) ([]File, error) {
	var files []File
	var docs []string
	var given [][]string // the functions that files define
	var codes []string
	var api *file
	loosest := 0.0
	all := orders.Files(parts)
	first := all[0].Targets[0]
	several := slices.ContainsFunc(parts, func(p Part) bool { return p.Target != parts[0].Target })
	has := func(name string) bool {
		return slices.ContainsFunc(all, func(f orders.File) bool { return f.Name == name })
	}
	for i, part := range all {
		p.Costs = part.Costs
		if p.Tell != nil {
			p.Tell(fmt.Sprintf("file %d of %d: %s.py", i+1, len(all), part.Module(first)))
		}
		f, err := newFile(part.Spec, part.Variant, build, p)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", part.Module(first), err)
		}
		if api == nil {
			api = f
		}
		f.helpers["kind"] = f.helpers["kind"] || several // api.py chooses by it
		api.data.Pool, api.data.VMEM = api.data.Pool || f.data.Pool, max(api.data.VMEM, f.vmem)
		limit, _ := strconv.ParseFloat(f.data.Limit, 64)
		loosest = max(loosest, limit)
		doc := strings.Replace(f.doc, runIt, "", 1)
		if f.data.Ungraded = has("train") && (part.Name == "forward" || part.Name == "short"); f.data.Ungraded {
			doc = strings.Replace(doc, gradients[false], "", 1)
		}
		docs, codes = append(docs, doc), append(codes, f.source(true))
		names := f.functions()
		if !f.data.Decode {
			names = append([]string{"STEP"}, names...)
		}
		if part.Name == "decode" || part.Name == "packed" { // api.py reads their AXES
			names = append([]string{"AXES"}, names...)
		}
		given = append(given, names)
	}
	common, left, taken := orders.Shared(all, codes)
	files = append(files, File{Path: "src/" + name + "/common.py", Text: pytext.Format("\"\"\"What the files of kernels have in common.\"\"\"\n\n" + imports(common) + "\n" + strings.TrimPrefix(ofRule(name, common)+"\n", "\n") + common + "\n")})
	ordered := false // the phases of a kernel are interleaved
	for i, part := range all {
		used := append(share.Names(left[i]), given[i]...)
		own := ofRule(name, left[i])
		if slices.Contains(used, "_interleave") {
			ordered = true
			taken[i]["pipeline"] = []string{"_interleave"}
		}
		for _, module := range slices.Sorted(maps.Keys(taken[i])) {
			from := slices.DeleteFunc(taken[i][module], func(n string) bool { return !slices.Contains(used, n) })
			own += pytext.ImportFrom(name+"."+module, from)
		}
		text := fmt.Sprintf("\"\"\"%s\"\"\"\n\n%s\n%s\n%s\n\n\n%s\n", docs[i], imports(left[i]), own, exported(given[i]), left[i])
		files = append(files, File{Path: "src/" + name + "/" + part.Module(first) + ".py", Text: pytext.Format(text)})
	}
	if ordered {
		text := "\"\"\"Orders the phases of kernels while JAX traces them.\"\"\"\n\n" + imports(helpers.Pipeline) + "\nRef = Any  # jax.Ref or a view of one, which has no type\n\n" + helpers.Pipeline
		files = append(files, File{Path: "src/" + name + "/pipeline.py", Text: pytext.Format(text)})
	}
	api.data.Name, api.data.Limit = name, strconv.FormatFloat(loosest, 'g', 2, 64)
	api.data.Short, api.data.Train, api.data.Orders = has("short"), has("train"), orders.Of(all, api.data.VMEM)
	modules := []string{"common"}
	for _, part := range all {
		modules = append(modules, part.Module(first))
	}
	api.data.Imports = pytext.ImportFrom(name, slices.Sorted(slices.Values(modules)))
	api.data.Options, api.data.Kinds, api.data.KindNames = folder.CompilerOptions(api.data.VMEM)
	for path, template := range map[string]string{"src/" + name + "/api.py": "api", "src/" + name + "/_recurrent.py": "recurrent", "src/" + name + "/parallel.py": "parallel",
		"tests/test_api.py": "tests", "tests/test_parallel.py": "paralleltests", "tests/conftest.py": "conftest"} {
		var b bytes.Buffer
		if err := templates.ExecuteTemplate(&b, template, api.data); err != nil {
			return nil, err
		}
		files = append(files, File{Path: path, Text: pytext.Format(pytext.Spaced(b.String()))})
	}
	init := fmt.Sprintf("\"\"\"%s for TPUs.\"\"\"\n\nfrom %s import parallel\nfrom %[2]s._recurrent import recurrent\nfrom %[2]s.api import (\n    %[3]s,\n    compiler_options,\n    decode_pool,\n    decode_step,\n    prefill_pool,\n)\n\n"+
		"__all__ = [\"__version__\", \"%[3]s\", \"compiler_options\", \"decode_pool\", \"decode_step\", \"parallel\", \"prefill_pool\", \"recurrent\"]\n__version__ = \"%[4]s\"\n", api.data.Text.Title, name, api.data.Chunk(), folder.Version)
	files = append(files,
		File{Path: "LICENSE", Text: folder.License},
		File{Path: "pyproject.toml", Text: folder.Project(name, api.data.Text.Title)},
		File{Path: "README.md", Text: folder.Readme(api.data.facts(all, p))},
		File{Path: "src/" + name + "/__init__.py", Text: pytext.Format(init)},
		File{Path: "src/" + name + "/py.typed", Text: "\n"})
	slices.SortFunc(files, func(a, b File) int { return strings.Compare(a.Path, b.Path) })
	texts := map[string]string{}
	for _, f := range files {
		texts[f.Path] = f.Text
	}
	if err := runs(texts); err != nil {
		return nil, err
	}
	return files, nil
}

// ofRule returns the import of the names that a text uses from _recurrent.py, the rule in plain JAX.
func ofRule(name, text string) string {
	used := share.Names(text)
	used = slices.DeleteFunc([]string{"_inputs", "recurrent"}, func(n string) bool { return !slices.Contains(used, n) })
	if len(used) == 0 {
		return ""
	}
	return "from " + name + "._recurrent import " + strings.Join(used, ", ") + "\n"
}

// facts returns the facts that a package's README and metadata state.
func (d fileData) facts(all []orders.File, p Provenance) folder.Facts {
	if p.Revision != "" {
		p.Version += ", revision " + p.Revision
	}
	f := folder.Facts{Name: d.Name, Title: d.Text.Title, Function: d.Chunk(), Version: p.Version, Command: p.Command, Target: all[0].Targets[0], Libtpu: p.Libtpu, Training: d.Train, L2Norm: d.L2Norm, Kinds: d.KindNames, VMEM: d.VMEM,
		Decays: d.Rule.Decays(), LogBeta: d.Rule.Writes() && !d.Rule.SplitGates() && !d.Fused, Limit: d.Limit, GradientLimit: d.GradientLimit,
		Sizes: map[rune]int{'B': 2, 'T': 1000, 'Q': d.HeadsK, 'H': d.HeadsV, 'K': d.K, 'V': d.V}}
	for i, x := range d.Params {
		f.Args = append(f.Args, folder.Arg{Name: x.Name, Axes: d.Axes[i].Axes, Type: strings.TrimPrefix(x.Type, "jnp.")})
	}
	for _, o := range d.Orders {
		f.Orders = append(f.Orders, folder.Order{Target: o.Target, Modules: o.Modules, Others: o.Devices.Others})
	}
	for _, part := range all {
		row := folder.Row{Name: part.Module(all[0].Targets[0]), Spec: part.Spec.String()}
		for _, c := range part.Costs {
			row.Costs = append(row.Costs, fmt.Sprintf("%s %.2f", c.Target, float64(max(c.Wall, c.Cycles))/float64(part.Spec.Work())))
		}
		f.Rows = append(f.Rows, row)
	}
	return f
}

//go:embed api.py.tmpl decode.py.tmpl operator.py.tmpl parallel.py.tmpl parallel_tests.py.tmpl recurrent.py.tmpl tests.py.tmpl
var packageText embed.FS
