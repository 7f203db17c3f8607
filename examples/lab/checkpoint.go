package lab

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/gdngen/gdngen/gdn/layer/device"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/array"
)

// CheckpointName is the file of a run's folder that holds its checkpoint, and PlotName its loss.
const (
	CheckpointName = "checkpoint.safetensors"
	PlotName       = "loss.svg"
)

// Variables other than floats are stored as another type of the same width; the stored name tells the type.
const (
	metaLosses = "losses"
	markU64    = "@u64"
)

// duringWrite is called in the middle of a write; tests stop there.
var duringWrite = func() {}

// Save writes every variable of a store, the optimizer's too, and the losses of all steps so far. The file is replaced
// atomically: at any time there is a complete checkpoint, the old or the new one.
func Save(path string, store *model.Store, losses []float64) error {
	text, err := json.Marshal(losses)
	if err != nil {
		return err
	}
	f := &array.File{Tensors: map[string]*array.Array{}, Metadata: map[string]string{metaLosses: string(text)}}
	for v := range store.IterVariables() {
		if !v.HasValue() {
			continue
		}
		t, err := v.Value()
		if err != nil {
			return fmt.Errorf("checkpoint: variable %s: %w", v.Path(), err)
		}
		name := v.Path()
		if t.DType() == dtypes.Uint64 {
			a := array.New(ir.I64, t.Shape().Dimensions...)
			if err := t.ConstBytes(func(b []byte) { copy(a.Data, b) }); err != nil {
				return err
			}
			f.Tensors[name+markU64] = a
			continue
		}
		if f.Tensors[name], err = device.Array(t); err != nil {
			return fmt.Errorf("checkpoint: variable %s: %w", name, err)
		}
	}
	data, err := f.Bytes()
	if err != nil {
		return err
	}
	tmp := path + ".part"
	w, err := os.Create(tmp)
	if err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	_, err = w.Write(data[:len(data)/2])
	duringWrite()
	if err == nil {
		_, err = w.Write(data[len(data)/2:])
	}
	if err = errors.Join(err, w.Sync(), w.Close()); err == nil {
		err = os.Rename(tmp, path)
	}
	if err != nil {
		return fmt.Errorf("checkpoint: writing %s: %w", path, err)
	}
	return nil
}

// Restore puts the variables of a checkpoint into a store, before its model is built, and returns the losses; nil if
// there is no checkpoint. It removes the rest of a write that was killed.
func Restore(path string, store *model.Store) ([]float64, error) {
	if err := os.Remove(path + ".part"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("checkpoint: %w", err)
	}
	f, err := array.ReadSafetensors(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("checkpoint: %w", err)
	}
	var losses []float64
	if err := json.Unmarshal([]byte(f.Metadata[metaLosses]), &losses); err != nil {
		return nil, fmt.Errorf("checkpoint: %s: metadata %s: %w", filepath.Base(path), metaLosses, err)
	}
	for name, a := range f.Tensors {
		t, err := device.Tensor(a)
		if plain, ok := strings.CutSuffix(name, markU64); ok {
			name = plain
			t = tensors.FromShape(shapes.Make(dtypes.Uint64, a.Shape...))
			err = t.MutableBytes(func(b []byte) { copy(b, a.Data) })
		}
		if err != nil {
			return nil, fmt.Errorf("checkpoint: %s: %w", name, err)
		}
		v := store.GetVariable(name)
		if v == nil {
			_, err = store.CreateVariable(name, t)
		} else {
			err = v.SetValue(t)
		}
		if err != nil {
			return nil, fmt.Errorf("checkpoint: %s: %w", name, err)
		}
	}
	return losses, nil
}
