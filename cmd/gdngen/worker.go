package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/gdngen/gdngen/autotune"
	"github.com/gdngen/gdngen/autotune/journal"
	"github.com/gdngen/gdngen/autotune/worker"
	"github.com/gdngen/gdngen/internal/terminal"
	"github.com/gdngen/gdngen/measure"
	"github.com/gdngen/gdngen/pjrt/machine"
	"github.com/gdngen/gdngen/pjrt/plugins"
)

// labFlags are the flags of who judges.
type labFlags struct {
	lab    autotune.LabOptions
	memory string
}

func (l *labFlags) add(f *pflag.FlagSet) {
	f.DurationVar(&l.lab.Timeout, "compile-timeout", 0, "limit of one compile; 0: ten times what compiles take here, at least a minute")
	f.StringVar(&l.memory, "compile-memory", "6GiB", "memory of one compile worker, such as 4GiB")
	f.StringVar(&l.lab.Device, "device", "", "examine and time the best on a device too: a PJRT plugin, or cpu; a TPU must be of one of the targets")
}

// options completes the flags.
func (a *app) options(l *labFlags) (o autotune.LabOptions, err error) {
	o = l.lab
	o.CPU = plugins.Options{Path: a.cpuPlugin, Progress: a.stderr, Offline: a.offline}
	o.TPU = plugins.Options{Path: a.libtpu, Progress: a.stderr, Offline: a.offline}
	if o.Cache, err = measure.OpenCache(); err != nil {
		return o, err
	}
	if o.Memory, err = terminal.ParseSize(l.memory); err != nil {
		return o, usage(fmt.Errorf("--compile-memory: %w", err))
	}
	return o, nil
}

// words are the flags on a worker's command line.
func (l *labFlags) words() []string {
	words := []string{"--compile-memory=" + l.memory}
	if l.lab.Timeout > 0 {
		words = append(words, "--compile-timeout="+l.lab.Timeout.String())
	}
	if l.lab.Device != "" {
		words = append(words, "--device="+l.lab.Device)
	}
	return words
}

func (a *app) workerCmd() *cobra.Command {
	var l labFlags
	c := &cobra.Command{
		Use:   "worker",
		Short: "Judge candidates for a search in another process",
		Long: `worker reads orders from standard input and writes replies to standard output, as lines of JSON; search run --on starts such workers. It judges one
candidate at a time by the gates of the search, and ends with its input.`,
		Example: `  gdngen search run --on "exec:gdngen worker" --run runs/first
  gdngen search run --on "exec:kubectl exec -i gdngen-0 -- gdngen worker*2" --run runs/first`,
		GroupID: "away",
		Args:    args(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			o, err := a.options(&l)
			if err != nil {
				return err
			}
			o.Workers = 1
			lock, err := a.machine(machine.Computes, false, a.waiting)
			if err != nil {
				return err
			}
			generator, _ := version()
			return worker.Serve(a.ctx, a.stdin, a.stdout, worker.Options{Generator: generator, Machine: lock,
				Evaluator: func(ctx context.Context) (autotune.Evaluator, error) { return autotune.NewLab(ctx, o) }})
		},
	}
	l.add(c.Flags())
	return c
}

// onFlags say where candidates are judged.
type onFlags struct {
	on    []string
	limit time.Duration
}

func (o *onFlags) add(c *cobra.Command) {
	forms, _ := worker.EngineDocs()
	c.Flags().StringArrayVar(&o.on, "on", nil, "where candidates are judged, once for each: ENGINE or ENGINE*WORKERS with an engine of "+strings.Join(forms, ", ")+" (default: local)")
	c.Flags().DurationVar(&o.limit, "candidate-timeout", 0, "after this time a worker of --on that judges one candidate is lost; 0: an hour")
}

// engineDocs describes the engines for a help text.
func engineDocs() string {
	forms, docs := worker.EngineDocs()
	for i := range forms {
		docs[i] = forms[i] + " (" + docs[i] + ")"
	}
	return strings.Join(docs, "; ")
}

// workers starts what --on names. Without another machine or command there is no pool: candidates are then judged in this process.
func (a *app) workers(o *onFlags, s *searchFlags, mixed bool, warn func(string)) (*worker.Pool, error) {
	var engines []*worker.Engine
	local := 0
	for _, text := range o.on {
		e, err := worker.ParseEngine(text)
		if err != nil {
			return nil, usage(fmt.Errorf("--on: %w", err))
		}
		engines = append(engines, e)
		if e.IsLocal() {
			local += e.Slots
		}
	}
	if s.config.Workers > 0 && len(engines) > 0 {
		return nil, usage(errors.New("--workers is for a search without --on, whose workers are counted as in --on local*4"))
	}
	if len(engines) == 0 || local > 0 && !awayFromHere(engines) {
		s.config.Workers = max(local, s.config.Workers)
		return nil, nil
	}
	flags := s.lab.words()
	for name, value := range map[string]string{"libtpu": a.libtpu, "cpu-plugin": a.cpuPlugin} {
		if value != "" {
			flags = append(flags, "--"+name+"="+value)
		}
	}
	if a.offline {
		flags = append(flags, "--offline")
	}
	generator, _ := version()
	return worker.New(a.ctx, engines, worker.PoolOptions{Generator: generator, Flags: flags, Mixed: mixed, Limit: o.limit, Warn: warn})
}

// awayFromHere says whether an engine is not this machine.
func awayFromHere(l []*worker.Engine) bool {
	for _, e := range l {
		if !e.IsLocal() {
			return true
		}
	}
	return false
}

// mixed says whether a run is one whose workers may differ.
func mixed(dir string) (bool, error) {
	s, _, err := journal.Read(dir, nil)
	if err != nil {
		return false, err
	}
	return s.Header.Mixed, nil
}
