package flashinfer

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/array"
)

// Problem is a definition of the gated delta rule with its tensors mapped to gdn's names. Decode has q [B, T, Hk, K],
// packed prefill has q [T, Hk, K] and cu_seqlens. Gates are raw (a, A_log, dt_bias, b). Head counts and widths come
// from the axes.
type Problem struct {
	*Definition
	names  map[string]string // definition's name by gdn's name of an input or output
	layout gdn.Layout
}

// roles maps names of tensors to gdn's. Several names may have one role.
var roles = map[string]string{
	"q": "q", "k": "k", "v": "v", "A_log": "A_log", "a": "a", "dt_bias": "dt_bias", "b": "b",
	"state": "initial_state", "initial_state": "initial_state", "cu_seqlens": "cu_seqlens",
	"output": "o", "o": "o", "new_state": "final_state", "final_state": "final_state",
	"scale": "scale",
}

var elementTypes = map[string]ir.DType{"float32": ir.F32, "float16": ir.F16, "bfloat16": ir.BF16, "int64": ir.I64, "int32": ir.I32}

// NewProblem maps the names of a definition to gdn's. A valid definition of another computation is an error that names
// the unsupported part.
func NewProblem(d *Definition) (*Problem, error) {
	p, r := &Problem{Definition: d, names: map[string]string{}}, &reader{}
	assign := func(list string, tensors []Tensor, allowed ...string) {
		for _, x := range tensors {
			at := "definition." + list + "." + x.Name
			role, known := roles[x.Name]
			switch {
			case (!known || !slices.Contains(allowed, role)) && x.Optional:
				// computed without this optional input
			case !known || !slices.Contains(allowed, role):
				r.failf(at, "has no meaning for the gated delta rule (known: %s)", strings.Join(allowed, " "))
			case p.names[role] != "":
				r.failf(at, "means the same as %s", p.names[role])
			default:
				p.names[role] = x.Name
			}
		}
	}
	assign("inputs", d.Inputs, "q", "k", "v", "A_log", "a", "dt_bias", "b", "initial_state", "cu_seqlens", "scale")
	assign("outputs", d.Outputs, "o", "final_state")
	for _, role := range []string{"q", "k", "v", "A_log", "a", "dt_bias", "b", "o"} {
		if p.names[role] == "" {
			list := "inputs"
			if role == "o" {
				list = "outputs"
			}
			r.failf("definition."+list, "has no %s", role)
		}
	}
	if err := r.err(); err != nil {
		return nil, fmt.Errorf("%s is not a gated delta rule that is supported: %w", d.Name, err)
	}
	if n := len(p.tensor("q").Shape); n != 3 && n != 4 {
		return nil, fmt.Errorf("definition.inputs.q.shape: has %d axes, want [batch, tokens, heads, width] or [tokens, heads, width]", n)
	}
	if p.names["initial_state"] != "" || p.names["final_state"] != "" {
		var err error
		if p.layout, err = d.layout(); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// layout returns the order of the state's last axes, from a tag or else from the name.
func (d *Definition) layout() (gdn.Layout, error) {
	for _, text := range append(slices.Clone(d.Tags), strings.ReplaceAll(d.Name, "_", "-")) {
		switch {
		case text == "layout:k-last", strings.HasSuffix(text, "-k-last"):
			return gdn.StateVK, nil
		case text == "layout:v-last", strings.HasSuffix(text, "-v-last"), text == "layout:k-first":
			return gdn.StateKV, nil
		}
	}
	return 0, fmt.Errorf("definition.tags: neither a tag nor the name tells the layout of the state: add the tag layout:k-last ([N, H, V, K]) or layout:v-last ([N, H, K, V])")
}

// tensor returns the definition's tensor in a role, or nil.
func (p *Problem) tensor(role string) *Tensor {
	if x := p.Input(p.names[role]); x != nil {
		return x
	}
	return p.Output(p.names[role])
}

// given reports whether the workload sets the tensor of a role.
func (p *Problem) given(role string, w *Workload) bool {
	if p.names[role] == "" {
		return false
	}
	_, listed := w.Inputs[p.names[role]]
	return listed
}

// shape returns a tensor's shape, with the workload's values of the axes.
func (p *Problem) shape(x *Tensor, w *Workload) []int {
	shape := []int{}
	for _, name := range x.Shape {
		if a := p.axis(name); a.Const {
			shape = append(shape, a.Value)
		} else {
			shape = append(shape, w.Axes[name])
		}
	}
	return shape
}

// check looks for contradictions between the workload and the definition.
func (p *Problem) check(w *Workload) error {
	r := &reader{}
	for _, a := range p.Axes {
		_, given := w.Axes[a.Name]
		switch {
		case !a.Const && !given:
			r.failf("workload.axes."+a.Name, "is missing: the axis is a variable one")
		case a.Const && given && w.Axes[a.Name] != a.Value:
			r.failf("workload.axes."+a.Name, "is %d, the definition has the constant %d", w.Axes[a.Name], a.Value)
		}
	}
	for _, name := range sortedKeys(w.Axes) {
		if p.axis(name) == nil {
			r.failf("workload.axes."+name, "is no axis of %s (it has %s)", p.Name, strings.Join(p.axisNames(), " "))
		}
	}
	for _, x := range p.Inputs {
		if in, ok := w.Inputs[x.Name]; !ok && !x.Optional {
			r.failf("workload.inputs."+x.Name, "is missing, and not optional")
		} else if ok && (in.Type == Scalar) && !x.Scalar {
			r.failf("workload.inputs."+x.Name, "is a scalar, %s wants a tensor", p.Name)
		}
	}
	for _, name := range sortedKeys(w.Inputs) {
		if p.Input(name) == nil {
			r.failf("workload.inputs."+name, "is no input of %s", p.Name)
		} else if roles[name] == "" {
			r.failf("workload.inputs."+name, "has no meaning for the gated delta rule: leave this optional input out")
		}
	}
	return r.err()
}

// Spec returns the spec of a workload. Its tensors have the definition's types, except for lossless widening (bf16
// A_log and dt_bias to f32, i32 cu_seqlens to i64).
func (p *Problem) Spec(w *Workload) (gdn.Spec, error) {
	if err := p.check(w); err != nil {
		return gdn.Spec{}, err
	}
	s := gdn.NewSpec(1, 1, 1, 1, 1, 1)
	q, v := p.shape(p.tensor("q"), w), p.shape(p.tensor("v"), w)
	if len(v) != len(q) {
		return s, fmt.Errorf("definition.inputs.%s.shape: has %d axes, that of q has %d", p.names["v"], len(v), len(q))
	}
	n := len(q)
	if s.Packed = n == 3; !s.Packed {
		s.Batch = q[0]
	}
	s.Tokens, s.HeadsK, s.K, s.HeadsV, s.V = q[n-3], q[n-2], q[n-1], v[n-2], v[n-1]
	s.DType, s.Out, s.GateDType = elementTypes[p.tensor("q").DType], elementTypes[p.tensor("o").DType], elementTypes[p.tensor("a").DType]
	s.Gates, s.State = gdn.GatesFused, p.layout
	s.Init, s.Final = p.given("initial_state", w), p.names["final_state"] != ""
	switch {
	case s.Final:
		s.StateDType = elementTypes[p.tensor("final_state").DType]
	case s.Init:
		s.StateDType = elementTypes[p.tensor("initial_state").DType]
	default:
		s.State = gdn.StateKV
	}
	if x := p.tensor("cu_seqlens"); x != nil && p.given("cu_seqlens", w) {
		shape := p.shape(x, w)
		if len(shape) != 1 || shape[0] < 2 {
			return s, fmt.Errorf("definition.inputs.cu_seqlens.shape: is %v, want [N+1] for at least one sequence", shape)
		}
		s.Seqs = shape[0] - 1
		if s.Init && s.Final {
			s.Empty = gdn.EmptyZero // the references of the benchmark leave the state of an empty sequence at zero
		}
	}
	scale, err := p.scale(w)
	if err != nil {
		return s, err
	}
	if d := s.DefaultScale(); math.Abs(scale-d) > 1e-6*d {
		s.Scale = scale
	}
	if err := s.Validate(); err != nil {
		return s, err
	}
	return s, p.match(s, w)
}

// scale reads the factor of q; 0 is the default, K^-1/2. A missing or random scale is also the default.
func (p *Problem) scale(w *Workload) (float64, error) {
	name := p.names["scale"]
	in, ok := w.Inputs[name]
	if !ok || in.Type == Random {
		return 0, nil
	}
	number, isNumber := in.Value.(json.Number)
	if in.Type != Scalar || !isNumber {
		return 0, fmt.Errorf("workload.inputs.%s: want a scalar number: programs are made for one scale", name)
	}
	return number.Float64()
}

// widened reports whether the stored element type can be widened without loss to the wanted one.
func widened(stored, wanted ir.DType) bool {
	return stored == wanted || wanted == ir.F32 && (stored == ir.BF16 || stored == ir.F16) || wanted == ir.I64 && stored == ir.I32
}

// match compares the definition's tensors with the spec's.
func (p *Problem) match(s gdn.Spec, w *Workload) error {
	r := &reader{}
	compare := func(list string, params []gdn.Param, exact bool) {
		for _, want := range params {
			x := p.tensor(want.Name)
			if x == nil {
				r.failf("definition."+list, "has no %s", want.Name)
				continue
			}
			at := "definition." + list + "." + x.Name
			if shape := p.shape(x, w); x.Scalar || !slices.Equal(shape, want.Type.Shape) {
				r.failf(at+".shape", "is %v, the other tensors make it %v", shape, want.Type.Shape)
			}
			d, ok := elementTypes[x.DType]
			if !ok || exact && d != want.Type.DType || !widened(d, want.Type.DType) {
				r.failf(at+".dtype", "is %s, the other tensors make it %v", x.DType, want.Type.DType)
			}
		}
	}
	compare("inputs", s.Inputs(), false)
	compare("outputs", s.Outputs(), true)
	return r.err()
}

// CheckConstraints evaluates the definition's constraints on a workload and its inputs. A violated one is an error;
// constraints that can not be evaluated are returned, each with the reason.
func (p *Problem) CheckConstraints(w *Workload, inputs map[string]*array.Array) (unknown []string, err error) {
	scalars, vectors := map[string]int{}, map[string][]int64{}
	for _, a := range p.Axes {
		if scalars[a.Name] = a.Value; !a.Const {
			scalars[a.Name] = w.Axes[a.Name]
		}
	}
	if cu := inputs["cu_seqlens"]; cu != nil {
		vectors[p.names["cu_seqlens"]] = cu.Int64s()
	}
	r := &reader{}
	for i, text := range p.Constraints {
		ok, err := holds(text, scalars, vectors)
		at := indexed("definition.constraints", i)
		switch {
		case errors.Is(err, errUnknown):
			unknown = append(unknown, fmt.Sprintf("%s: %s: %v", at, text, err))
		case err != nil:
			r.failf(at, "%s: %v", text, err)
		case !ok:
			r.failf(at, "%s does not hold for workload %s, axes %v", text, w.UUID, w.Axes)
		}
	}
	return unknown, r.err()
}
