package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/gdngen/gdngen/cmd/gdngen/internal/app"
	"github.com/spf13/cobra"
)

// shells lists the shells with completion scripts.
var shells = map[string]func(*cobra.Command, io.Writer) error{
	"bash":       writeBash,
	"zsh":        func(c *cobra.Command, w io.Writer) error { return c.GenZshCompletion(w) },
	"fish":       func(c *cobra.Command, w io.Writer) error { return c.GenFishCompletion(w, true) },
	"powershell": func(c *cobra.Command, w io.Writer) error { return c.GenPowerShellCompletionWithDesc(w) },
}

func (a CLI) completionCmd() *cobra.Command {
	names := slices.Sorted(maps.Keys(shells))
	return &cobra.Command{
		Use:       "completion " + strings.Join(names, "|"),
		Short:     "Write a completion script for a shell",
		Example:   "  source <(gdngen completion bash)\n  gdngen completion fish > ~/.config/fish/completions/gdngen.fish",
		GroupID:   "self",
		ValidArgs: names,
		Args:      app.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			write, ok := shells[args[0]]
			if !ok {
				return app.Usage(fmt.Errorf("unknown shell %q%s (known: %s)", args[0], app.Near(args[0], names, ""), strings.Join(names, " ")))
			}
			return write(cmd.Root(), a.Stdout)
		},
	}
}

// bashMore extends cobra's script for bash. It escapes no commas, and cuts off the text up to the last "=", where bash
// begins a new word. Without the package bash-completion it splits the line at blanks.
const bashMore = `
__gdngen_handle_special_char() {
    local comp=$1 char=$2
    COMPREPLY=("${COMPREPLY[@]//\\,/,}")
    if [[ ${comp} == *${char}* && ${COMP_WORDBREAKS} == *${char}* ]]; then
        local word=${comp%"${comp##*${char}}"}
        COMPREPLY=("${COMPREPLY[@]#"${word}"}")
    fi
}
if ! declare -F _get_comp_words_by_ref >/dev/null; then
    _get_comp_words_by_ref() {
        local line=${COMP_LINE:0:COMP_POINT}
        read -ra words <<<"${line}"
        [[ ${line} == *[[:space:]] ]] && words+=("")
        cword=$((${#words[@]} - 1))
        cur=${words[cword]}
        prev=${words[cword - 1]}
    }
fi
`

func writeBash(c *cobra.Command, w io.Writer) error {
	if err := c.GenBashCompletionV2(w, true); err != nil {
		return err
	}
	_, err := io.WriteString(w, bashMore)
	return err
}
