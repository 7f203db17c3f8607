// Package accuracy is the table of errors by class of inputs, for gdngen's accuracy classes and public kernels.
//
// An error is rms(error) / rms(float64 reference), over all value heads and two seeds, of the float32 outputs and of the final states. A row is one
// kernel on one Column. Errors of public kernels come from an emulation of their arithmetic (tests/arith), gdngen's from the interpreter on the
// programs emitted for v6e.
package accuracy

import (
	_ "embed"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/truth"
)

// Column is a class of inputs with a number of tokens.
type Column struct {
	Name   string // unique
	Tokens int
	Class  truth.Class
	Doc    string
}

// Long reports whether a column is a long run, with separate errors of its first and last outputs.
func (c Column) Long() bool { return c.Tokens > window }

// window is the number of first tokens, and of last tokens, with separate errors.
const window = 1024

// Columns lists the classes of inputs on which low-precision kernels differ, short runs first.
var Columns = []Column{
	{"random", 512, class("random"), "random keys"},
	{"slow", 512, class("random").WithDecay(-1e-3), "random keys, log decay -.001"},
	{"u01", 512, class("u01nodecay"), "q, k, v from U(0,1), no decay"},
	{"drift", 512, class("drift"), "keys that drift, neighbours at cosine .95, log decay -.001"},
	{"cos.9", 512, class("cos.9"), "keys at cosine .9, beta 1, no decay"},
	{"cos.99", 512, class("cos.99"), "keys at cosine .99, beta 1, no decay"},
	{"one key", 512, class("identical"), "one key, beta 1, no decay"},
	{"one key, beta 1-2", 512, class("beta2"), "one key, beta from U(1,2), log decay from U(-.02,0)"},
	{"faint", 512, class("faint"), "keys at cosine .99, beta .02, no decay"},
	{"slow, long", 4096, class("random").WithDecay(-1e-3), "as slow"},
	{"slower, long", 16384, class("random").WithDecay(-1e-4), "as slow, log decay -.0001"},
	{"drift, long", 4096, class("drift").WithDecay(-1e-4), "as drift, log decay -.0001"},
	{"u01, long", 32768, class("u01nodecay"), "as u01"},
	{"cos.9, long", 16384, class("random").WithKeys(class("cos.9")).WithDecay(-1e-4), "keys at cosine .9, beta as random, log decay -.0001"},
	{"cos.99, long", 32768, class("cos.99"), "as cos.99"},
	{"faint, long", 16384, class("faint"), "as faint"},
	{"reflect, long", 8192, class("reflect"), "random keys, beta 2, no decay"},
	{"cos.9, beta 2, long", 8192, class("cos.9").WithBeta(2), "keys at cosine .9, beta 2, no decay"},
}

// Headline names the columns that tables show next to each cost.
var Headline = []string{"random", "slow", "cos.9", "cos.99", "one key"}

// class returns the class with this name. It panics if there is none; a test covers the whole table.
func class(name string) truth.Class {
	c, err := truth.LookupClass(name)
	if err != nil {
		panic(err)
	}
	return c
}

// Spec returns the spec of a column: bf16 tensors, K = V = 128, two value heads per key head, float32 outputs.
func (c Column) Spec() gdn.Spec {
	heads := 2
	if c.Long() {
		heads = 1
	}
	s, err := gdn.Parse(fmt.Sprintf("t=%d,hk=%d,hv=%d,k=128,v=128,dtype=bf16,out=f32", c.Tokens, heads, 2*heads))
	if err != nil {
		panic(err)
	}
	s.NegEigval = c.Class.Supports(s) != nil
	return s
}

// Ours returns the table's names of gdngen's accuracy classes.
func Ours() []string {
	var l []string
	for _, name := range gdn.AccuracyNames() {
		l = append(l, "gdngen, "+name)
	}
	return l
}

// Peers returns the names of the public kernels in the table.
func Peers() []string {
	ours, l := Ours(), []string(nil)
	for _, r := range Table {
		if !slices.Contains(ours, r.Kernel) && !slices.Contains(l, r.Kernel) {
			l = append(l, r.Kernel)
		}
	}
	return l
}

// Error is one cell of the table, each error relative to the reference.
type Error struct {
	O, Last, State float64 // outputs (long run: first 1024 tokens), last 1024 tokens of a long run, final states
}

func (e Error) String() string {
	l := []float64{e.O, e.State}
	if e.Last > 0 {
		l = []float64{e.O, e.Last, e.State}
	}
	var parts []string
	for _, x := range l {
		parts = append(parts, digits(1e3*x))
	}
	return strings.Join(parts, "/")
}

// digits formats two significant digits without an exponent.
func digits(x float64) string {
	switch {
	case x >= 10:
		return strconv.FormatFloat(x, 'f', 0, 64)
	case x >= 1:
		return strconv.FormatFloat(x, 'f', 1, 64)
	case x >= .1:
		return strconv.FormatFloat(x, 'f', 2, 64)
	}
	return strconv.FormatFloat(x, 'f', 3, 64)
}

// Worst returns the largest ratio of an error to the same error of another kernel.
func (e Error) Worst(than Error) float64 {
	worst := max(e.O/than.O, e.State/than.State)
	if than.Last > 0 {
		worst = max(worst, e.Last/than.Last)
	}
	return worst
}

// Row is the errors of one kernel on one column.
type Row struct {
	Kernel, Column string
	Variant        string // only for gdngen's classes
	Error
}

//go:embed errors.tsv
var table string

// Table is the recorded table; the head of errors.tsv describes how it was made.
var Table = mustParse(table)

// Of returns the recorded errors of a kernel on a column, and whether there are any.
func Of(kernel, column string) (Error, bool) {
	i := slices.IndexFunc(Table, func(r Row) bool { return r.Kernel == kernel && r.Column == column })
	if i < 0 {
		return Error{}, false
	}
	return Table[i].Error, true
}

func mustParse(text string) (rows []Row) {
	for line := range strings.Lines(text) {
		f := strings.Split(strings.TrimRight(line, "\n"), "\t")
		if strings.HasPrefix(f[0], "#") {
			continue
		}
		if len(f) != 6 {
			panic(fmt.Sprintf("accuracy: errors.tsv: %q: %d columns, 6 are needed", line, len(f)))
		}
		var x [3]float64
		for i := range x {
			if f[i+2] == "" {
				continue
			}
			var err error
			if x[i], err = strconv.ParseFloat(f[i+2], 64); err != nil {
				panic(fmt.Sprintf("accuracy: errors.tsv: %q: %v", line, err))
			}
		}
		rows = append(rows, Row{f[0], f[1], f[5], Error{x[0], x[1], x[2]}})
	}
	return rows
}
