package flashinfer

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Definition specifies a computation: named axes, tensors in terms of them, and a reference implementation in Python.
type Definition struct {
	Name, OpType string
	Description  string
	Tags         []string
	Axes         []Axis
	Constraints  []string // Python expressions over the axes
	Inputs       []Tensor // in the order of the arguments
	Outputs      []Tensor
	Reference    string // Python with a top-level function run

	extra map[string]any
}

// Axis is a dimension: a constant, or a variable that each workload sets.
type Axis struct {
	Name        string
	Const       bool
	Value       int // of a constant
	Description string

	extra map[string]any
}

// Tensor is an input or output.
type Tensor struct {
	Name        string
	Shape       []string // names of axes
	Scalar      bool     // shape is null
	DType       string   // float32, bfloat16, int64, ...
	Optional    bool     // the tensor may be left out
	Description string

	extra map[string]any
}

// DTypes are the element types of the schema.
var DTypes = []string{"float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "float4_e2m1", "int64", "int32", "int16", "int8", "bool"}

var runFunction = regexp.MustCompile(`(?m)^def\s+run\s*\(`)

// ParseDefinition reads a definition.
func ParseDefinition(data []byte) (*Definition, error) {
	t, err := parse("definition", data)
	if err != nil {
		return nil, err
	}
	d, r := &Definition{}, &reader{}
	d.extra = r.object(t, fields{
		"name":        {required: true, read: r.text(&d.Name, false)},
		"op_type":     {required: true, read: r.text(&d.OpType, false)},
		"description": {read: r.text(&d.Description, true)},
		"tags":        {read: r.texts(&d.Tags)},
		"axes":        {required: true, read: r.each(func(name string, t *tree) { d.Axes = append(d.Axes, r.axis(name, t)) })},
		"constraints": {read: r.texts(&d.Constraints)},
		"inputs":      {required: true, read: r.each(func(name string, t *tree) { d.Inputs = append(d.Inputs, r.tensor(name, t)) })},
		"outputs":     {required: true, read: r.each(func(name string, t *tree) { d.Outputs = append(d.Outputs, r.tensor(name, t)) })},
		"reference":   {required: true, read: r.text(&d.Reference, false)},
	})
	if r.errs == nil {
		d.check(r)
	}
	if err := r.err(); err != nil {
		return nil, err
	}
	return d, nil
}

func (r *reader) axis(name string, t *tree) Axis {
	a := Axis{Name: name, Value: -1}
	var kind string
	a.extra = r.object(t, fields{
		"type": {required: true, read: func(t *tree) {
			r.text(&kind, false)(t)
			if kind != "" && kind != "const" && kind != "var" {
				r.failf(t.path, "is %q, want const or var", kind)
			}
		}},
		"value":       {read: r.integer(&a.Value, 0)},
		"description": {read: r.text(&a.Description, true)},
	})
	a.Const = kind == "const"
	switch {
	case a.Const && a.Value < 0 && r.errs == nil:
		r.failf(t.path+".value", "is missing: a constant axis has one")
	case kind == "var" && a.Value >= 0:
		r.failf(t.path+".value", "is there, but the axis is a variable one: workloads give its value")
	}
	if !a.Const {
		a.Value = 0
	}
	return a
}

func (r *reader) tensor(name string, t *tree) Tensor {
	x := Tensor{Name: name}
	x.extra = r.object(t, fields{
		"shape": {required: true, nullable: true, read: func(t *tree) {
			if x.Scalar = t.value == nil; !x.Scalar {
				r.texts(&x.Shape)(t)
			}
		}},
		"dtype": {required: true, read: func(t *tree) {
			if r.text(&x.DType, false)(t); x.DType != "" && !slices.Contains(DTypes, x.DType) {
				r.failf(t.path, "is %q, want one of %s", x.DType, strings.Join(DTypes, " "))
			}
		}},
		"optional": {read: func(t *tree) {
			var ok bool
			if x.Optional, ok = t.value.(bool); !ok {
				r.failf(t.path, "is %s, want a boolean", t.kind())
			}
		}},
		"description": {read: r.text(&x.Description, true)},
	})
	return x
}

// check reports contradictions between fields.
func (d *Definition) check(r *reader) {
	for _, list := range []struct {
		name    string
		tensors []Tensor
	}{{"inputs", d.Inputs}, {"outputs", d.Outputs}} {
		if len(list.tensors) == 0 {
			r.failf("definition."+list.name, "is empty")
		}
		for _, x := range list.tensors {
			for i, name := range x.Shape {
				if d.axis(name) == nil {
					r.failf(fmt.Sprintf("definition.%s.%s.shape[%d]", list.name, x.Name, i), "names the axis %q, which definition.axes has not (it has %s)", name, strings.Join(d.axisNames(), " "))
				}
			}
		}
	}
	for _, x := range d.Outputs {
		if d.Input(x.Name) != nil {
			r.failf("definition.outputs."+x.Name, "is the name of an input too")
		}
	}
	if !runFunction.MatchString(d.Reference) {
		r.failf("definition.reference", "has no top-level function run")
	}
}

func (d *Definition) axis(name string) *Axis {
	for i := range d.Axes {
		if d.Axes[i].Name == name {
			return &d.Axes[i]
		}
	}
	return nil
}

func (d *Definition) axisNames() []string {
	var names []string
	for _, a := range d.Axes {
		names = append(names, a.Name)
	}
	return names
}

func find(list []Tensor, name string) *Tensor {
	for i := range list {
		if list[i].Name == name {
			return &list[i]
		}
	}
	return nil
}

// Input returns the input of a name, or nil.
func (d *Definition) Input(name string) *Tensor { return find(d.Inputs, name) }

// Output returns the output of a name, or nil.
func (d *Definition) Output(name string) *Tensor { return find(d.Outputs, name) }

// MarshalJSON writes the definition in the schema's form.
func (d *Definition) MarshalJSON() ([]byte, error) {
	var o object
	o.add("name", d.Name)
	o.addText("description", d.Description)
	o.add("op_type", d.OpType)
	if len(d.Tags) > 0 {
		o.add("tags", d.Tags)
	}
	axes, inputs, outputs := &object{}, &object{}, &object{}
	for _, a := range d.Axes {
		axes.add(a.Name, a)
	}
	for _, x := range d.Inputs {
		inputs.add(x.Name, x)
	}
	for _, x := range d.Outputs {
		outputs.add(x.Name, x)
	}
	o.add("axes", axes)
	if len(d.Constraints) > 0 {
		o.add("constraints", d.Constraints)
	}
	o.add("inputs", inputs)
	o.add("outputs", outputs)
	o.add("reference", d.Reference)
	o.extra(d.extra)
	return o.json()
}

// MarshalJSON writes the members.
func (o *object) MarshalJSON() ([]byte, error) { return o.json() }

// MarshalJSON writes the axis in the schema's form.
func (a Axis) MarshalJSON() ([]byte, error) {
	var o object
	if a.Const {
		o.add("type", "const")
		o.add("value", a.Value)
	} else {
		o.add("type", "var")
	}
	o.addText("description", a.Description)
	o.extra(a.extra)
	return o.json()
}

// MarshalJSON writes the tensor in the schema's form.
func (x Tensor) MarshalJSON() ([]byte, error) {
	var o object
	if x.Scalar {
		o.add("shape", nil)
	} else {
		o.add("shape", append([]string{}, x.Shape...))
	}
	o.add("dtype", x.DType)
	o.addText("description", x.Description)
	if x.Optional {
		o.add("optional", true)
	}
	o.extra(x.extra)
	return o.json()
}

// UnmarshalJSON reads like ParseDefinition.
func (d *Definition) UnmarshalJSON(data []byte) error {
	p, err := ParseDefinition(data)
	if err == nil {
		*d = *p
	}
	return err
}

var _ json.Marshaler = (*Definition)(nil)
