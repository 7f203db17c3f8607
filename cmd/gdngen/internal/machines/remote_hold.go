package machines

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/gdngen/gdngen/cmd/gdngen/internal/app"
	"github.com/gdngen/gdngen/internal/remote"
	"github.com/spf13/cobra"
)

func (a CLI) remoteHoldCmd() *cobra.Command {
	var h remote.Hold
	var fallback []string
	var zone, policy string
	var dryRun bool
	c := &cobra.Command{
		Use:   "hold NAME --type T --zone Z [-- COMMAND...]",
		Short: "Take a cloud's TPU machine for a while",
		Long: `hold takes a TPU machine by gcloud's queued resources and gives it back at its end: at an interrupt, at --max, or when COMMAND has ended, which runs here
with ` + app.OnEnv + ` set to the machine. Each zone is tried --attempts times. A machine that is lost is requested again. A lease file in the
user's configuration lists machines that are paid for; doctor lists leases, and remote release ends the lease of a holder that is gone.

The status is 7 where no machine could be had; with --policy best-effort COMMAND does not run, and the status is 0.`,
		Example: `  gdngen remote hold mine --type v6e-8 --zone us-central1-b --fallback us-east5-a --spot --max 12h
  gdngen remote hold mine --type v6e-8 --zone us-central1-b -- gdngen remote test --expect 200 -- --plugin libtpu.so
  gdngen remote hold mine --type v6e-8 --zone us-central1-b --dry-run`,
		Args: app.Args(cobra.MinimumNArgs(1)),
		RunE: func(_ *cobra.Command, words []string) error {
			h.Name = words[0]
			for at, env := range map[*string]string{&h.Type: remote.TypeEnv, &zone: remote.ZoneEnv} {
				if *at == "" || *at == remote.Auto {
					*at = os.Getenv(env)
				}
			}
			if zone != "" {
				h.Zones = append([]string{zone}, fallback...)
			}
			if policy != "required" && policy != "best-effort" {
				return app.Usage(fmt.Errorf("--policy %q: want required or best-effort", policy))
			}
			if err := h.Check(); err != nil {
				return err
			}
			if dryRun {
				calls := h.Calls()
				return app.Emit(a.App, calls, calls, func(w io.Writer) { fmt.Fprintln(w, strings.Join(calls, "\n")) })
			}
			var err error
			if h.Leases, err = remote.LeasesDir(); err != nil {
				return err
			}
			h.Note = func(text string) { a.Note("%s", text) }
			err = a.hold(&h, words[1:])
			if none := (*remote.NoMachineError)(nil); errors.As(err, &none) && policy == "best-effort" {
				a.Warn("%v", err)
				return nil
			}
			return err
		},
	}
	f := c.Flags()
	f.StringVar(&h.Type, "type", "", "accelerator, such as v6e-8; auto or none: tpu-type of the configuration")
	f.StringVar(&h.Version, "runtime", "", "software of the machine, as gcloud names it (default: by the type)")
	f.StringVar(&zone, "zone", "", "zone that is tried first; auto or none: tpu-zone of the configuration")
	f.StringArrayVar(&fallback, "fallback", nil, "another zone, once for each")
	f.StringVar(&h.Project, "project", "", "project (default: gcloud's)")
	f.BoolVar(&h.Spot, "spot", false, "a machine that may be taken away at any time")
	f.BoolVar(&h.Reserved, "reserved", false, "a machine of the project's reservation")
	f.IntVar(&h.Attempts, "attempts", 2, "tries in each zone")
	f.DurationVar(&h.Sleep, "retry-sleep", 20*time.Second, "time between two tries")
	f.DurationVar(&h.Ready, "ready", 15*time.Minute, "time that one try may take")
	f.DurationVar(&h.Max, "max", 12*time.Hour, "give it back after this time; 0: never by itself")
	f.StringVar(&policy, "policy", "required", "required or best-effort")
	f.BoolVar(&dryRun, "dry-run", false, "print the calls of gcloud")
	return c
}

// hold keeps a machine while a command runs, or without one until an interrupt.
func (a CLI) hold(h *remote.Hold, command []string) error {
	err := h.Run(a.Ctx, func(ctx context.Context, l *remote.Lease) *exec.Cmd {
		a.Note("%s is yours: --on tpu:%[1]s, now %[2]s", l.Name, l.Place())
		if len(command) == 0 {
			return nil
		}
		cmd := exec.CommandContext(ctx, command[0], command[1:]...)
		cmd.Env = append(os.Environ(), app.OnEnv+"=tpu:"+l.Name) // valid also after it was replaced in another zone
		cmd.Stdin, cmd.Stdout, cmd.Stderr = a.Stdin, a.Stdout, a.Stderr
		return cmd
	})
	if exit := (*exec.ExitError)(nil); len(command) > 0 && errors.As(err, &exit) && exit.ExitCode() > 0 {
		return app.Failed(exit.ExitCode(), "%s ended with status %d", command[0], exit.ExitCode())
	}
	return err
}

func (a CLI) remoteReleaseCmd() *cobra.Command {
	return &cobra.Command{
		Use:     "release [NAME]",
		Short:   "Give back a machine that is held; without a name, list them",
		Example: "  gdngen remote release\n  gdngen remote release mine",
		Args:    app.Args(cobra.MaximumNArgs(1)),
		RunE: func(_ *cobra.Command, words []string) error {
			dir, err := remote.LeasesDir()
			if err != nil {
				return err
			}
			l, err := remote.Leases(dir)
			if err != nil {
				return err
			}
			if len(words) == 0 {
				return app.Emit(a.App, l, l, func(w io.Writer) {
					for _, x := range l {
						fmt.Fprintln(w, x)
					}
				})
			}
			for _, x := range l {
				if x.Name == words[0] {
					return remote.Release(dir, x)
				}
			}
			return app.Failed(app.ExitFailure, "no machine %s is held; gdngen remote release lists them", words[0])
		},
	}
}

// WarnOfLeases warns of machines that are held and cost money.
func (a CLI) WarnOfLeases() {
	dir, err := remote.LeasesDir()
	if err != nil {
		return // without a home there are none
	}
	l, err := remote.Leases(dir)
	if err != nil {
		a.Warn("%v", err)
	}
	for _, x := range l {
		a.Warn("%s; gdngen remote release %s gives it back", x, x.Name)
	}
}
