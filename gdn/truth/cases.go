package truth

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/array"
)

// Case is one stored case: an entry of a folder's manifest.json, and the safetensors file that it names.
type Case struct {
	Name, Class, Op, Note string
	Supported             bool
	Reason                string     // why the case is not supported
	Spec                  gdn.Spec   // only if Supported
	Layer                 *LayerCase // set for a case of a whole layer, which has no Spec and is not Supported
	File                  string     // path of the tensors
	Tolerance             Tolerance
	Outputs               []Output // tensors to write, in the order of Spec.Outputs
	bytes                 *int64   // size and checksum of the file, if the manifest states them
	crc32                 *uint32
	inputs, expected      map[string]gdn.Param // by name in the file, with names of Spec.Inputs for inputs
}

// Output is an output of a case: its name and type in the file, and its name in Spec.Outputs.
type Output struct {
	Name   string
	Type   ir.Type
	Param  string
	Stored bool // the manifest describes an expected value
}

// Tolerance has the limits of the manifest: on rms(error) / rms(expected) by tensor and key, and the contest's rule.
type Tolerance struct {
	Ratio   map[string]map[string]float64 // tensor -> key (f32_ratio, bf16x3_ratio, ...) -> limit
	Contest *ContestRule
}

// ContestRule fails an element whose error exceeds both bounds.
type ContestRule struct {
	ATol float64 `json:"atol"`
	RTol float64 `json:"rtol"`
}

// caseOp describes a kind of case: the names and layouts of the tensors in its file.
type caseOp struct {
	name    string
	o       string // name of the output
	init    string // name of the initial state
	final   string // name of the final state
	extra   string // an expected tensor that is never written: the output before rounding
	contest bool   // fused gates, state V x K, zeros for an empty sequence, its own rule of judgement
	out     ir.DType
	layer   bool     // a whole layer, see LayerCase
	rule    gdn.Rule // of the layer
	stated  bool     // the manifest states the spec, and tensors use the names of its inputs and outputs
}

var caseOps = []caseOp{
	{name: "gated_delta_rule", o: "o", init: "initial_state", final: "final_state", out: ir.F32},
	{name: "contest_decode", o: "output", init: "state", final: "new_state", extra: "output_f64", contest: true, out: ir.BF16},
	{name: "contest_prefill", o: "output", init: "state", final: "new_state", extra: "output_f64", contest: true, out: ir.BF16},
	{name: "spec", o: "o", init: "initial_state", final: "final_state", stated: true},
	{name: "qwen3next_gated_deltanet_layer", layer: true},
	{name: "kimi_delta_attention_layer", layer: true, rule: gdn.Rule{Decay: gdn.DecayChannel}},
}

type manifestTensor struct {
	Shape []int  `json:"shape"`
	DType string `json:"dtype"`
}

type manifestCase struct {
	Name        string                                `json:"name"`
	File        string                                `json:"file"`
	Class       string                                `json:"class"`
	Op          string                                `json:"op"`
	Spec        string                                `json:"spec,omitempty"`
	Note        string                                `json:"note"`
	Tensors     map[string]manifestTensor             `json:"tensors"`
	Scale       *float64                              `json:"scale"`
	Flags       map[string]any                        `json:"flags"`
	StateLayout string                                `json:"state_layout"`
	Backward    bool                                  `json:"backward"`
	Tolerance   map[string]map[string]json.RawMessage `json:"tolerance"`
	Config      *LayerCase                            `json:"config"`
	Prefill     int                                   `json:"prefill_len"`
	Steps       int                                   `json:"decode_steps"`
	Bytes       *int64                                `json:"bytes"`
	CRC32       *uint32                               `json:"crc32"`
}

// ManifestName is the name of the file that describes a folder of cases.
const ManifestName = "manifest.json"

// NoCaseError reports a name that a manifest does not list.
type NoCaseError struct {
	Manifest, Name string
	Known          []string
}

func (e *NoCaseError) Error() string {
	return fmt.Sprintf("%s has no case %q (it has %s)", e.Manifest, e.Name, strings.Join(e.Known, " "))
}

// FindCase returns the stored case with this tensor path, with or without extension. An unknown case is a *NoCaseError.
func FindCase(path string) (*Case, error) {
	dir, base := filepath.Split(path)
	cases, err := ReadCases(filepath.Clean(dir))
	if err != nil {
		return nil, err
	}
	var names []string
	for i, c := range cases {
		if c.Name == base || filepath.Base(c.File) == base {
			return &cases[i], nil
		}
		names = append(names, c.Name)
	}
	return nil, &NoCaseError{filepath.Join(filepath.Clean(dir), ManifestName), base, names}
}

// ReadCases reads the manifest of a folder; Case.Load reads the tensors later. Unsupported cases are listed with their Reason.
// The error joins all faults of the manifest, each with case and field.
func ReadCases(dir string) ([]Case, error) {
	path := filepath.Join(dir, ManifestName)
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("cases: a folder of cases has a %s: %w", ManifestName, err)
	}
	var manifest struct {
		Cases []json.RawMessage `json:"cases"`
	}
	if err := json.Unmarshal(data, &manifest); err != nil {
		return nil, fmt.Errorf("cases: %s: %w", path, gdn.JSONError(data, err))
	}
	if len(manifest.Cases) == 0 {
		return nil, fmt.Errorf("cases: %s: field cases is missing or empty", path)
	}
	var cases []Case
	var errs []error
	seen := map[string]bool{}
	for i, raw := range manifest.Cases {
		var m manifestCase
		at := fmt.Sprintf("cases: %s: cases[%d]", path, i)
		if err := json.Unmarshal(raw, &m); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", at, gdn.JSONError(raw, err)))
			continue
		}
		if m.Name != "" {
			at += " " + m.Name
		}
		c, err := m.read(dir)
		if err == nil && seen[m.Name] {
			err = errors.New("field name: another case has this name")
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", at, err))
			continue
		}
		seen[m.Name] = true
		cases = append(cases, c)
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return cases, nil
}

// read converts an entry of the manifest to a case.
func (m *manifestCase) read(dir string) (Case, error) {
	c := Case{Name: m.Name, Class: m.Class, Op: m.Op, Note: m.Note, bytes: m.Bytes, crc32: m.CRC32}
	switch {
	case m.Name == "":
		return c, errors.New("field name is missing")
	case m.Op == "":
		return c, errors.New("field op is missing")
	case m.File == "":
		return c, errors.New("field file is missing")
	case !filepath.IsLocal(m.File):
		return c, fmt.Errorf("field file: %q leads out of the folder", m.File)
	}
	c.File = filepath.Join(dir, m.File)
	var err error
	if c.Tolerance, err = m.tolerance(); err != nil {
		return c, err
	}
	i := slices.IndexFunc(caseOps, func(o caseOp) bool { return o.name == m.Op })
	switch {
	case i < 0:
		names := make([]string, len(caseOps))
		for i, o := range caseOps {
			names[i] = o.name
		}
		c.Reason = fmt.Sprintf("unknown op %q (known: %s)", m.Op, strings.Join(names, " "))
	case caseOps[i].layer:
		err = c.describeLayer(m, caseOps[i].rule)
	case caseOps[i].stated:
		err = c.describeSpec(m, caseOps[i])
	default:
		err = c.describe(m, caseOps[i])
	}
	c.Supported = err == nil && c.Reason == ""
	return c, err
}

func (m *manifestCase) tolerance() (Tolerance, error) {
	t := Tolerance{Ratio: map[string]map[string]float64{}}
	for tensor, entries := range m.Tolerance {
		limits := map[string]float64{}
		for key, raw := range entries {
			var x float64
			if tensor == "contest" && key == "rule" {
				continue
			}
			if err := json.Unmarshal(raw, &x); err != nil || x < 0 {
				return t, fmt.Errorf("field tolerance.%s.%s: %s is not a number of at least 0", tensor, key, raw)
			}
			limits[key] = x
		}
		if tensor != "contest" {
			t.Ratio[tensor] = limits
			continue
		}
		atol, okA := limits["atol"]
		rtol, okR := limits["rtol"]
		if !okA || !okR {
			return t, errors.New("field tolerance.contest: wants atol and rtol")
		}
		t.Contest = &ContestRule{atol, rtol}
	}
	return t, nil
}

// Load reads and checks the tensors of a supported case or a layer case: size and checksum of the file, every tensor of the manifest, finite values,
// bounds of sequences. Inputs have the names and types of Spec.Inputs; narrower stored types are widened exactly. Expected values have the names and
// types of the file, and are empty for a file of inputs only.
func (c *Case) Load() (inputs, expected map[string]*array.Array, err error) {
	if !c.Supported && c.Layer == nil {
		return nil, nil, fmt.Errorf("case %s is not supported: %s", c.Name, c.Reason)
	}
	fail := func(err error) (map[string]*array.Array, map[string]*array.Array, error) {
		return nil, nil, fmt.Errorf("case %s: %s: %w", c.Name, c.File, err)
	}
	data, err := os.ReadFile(c.File)
	if err != nil {
		return nil, nil, fmt.Errorf("case %s: %w", c.Name, err)
	}
	if c.bytes != nil && *c.bytes != int64(len(data)) {
		return fail(fmt.Errorf("has %d bytes, the manifest says %d: the file was changed or cut short", len(data), *c.bytes))
	}
	if sum := crc32.ChecksumIEEE(data); c.crc32 != nil && *c.crc32 != sum {
		return fail(fmt.Errorf("has crc32 %d, the manifest says %d: the file was changed or damaged", sum, *c.crc32))
	}
	file, err := array.ParseSafetensors(data)
	if err != nil {
		return fail(err)
	}
	inputs, expected = map[string]*array.Array{}, map[string]*array.Array{}
	for _, name := range slices.Sorted(maps.Keys(c.inputs)) {
		p, a := c.inputs[name], file.Tensors[name]
		if _, err := file.Tensor(name); file.Opaque[name] != "" {
			return fail(err)
		}
		if a == nil {
			return fail(fmt.Errorf("tensor %s, an input, is missing (the file has %v)", name, file.Names))
		}
		if !a.IRType().Equal(p.Type) {
			return fail(fmt.Errorf("tensor %s is %v, the manifest says %v", name, a, p.Type))
		}
		inputs[p.Name] = a
	}
	if c.Layer == nil {
		for _, p := range c.Spec.Inputs() {
			if a := inputs[p.Name]; a.Type != p.Type.DType {
				inputs[p.Name] = a.Convert(p.Type.DType)
			}
		}
		if err := CheckInputs(c.Spec, inputs); err != nil && c.Spec.Batch*c.Spec.Tokens > 0 { // no program exists for zero tokens
			return fail(err)
		}
	}
	for name, p := range c.expected {
		a := file.Tensors[name]
		if a == nil {
			continue
		}
		if !a.IRType().Equal(p.Type) {
			return fail(fmt.Errorf("tensor %s is %v, the manifest says %v", name, a, p.Type))
		}
		if i, x, bad := firstNotFinite(a); bad {
			return fail(fmt.Errorf("tensor %s, an expected value, is %v at %v", name, x, unflatten(i, a.Shape)))
		}
		expected[name] = a
	}
	return inputs, expected, nil
}

// FileOutputs converts outputs with names of Spec.Outputs to the tensors of the case's file: its names, shapes and element types, each value rounded once.
func (c *Case) FileOutputs(outputs map[string]*array.Array) (*array.File, error) {
	f := &array.File{Tensors: map[string]*array.Array{}}
	for _, o := range c.Outputs {
		a := outputs[o.Param]
		if a == nil {
			return nil, fmt.Errorf("case %s: output %s is missing", c.Name, o.Param)
		}
		if !slices.Equal(a.Shape, o.Type.Shape) {
			return nil, fmt.Errorf("case %s: output %s is %v, want the shape %v", c.Name, o.Param, a, o.Type.Shape)
		}
		f.Tensors[o.Name] = a.Convert(o.Type.DType)
		f.Names = append(f.Names, o.Name)
	}
	return f, nil
}
