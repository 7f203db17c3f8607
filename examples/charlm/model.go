package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/gdngen/gdngen/gdn/lm"
)

// size has the sizes of a model and its kinds of layers.
type size struct {
	symbols, width, blocks, heads, dim int
	mixer                              string
}

// text returns the model's config.json in the form of Qwen3.5.
func (z size) text() ([]byte, error) {
	kinds := map[string][]string{"hybrid": {"linear_attention", "full_attention"}, "rule": {"linear_attention"}, "attention": {"full_attention"}}[z.mixer]
	if kinds == nil {
		return nil, fmt.Errorf("--mixer is %q, want hybrid, rule or attention", z.mixer)
	}
	layers := make([]string, z.blocks)
	for i := range layers {
		layers[i] = kinds[i%len(kinds)]
	}
	return json.MarshalIndent(map[string]any{
		"model_type": "qwen3_5_text", "vocab_size": z.symbols, "hidden_size": z.width, "intermediate_size": 2 * z.width,
		"num_hidden_layers": z.blocks, "layer_types": layers, "num_attention_heads": z.heads, "num_key_value_heads": z.heads, "head_dim": z.dim,
		"linear_num_key_heads": z.heads, "linear_num_value_heads": z.heads, "linear_key_head_dim": z.dim, "linear_value_head_dim": z.dim,
		"rope_parameters": map[string]any{"rope_type": "default", "rope_theta": 10000, "partial_rotary_factor": .5},
	}, "", "  ")
}

// config returns the model's configuration.
func (z size) config() (c lm.Config, err error) {
	folder, err := os.MkdirTemp("", "charlm")
	if err != nil {
		return c, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	text, err := z.text()
	if err != nil {
		return c, err
	}
	path := filepath.Join(folder, "config.json")
	if err := os.WriteFile(path, text, 0o644); err != nil {
		return c, err
	}
	return lm.ReadConfig(path)
}

// save writes the model into a folder.
func (z size) save(folder string, store *model.Store, c lm.Config) error {
	text, err := z.text()
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(folder, "config.json"), text, 0o644); err != nil {
		return err
	}
	return lm.Save(folder, store.RootScope(), c, dtypes.Float32)
}
