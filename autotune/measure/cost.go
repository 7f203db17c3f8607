package measure

import (
	"context"
	"errors"
	"strings"

	"github.com/gdngen/gdngen/autotune/ruler"
	"github.com/gdngen/gdngen/codegen/route"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/ir/target"
)

// Cost is the static cost of a program in figures, or the reason why it has none.
type Cost struct {
	Cycles   int64  `json:"cycles,omitempty"`    // issue cycles
	Wall     int64  `json:"wall,omitempty"`      // in-order cycles; 0: unknown
	HBMBytes int64  `json:"hbm_bytes,omitempty"` // -1: unknown
	VMEM     int64  `json:"vmem,omitempty"`      // bytes, of the op that needs most
	Spills   int64  `json:"spills,omitempty"`    // executed
	Fills    int64  `json:"fills,omitempty"`
	Refused  string `json:"refused,omitempty"` // the verdict and its first line
}

// StaticNote explains static costs to readers of a report.
const StaticNote = "cycles are counted in the compiler's schedule; nothing ran on a TPU. Cycles are in order: the schedule with waits for units, for HBM and for copies around kernels, by a model that knows no launches and no conflicts in vector memory. " +
	"Issue cycles count what the schedule issues, without these waits; targets whose latencies are not known are ranked by them."

// By returns the cycles by a ruler on a target. refused is the reason if there are none, such as unknown in-order cycles.
func (c *Cost) By(r ruler.Ruler, target string) (cycles int64, refused string) {
	switch {
	case c.Refused != "":
		return 0, c.Refused
	case r.On(target) == ruler.Issue:
		return c.Cycles, ""
	case c.Wall == 0:
		return 0, string(CostUnknown) + ": the in-order cycles of the schedule are not known"
	}
	return c.Wall, ""
}

// Forms builds the program of each form once for any number of targets. The zero value is ready.
type Forms struct {
	made map[form]outcome
}

// form is a spec with a variant that fits it.
type form struct {
	spec    gdn.Spec
	variant gdn.Variant
}

type outcome struct {
	program *Program
	err     error
}

// program returns the program of a form for TPUs.
func (l *Forms) program(f *route.Form) (*Program, error) {
	key := form{f.Spec, f.Variant}
	o, ok := l.made[key]
	if !ok {
		o.program, o.err = ofChecked(f)
		if l.made == nil {
			l.made = map[form]outcome{}
		}
		l.made[key] = o
	}
	return o.program, o.err
}

func ofChecked(f *route.Form) (*Program, error) {
	if err := f.Variant.Check(f.Spec); err != nil {
		return nil, refused(Invalid, err)
	}
	route, err := route.Lookup("mosaic")
	if err != nil {
		return nil, err
	}
	return Of(f, route)
}

// Cost measures a form for a target. A refusal is a Cost with Refused set, but a timeout is an error: a later try may succeed.
func (l *Forms) Cost(ctx context.Context, x *Instrument, f *route.Form, t *target.Target) (*Cost, error) {
	p, err := l.program(f)
	var made *Compiled
	if err == nil {
		made, err = x.Static(ctx, p, t, Options{})
	}
	if refusal := (*Refusal)(nil); errors.As(err, &refusal) && refusal.Verdict != Timeout {
		line, _, _ := strings.Cut(err.Error(), "\n")
		return &Cost{Refused: string(refusal.Verdict) + ": " + line}, nil
	}
	if err != nil {
		return nil, err
	}
	r := made.Report
	c := &Cost{Cycles: r.Cycles, Wall: max(0, r.Wall.Cycles), HBMBytes: r.HBMBytes, VMEM: r.VMEM}
	for _, op := range r.Ops {
		c.Spills += op.Calls * op.Spills
		c.Fills += op.Calls * op.Fills
	}
	return c, nil
}
