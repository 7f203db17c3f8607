package explain

import (
	"context"
	"fmt"
	"strings"

	"github.com/gdngen/gdngen/autotune/measure"
	"github.com/gdngen/gdngen/ir/target"
)

// Job asks for the explanation of a module on some targets, perhaps against another.
type Job struct {
	Targets  []*target.Target
	Modules  []*Module // one for each target
	Others   []*Module // to compare with, one for each target; nil: no comparison
	Tokens   int       // over the whole batch, for a module from a file; 0: unknown
	Heads    int       // value heads, for a module from a file
	Compiler string    // name and version
	Options  measure.Options
	Plain    bool         // also compile without the target's compiler options, if it has some
	Warn     func(string) // receives warnings to the user
}

// work returns tokens times value heads; 0: unknown.
func (j *Job) work() float64 {
	if s := j.Modules[0].Program.Spec; s != nil {
		return float64(s.Batch) * float64(s.Tokens) * float64(s.HeadsV)
	}
	return float64(j.Tokens) * float64(j.Heads)
}

// Run measures all targets. If one of several targets refuses, it is left out with a warning, and the first such
// refusal is returned too; the refusal of an only target is the error.
func (j *Job) Run(ctx context.Context, x *measure.Instrument) (r *Result, refused, err error) {
	r = &Result{Module: j.Modules[0], Note: measure.StaticNote}
	if j.Others != nil {
		r.Against = j.Others[0]
	}
	if len(r.Module.Scalars) > 0 {
		r.Note += " " + strings.ToUpper(measure.EqualLengths[:1]) + measure.EqualLengths[1:] + "."
	}
	for i, t := range j.Targets {
		e, err := j.on(ctx, x, i)
		if err != nil && len(j.Targets) == 1 || ctx.Err() != nil {
			return nil, nil, err
		}
		if err != nil {
			err = fmt.Errorf("%s: %w", t.Name, err)
			j.Warn(err.Error())
			if refused == nil {
				refused = err
			}
			continue
		}
		r.Targets = append(r.Targets, e)
	}
	return r, refused, nil
}

// on measures the module of target i, and the module to compare with.
func (j *Job) on(ctx context.Context, x *measure.Instrument, i int) (*Explanation, error) {
	e, err := j.one(ctx, x, j.Modules[i], j.Targets[i])
	if err == nil && j.Plain && len(e.target.Flags) > 0 && !e.module.Program.IsStored() {
		err = e.plain(ctx, x, j.Options)
	}
	if err != nil || j.Others == nil {
		return e, err
	}
	if e.Against, err = j.one(ctx, x, j.Others[i], j.Targets[i]); err != nil {
		return nil, err
	}
	e.Diff = Compare(e, e.Against)
	return e, nil
}

func (j *Job) one(ctx context.Context, x *measure.Instrument, m *Module, t *target.Target) (*Explanation, error) {
	e, err := m.Explain(ctx, x, j.Compiler, t, j.work(), j.Options)
	if err == nil && len(e.Unread) > 0 {
		j.Warn(fmt.Sprintf("%s: no kernel reads the operands that --scalars %s names", t.Name, strings.Join(e.Unread, ", ")))
	}
	if err == nil && e.Report != nil {
		for _, c := range e.Report.Conditionals {
			j.Warn(t.Name + ": " + counted(c))
		}
	}
	return e, err
}
