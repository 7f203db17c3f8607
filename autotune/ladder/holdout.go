package ladder

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/gdngen/gdngen/autotune/check"
	"github.com/gdngen/gdngen/autotune/check/engine"
	"github.com/gdngen/gdngen/autotune/journal"
	"github.com/gdngen/gdngen/codegen/route"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/exam"
	"github.com/gdngen/gdngen/ir/target"
)

// Limits of hold-out shapes, since the interpreter computes them: holdOutHead of K and V, holdOutTokens of tokens.
const (
	holdOutHead   = 16
	holdOutTokens = 320
)

// heldOut draws shapes that were not tuned for, by seed: a single token, and numbers of tokens that fill no chunk.
func heldOut(s gdn.Spec, seed uint64) (l []gdn.Spec) {
	draw := rand.New(rand.NewPCG(seed, 1))
	g := s.Groups()
	s.HeadsK, s.HeadsV = min(s.HeadsK, 2), min(s.HeadsK, 2)*g
	s.K, s.V = min(s.K, holdOutHead), min(s.V, holdOutHead)
	s.Batch, s.Seqs = min(s.Batch, 2), min(s.Seqs, 3)
	for _, tokens := range []int{1, 1 + draw.IntN(63), 65 + draw.IntN(holdOutTokens-65)} {
		x := s
		x.Tokens = max(tokens, s.Seqs)
		if x.Validate() == nil {
			l = append(l, x)
		}
	}
	return l
}

// holdOut tests the candidate on hold-out shapes and inputs. A candidate that is right only on its own spec fails.
func holdOut(ctx context.Context, c *Config, r Rung, f *Figures) error {
	s, err := gdn.Parse(r.Spec)
	if err != nil {
		return err
	}
	t, err := target.Lookup(r.Target)
	if err != nil {
		return err
	}
	for _, x := range heldOut(s, c.Seed) {
		v, err := gdn.ParseVariant(f.Candidate.Variant)
		if err == nil {
			err = v.Check(x)
		}
		if err != nil {
			if base, bad := gdn.ParseVariant(f.Base.Variant); bad == nil && base.Check(x) == nil {
				f.Candidate.Verdict, f.Candidate.Reason = journal.Invalid, fmt.Sprintf("legal for %s, not for %s, which was held out: %v", s, x, err)
				return nil
			}
			f.Notes = append(f.Notes, fmt.Sprintf("neither does %s, which was held out", x))
			continue
		}
		p := engine.Plan{Text: v.String(), Target: t, Level: engine.Kernel, Resolve: func(s gdn.Spec, text string, t *target.Target) (*route.Form, error) {
			return route.Resolve(s, text, t, nil)
		}}
		compute, _, err := (&engine.Env{Context: ctx}).Find("interp", p)
		if err != nil {
			return err
		}
		result := &check.Result{Precision: v.Precision().String(), Seeds: []uint64{c.Seed}}
		if err := result.Run(ctx, x, compute, exam.Supported(x), func(string, ...any) {}); err != nil {
			return err
		}
		for _, row := range result.Rows {
			if !row.Pass {
				f.Candidate.Verdict = journal.Numerics
				f.Candidate.Reason = fmt.Sprintf("right on %s, wrong on %s, which was held out: %s is off by %.2g (%s) on %s inputs, %.2g is allowed", s, x, row.Output, float64(row.Error), row.Kind,
					row.Class, float64(row.Limit))
				return nil
			}
		}
		f.Notes = append(f.Notes, fmt.Sprintf("held out and right: %s, seed %d", x, c.Seed))
	}
	return nil
}
