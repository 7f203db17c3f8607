package autotune

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"

	"github.com/gdngen/gdngen/autotune/journal"
	"github.com/gdngen/gdngen/autotune/judge"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/pjrt/machine"
)

// Judge runs single candidates of a run through the gates, for a driver in another process.
type Judge struct {
	plan    *plan
	state   *journal.State
	gates   []judge.Gate
	machine *machine.Lock
}

// Order asks for the judgement of a candidate.
type Order struct {
	At        int                // number of earlier candidates that it may be compared with
	Candidate *journal.Candidate // as it was proposed
	Text      string             // of a program, instead of a variant
}

// NewJudge returns a Judge that uses e, which the caller closes, under the lock m.
func NewJudge(h *journal.Header, e judge.Evaluator, m *machine.Lock) (*Judge, error) {
	p, err := newGround(h)
	if err != nil {
		return nil, fmt.Errorf("the header of the run: %w", err)
	}
	if err := attach(e, h.Targets); err != nil {
		return nil, err
	}
	j := &Judge{plan: p, state: journal.NewState(), gates: e.Gates(), machine: m}
	return j, add(j.state, journal.KindHeader, h)
}

// add adds a record to a state without a file.
func add(s *journal.State, kind journal.Kind, body any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	return s.Add(journal.Record{Kind: kind, Body: text})
}

// Known returns the number of candidates that the judge has been told of.
func (j *Judge) Known() int { return j.state.Len() }

// Know adds judged candidates, in the order of their ids.
func (j *Judge) Know(l []*journal.Candidate) error {
	for _, c := range l {
		if err := add(j.state, journal.KindCandidate, c); err != nil {
			return err
		}
	}
	return nil
}

// Judge runs a candidate through the gates until one refuses it or fails. before, if not nil, is called before each
// gate. wall holds the seconds of each gate. An error means that the order is invalid, or is ctx's.
func (j *Judge) Judge(ctx context.Context, o Order, before func(gate string)) (steps []judge.Step, wall map[string]float64, err error) {
	if o.At < 0 || o.At > j.Known() {
		return nil, nil, fmt.Errorf("candidate %d is to be judged by %d others, of which %d are known", o.Candidate.ID, o.At, j.Known())
	}
	w := &judge.Work{Spec: j.plan.spec, Shapes: j.plan.shapes, Targets: j.plan.targets, GPUs: j.plan.gpus, Ruler: j.plan.ruler, Objective: j.plan.objective, Seed: j.plan.Seed, Least: j.plan.Precision, Text: o.Text,
		Known: j.state.At(o.At), Record: o.Candidate, Objects: map[string][]byte{}, Wall: map[string]float64{}}
	if o.Text == "" && j.plan.gpus == nil {
		if w.Variant, err = gdn.ParseVariant(o.Candidate.Variant); err != nil {
			return nil, nil, fmt.Errorf("candidate %d: %w", o.Candidate.ID, err)
		}
	}
	for _, g := range j.gates {
		if before != nil {
			before(g.Name)
		}
		had := maps.Clone(w.Objects)
		refusal, err := g.AskAlone(ctx, j.machine, w)
		if ctx.Err() != nil {
			return nil, nil, ctx.Err()
		}
		s := judge.Step{Gate: g.Name, Record: w.Record.Clone(), Objects: map[string][]byte{}, Refusal: refusal, Runs: w.Runs}
		for role, content := range w.Objects {
			if old, ok := had[role]; !ok || !bytes.Equal(old, content) {
				s.Objects[role] = content
			}
		}
		if err != nil {
			s.Error = err.Error()
		}
		steps = append(steps, s)
		if refusal != nil || err != nil {
			break
		}
	}
	return steps, w.Wall, nil
}
