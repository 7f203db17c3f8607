package autotune

import (
	"fmt"
	"sync"

	"github.com/gdngen/gdngen/autotune/journal"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/array"
)

// exam is the inputs of a class for a spec and what they must give.
type exam struct {
	inputs, want map[string]*array.Array
}

// exams draws and keeps exams: variants that shrink the spec alike share them.
type exams struct {
	mu   sync.Mutex
	kept map[examKey]func() (exam, error)
}

type examKey struct {
	spec  gdn.Spec
	class string
	seed  uint64
}

// maxExams bounds the memory that exams take.
const maxExams = 200

func (e *exams) get(s gdn.Spec, c gdn.Class, seed uint64) (exam, error) {
	key := examKey{s, c.Name, seed}
	e.mu.Lock()
	if e.kept == nil || len(e.kept) > maxExams {
		e.kept = map[examKey]func() (exam, error){}
	}
	get := e.kept[key]
	if get == nil {
		get = sync.OnceValues(func() (x exam, err error) {
			if x.inputs, err = c.Generate(s, seed); err == nil {
				x.want, err = gdn.Reference(s, x.inputs)
			}
			return x, err
		})
		e.kept[key] = get
	}
	e.mu.Unlock()
	return get()
}

// classes lists the input classes that a spec can have.
func classes(s gdn.Spec) []gdn.Class {
	var l []gdn.Class
	for _, c := range gdn.Classes {
		if c.Supports(s) == nil {
			l = append(l, c)
		}
	}
	return l
}

// tinyClasses are those of the interpreter's gate: an ordinary one and the one with the least mercy on power series.
var tinyClasses = []string{"random", "identical"}

// examine runs a program on classes of inputs and records the error of each. The program maps the arguments, by name, to
// the results. The refusal tells the class that misses its limit by most.
func (e *exams) examine(w *Work, s gdn.Spec, l []gdn.Class, engine string,
	program func(map[string]*array.Array) (map[string]*array.Array, error)) (*Refusal, error) {
	var worst *journal.ClassError
	precision := w.precision()
	for _, c := range l {
		x, err := e.get(s, c, w.Seed)
		if err != nil {
			return nil, fmt.Errorf("reference for %s on %s: %w", c.Name, s, err)
		}
		got, err := program(x.inputs)
		if err != nil {
			return nil, err
		}
		ce, err := classError(s, c, precision, got, x.want)
		if err != nil {
			return nil, err
		}
		ce.Engine = engine
		w.Record.Errors = append(w.Record.Errors, ce)
		if !(ce.Use() <= 1) && (worst == nil || ce.Use() > worst.Use()) {
			worst = &ce
		}
	}
	if worst != nil {
		return refuse(journal.Numerics, "%s is off by %.2g of its largest value on %s inputs, %.2g is allowed at %s (%s, T=%d)",
			worst.Output, float64(worst.Error), worst.Class, float64(worst.Limit), precision, engine, s.Tokens), nil
	}
	return nil, nil
}

// classError is the error of the output that is worst against its limit.
func classError(s gdn.Spec, c gdn.Class, precision string, got, want map[string]*array.Array) (journal.ClassError, error) {
	ce := journal.ClassError{Class: c.Name}
	for _, p := range s.Outputs() {
		if got[p.Name] == nil {
			return ce, fmt.Errorf("the program gives no %s", p.Name)
		}
		off, limit, err := c.Error(s, precision, p, got, want)
		if err != nil {
			return ce, err
		}
		o := journal.ClassError{Class: c.Name, Output: p.Name, Limit: journal.Figure(limit), Error: journal.Figure(off)}
		if ce.Output == "" || o.Use() > ce.Use() {
			ce = o
		}
	}
	return ce, nil
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
