// Package objective defines what a search minimizes.
package objective

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/gdngen/gdngen/autotune/journal"
	"github.com/gdngen/gdngen/gdn"
)

// Objective is what a search minimizes: the cost; the cost among candidates whose errors stay within a class of accuracy; or the
// error among candidates whose cost stays within a bound. The gates' accuracy tests apply to all. The zero Objective is cost.
type Objective struct {
	Class gdn.Accuracy // limit on errors
	Most  float64      // limit in cycles per token and value head, for each target separately
}

// Help is the syntax of objectives.
const Help = "cost, cost@error=CLASS with a class of fast, fla, f32-like, or error@cost=CYCLES per token and value head"

// Parse reads cost, cost@error=fla or error@cost=2.4. An empty text is cost.
func Parse(text string) (Objective, error) {
	what, value, given := strings.Cut(text, "=")
	fail := func(why string) (Objective, error) {
		return Objective{}, fmt.Errorf("objective %q: %s (an objective is %s)", text, why, Help)
	}
	switch what {
	case "", "cost":
		if given {
			return fail("cost has no value")
		}
		return Objective{}, nil
	case "cost@error":
		a, err := gdn.ParseAccuracy(value)
		if err != nil || a == gdn.AccuracyAny {
			return fail(fmt.Sprintf("the class %q is unknown", value))
		}
		return Objective{Class: a}, nil
	case "error@cost":
		x, err := strconv.ParseFloat(value, 64)
		if err != nil || !(x > 0) || math.IsInf(x, 0) {
			return fail(fmt.Sprintf("%q is no number of cycles", value))
		}
		return Objective{Most: x}, nil
	}
	return fail("it is unknown")
}

// Examples lists objectives to start from.
func Examples() []string {
	l := []string{"cost"}
	for _, a := range gdn.AccuracyNames() {
		l = append(l, "cost@error="+a)
	}
	return append(l, "error@cost=2.5")
}

// String returns the text that Parse reads; empty for cost.
func (o Objective) String() string {
	switch {
	case o.Class != gdn.AccuracyAny:
		return "cost@error=" + o.Class.String()
	case o.Most > 0:
		return "error@cost=" + strconv.FormatFloat(o.Most, 'g', -1, 64)
	}
	return ""
}

// Supports returns why an objective of errors does not apply to a spec, or nil.
func (o Objective) Supports(s gdn.Spec) error {
	if o != (Objective{}) && s.Direction != gdn.Forward {
		return errors.New("an objective of errors is for the forward pass: the errors of gradients have no table of classes")
	}
	return nil
}

// Meets reports whether a cost is within the bound Most. It is false without a bound.
func (o Objective) Meets(c *journal.Cost) bool {
	return o.Most > 0 && c.Verdict == "" && float64(c.PerToken) <= o.Most
}
