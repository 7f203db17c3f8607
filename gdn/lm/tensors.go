package lm

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/gdngen/gdngen/gdn/layer"
	"github.com/gdngen/gdngen/gdn/layer/device"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/array"
)

// weight is a variable made of the rows of one tensor, or of the tensors of all experts in turn.
type weight struct {
	layer   int // -1: the whole model
	name    string
	shape   []int
	tensors []string
	other   string // alternative name in files
}

// in returns the scope of a layer, or of the whole model.
func in(scope *model.Scope, layer int) *model.Scope {
	if layer < 0 {
		return scope
	}
	return scope.At("layer_%d", layer)
}

// weights returns the weights of a model except its rules'.
func (c Config) weights(prefix string) []weight {
	list := []weight{
		{-1, "embed_tokens", []int{c.Vocabulary, c.Hidden}, []string{prefix + "embed_tokens.weight"}, ""},
		{-1, "norm", []int{c.Hidden}, []string{prefix + "norm.weight"}, ""},
	}
	if !c.Tied {
		list = append(list, weight{-1, "lm_head", []int{c.Vocabulary, c.Hidden}, []string{"lm_head.weight"}, ""})
	}
	for i, attention := range c.Attention {
		at := fmt.Sprintf("%slayers.%d.", prefix, i)
		put := func(under, tensor, name string, shape ...int) {
			list = append(list, weight{i, name, shape, []string{at + under + tensor + ".weight"}, at + c.others[under+tensor] + ".weight"})
		}
		first := []string{"input_layernorm", "post_attention_layernorm"}
		if attention && c.postNorm {
			first = []string{"post_attention_layernorm", "post_feedforward_layernorm"}
		}
		for _, n := range first {
			put("", n, n, c.Hidden)
		}
		if c.Sparse[i] {
			list = append(list, c.mixture(i, at+c.sparse)...)
		} else {
			put("mlp.", "gate_proj", "gate_proj", c.Width, c.Hidden)
			put("mlp.", "up_proj", "up_proj", c.Width, c.Hidden)
			put("mlp.", "down_proj", "down_proj", c.Hidden, c.Width)
		}
		if !attention {
			continue
		}
		const self = "self_attn."
		queries, keys := c.Heads*c.HeadDim, c.KVHeads*c.HeadDim
		if l := c.Latent; l.Rank > 0 {
			put(self, "q_proj", "q_proj", queries, c.Hidden)
			put(self, "kv_a_proj_with_mqa", "kv_a_proj", l.Rank+l.Whole, c.Hidden)
			put(self, "kv_a_layernorm", "kv_a_norm", l.Rank)
			put(self, "kv_b_proj", "kv_b_proj", c.Heads*(l.Key+l.Value), l.Rank)
			put(self, "o_proj", "o_proj", c.Hidden, c.Heads*l.Value)
			continue
		}
		gated, normQ, normK := queries, c.HeadDim, c.HeadDim
		if c.gate {
			gated = 2 * queries
		}
		if c.postNorm {
			normQ, normK = queries, keys
		}
		put(self, "q_proj", "q_proj", gated, c.Hidden)
		put(self, "k_proj", "k_proj", keys, c.Hidden)
		put(self, "v_proj", "v_proj", keys, c.Hidden)
		put(self, "o_proj", "o_proj", c.Hidden, queries)
		put(self, "q_norm", "q_norm", normQ)
		put(self, "k_norm", "k_norm", normK)
	}
	return list
}

// mixture returns the weights of a mixture of experts with tensor prefix at.
func (c Config) mixture(i int, at string) []weight {
	e, gate, up, down := c.Experts, c.expert[0], c.expert[1], c.expert[2]
	shared := at + c.shared + "."
	list := []weight{
		{i, "router", []int{e.Count, c.Hidden}, []string{at + "gate.weight"}, ""},
		{i, "shared_gate_proj", []int{e.Shared, c.Hidden}, []string{shared + "gate_proj.weight"}, ""},
		{i, "shared_up_proj", []int{e.Shared, c.Hidden}, []string{shared + "up_proj.weight"}, ""},
		{i, "shared_down_proj", []int{c.Hidden, e.Shared}, []string{shared + "down_proj.weight"}, ""},
	}
	if e.Sigmoid {
		list = append(list, weight{i, "router_bias", []int{e.Count}, []string{at + "gate.e_score_correction_bias"}, ""})
	} else {
		list = append(list, weight{i, "shared_gate", []int{1, c.Hidden}, []string{at + "shared_expert_gate.weight"}, ""})
	}
	in := weight{i, "experts_in", []int{e.Count, 2 * e.Width, c.Hidden}, nil, at + "experts.gate_up_proj"}
	out := weight{i, "experts_out", []int{e.Count, c.Hidden, e.Width}, nil, at + "experts.down_proj"}
	for n := range e.Count {
		one := fmt.Sprintf("%sexperts.%d.", at, n)
		in.tensors = append(in.tensors, one+gate+".weight", one+up+".weight")
		out.tensors = append(out.tensors, one+down+".weight")
	}
	return append(list, in, out)
}

// load reads the weights of the model into a scope, on the device.
func (c Config) load(b compute.Backend, scope *model.Scope, w *layer.Weights, d dtypes.DType) error {
	names, prefix := map[string]bool{}, ""
	for _, n := range w.Names() {
		names[n] = true
	}
	for _, p := range c.prefixes {
		if names[p+"embed_tokens.weight"] {
			prefix = p
		}
	}
	if prefix == "" {
		return fmt.Errorf("no tensor %sembed_tokens.weight is there", strings.Join(c.prefixes, "embed_tokens.weight or "))
	}
	e, _ := device.ElementType(d)
	var errs []error
	for _, v := range c.weights(prefix) {
		if names[v.other] {
			v.tensors = []string{v.other}
		}
		type_ := e
		if v.name == "router" || v.name == "router_bias" { // rounding the router would choose other experts
			type_ = ir.F32
		}
		to := in(scope, v.layer)
		errs = append(errs, v.read(w, type_, to), settle(b, to))
	}
	for i, attention := range c.Attention {
		if !attention {
			_, err := layer.Load(in(scope, i).At("gdn"), w, fmt.Sprintf("%slayers.%d.%s", prefix, i, c.mixer), c.Layer, d)
			errs = append(errs, err, settle(b, in(scope, i)))
		}
	}
	return errors.Join(errs...)
}

// read creates the variable from its tensors.
func (v weight) read(w *layer.Weights, e ir.DType, to *model.Scope) error {
	var all *array.Array
	for i, name := range v.tensors {
		a, err := w.Read(name)
		if err != nil {
			return err
		}
		if !a.Type.IsFloat() {
			return fmt.Errorf("tensor %s is %v, want f32, bf16 or f16", name, a)
		}
		if want := v.one(); !slices.Equal(a.Shape, want) {
			return fmt.Errorf("tensor %s is %v, want the shape %v", name, a, want)
		}
		if len(v.tensors) == 1 {
			all = a.Convert(e)
			break
		}
		if all == nil {
			all = array.New(e, v.shape...)
		}
		copy(all.Data[i*len(all.Data)/len(v.tensors):], a.Convert(e).Data)
	}
	t, err := device.Tensor(all)
	if err == nil {
		_, err = to.CreateVariable(v.name, t)
	}
	return err
}

// settle moves the variables of a scope to the device and frees the host copies.
func settle(b compute.Backend, scope *model.Scope) error {
	var errs []error
	for v := range scope.IterVariables() {
		t, err := v.Value()
		if err == nil {
			err = t.ToDevice(b, 0)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// one returns the shape of each tensor.
func (v weight) one() []int {
	if n := len(v.tensors); len(v.shape) == 3 && n > 1 {
		return []int{v.shape[0] * v.shape[1] / n, v.shape[2]}
	}
	return v.shape
}

// Save writes the weights of a model in a scope to safetensors files in a folder, with the model type's names, in element type d. Open reads them together
// with the config.json of c.
func Save(folder string, scope *model.Scope, c Config, d dtypes.DType) error {
	f, err := c.save(scope, d)
	if err != nil {
		return err
	}
	return array.WriteSafetensors(filepath.Join(folder, layer.SingleName), f)
}

// save returns the tensors of a model in a scope with the first prefix, in the form that load reads.
func (c Config) save(scope *model.Scope, d dtypes.DType) (*array.File, error) {
	e, _ := device.ElementType(d)
	f := &array.File{Tensors: map[string]*array.Array{}}
	for _, v := range c.weights(c.prefixes[0]) {
		variable := in(scope, v.layer).GetVariable(v.name)
		if variable == nil {
			return nil, fmt.Errorf("lm: scope %s has no variable %s", in(scope, v.layer).Scope(), v.name)
		}
		t, err := variable.Value()
		if err != nil {
			return nil, fmt.Errorf("lm: %w", err)
		}
		a, err := device.Array(t)
		if err != nil {
			return nil, err
		}
		a = a.Convert(e)
		size := len(a.Data) / len(v.tensors)
		for i, name := range v.tensors {
			one := array.New(e, v.one()...)
			copy(one.Data, a.Data[i*size:(i+1)*size])
			f.Tensors[name], f.Names = one, append(f.Names, name)
		}
	}
	for i, attention := range c.Attention {
		if attention {
			continue
		}
		one, err := layer.Save(in(scope, i).At("gdn"), fmt.Sprintf("%slayers.%d.%s", c.prefixes[0], i, c.mixer), c.Layer, c.format(), d)
		if err != nil {
			return nil, err
		}
		for _, name := range one.Names {
			f.Tensors[name], f.Names = one.Tensors[name], append(f.Names, name)
		}
	}
	return f, nil
}

// format returns the tensor format of the model type's rules.
func (c Config) format() layer.Format {
	switch {
	case c.Type == "qwen3_next":
		return layer.Qwen3Next
	case c.postNorm:
		return layer.OlmoHybrid
	case c.firstFull:
		return layer.KimiLinear
	}
	return layer.Qwen35
}
