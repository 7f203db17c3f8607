package main

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/gdngen/gdngen/autotune/ruler"
	"github.com/gdngen/gdngen/cmd/gdngen/internal/app"
	"github.com/gdngen/gdngen/gdn"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// root makes the command tree.
func (a CLI) root() *cobra.Command {
	var short bool
	root := &cobra.Command{
		Use:   "gdngen",
		Short: "Generate, check, cost and search kernels of the gated delta rule",
		Long: `gdngen generates kernels of the gated delta rule (Gated DeltaNet), checks their numbers against a float64 reference, says what
they cost on five TPU generations with no TPU attached, and searches structural variants for the cheapest correct one.

A cost is in ` + ruler.InOrder.Text() + `. It is not a measurement.

` + app.ExitHelp,
		Example: `  gdngen tour                                          the first ten minutes, played
  gdngen tune config.json --out kernels                the best kernels for a model
  gdngen gen --spec bench --target v6e --out k.mlir    write the best known kernel for v6e
  gdngen explain --spec bench --target v5e,v6e         what it costs, and where
  gdngen search run --target v6e --budget 3m --run runs/first       rank structural variants`,
		SilenceErrors:     true,
		SilenceUsage:      true,
		DisableAutoGenTag: true,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			if err := negative(cmd); err != nil {
				return err
			}
			if short {
				a.Output = "json"
			}
			a.Ctx, a.Cancel = cmd.Context(), func() {}
			if err := a.Configure(cmd); err != nil {
				return err
			}
			if a.Timeout > 0 {
				a.Ctx, a.Cancel = context.WithTimeout(cmd.Context(), a.Timeout)
			}
			return nil
		},
	}
	root.CompletionOptions.DisableDefaultCmd = true
	a.Output = "text"
	f := root.PersistentFlags()
	f.VarP(&a.Output, "output", "o", "form of the data on standard output")
	f.BoolVar(&short, "json", false, "the same as --output json")
	f.StringVar(&a.Libtpu, "libtpu", "", "libtpu.so to compile with, in place of the pinned one")
	f.StringVar(&a.CPUPlugin, "cpu-plugin", "", "PJRT plugin to run on the CPU with, in place of the pinned one")
	f.BoolVar(&a.Offline, "offline", false, "download nothing")
	f.DurationVar(&a.Timeout, "timeout", 0, "give up after this time, with status 124; 0: never")
	root.Version, _ = app.Version()
	root.SetVersionTemplate("gdngen {{.Version}}\n")
	root.SetFlagErrorFunc(flagError)
	root.AddGroup(&cobra.Group{ID: "work", Title: "Kernels:"}, &cobra.Group{ID: "away", Title: "Other machines:"}, &cobra.Group{ID: "self", Title: "What there is, and this installation:"})
	root.SetHelpCommand(helpCmd(root))
	a.addVerbs(root)
	wrapHelp(root)
	return root
}

// negative refuses counts and durations below zero: no flag uses them.
func negative(cmd *cobra.Command) (err error) {
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if kind := f.Value.Type(); (kind == "int" || kind == "duration") && strings.HasPrefix(f.Value.String(), "-") && err == nil {
			err = app.Usage(fmt.Errorf("--%s %s is negative", f.Name, f.Value))
		}
	})
	return err
}

// helpCmd explains a command or a topic; an unknown one is a usage error.
func helpCmd(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use:     "help [COMMAND]",
		Short:   "Help about any command",
		GroupID: "self",
		Example: "  gdngen help search run\n  gdngen help spec",
		RunE: func(_ *cobra.Command, args []string) error {
			c, rest, err := root.Find(args)
			if err != nil || len(rest) > 0 {
				var names []string
				for _, b := range c.Commands() {
					if !b.Hidden {
						names = append(names, b.Name())
					}
				}
				at := c.CommandPath()
				if len(names) == 0 {
					return app.Usage(fmt.Errorf("%s has no commands below it; see gdngen help %s", at, strings.TrimPrefix(at, "gdngen ")))
				}
				return app.Usage(fmt.Errorf("%s has no command or topic %q%s (known: %s)", at, rest[0], app.Near(rest[0], names, ""), strings.Join(names, " ")))
			}
			return c.Help()
		},
	}
}

var unknownFlag = regexp.MustCompile(`^unknown flag: --([\w-]+)`)

// flagError returns a usage error that suggests the nearest flag.
func flagError(cmd *cobra.Command, err error) error {
	if m := unknownFlag.FindStringSubmatch(err.Error()); m != nil {
		var names []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
		if cmd.Name() == "resume" {
			begin, _, bad := cmd.Parent().Find([]string{"run"})
			if bad == nil && begin.Flags().Lookup(m[1]) != nil {
				return app.Usage(fmt.Errorf("%w: a run keeps its --%s as it was begun; %s begins another", err, m[1], begin.CommandPath()))
			}
		}
		return app.Usage(fmt.Errorf("%w%s; see %s --help", err, cmp.Or(app.Near(m[1], names, "--"), elsewhere(cmd.Root(), m[1])), cmd.CommandPath()))
	}
	text := err.Error()
	for _, r := range valueErrors {
		text = r.pattern.ReplaceAllString(text, r.words)
	}
	return app.Usage(fmt.Errorf("%s; see %s --help", text, cmd.CommandPath()))
}

// elsewhere says where a flag exists: as a field of a spec, or in the first commands that have it; "" if nowhere.
func elsewhere(root *cobra.Command, flag string) string {
	if slices.ContainsFunc(gdn.Fields(), func(f gdn.Field) bool { return f.Key == flag }) {
		return fmt.Sprintf(": it is a field of a spec, such as explain --spec bench,%s=VALUE (gdngen help spec)", flag)
	}
	var with []string
	var walk func(*cobra.Command)
	walk = func(c *cobra.Command) {
		if f := c.LocalNonPersistentFlags().Lookup(flag); c.Runnable() && !c.Hidden && f != nil && !f.Hidden {
			with = append(with, c.CommandPath())
		}
		for _, below := range c.Commands() {
			walk(below)
		}
	}
	walk(root)
	if len(with) == 0 {
		return ""
	}
	return ": it is one of " + strings.Join(with[:min(len(with), 4)], ", ")
}

// valueErrors rephrase errors of Go's flag parsers.
var valueErrors = []struct {
	pattern *regexp.Regexp
	words   string
}{
	{regexp.MustCompile(`strconv\.Parse(Int|Uint): parsing "[^"]*": value out of range`), "the number is too large"},
	{regexp.MustCompile(`strconv\.Parse(Int|Uint): .*`), "want a whole number"},
	{regexp.MustCompile(`strconv\.ParseFloat: .*`), "want a number"},
	{regexp.MustCompile(`strconv\.ParseBool: .*`), "want true or false"},
	{regexp.MustCompile(`time: .*`), "want a duration such as 90s, 10m or 2h"},
}
