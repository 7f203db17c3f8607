package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/gdngen/gdngen/autotune/store"
	"github.com/gdngen/gdngen/codegen/lower"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/measure"
)

func (a *app) genCmd() *cobra.Command {
	var g struct{ spec, stored, variant, backend, target, level, file, pack string }
	c := &cobra.Command{
		Use:   "gen (--spec SPEC | --case FILE)",
		Short: "Write the program of a spec or a stored case",
		Long: `gen writes a module for a spec, or for a stored case (a safetensors file beside its manifest.json). Its @main takes q, k, v, then g and
beta (or A_log, a, dt_bias, b where gates are fused), then initial_state and cu_seqlens where the spec has them, and returns o and
final_state, in the layouts of the spec.

Backends: stablehlo for a CPU or GPU, mosaic for a TPU, pallas for a Python file that JAX runs, ir for the text of the intermediate
representation.

A file of pallas holds the kernels, a differentiable function and a self-check (python FILE); its header names the static cost of the kernels
on the targets, by default v5e, v6e and tpu7x, or none. --package writes a folder that pip installs, with tests.`,
		Example: `  gdngen gen --spec bench --variant bf16 --backend mosaic --target v6e -o kernel.mlir
  gdngen gen --spec bench --variant tpu --backend pallas -o gated_delta_rule.py
  gdngen gen --case tests/fixtures/s03_gva_4to8.safetensors --backend stablehlo
  gdngen gen --spec tiny --variant token --backend ir --level kernel`,
		GroupID: "work",
		Args:    args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := genSpec(g.spec, g.stored)
			if err != nil {
				return err
			}
			if g.pack != "" && g.backend != "pallas" {
				return usage(errors.New("--package goes with --backend pallas"))
			}
			if g.backend == "pallas" {
				return a.genPallas(s, g.variant, g.target, cmd.Flags().Changed("target"), g.file, g.pack)
			}
			v, text, err := render(s, g.variant, g.backend, g.target, g.level, cmd.Flags().Changed("level"))
			if why := v.Unsafe(s); err == nil && why != "" {
				a.warn("%s", why)
			}
			if err != nil {
				return err
			}
			return a.writeText(g.file, text)
		},
	}
	specFlag(c, &g.spec, "")
	c.Flags().StringVar(&g.stored, "case", "", "take the spec of this stored case")
	variantFlag(c, &g.variant)
	c.Flags().StringVar(&g.backend, "backend", "stablehlo", "stablehlo, mosaic, pallas or ir")
	c.Flags().StringVar(&g.target, "target", "v6e", "TPU generation, for mosaic (see gdngen targets); for pallas those whose cost the header names")
	c.Flags().StringVar(&g.level, "level", "tensor", "for ir: tensor, or kernel after the lowering of grids")
	c.Flags().StringVarP(&g.file, "output", "o", "", "write to this file; standard output without")
	c.Flags().StringVar(&g.pack, "package", "", "for pallas: write a package of this folder's name, which pip installs")
	complete(c, "backend", append(backendNames(), "ir"))
	complete(c, "target", targetNames())
	complete(c, "level", []string{"tensor", "kernel"})
	return c
}

// writeText writes to a file, which appears whole or not at all, or to standard output.
func (a *app) writeText(file, text string) error {
	if file == "" || file == "-" {
		_, err := fmt.Fprint(a.stdout, text)
		return err
	}
	return store.WriteFile(file, []byte(text))
}

func genSpec(text, stored string) (gdn.Spec, error) {
	switch {
	case text == "" && stored == "":
		return gdn.Spec{}, usage(errors.New("what to generate? give --spec or --case"))
	case text != "" && stored != "":
		return gdn.Spec{}, usage(errors.New("give --spec or --case, not both"))
	case stored == "":
		return parseSpec(text)
	}
	c, err := findCase(stored)
	if err != nil {
		return gdn.Spec{}, err
	}
	if !c.Supported {
		return gdn.Spec{}, fmt.Errorf("case %s is not supported: %s", c.Name, c.Reason)
	}
	return c.Spec, nil
}

// render gives the text of a spec by a variant, and the variant in the form that suits the target of the backend.
func render(s gdn.Spec, variant, backend, target, level string, levelGiven bool) (v gdn.Variant, text string, err error) {
	if levelGiven && backend != "ir" {
		return v, "", usage(errors.New("--level goes with --backend ir"))
	}
	if backend == "ir" {
		f, err := suit(s, variant, lower.Route{}, nil)
		if err != nil {
			return v, "", err
		}
		var m *ir.Module
		switch level {
		case "tensor":
			m, err = f.Build()
		case "kernel":
			m, err = f.Kernels()
		default:
			err = usage(fmt.Errorf("unknown level %q (known: tensor kernel)", level))
		}
		if err != nil {
			return v, "", err
		}
		return f.Variant, m.String(), nil
	}
	r, err := parseBackend(backend)
	if err != nil {
		return v, "", usage(fmt.Errorf("unknown backend %q%s (known: stablehlo mosaic pallas ir)", backend, near(backend, append(backendNames(), "ir"), "")))
	}
	targets, err := parseTargets(target)
	if err != nil {
		return v, "", err
	}
	if len(targets) != 1 {
		return v, "", usage(fmt.Errorf("gen writes one module: give one target, not %d", len(targets)))
	}
	f, err := suit(s, variant, r, targets[0])
	if err != nil {
		return v, "", err
	}
	p, err := measure.Of(f, r)
	if err != nil {
		return v, "", err
	}
	text, err = p.Text(targets[0])
	return f.Variant, text, err
}
