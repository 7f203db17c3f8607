package kernels

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/gdngen/gdngen/autotune/measure"
	"github.com/gdngen/gdngen/cmd/gdngen/internal/app"
	"github.com/gdngen/gdngen/cmd/gdngen/internal/tune"
	"github.com/gdngen/gdngen/codegen/route"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/model"
	"github.com/gdngen/gdngen/gdn/published"
	"github.com/gdngen/gdngen/ir/target"
	"github.com/gdngen/gdngen/pjrt/plugins"
	"github.com/spf13/cobra"
)

// tuneFlags are the flags of tune.
type tuneFlags struct {
	model                   model.Config // from the flags
	sizes                   tune.Sizes
	works, target, accuracy string
	load                    string
	out, files              string
	tensor                  int // number of devices that share the heads
	whole, stored           bool
}

func (a CLI) TuneCmd() *cobra.Command {
	var f tuneFlags
	var works []string
	for _, w := range tune.Works {
		works = append(works, fmt.Sprintf("  %-8s  %s", w.Name, w.Doc))
	}
	c := &cobra.Command{
		Use:   "tune (CONFIG | --key-heads N --value-heads N --key-dim N --value-dim N)",
		Short: "Give the best kernels for a model, by its config.json or its sizes",
		Long: `tune reads the sizes of a model's layers, of the gated delta rule or Kimi Delta Attention, from the config.json of the published model (or
its folder, or a file of gdngen model cost), or from flags. Models are
` + strings.Join(published.Names(), ", ") + `.
For each work and target it gives the spec, the best known variant, its static cost, and the cost of all such layers. Works are:

` + strings.Join(works, "\n") + `

--out writes the kernels: for libtpu (mosaic), JAX (pallas) and XLA on a CPU (stablehlo). --whole also costs the projections, attention and MLP
around the rule, as gdngen model cost does. A cost that is stored in this program is taken from there; others are compiled once, which takes some
minutes each.`,
		Example: `  gdngen tune config.json
  gdngen tune config.json --work prefill,decode --target v5e,v6e,tpu7x --out kernels
  gdngen tune --key-heads 16 --value-heads 32 --key-dim 128 --value-dim 128 --layers 36 --tokens 8192
  gdngen tune config.json --work train --whole
  gdngen tune config.json --work serve --tensor 8 --load 63x1+961,8x1+128+128+256`,
		GroupID: "work",
		Args:    app.Args(cobra.MaximumNArgs(1)),
		RunE:    func(cmd *cobra.Command, args []string) error { return a.tune(&f, cmd, args) },
	}
	l, r := c.Flags(), &f.model.Rule
	l.IntVar(&r.HeadsK, "key-heads", 0, "query and key heads of a layer")
	l.IntVar(&r.HeadsV, "value-heads", 0, "value heads of a layer, a multiple of the key heads; 0: as many")
	l.IntVar(&r.K, "key-dim", 0, "width of a query or key")
	l.IntVar(&r.V, "value-dim", 0, "width of a value; 0: as a key")
	l.BoolVar(&r.NegEigval, "negative-eigenvalues", false, "beta goes up to 2")
	l.IntVar(&f.model.Layers, "layers", 1, "layers of the rule in the model")
	l.StringVar(&f.works, "work", "prefill", "what the layers do, separated by commas, or all: "+strings.Join(tune.WorkNames(), " "))
	l.IntVar(&f.sizes.Tokens, "tokens", 0, "tokens of a sequence, or of all packed ones; 0: 4096, packed 8192")
	l.IntVar(&f.sizes.Batch, "batch", 0, "sequences of equal length; 0: 1, and 64 for decode")
	l.IntVar(&f.sizes.Seqs, "seqs", 0, "packed sequences; 0: 16")
	l.StringVar(&f.load, "load", "8x1+128+128+256", "tokens of each sequence in a server's step; commas separate steps, which are rows of one program")
	l.IntVar(&f.sizes.Slots, "slots", 0, "states in a server's pools; 0: 513")
	l.IntVar(&f.tensor, "tensor", 1, "devices that share the heads of a layer")
	app.TargetFlag(c, &f.target)
	l.StringVar(&f.accuracy, "accuracy", "", "class of accuracy: "+strings.Join(gdn.AccuracyNames(), " or ")+" (default: as the tensors)")
	l.StringVar(&f.out, "out", "", "write the kernels, and tune.json, into this folder")
	l.StringVar(&f.files, "files", "mosaic,pallas", "kinds of files of --out: mosaic, pallas, stablehlo")
	l.BoolVar(&f.whole, "whole", false, "cost the whole layers of the model too, by a config.json; many compiles")
	l.BoolVar(&f.stored, "stored", false, "take stored costs alone, and compile nothing")
	app.CompleteList(c, "work", append(tune.WorkNames(), "all"))
	app.CompleteList(c, "files", []string{tune.Mosaic, tune.Pallas, tune.StableHLO})
	app.Complete(c, "accuracy", gdn.AccuracyNames())
	return c
}

// modelOf returns the model of a file, or of the flags.
func (f *tuneFlags) modelOf(a *app.App, cmd *cobra.Command, args []string) (model.Config, error) {
	sized := ""
	for _, name := range []string{"key-heads", "value-heads", "key-dim", "value-dim", "negative-eigenvalues", "layers"} {
		if cmd.Flags().Changed(name) {
			sized = name
		}
	}
	r := &f.model.Rule
	switch {
	case len(args) == 1 && sized != "":
		return f.model, app.Usage(fmt.Errorf("give a file or --%s, not both", sized))
	case len(args) == 1:
		return a.ReadModelConfig(args[0])
	case r.HeadsK == 0 && r.K == 0:
		return f.model, app.Usage(errors.New("tune what? give the config.json of a model, or --key-heads and --key-dim"))
	case r.HeadsK == 0:
		return f.model, app.Usage(errors.New("--key-heads is missing"))
	case r.K == 0:
		return f.model, app.Usage(errors.New("--key-dim is missing"))
	case f.whole:
		return f.model, app.Usage(errors.New("--whole needs the config.json of a model: sizes of the rule alone say nothing of its other parts"))
	}
	m, err := tune.ModelOf(*r, f.model.Layers)
	return m, app.Usage(err)
}

// shared returns the model with the heads of one of --tensor devices.
func (f *tuneFlags) shared(c model.Config) (model.Config, error) {
	r := &c.Rule
	switch {
	case f.tensor < 1 || r.HeadsK%f.tensor != 0 || r.HeadsV%f.tensor != 0:
		return c, app.Usage(fmt.Errorf("--tensor %d: %d key and %d value heads can not be shared equally among so many devices", f.tensor, r.HeadsK, r.HeadsV))
	case f.whole:
		return c, app.Usage(errors.New("--tensor shares the heads of the rule alone: leave out --whole"))
	}
	r.HeadsK, r.HeadsV = r.HeadsK/f.tensor, r.HeadsV/f.tensor
	return c, nil
}

func (a CLI) tune(f *tuneFlags, cmd *cobra.Command, args []string) error {
	begun := time.Now()
	targets, err := app.ParseTargets(f.target)
	if err != nil {
		return err
	}
	works, err := tune.ParseWorks(f.works)
	if err != nil {
		return app.Usage(err)
	}
	if f.sizes.Loads, err = tune.ParseLoads(f.load); err != nil {
		return app.Usage(fmt.Errorf("--load %w", err))
	}
	kinds, err := tune.ParseKinds(f.files)
	if err != nil {
		return app.Usage(fmt.Errorf("--files: %w", err))
	}
	variant := gdn.Auto
	if f.accuracy != "" {
		if err := (&app.AccuracyText{At: &variant}).Set(f.accuracy); err != nil {
			return app.Usage(err)
		}
	}
	config, err := f.modelOf(a.App, cmd, args)
	if err == nil && f.tensor != 1 {
		config, err = f.shared(config)
	}
	if err != nil {
		return err
	}
	way, err := route.Lookup("mosaic")
	if err != nil {
		return err
	}
	r, err := tune.New(config, works, f.sizes, targets, func(s gdn.Spec, t *target.Target) (*route.Form, error) {
		form, err := app.Resolve(s, variant, way.For(t))
		if err == nil {
			a.TellPromoted(form)
		}
		return form, err
	})
	if err != nil {
		return app.Usage(err)
	}
	stored, err := tune.ReadStored()
	if err != nil {
		return err
	}
	var x *measure.Instrument
	if !f.stored && (f.whole || !r.Known(stored)) {
		x, err = a.Instrument(false)
		if app.IsA[*plugins.MissingError](err) && !f.whole {
			a.Note("no compiler: %v; rows without a stored cost have none", err)
			err = nil
		}
		if err != nil {
			return err
		}
	}
	if err := r.Cost(a.Ctx, stored, x); err != nil {
		return err
	}
	if f.out != "" {
		v, _ := app.Version()
		if err := r.WriteFiles(f.out, kinds, v, func(file string) { a.Note("writing %s (after %v)", file, time.Since(begun).Round(time.Second)) }, func(err error) { a.Warn("%v", err) }); err != nil {
			return err
		}
	}
	steps, err := f.wholeSteps(a.App, config, works, variant, targets, x)
	if err != nil {
		return err
	}
	if err := app.Emit(a.App, r, r.Rows, func(w io.Writer) {
		r.Write(w)
		for _, s := range steps {
			s.Write(w)
		}
	}); err != nil {
		return err
	}
	for _, line := range config.Notes {
		if f.whole {
			a.Note("of the model: %s", line)
		}
	}
	a.Note("next: %s", r.Next(f.stored, f.out != ""))
	return nil
}

// wholeSteps costs whole layers of the works, if --whole asks for them.
func (f *tuneFlags) wholeSteps(a *app.App, config model.Config, works []*tune.Work, variant string, targets []*target.Target, x *measure.Instrument) ([]*tune.Step, error) {
	if !f.whole {
		return nil, nil
	}
	steps, err := tune.Layers(config, works, f.sizes, variant, targets)
	if err != nil {
		return nil, app.Usage(err)
	}
	for _, w := range works {
		if !w.Layered() {
			a.Warn("--whole leaves %s out: whole layers are modelled for prefill and train", w.Name)
		}
	}
	for _, s := range steps {
		if err := s.Cost(a.Ctx, x, targets); err != nil {
			return nil, err
		}
	}
	return steps, nil
}
