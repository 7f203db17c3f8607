package machines

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/gdngen/gdngen/autotune/journal"
	"github.com/gdngen/gdngen/autotune/selftest"
	"github.com/gdngen/gdngen/cmd/gdngen/internal/app"
	"github.com/gdngen/gdngen/internal/remote"
	"github.com/gdngen/gdngen/internal/terminal"
	"github.com/spf13/cobra"
)

func (a CLI) RemoteCmd() *cobra.Command {
	forms, docs := remote.Docs()
	var list strings.Builder
	for i := range forms {
		fmt.Fprintf(&list, "  %-28s %s\n", forms[i], docs[i])
	}
	return app.Group(&cobra.Command{
		Use:   "remote",
		Short: "Run commands on machines you do not sit at",
		Long: `remote runs commands elsewhere. A job has an id; its output and results stay there when the connection, or this terminal, is gone. This
program is copied there once; gdngen in COMMAND means that copy.

A place, by --on or ` + app.OnEnv + `, is one of
` + list.String() + `
or a name in ` + remote.PlacesName + ` of the folder gdngen in the user's configuration. Jobs that were submitted from here are recorded in ` + remote.RecordsDir + `.`,
		Example: `  gdngen remote run --on ssh:me@big -- gdngen search run --budget 1h --run @out/run
  gdngen remote logs run-1122-171255-abcdef -f
  gdngen remote fetch run-1122-171255-abcdef --out runs`,
		GroupID: "away",
	}, a.remoteRunCmd(), a.remoteTestCmd(), a.remoteProfileCmd(), a.remoteWaitCmd(), a.remoteLogsCmd(), a.remoteStopCmd(), a.remoteFetchCmd(), a.remoteListCmd(),
		a.remoteHoldCmd(), a.remoteReleaseCmd())
}

var records = remote.Records{Dir: remote.RecordsDir}

// jobFlags are the flags of a submission.
type jobFlags struct {
	job       remote.Job
	env       []string
	resources []string
	noWait    bool
	dryRun    bool
}

func (j *jobFlags) add(c *cobra.Command) {
	f := c.Flags()
	onFlag(c, &j.job.Place)
	f.StringVar(&j.job.ID, "id", "", "id of the job; the same id again is the same job (default: drawn)")
	f.StringArrayVar(&j.job.Files, "file", nil, "a file or folder that travels into the job's working folder, once for each")
	f.StringArrayVar(&j.env, "env", nil, "a variable of the job, once for each: NAME=VALUE, or NAME for its value here")
	f.Float64Var(&j.job.CPUs, "cpus", 0, "processors that a Ray cluster reserves")
	f.StringSliceVar(&j.resources, "resource", nil, "what else a Ray cluster reserves: NAME=NUMBER, such as TPU=4, or auto: the TPUs, or GPUs, of one of its nodes")
	f.DurationVar(&j.job.Pending, "pending", 15*time.Minute, "stop a job that has not begun after this time; 0: never")
	f.DurationVar(&j.job.Limit, "limit", 0, "time after which the waiting command stops the job, with status 124; 0: never")
	f.BoolVar(&j.job.NoSync, "no-sync", false, "send no program: gdngen is on PATH there")
	f.BoolVar(&j.noWait, "no-wait", false, "print the id once the job is submitted, and end")
	f.BoolVar(&j.dryRun, "dry-run", false, "say what would be submitted")
}

func onFlag(c *cobra.Command, at *string) {
	forms, _ := remote.Docs()
	c.Flags().StringVar(at, "on", os.Getenv(app.OnEnv), "place: "+strings.Join(forms, ", ")+", a name, or auto: "+app.OnEnv+", the machine that is held, or the only name (default: "+app.OnEnv+")")
}

// fill completes a job from the flags.
func (j *jobFlags) fill(kind string) error {
	j.job.ID = cmp.Or(j.job.ID, remote.NewID(kind))
	if err := cmp.Or(j.job.SetEnv(j.env), j.job.SetResources(j.resources)); err != nil {
		return app.Usage(err)
	}
	j.job.Submitted = time.Now().UTC()
	return app.Usage(j.job.Check())
}

// submit sends a job, and waits for it unless the flags say otherwise. The job output goes to out.
func (a CLI) submit(j *jobFlags, kind string, out io.Writer) error {
	p, full, err := remote.Parse(cmp.Or(j.job.Place, remote.Auto))
	if err != nil {
		return err
	}
	j.job.Place = full
	automatic := slices.Contains(j.resources, remote.Auto)
	j.resources = slices.DeleteFunc(j.resources, func(text string) bool { return text == remote.Auto })
	if err := j.fill(kind); err != nil {
		return err
	}
	if automatic && len(j.job.Resources) == 0 {
		if err := j.job.Reserve(a.Ctx, p); err != nil {
			return err
		}
		a.Note("reserved: %v", j.job.Resources)
	}
	if j.dryRun {
		return app.Emit(a.App, j.job, []any{j.job}, func(w io.Writer) {
			fmt.Fprintf(w, "job %s on %s: %s\n", j.job.ID, full, strings.Join(j.job.Command, " "))
		})
	}
	if err := records.Add(&j.job); err != nil {
		return err
	}
	if err := p.Submit(a.Ctx, &j.job); err != nil {
		return err
	}
	if err := (journal.Note{Job: j.job.ID, Text: "on " + full}).Hand(); err != nil {
		return err
	}
	if j.noWait {
		return app.Emit(a.App, j.job, []any{j.job}, func(w io.Writer) { fmt.Fprintln(w, j.job.ID) })
	}
	a.Note("job %s on %s; gdngen remote wait %[1]s comes back to it", j.job.ID, full)
	return a.attend(remote.Follower{Place: p, Out: out}, &j.job)
}

// attend waits for a job and returns its end as an error with an exit status.
func (a CLI) attend(f remote.Follower, j *remote.Job) error {
	f.ID, f.Pending, f.Note = j.ID, j.Pending, func(text string) { a.Note("%s", text) }
	s, err := f.Attend(a.Ctx, j.Limit, j.Submitted)
	if err != nil {
		if a.Ctx.Err() != nil {
			a.Note("job %s goes on: gdngen remote wait %[1]s, or gdngen remote stop %[1]s", j.ID)
		}
		return err
	}
	return jobEnd(j.ID, s)
}

// jobEnd returns the end of a job as an error with an exit status; nil for success.
func jobEnd(id string, s *remote.State) error {
	switch s.Phase {
	case remote.Succeeded:
		return nil
	case remote.Failed:
		return app.Failed(s.Exit, "job %s ended with status %d", id, s.Exit)
	case remote.Stopped:
		return app.Failed(app.ExitInfra, "job %s was stopped", id)
	}
	return app.Failed(app.ExitInfra, "job %s is %s: %s", id, s.Phase, cmp.Or(s.Message, "it left no status"))
}

func (a CLI) remoteRunCmd() *cobra.Command {
	var j jobFlags
	c := &cobra.Command{
		Use:   "run --on PLACE -- COMMAND...",
		Short: "Run a command elsewhere, and print what it prints",
		Long: `run submits a command and waits for it. gdngen in the command is this program. @out, at the beginning of a word or after a =, is the job's folder for
results, which remote fetch copies and GDNGEN_OUT names there. An interrupt leaves the job running.

The status is the command's; 7 if the job was lost, stopped or never began, and 124 if its limit was reached.`,
		Example: `  gdngen remote run --on ssh:me@big -- gdngen search run --budget 1h --run @out/run
  gdngen remote run --on ray:http://head:8265 --resource TPU=4 --env HF_TOKEN -- gdngen device selftest --quick --plugin cpu
  gdngen remote run --on "tpu:mine?zone=us-central1-b" --no-wait --id night -- gdngen search run --budget 8h --run @out/run`,
		RunE: func(_ *cobra.Command, words []string) error {
			j.job.Command = words
			return a.submit(&j, "run", terminal.Others(a.Stdout))
		},
	}
	j.add(c)
	return c
}

func (a CLI) remoteTestCmd() *cobra.Command {
	var j jobFlags
	var expect int
	c := &cobra.Command{
		Use:   "test --on PLACE [-- FLAGS...]",
		Short: "Run gdngen device selftest elsewhere; skipped tests are failures",
		Long: `test runs gdngen device selftest on a place, with the flags after --. It fails if a case failed or was skipped, and if fewer than --expect
passed, since a machine without its device skips many cases and fails none.`,
		Example: `  gdngen remote test --on ssh:me@tpu --expect 200 -- --plugin /usr/lib/libtpu.so
  gdngen remote test --on ray:http://head:8265 --expect 30 -- --quick --plugin cpu`,
		RunE: func(_ *cobra.Command, words []string) error {
			j.job.Command = append([]string{"gdngen", "device", "selftest"}, words...)
			var said bytes.Buffer
			if err := a.submit(&j, "test", io.MultiWriter(terminal.Others(a.Stdout), &said)); err != nil || j.noWait || j.dryRun {
				return err
			}
			tally := selftest.ReadTally(said.String())
			switch {
			case tally == nil:
				return app.Failed(app.ExitInfra, "job %s did not say how many cases passed", j.job.ID)
			case tally.Failed > 0 || tally.Skipped > 0:
				return app.Failed(app.ExitRejected, "job %s: %s", j.job.ID, tally)
			case tally.Passed < expect:
				return app.Failed(app.ExitRejected, "job %s: %d cases passed, and %d were expected", j.job.ID, tally.Passed, expect)
			}
			return nil
		},
	}
	j.add(c)
	c.Flags().IntVar(&expect, "expect", 1, "fewest cases that must pass")
	return c
}

// ofJob adds to a command one argument, the id of a job.
func (a CLI) ofJob(c *cobra.Command, do func(remote.Place, *remote.Job) error) *cobra.Command {
	var on string
	c.Args = app.Args(cobra.ExactArgs(1))
	c.RunE = func(_ *cobra.Command, words []string) error {
		p, j, err := records.Find(words[0], on, os.Getenv(app.OnEnv))
		if err != nil {
			return err
		}
		return do(p, j)
	}
	onFlag(c, &on)
	return c
}

func (a CLI) remoteWaitCmd() *cobra.Command {
	var logs bool
	var lines int
	var mirror string
	c := a.ofJob(&cobra.Command{
		Use:   "wait ID",
		Short: "Wait for a job, and end with its status",
		Long: `wait waits for a job that was submitted here or, with --on, elsewhere. An interrupt leaves it running. With --mirror its results are copied as they grow,
so that a run whose machine is lost can be resumed from the copy.`,
		Example: "  gdngen remote wait night --logs --tail 400\n  gdngen remote wait run-1122-171255-abcdef --on ssh:me@big\n  gdngen remote wait night --mirror runs/night",
	}, func(p remote.Place, j *remote.Job) error {
		f := remote.Follower{Place: p, ID: j.ID}
		if logs || lines > 0 {
			f.Out = terminal.Others(a.Stdout)
		}
		if lines > 0 {
			if err := f.Last(a.Ctx, lines); err != nil {
				return err
			}
		}
		if mirror == "" {
			return a.attend(f, j)
		}
		m := remote.Mirror{Place: p, ID: j.ID, Dir: mirror, Note: func(text string) { a.Note("%s", text) }}
		ctx, stop := context.WithCancel(a.Ctx)
		kept := make(chan struct{})
		go func() { m.Keep(ctx); close(kept) }()
		err := a.attend(f, j)
		stop()
		<-kept
		if a.Ctx.Err() != nil {
			return err
		}
		_, bad := m.Round(a.Ctx, true)
		return cmp.Or(err, bad)
	})
	c.Flags().BoolVar(&logs, "logs", false, "print the output too, from its beginning")
	c.Flags().IntVar(&lines, "tail", 0, "print the output from its last lines on; 0: as --logs says")
	c.Flags().StringVar(&mirror, "mirror", "", "folder that gets copies of the results as they grow")
	return c
}

func (a CLI) remoteLogsCmd() *cobra.Command {
	var lines int
	var grep string
	var follow bool
	c := a.ofJob(&cobra.Command{
		Use:     "logs ID",
		Short:   "Print the output of a job",
		Long:    "logs prints what a job has printed so far. With -f it goes on until the job ends, also after the connection was cut.",
		Example: "  gdngen remote logs night --tail 100\n  gdngen remote logs night --grep 'keep|error'\n  gdngen remote logs night -f",
	}, func(p remote.Place, j *remote.Job) error {
		pattern, err := regexp.Compile(grep)
		if err != nil {
			return app.Usage(fmt.Errorf("--grep: %w", err))
		}
		if follow {
			f := &remote.Follower{Place: p, ID: j.ID, Out: terminal.Others(a.Stdout), Note: func(text string) { a.Note("%s", text) }}
			if lines > 0 || grep != "" {
				return app.Usage(errors.New("-f prints everything: leave --tail and --grep out"))
			}
			_, err := f.Wait(a.Ctx)
			return err
		}
		text, err := remote.Output(a.Ctx, p, j.ID)
		if err != nil {
			return err
		}
		_, err = io.WriteString(terminal.Others(a.Stdout), remote.Lines(text, pattern, lines))
		return err
	})
	f := c.Flags()
	f.IntVar(&lines, "tail", 0, "the last lines; 0: all")
	f.StringVar(&grep, "grep", "", "lines that match a regular expression")
	f.BoolVarP(&follow, "follow", "f", false, "go on until the job ends")
	return c
}

func (a CLI) remoteStopCmd() *cobra.Command {
	return a.ofJob(&cobra.Command{
		Use:     "stop ID",
		Short:   "Stop a job",
		Long:    "stop ends a job, and returns once it has ended. Status 7 means that it has not ended: a Ray cluster may keep a job pending for which it has no room.",
		Example: "  gdngen remote stop night",
	}, func(p remote.Place, j *remote.Job) error {
		if err := p.Stop(a.Ctx, j.ID); err != nil {
			return err
		}
		s, err := p.Status(a.Ctx, j.ID)
		if err != nil {
			return err
		}
		return app.Emit(a.App, s, []any{s}, func(w io.Writer) { fmt.Fprintf(w, "%s %s\n", j.ID, s.Phase) })
	})
}

func (a CLI) remoteFetchCmd() *cobra.Command {
	var out, only string
	c := a.ofJob(&cobra.Command{
		Use:     "fetch ID",
		Short:   "Copy the results of a job",
		Long:    "fetch copies the files in a job's folder of results (@out, GDNGEN_OUT), also while it runs, and prints names, sizes and checksums.",
		Example: "  gdngen remote fetch night --out runs\n  gdngen remote fetch night --match '*.jsonl'",
	}, func(p remote.Place, j *remote.Job) error {
		l, err := remote.Fetch(a.Ctx, p, j.ID, only, cmp.Or(out, records.Out(j.ID)))
		bad := app.Emit(a.App, l, l, func(w io.Writer) {
			for _, f := range l {
				fmt.Fprintf(w, "%s  %d bytes  sha256 %.12s\n", f.Path, f.Size, f.SHA256)
			}
		})
		return cmp.Or(err, bad)
	})
	c.Flags().StringVar(&out, "out", "", "folder for the copies (default: "+records.Out("ID")+")")
	c.Flags().StringVar(&only, "match", "", "names that match a pattern such as *.jsonl")
	a.Formerly(c, "only", "match")
	return c
}

func (a CLI) remoteListCmd() *cobra.Command {
	var on string
	c := &cobra.Command{
		Use:     "list [--on PLACE]",
		Short:   "List what was submitted from here, or the jobs of a place",
		Example: "  gdngen remote list\n  gdngen remote list --on ssh:me@big -o json",
		Args:    app.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !cmd.Flags().Changed("on") {
				l, err := records.All()
				return cmp.Or(err, app.Emit(a.App, l, l, func(w io.Writer) { remote.WriteJobs(w, l) }))
			}
			p, _, err := remote.Parse(on)
			if err != nil {
				return err
			}
			l, err := p.List(a.Ctx)
			if err != nil {
				return err
			}
			return app.Emit(a.App, l, l, func(w io.Writer) { remote.WriteListed(w, l) })
		},
	}
	onFlag(c, &on)
	return c
}
