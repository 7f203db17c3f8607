package layer

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/ir/array"
)

// IndexName is the file that says in which shard of a model each tensor is, and SingleName the model that has one file.
const (
	IndexName  = "model.safetensors.index.json"
	SingleName = "model.safetensors"
)

// Weights are the tensors of a model in one or several safetensors files. Files are opened when a tensor of theirs is first
// read, and only the parts that are read are loaded.
type Weights struct {
	where map[string]string // tensor -> file
	files map[string]*array.File
	close []func() error
}

// OpenWeights opens a safetensors file, an index of shards, or a folder with either (model.safetensors.index.json, or
// model.safetensors).
func OpenWeights(path string) (*Weights, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("layer: weights: %w", err)
	}
	if info.IsDir() {
		folder := path
		path = filepath.Join(folder, IndexName)
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			path = filepath.Join(folder, SingleName)
		}
		if _, err := os.Stat(path); err != nil {
			return nil, fmt.Errorf("layer: weights: folder %s has neither %s nor %s", folder, IndexName, SingleName)
		}
	}
	w := &Weights{where: map[string]string{}, files: map[string]*array.File{}}
	if filepath.Ext(path) == ".json" {
		return w, w.index(path)
	}
	f, err := w.file(path)
	if err != nil {
		return nil, err
	}
	for name := range f.Tensors {
		w.where[name] = path
	}
	return w, nil
}

// WeightsOf are tensors in memory, as weights.
func WeightsOf(tensors map[string]*array.Array) *Weights {
	w := &Weights{where: map[string]string{}, files: map[string]*array.File{"": {Tensors: tensors}}}
	for name := range tensors {
		w.where[name] = ""
	}
	return w
}

// index reads the table of shards.
func (w *Weights) index(path string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("layer: weights: %w", err)
	}
	var index struct {
		WeightMap map[string]string `json:"weight_map"`
	}
	if err := json.Unmarshal(data, &index); err != nil {
		return fmt.Errorf("layer: weights: %s: %w", path, gdn.JSONError(data, err))
	}
	if len(index.WeightMap) == 0 {
		return fmt.Errorf("layer: weights: %s has no weight_map, the table of tensors and their files", path)
	}
	for name, file := range index.WeightMap {
		if !filepath.IsLocal(file) {
			return fmt.Errorf("layer: weights: %s: tensor %s is in %q, which leads out of the folder", path, name, file)
		}
		w.where[name] = filepath.Join(filepath.Dir(path), file)
	}
	return nil
}

// file opens a shard once.
func (w *Weights) file(path string) (*array.File, error) {
	if f := w.files[path]; f != nil {
		return f, nil
	}
	data, release, err := mapFile(path)
	if err != nil {
		return nil, fmt.Errorf("layer: weights: %w", err)
	}
	f, err := array.ParseSafetensors(data)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("layer: weights: %s: %w", path, err), release())
	}
	w.files[path], w.close = f, append(w.close, release)
	return f, nil
}

// Names lists the tensors, sorted.
func (w *Weights) Names() []string { return slices.Sorted(maps.Keys(w.where)) }

// Read gives a tensor, valid until Close.
func (w *Weights) Read(name string) (*array.Array, error) {
	path, ok := w.where[name]
	if !ok {
		return nil, fmt.Errorf("tensor %s is missing", name)
	}
	f, err := w.file(path)
	if err != nil {
		return nil, err
	}
	a := f.Tensors[name]
	if a == nil {
		return nil, fmt.Errorf("tensor %s is missing from %s, where the index says it is", name, path)
	}
	return a, nil
}

// Close lets the files go.
func (w *Weights) Close() error {
	var errs []error
	for _, f := range w.close {
		errs = append(errs, f())
	}
	w.close, w.files = nil, map[string]*array.File{}
	return errors.Join(errs...)
}

// modelConfig are the fields of a model's config.json that say what its linear-attention layers are.
type modelConfig struct {
	Hidden   *int     `json:"hidden_size"`
	HeadsK   *int     `json:"linear_num_key_heads"`
	HeadsV   *int     `json:"linear_num_value_heads"`
	KeyDim   *int     `json:"linear_key_head_dim"`
	ValueDim *int     `json:"linear_value_head_dim"`
	Conv     *int     `json:"linear_conv_kernel_dim"`
	Eps      *float64 `json:"rms_norm_eps"`
	Kimi     *struct {
		Heads    *int    `json:"num_heads"`
		Dim      *int    `json:"head_dim"`
		Conv     *int    `json:"short_conv_kernel_size"`
		Bound    float64 `json:"gate_lower_bound"`
		FullRank bool    `json:"use_full_rank_gate"` // of the output gate
	} `json:"linear_attn_config"`
}

// size is a field that must be there, and what it sets.
type size struct {
	name string
	from *int
	to   []*int
}

// sizes lists the fields of a configuration that set c.
func (f modelConfig) sizes(c *Config) []size {
	hidden := size{"hidden_size", f.Hidden, []*int{&c.Hidden}}
	if k := f.Kimi; k != nil {
		c.Rule, c.Bound = kda, k.Bound
		dim := []*int{&c.KeyDim, &c.ValueDim, &c.DecayRank}
		if !k.FullRank {
			dim = append(dim, &c.GateRank)
		}
		return []size{hidden, {"linear_attn_config.num_heads", k.Heads, []*int{&c.HeadsK, &c.HeadsV}}, {"linear_attn_config.head_dim", k.Dim, dim},
			{"linear_attn_config.short_conv_kernel_size", k.Conv, []*int{&c.ConvWidth}}}
	}
	return []size{hidden, {"linear_num_key_heads", f.HeadsK, []*int{&c.HeadsK}}, {"linear_num_value_heads", f.HeadsV, []*int{&c.HeadsV}},
		{"linear_key_head_dim", f.KeyDim, []*int{&c.KeyDim}}, {"linear_value_head_dim", f.ValueDim, []*int{&c.ValueDim}},
		{"linear_conv_kernel_dim", f.Conv, []*int{&c.ConvWidth}}}
}

// ReadConfig reads the sizes of a model's linear-attention layers from its config.json (or from the text_config in it), as those of
// Qwen3-Next, Qwen3.5 and Kimi Linear have them.
func ReadConfig(path string) (Config, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return Config{}, fmt.Errorf("layer: config: %w", err)
	}
	var whole struct {
		modelConfig
		Text *modelConfig `json:"text_config"`
	}
	if err := json.Unmarshal(data, &whole); err != nil {
		return Config{}, fmt.Errorf("layer: config: %s: %w", path, gdn.JSONError(data, err))
	}
	f := whole.modelConfig
	if whole.Text != nil {
		f = *whole.Text
	}
	c := Config{NormEps: 1e-6}
	for _, s := range f.sizes(&c) {
		if s.from == nil {
			return Config{}, fmt.Errorf("layer: config: %s: field %s is missing", path, s.name)
		}
		for _, to := range s.to {
			*to = *s.from
		}
	}
	if f.Eps != nil {
		c.NormEps = *f.Eps
	}
	return c, c.Check()
}
