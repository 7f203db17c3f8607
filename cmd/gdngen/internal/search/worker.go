package search

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/gdngen/gdngen/autotune/judge"
	"github.com/gdngen/gdngen/autotune/measure"
	"github.com/gdngen/gdngen/autotune/worker"
	"github.com/gdngen/gdngen/cmd/gdngen/internal/app"
	"github.com/gdngen/gdngen/internal/remote"
	"github.com/gdngen/gdngen/internal/terminal"
	"github.com/gdngen/gdngen/pjrt/machine"
	"github.com/gdngen/gdngen/pjrt/plugins"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// labFlags are the flags of a process that judges.
type labFlags struct {
	lab    judge.LabOptions
	memory string
}

func (l *labFlags) add(f *pflag.FlagSet) {
	f.DurationVar(&l.lab.Timeout, "compile-timeout", 0, "limit of one compile; 0: ten times what compiles take here, at least a minute")
	f.StringVar(&l.memory, "compile-memory", "6GiB", "memory of one compile worker, such as 4GiB")
	f.StringVar(&l.lab.Device, "plugin", "", "examine and time the best on a device too: a PJRT plugin, or cpu; a TPU must be of one of the targets")
}

// options returns the flags as options of a lab.
func (a CLI) options(l *labFlags) (o judge.LabOptions, err error) {
	o = l.lab
	o.CPU = plugins.Options{Path: a.CPUPlugin, Progress: a.Stderr, Offline: a.Offline}
	o.TPU = plugins.Options{Path: a.Libtpu, Progress: a.Stderr, Offline: a.Offline}
	if o.Cache, err = measure.OpenCache(); err != nil {
		return o, err
	}
	if o.Exams, err = measure.ExamsDir(); err != nil {
		return o, err
	}
	if o.Build, err = remote.Build(); err != nil {
		return o, err
	}
	if o.Memory, err = terminal.ParseSize(l.memory); err != nil {
		return o, app.Usage(fmt.Errorf("--compile-memory: %w", err))
	}
	return o, nil
}

// words returns the flags in the form of a worker's command line.
func (l *labFlags) words() []string {
	words := []string{"--compile-memory=" + l.memory}
	if l.lab.Timeout > 0 {
		words = append(words, "--compile-timeout="+l.lab.Timeout.String())
	}
	if l.lab.Device != "" {
		words = append(words, "--plugin="+l.lab.Device)
	}
	return words
}

func (a CLI) WorkerCmd() *cobra.Command {
	var l labFlags
	c := &cobra.Command{
		Use:   "worker",
		Short: "Judge candidates for a search in another process",
		Long: `worker reads orders from standard input and writes replies to standard output, as lines of JSON; search run --on starts such workers. It
judges one candidate at a time by the gates of the search, and ends when its input ends.`,
		Example: `  gdngen search run --on "exec:gdngen worker" --run runs/first
  gdngen search run --on "exec:kubectl exec -i gdngen-0 -- gdngen worker*2" --run runs/first`,
		GroupID: "away",
		Args:    app.Args(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			o, err := a.options(&l)
			if err != nil {
				return err
			}
			o.Workers = 1
			lock, err := a.Machine(machine.Computes, false, a.Waiting)
			if err != nil {
				return err
			}
			generator, _ := app.Version()
			return worker.Serve(a.Ctx, a.Stdin, a.Stdout, worker.Options{Generator: generator, Machine: lock,
				Evaluator: func(ctx context.Context) (judge.Evaluator, error) { return judge.NewLab(ctx, o) }})
		},
	}
	l.add(c.Flags())
	return c
}

// onFlags choose where candidates are judged.
type onFlags struct {
	on    []string
	limit time.Duration
}

func (o *onFlags) add(c *cobra.Command) {
	c.Flags().StringArrayVar(&o.on, "on", nil, "where candidates are judged, once for each: ENGINE or ENGINE*WORKERS with an engine of "+strings.Join(worker.EngineForms(), ", ")+" (default: local)")
	c.Flags().DurationVar(&o.limit, "candidate-timeout", 0, "after this time a worker of --on that judges one candidate is lost; 0: an hour")
}

// workers starts the workers of --on. If it names only this process, there is no pool: candidates are judged in this process.
func (a CLI) workers(o *onFlags, s *searchFlags, mixed bool, warn func(string)) (*worker.Pool, error) {
	engines, here, away, err := worker.ParseEngines(o.on)
	if err != nil {
		return nil, app.Usage(fmt.Errorf("--on: %w", err))
	}
	if s.config.Workers > 0 && len(engines) > 0 {
		return nil, app.Usage(errors.New("--workers is for a search without --on, whose workers are counted as in --on local*4"))
	}
	if !away {
		s.config.Workers = max(here, s.config.Workers)
		return nil, nil
	}
	flags := s.lab.words()
	for name, value := range map[string]string{"libtpu": a.Libtpu, "cpu-plugin": a.CPUPlugin} {
		if value != "" {
			flags = append(flags, "--"+name+"="+value)
		}
	}
	if a.Offline {
		flags = append(flags, "--offline")
	}
	generator, _ := app.Version()
	return worker.New(a.Ctx, engines, worker.PoolOptions{Generator: generator, Flags: flags, Mixed: mixed, Limit: o.limit, Ready: s.config.Budget, Warn: warn})
}
