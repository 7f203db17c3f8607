package judge

import (
	"fmt"

	"github.com/gdngen/gdngen/autotune/journal"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/exam"
	"github.com/gdngen/gdngen/gdn/truth"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/array"
)

// accuracyTest is a test of one program: classes of inputs, each with some seeds added to the run's seed.
type accuracyTest struct {
	spec    gdn.Spec
	classes []truth.Class
	seeds   []uint64
	engine  string
	size    gdn.Spec // of the program: the spec, perhaps with more tokens
	program exam.Program
}

// tinyClasses are the classes of the interpreter's gate: ordinary ones, and the hardest for power series.
var tinyClasses = []string{"random", "slow", "identical"}

// Candidates near the best are tested with the first seed; those that would be kept also with the others.
var firstSeed, finalSeeds = []uint64{0}, []uint64{1, 2}

// hopeless: once an error exceeds hopeless times its limit, the remaining inputs are skipped.
const hopeless = 10

// lookup returns the named classes that the spec supports.
func lookup(s gdn.Spec, names []string) ([]truth.Class, error) {
	var l []truth.Class
	for _, name := range names {
		c, err := truth.LookupClass(name)
		if err != nil {
			return nil, err
		}
		if c.Supports(s) == nil {
			l = append(l, c)
		}
	}
	return l, nil
}

// examine runs a program on each input set of a test and records its errors: for each class the worst of each kind. The
// refusal names the error farthest beyond its limit.
func (l *Lab) examine(w *Work, p accuracyTest) (*Refusal, error) {
	return w.examine(&l.cases, p, w.precision())
}

// examine is Lab.examine with the cache and the precision as parameters.
func (w *Work) examine(cache *exam.Cache, p accuracyTest, precision string) (*Refusal, error) {
	type group struct{ class, kind string }
	var all []exam.Mark
sheets:
	for _, after := range p.seeds {
		seed := w.Seed + after
		for _, classes := range exam.Deal(p.spec, p.classes) {
			x, err := cache.Draw(p.spec, classes, seed)
			if err != nil {
				return nil, err
			}
			got, err := x.Within(p.size, p.program)
			if err != nil {
				return nil, err
			}
			marks, err := x.Judge(precision, got)
			if err != nil {
				return nil, err
			}
			all = append(all, marks...)
			for _, m := range marks {
				if !(m.Use() <= hopeless) {
					break sheets
				}
			}
		}
	}
	for _, m := range exam.Worst(all, func(m exam.Mark) group { return group{m.Class, m.Family()} }) {
		w.Record.Errors = append(w.Record.Errors, journal.ClassError{Class: m.Class, Engine: p.engine, Output: m.Output, Kind: m.Family(),
			Error: journal.Figure(m.Error), Limit: journal.Figure(m.Limit)})
	}
	for _, m := range exam.Worst(all, func(exam.Mark) bool { return true }) {
		if !m.Pass() {
			return Refuse(journal.Numerics, "%s is off by %.2g (%s) on %s inputs, %.2g is allowed at %s (%s, T=%d, seed %d)",
				m.Output, m.Error, m.Kind, m.Class, m.Limit, precision, p.engine, p.spec.Tokens, m.Seed), nil
		}
	}
	return nil, nil
}

// byName pairs the results of a program with the names of a module.
func byName(m *ir.Module, results []*array.Array) (map[string]*array.Array, error) {
	if len(results) != len(m.Results) {
		return nil, fmt.Errorf("the program gives %d results, its module %d", len(results), len(m.Results))
	}
	named := map[string]*array.Array{}
	for i, name := range m.Results {
		named[name] = results[i]
	}
	return named, nil
}
