package kernels

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/gdngen/gdngen/autotune/bench"
	"github.com/gdngen/gdngen/autotune/contest"
	"github.com/gdngen/gdngen/autotune/flashinfer"
	"github.com/gdngen/gdngen/cmd/gdngen/internal/app"
	"github.com/gdngen/gdngen/internal/store"
	"github.com/gdngen/gdngen/ir/target"
	"github.com/spf13/cobra"
)

func (a CLI) PackCmd() *cobra.Command {
	var file, author, out, variant, definition, generation, root string
	c := &cobra.Command{
		Use:   "pack [DIR]",
		Short: "Pack a solution for FlashInfer-Bench, from a folder or of a variant",
		Long: `pack makes solution.json of a folder that has ` + contest.ConfigName + `, and the files of the solution below solution/LANGUAGE. ` + contest.ConfigName + ` has a
table [solution] with name, definition, author, description, and a table [build] with language, entry_point, destination_passing_style, dependencies,
binding, target_hardware.

The definition is a name of the form ` + flashinfer.Family + `, or one that --root has. The entry point is FILE::FUNCTION; a
function in Python must take as many parameters as the definition passes. The same files give the same bytes. --variant packs a variant instead: Python
that runs generated programs through JAX.`,
		Example: `  gdngen contest pack mine --out solution.json
  gdngen contest pack --variant auto --definition ` + flashinfer.ContestDecode + ` --target v6e --author team --out solution.json`,
		GroupID: "away",
		Args:    app.Args(cobra.MaximumNArgs(1)),
		RunE: func(_ *cobra.Command, words []string) error {
			set := contest.Set{Root: root}
			var sol *flashinfer.Solution
			var err error
			switch {
			case variant != "" && len(words) > 0:
				return app.Usage(errors.New("pack a folder or --variant, not both"))
			case variant != "":
				if definition == "" {
					return app.Usage(errors.New("--variant needs --definition"))
				}
				sol, err = a.packVariant(set, variant, definition, generation, author)
			case len(words) == 0:
				return app.Usage(errors.New("pack what? give a folder, or --variant"))
			default:
				sol, err = contest.Pack(words[0], file, author, set.Definition)
			}
			if err != nil {
				return err
			}
			text, err := flashinfer.Indent(sol)
			if err != nil {
				return err
			}
			if out == "" {
				_, err = a.Stdout.Write(text)
				return err
			}
			a.Note("%s: %s of %s for %s, %d files", out, sol.Name, sol.Author, sol.Definition, len(sol.Sources))
			return store.WriteFile(out, text)
		},
	}
	f := c.Flags()
	f.StringVar(&file, "config", "", "description of the solution (default: "+contest.ConfigName+" in the folder)")
	f.StringVar(&author, "author", "", "author, such as the team's name, in place of the one in the folder")
	app.OutFlag(c, &out)
	a.Formerly(c, "file", "out")
	f.StringVar(&variant, "variant", "", "pack this variant")
	f.StringVar(&definition, "definition", "", "of the variant, by name or file")
	f.StringVar(&generation, "target", "", "TPU generation of the variant's kernels (default: programs of plain ops)")
	rootFlag(c, &root)
	app.Complete(c, "target", target.Names())
	app.CompleteChoices(c, "variant", app.VariantOffers, app.VariantChoices)
	return c
}

// rootFlag adds the flag for the folder of a data set.
func rootFlag(c *cobra.Command, at *string) {
	c.Flags().StringVar(at, "root", cmp.Or(os.Getenv(contest.RootEnv), "."), "folder of the data set, whose definitions are known and where paths of workloads start from (default: "+contest.RootEnv+")")
}

// packVariant returns the solution of a variant.
func (a CLI) packVariant(set contest.Set, variant, definition, generation, author string) (*flashinfer.Solution, error) {
	var t *target.Target
	if generation != "" {
		l, err := app.ParseTargets(generation)
		if err != nil {
			return nil, err
		}
		t = l[0]
	}
	d, err := set.Definition(definition)
	if err != nil {
		return nil, app.Usage(err)
	}
	it := bench.Item{Definition: d}
	if it.Workloads, err = flashinfer.ContestWorkloads(d); err != nil {
		return nil, app.Usage(err)
	}
	if err := it.Choose(variant, t); err != nil {
		return nil, err
	}
	it.Solution.Author = cmp.Or(author, it.Solution.Author)
	return it.Solution, nil
}

func (a CLI) UnpackCmd() *cobra.Command {
	var out string
	c := &cobra.Command{
		Use:     "unpack SOLUTION",
		Short:   "Write the folder that a packed solution is made of",
		Long:    "unpack writes " + contest.ConfigName + " and the files of a solution.json, from which pack makes the same solution again. If a file exists with other content, nothing is written.",
		Example: "  gdngen contest unpack solution.json --out mine",
		GroupID: "away",
		Args:    app.Args(cobra.ExactArgs(1)),
		RunE: func(_ *cobra.Command, words []string) error {
			sol, err := a.readSolution(words[0])
			if err != nil {
				return err
			}
			files, err := contest.Unpack(sol, out)
			if err != nil {
				return err
			}
			return app.Emit(a.App, files, files, func(w io.Writer) {
				for _, f := range files {
					fmt.Fprintln(w, f)
				}
			})
		},
	}
	c.Flags().StringVar(&out, "out", ".", "folder; made where it is missing")
	return c
}

// readSolution reads a packed solution.
func (a CLI) readSolution(name string) (*flashinfer.Solution, error) {
	text, err := a.ReadInput(name)
	if err != nil {
		return nil, err
	}
	sol, err := flashinfer.ParseSolution(text)
	if err != nil {
		return nil, app.Usage(fmt.Errorf("%s: %w", name, err))
	}
	return sol, nil
}
