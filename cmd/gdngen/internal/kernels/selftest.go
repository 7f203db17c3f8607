package kernels

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/gdngen/gdngen/autotune/selftest"
	"github.com/gdngen/gdngen/cmd/gdngen/internal/app"
	"github.com/gdngen/gdngen/ir/target"
	"github.com/gdngen/gdngen/pjrt/machine"
	"github.com/spf13/cobra"
)

func (a CLI) SelftestCmd() *cobra.Command {
	var f app.DeviceFlags
	var quick, allowSkip, noWait bool
	var seed uint64
	var tests string
	c := &cobra.Command{
		Use:   "selftest",
		Short: "Prove on a device that the generated programs compute what they should",
		Long: `selftest compiles named variants on the device, runs them on classes of inputs, ordinary and adversarial, and compares every output with the
float64 reference; --tests layer has whole layers, forward and backward, which the interpreter computes too. It is the first thing to run where a TPU is attached: there the programs are the Mosaic kernels that a search ranks, elsewhere
StableHLO of plain ops. The device is in a process of its own; one that crashes or hangs fails its case, and the next case opens it again.

A negative example (neumann, newton) passes by missing its limit on keys that defeat it. A program that can not be made
for the device is skipped, with the reason. The whole test compiles some 250 programs, --quick a dozen. The status is 0
if all passed, 3 if a case failed, 4 if one was skipped and --allow-skip was not given, 6 without a device or where it
is not of the generation of --target.

With --target h100 the Triton kernels run on the attached GPU, by the driver of NVIDIA alone.`,
		Example: `  gdngen device selftest --quick
  gdngen device selftest --plugin /path/to/libtpu.so --target v6e -o json > selftest.json
  gdngen device selftest --target h100          Triton kernels on the attached GPU`,
		GroupID: "self",
		Args:    app.Args(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			if !slices.Contains(selftest.Sets, tests) {
				return app.Usage(fmt.Errorf("--tests is %q; want %s", tests, strings.Join(selftest.Sets, ", ")))
			}
			if _, err := target.LookupGPU(f.Target); err == nil && f.Plugin == "" {
				return a.selftestGPU(f.Target, quick, allowSkip)
			}
			lock, err := a.Machine(machine.Computes, noWait, a.Waiting)
			if err != nil {
				return err
			}
			r, err := a.NewRunner(&f)
			if err != nil {
				return err
			}
			defer r.Close()
			t := &selftest.Test{Device: r.Device().Info(), Quick: quick, Tests: tests, Seed: seed}
			t.Version, _ = app.Version()
			if x := r.Device().Target(); x != nil {
				t.Target = x.Name
			} else {
				a.Note("no TPU: programs of plain ops in place of kernels")
			}
			begun := time.Now()
			lost := t.Run(a.Ctx, r, lock, a.Note)
			if len(t.Rows) == 0 || a.Ctx.Err() != nil {
				return lost
			}
			t.Seconds = time.Since(begun).Seconds()
			return a.concludeSelftest(t, allowSkip, lost)
		},
	}
	f.Add(c)
	c.Flags().BoolVar(&quick, "quick", false, fmt.Sprintf("a few variants, on %s inputs", strings.Join(selftest.QuickClasses, ", ")))
	c.Flags().StringVar(&tests, "tests", selftest.Both, "kernels, layer (norms, projections, convolution, rule), or both")
	app.Complete(c, "tests", selftest.Sets)
	c.Flags().BoolVar(&allowSkip, "allow-skip", false, "status 0 although cases were skipped")
	c.Flags().Uint64Var(&seed, "seed", 1, "seed of the inputs")
	app.NoWaitFlag(c, &noWait)
	return c
}

// concludeSelftest counts and prints the rows, and returns an error with the exit status. lost says why the test ended early.
func (a CLI) concludeSelftest(t *selftest.Test, allowSkip bool, lost error) error {
	t.Count()
	if err := app.Emit(a.App, t, t.Rows, func(w io.Writer) { t.Write(w) }); err != nil {
		return err
	}
	switch {
	case lost != nil:
		return lost
	case t.Failed > 0:
		return app.Failed(app.ExitNumerics, "%d of %d cases failed", t.Failed, len(t.Rows))
	case t.Skipped > 0 && !allowSkip:
		return app.Failed(app.ExitRejected, "%d of %d cases were skipped; --allow-skip accepts that", t.Skipped, len(t.Rows))
	case t.Passed == 0:
		return errors.New("no case was tried")
	}
	return nil
}
