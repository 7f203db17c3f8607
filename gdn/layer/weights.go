package layer

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gomlx/gomlx/pkg/core/dtypes"
	"github.com/gomlx/gomlx/pkg/core/tensors"
	"github.com/gomlx/gomlx/pkg/ml/context"

	"github.com/gdngen/gdngen/gdn/layer/device"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/array"
)

// Format is how a model stores the projections of a layer.
type Format string

// The formats.
const (
	// Qwen3Next has in_proj_qkvz and in_proj_ba, rows grouped by key head: q | k | v | z, and b | a.
	Qwen3Next Format = "qwen3-next"
	// Qwen35 has in_proj_qkv, in_proj_z, in_proj_b and in_proj_a, rows in the order of this package.
	Qwen35 Format = "qwen3.5"
)

// Formats lists the formats.
var Formats = []Format{Qwen3Next, Qwen35}

// stored is a tensor of a layer in a file: its name after the prefix, its shape, and the variables whose values it holds.
type stored struct {
	name  string
	shape []int
	vars  []string
}

// tensorsOf lists the tensors of a layer, as torch has them: matrices are [out, in].
func (c Config) tensorsOf(f Format) ([]stored, error) {
	common := []stored{
		{"conv1d.weight", []int{c.Channels(), 1, c.ConvWidth}, []string{VarConv}},
		{"dt_bias", []int{c.HeadsV}, []string{VarDtBias}},
		{"A_log", []int{c.HeadsV}, []string{VarALog}},
		{"norm.weight", []int{c.ValueDim}, []string{VarNorm}},
		{"out_proj.weight", []int{c.Hidden, c.ValueWidth()}, []string{VarOut}},
	}
	switch f {
	case Qwen3Next:
		return append([]stored{
			{"in_proj_qkvz.weight", []int{c.Channels() + c.ValueWidth(), c.Hidden}, []string{VarQKV, VarZ}},
			{"in_proj_ba.weight", []int{2 * c.HeadsV, c.Hidden}, []string{VarB, VarA}},
		}, common...), nil
	case Qwen35:
		return append([]stored{
			{"in_proj_qkv.weight", []int{c.Channels(), c.Hidden}, []string{VarQKV}},
			{"in_proj_z.weight", []int{c.ValueWidth(), c.Hidden}, []string{VarZ}},
			{"in_proj_b.weight", []int{c.HeadsV, c.Hidden}, []string{VarB}},
			{"in_proj_a.weight", []int{c.HeadsV, c.Hidden}, []string{VarA}},
		}, common...), nil
	}
	return nil, fmt.Errorf("layer: unknown format %q (known: %v)", f, Formats)
}

// shapes of the variables.
func (c Config) variableShapes() map[string][]int {
	return map[string][]int{
		VarQKV: {c.Hidden, c.Channels()}, VarZ: {c.Hidden, c.ValueWidth()}, VarB: {c.Hidden, c.HeadsV}, VarA: {c.Hidden, c.HeadsV},
		VarConv: {c.Channels(), c.ConvWidth}, VarALog: {c.HeadsV}, VarDtBias: {c.HeadsV}, VarNorm: {c.ValueDim}, VarOut: {c.ValueWidth(), c.Hidden},
	}
}

// rows says which row of a stored matrix holds output i of a variable.
func (c Config) rows(s stored, variable string) []int {
	ratio := c.HeadsV / c.HeadsK
	var group int
	var parts []struct{ offset, heads, dim int } // a run of heads of a key head: first row in the group, how many heads, rows of each
	add := func(offset, heads, dim int) {
		parts = append(parts, struct{ offset, heads, dim int }{offset, heads, dim})
	}
	switch s.name {
	case "in_proj_qkvz.weight":
		group = 2*c.KeyDim + 2*ratio*c.ValueDim
		if variable == VarQKV {
			add(0, 1, c.KeyDim)
			add(c.KeyDim, 1, c.KeyDim)
			add(2*c.KeyDim, ratio, c.ValueDim)
		} else {
			add(2*c.KeyDim+ratio*c.ValueDim, ratio, c.ValueDim)
		}
	case "in_proj_ba.weight":
		group = 2 * ratio
		if variable == VarB {
			add(0, ratio, 1)
		} else {
			add(ratio, ratio, 1)
		}
	default:
		rows := make([]int, s.shape[0])
		for i := range rows {
			rows[i] = i
		}
		return rows
	}
	var rows []int
	for _, p := range parts {
		for head := range c.HeadsK {
			for i := range p.heads * p.dim {
				rows = append(rows, head*group+p.offset+i)
			}
		}
	}
	return rows
}

// detect finds the format by the names.
func detect(names []string, prefix string) (Format, error) {
	for f, name := range map[Format]string{Qwen3Next: "in_proj_qkvz.weight", Qwen35: "in_proj_qkv.weight"} {
		if slices.Contains(names, prefix+name) {
			return f, nil
		}
	}
	return "", fmt.Errorf("layer: neither %sin_proj_qkvz.weight (%s) nor %sin_proj_qkv.weight (%s) is among the tensors: is the prefix right?",
		prefix, Qwen3Next, prefix, Qwen35)
}

// Load puts the weights of one layer into the scope of ctx. The weights are those of a folder or file (see OpenWeights), named
// prefix + "in_proj_qkvz.weight" and so on, in float32, bfloat16 or float16; prefix is, for example,
// "model.layers.0.linear_attn.". Variables get the type d, but A_log and dt_bias float32. Build the layer with ctx.Reuse()
// afterwards. Missing tensors, tensors of another shape, and tensors under the prefix that no layer has are errors.
func Load(ctx *context.Context, w *Weights, prefix string, c Config, d dtypes.DType) (Format, error) {
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
	values := map[string]*tensors.Tensor{}
	for _, s := range list {
		a, err := w.Read(prefix + s.name)
		if err == nil {
			err = s.check(prefix, a)
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		for _, v := range s.vars {
			t, err := device.Tensor(c.toVariable(s, v, a, d))
			if err != nil {
				return "", err
			}
			values[v] = t
		}
	}
	if len(errs) > 0 {
		return "", fmt.Errorf("layer: %w", errors.Join(errs...))
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if old := ctx.GetVariable(name); old != nil {
			if !old.Shape().Equal(values[name].Shape()) {
				return "", fmt.Errorf("layer: variable %s in scope %s is %s already, the weights are %s", name, ctx.Scope(), old.Shape(), values[name].Shape())
			}
			if err := old.SetValue(values[name]); err != nil {
				return "", fmt.Errorf("layer: variable %s in scope %s: %w", name, ctx.Scope(), err)
			}
			continue
		}
		ctx.VariableWithValue(name, values[name])
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

// check compares a tensor with what the configuration makes it.
func (s stored) check(prefix string, a *array.Array) error {
	if !slices.Equal(a.Shape, s.shape) {
		return fmt.Errorf("tensor %s is %v, want the shape %v", prefix+s.name, a, s.shape)
	}
	if a.Type != ir.F32 && a.Type != ir.BF16 && a.Type != ir.F16 {
		return fmt.Errorf("tensor %s is %v, want f32, bf16 or f16", prefix+s.name, a)
	}
	return nil
}

// element is the type in which a variable is held.
func element(variable string, d dtypes.DType) ir.DType {
	if variable == VarALog || variable == VarDtBias {
		return ir.F32
	}
	e, _ := device.ElementType(d)
	return e
}

// transposed tells the variables that are [in, out] here and [out, in] in a file.
func transposed(variable string) bool {
	switch variable {
	case VarQKV, VarZ, VarB, VarA, VarOut:
		return true
	}
	return false
}

// toVariable picks a variable's rows out of a stored tensor and turns matrices.
func (c Config) toVariable(s stored, variable string, a *array.Array, d dtypes.DType) *array.Array {
	shape := c.variableShapes()[variable]
	a = a.Convert(element(variable, d))
	if !transposed(variable) {
		return a.Reshape(shape...)
	}
	out := array.New(a.Type, shape...)
	size, in, n := a.Type.Bytes(), shape[0], shape[1]
	for j, row := range c.rows(s, variable) {
		for i := range in {
			copy(out.Data[(i*n+j)*size:][:size], a.Data[(row*in+i)*size:][:size])
		}
	}
	return out
}

// fromVariable is the inverse, into the stored tensor.
func (c Config) fromVariable(s stored, variable string, from, to *array.Array) {
	from = from.Convert(to.Type)
	if !transposed(variable) {
		copy(to.Data, from.Data)
		return
	}
	size, in, n := from.Type.Bytes(), from.Shape[0], from.Shape[1]
	for j, row := range c.rows(s, variable) {
		for i := range in {
			copy(to.Data[(row*in+i)*size:][:size], from.Data[(i*n+j)*size:][:size])
		}
	}
}

// Save gives the tensors of the layer in the scope of ctx, in a format and element type (float32, bfloat16 or float16), to be
// written with array.WriteSafetensors. Loading and saving in the type of the file gives the same bits.
func Save(ctx *context.Context, prefix string, c Config, f Format, d dtypes.DType) (*array.File, error) {
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
		for _, name := range s.vars {
			v := ctx.GetVariable(name)
			if v == nil {
				return nil, fmt.Errorf("layer: scope %s has no variable %s, of which tensor %s is made", ctx.Scope(), name, prefix+s.name)
			}
			if want := c.variableShapes()[name]; !slices.Equal(v.Shape().Dimensions, want) {
				return nil, fmt.Errorf("layer: variable %s in scope %s is %s, want %v", name, ctx.Scope(), v.Shape(), want)
			}
			t, err := v.Value()
			if err != nil {
				return nil, fmt.Errorf("layer: variable %s in scope %s: %w", name, ctx.Scope(), err)
			}
			from, err := device.Array(t)
			if err != nil {
				return nil, err
			}
			c.fromVariable(s, name, from, to)
		}
		file.Tensors[prefix+s.name] = to
		file.Names = append(file.Names, prefix+s.name)
	}
	return file, nil
}
