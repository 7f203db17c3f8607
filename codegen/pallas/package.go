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

	"github.com/gdngen/gdngen/codegen/pallas/pytext"
	"github.com/gdngen/gdngen/codegen/pallas/share"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/target"
)

// File is a file of a package, its path with slashes.
type File struct {
	Path, Text string
}

var packageName = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)

// keywords are the words of Python that packageName fits and no package can have.
var keywords = strings.Fields("and as assert async await break class continue def del elif else except finally for from global if import in is lambda " +
	"nonlocal not or pass raise return try while with yield")

// CheckPackage says whether a name can be that of a Python package.
func CheckPackage(name string) error {
	if !packageName.MatchString(name) || slices.Contains(keywords, name) {
		return fmt.Errorf("%q is not the name of a Python package: use lower-case letters, digits and _, and no keyword", name)
	}
	return nil
}

// Part is a file of kernels in a package: what it computes, and how.
type Part struct {
	Name    string
	Spec    gdn.Spec
	Variant gdn.Variant
	Costs   []Cost
}

// shortTokens are those of sequences that fill no step of the kernels for long ones.
const shortTokens = 128

// Parts are the files of kernels in a package for a spec, at the sizes that variants are to be chosen for. One for short sequences stands
// for itself only where its variant is another; where a rule has no kernels of its gradient, there is none for training.
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

// Package writes a Python package of a name, which must be an identifier: pyproject.toml, files of kernels, functions over them, the rule
// in plain JAX, and tests that compare the two. Kernels are as build makes them.
func Package(name string, parts []Part, build Build, p Provenance) ([]File, error) {
	var files []File
	var docs []string
	var given [][]string // what files give
	var codes []string
	var api *file
	loosest := 0.0
	parts = slices.DeleteFunc(slices.Clone(parts), func(part Part) bool { return part.Name == "short" && part.Variant == parts[0].Variant })
	has := func(name string) bool {
		return slices.ContainsFunc(parts, func(part Part) bool { return part.Name == name })
	}
	for _, part := range parts {
		p.Costs = part.Costs
		f, err := newFile(part.Spec, part.Variant, build, p)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", part.Name, err)
		}
		if api == nil {
			api = f
		}
		api.data.Pool = api.data.Pool || f.data.Pool
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
		given = append(given, names)
	}
	common, left, taken := share.Out(share.Stages(codes), "STEP")
	files = append(files, File{"src/" + name + "/common.py", pytext.Format("\"\"\"What the files of kernels have in common.\"\"\"\n\n" + imports(common) + "\n" + ofRule(name, common) + common + "\n")})
	for i, part := range parts {
		used := append(share.Names(left[i]), given[i]...)
		from := slices.DeleteFunc(taken[i], func(n string) bool { return !slices.Contains(used, n) })
		own := ofRule(name, left[i]) + importFrom(name+".common", from)
		text := fmt.Sprintf("\"\"\"%s\"\"\"\n\n%s\n%s\n%s\n\n\n%s\n", docs[i], imports(left[i]), own, exported(given[i]), left[i])
		files = append(files, File{"src/" + name + "/" + part.Name + ".py", pytext.Format(text)})
	}
	api.data.Name, api.data.Limit = name, strconv.FormatFloat(loosest, 'g', 2, 64)
	api.data.Short, api.data.Train = has("short"), has("train")
	api.data.Options, api.data.Kinds = compilerOptions()
	for path, template := range map[string]string{"src/" + name + "/api.py": "api", "src/" + name + "/_recurrent.py": "recurrent", "src/" + name + "/parallel.py": "parallel",
		"tests/test_api.py": "tests", "tests/test_parallel.py": "paralleltests", "tests/conftest.py": "conftest"} {
		var b bytes.Buffer
		if err := templates.ExecuteTemplate(&b, template, api.data); err != nil {
			return nil, err
		}
		files = append(files, File{path, pytext.Format(spaced(b.String()))})
	}
	init := fmt.Sprintf("\"\"\"%s for TPUs.\"\"\"\n\nfrom %s import parallel\nfrom %[2]s._recurrent import recurrent\nfrom %[2]s.api import (\n    %[3]s,\n    compiler_options,\n    decode_pool,\n    decode_step,\n    prefill_pool,\n)\n\n"+
		"__all__ = [\"%[3]s\", \"compiler_options\", \"decode_pool\", \"decode_step\", \"parallel\", \"prefill_pool\", \"recurrent\"]\n", api.data.Text.Title, name, api.data.Chunk())
	files = append(files,
		File{"pyproject.toml", fmt.Sprintf(pyproject, strings.ReplaceAll(name, "_", "-"), api.data.Text.Title)},
		File{"README.md", readme(name, api.data, parts, p)},
		File{"src/" + name + "/__init__.py", pytext.Format(init)},
		File{"src/" + name + "/py.typed", "\n"})
	slices.SortFunc(files, func(a, b File) int { return strings.Compare(a.Path, b.Path) })
	return files, nil
}

// ofRule imports what a text uses of the rule in plain JAX: its gates, or for few tokens, whose gradient is that of the rule itself, all.
func ofRule(name, text string) string {
	used := share.Names(text)
	used = slices.DeleteFunc([]string{"_inputs", "recurrent"}, func(n string) bool { return !slices.Contains(used, n) })
	if len(used) == 0 {
		return ""
	}
	return "from " + name + "._recurrent import " + strings.Join(used, ", ") + "\n"
}

// importFrom imports names, one a line.
func importFrom(module string, names []string) string {
	if len(names) == 0 {
		return ""
	}
	return "from " + module + " import (\n    " + strings.Join(names, ",\n    ") + ",\n)\n"
}

// compilerOptions are the options that kernels want of the compiler, as items of a dictionary, and the kinds of devices that want them.
func compilerOptions() (options, kinds string) {
	all, list := map[string]string{}, []string{}
	for _, t := range target.All() {
		if len(t.Flags) > 0 {
			maps.Copy(all, t.Flags)
			list = append(list, strconv.Quote(t.Kind))
		}
	}
	var items []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		items = append(items, fmt.Sprintf("%q: %q", name, all[name]))
	}
	return strings.Join(items, ", "), strings.Join(list, ", ")
}

// readme says what the functions are, for what they are, and what the kernels cost.
func readme(name string, d fileData, parts []Part, p Provenance) string {
	var b strings.Builder
	graded := "; its gradient is in plain JAX"
	if d.Train {
		graded = "; its gradient is by kernels, that of packed sequences in plain JAX"
	}
	again := ""
	if p.Command != "" {
		again = "\n```sh\n" + p.Command + "\n```\n"
	}
	domain := ""
	if d.Rule.Decays() {
		domain += " A log decay below -40 counts as -40."
	}
	if d.Rule.Writes() && !d.Rule.Apart() && !d.Fused {
		domain += " A beta below 0 gives NaN, since kernels take its logarithm."
	}
	fmt.Fprintf(&b, packageReadme, name, p.Version, d.Text.Title, d.Chunk(), graded, address, again, d.example(name), d.types(), d.K, d.V, domain, d.Limit, d.GradientLimit)
	if !slices.ContainsFunc(parts, func(part Part) bool { return len(part.Costs) > 0 }) {
		return b.String()
	}
	b.WriteString("\n## Cost\nStatic cycles a token and value head, at the sizes that kernels were chosen for, " + p.Libtpu + "; nothing ran on a TPU:\n\n| kernels | sizes | cost |\n|---|---|---|\n")
	for _, part := range parts {
		fmt.Fprintf(&b, "| `%s` | `%s` | ", part.Name, part.Spec)
		for i, c := range part.Costs {
			if i > 0 {
				b.WriteString(", ")
			}
			fmt.Fprintf(&b, "%s %.2f", c.Target, float64(max(c.Wall, c.Cycles))/float64(part.Spec.Work()))
		}
		b.WriteString(" |\n")
	}
	return b.String()
}

// types are the types of the arguments, each once.
func (d fileData) types() string {
	of, order := map[string][]string{}, []string{}
	for _, p := range d.Params {
		t := strings.TrimPrefix(p.Type, "jnp.")
		if of[t] == nil {
			order = append(order, t)
		}
		of[t] = append(of[t], "`"+p.Name+"`")
	}
	for i, t := range order {
		order[i] = t + " (" + strings.Join(of[t], ", ") + ")"
	}
	return strings.Join(order, ", ")
}

// example is a program that calls a package: a prompt, and a token.
func (d fileData) example(name string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "import functools\n\nimport jax\nimport jax.numpy as jnp\n\nimport %s\n\nnormal = functools.partial(jax.random.normal, jax.random.key(0))\n", name)
	size := map[rune]int{'B': 2, 'T': 1000, 'Q': d.HeadsK, 'H': d.HeadsV, 'K': d.K, 'V': d.V}
	var all, first []string
	for i, p := range d.Params {
		if p.Name == "initial_state" {
			continue
		}
		var shape []int
		for _, a := range d.Axes[i].Axes {
			shape = append(shape, size[a])
		}
		form := "%s"
		switch p.Name {
		case "k":
			form = "%s / " + strconv.Itoa(d.K) + "**0.5"
		case "g":
			form = "-jnp.abs(%s) / 4"
		case "beta", "erase", "write":
			form = "jax.nn.sigmoid(%s)"
		}
		fmt.Fprintf(&b, p.Name+" = "+form+"\n", fmt.Sprintf("normal(%s, %s)", shapeText(shape), p.Type))
		all, first = append(all, p.Name), append(first, p.Name+map[bool]string{true: "[:, 0]"}[strings.Contains(d.Axes[i].Axes, "T")])
	}
	fmt.Fprintf(&b, "o, state = %s.%s(%s)\n", name, d.Chunk(), strings.Join(all, ", "))
	fmt.Fprintf(&b, "o, state = %s.decode_step(%s, state)\n", name, strings.Join(first, ", "))
	return b.String()
}

const pyproject = `[build-system]
requires = ["setuptools>=77"]
build-backend = "setuptools.build_meta"

[project]
name = "%s"
version = "` + wheelVersion + `"
description = "%s for TPUs: Pallas kernels for training and inference"
readme = "README.md"
license = "` + wheelLicense + `"
authors = [{ name = "gdngen" }]
requires-python = ">=3.11"
dependencies = ["jax>=0.10.2", "numpy"]

[project.urls]
Source = "https://` + address + `"

[project.optional-dependencies]
test = ["pytest"]

[tool.setuptools.packages.find]
where = ["src"]

[tool.setuptools.package-data]
"*" = ["py.typed"]

[tool.ruff]
line-length = 88

[tool.pytest.ini_options]
testpaths = ["tests"]
pythonpath = ["src"]
markers = ["slow: interprets kernels, which takes minutes for wide ones"]
`

const packageReadme = "# %[1]s\n\n%[3]s for TPUs, in Pallas. Written by https://%[6]s %[2]s, whose licence it\nhas, " + wheelLicense + "; generate it anew instead of editing it.\n%[7]s" + `
| function | what |
|---|---|
| ` + "`%[4]s`" + ` | whole sequences, of equal length or packed (` + "`cu_seqlens`" + `), differentiable%[5]s |
| ` + "`decode_step`" + ` | one token of each batch row; its gradient is in plain JAX |
| ` + "`decode_pool`" + ` | the same over states in a pool, which is donated; no gradient by kernels |
| ` + "`prefill_pool`" + ` | packed sequences over such states, gathered before the kernel and put back behind it |
| ` + "`parallel`" + ` | the first two over the devices of a mesh: batch rows, heads, and sequences in parts |
| ` + "`compiler_options`" + ` | what the outermost ` + "`jit`" + ` wants on TPU v4, v5e and v5p, where kernels take about twice the static cycles without |
| ` + "`recurrent`" + ` | token by token in plain JAX: the reference, and what runs off a TPU |

` + "```python\n%[8]s```" + `

## What it takes
Batch, length, sequences and heads are any. A length that fills no step, and numbers of heads other than those of the
kernels, cost a copy. Widths are K = %[10]d and V = %[11]d, and types are
%[9]s: others are refused.%[12]s
A NaN, or what is infinite, spoils the chunk of its sequence, tokens before it too. Sequences do not reach each other.

Outputs and states are within %[13]s of the largest value of float64, and gradients within %[14]s, on random inputs with unit keys:
these are the limits of the tests.

## Install and test
` + "`pip install .`, or the wheel in `dist`; test with `pip install .[test]` and `pytest`" + `: kernels are then interpreted on
the CPU, for which XLA compiles each. That takes minutes and some 4 GB for kernels of wide heads; ` + "`pytest -m \"not slow\"`" + `
leaves out most of it.
`

//go:embed api.py.tmpl decode.py.tmpl parallel.py.tmpl parallel_tests.py.tmpl recurrent.py.tmpl tests.py.tmpl
var packageText embed.FS

// spaced puts two blank lines before what stands at the top level after a template left more or fewer.
func spaced(text string) string {
	var out []string
	blank := 0
	for _, line := range strings.Split(strings.TrimSpace(text), "\n") {
		if line == "" {
			blank++
			continue
		}
		if blank > 0 {
			n := min(blank, 2)
			if strings.HasPrefix(line, "def ") || strings.HasPrefix(line, "@") || strings.HasPrefix(line, "class ") {
				n = 2
			}
			out = append(out, make([]string, n)...)
		}
		blank = 0
		out = append(out, line)
	}
	return strings.Join(out, "\n") + "\n"
}
