package ladder

import (
	"context"
	"fmt"

	"github.com/gdngen/gdngen/autotune/journal"
	"github.com/gdngen/gdngen/gdn/model"
)

// Kind is a kind of rung.
type Kind string

// The kinds, from the ground.
const (
	Correct Kind = "correct"
	Kernel  Kind = "kernel"
	Layer   Kind = "layer"
	Model   Kind = "model"
	Guarded Kind = "guard"
)

// Rung is one step of a ladder.
type Rung struct {
	Kind   Kind
	Spec   string        // of numbers, the kernel and guards
	Target string        //
	Model  *model.Config // of layer and model
	Share  float64       // that a guard may lose
}

// Name tells the rungs of a climb apart.
func (r Rung) Name() string {
	if r.Kind == Guarded {
		return fmt.Sprintf("guard %s@%s", r.Spec, r.Target)
	}
	return string(r.Kind)
}

// rungs lists the steps of a climb, from the ground.
func (c *Config) rungs() []Rung {
	l := []Rung{{Kind: Correct, Spec: c.Kernel, Target: c.Target}, {Kind: Kernel, Spec: c.Kernel, Target: c.Target}}
	if c.Layer != nil {
		l = append(l, Rung{Kind: Layer, Model: c.Layer, Target: c.Target})
	}
	if c.Model != nil {
		l = append(l, Rung{Kind: Model, Model: c.Model, Target: c.Target})
	}
	for _, g := range c.Guards {
		l = append(l, Rung{Kind: Guarded, Spec: g.Spec, Target: g.Target, Share: g.Share})
	}
	return l
}

// Command is what a person would type to see the figures of the rung for a variant.
func (r Rung) Command(variant string, forward bool) string {
	switch r.Kind {
	case Correct:
		return fmt.Sprintf("gdngen check --spec %s --variant %s --target %s", r.Spec, variant, r.Target)
	case Kernel, Guarded:
		return fmt.Sprintf("gdngen explain --spec %s --variant %s --target %s", r.Spec, variant, r.Target)
	}
	text := fmt.Sprintf("gdngen model cost --model %s --variant %s --target %s", r.Model.Name, variant, r.Target)
	if forward {
		text += " --forward"
	}
	return text
}

// Side is the cost of base or candidate on a rung. Score is a time: cycles by the ruler, or nanoseconds of a device.
type Side struct {
	journal.Cost
	Rule     int64   `json:"rule,omitempty"`    // the rule by itself, as a module of its own
	Separate int64   `json:"apart,omitempty"`   // the layers of the rule of a step, each part as a module of its own
	Whole    int64   `json:"whole,omitempty"`   // the same, each layer as one module
	Kernels  int     `json:"kernels,omitempty"` // distinct ones that a step compiles
	MFU      float64 `json:"mfu,omitempty"`
	Variant  string  `json:"variant,omitempty"` // as it was suited to the rung
}

// Figures are what a rung knows of both.
type Figures struct {
	Base      Side     `json:"base"`
	Candidate Side     `json:"candidate"`
	Unit      string   `json:"unit,omitempty"`   // of scores
	Tokens    int      `json:"tokens,omitempty"` // times value heads, that a score is for; 0: a score is for a step
	Ratio     float64  `json:"ratio,omitempty"`  // of the candidate's time to the base's
	Low       float64  `json:"low,omitempty"`    // interval of the ratio, where it was measured
	High      float64  `json:"high,omitempty"`
	Pairs     int      `json:"pairs,omitempty"`
	Same      bool     `json:"same,omitempty"` // one program, or one schedule
	Notes     []string `json:"notes,omitempty"`
}

// Evaluator finds the figures of rungs.
type Evaluator interface {
	// Figures judges both on a rung. Who is refused has a verdict in its Side. A base that is refused is an error where kernels are
	// compared, or where the candidate is refused too; and so is a failure of the machinery.
	Figures(ctx context.Context, c *Config, r Rung) (*Figures, error)
}

// BaseError says that the base can not be judged, so that there is nothing to compare with.
type BaseError struct {
	Rung, Variant, Reason string
	Verdict               journal.Verdict
}

func (e *BaseError) Error() string {
	return fmt.Sprintf("rung %s: the base %s can not be judged: %s", e.Rung, e.Variant, e.Reason)
}

// Gain is the share of time that the candidate saves.
func (f *Figures) Gain() float64 { return 1 - f.Ratio }
