package main

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/gdngen/gdngen/cmd/gdngen/internal/app"
	"github.com/gdngen/gdngen/internal/terminal"
	"github.com/gdngen/gdngen/ir/target"
	"github.com/gdngen/gdngen/pjrt/plugins"
	"github.com/spf13/cobra"
)

// tourStep is a command of the tour.
type tourStep struct {
	before, after string // its purpose, and how to read its output: quoted and capitalized words are from the output
	compiles      bool   // it needs libtpu, and takes minutes
	args          string // with SPEC, SMALL, TARGET and DIR
}

// tourSteps are a first ten minutes with gdngen.
var tourSteps = []tourStep{
	{"The best known kernel for your shape.",
		"That is the text libtpu compiles. The line \"auto is\" names the variant, which is how the kernel computes, and why it was chosen.",
		false, "gen --spec SPEC --target TARGET --out DIR/kernel.mlir"},
	{"Are its numbers right? The text that was emitted is evaluated here, without a TPU, and compared with float64 on hard inputs.",
		"Each row is an output on a class of inputs. RMS, MAX and BIAS are three kinds of its error, and the LIMIT behind each is what rounding alone allows: STATUS is \"pass\" where all three are within theirs.",
		false, "check --spec SMALL --target TARGET --engine module --classes random,identical"},
	{"What it costs on a TPU that is not there: libtpu compiles, and the schedule is read.",
		"IN-ORDER is all cycles of the schedule with their waits; PER TOKEN and value head it compares with any kernel. The rows of STAGE add up to the whole, and those of BOUND say how far one could go.",
		true, "explain --spec SPEC --target TARGET"},
	{"A small search: other variants, judged by the same gates, and ranked by cost.",
		"A \"verdict\" of \"improved\" is better than all before it, \"close\" and \"worse\" are not; a candidate that a gate refuses is listed below with the reason. The folder of the run is enough to go on, also after a kill.",
		true, "search run --spec SPEC --target TARGET --start auto --start merge-packed --max-candidates 4 --run DIR/run"},
	{"The same search as a page.",
		"Open it in a browser: the best so far, the stages of champion and first, and what was rejected.",
		true, "run show DIR/run --html DIR/report.html"},
}

func (a CLI) tourCmd() *cobra.Command {
	var spec, generation, dir string
	var yes bool
	c := &cobra.Command{
		Use:   "tour [--spec SPEC]",
		Short: "Play the first ten minutes, on your own shape",
		Long: `tour runs some commands, one after another, on your shape: it prints each command and its purpose, runs it, and explains its output. On a
terminal it asks before each; q ends it. All files go into one new folder. Without libtpu, commands that compile are left out.`,
		Example: "  gdngen tour\n  gdngen tour --spec b=1,t=2048,hk=8,hv=16,k=128,v=128,dtype=bf16 --target tpu7x",
		GroupID: "work",
		Args:    app.Args(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			s, err := app.ParseSpec(spec)
			if err != nil {
				return err
			}
			if _, err := app.OneTarget(generation); err != nil {
				return err
			}
			if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
				return app.Usage(fmt.Errorf("%s is there already: name a new folder by --out", dir))
			}
			if err := os.MkdirAll(dir, 0o755); err != nil {
				return err
			}
			small := s
			small.Tokens = min(s.Tokens, 256)
			small.Seqs = min(s.Seqs, 2)
			return a.tour(strings.NewReplacer("SPEC", s.String(), "SMALL", small.String(), "TARGET", generation, "DIR", filepath.ToSlash(dir)), yes)
		},
	}
	app.SpecFlag(c, &spec, "bench,t=1024")
	c.Flags().StringVar(&generation, "target", app.DefaultTarget, "TPU generation (see gdngen list targets)")
	c.Flags().StringVar(&dir, "out", "tour", "new folder for what is written")
	c.Flags().BoolVarP(&yes, "yes", "y", false, "ask nothing")
	app.CompleteList(c, "target", target.Names())
	return c
}

// tour runs the steps.
func (a CLI) tour(fill *strings.Replacer, yes bool) error {
	compiler := true
	if _, err := a.AOT(); app.IsA[*plugins.MissingError](err) {
		compiler = false
		a.Note("libtpu is missing (gdngen setup fetches it), so the tour leaves out what compiles")
	} else if err != nil {
		return err
	}
	typed, fromFile := a.Stdin.(*os.File)
	shown, toFile := a.Stdout.(*os.File)
	asks := !yes && fromFile && toFile && terminal.Is(typed) && terminal.Is(shown)
	in := bufio.NewReader(a.Stdin)
	for i, step := range tourSteps {
		if step.compiles && !compiler {
			continue
		}
		line := fill.Replace(step.args)
		long := map[bool]string{true: " (some minutes the first time)"}[step.compiles]
		fmt.Fprintf(a.Stdout, "\n%d of %d. %s%s\n\n  %s\n\n", i+1, len(tourSteps), step.before, long, terminal.Paint(a.Stdout, terminal.Green, "gdngen "+line))
		if asks {
			fmt.Fprint(a.Stdout, "Enter runs it, s skips it, q ends the tour: ")
			answer, err := in.ReadString('\n')
			switch answer = strings.TrimSpace(answer); {
			case err != nil || answer == "q":
				return nil
			case answer == "s":
				continue
			}
		}
		if err := a.again(strings.Fields(line)); err != nil {
			return fmt.Errorf("step %d: %w", i+1, err)
		}
		fmt.Fprintf(a.Stdout, "\n%s\n", step.after)
	}
	a.Note("next: gdngen tune with the config.json of your model; gdngen gen --backend pallas, for JAX; %s", fill.Replace("gdngen run resume DIR/run, which goes on"))
	return nil
}

// again runs another command of this program, with the same global flags.
func (a CLI) again(args []string) error {
	b := &app.App{Stdin: a.Stdin, Stdout: a.Stdout, Stderr: a.Stderr}
	defer b.Close()
	root := CLI{b}.root()
	for _, f := range []struct{ name, value string }{{"libtpu", a.Libtpu}, {"cpu-plugin", a.CPUPlugin}, {"offline", fmt.Sprint(a.Offline)}} {
		if err := root.PersistentFlags().Set(f.name, f.value); err != nil {
			return err
		}
	}
	root.SetArgs(args)
	root.SetIn(a.Stdin)
	root.SetOut(a.Stdout)
	root.SetErr(a.Stderr)
	return root.ExecuteContext(a.Ctx)
}
