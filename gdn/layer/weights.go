package layer

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/layer/device"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/array"
)

// Format is a model family's layout of the projections of a layer.
type Format string

// The formats.
const (
	// Qwen3Next has in_proj_qkvz and in_proj_ba, rows grouped by key head: q | k | v | z, and b | a.
	Qwen3Next Format = "qwen3-next"
	// Qwen35 has in_proj_qkv, in_proj_z, in_proj_b and in_proj_a, rows in the order of this package.
	Qwen35 Format = "qwen3.5"
	// OlmoHybrid has q_proj, k_proj and v_proj, a convolution of each, and a_proj, b_proj and g_proj, the output gate.
	OlmoHybrid Format = "olmo-hybrid"
	// KimiLinear, of rule kda, has q_proj, k_proj and v_proj, a convolution of each, and pairs of projections for decay (f_a_proj, f_b_proj)
	// and output gate (g_a_proj, g_b_proj); f_proj or g_proj where there is no rank between two.
	KimiLinear Format = "kimi-linear"
)

// Formats lists all formats.
var Formats = []Format{Qwen3Next, Qwen35, OlmoHybrid, KimiLinear}

// formats has the rule of each format, a tensor that identifies it, and all its tensors in torch's layout: matrices are
// [out, in].
var formats = map[Format]struct {
	rule    gdn.Rule
	marker  string
	tensors func(c Config) []stored
}{
	Qwen3Next:  {gdn.Rule{}, "in_proj_qkvz.weight", Config.qwen3Next},
	Qwen35:     {gdn.Rule{}, "in_proj_qkv.weight", Config.qwen35},
	OlmoHybrid: {gdn.Rule{}, "a_proj.weight", Config.olmoHybrid},
	KimiLinear: {kda, "q_conv1d.weight", Config.kimiLinear},
}

// stored is a tensor of a layer in a file: its name after the prefix, its shape, and the variables whose values it holds.
type stored struct {
	name  string
	shape []int
	parts []part
}

// part maps rows of a stored tensor to outputs of a variable: rows[i] is output first+i.
type part struct {
	variable string
	first    int
	rows     []int
}

// whole is a tensor whose rows are consecutive outputs of a variable, from first on.
func whole(name, variable string, first int, shape ...int) stored {
	rows := make([]int, slices.Max(shape[:max(1, len(shape)-1)])) // axes of length 1 may come before the axis of rows
	for i := range rows {
		rows[i] = i
	}
	return stored{name, shape, []part{{variable, first, rows}}}
}

// tensorsOf returns the tensors of a layer in a format.
func (c Config) tensorsOf(f Format) ([]stored, error) {
	row, ok := formats[f]
	if !ok {
		return nil, fmt.Errorf("layer: unknown format %q (known: %v)", f, Formats)
	}
	if row.rule != c.Rule {
		return nil, fmt.Errorf("layer: format %s has layers of rule %s, this one is of rule %s", f, row.rule, c.Rule)
	}
	return row.tensors(c), nil
}

func (c Config) qwen3Next() []stored {
	ratio := c.HeadsV / c.HeadsK
	group := 2*c.KeyDim + 2*ratio*c.ValueDim
	rows := func(group, offset, n int) (rows []int) { // n rows of each key head
		for head := range c.HeadsK {
			for i := range n {
				rows = append(rows, head*group+offset+i)
			}
		}
		return rows
	}
	qkvz := []part{
		{VarQKV, 0, rows(group, 0, c.KeyDim)},
		{VarQKV, c.KeyWidth(), rows(group, c.KeyDim, c.KeyDim)},
		{VarQKV, 2 * c.KeyWidth(), rows(group, 2*c.KeyDim, ratio*c.ValueDim)},
		{VarZ, 0, rows(group, 2*c.KeyDim+ratio*c.ValueDim, ratio*c.ValueDim)},
	}
	ba := []part{{VarB, 0, rows(2*ratio, 0, ratio)}, {VarA, 0, rows(2*ratio, ratio, ratio)}}
	return append([]stored{
		{"in_proj_qkvz.weight", []int{c.Channels() + c.ValueWidth(), c.Hidden}, qkvz},
		{"in_proj_ba.weight", []int{2 * c.HeadsV, c.Hidden}, ba},
	}, c.qwen()...)
}

func (c Config) qwen35() []stored {
	return append([]stored{
		whole("in_proj_qkv.weight", VarQKV, 0, c.Channels(), c.Hidden),
		whole("in_proj_z.weight", VarZ, 0, c.ValueWidth(), c.Hidden),
		whole("in_proj_b.weight", VarB, 0, c.HeadsV, c.Hidden),
		whole("in_proj_a.weight", VarA, 0, c.HeadsV, c.Hidden),
	}, c.qwen()...)
}

// qwen returns the tensors that both Qwen formats share.
func (c Config) qwen() []stored {
	return []stored{
		whole("conv1d.weight", VarConv, 0, c.Channels(), 1, c.ConvWidth),
		whole("dt_bias", VarDtBias, 0, c.HeadsV),
		whole("A_log", VarALog, 0, c.HeadsV),
		whole("norm.weight", VarNorm, 0, c.ValueDim),
		whole("out_proj.weight", VarOut, 0, c.Hidden, c.ValueWidth()),
	}
}

// separate returns separate tensors of queries, keys and values, with their convolutions.
func (c Config) separate() []stored {
	var list []stored
	for i, name := range []string{"q", "k", "v"} {
		first, width := i*c.KeyWidth(), c.KeyWidth()
		if name == "v" {
			width = c.ValueWidth()
		}
		list = append(list, whole(name+"_proj.weight", VarQKV, first, width, c.Hidden), whole(name+"_conv1d.weight", VarConv, first, width, 1, c.ConvWidth))
	}
	return list
}

func (c Config) olmoHybrid() []stored {
	return append(c.separate(),
		whole("g_proj.weight", VarZ, 0, c.ValueWidth(), c.Hidden),
		whole("b_proj.weight", VarB, 0, c.HeadsV, c.Hidden),
		whole("a_proj.weight", VarA, 0, c.HeadsV, c.Hidden),
		whole("dt_bias", VarDtBias, 0, c.HeadsV),
		whole("A_log", VarALog, 0, c.HeadsV),
		whole("o_norm.weight", VarNorm, 0, c.ValueDim),
		whole("o_proj.weight", VarOut, 0, c.Hidden, c.ValueWidth()),
	)
}

func (c Config) kimiLinear() []stored {
	list := c.separate()
	for _, g := range []struct {
		name, down, variable string
		rank, width          int
	}{{"f", VarADown, VarA, c.DecayRank, c.DecayWidth()}, {"g", VarZDown, VarZ, c.GateRank, c.ValueWidth()}} {
		if g.rank == 0 {
			list = append(list, whole(g.name+"_proj.weight", g.variable, 0, g.width, c.Hidden))
			continue
		}
		list = append(list, whole(g.name+"_a_proj.weight", g.down, 0, g.rank, c.Hidden), whole(g.name+"_b_proj.weight", g.variable, 0, g.width, g.rank))
	}
	return append(list,
		whole("b_proj.weight", VarB, 0, c.HeadsV, c.Hidden),
		whole("A_log", VarALog, 0, 1, 1, c.HeadsV, 1),
		whole("dt_bias", VarDtBias, 0, c.DecayWidth()),
		whole("o_norm.weight", VarNorm, 0, c.ValueDim),
		whole("o_proj.weight", VarOut, 0, c.Hidden, c.ValueWidth()),
	)
}

// variableShapes returns the shapes of the variables by name.
func (c Config) variableShapes() map[string][]int {
	m := map[string][]int{
		VarQKV: {c.Hidden, c.Channels()}, VarZ: {c.Hidden, c.ValueWidth()}, VarB: {c.Hidden, c.HeadsV}, VarA: {c.Hidden, c.DecayWidth()},
		VarConv: {c.Channels(), c.ConvWidth}, VarALog: {c.HeadsV}, VarDtBias: c.decayShape(), VarNorm: {c.ValueDim}, VarOut: {c.ValueWidth(), c.Hidden},
	}
	if c.DecayRank > 0 {
		m[VarADown], m[VarA][0] = []int{c.Hidden, c.DecayRank}, c.DecayRank
	}
	if c.GateRank > 0 {
		m[VarZDown], m[VarZ][0] = []int{c.Hidden, c.GateRank}, c.GateRank
	}
	return m
}

// detect returns the format, by the tensor names.
func detect(names []string, prefix string) (Format, error) {
	var want []string
	for _, f := range Formats {
		if slices.Contains(names, prefix+formats[f].marker) {
			return f, nil
		}
		want = append(want, fmt.Sprintf("%s (%s)", prefix+formats[f].marker, f))
	}
	return "", fmt.Errorf("layer: none of %s is among the tensors: is the prefix right?", strings.Join(want, ", "))
}

// Load puts the weights of one layer into scope; a layer built there later uses them. It reads tensors prefix + "in_proj_qkvz.weight" and
// so on, in float32, bfloat16 or float16, and returns the detected format. prefix is, for example, "model.layers.0.linear_attn.", or
// "model.layers.0.self_attn." for Kimi Linear. Variables get type d, A_log and dt_bias float32; with float16 weights x must be float32. Missing
// tensors, wrong shapes, and unknown tensors under the prefix are errors.
func Load(scope *model.Scope, w *Weights, prefix string, c Config, d dtypes.DType) (Format, error) {
	if err := c.Check(); err != nil {
		return "", err
	}
	if d != dtypes.Float32 && d != dtypes.BFloat16 && d != dtypes.Float16 {
		return "", fmt.Errorf("layer: weights can not be held as %s, only as Float32, BFloat16 or Float16", d)
	}
	f, err := detect(w.Names(), prefix)
	if err != nil {
		return "", err
	}
	list, err := c.tensorsOf(f)
	if err != nil {
		return "", err
	}
	known := map[string]bool{}
	for _, s := range list {
		known[prefix+s.name] = true
	}
	var errs []error
	for _, name := range w.Names() {
		if strings.HasPrefix(name, prefix) && !known[name] {
			errs = append(errs, fmt.Errorf("tensor %s belongs to no layer of format %s (it has: %s)", name, f, names(list)))
		}
	}
	arrays := map[string]*array.Array{}
	for name, shape := range c.variableShapes() {
		arrays[name] = array.New(element(name, d), shape...)
	}
	for _, s := range list {
		a, err := w.Read(prefix + s.name)
		if err == nil {
			err = s.check(prefix, a)
		}
		if err != nil {
			if !slices.Contains(errs, err) { // a shard that cannot be opened has one error for all its tensors
				errs = append(errs, err)
			}
			continue
		}
		for _, p := range s.parts {
			to := arrays[p.variable]
			from, size := a.Convert(to.Type), to.Type.Bytes()
			p.each(s, to.Shape, func(inFile, inVariable int) {
				copy(to.Data[inVariable*size:][:size], from.Data[inFile*size:])
			})
		}
	}
	if len(errs) > 0 {
		return "", fmt.Errorf("layer: %w", errors.Join(errs...))
	}
	for _, name := range slices.Sorted(maps.Keys(arrays)) {
		value, err := device.Tensor(arrays[name])
		if err != nil {
			return "", err
		}
		if old := scope.GetVariable(name); old != nil {
			if !old.Shape().Equal(value.Shape()) {
				return "", fmt.Errorf("layer: variable %s in scope %s is %s already, the weights are %s", name, scope.Scope(), old.Shape(), value.Shape())
			}
			if err := old.SetValue(value); err != nil {
				return "", fmt.Errorf("layer: variable %s in scope %s: %w", name, scope.Scope(), err)
			}
			continue
		}
		scope.VariableWithValue(name, value)
	}
	return f, nil
}

func names(list []stored) string {
	var l []string
	for _, s := range list {
		l = append(l, s.name)
	}
	return strings.Join(l, " ")
}

// check compares a tensor's shape with the configuration. Axes of length 1 are ignored, since files differ in them.
func (s stored) check(prefix string, a *array.Array) error {
	one := func(n int) bool { return n == 1 }
	if !slices.Equal(slices.DeleteFunc(slices.Clone(a.Shape), one), slices.DeleteFunc(slices.Clone(s.shape), one)) {
		return fmt.Errorf("tensor %s is %v, want the shape %v", prefix+s.name, a, s.shape)
	}
	if a.Type != ir.F32 && a.Type != ir.BF16 && a.Type != ir.F16 {
		return fmt.Errorf("tensor %s is %v, want f32, bf16 or f16", prefix+s.name, a)
	}
	return nil
}

// element returns the type of a variable in memory.
func element(variable string, d dtypes.DType) ir.DType {
	if variable == VarALog || variable == VarDtBias {
		return ir.F32
	}
	e, _ := device.ElementType(d)
	return e
}

// transposed reports whether a variable is [in, out] here and [out, in] in files.
func transposed(variable string) bool {
	switch variable {
	case VarConv, VarALog, VarDtBias, VarNorm:
		return false
	}
	return true
}

// each calls f with the index of every value of a part, in the stored tensor and in the variable.
func (p part) each(s stored, variable []int, f func(inFile, inVariable int)) {
	outs, width := ir.T(ir.F32, variable...).Size(), 1 // number of outputs of the variable, and of values per output
	switch {
	case transposed(p.variable):
		width, outs = variable[0], variable[1]
	case p.variable == VarConv:
		outs, width = variable[0], variable[1]
	}
	for i, row := range p.rows {
		out := p.first + i
		for j := range width {
			if transposed(p.variable) {
				f(row*width+j, j*outs+out)
			} else {
				f(row*width+j, out*width+j)
			}
		}
	}
}

// Save returns the tensors of the layer in scope, in a format and element type (float32, bfloat16 or float16), for
// array.WriteSafetensors. Loading and saving in the file's type preserves all bits.
func Save(scope *model.Scope, prefix string, c Config, f Format, d dtypes.DType) (*array.File, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	e, ok := device.ElementType(d)
	if !ok || e != ir.F32 && e != ir.BF16 && e != ir.F16 {
		return nil, fmt.Errorf("layer: weights can not be stored as %s, only as Float32, BFloat16 or Float16", d)
	}
	list, err := c.tensorsOf(f)
	if err != nil {
		return nil, err
	}
	file := &array.File{Tensors: map[string]*array.Array{}}
	for _, s := range list {
		to := array.New(e, s.shape...)
		for _, p := range s.parts {
			name := p.variable
			v := scope.GetVariable(name)
			if v == nil {
				return nil, fmt.Errorf("layer: scope %s has no variable %s, of which tensor %s is made", scope.Scope(), name, prefix+s.name)
			}
			if want := c.variableShapes()[name]; !slices.Equal(v.Shape().Dimensions, want) {
				return nil, fmt.Errorf("layer: variable %s in scope %s is %s, want %s", name, scope.Scope(), v.Shape(), shapes.Make(v.DType(), want...))
			}
			t, err := v.Value()
			if err != nil {
				return nil, fmt.Errorf("layer: variable %s in scope %s: %w", name, scope.Scope(), err)
			}
			from, err := device.Array(t)
			if err != nil {
				return nil, err
			}
			from = from.Convert(e)
			p.each(s, from.Shape, func(inFile, inVariable int) {
				copy(to.Data[inFile*e.Bytes():][:e.Bytes()], from.Data[inVariable*e.Bytes():])
			})
		}
		file.Tensors[prefix+s.name] = to
		file.Names = append(file.Names, prefix+s.name)
	}
	return file, nil
}
