package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gdngen/gdngen/gdn"
)

// shells are those that scripts can be written for.
var shells = map[string]func(*cobra.Command, io.Writer) error{
	"bash":       writeBash,
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

// bashMore follows the script that cobra writes. Commas are no special characters of bash, so they stay as they are, and what stands before the
// last "=", where bash begins a word of its own, is cut off. Where the package bash-completion is not installed, the words of the line are cut
// at blanks.
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

// complete offers the values of a flag to the shell.
func complete(cmd *cobra.Command, flag string, values []string) {
	register(cmd, flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
}

func register(cmd *cobra.Command, flag string, offer cobra.CompletionFunc) {
	if err := cmd.RegisterFlagCompletionFunc(flag, offer); err != nil {
		panic(err) // the flag does not exist
	}
}

// completeList offers values that are joined by commas. One that was given is not offered again.
func completeList(cmd *cobra.Command, flag string, values []string) {
	register(cmd, flag, func(_ *cobra.Command, _ []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		before, _ := lastOf(typed)
		var list []cobra.Completion
		for _, v := range values {
			if !slices.Contains(strings.Split(before, ","), v) {
				list = append(list, before+v)
			}
		}
		return begun(list, typed), cobra.ShellCompDirectiveNoFileComp
	})
}

// begun are those that begin as what was typed.
func begun(list []cobra.Completion, typed string) []cobra.Completion {
	return slices.DeleteFunc(list, func(c cobra.Completion) bool { return !strings.HasPrefix(c, typed) })
}

// lastOf cuts a list behind its last comma.
func lastOf(typed string) (before, last string) {
	i := strings.LastIndexByte(typed, ',') + 1
	return typed[:i], typed[i:]
}

// choice is a key of a text such as a spec, with the values that can be listed.
type choice struct {
	key, doc string
	values   []string
	alone    bool // the key means something without a value
}

// completeChoices offers the text of a spec or a variant: a name, then key=value separated by commas.
func completeChoices(cmd *cobra.Command, flag string, names func() []cobra.Completion, choices func() []choice) {
	const inside = cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace | cobra.ShellCompDirectiveKeepOrder
	register(cmd, flag, func(_ *cobra.Command, _ []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		before, last := lastOf(typed)
		key, _, valued := strings.Cut(last, "=")
		var list []cobra.Completion
		if before == "" && !valued {
			list = names()
		}
		for _, c := range choices() {
			switch {
			case valued && c.key == key:
				for _, v := range c.values {
					list = append(list, before+key+"="+v)
				}
			case valued || strings.Contains(","+before, ","+c.key+"="):
			case c.alone:
				list = append(list, cobra.CompletionWithDesc(before+c.key, c.doc))
			default:
				list = append(list, cobra.CompletionWithDesc(before+c.key+"=", c.doc))
			}
		}
		return begun(list, typed), inside
	})
}

func specChoices() []choice {
	var list []choice
	for _, f := range gdn.Fields() {
		c := choice{key: f.Key, doc: f.Doc, values: strings.Fields(f.Values)}
		c.alone = slices.Equal(c.values, []string{"true", "false"})
		if strings.Contains(f.Values, " to ") || strings.HasPrefix(f.Values, "a ") { // a number
			c.values = nil
		}
		list = append(list, c)
	}
	return list
}

func specNames() []cobra.Completion {
	var list []cobra.Completion
	for _, p := range gdn.Presets {
		list = append(list, cobra.CompletionWithDesc(p.Name, p.Doc))
	}
	return list
}

func variantChoices() []choice {
	var list []choice
	for _, x := range gdn.Axes {
		list = append(list, choice{key: x.Name, doc: x.Doc, values: x.Values})
	}
	return list
}

func axisNames() []string {
	var names []string
	for _, x := range gdn.Axes {
		names = append(names, x.Name)
	}
	return names
}

func variantOffers() []cobra.Completion {
	list := []cobra.Completion{cobra.CompletionWithDesc(gdn.Auto, "the best known for spec and target")}
	for _, name := range gdn.AutoNames() {
		if name != gdn.Auto {
			list = append(list, cobra.CompletionWithDesc(name, "the best known of this accuracy"))
		}
	}
	for _, v := range gdn.Variants {
		list = append(list, cobra.CompletionWithDesc(v.Name, v.Doc))
	}
	return list
}
