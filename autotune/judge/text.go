package judge

import (
	"fmt"

	"github.com/gdngen/gdngen/autotune/journal"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/ir"
)

// parse reads the text of a program. It refuses one whose inputs or outputs are not the spec's.
func (w *Work) parse() *Refusal {
	if len(w.Shapes) > 1 {
		return Refuse(journal.Invalid, "the text of a program is of one size, and the run weighs %d shapes: give a variant", len(w.Shapes))
	}
	m, err := ir.Parse(w.Text)
	if err == nil {
		err = m.Verify()
	}
	if err == nil {
		err = signature(m, w.Spec)
	}
	if err != nil {
		return Refuse(journal.Invalid, "the text of the program: %v", err)
	}
	w.Modules = []*ir.Module{m}
	return w.precise()
}

// signature returns an error naming the first difference between the parameters and results of a module and a spec's, or nil.
func signature(m *ir.Module, s gdn.Spec) error {
	inputs, outputs := s.Inputs(), s.Outputs()
	params := m.Params()
	if len(params) != len(inputs) || len(m.Results) != len(outputs) {
		return fmt.Errorf("%d parameters and %d results, the spec has %d and %d", len(params), len(m.Results), len(inputs), len(outputs))
	}
	for i, p := range params {
		if want := inputs[i]; p.Name != want.Name || !p.Type.Equal(want.Type) {
			return fmt.Errorf("parameter %d is %s : %s, the spec has %s : %s", i+1, p.Name, p.Type, want.Name, want.Type)
		}
	}
	for i, name := range m.Results {
		got := m.Body.Yield[i].Type
		if want := outputs[i]; name != want.Name || !got.Equal(want.Type) {
			return fmt.Errorf("result %d is %s : %s, the spec has %s : %s", i+1, name, got, want.Name, want.Type)
		}
	}
	return nil
}

// precision is the lowest precision that the candidate computes in: the variant's own label, or the lowest of a text's ops.
func (w *Work) precision() string {
	if w.Text == "" {
		return w.Variant.Precision().String()
	}
	rank := map[ir.Precision]int{ir.PrecF32: 0, ir.PrecBF16x6: 1, ir.PrecBF16x3: 2, ir.PrecBF16x1: 3}
	low := ir.PrecF32
	lower := func(p ir.Precision) {
		if rank[p] > rank[low] {
			low = p
		}
	}
	given := map[*ir.Value]bool{}
	for _, v := range w.Modules[0].Body.Yield {
		given[v] = true // rounding an output once is part of every precision
	}
	w.Modules[0].Body.Walk(func(in *ir.Instr) {
		if in.Op == ir.OpDot {
			lower(in.Attrs.Prec)
		}
		if in.Op == ir.OpConvert && in.Result().Type.DType == ir.BF16 && !given[in.Result()] {
			lower(ir.PrecBF16x1)
		}
	})
	return low.String()
}
