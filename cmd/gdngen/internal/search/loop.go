package search

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/gdngen/gdngen/autotune/ladder"
	"github.com/gdngen/gdngen/autotune/promoted"
	"github.com/gdngen/gdngen/autotune/strategy"
	"github.com/gdngen/gdngen/cmd/gdngen/internal/app"
	"github.com/gdngen/gdngen/cmd/gdngen/internal/loop"
	"github.com/gdngen/gdngen/internal/terminal"
	"github.com/gdngen/gdngen/pjrt/plugins"
	"github.com/spf13/cobra"
)

// loopFlags are the flags of a loop.
type loopFlags struct {
	config                               loop.Config
	prompt                               string
	texts, files, presets, guards        []string
	minGain, minExpected, worse, unequal string
	goal                                 string
	maxFile                              int
	resilient, dryRun                    bool
	search, ladder                       string
}

// LoopCmd returns the command loop, with subcommands.
func (a CLI) LoopCmd() *cobra.Command {
	s := loopFlags{config: loop.Defaults()}
	var verdicts strings.Builder
	for _, m := range loop.Meanings {
		fmt.Fprintf(&verdicts, "  %-14s %s\n", m.Verdict, m.Doc)
	}
	c := &cobra.Command{
		Use:   "loop --run DIR --agent COMMAND --measure COMMAND",
		Short: "Let an agent that changes code work unattended, and judge what it does",
		Long: `loop asks an agent, any command that reads a prompt and changes files, for one improvement after another. Each iteration has its own
clone, and the agent's changes there become one commit. Build, checks and figures run on that commit in other clones
after the agent has ended, with this gdngen first on PATH. A commit that passes moves --branch; every attempt is kept
as refs/gdngen/RUN/NNN. Your work tree is never touched. The same command continues a loop that was killed.

The agent gets the prompt as standard input, and as the file that GDNGEN_PROMPT names. Checks have GDNGEN_HOLDOUT_SEED, drawn after the agent ended. The last
line of --measure is the figure, less is better. gdngen loop prompt prints the template and its variables.

Verdicts:
` + verdicts.String() + `
Status 0: the loop ended by itself; 7: the machinery failed, the same command goes on; 8: --max-failures iterations in a row kept nothing.`,
		Example: `  gdngen loop --run runs/loop --agent "codex exec --ephemeral -" --agent-network --env OPENAI_API_KEY --check "go test ./gdn/..." --measure "sh cost.sh" --iterations 10
  gdngen loop --run runs/night --agent "claude -p" --agent-network --show ~/.claude --measure "sh cost.sh" --budget 8h --resilient --unattended
  gdngen loop status --run runs/loop`,
		GroupID: "work",
		RunE: func(cmd *cobra.Command, words []string) error {
			if len(words) > 0 {
				return app.Usage(fmt.Errorf("unknown command %q for %q (known: status resume show lint prompt figure)", words[0], cmd.CommandPath()))
			}
			if err := s.fill(); err != nil {
				return app.Usage(err)
			}
			if s.dryRun {
				if err := s.config.Validate(); err != nil {
					return app.Usage(err)
				}
				return app.Emit(a.App, s.config, []any{s.config}, s.config.Text)
			}
			return a.loop(s.config)
		},
	}
	s.add(c)
	for old, now := range map[string]string{"directive": "directive-text", "guard": "guard-command", "kernel": "code", "objective": "purpose"} {
		a.Formerly(c, old, now)
	}
	c.AddCommand(onRun(a.loopStatusCmd()), onRun(a.loopResumeCmd()), onRun(a.loopShowCmd()), onRun(a.loopLintCmd()), a.loopPromptCmd(), a.loopFigureCmd())
	return c
}

func (s *loopFlags) add(cmd *cobra.Command) {
	f, c := cmd.Flags(), &s.config
	app.RunFlag(cmd, &c.Dir)
	f.StringVar(&c.Agent, "agent", "", "shell command that changes files; its standard input is the prompt")
	f.StringVar(&c.Repo, "repo", c.Repo, "git repository")
	f.StringVar(&c.Branch, "branch", c.Branch, "branch that a keep moves; made at HEAD where it is missing, and checked out nowhere")
	f.IntVar(&c.Iterations, "iterations", c.Iterations, "iterations of the whole run; interrupted ones do not count")
	f.DurationVar(&c.Budget, "budget", 0, "no iteration begins after this time of a session; 0: no limit")
	f.Var((*diskLimit)(&c.MaxDisk), "max-disk", "pause when the run's folder takes more than this, such as 20GiB; an agent or check that passes the limit is ended")
	f.StringVar(&c.Spend, "spend", "", "command of yours, in no sandbox, whose last line is what agents have spent so far")
	f.Float64Var(&c.MaxSpend, "max-spend", 0, "pause when --spend prints this amount or more; an agent at work is ended")
	f.StringVar(&s.prompt, "prompt", "", "file with a template in place of the default")
	f.StringArrayVar(&s.texts, "directive-text", nil, "a demand, in words, once for each")
	f.StringArrayVar(&s.files, "directive-file", nil, "a demand in a file, once for each")
	f.StringArrayVar(&s.presets, "directive-preset", nil, "a demand of the table of directives, once for each: "+strings.Join(directiveNames(), ", "))
	f.StringVar(&c.Objective, "purpose", "", "what the loop is for, in the prompt (default: to make the figure smaller)")
	f.StringVar(&c.Bound, "bound", "", "a lower bound of the figure, for the prompt")
	f.Float64Var(&c.Goal, "end-at", 0, "end when the figure is this or less, such as 90.5; 0: never")
	f.StringVar(&s.goal, "goal", "", "end at a model flop utilisation, such as mfu=50%, that the judge's commands note")
	f.StringSliceVar(&c.Kernels, "code", nil, "files or folders of the code under work, named in the prompt, separated by commas")
	f.StringArrayVar(&c.References, "reference", nil, "what to read before the work, named in the prompt: a file, an address or words, once for each")
	f.StringVar(&c.Build, "build", "", "command that builds a clone, before checks and figures")
	f.StringArrayVar(&c.Checks, "check", nil, "command that must end with status 0, once for each")
	f.IntVar(&c.CheckRetries, "check-retries", c.CheckRetries, "further tries of a check that fails")
	f.DurationVar(&c.CheckTimeout, "check-timeout", c.CheckTimeout, "limit of a build, a check or a figure")
	f.StringVar(&c.Measure, "measure", "", "command whose last line is the figure; less is better")
	f.StringVar(&s.search, "search", "", "in place of --measure: the best of the change's own search with these flags of search run, judged by the gdngen that began the loop")
	f.StringVar(&s.ladder, "ladder", "", "in place of --measure: the time of the variant in this file on the highest rung of its ladder")
	f.IntVar(&c.Repeat, "repeat", c.Repeat, "measure base and change so many times in turn; a keep needs the whole interval of their ratio")
	f.StringArrayVar(&s.guards, "guard-command", nil, "another figure that may rise by a share: COMMAND=SHARE, once for each")
	f.StringVar(&c.Effect, "effect", "", "command whose output a change must change, such as one that prints hashes of programs")
	f.StringVar(&c.HotSpots, "hot-spots", "", "command that prints the hot spots of the base, one a line, for the prompt")
	f.StringVar(&s.minGain, "min-gain", "0.25%", "share that a keep gains at least")
	f.StringVar(&s.minExpected, "min-expected", "10%", "share that the agent is asked to expect of its change")
	f.StringVar(&s.worse, "max-regression", "1%", "share that a scaffold may lose")
	f.StringVar(&s.unequal, "escalate-below", "3%", "a last gain under this, on the same hot spots, makes the prompt demand more")
	f.IntVar(&c.AllowScaffold, "allow-scaffold", 0, "keep so many changes in a row that gain nothing now but prepare a later gain")
	f.StringSliceVar(&c.Protect, "protect", c.Protect, "files, folders and patterns that may not change, separated by commas")
	f.StringSliceVar(&c.Allow, "allow", nil, "exceptions to --protect")
	f.BoolVar(&c.IncludeDirty, "include-dirty", false, "let agents see uncommitted changes of tracked files; the branch does not get them, and a change that needs them is blocked")
	f.StringVar(&c.Holdout, "holdout", "", "file that checks find by GDNGEN_HOLDOUT, and the agent does not see")
	f.IntVar(&s.maxFile, "max-file", int(c.MaxFile>>20), "largest file of a change, in MiB")
	f.DurationVar(&c.AgentTimeout, "agent-timeout", c.AgentTimeout, "limit of the agent")
	f.DurationVar(&c.AgentIdle, "agent-idle", c.AgentIdle, "limit of its silence")
	f.IntVar(&c.AgentRetries, "agent-retries", c.AgentRetries, "further tries of an agent that fails, each in a fresh clone")
	f.Var((*app.Limit)(&c.MaxFailures), "max-failures", "end with status 8 after so many iterations in a row that kept nothing; 0, -1 or never: go on")
	f.BoolVar(&s.resilient, "resilient", false, "for nights: no limit of failures, two further tries of agent and checks, and failures of the machinery are tried again after a while")
	f.StringVar(&c.Sandbox, "sandbox", c.Sandbox, strings.Join(loop.Sandboxes, ", ")+": all but the clone is read-only, homes, /tmp and /run are empty; auto warns where none can be had")
	f.StringSliceVar(&c.Show, "show", nil, "files and folders of homes, /tmp or /run that agent and checks may read in the sandbox, such as ~/.config/agent")
	f.BoolVar(&c.AgentNetwork, "agent-network", false, "let the agent reach the network from the sandbox, as agents that ask a model must")
	f.BoolVar(&c.CheckNetwork, "check-network", false, "let builds, checks and figures reach the network from the sandbox; --on does")
	f.BoolVar(&c.Unwatched, "unattended", false, "the loop is not watched: end where no sandbox can be had, unless --sandbox none is given")
	f.StringSliceVar(&c.Env, "env", nil, "names of variables that agent and checks see, in addition to PATH and the locale")
	f.StringVar(&c.On, "on", os.Getenv(app.OnEnv), "machine of gdngen remote that the agent may use; the prompt and "+app.OnEnv+" name it")
	f.StringVar(&c.SyncBase, "sync-base", c.SyncBase, strings.Join(loop.Syncs, ", ")+": put the branch onto its upstream, or onto HEAD, before iterations")
	f.StringVar(&c.Judge, "judge", "", "the program that agent and checks call as gdngen (default: this one)")
	f.BoolVar(&c.ShowFileUpdates, "show-file-updates", false, "show the changes of files that the agent prints")
	f.BoolVar(&s.dryRun, "dry-run", false, "say what would be done")
	app.Complete(cmd, "sandbox", loop.Sandboxes)
	app.Complete(cmd, "sync-base", loop.Syncs)
	app.Complete(cmd, "directive-preset", directiveNames())
}

// diskLimit is a flag of bytes.
type diskLimit int64

func (d *diskLimit) String() string {
	if *d == 0 {
		return "0"
	}
	return terminal.Size(int64(*d))
}
func (d *diskLimit) Type() string { return "size" }
func (d *diskLimit) Set(text string) error {
	n, err := terminal.ParseSize(text)
	*d = diskLimit(n)
	return err
}

// fill reads the files that the flags name.
func (s *loopFlags) fill() error {
	c := &s.config
	for _, x := range []struct {
		flag, text string
		to         *float64
	}{{"min-gain", s.minGain, &c.MinGain}, {"min-expected", s.minExpected, &c.MinExpected}, {"max-regression", s.worse, &c.MaxRegression}, {"escalate-below", s.unequal, &c.EscalateBelow}} {
		var err error
		if *x.to, err = loop.ParseShare(x.text); err != nil {
			return fmt.Errorf("--%s: %w", x.flag, err)
		}
	}
	var err error
	if c.GoalMFU, err = ladder.ParseGoal(s.goal); err != nil {
		return fmt.Errorf("--goal %w; --end-at names a figure to end at", err)
	}
	for _, text := range s.guards {
		g, err := loop.ParseGuard(text)
		if err != nil {
			return fmt.Errorf("--guard-command: %w", err)
		}
		c.Guards = append(c.Guards, g)
	}
	if s.prompt != "" {
		text, err := os.ReadFile(s.prompt)
		if err != nil {
			return fmt.Errorf("--prompt: %w", err)
		}
		c.Prompt = string(text)
	}
	for _, name := range s.presets {
		d, err := strategy.LookupDirective(name)
		if err != nil {
			return err
		}
		c.Directives = append(c.Directives, loop.Directive{Name: d.Name, Text: d.Words()})
	}
	for _, file := range s.files {
		text, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("--directive-file: %w", err)
		}
		c.Directives = append(c.Directives, loop.Directive{Name: filepath.Base(file), Text: string(text)})
	}
	for _, text := range s.texts {
		c.Directives = append(c.Directives, loop.Directive{Text: text})
	}
	for flag, text := range map[string]string{"search": s.search, "ladder": s.ladder} {
		if text == "" {
			continue
		}
		if c.Measure != "" {
			return errors.New("give one of --measure, --search and --ladder")
		}
		c.Measure = figureCommand(flag, text)
	}
	c.MaxFile = int64(s.maxFile) << 20
	if s.resilient {
		c.Unattended()
	}
	return nil
}

// loop drives a session and prints the summary of the run.
func (a CLI) loop(c loop.Config) error {
	if c.Judge == "" {
		exe, err := os.Executable()
		if err != nil {
			return err
		}
		c.Judge = exe
	}
	c.JudgeEnv = a.judgeEnv()
	if check := c.Elsewhere(); check != "" {
		a.Warn("%q names another place than --on %s", check, c.On)
	}
	c.Note = func(text string) { a.Note("%s", text) }
	c.Warn = func(text string) { a.Warn("%s", text) }
	if dir, err := plugins.CacheDir(); err == nil {
		c.Readable = append(c.Readable, filepath.Join(dir, "plugins"))
	}
	c.Ended = func(r loop.Record) {
		a.Note("iteration %d: %s, %s (%v)", r.Iteration, r.Verdict, r.Reason, time.Duration(r.Seconds*1e9).Round(100*time.Millisecond))
	}
	err := loop.Run(a.Ctx, c)
	if c := (*loop.ConfigError)(nil); errors.As(err, &c) {
		return err
	}
	if l := (*loop.LockedError)(nil); errors.As(err, &l) {
		return err
	}
	s, bad := loop.Status(c.Dir)
	if bad == nil {
		bad = app.Emit(a.App, s, s.Iterations, s.Text)
	}
	return errors.Join(err, bad)
}

// judgeEnv returns variables with the paths of plugins for the judge's gdngen. Its measurements go into separate caches, in the judge's homes.
func (a CLI) judgeEnv() (env []string) {
	env = []string{promoted.DirEnv + "=" + promoted.Off}
	for name, obtain := range map[string]func(context.Context, plugins.Options) (plugins.Plugin, error){"GDNGEN_LIBTPU": plugins.TPU, "GDNGEN_CPU_PLUGIN": plugins.CPU} {
		if p, err := obtain(a.Ctx, plugins.Options{Offline: true}); err == nil {
			env = append(env, name+"="+p.Path)
		}
	}
	return env
}

// loopOf adds to a command one argument, the folder of a run.
func loopOf(c *cobra.Command, do func(c loop.Config, words []string) error) *cobra.Command {
	var dir string
	c.RunE = func(_ *cobra.Command, words []string) error {
		if dir == "" {
			return app.Usage(errors.New("which loop? give --run DIR"))
		}
		config, err := loop.Load(dir)
		if err != nil {
			return err
		}
		return do(config, words)
	}
	app.RunFlag(c, &dir)
	return c
}

func (a CLI) loopStatusCmd() *cobra.Command {
	return loopOf(&cobra.Command{
		Use:     "status --run DIR",
		Short:   "Print the iterations of a loop, which may be in progress",
		Example: "  gdngen loop status --run runs/loop\n  gdngen loop status --run runs/loop -o json",
		Args:    app.Args(cobra.NoArgs),
	}, func(c loop.Config, _ []string) error {
		s, err := loop.Status(c.Dir)
		if err != nil {
			return err
		}
		return app.Emit(a.App, s, s.Iterations, s.Text)
	})
}

func (a CLI) loopResumeCmd() *cobra.Command {
	var iterations int
	var budget time.Duration
	var disk diskLimit
	var spend float64
	c := loopOf(&cobra.Command{
		Use:     "resume --run DIR",
		Short:   "Go on with a loop as it was begun",
		Example: "  gdngen loop resume --run runs/loop --iterations 20",
		Args:    app.Args(cobra.NoArgs),
	}, func(c loop.Config, _ []string) error {
		if iterations > 0 {
			c.Iterations = iterations
		}
		if budget > 0 {
			c.Budget = budget
		}
		if disk > 0 {
			c.MaxDisk = int64(disk)
		}
		if spend > 0 {
			c.MaxSpend = spend
		}
		return a.loop(c)
	})
	c.Flags().IntVar(&iterations, "iterations", 0, "iterations of the whole run; 0: as it was begun")
	c.Flags().DurationVar(&budget, "budget", 0, "of this session; 0: as it was begun")
	c.Flags().Var(&disk, "max-disk", "of the run's folder; 0: as it was begun")
	c.Flags().Float64Var(&spend, "max-spend", 0, "of agents; 0: as it was begun")
	return c
}

func (a CLI) loopShowCmd() *cobra.Command {
	return loopOf(&cobra.Command{
		Use:     "show --run DIR ITERATION",
		Short:   "Print all that is recorded of an iteration",
		Example: "  gdngen loop show --run runs/loop 3",
		Args:    app.Args(cobra.ExactArgs(1)),
	}, func(c loop.Config, words []string) error {
		n, err := strconv.Atoi(words[0])
		if err != nil {
			return app.Usage(fmt.Errorf("%q is no iteration", words[0]))
		}
		r, err := loop.Iteration(c.Dir, n)
		if err != nil {
			return app.Usage(err)
		}
		return app.Emit(a.App, r, []any{r}, func(w io.Writer) { r.Text(w, c) })
	})
}

func (a CLI) loopLintCmd() *cobra.Command {
	return loopOf(&cobra.Command{
		Use:     "lint --run DIR",
		Short:   "Hold the log of a loop to the rules of logs, and to its records",
		Long:    "lint ends with status 5 if an entry lacks a field, names a commit that does not exist, or differs from the records.",
		Example: "  gdngen loop lint --run runs/loop",
		Args:    app.Args(cobra.NoArgs),
	}, func(c loop.Config, _ []string) error {
		faults, err := loop.Lint(a.Ctx, c)
		if err != nil {
			return err
		}
		return a.logFaults(filepath.Join(c.Dir, loop.LogName), faults)
	})
}

func (a CLI) loopPromptCmd() *cobra.Command {
	var dir string
	c := &cobra.Command{
		Use:     "prompt [--run DIR]",
		Short:   "Print the template of prompts, or the next prompt of a run",
		Long:    "prompt prints the template that loop --prompt replaces. Names in double braces are filled in; another name is an error. Known: " + strings.Join(loop.Variables(), " ") + ".",
		Example: "  gdngen loop prompt > prompt.md\n  gdngen loop prompt --run runs/loop",
		Args:    app.Args(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			text := loop.DefaultPrompt
			if dir != "" {
				c, err := loop.Load(dir)
				if err != nil {
					return err
				}
				if text, err = loop.Preview(a.Ctx, c); err != nil {
					return err
				}
			}
			doc := map[string]string{"prompt": text}
			return app.Emit(a.App, doc, []any{doc}, func(w io.Writer) { io.WriteString(w, text) })
		},
	}
	app.RunFlag(c, &dir)
	return c
}
