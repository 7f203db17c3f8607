package tune

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"

	"github.com/gdngen/gdngen/autotune/measure"
	"github.com/gdngen/gdngen/autotune/mfu"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/model"
	"github.com/gdngen/gdngen/ir/target"
)

// ModelOf returns a model of which only the rule's layers are known, with the usual convolution of four taps. If value
// heads or width of values are 0, they equal those of the keys.
func ModelOf(r model.Rule, layers int) (model.Config, error) {
	r.HeadsV, r.V, r.Conv = cmp.Or(r.HeadsV, r.HeadsK), cmp.Or(r.V, r.K), 4
	c := model.Config{Layers: layers, Hidden: r.HeadsV * r.V, Batch: 1, Tokens: r.Conv, Rule: r}
	return c, c.Validate()
}

// Layered reports whether whole layers are modelled for the work.
func (w *Work) Layered() bool { return w.Name == "prefill" || w.Name == "train" }

// Step is a pass through whole layers of a model: forward for prefill, forward and backward for training.
type Step struct {
	*mfu.Step
	rules   []gdn.Variant // by target
	forward bool
}

// Layers returns the steps of the works with modelled layers; Cost fills them.
func Layers(c model.Config, works []*Work, z Sizes, variant string, targets []*target.Target) ([]*Step, error) {
	var steps []*Step
	for _, w := range works {
		if !w.Layered() {
			continue
		}
		s, err := w.Spec(c, z)
		if err != nil {
			return nil, err
		}
		c.Batch, c.Tokens = s.Batch, s.Tokens
		step, rules, err := mfu.NewStep(c, variant, targets)
		if err != nil {
			return nil, err
		}
		steps = append(steps, &Step{step, rules, w.Name == "prefill"})
	}
	return steps, nil
}

// Cost costs the parts of the step on the targets passed to Layers.
func (s *Step) Cost(ctx context.Context, x *measure.Instrument, targets []*target.Target) error {
	return s.Step.Cost(ctx, x, s.rules, targets, s.forward)
}

// Next returns the most useful next command. stored: the rows are stored results, and nothing was compiled. written:
// the programs are in files.
func (r *Result) Next(stored, written bool) string {
	best := r.Best()
	of := fmt.Sprintf("--spec %s --target %s", best.Spec, best.Target)
	switch {
	case best.Cycles == 0 && stored:
		return "the same command without --stored, which compiles"
	case best.Cycles == 0:
		return "gdngen setup, which fetches the compiler, and the same command again"
	case best.Load != "":
		return fmt.Sprintf("gdngen explain %s --load %s, where the cycles go; gdngen gen --spec %s --backend pallas --package NAME, for JAX", of, best.Load, best.Spec)
	case !written:
		return fmt.Sprintf("the same command with --out kernels; or gdngen explain %s, where the cycles go", of)
	}
	for _, file := range best.Files {
		if filepath.Ext(file) == ".py" {
			return fmt.Sprintf("python %s, which checks itself where JAX is; gdngen check %s does without", file, of)
		}
	}
	return "gdngen check " + of + ", its numbers"
}
