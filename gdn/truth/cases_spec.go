package truth

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/array"
)

// storedTypes maps element types of the manifest.
var storedTypes = map[string]ir.DType{"float64": ir.F64, "float32": ir.F32, "float16": ir.F16, "bfloat16": ir.BF16, "int64": ir.I64, "int32": ir.I32}

// describe derives the spec, inputs and outputs of a supported kind of case from the tensors in the manifest, or without a list from the
// file's header. It sets Reason if the case is valid but not supported,
// and returns an error if fields contradict each other.
func (c *Case) describe(m *manifestCase, op caseOp) error {
	types, err := m.types(c.File)
	if err != nil {
		return err
	}
	if err := c.sort(types, op, m.Backward); err != nil || c.Reason != "" {
		return err
	}
	s := gdn.NewSpec(1, 1, 1, 1, 1, 1)
	if m.Backward {
		s.Direction = gdn.Train
	}
	if err := readSizes(&s, types); err != nil {
		return err
	}
	if c.Reason = readFlags(&s, m.Flags); c.Reason != "" {
		return nil
	}
	if err := readLayout(&s, m.StateLayout, op); err != nil {
		return err
	}
	state, hasState := types[op.init]
	final, hasFinal := types[op.final]
	_, hasOut := types[op.o]
	s.Init = hasState
	s.Final = hasFinal || !hasOut
	if cu, ok := types["cu_seqlens"]; ok {
		s.Seqs = cu.Shape[0] - 1
	}
	switch d := s.DefaultScale(); {
	case m.Scale == nil, *m.Scale == 0 && op.contest: // FlashInfer's definitions take 0 for K^-1/2
	case *m.Scale == 0:
		return errors.New("field scale is 0, which gives outputs of zero: want a positive number, or no field for K^-1/2")
	case math.Abs(*m.Scale-d) > 1e-12*d:
		s.Scale = *m.Scale
	}
	if op.contest && s.Seqs > 0 && s.Init && s.Final {
		s.Empty = gdn.EmptyZero
	}
	s.DType = common(types, ir.F32, "q", "k", "v")
	s.Out = op.out
	if hasOut && types[op.o].DType != ir.F64 {
		s.Out = types[op.o].DType
	}
	if s.Gates == gdn.GatesFused && common(types, ir.F32, "a", "b") == ir.BF16 {
		s.GateDType = ir.BF16
	}
	if hasFinal && final.DType == ir.BF16 && (!hasState || state.DType == ir.BF16) {
		s.StateDType = ir.BF16
	}
	some := s
	some.Batch, some.Tokens = max(s.Batch, 1), max(s.Tokens, 1)
	if err := some.Validate(); err != nil {
		return err
	}
	c.Spec = s
	return c.match(types, op)
}

// describeSpec reads a case of any rule, with the spec in the manifest.
func (c *Case) describeSpec(m *manifestCase, op caseOp) (err error) {
	types, err := m.types(c.File)
	if err != nil {
		return err
	}
	if c.Spec, err = parse(m.Spec); err != nil {
		return fmt.Errorf("field spec: %w", err)
	}
	named := func(params []gdn.Param) map[string]gdn.Param {
		l := map[string]gdn.Param{}
		for _, p := range params {
			if t, ok := types[p.Name]; ok {
				l[p.Name] = gdn.Param{Name: p.Name, Type: t}
			}
		}
		return l
	}
	c.inputs, c.expected = named(c.Spec.Inputs()), named(c.Spec.Outputs())
	for _, name := range slices.Sorted(maps.Keys(types)) {
		if c.inputs[name].Name == "" && c.expected[name].Name == "" {
			return fmt.Errorf("field tensors: %s is neither an input nor an output of %s", name, c.Spec)
		}
	}
	return c.match(types, op)
}

// types returns element types and shapes by tensor.
func (m *manifestCase) types(file string) (map[string]ir.Type, error) {
	types := map[string]ir.Type{}
	if m.Tensors == nil {
		f, err := array.ReadSafetensors(file)
		if err != nil {
			return nil, fmt.Errorf("field tensors is missing, and the file does not say either: %w", err)
		}
		for name, a := range f.Tensors {
			types[name] = a.IRType()
		}
		return types, nil
	}
	for name, t := range m.Tensors {
		d, ok := storedTypes[t.DType]
		if !ok {
			return nil, fmt.Errorf("field tensors.%s.dtype: unknown element type %q (known: %s)", name, t.DType, strings.Join(slices.Sorted(maps.Keys(storedTypes)), " "))
		}
		for _, n := range t.Shape {
			if n < 0 {
				return nil, fmt.Errorf("field tensors.%s.shape: %v has a negative size", name, t.Shape)
			}
		}
		types[name] = ir.T(d, t.Shape...)
	}
	return types, nil
}

// sort separates inputs from expected tensors. It sets Reason for element types that cannot be widened and for
// unknown tensors.
func (c *Case) sort(types map[string]ir.Type, op caseOp, backward bool) error {
	c.inputs, c.expected = map[string]gdn.Param{}, map[string]gdn.Param{}
	for _, name := range slices.Sorted(maps.Keys(types)) {
		t := types[name]
		if backward && t.DType == ir.F32 {
			switch name {
			case "do", "dfinal_state":
				c.inputs[name] = gdn.Param{Name: name, Type: t}
				continue
			case "dq", "dk", "dv", "dg", "dbeta", "dA_log", "da", "ddt_bias", "db", "dinitial_state":
				c.expected[name] = gdn.Param{Name: name, Type: t}
				continue
			}
		}
		switch name {
		case "q", "k", "v", "g", "beta", "A_log", "a", "dt_bias", "b", op.init:
			if t.DType != ir.F32 && t.DType != ir.BF16 && t.DType != ir.F16 {
				c.Reason = fmt.Sprintf("tensor %s is %v: inputs are f32, bf16 or f16", name, t)
				return nil
			}
			c.inputs[name] = gdn.Param{Name: name, Type: t}
			if name == op.init {
				c.inputs[name] = gdn.Param{Name: "initial_state", Type: t}
			}
		case "cu_seqlens":
			if !t.DType.IsInt() {
				return fmt.Errorf("field tensors.cu_seqlens.dtype: %v is not an integer type", t.DType)
			}
			if t.Rank() != 1 || t.Shape[0] < 2 {
				return fmt.Errorf("field tensors.cu_seqlens.shape: %v, want [N+1] for N sequences, at least one", t.Shape)
			}
			c.inputs[name] = gdn.Param{Name: name, Type: t}
		case op.o, op.final, op.extra:
			if !t.DType.IsFloat() {
				return fmt.Errorf("field tensors.%s.dtype: %v is not a floating type", name, t.DType)
			}
			c.expected[name] = gdn.Param{Name: name, Type: t}
		default:
			c.Reason = fmt.Sprintf("tensor %s has no meaning known for op %s", name, op.name)
			return nil
		}
	}
	return nil
}

// readSizes sets the sizes from q and v; match checks the other tensors later.
func readSizes(s *gdn.Spec, types map[string]ir.Type) error {
	q, okQ := types["q"]
	v, okV := types["v"]
	switch {
	case !okQ || !okV:
		return fmt.Errorf("field tensors: q and v are wanted")
	case q.Rank() != v.Rank() || q.Rank() != 3 && q.Rank() != 4:
		return fmt.Errorf("field tensors: q is %v and v is %v, want [B,T,H,D] or [T,H,D]", q.Shape, v.Shape)
	}
	s.Packed = q.Rank() == 3
	n := q.Rank()
	if !s.Packed {
		s.Batch = q.Shape[0]
	}
	s.Tokens, s.HeadsK, s.K = q.Shape[n-3], q.Shape[n-2], q.Shape[n-1]
	s.HeadsV, s.V = v.Shape[n-2], v.Shape[n-1]
	return nil
}

// readFlags applies the manifest's flags. It returns the reason why the case is not supported, or "".
func readFlags(s *gdn.Spec, flags map[string]any) string {
	for _, name := range slices.Sorted(maps.Keys(flags)) {
		on, isBool := flags[name].(bool)
		switch {
		case flags[name] == nil || isBool && !on:
			continue
		case !isBool:
			return fmt.Sprintf("flag %s has the unknown value %v (known: true false)", name, flags[name])
		}
		switch name {
		case "gate_in_kernel":
			s.Gates = gdn.GatesFused
		case "allow_neg_eigval":
			s.NegEigval = true
		case "qk_l2norm":
			s.L2Norm = true
		default:
			return fmt.Sprintf("unknown flag %q (known: gate_in_kernel allow_neg_eigval qk_l2norm)", name)
		}
	}
	return ""
}

// readLayout reads the state's layout: the last two axes within the brackets, as in "[N,Hv,V,K] (k-last)".
func readLayout(s *gdn.Spec, text string, op caseOp) error {
	inner, _, _ := strings.Cut(strings.TrimPrefix(text, "["), "]")
	axes := strings.ReplaceAll(inner, " ", "")
	switch {
	case text == "" && op.contest, strings.HasSuffix(axes, ",V,K"):
		s.State = gdn.StateVK
	case text == "", strings.HasSuffix(axes, ",K,V"):
		s.State = gdn.StateKV
	default:
		return fmt.Errorf("field state_layout: %q is neither [N,Hv,K,V] nor [N,Hv,V,K]", text)
	}
	return nil
}

// common returns the element type that all named tensors share, or else wide.
func common(types map[string]ir.Type, wide ir.DType, names ...string) ir.DType {
	d := types[names[0]].DType
	for _, name := range names[1:] {
		if types[name].DType != d {
			return wide
		}
	}
	return d
}

// match checks the tensors against the types of the spec and lists the outputs.
func (c *Case) match(types map[string]ir.Type, op caseOp) error {
	fileName := map[string]string{"initial_state": op.init, "o": op.o, "final_state": op.final}
	stored := func(p gdn.Param) (string, ir.Type, bool) {
		name := p.Name
		if n, ok := fileName[name]; ok {
			name = n
		}
		t, ok := types[name]
		return name, t, ok
	}
	wanted := map[string]bool{}
	for _, p := range c.Spec.Inputs() {
		name, t, ok := stored(p)
		if !ok {
			return fmt.Errorf("field tensors: the input %s is missing, want shape %v", name, p.Type.Shape)
		}
		if !slices.Equal(t.Shape, p.Type.Shape) {
			return fmt.Errorf("field tensors.%s.shape: %v, q, v and cu_seqlens make it %v", name, t.Shape, p.Type.Shape)
		}
		wanted[name] = true
	}
	for name := range c.inputs {
		if !wanted[name] {
			return fmt.Errorf("field tensors: %s does not go with the flags: gates are g and beta, or with gate_in_kernel A_log, a, dt_bias and b", name)
		}
	}
	for _, p := range c.Spec.Outputs() {
		name, t, ok := stored(p)
		if !ok {
			t = p.Type
		}
		if !slices.Equal(t.Shape, p.Type.Shape) {
			return fmt.Errorf("field tensors.%s.shape: %v, the inputs make it %v", name, t.Shape, p.Type.Shape)
		}
		c.Outputs = append(c.Outputs, Output{Name: name, Type: t, Param: p.Name, Stored: ok})
	}
	return nil
}
