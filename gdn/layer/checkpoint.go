package layer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"

	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/published"
	"github.com/gdngen/gdngen/ir/array"
)

// IndexName is the file that maps each tensor to a shard of the model. SingleName is the weights file of an unsharded model.
const (
	IndexName  = "model.safetensors.index.json"
	SingleName = "model.safetensors"
)

// Weights are the tensors of a model in one or several safetensors files. A file is opened when one of its tensors is first
// read, and only the tensors that are read are loaded.
type Weights struct {
	where  map[string]string // tensor -> file
	files  map[string]*array.File
	failed map[string]error // by file that cannot be opened
	mapped map[string][]byte
	close  []func() error
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
	w := &Weights{where: map[string]string{}, files: map[string]*array.File{}, failed: map[string]error{}, mapped: map[string][]byte{}}
	if filepath.Ext(path) == ".json" {
		return w, w.index(path)
	}
	f, err := w.file(path)
	if err != nil {
		return nil, err
	}
	for _, names := range []iter.Seq[string]{maps.Keys(f.Tensors), maps.Keys(f.Opaque)} {
		for name := range names {
			w.where[name] = path
		}
	}
	return w, nil
}

// WeightsOf returns Weights of tensors in memory.
func WeightsOf(tensors map[string]*array.Array) *Weights {
	w := &Weights{where: map[string]string{}, files: map[string]*array.File{"": {Tensors: tensors}}}
	for name := range tensors {
		w.where[name] = ""
	}
	return w
}

// index reads the shard index.
func (w *Weights) index(path string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("layer: weights: %w", err)
	}
	var index struct {
		WeightMap weightMap `json:"weight_map"`
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

// weightMap maps tensors to files.
type weightMap map[string]string

// UnmarshalJSON refuses duplicate names, since one of them would be lost.
func (m *weightMap) UnmarshalJSON(data []byte) error {
	if err := json.Unmarshal(data, (*map[string]string)(m)); err != nil {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(data))
	first := map[string]string{}
	if _, err := d.Token(); err != nil {
		return err
	}
	for d.More() { // an object of strings, as checked above
		var file json.Token
		name, err := d.Token()
		if err == nil {
			file, err = d.Token()
		}
		if err != nil {
			return err
		}
		key, value := name.(string), fmt.Sprint(file)
		if was, twice := first[key]; twice {
			return fmt.Errorf("weight_map has tensor %s twice, in %s and in %s: keep one", key, was, value)
		}
		first[key] = value
	}
	return nil
}

// file opens a shard, once.
func (w *Weights) file(path string) (*array.File, error) {
	if f := w.files[path]; f != nil {
		return f, nil
	}
	if err := w.failed[path]; err != nil {
		return nil, err
	}
	f, err := w.open(path)
	if err != nil {
		w.failed[path] = err
		return nil, err
	}
	return f, nil
}

func (w *Weights) open(path string) (*array.File, error) {
	data, release, err := mapFile(path)
	if err != nil {
		return nil, fmt.Errorf("layer: weights: %w", err)
	}
	f, err := array.ParseSafetensors(data)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("layer: weights: %s: %w", path, err), release())
	}
	w.files[path], w.mapped[path], w.close = f, data, append(w.close, release)
	return f, nil
}

// Names returns the names of the tensors, sorted.
func (w *Weights) Names() []string { return slices.Sorted(maps.Keys(w.where)) }

// Read returns a copy of a tensor. It fails for an unknown name, and if the file was truncated after it was opened.
func (w *Weights) Read(name string) (a *array.Array, err error) {
	path, ok := w.where[name]
	if !ok {
		return nil, fmt.Errorf("tensor %s is missing", name)
	}
	f, err := w.file(path)
	if err != nil {
		return nil, err
	}
	a, err = f.Tensor(name)
	if f.Opaque[name] != "" {
		return nil, err
	}
	if a == nil {
		return nil, fmt.Errorf("tensor %s is missing from %s, where the index says it is", name, path)
	}
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true)) // reading mapped pages of a truncated file faults
	defer func() {
		if bad := recover(); bad != nil {
			a, err = nil, fmt.Errorf("tensor %s can not be read from %s, which was cut or lost since it was opened: %v", name, path, bad)
		}
	}()
	defer forget(w.mapped[path], a.Data)
	return a.Clone(), nil
}

// Close unmaps and closes the files.
func (w *Weights) Close() error {
	var errs []error
	for _, f := range w.close {
		errs = append(errs, f())
	}
	w.close, w.files, w.mapped = nil, map[string]*array.File{}, map[string][]byte{}
	return errors.Join(errs...)
}

// ReadConfig reads the sizes and options of a model's layers from its config.json, or from the text part inside. Models unknown to
// package gdn/published, and unsupported field values, are errors.
func ReadConfig(path string) (Config, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return Config{}, fmt.Errorf("layer: config: %w", err)
	}
	f, err := published.Read(data)
	if err != nil {
		return Config{}, fmt.Errorf("layer: config: %s: %w", path, err)
	}
	m := f.Mixer
	c := Config{Hidden: f.Hidden, HeadsK: m.HeadsK, HeadsV: m.HeadsV, KeyDim: m.K, ValueDim: m.V, ConvWidth: m.Conv, NormEps: m.NormEps, NegEigval: m.NegEigval,
		Rule: m.Rule, Bound: m.Bound, DecayRank: m.DecayRank, GateRank: m.GateRank, OutputGate: m.OutputGate}
	if c.OutputGate == usualGates[c.Rule] {
		c.OutputGate = ""
	}
	if m.Conv == 0 {
		return Config{}, fmt.Errorf("layer: config: %s: use_short_conv is false; a layer here has a short convolution", path)
	}
	return c, c.Check()
}
