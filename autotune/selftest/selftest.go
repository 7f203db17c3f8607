// Package selftest checks on a device that generated programs compute correctly: named variants on specs of every kind,
// with inputs of every class, against the float64 reference. A negative example passes if it exceeds its limit. A
// program that can not be made for the device is skipped, with the reason.
package selftest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/gdngen/gdngen/autotune/journal"
	"github.com/gdngen/gdngen/codegen"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/build"
	"github.com/gdngen/gdngen/gdn/exam"
	"github.com/gdngen/gdngen/gdn/truth"
	"github.com/gdngen/gdngen/internal/terminal"
	"github.com/gdngen/gdngen/ir/array"
	"github.com/gdngen/gdngen/pjrt"
	"github.com/gdngen/gdngen/pjrt/device"
	"github.com/gdngen/gdngen/pjrt/machine"
)

// Work is a spec for all named variants that are legal for it.
type Work struct {
	Name, Spec string
	Quick      []string // variants of a quick test; none: a quick test leaves the spec out
}

// Works has a spec for each feature of specs, at sizes that compile quickly.
var Works = []Work{
	{"prefill, a ragged end, states in and out", "b=1,t=300,hk=2,hv=4,k=128,v=128,dtype=bf16,init,final", []string{"naive", "bf16", "tpu", "neumann"}},
	{"long enough for interleaved chunks", "b=1,t=1536,hk=2,hv=4,k=128,v=128,dtype=bf16", []string{"tpu", "tpu-long"}},
	{"float32", "b=2,t=100,hk=1,hv=2,k=64,v=64,dtype=f32,init,final", []string{"default", "token"}},
	{"packed sequences, gates in the kernel, states with V before K", "b=1,t=520,hk=2,hv=4,k=128,v=128,dtype=bf16,gates=fused,gatedtype=bf16,seqs=5,init,state=vk,empty=zero,packed", []string{"tpu-packed"}},
	{"a decode step", "b=8,t=1,hk=2,hv=4,k=128,v=128,dtype=bf16,gates=fused,gatedtype=bf16,init,state=vk", []string{"decode"}},
	{"a decode step on a pool, in place", "b=8,t=1,hk=2,hv=4,k=128,v=128,dtype=bf16,init,pool=12,inplace", []string{"decode"}},
	{"a decode step with the cache of the convolution", "b=8,t=1,hk=2,hv=4,k=128,v=128,dtype=bf16,gates=fused,gatedtype=bf16,l2norm,init,conv=4,convstate,convrows=4", []string{"decode"}},
	{"a training step", "b=1,t=260,hk=2,hv=4,k=128,v=128,dtype=bf16,direction=train", []string{"tpu-train"}},
	{"beta up to 2", "b=1,t=200,hk=1,hv=2,k=128,v=128,dtype=bf16,negeig", nil},
}

// tokenLimit is the largest number of tokens for the token recurrence: it rounds the state at each token, and limits
// are made for chunks. On 300 tokens of beta0 in float32 its error is 1.2e-6 on any device, and 1e-6 is allowed.
const tokenLimit = 128

// QuickClasses are the classes of a quick test.
var QuickClasses = []string{"random", "cos.99", "identical"}

// The statuses of a case.
const (
	Passed  = "passed"
	Failed  = "FAILED"
	Skipped = "skipped"
)

// Case is the result of a variant on a spec with inputs of a class.
type Case struct {
	Variant string         `json:"variant"`
	Spec    string         `json:"spec"`
	Class   string         `json:"class,omitempty"` // empty if no class was run
	Status  string         `json:"status"`
	Output  string         `json:"output,omitempty"` // the output with the largest error relative to its limit
	Kind    string         `json:"kind,omitempty"`   // of its error, as gdn/exam names them
	Error   journal.Figure `json:"error"`
	Limit   journal.Figure `json:"limit"`
	Reason  string         `json:"reason,omitempty"`
	Seconds float64        `json:"seconds"` // on the device, for all classes run together: execution, and for the first of a program also compilation
}

// Test is the result of a selftest.
type Test struct {
	Version string      `json:"version"`
	Device  device.Info `json:"device"`
	Target  string      `json:"target,omitempty"` // empty: no TPU
	Quick   bool        `json:"quick,omitempty"`
	Tests   string      `json:"tests,omitempty"` // Kernels, Layer, or both
	Seed    uint64      `json:"seed"`
	Passed  int         `json:"passed"`
	Failed  int         `json:"failed"`
	Skipped int         `json:"skipped"`
	Seconds float64     `json:"seconds"`
	Rows    []Case      `json:"cases"`
}

// part is a variant on a spec: one program, shared by several cases.
type part struct {
	name    string
	spec    gdn.Spec
	variant gdn.NamedVariant
	classes []truth.Class
}

// parts lists the programs to test, in the order of Works.
func (t *Test) parts() (list []part, err error) {
	for _, w := range Works {
		s, err := gdn.Parse(w.Spec)
		if err != nil {
			return nil, err
		}
		var classes []truth.Class
		for _, c := range truth.Classes {
			if c.Supports(s) == nil && (!t.Quick || slices.Contains(QuickClasses, c.Name)) {
				classes = append(classes, c)
			}
		}
		for _, n := range gdn.Variants {
			v, err := gdn.ParseVariant(n.Text)
			if err != nil {
				return nil, err
			}
			switch {
			case t.Target != "" && v.Mapping.Pack == gdn.PackStream && s.Seqs > 0: // loops over slices of packed sequences are only for CPUs
				continue
			case v.Algo == gdn.AlgoToken && s.Tokens > tokenLimit:
				continue
			}
			if t.Quick && !slices.Contains(w.Quick, n.Name) || v.Check(s) != nil || n.Negative && s.Tokens < 2*v.Fit(s).Chunk || !n.Negative && v.Unsafe(s) != "" {
				continue
			}
			list = append(list, part{w.Name, s, n, classes})
		}
	}
	return list, nil
}

// deaths is the number of consecutive programs that kill the device's process before the device counts as lost.
const deaths = 5

// LostError says that consecutive programs killed the device's process.
type LostError struct{ Last string }

func (e *LostError) Error() string {
	return fmt.Sprintf("the process of the device died in %d programs in a row, the last time: %s", deaths, e.Last)
}

// Run fills the rows. If it ends early, the rows hold the tests done so far.
func (t *Test) Run(ctx context.Context, r *device.Runner, lock *machine.Lock, note func(format string, args ...any)) error {
	if t.Tests != Layer {
		if err := t.kernels(ctx, r, lock, note); err != nil {
			return err
		}
	}
	if t.Tests != Kernels {
		return t.layers(ctx, r, lock, note)
	}
	return nil
}

// kernels tests named variants on Works.
func (t *Test) kernels(ctx context.Context, r *device.Runner, lock *machine.Lock, note func(format string, args ...any)) error {
	parts, err := t.parts()
	if err != nil {
		return err
	}
	var sheets exam.Cache
	died := 0
	for i, p := range parts {
		held, free, err := lock.Compute(ctx)
		if err != nil {
			return err
		}
		rows, err := t.try(held, r, p, &sheets)
		free()
		if err != nil {
			return err
		}
		t.Rows = append(t.Rows, rows...)
		note("[%d/%d] %s by %s: %s", i+1, len(parts), p.name, p.variant.Name, outcome(rows))
		if died++; r.Device() != nil {
			died = 0
		}
		if died == deaths {
			return &LostError{rows[len(rows)-1].Reason}
		}
	}
	return nil
}

// Count sets the counts of passed, failed and skipped rows.
func (t *Test) Count() {
	t.Passed, t.Failed, t.Skipped = 0, 0, 0
	for _, row := range t.Rows {
		switch row.Status {
		case Passed:
			t.Passed++
		case Failed:
			t.Failed++
		default:
			t.Skipped++
		}
	}
}

// outcome summarizes the cases of a program in a word or a reason.
func outcome(rows []Case) string {
	for _, row := range rows {
		if row.Status != Passed {
			return strings.TrimRight(row.Status+" "+row.Class+": "+row.why(), ": ")
		}
	}
	return fmt.Sprintf("%d %s", len(rows), Passed)
}

// why returns the reason, or by how much a limit is exceeded.
func (row Case) why() string {
	if row.Reason != "" {
		return row.Reason
	}
	return fmt.Sprintf("%s is off by %.2e (%s), %.2e is allowed", row.Output, float64(row.Error), row.Kind, float64(row.Limit))
}

// try runs one program on its classes. The error is ctx's, or says that the device does not open again, or is a fault
// of gdngen's machinery.
func (t *Test) try(ctx context.Context, r *device.Runner, p part, sheets *exam.Cache) ([]Case, error) {
	if err := r.Ready(ctx); err != nil {
		return nil, err
	}
	blank := Case{Variant: p.variant.Name, Spec: p.spec.String()}
	v, err := gdn.ParseVariant(p.variant.Text)
	if err != nil {
		return nil, err
	}
	m, err := build.Module(p.spec, v)
	if err != nil {
		return nil, err
	}
	var rows []Case
	for _, classes := range exam.Deal(p.spec, p.classes) {
		x, err := sheets.Draw(p.spec, classes, t.Seed)
		if err != nil {
			return nil, err
		}
		begun := time.Now()
		got, err := r.Run(ctx, m, x.Inputs)
		blank.Seconds = time.Since(begun).Seconds()
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case is[*codegen.Error](err):
			blank.Status, blank.Reason = Skipped, err.Error()
			return append(rows, blank), nil
		case is[*pjrt.CompileError](err):
			blank.Status, blank.Reason = Failed, err.Error()
			return append(rows, blank), nil
		}
		sheet, err := blank.judge(x, v, got, err)
		if err != nil {
			return nil, err
		}
		rows = add(rows, sheet)
	}
	if p.variant.Negative {
		return []Case{negativeExample(rows)}, nil
	}
	return rows, nil
}

// judge returns a case for each class of an accuracy test, by its worst mark relative to the limit; fault says why there are no outputs.
func (row Case) judge(x *exam.Case, v gdn.Variant, got map[string]*array.Array, fault error) ([]Case, error) {
	var rows []Case
	if fault != nil {
		row.Status, row.Reason = Failed, fault.Error()
		for _, c := range x.Classes {
			row.Class = c.Name
			rows = add(rows, []Case{row})
		}
		return rows, nil
	}
	marks, err := x.Judge(v.Precision().String(), got)
	if err != nil {
		return nil, err
	}
	for _, m := range exam.Worst(marks, func(m exam.Mark) string { return m.Class }) {
		row.Class, row.Output, row.Kind, row.Error, row.Limit, row.Status = m.Class, m.Output, m.Kind, journal.Figure(m.Error), journal.Figure(m.Limit), Passed
		if !m.Pass() {
			row.Status = Failed
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// add adds the cases of another accuracy test. For a class in both, the worse case is kept.
func add(rows, sheet []Case) []Case {
	for _, row := range sheet {
		i := slices.IndexFunc(rows, func(had Case) bool { return had.Class == row.Class })
		switch {
		case i < 0:
			rows = append(rows, row)
		case rows[i].Status == Passed && (row.Status != Passed || row.use() > rows[i].use()):
			rows[i] = row
		}
	}
	return rows
}

// use returns the error as a share of its limit.
func (row Case) use() float64 { return float64(row.Error) / float64(row.Limit) }

func is[E error](err error) bool {
	var e E
	return errors.As(err, &e)
}

// negativeExample combines the cases of a negative example into one, which passes if the program runs and an error exceeds its limit.
func negativeExample(rows []Case) Case {
	for _, row := range rows {
		if row.Reason != "" {
			return row
		}
	}
	for _, row := range rows {
		if row.Status == Failed {
			row.Status, row.Reason = Passed, "rejected, as it must be: "+row.why()
			return row
		}
	}
	row := rows[len(rows)-1]
	row.Status, row.Reason = Failed, "it misses no limit: what computed it, or what judged it, is not what it should be"
	return row
}

// Write prints the cases that did not pass, and for each variant the case nearest to its limit.
func (t *Test) Write(w io.Writer) {
	target := ""
	if t.Target != "" {
		target = ", kernels for " + t.Target
	}
	fmt.Fprintf(w, "%s on %s%s\n%s\n\n", t.Version, t.Device, target, t.Device.Version)
	var odd []Case
	nearest := map[string]Case{}
	var names []string
	for _, row := range t.Rows {
		if row.Status != Passed || row.Reason != "" {
			odd = append(odd, row)
			continue
		}
		best, ok := nearest[row.Variant]
		if !ok {
			names = append(names, row.Variant)
		}
		if !ok || row.Error/row.Limit > best.Error/best.Limit {
			nearest[row.Variant] = row
		}
	}
	table := terminal.NewTable("VARIANT", "NEAREST TO ITS LIMIT", "OUTPUT", ">ERROR", ">LIMIT", "SPEC")
	for _, name := range names {
		row := nearest[name]
		table.Add(name, row.Class, row.Output, fmt.Sprintf("%.2e", float64(row.Error)), fmt.Sprintf("%.2g", float64(row.Limit)), row.Spec)
	}
	table.Write(w)
	if len(odd) > 0 {
		fmt.Fprintln(w)
		table = terminal.NewTable("STATUS", "VARIANT", "CLASS", "SPEC", "REASON")
		for _, row := range odd {
			table.Add(row.Status, row.Variant, row.Class, row.Spec, row.why())
		}
		table.Write(w)
	}
	fmt.Fprintf(w, "\n%s in %.0f s\n", &Tally{t.Passed, t.Failed, t.Skipped}, t.Seconds)
}
