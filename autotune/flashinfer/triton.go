package flashinfer

import (
	"cmp"
	_ "embed"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gdngen/gdngen/codegen/triton"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/ir"
)

// tritonMain is the entry point of solutions in Triton: it chooses kernels by the sizes of a call.
//
//go:embed triton_main.py
var tritonMain string

// tritonHardware lists the GPUs that Triton kernels are checked for.
var tritonHardware = []string{"NVIDIA_H100", "NVIDIA_B200"}

// TritonSolution returns a solution by Triton kernels: one for workloads of all sizes, with or without a state, of any scale. s is the spec of any
// workload, changes the text of a variant that all kernels follow, and version the generator's. It errs if the definition has no final state.
func (p *Problem) TritonSolution(name, author string, s gdn.Spec, changes, version string) (*Solution, error) {
	if p.names["final_state"] == "" {
		return nil, fmt.Errorf("%s has no final state: solutions in Triton write one", p.Name)
	}
	for _, role := range []string{"A_log", "dt_bias"} {
		if x := p.tensor(role); elementTypes[x.DType] != ir.F32 {
			return nil, fmt.Errorf("definition.inputs.%s: is %s, and kernels of Triton take float32", x.Name, x.DType)
		}
	}
	s.Init, s.Scale = true, 0
	if s.Seqs > 0 {
		s.Empty = gdn.EmptyZero // as in the benchmark's references
	}
	forms, err := triton.Forms(s, changes)
	if err != nil {
		return nil, err
	}
	sol := &Solution{Name: name, Definition: p.Name, Author: author,
		Description: "Triton kernels of the gated delta rule, generated; checked in Triton's interpreter and compiled, with no GPU.",
		Spec:        BuildSpec{Language: "triton", TargetHardware: tritonHardware, EntryPoint: "main.py::run", DestinationLast: true},
		Sources:     []Source{{Path: "main.py", Content: p.tritonMain(s, forms, version)}}}
	for i, f := range forms {
		if slices.ContainsFunc(forms[:i], func(g triton.Form) bool { return g.Name == f.Name }) {
			continue
		}
		text, err := triton.AtLaunch(s, f.Variant, version)
		if err != nil {
			return nil, err
		}
		sol.Sources = append(sol.Sources, Source{Path: f.Name + ".py", Content: text})
	}
	return sol, sol.Check()
}

// tritonMain is the text of the entry point.
func (p *Problem) tritonMain(s gdn.Spec, forms []triton.Form, version string) string {
	var arguments, tensors, call, modules []string
	var table strings.Builder
	for _, list := range [][]Tensor{p.Inputs, p.Outputs} {
		for _, x := range list {
			arguments = append(arguments, x.Name)
			if !x.Scalar {
				tensors = append(tensors, x.Name)
			}
		}
	}
	for _, x := range append(s.Inputs(), s.Outputs()...) {
		call = append(call, x.Name+"="+cmp.Or(p.names[x.Name], "None"))
	}
	for _, f := range forms {
		bounds := []string{"None", "None", "None"}
		for i, n := range []int{f.Columns, f.Length, f.Tokens} {
			if n > 0 {
				bounds[i] = strconv.Itoa(n)
			}
		}
		fmt.Fprintf(&table, "    (%s, %s),\n", strings.Join(bounds, ", "), f.Name)
		modules = append(modules, f.Name)
	}
	slices.Sort(modules)
	modules = slices.Compact(modules)
	sizes, sequences, layout := "batch", "q.shape[0]", "[sequences, HV, V, K]"
	if s.Seqs > 0 {
		sizes, sequences = "number of tokens and sequences", p.names["cu_seqlens"]+".shape[0] - 1"
	}
	if p.layout == gdn.StateKV {
		layout = "[sequences, HV, K, V]"
	}
	state := "States are " + layout + "; one that is None is zeros, a scale that is None or 0 is K^-1/2."
	if s.Seqs > 0 {
		state += " An empty sequence ends with zeros."
	}
	return strings.NewReplacer("@DEFINITION@", p.Name, "@SIZES@", sizes, "@SIGNATURE@", fmt.Sprintf("%d key heads, %d value heads, K = %d, V = %d; outputs are the last arguments.", s.HeadsK, s.HeadsV, s.K, s.V),
		"@STATE@", state, "@VERSION@", version, "@MODULES@", strings.Join(modules, ", "), "@FORMS@", table.String(), "@COLUMNS@", strconv.Itoa(s.HeadsV*s.V),
		"@ARGUMENTS@", strings.Join(arguments, ", "), "@TENSORS@", strings.Join(tensors, ", "), "@SEQUENCES@", sequences, "@CALL@", strings.Join(call, ", "),
		"@SCALE@", cmp.Or(p.names["scale"], "None"), "@DEFAULT@", strconv.FormatFloat(s.DefaultScale(), 'g', -1, 64)).Replace(tritonMain)
}
