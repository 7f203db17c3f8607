package gdn

import (
	"fmt"
	"strings"
)

// SpecHelp returns the help text for specs: presets and fields.
func SpecHelp() string {
	var b strings.Builder
	b.WriteString("A spec says what is computed: fields key=value separated by commas. A preset may come first, and fields after it change it.\n" +
		"Without a preset the fields t, hk and k are required. A boolean field without a value is true.\n\nPresets:\n")
	for _, p := range Presets {
		fmt.Fprintf(&b, "  %-16s %s\n  %-16s %s\n", p.Name, p.Doc, "", p.Text)
	}
	b.WriteString("\nFields (in JSON they may have long names):\n")
	for _, f := range Fields() {
		long := ""
		if f.Name != f.Key {
			long = " (" + f.Name + ")"
		}
		fmt.Fprintf(&b, "  %-11s %s%s\n  %-11s %s\n", f.Key, f.Doc, long, "", bracketed(strings.Fields(f.Values), f.Default))
	}
	b.WriteString("\nDefaults are in brackets.")
	return b.String()
}

// VariantHelp returns the help text for variants: axes and their values.
func VariantHelp() string {
	var b strings.Builder
	b.WriteString("A variant says how a kernel computes a spec: axes axis=value separated by commas, over the default. A name may come first, and\n" +
		"axes after it change it. gdngen list variants lists the names. auto in place of a name is the best known variant for spec and target, or for a\n" +
		"CPU; auto-fast, auto-fla and auto-f32-like keep to a class of accuracy: one bf16 pass, the error of flash-linear-attention, nearly float32.\n" +
		"gdngen explain says what auto stands for, and why. A search moves along the structural axes and tunes the others.\n\nAxes:\n")
	for _, x := range Axes {
		kind := "structural"
		if !x.Structural() {
			kind = "scalar"
		}
		fmt.Fprintf(&b, "  %-17s %s (%s, %s)\n  %-17s %s\n", x.Name, x.Doc, x.Group, kind, "", bracketed(x.Values, x.Default))
	}
	b.WriteString("\nDefaults are in brackets.")
	return b.String()
}

// bracketed joins values with spaces, the default in brackets.
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
