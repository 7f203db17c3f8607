package search

import (
	"github.com/spf13/cobra"

	"github.com/gdngen/gdngen/autotune/strategy"
)

// DirectiveTopic returns the help topic on directives: their presets and texts.
func DirectiveTopic() *cobra.Command {
	c := &cobra.Command{Use: "directive", Short: "What a directive is: the presets, and their words",
		Long:    "A directive narrows a search, or an agent's work, to one bottleneck. gdngen help directive NAME prints one:\n" + defined(strategy.DirectiveDocs()),
		Example: "  gdngen search run --directive-preset dataflow --run runs/dataflow\n  gdngen loop --directive-preset dataflow --agent \"codex exec -\" --agent-network --measure \"sh cost.sh\" --run runs/loop"}
	for _, d := range strategy.Directives {
		c.AddCommand(&cobra.Command{Use: d.Name, Short: d.Doc, Long: d.Words(), Example: "  gdngen search run --directive-preset " + d.Name + " --run runs/" + d.Name})
	}
	return c
}

func directiveNames() []string {
	names, _ := strategy.DirectiveDocs()
	return names
}
