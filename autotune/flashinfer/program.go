package flashinfer

import (
	"cmp"
	_ "embed"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/ir/target"
)

// solutionMain is the entry point of solutions: Python that runs generated programs through JAX.
//
//go:embed solution_main.py
var solutionMain string

// ProgramSolution returns a solution by a variant: programs generated for each shape, run through JAX. They hold
// kernels for t, or plain ops if t is nil. s is the spec of any workload.
func (p *Problem) ProgramSolution(name, author string, s gdn.Spec, variant string, t *target.Target) (*Solution, error) {
	// The entry point sets the fields that depend on the shape or on the inputs given.
	s.Batch, s.Tokens, s.Seqs, s.Packed, s.Init, s.InPlace, s.Empty, s.Scale = 1, 1, 0, false, false, false, gdn.EmptyKeep, 0
	fixed := strings.TrimPrefix(s.String(), "b=1,t=1,")
	var arguments []string
	for _, x := range p.Inputs {
		argument := x.Name
		if roles[x.Name] == "" {
			argument += "=None"
		}
		arguments = append(arguments, argument)
	}
	hardware, backend, options := "cpu", `"stablehlo"`, "{}"
	if t != nil {
		hardware, backend = t.Name, fmt.Sprintf(`"mosaic", "--target", %q`, t.Name)
		var flags []string
		for _, name := range slices.Sorted(maps.Keys(t.Flags)) {
			flags = append(flags, fmt.Sprintf("%q: %q", name, t.Flags[name]))
		}
		options = "{" + strings.Join(flags, ", ") + "}"
	}
	main := strings.NewReplacer("@BACKEND@", backend, "@OPTIONS@", options, "@DEFINITION@", p.Name, "@SPEC@", fixed, "@VARIANT@", variant, "@ARGUMENTS@", strings.Join(arguments, ", "),
		"@STATE@", cmp.Or(p.names["initial_state"], "None"), "@BOUNDS@", cmp.Or(p.names["cu_seqlens"], "None"),
		"@SCALE@", cmp.Or(p.names["scale"], "None")).Replace(solutionMain)
	sol := &Solution{Name: name, Definition: p.Name, Author: author,
		Description: fmt.Sprintf("Generated programs of the gated delta rule, variant %s.", variant),
		Spec:        BuildSpec{Language: "python", TargetHardware: []string{hardware}, EntryPoint: "main.py::run", Dependencies: []string{"jax"}},
		Sources:     []Source{{Path: "main.py", Content: main}}}
	return sol, sol.Check()
}
