package ladder

import (
	"context"
	"fmt"

	"github.com/gdngen/gdngen/autotune/journal"
	"github.com/gdngen/gdngen/gdn/model"
)

// Kind is a kind of rung.
type Kind string

// The kinds, from the lowest rung.
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
	Spec   string        // for correctness, kernel and guards
	Target string        //
	Model  *model.Config // for layer and model
	Share  float64       // that a guard may lose
}

// Name returns a name that is unique in a climb.
func (r Rung) Name() string {
	if r.Kind == Guarded {
		return fmt.Sprintf("guard %s@%s", r.Spec, r.Target)
	}
	return string(r.Kind)
}

// rungs lists the rungs of a climb, the lowest first.
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

// Command returns a command line that shows the figures of the rung for a variant.
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
	Rule     int64   `json:"rule,omitempty"`    // time of the rule as a separate module
	Separate int64   `json:"apart,omitempty"`   // time of the step's rule layers, each part as a separate module
	Whole    int64   `json:"whole,omitempty"`   // the same, each layer as one module
	Kernels  int     `json:"kernels,omitempty"` // distinct kernels that a step compiles
	MFU      float64 `json:"mfu,omitempty"`
	Variant  string  `json:"variant,omitempty"` // as resolved for the rung
}

// Figures are the costs of base and candidate on a rung.
type Figures struct {
	Base      Side     `json:"base"`
	Candidate Side     `json:"candidate"`
	Unit      string   `json:"unit,omitempty"`   // of scores
	Tokens    int      `json:"tokens,omitempty"` // tokens times value heads of a score; 0: a score is for a step
	Ratio     float64  `json:"ratio,omitempty"`  // of the candidate's time to the base's
	Low       float64  `json:"low,omitempty"`    // interval of the ratio, if measured
	High      float64  `json:"high,omitempty"`
	Pairs     int      `json:"pairs,omitempty"`
	Same      bool     `json:"same,omitempty"` // one program, or one schedule
	Notes     []string `json:"notes,omitempty"`
}

// Evaluator computes the figures of rungs.
type Evaluator interface {
	// Figures judges base and candidate on a rung. A refused one has a verdict in its Side. A refused base is an error
	// if kernels are compared, or if the candidate is refused too; so is a failure of the machinery.
	Figures(ctx context.Context, c *Config, r Rung) (*Figures, error)
}

// BaseError says why the base can not be judged, so that there is no comparison.
type BaseError struct {
	Rung, Variant, Reason string
	Verdict               journal.Verdict
}

func (e *BaseError) Error() string {
	return fmt.Sprintf("rung %s: the base %s can not be judged: %s", e.Rung, e.Variant, e.Reason)
}

// Gain returns the share of time that the candidate saves; below 0 it is slower.
func (f *Figures) Gain() float64 { return 1 - f.Ratio }
