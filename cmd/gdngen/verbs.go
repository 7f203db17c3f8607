package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/gdngen/gdngen/cmd/gdngen/internal/app"
	"github.com/gdngen/gdngen/cmd/gdngen/internal/kernels"
	"github.com/gdngen/gdngen/cmd/gdngen/internal/machines"
	"github.com/gdngen/gdngen/cmd/gdngen/internal/search"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/internal/terminal"
	"github.com/spf13/cobra"
)

// addVerbs adds the commands to the root, in groups.
func (a CLI) addVerbs(root *cobra.Command) {
	k, of, away := kernels.CLI{App: a.App}, search.CLI{App: a.App}, machines.CLI{App: a.App}
	gen := k.GenCmd()
	gen.AddCommand(k.SplitCmd())
	setup := a.setupCmd()
	setup.AddCommand(a.cacheCmd(), a.versionCmd(), a.completionCmd(), a.manCmd())
	root.AddCommand(in("work", a.tourCmd(), k.TuneCmd(), gen, k.ExplainCmd(), k.CheckCmd(), of.SearchCmd(), of.RunCmd(k.CasesCmd()), of.ServeCmd(), of.LoopCmd())...)
	root.AddCommand(in("work", app.Group(&cobra.Command{
		Use: "model", Short: "What a layer or a whole model gains or costs by a kernel",
		Example: "  gdngen model cost --model 130m --target v6e\n  gdngen model ladder --kernel bench --base naive --variant auto --run runs/ladder",
	}, k.MfuCmd(), of.LadderCmd()))...)
	root.AddCommand(in("away", away.RemoteCmd(), app.Group(&cobra.Command{
		Use: "device", Short: "What an attached TPU or GPU computes, and how long it takes",
		Example: "  gdngen device selftest --plugin libtpu.so\n  gdngen device trace top TRACE --by category",
	}, k.SelftestCmd(), away.ProfileCmd(), away.TraceCmd(), k.CalibrateCmd()), app.Group(&cobra.Command{
		Use: "contest", Short: "Solutions for FlashInfer-Bench: pack, unpack, evaluate",
		Example: "  gdngen contest pack mine --out solution.json\n  gdngen contest bench --run runs/contest",
	}, k.PackCmd(), k.UnpackCmd(), k.BenchCmd()))...)
	root.AddCommand(in("self", app.Group(&cobra.Command{
		Use: "list", Short: "What there is: targets, backends, variants, presets, axes, results",
		Example: "  gdngen list targets\n  gdngen list axes solve",
	}, k.TargetsCmd(), k.BackendsCmd(), k.VariantsCmd(), a.presetsCmd(), a.axesCmd(), k.ResultsCmd()), setup, a.doctorCmd())...)
	root.AddCommand(
		&cobra.Command{Use: "spec", Short: "What a spec is: presets and fields", Long: gdn.SpecHelp(),
			Example: "  gdngen gen --spec bench,t=1024,init\n  gdngen gen --spec t=100,hk=2,hv=4,k=64,v=32,gates=fused,l2norm"},
		&cobra.Command{Use: "variant", Short: "What a variant is: axes and their values", Long: gdn.VariantHelp(),
			Example: "  gdngen check --variant solve=ladder,leaf=16\n  gdngen check --variant merge-packed,chunk=32"}, search.DirectiveTopic(), app.ConfigTopic())
	a.addFormer(root, k, of, away)
}

// in puts commands into a group of the root's help; their subcommands belong to no group.
func in(group string, list ...*cobra.Command) []*cobra.Command {
	for _, c := range list {
		c.GroupID = group
		for _, b := range c.Commands() {
			in("", b)
		}
	}
	return list
}

// addFormer adds hidden commands by the names of the previous version. Each notes its present name. Names used by other
// programs, of workers, shells and version queries, stay.
func (a CLI) addFormer(root *cobra.Command, k kernels.CLI, of search.CLI, away machines.CLI) {
	for _, c := range []*cobra.Command{of.WorkerCmd(), a.completionCmd(), a.versionCmd()} {
		c.Hidden = true
		root.AddCommand(in("", c)...)
	}
	type formerly struct {
		now string
		cmd *cobra.Command
	}
	hide := func(parent *cobra.Command, list ...formerly) {
		for _, f := range list {
			a.former(f.cmd, f.now)
			parent.AddCommand(in("", f.cmd)...)
		}
	}
	hide(root, []formerly{
		{"explain --dump DIR", k.CompileCmd()}, {"run", of.JournalCmd()}, {"run show --html FILE", of.ReportCmd()}, {"run handover", of.HandoverCmd()},
		{"list results", k.ResultsCmd()}, {"list targets", k.TargetsCmd()}, {"list backends", k.BackendsCmd()}, {"list variants", k.VariantsCmd()},
		{"model cost", named(k.MfuCmd(), "mfu")}, {"model ladder", of.LadderCmd()}, {"contest bench", k.BenchCmd()}, {"contest pack", k.PackCmd()}, {"contest unpack", k.UnpackCmd()},
		{"device trace", away.TraceCmd()}, {"device profile", away.ProfileCmd()}, {"device calibrate", k.CalibrateCmd()}, {"device selftest", k.SelftestCmd()},
		{"gen split", k.SplitCmd()}, {"setup cache", a.cacheCmd()}, {"setup man", a.manCmd()},
	}...)
	s, _, _ := root.Find([]string{"search"})
	hide(s, []formerly{{"run resume", of.ResumeCmd()}, {"run show", of.StatusCmd()}, {"run best", of.BestCmd()}, {"run simulate", of.SimulateCmd()}}...)
}

// named gives a command another name.
func named(c *cobra.Command, name string) *cobra.Command {
	_, more, _ := strings.Cut(c.Use, " ")
	c.Use = strings.TrimSpace(name + " " + more)
	return c
}

// former hides a command of a former name, and lets it and its subcommands note the present name.
func (a CLI) former(c *cobra.Command, now string) {
	c.Hidden = true
	var visit func(*cobra.Command, string)
	visit = func(c *cobra.Command, now string) {
		if run := c.RunE; run != nil {
			c.RunE = func(cmd *cobra.Command, args []string) error {
				a.Note("note: %s is now gdngen %s; the old name goes with the next version", cmd.CommandPath(), now)
				return run(cmd, args)
			}
		}
		for _, b := range c.Commands() {
			visit(b, now+" "+b.Name())
		}
	}
	visit(c, now)
}

// presetsCmd lists the presets of specs.
func (a CLI) presetsCmd() *cobra.Command {
	return &cobra.Command{
		Use: "presets", Short: "List the presets of specs", Example: "  gdngen list presets", Args: app.Args(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			return app.Emit(a.App, gdn.Presets, gdn.Presets, func(w io.Writer) {
				t := terminal.NewTable("NAME", "WHAT", "SPEC")
				for _, p := range gdn.Presets {
					t.Add(p.Name, p.Doc, p.Text)
				}
				t.Write(w)
			})
		},
	}
}

// axesCmd lists the axes of variants, or the values of one.
func (a CLI) axesCmd() *cobra.Command {
	return &cobra.Command{
		Use: "axes [AXIS]", Short: "List the axes of variants, or the values of one", Example: "  gdngen list axes\n  gdngen list axes solve", Args: app.Args(cobra.MaximumNArgs(1)),
		ValidArgs: app.AxisNames(),
		RunE: func(_ *cobra.Command, args []string) error {
			rows := axisRows(gdn.Axes)
			if len(args) > 0 {
				x, err := gdn.LookupAxis(args[0])
				if err != nil {
					return app.Usage(err)
				}
				rows = axisRows([]gdn.Axis{x})
			}
			return app.Emit(a.App, rows, rows, func(w io.Writer) {
				t := terminal.NewTable("AXIS", "WHAT", "DEFAULT", "VALUES")
				for _, x := range rows {
					t.Add(x.Name, x.Doc, x.Default, strings.Join(x.Values, " "))
				}
				t.Write(w)
			})
		},
	}
}

// axisRow is an axis in the list.
type axisRow struct {
	Name       string   `json:"name"`
	Doc        string   `json:"doc"`
	Group      string   `json:"group"`
	Structural bool     `json:"structural"` // searched; others are tuned
	Default    string   `json:"default"`
	Values     []string `json:"values"`
}

func axisRows(axes []gdn.Axis) (rows []axisRow) {
	for _, x := range axes {
		rows = append(rows, axisRow{x.Name, x.Doc, fmt.Sprint(x.Group), x.Structural(), x.Default, x.Values})
	}
	return rows
}
