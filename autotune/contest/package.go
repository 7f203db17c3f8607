package contest

import (
	"embed"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/gdngen/gdngen/autotune/bench"
	"github.com/gdngen/gdngen/autotune/flashinfer"
	"github.com/gdngen/gdngen/codegen/triton"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/pjrt/gpu"
)

//go:embed package
var packageFiles embed.FS

// File is a file of a package; its path uses slashes.
type File struct{ Path, Text string }

// class is a trade of accuracy for time; each definition has a solution per class.
type class struct{ name, changes string }

// classes of prefills. A decode step is the recurrence itself, in float32: it has only one.
var classes = []class{{"bf16", "prec=bf16"}, {"tf32", "prec=tf32"}}

// front lists further variants that the package's benchmark measures.
var front = map[bool][]string{
	false: {"bv=4", "bv=8,warps=2", "bv=16", "bv=16,warps=2", "bv=32,warps=4", "bv=64,warps=4"},
	true: {
		"part=0,bv=16", "part=0,bv=32,stages=1", "part=0,bv=32,stages=3", "part=0,bv=64,stages=1,warps=8", "part=0,bv=32,preparewarps=4", "part=0,bv=32,inverse=masked", "part=0,bv=32,kernels=one",
		"part=8,bv=32,stages=1", "part=16,bv=32,tparts=1", "part=16,bv=64,stages=1", "part=0,bv=32,prec=tf32,stages=1", "part=0,bv=32,prec=tf32x3,stages=1", "part=8,bv=32,prec=tf32,stages=1", "part=0,bv=32,solve=tf32", "part=0,bv=64,stages=1,tparts=1",
	},
}

// DefinitionOf returns the benchmark's definition that has a spec as a workload.
func DefinitionOf(s gdn.Spec) (*flashinfer.Definition, error) {
	stage, layout := "decode", "k"
	if s.Packed {
		stage = "prefill"
	}
	if s.State == gdn.StateKV {
		layout = "v"
	}
	d, err := flashinfer.Named(fmt.Sprintf("gdn_%s_qk%d_v%d_d%d_%s_last", stage, s.HeadsK, s.HeadsV, s.K, layout))
	if err != nil {
		return nil, err
	}
	for _, c := range []struct {
		held bool
		want string
	}{
		{s.K == s.V, "keys as wide as values"}, {s.Gates == gdn.GatesFused, "gates=fused"}, {s.DType == ir.BF16 && s.Out == ir.BF16 && s.GateDType == ir.BF16, "dtype=bf16,gatedtype=bf16"},
		{s.StateDType == ir.F32 && s.Final, "final states in f32"}, {s.Packed == (s.Seqs > 0) && (s.Packed || s.Tokens == 1), "t=1, or packed sequences (seqs)"},
		{s.Pool == 0 && !s.L2Norm && !s.NegEigval && s.Rule == (gdn.Rule{}) && s.Direction == gdn.Forward && s.Conv == 0, "the forward pass without a pool, l2norm, neg_eigval or conv"},
	} {
		if !c.held {
			return nil, fmt.Errorf("%s is no workload of %s: packages are for the contest's definitions, which have %s; see contest-decode and contest-prefill", s, flashinfer.Family, c.want)
		}
	}
	return d, nil
}

// Package returns a data set of FlashInfer-Bench with Triton solutions of the definitions: kernels as readable files,
// tests, the launches, and a GPU benchmark. changes is the text of a variant for all kernels; if it sets prec there is
// one class of solutions, else two. The same arguments give the same bytes.
func Package(definitions []*flashinfer.Definition, changes, version string) ([]File, error) {
	var files []File
	about := []string{}
	for _, d := range definitions {
		list, rows, err := solutions(d, changes, version)
		if err != nil {
			return nil, err
		}
		files, about = append(files, list...), append(about, rows...)
	}
	for _, name := range []string{"kit.py", "test_kernels.py", "launches.py", "benchmark.py"} {
		text, err := packageFiles.ReadFile("package/" + name)
		if err != nil {
			return nil, err
		}
		files = append(files, File{name, string(text)})
	}
	readme, err := packageFiles.ReadFile("package/README.md")
	if err != nil {
		return nil, err
	}
	text := strings.NewReplacer("@VERSION@", version, "@SOLUTIONS@", strings.Join(about, "\n")).Replace(string(readme))
	return append(files, File{"README.md", text}, File{"interpreter.py", gpu.InterpreterText}), nil
}

// solutions returns the files of a definition, and rows for the table of solutions.
func solutions(d *flashinfer.Definition, changes, version string) (files []File, rows []string, err error) {
	p, err := flashinfer.NewProblem(d)
	if err != nil {
		return nil, nil, err
	}
	workloads, err := flashinfer.ContestWorkloads(d)
	if err != nil {
		return nil, nil, err
	}
	s, err := p.Spec(workloads[0])
	if err != nil {
		return nil, nil, err
	}
	text, err := flashinfer.Indent(d)
	if err != nil {
		return nil, nil, err
	}
	files = append(files, File{path.Join("definitions", d.OpType, d.Name+".json"), string(text)})
	var lines []byte
	for _, w := range workloads {
		line, err := flashinfer.Line(&flashinfer.Trace{Definition: d.Name, Workload: w})
		if err != nil {
			return nil, nil, err
		}
		lines = append(lines, line...)
	}
	files = append(files, File{path.Join("workloads", d.OpType, d.Name+".jsonl"), string(lines)})
	for _, c := range classesOf(s, changes) {
		name := d.Name + "_" + bench.Author + "_" + c.name
		sol, err := p.TritonSolution(name, bench.Author, s, c.changes, version)
		if err != nil {
			return nil, nil, err
		}
		if text, err = flashinfer.Indent(sol); err != nil {
			return nil, nil, err
		}
		files = append(files, File{path.Join("solutions", bench.Author, d.OpType, d.Name, name+".json"), string(text)})
		for _, x := range sol.Sources {
			files = append(files, File{path.Join("kernels", name, x.Path), x.Content})
		}
		rows = append(rows, fmt.Sprintf("| `%s` | %d | %s |", name, len(workloads), c.changes))
	}
	s.Init = true
	for _, text := range front[s.Seqs > 0] {
		v, err := triton.Parse(text, s)
		if err != nil { // a width that the variant does not fit
			continue
		}
		source, err := triton.AtLaunch(s, v, version)
		if err != nil {
			return nil, nil, err
		}
		files = append(files, File{path.Join("front", d.Name, strings.NewReplacer("=", "", ",", "_").Replace(text)+".py"), source})
	}
	return files, rows, nil
}

// classesOf returns the classes of solutions of a spec's definition: one for decode steps, or if changes set the precision.
func classesOf(s gdn.Spec, changes string) []class {
	if s.Seqs == 0 {
		return []class{{"f32", changes}}
	}
	for part := range strings.SplitSeq(changes, ",") {
		if prec, ok := strings.CutPrefix(strings.TrimSpace(part), "prec="); ok {
			return []class{{prec, changes}}
		}
	}
	list := slices.Clone(classes)
	for i := range list {
		if changes != "" {
			list[i].changes = changes + "," + list[i].changes
		}
	}
	return list
}
