package autotune

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/gdngen/gdngen/autotune/journal"
	"github.com/gdngen/gdngen/autotune/judge"
	"github.com/gdngen/gdngen/gdn"
)

func TestMain(m *testing.M) {
	limitFiles()
	if dir := os.Getenv(scriptedEnv); dir != "" {
		scripted(dir)
		return
	}
	os.Exit(m.Run())
}

// fake is an evaluator without machinery: figures follow from the hash of the variant, and so do refusals, unless a test
// says otherwise.
type fake struct {
	delay   time.Duration // of each judgement, varied by the hash
	refuse  func(gate string, w *judge.Work) *judge.Refusal
	fail    func(gate string, w *judge.Work) error
	plugins map[string]string
	roomy   bool // nothing is out of memory by its hash
	cost    func(*journal.Cost)
	stuck   func(id int) bool // its build takes a minute, unless it is told to end
}

func number(v gdn.Variant, salt string) uint64 {
	h := fnv.New64a()
	fmt.Fprint(h, v.Hash(), salt)
	return h.Sum64()
}

// gateOf is a gate of an evaluator, by name: one that needs no machinery.
func gateOf(e judge.Evaluator, name string) judge.Gate {
	gates := e.Gates()
	return gates[slices.IndexFunc(gates, func(g judge.Gate) bool { return g.Name == name })]
}

func (f *fake) Plugins() map[string]string { return f.plugins }

func (f *fake) Close() error { return nil }

func (f *fake) Gates() []judge.Gate {
	gates := []judge.Gate{
		gateOf(&judge.Lab{}, "legality"),
		{Name: "build", Run: func(ctx context.Context, w *judge.Work) (*judge.Refusal, error) {
			if f.stuck != nil && f.stuck(w.Record.ID) {
				select {
				case <-ctx.Done():
					return nil, ctx.Err()
				case <-time.After(time.Minute):
				}
			}
			time.Sleep(f.delay * time.Duration(number(w.Variant, "time")%8) / 4)
			w.Record.IR = fmt.Sprint(number(w.Variant, "ir") % 500)
			w.Objects["ir"] = []byte(w.Variant.String())
			return nil, nil
		}},
		gateOf(&judge.Lab{}, "duplicate"),
		gateOf(&judge.Lab{}, "bound"),
		{Name: "numerics", Run: func(_ context.Context, w *judge.Work) (*judge.Refusal, error) {
			e := journal.ClassError{Class: "identical", Engine: "fake", Output: "o", Error: 1e-7, Limit: 1e-6}
			if w.Variant.Unsafe(w.Spec) != "" {
				e.Error = 1e9
			}
			w.Record.Errors = append(w.Record.Errors, e)
			if e.Use() > 1 {
				return judge.Refuse(journal.Numerics, "o is off by %g", float64(e.Error)), nil
			}
			return nil, nil
		}},
		{Name: "compile", Run: func(_ context.Context, w *judge.Work) (*judge.Refusal, error) {
			t := w.Targets[0]
			w.Objects["module/"+t.Name] = []byte("module")
			if !f.roomy && number(w.Variant, "vmem")%10 == 0 {
				return judge.Refuse(journal.VMEM, "too large"), nil
			}
			cost := fakeCost(w, t.Name)
			if f.cost != nil {
				f.cost(&cost)
			}
			w.Record.Costs = append(w.Record.Costs, cost)
			return nil, nil
		}},
		gateOf(&judge.Lab{}, "schedule"),
		{Name: "targets", Run: func(_ context.Context, w *judge.Work) (*judge.Refusal, error) {
			for _, t := range w.Targets[1:] {
				w.Record.Costs = append(w.Record.Costs, fakeCost(w, t.Name))
			}
			return nil, nil
		}},
	}
	for i, g := range gates {
		gates[i].Run = func(ctx context.Context, w *judge.Work) (*judge.Refusal, error) {
			if f.fail != nil {
				if err := f.fail(g.Name, w); err != nil {
					return nil, err
				}
			}
			if f.refuse != nil {
				if r := f.refuse(g.Name, w); r != nil {
					return r, nil
				}
			}
			return g.Run(ctx, w)
		}
	}
	return gates
}

// fakeCost draws a cost above the bound of any variant.
func fakeCost(w *judge.Work, target string) journal.Cost {
	score := int64(200_000 + number(w.Variant, target)%1_000_000)
	var name [8]byte
	binary.LittleEndian.PutUint64(name[:], number(w.Variant, "schedule "+target)%400)
	return journal.Cost{Target: target, Ruler: w.Ruler.On(target), Cycles: score, Wall: score, Score: score, PerToken: perToken(w, score), Schedule: fmt.Sprintf("%x", name)}
}

// perToken is a score over the tokens and heads of a run; over those of bench where it names none.
func perToken(w *judge.Work, score int64) journal.Figure {
	var tokens float64
	for _, s := range w.Shapes {
		tokens += s.Weight * float64(s.Spec.Work())
	}
	if tokens == 0 {
		tokens = 32768
	}
	return journal.Figure(float64(score) / tokens)
}
