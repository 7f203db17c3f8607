package ladder

import (
	"context"
	"fmt"
)

// Figure returns the candidate's time on the highest rung below the guards, and its model flop utilisation (0:
// unknown), once its numbers are right: a loop minimises the time. The base of the comparison is not used.
func Figure(ctx context.Context, c Config, e Evaluator) (time, mfu float64, err error) {
	if err := c.check(); err != nil {
		return 0, 0, err
	}
	c.Base, c.Guards = c.Variant, nil
	var f *Figures
	for _, r := range c.rungs() {
		if r.Kind == Layer && c.Model != nil { // the model contains the layer
			continue
		}
		if f, err = e.Figures(ctx, &c, r); err != nil {
			return 0, 0, err
		}
		if f.Base.Verdict != "" {
			return 0, 0, &BaseError{r.Name(), c.Variant, f.Base.Reason, f.Base.Verdict}
		}
	}
	if f.Base.Score == 0 {
		return 0, 0, fmt.Errorf("%s has no figure", c.Variant)
	}
	return float64(f.Base.Score), f.Base.MFU, nil
}
