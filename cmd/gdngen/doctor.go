package main

import (
	"context"
	"io"
	"os"
	"strings"
	"time"

	"github.com/gdngen/gdngen/autotune/contest"
	"github.com/gdngen/gdngen/cmd/gdngen/internal/app"
	"github.com/gdngen/gdngen/cmd/gdngen/internal/loop"
	"github.com/gdngen/gdngen/cmd/gdngen/internal/machines"
	"github.com/gdngen/gdngen/internal/interrupt"
	"github.com/gdngen/gdngen/internal/remote"
	"github.com/gdngen/gdngen/pjrt/plugins"
	"github.com/spf13/cobra"
)

func (a CLI) doctorCmd() *cobra.Command {
	var agent, on string
	var env []string
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Say what this machine has and lacks",
		Long: `doctor examines tools, cache, plugins and devices, and says how to mend each fault. It downloads nothing. The status is 6 if something is
missing. It warns of machines of remote hold that were not given back.

With --on it also tries a place, and prints what it has, or the call that failed. With --agent it tries an agent of gdngen loop: it must start, answer a trivial prompt within a minute, and leave no files or processes. It runs as
you do, in no sandbox.`,
		Example: "  gdngen doctor\n  gdngen doctor --agent \"codex exec --ephemeral -\" --env OPENAI_API_KEY\n  gdngen doctor --libtpu ./libtpu.so -o json",
		GroupID: "self",
		Args:    app.Args(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			// doctor reads only the environment
			for name, value := range map[string]string{"GDNGEN_LIBTPU": a.Libtpu, "GDNGEN_CPU_PLUGIN": a.CPUPlugin} {
				if value != "" {
					if err := os.Setenv(name, value); err != nil {
						return err
					}
				}
			}
			checks, err := interrupt.Await(a.Ctx, func() ([]plugins.Check, error) { return plugins.Doctor(a.Ctx), nil })
			if err != nil {
				return err
			}
			checks = append(checks, a.ConfigCheck())
			if agent != "" {
				checks = append(checks, a.tryAgent(agent, env))
			}
			if on != "" {
				checks = append(checks, a.tryPlace(on))
			}
			machines.CLI{App: a.App}.WarnOfLeases()
			if err := app.Emit(a.App, checks, checks, func(w io.Writer) { plugins.WriteChecks(w, checks) }); err != nil {
				return err
			}
			missing := 0
			for _, c := range checks {
				if !c.OK {
					missing++
				}
			}
			if missing > 0 {
				return app.Failed(app.ExitNoEngine, "%d of %d checks found something missing", missing, len(checks))
			}
			return nil
		},
	}
	c.Flags().StringVar(&agent, "agent", "", "try a command as the agent of a loop")
	c.Flags().StringVar(&on, "on", "", "try a place of gdngen remote, or a server fib:URL")
	c.Flags().StringSliceVar(&env, "env", nil, "names of variables that the agent sees")
	return c
}

// placeLimit is the time limit for a place to answer.
const placeLimit = 30 * time.Second

// tryPlace checks a place.
func (a CLI) tryPlace(on string) plugins.Check {
	ctx, cancel := context.WithTimeout(a.Ctx, placeLimit)
	defer cancel()
	try := remote.Examine
	if strings.HasPrefix(on, contest.Prefix) {
		try = contest.Examine
	}
	said, err := try(ctx, on)
	if err != nil {
		return plugins.Check{Name: "place", Detail: err.Error(), Mend: "see docs/device.md for the forms of places and for tokens"}
	}
	return plugins.Check{Name: "place", OK: true, Detail: said}
}

// tryAgent checks an agent.
func (a CLI) tryAgent(agent string, env []string) plugins.Check {
	said, err := loop.Try(a.Ctx, agent, env, loop.TryLimit)
	if err != nil {
		return plugins.Check{Name: "agent", Detail: err.Error(), Mend: "see that the command reads a prompt from its standard input; --env NAME or --env HOME gives it what it needs"}
	}
	return plugins.Check{Name: "agent", OK: true, Detail: "it said: " + said}
}
