// Package gradients is the table of errors of training steps: what the classes of accuracy hold on the distributions of
// flash-linear-attention's own tests and on harder ones, with and without an initial state and a gradient of the final one.
//
// Errors are the root mean square of the error over that of a float64 reference, the largest of the seeds of
// a case, by the interpreter on the kernels that auto takes on v6e for the preset train.
package gradients

import (
	_ "embed"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/truth"
	"github.com/gdngen/gdngen/ir/array"
)

// Case is a class of inputs at a length, with or without states.
type Case struct {
	Name   string
	Class  truth.Class
	Tokens int
	Fields string // of the spec: init, final=false
	Seeds  int

	// Beyond are gradients that the class f32-like does not hold to the limits: those whose errors grow with the length, and the decay's on
	// one key without a state, a remainder of what cancels, which nothing in bf16 can hold (TestOneKeyWithoutState of package gdn).
	Beyond []string
}

func class(name string) truth.Class {
	c, err := truth.LookupClass(name)
	if err != nil {
		panic(err) // the table is read whole by a test
	}
	return c
}

// Cases lists them, flash-linear-attention's own distributions first.
var Cases = []Case{
	{"U(0,1), gate normaliser 10", class("fla10"), 1500, "", 2, nil},
	{"U(0,1), gate normaliser 10, initial state", class("fla10"), 1500, "init", 1, nil},
	{"U(0,1), gate normaliser 10, no gradient of the final state", class("fla10"), 1500, "final=false", 2, nil},
	{"U(0,1), half of the gates masked", class("masked"), 1500, "", 2, nil},
	{"U(0,1), half of the gates masked, initial state", class("masked"), 1500, "init", 1, nil},
	{"U(0,1), no decay, no gradient of the final state", class("u01nodecay"), 1024, "final=false", 1, nil},
	{"random keys", class("random"), 1024, "", 1, nil},
	{"keys that drift, log decay -.001", class("drift"), 1024, "", 1, nil},
	{"keys at cosine .5, log decay -.001", class("random").WithCosine(.5).WithDecay(-1e-3), 1024, "", 1, nil},
	{"keys at cosine .9, beta 1, no decay", class("cos.9"), 512, "", 1, nil},
	{"keys at cosine .99, beta 1, no decay", class("cos.99"), 512, "", 1, nil},
	{"random keys, beta 2, no decay", class("reflect"), 512, "", 1, nil},
	{"random keys, beta 2, no decay", class("reflect"), 2048, "", 1, nil},
	{"random keys, beta 2, no decay", class("reflect"), 8192, "", 1, []string{"dq", "dk"}},
	{"keys at cosine .9, beta 2, no decay", class("cos.9").WithBeta(2), 512, "", 1, nil},
	{"keys at cosine .9, beta 2, no decay", class("cos.9").WithBeta(2), 1024, "", 1, nil},
	{"keys at cosine .9, beta 2, no decay", class("cos.9").WithBeta(2), 4096, "", 1, nil},
	{"one key, beta from U(1,2), initial state", class("beta2"), 512, "init", 1, nil},
	{"one key, beta from U(1,2)", class("beta2"), 512, "", 1, []string{"dg"}},
}

// Key names a case once.
func (c Case) Key() string { return fmt.Sprintf("%s; %d tokens", c.Name, c.Tokens) }

// Spec is a training step of one key head and two value heads, in bf16 with outputs in float32.
func (c Case) Spec() gdn.Spec {
	s, err := gdn.Parse(strings.Trim(fmt.Sprintf("t=%d,hk=1,hv=2,k=128,v=128,dtype=bf16,out=f32,direction=train,%s", c.Tokens, c.Fields), ","))
	if err != nil {
		panic(err)
	}
	s.NegEigval = c.Class.Supports(s) != nil
	return s
}

// Names lists what is judged, in the order of the table.
var Names = []string{"o", "dq", "dk", "dv", "dg", "dbeta", "dinitial_state"}

// Measure gives the errors, in the order of Names, of what computes a spec on a case. What the spec does not have is zero.
func (c Case) Measure(run func(gdn.Spec, map[string]*array.Array) (map[string]*array.Array, error)) ([]float64, error) {
	s := c.Spec()
	off := make([]float64, len(Names))
	for seed := range c.Seeds {
		in, err := c.Class.Generate(s, uint64(seed))
		if err != nil {
			return nil, fmt.Errorf("inputs of %s: %w", c.Name, err)
		}
		want, err := truth.Reference(s, in)
		if err != nil {
			return nil, fmt.Errorf("reference of %s: %w", c.Name, err)
		}
		got, err := run(s, in)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.Name, err)
		}
		for i, name := range Names {
			if want[name] != nil {
				off[i] = max(off[i], array.Compare(got[name], want[name]).Ratio)
			}
		}
	}
	return off, nil
}

// Row is a case by a class of accuracy.
type Row struct {
	Class, Case string // the case by its key
	Variant     string
	Errors      []float64
}

//go:embed gradients.tsv
var table string

// Table is the table as it was made; see the head of gradients.tsv.
var Table = mustParse(table)

func mustParse(text string) (rows []Row) {
	for line := range strings.Lines(text) {
		f := strings.Split(strings.TrimRight(line, "\n"), "\t")
		if strings.HasPrefix(f[0], "#") {
			continue
		}
		r := Row{Class: f[0], Case: f[1], Variant: f[2]}
		for _, x := range f[3:] {
			e, err := strconv.ParseFloat(x, 64)
			if err != nil {
				panic(fmt.Sprintf("gradients.tsv: %q: %v", line, err))
			}
			r.Errors = append(r.Errors, e)
		}
		rows = append(rows, r)
	}
	return rows
}

func (r Row) String() string {
	f := []string{r.Class, r.Case, r.Variant}
	for _, e := range r.Errors {
		f = append(f, fmt.Sprintf("%.1e", e))
	}
	return strings.Join(f, "\t")
}

// Missed lists the gradients of a row beyond the limits of flash-linear-attention.
func (r Row) Missed() (names []string) {
	for i, name := range Names {
		if name != "o" && r.Errors[i] > truth.FieldLimit(gdn.Param{Name: name}) {
			names = append(names, name)
		}
	}
	return names
}

// Markdown is the table of docs/data/gradients.md: what is beyond a limit in bold.
func Markdown(classes []string) string {
	var b strings.Builder
	b.WriteString("| inputs | tokens | class | " + strings.Join(Names, " | ") + " |\n|---|---:|---|" + strings.Repeat("---:|", len(Names)) + "\n")
	for i, c := range Cases {
		name, tokens := c.Name, strconv.Itoa(c.Tokens)
		if i > 0 && Cases[i-1].Name == name {
			name = ""
		}
		for _, class := range classes {
			i := slices.IndexFunc(Table, func(r Row) bool { return r.Class == class && r.Case == c.Key() })
			missed := Table[i].Missed()
			fmt.Fprintf(&b, "| %s | %s | `%s` |", name, tokens, class)
			for k, e := range Table[i].Errors {
				switch cell := strings.Replace(fmt.Sprintf("%.1e", e), "e-0", "e-", 1); {
				case e == 0:
					b.WriteString(" |")
				case slices.Contains(missed, Names[k]):
					b.WriteString(" **" + cell + "** |")
				default:
					b.WriteString(" " + cell + " |")
				}
			}
			b.WriteString("\n")
			name, tokens = "", ""
		}
	}
	return b.String()
}
