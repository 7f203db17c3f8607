package app

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gdngen/gdngen/gdn"
)

// Complete offers a flag's values to the shell.
func Complete(cmd *cobra.Command, flag string, values []string) {
	register(cmd, flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
}

func register(cmd *cobra.Command, flag string, offer cobra.CompletionFunc) {
	if err := cmd.RegisterFlagCompletionFunc(flag, offer); err != nil {
		panic(err) // the flag does not exist
	}
}

// CompleteList offers values for a list separated by commas, without those already given.
func CompleteList(cmd *cobra.Command, flag string, values []string) {
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

// begun returns the items that begin with the typed text.
func begun(list []cobra.Completion, typed string) []cobra.Completion {
	return slices.DeleteFunc(list, func(c cobra.Completion) bool { return !strings.HasPrefix(c, typed) })
}

// lastOf cuts a list after its last comma.
func lastOf(typed string) (before, last string) {
	i := strings.LastIndexByte(typed, ',') + 1
	return typed[:i], typed[i:]
}

// choice is a key of a text such as a spec, with its possible values.
type choice struct {
	key, doc string
	values   []string
	alone    bool // the key needs no value
}

// CompleteChoices offers the text of a spec or a variant: a name, then key=value separated by commas.
func CompleteChoices(cmd *cobra.Command, flag string, names func() []cobra.Completion, choices func() []choice) {
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

func VariantChoices() []choice {
	var list []choice
	for _, x := range gdn.Axes {
		list = append(list, choice{key: x.Name, doc: x.Doc, values: x.Values})
	}
	return list
}

func AxisNames() []string {
	var names []string
	for _, x := range gdn.Axes {
		names = append(names, x.Name)
	}
	return names
}

func VariantOffers() []cobra.Completion {
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
