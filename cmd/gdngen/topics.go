package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gdngen/gdngen/autotune/strategy"
	"github.com/gdngen/gdngen/gdn"
)

// specTopic explains the text of a spec.
func specTopic() *cobra.Command {
	var b strings.Builder
	b.WriteString("A spec says what is computed: fields key=value separated by commas. A preset may come first, and fields after it change it.\n" +
		"Without a preset t, hk and k are wanted. A boolean field alone is true.\n\nPresets:\n")
	for _, p := range gdn.Presets {
		fmt.Fprintf(&b, "  %-16s %s\n  %-16s %s\n", p.Name, p.Doc, "", p.Text)
	}
	b.WriteString("\nFields (in JSON they may have long names):\n")
	for _, f := range gdn.Fields() {
		long := ""
		if f.Name != f.Key {
			long = " (" + f.Name + ")"
		}
		fmt.Fprintf(&b, "  %-11s %s%s\n  %-11s %s\n", f.Key, f.Doc, long, "", bracketed(strings.Fields(f.Values), f.Default))
	}
	b.WriteString("\nDefaults are in brackets.")
	return &cobra.Command{Use: "spec", Short: "What a spec is: presets and fields", Long: b.String(),
		Example: "  gdngen gen --spec bench,t=1024,init\n  gdngen gen --spec t=100,hk=2,hv=4,k=64,v=32,gates=fused,l2norm"}
}

// variantTopic explains the text of a variant.
func variantTopic() *cobra.Command {
	var b strings.Builder
	b.WriteString("A variant says how a kernel computes a spec: axes axis=value separated by commas, over the default. A name may come first, and\n" +
		"axes after it change it. gdngen variants lists the names. auto in place of a name is the best known variant for spec and target, or for a\n" +
		"CPU; auto-fast, auto-fla and auto-f32-like keep to a class of accuracy: one bf16 pass, the error of flash-linear-attention, nearly float32.\n" +
		"gdngen explain says what auto stands for, and why. A search moves along the structural axes and tunes the others.\n\nAxes:\n")
	for _, x := range gdn.Axes {
		kind := "structural"
		if !x.Structural() {
			kind = "scalar"
		}
		fmt.Fprintf(&b, "  %-11s %s (%s, %s)\n  %-11s %s\n", x.Name, x.Doc, x.Group, kind, "", bracketed(x.Values, x.Default))
	}
	b.WriteString("\nDefaults are in brackets.")
	return &cobra.Command{Use: "variant", Short: "What a variant is: axes and their values", Long: b.String(),
		Example: "  gdngen check --variant solve=ladder,leaf=16\n  gdngen check --variant merge-packed,chunk=32"}
}

// directiveTopic prints the presets of directives, for searches and for agents.
func directiveTopic() *cobra.Command {
	c := &cobra.Command{Use: "directive", Short: "What a directive is: the presets, and their words",
		Long:    "A directive narrows a search, or an agent's work, to one bottleneck. gdngen help directive NAME prints one:\n\n  " + strings.ReplaceAll(directiveDocs(), "; ", "\n  "),
		Example: "  gdngen search run --directive dataflow --run runs/dataflow\n  gdngen loop --directive-preset dataflow --agent \"codex exec -\" --measure \"sh cost.sh\" --run runs/loop"}
	for _, d := range strategy.Directives {
		c.AddCommand(&cobra.Command{Use: d.Name, Short: d.Doc, Long: d.Words(), Example: "  gdngen search run --directive " + d.Name + " --run runs/" + d.Name})
	}
	return c
}

// bracketed joins values, the default in brackets.
func bracketed(values []string, standard string) string {
	list := make([]string, len(values))
	for i, v := range values {
		list[i] = v
		if v == standard {
			list[i] = "[" + v + "]"
		}
	}
	return strings.Join(list, " ")
}
