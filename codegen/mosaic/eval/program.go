package eval

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/gdngen/gdngen/codegen/mlir"
	"github.com/gdngen/gdngen/codegen/mlir/tensor"
	"github.com/gdngen/gdngen/codegen/stablehlo/eval"
)

// Program is a parsed program; it may not run concurrently.
type Program struct {
	*eval.Program
	Kernels []*Kernel // in the order of the text
}

// Parse reads an emitted program: StableHLO whose custom calls contain kernels. It errs for anything without a rule.
func Parse(text string) (*Program, error) {
	p := &Program{}
	var err error
	p.Program, err = eval.Parse(text, p.call)
	return p, err
}

// config is a call's backend_config.
type config struct {
	Call struct {
		Body   string `json:"body"`
		Format int    `json:"serialization_format"`
		Layout bool   `json:"needs_layout_passes"`
		Checks bool   `json:"disable_bounds_checks"`
		// The placement of arrays does not change numbers.
		InColors  []json.RawMessage `json:"input_memory_space_colors"`
		OutColors []json.RawMessage `json:"output_memory_space_colors"`
	} `json:"custom_call_config"`
	Memory []json.RawMessage `json:"scoped_memory_configs"` // a limit; it does not change numbers
}

// call prepares the kernel of a custom call.
func (p *Program) call(o *mlir.Op) (eval.Call, error) {
	for _, n := range o.Attrs.Names() {
		if !slices.Contains([]string{"backend_config", "callee", "kernel_name", "operand_layouts", "output_operand_aliases", "result_layouts"}, n) {
			return nil, fmt.Errorf("attribute %s is not supported", n)
		}
	}
	if o.Attrs["callee"] != mlir.Symbol("tpu_custom_call") {
		return nil, fmt.Errorf("a call of @%v is not supported", o.Attrs["callee"])
	}
	for name, types := range map[string][]mlir.Type{"operand_layouts": o.Ins, "result_layouts": o.Outs} {
		if err := rowMajor(o.Attrs[name], types); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	text, _ := o.Attrs["backend_config"].(string)
	var c config
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		return nil, fmt.Errorf("backend_config: %w", err)
	}
	body, err := base64.StdEncoding.DecodeString(c.Call.Body)
	if err != nil {
		return nil, fmt.Errorf("the body in backend_config: %w", err)
	}
	k, err := ParseKernel(string(body))
	if err != nil {
		return nil, err
	}
	alias, err := aliases(o)
	if err != nil {
		return nil, err
	}
	if err := k.Check(o.Ins, o.Outs, alias); err != nil {
		return nil, err
	}
	p.Kernels = append(p.Kernels, k)
	return func(args []*tensor.Tensor) ([]*tensor.Tensor, error) { return k.Run(args, o.Outs, alias) }, nil
}

// rowMajor checks that each layout is row-major.
func rowMajor(a mlir.Attr, types []mlir.Type) error {
	list, _ := a.([]mlir.Attr)
	if len(list) != len(types) {
		return fmt.Errorf("%d layouts of %d arrays", len(list), len(types))
	}
	for i, t := range types {
		l, ok := mlir.Ints(list[i])
		want := make([]int, len(t.Shape))
		for d := range want {
			want[d] = len(want) - 1 - d
		}
		if d, _ := list[i].(mlir.Dense); len(d.Shape) == 0 && len(t.Shape) == 1 {
			want = []int{0}
		}
		if !ok || !slices.Equal(l, want) {
			return fmt.Errorf("the layout of array %d is not row-major: %v", i, l)
		}
	}
	return nil
}

// aliases returns the operand whose memory each result shares.
func aliases(o *mlir.Op) (map[int]int, error) {
	list, ok := o.Attrs["output_operand_aliases"].([]mlir.Attr)
	if o.Attrs["output_operand_aliases"] != nil && !ok {
		return nil, fmt.Errorf("output_operand_aliases: a list is expected")
	}
	alias := map[int]int{}
	for _, a := range list {
		x, _ := a.(mlir.Opaque)
		out, ok := x.Field("output_tuple_indices")
		in, ok2 := x.Field("operand_index")
		if out = max(out, 0); x.Name != "stablehlo.output_operand_alias" || !ok || !ok2 {
			return nil, fmt.Errorf("output_operand_aliases: %v is not understood", a)
		}
		if _, twice := alias[out]; twice {
			return nil, fmt.Errorf("output_operand_aliases: result %d is there twice", out)
		}
		alias[out] = in
	}
	return alias, nil
}
