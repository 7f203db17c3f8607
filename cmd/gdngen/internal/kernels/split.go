package kernels

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"

	"github.com/gdngen/gdngen/autotune/store"
	"github.com/gdngen/gdngen/cmd/gdngen/internal/app"
	"github.com/gdngen/gdngen/codegen"
	"github.com/gdngen/gdngen/codegen/lower"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/parallel"
	"github.com/gdngen/gdngen/ir"
	"github.com/spf13/cobra"
)

// splitFile is the record beside the programs of a split.
const splitFile = "split.json"

// splitProgram is a row of splitFile.
type splitProgram struct {
	File    string   `json:"file"`
	Does    string   `json:"does"`
	Inputs  []string `json:"inputs"` // NAME: TYPE, in order
	Results []string `json:"results"`
}

// splitPrograms is what split writes.
type splitPrograms struct {
	Whole    string          `json:"whole"`
	Parts    int             `json:"parts"`
	Part     string          `json:"part"`
	Variant  string          `json:"variant"`
	Backward string          `json:"backward_variant,omitempty"`
	Target   string          `json:"target,omitempty"` // empty: programs of plain ops
	Programs []*splitProgram `json:"programs"`
}

func (a CLI) SplitCmd() *cobra.Command {
	var spec, variant, target, out string
	var n int
	var alone bool
	c := &cobra.Command{
		Use:   "split --spec SPEC --parts N",
		Short: "Write the programs of a sequence that is split over devices",
		Long: `split writes what each device runs where one sequence is split over N of them (context parallelism): the summary of a part's tokens, a
matrix M and a state O with S_after = M S_before + O; the programs that scan summaries; the rule on a part from the state before it; and the same for
gradients. ` + splitFile + ` lists them with their inputs and results. Only M and O travel, K (K + V) float32 numbers a head, whatever the tokens.

The order of calls stands in docs/parallel.md, and as Go in package gdn/parallel.`,
		Example: "  gdngen split --spec bench,t=32768 --parts 8 --out runs/split\n  gdngen split --spec bench,t=32768 --parts 8 --target v6e --out runs/split\n  gdngen explain runs/split/summary.mlir --target v6e --tokens 4096 --heads 8",
		GroupID: "away",
		Args:    app.Args(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			s, err := app.ParseSpec(spec)
			if err != nil {
				return err
			}
			var t *codegen.Target
			if target != "" {
				if t, err = app.OneTarget(target); err != nil {
					return err
				}
			}
			r, err := split(s, n, variant, alone, t, out)
			if err != nil {
				return app.Usage(err)
			}
			return app.Emit(a.App, r, r.Programs, func(w io.Writer) {
				for _, p := range r.Programs {
					fmt.Fprintf(w, "%-44s %s\n", filepath.Join(out, p.File), p.Does)
				}
			})
		},
	}
	app.SpecFlag(c, &spec, "bench")
	app.VariantFlag(c, &variant)
	fs := c.Flags()
	fs.IntVar(&n, "parts", 2, "parts of equal length, one a device")
	fs.BoolVar(&alone, "forward", false, "the forward pass alone")
	fs.StringVar(&target, "target", "", "TPU generation; none: programs of plain ops, for a CPU or GPU")
	app.Complete(c, "target", codegen.TargetNames())
	fs.StringVar(&out, "out", "runs/split", "folder for the programs")
	return c
}

// split writes the programs of a sequence in n parts.
func split(s gdn.Spec, n int, variant string, alone bool, t *codegen.Target, out string) (*splitPrograms, error) {
	s.Direction = gdn.Forward
	forward, err := lower.Suit(s, cmp.Or(variant, gdn.Auto), t)
	if err != nil {
		return nil, err
	}
	r := &splitPrograms{Whole: s.String(), Parts: n, Variant: forward.Variant.String()}
	var backward *gdn.Variant
	if !alone {
		train := s
		train.Direction = gdn.Train
		f, err := lower.Suit(train, cmp.Or(variant, gdn.Auto), t)
		if err != nil {
			return nil, fmt.Errorf("gradients: %w; --forward leaves them out", err)
		}
		backward, r.Backward = &f.Variant, f.Variant.String()
	}
	p, err := parallel.New(s, n, forward.Variant, backward)
	if err != nil {
		return nil, err
	}
	r.Part = p.Part.String()
	if t != nil {
		r.Target = t.Name
	}
	for _, m := range []struct {
		name, does string
		module     *ir.Module
	}{
		{"summary", "M and O of a part", p.Summary},
		{"compose", "M and O of two neighbours together", p.Compose},
		{"carry", "the state after a range, from that before it", p.Carry},
		{"forward", "outputs of a part from the state before it", p.Forward},
		{"state_gradient", "D, the gradient of the state before a part by its own outputs", p.StateGradient},
		{"compose_back", "M and D of two neighbours together", p.ComposeBack},
		{"carry_back", "the gradient of the state before a range, from that after it", p.CarryBack},
		{"backward", "gradients of a part", p.Backward},
	} {
		if m.module == nil {
			continue
		}
		text, err := lower.On(m.module, t)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", m.name, err)
		}
		row := &splitProgram{File: m.name + ".mlir", Does: m.does}
		for _, in := range m.module.Params() {
			row.Inputs = append(row.Inputs, in.Name+": "+in.Type.String())
		}
		for i, x := range m.module.Body.Yield {
			row.Results = append(row.Results, m.module.Results[i]+": "+x.Type.String())
		}
		r.Programs = append(r.Programs, row)
		if err := store.WriteBelow(out, row.File, []byte(text.Text)); err != nil {
			return nil, err
		}
	}
	record, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return nil, err
	}
	return r, store.WriteBelow(out, splitFile, append(record, '\n'))
}
