package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// shells are those that scripts can be written for.
var shells = map[string]func(*cobra.Command, io.Writer) error{
	"bash":       func(c *cobra.Command, w io.Writer) error { return c.GenBashCompletionV2(w, true) },
	"zsh":        func(c *cobra.Command, w io.Writer) error { return c.GenZshCompletion(w) },
	"fish":       func(c *cobra.Command, w io.Writer) error { return c.GenFishCompletion(w, true) },
	"powershell": func(c *cobra.Command, w io.Writer) error { return c.GenPowerShellCompletionWithDesc(w) },
}

func (a *app) completionCmd() *cobra.Command {
	names := slices.Sorted(maps.Keys(shells))
	return &cobra.Command{
		Use:       "completion " + strings.Join(names, "|"),
		Short:     "Write a completion script for a shell",
		Example:   "  source <(gdngen completion bash)\n  gdngen completion fish > ~/.config/fish/completions/gdngen.fish",
		GroupID:   "self",
		ValidArgs: names,
		Args:      args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			write, ok := shells[args[0]]
			if !ok {
				return usage(fmt.Errorf("unknown shell %q%s (known: %s)", args[0], near(args[0], names, ""), strings.Join(names, " ")))
			}
			return write(cmd.Root(), a.stdout)
		},
	}
}
