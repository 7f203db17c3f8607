package folder

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Facts are the facts that a package's README states.
type Facts struct {
	Name, Title, Function    string // names: of the package; of the rule; of the function over whole sequences
	Version, Command, Libtpu string // of the generator; the command that writes the package; the compiler that costs were counted with
	Target                   string // the TPU generation of the schedules; may be ""
	Orders                   []Order
	Kinds                    string // devices that need compiler options
	VMEM                     int    // MiB of VMEM that kernels may take
	Training                 bool   // gradients are by kernels
	Decays, LogBeta          bool   // the rule has a log decay; kernels take the logarithm of beta
	L2Norm                   bool   // q and k are divided by their lengths
	Limit, GradientLimit     string
	Args                     []Arg
	Sizes                    map[rune]int // of axes, in examples
	Rows                     []Row
}

// Order is the kernel modules for a generation other than the first.
type Order struct {
	Target  string
	Modules []string
	Others  string // generations that use it too; may be ""
}

// Arg is an argument, with its axes as letters.
type Arg struct{ Name, Axes, Type string }

// Row is a file of kernels, with its costs on targets.
type Row struct {
	Name, Spec string
	Costs      []string
}

// Readme returns README.md: what the functions are, and what the kernels cost.
func Readme(f Facts) string {
	var b strings.Builder
	graded := "; its gradient is in plain JAX"
	if f.Training {
		graded = "; its gradient is by kernels, that of packed sequences in plain JAX"
	}
	again := ""
	if f.Command != "" {
		again = "\n```sh\n" + f.Command + "\n```\n"
	}
	if f.Target != "" {
		again += "\nThe order of the work was chosen for TPU " + f.Target + f.orders() + "\n"
	}
	domain := ""
	if f.Decays {
		domain += " A log decay below -40 counts as -40."
	}
	if f.LogBeta {
		domain += " Beta is not below 0: forward kernels take its logarithm, and those of training hold it above 0."
	}
	fmt.Fprintf(&b, readme, f.Name, f.Version, f.Title, f.Function, graded, Address, again, f.example(), f.types(), f.Sizes['K'], f.Sizes['V'], domain, f.Limit, f.GradientLimit, f.Sizes['Q'], f.Sizes['H'], f.Kinds, f.VMEM, map[bool]string{false: "taken as they are, and\nkeys should have unit length, or else give `use_qk_l2norm_in_kernel=True`", true: "divided by their\nlengths: give them as they are"}[f.L2Norm])
	if !slices.ContainsFunc(f.Rows, func(r Row) bool { return len(r.Costs) > 0 }) {
		return b.String()
	}
	b.WriteString("\n## Cost\nStatic cycles a token and value head of Mosaic kernels by the same variants, at the sizes that these were chosen for, " + f.Libtpu + "; nothing ran on a TPU:\n\n| kernels | sizes | cost |\n|---|---|---|\n")
	for _, r := range f.Rows {
		fmt.Fprintf(&b, "| `%s` | `%s` | %s |\n", r.Name, r.Spec, strings.Join(r.Costs, ", "))
	}
	return b.String()
}

// orders returns the end of the sentence that says which devices the kernels are for.
func (f Facts) orders() string {
	if len(f.Orders) == 0 {
		return ". Others run it too, as a rule at more cycles: `--target` writes a package for one of them, or for several."
	}
	var b strings.Builder
	for _, o := range f.Orders {
		fmt.Fprintf(&b, ", and in `%s` for TPU %s", strings.Join(o.Modules, "`, `"), o.Target)
		if o.Others != "" {
			b.WriteString(" (taken on " + o.Others + " too)")
		}
	}
	return b.String() + ". The kind of device that JAX lowers for decides, that of the mesh or of its first device; without a TPU it is the first order."
}

// types returns the types of the arguments, each once.
func (f Facts) types() string {
	of, order := map[string][]string{}, []string{}
	for _, a := range f.Args {
		if of[a.Type] == nil {
			order = append(order, a.Type)
		}
		of[a.Type] = append(of[a.Type], "`"+a.Name+"`")
	}
	for i, t := range order {
		order[i] = t + " (" + strings.Join(of[t], ", ") + ")"
	}
	return strings.Join(order, ", ")
}

// example returns a program that calls a package, for a prompt and one token.
func (f Facts) example() string {
	var b strings.Builder
	fmt.Fprintf(&b, "import jax\nimport jax.numpy as jnp\n\nimport %s\n\nkeys = iter(jax.random.split(jax.random.key(0), %d))\n\n\ndef normal(shape, dtype):\n    return jax.random.normal(next(keys), shape, dtype)\n\n\n", f.Name, len(f.Args))
	var all, first []string
	for _, a := range f.Args {
		if a.Name == "initial_state" {
			continue
		}
		var shape []string
		for _, axis := range a.Axes {
			shape = append(shape, strconv.Itoa(f.Sizes[axis]))
		}
		form := "%s"
		switch a.Name {
		case "k":
			form = "%s / " + strconv.Itoa(f.Sizes['K']) + "**0.5"
		case "g":
			form = "-jnp.abs(%s) / 4"
		case "beta", "erase", "write":
			form = "jax.nn.sigmoid(%s)"
		}
		fmt.Fprintf(&b, a.Name+" = "+form+"\n", fmt.Sprintf("normal([%s], jnp.%s)", strings.Join(shape, ", "), a.Type))
		all, first = append(all, a.Name), append(first, a.Name+map[bool]string{true: "[:, 0]"}[strings.Contains(a.Axes, "T")])
	}
	fmt.Fprintf(&b, "o, state = %s.%s(%s)\n", f.Name, f.Function, strings.Join(all, ", "))
	fmt.Fprintf(&b, "o, state = %s.decode_step(%s, state)\n", f.Name, strings.Join(first, ", "))
	return b.String()
}

// Project returns pyproject.toml.
func Project(name, title string) string {
	return fmt.Sprintf(project, strings.ReplaceAll(name, "_", "-"), title)
}

const project = `[build-system]
requires = ["setuptools>=77"]
build-backend = "setuptools.build_meta"

[project]
name = "%s"
version = "` + Version + `"
description = "%s for TPUs: Pallas kernels for training and inference"
readme = "README.md"
license = "` + wheelLicense + `"
license-files = ["LICENSE"]
authors = [{ name = "gdngen" }]
requires-python = ">=3.11"
dependencies = ["jax>=0.10.2", "numpy"]

[project.urls]
Source = "https://` + Address + `"

[project.optional-dependencies]
test = ["pytest"]

[tool.setuptools.packages.find]
where = ["src"]

[tool.setuptools.package-data]
"*" = ["py.typed"]

[tool.ruff]
line-length = 88

[tool.mypy]
allow_redefinition_new = true
local_partial_types = true

[tool.pytest.ini_options]
testpaths = ["tests"]
pythonpath = ["src"]
markers = ["slow: interprets kernels, which takes minutes for wide ones"]
`

const readme = "# %[1]s\n\n%[3]s for TPUs, in Pallas. Written by https://%[6]s %[2]s, whose licence it\nhas, " + wheelLicense + "; generate it anew instead of editing it.\n%[7]s" + `
| function | what |
|---|---|
| ` + "`%[4]s`" + ` | whole sequences, of equal length or packed (` + "`cu_seqlens`" + `), differentiable%[5]s |
| ` + "`decode_step`" + ` | one token of each batch row; its gradient is in plain JAX |
| ` + "`decode_pool`" + ` | the same over states in a pool, which is donated; no gradient by kernels |
| ` + "`prefill_pool`" + ` | packed sequences over such states, gathered before the kernel and put back behind it |
| ` + "`parallel`" + ` | the first two over the devices of a mesh: batch rows, heads, and sequences in parts (` + "`context_parallel`" + ` in a shard_map of yours, ` + "`halo`" + ` for a convolution before it); no packed sequences |
| ` + "`compiler_options`" + ` | what the outermost ` + "`jit`" + ` wants on %[17]s, where kernels take about twice the cycles of the compiler's schedules without |
| ` + "`recurrent`" + ` | token by token in plain JAX: the reference, and what runs off a TPU |

A ` + "`backend`" + ` that is not named is chosen where a function is lowered: a host without a TPU that lowers or exports for one has kernels. Which kind of
TPU it is for says a mesh alone (` + "`jax.sharding.use_abstract_mesh`" + ` with an ` + "`AbstractDevice`" + `); without one kernels are those for most devices.

` + "```python\n%[8]s```" + `

## What it takes
Batch, length, sequences and heads are any, value heads a multiple of key heads. A length that fills no step, and numbers of heads other than those of the
kernels, cost a copy, and the work on what is added: heads run in groups of %[15]d key heads with %[16]d value heads. Widths are K = %[10]d and V = %[11]d, and types are
%[9]s: what holds more is refused.%[12]s
A NaN or infinity spoils its sequence from its chunk on, tokens before it too, and reaches no other sequence. Of packed ones it may
show as finite values, large or not: test inputs for NaN, not outputs. Kernels take %[18]d MiB of vector memory at most, or, to decode, 16 MiB and two states of all heads if that is more. The scale is %[10]d**-0.5, unless it is given; q and k are %[19]s.

Outputs and states are within %[13]s of the largest value of the rule token by token in float32, and gradients within %[14]s, on random inputs with unit keys:
these are the limits of the tests.

## Install and test
` + "`pip install .`, or the wheel in `dist`; test with `pip install .[test]` and `pytest`" + `: kernels are then interpreted on
the CPU, for which XLA compiles each. That takes minutes and some 4 GB for kernels of wide heads; ` + "`pytest -m \"not slow\"`" + `
leaves out most of it.
`
