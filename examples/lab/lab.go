// Package lab trains the models of the examples: steps with a progress bar, held-out evaluations, a plot of the loss,
// and checkpoints from which a run resumes exactly.
package lab

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/gomlx/compute"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/ml/train"
	"github.com/gomlx/gomlx/ml/train/loss"
	"github.com/gomlx/gomlx/ml/train/optimizer"

	"github.com/gdngen/gdngen/gdn/layer/device"
	"github.com/gdngen/gdngen/pjrt/plugins"
)

// Batch returns the inputs and labels of a step. It must depend only on the step, so that a resumed run sees the same
// batches. Labels may end with weights, as in GoMLX's losses.
type Batch func(step int) (inputs, labels []*tensors.Tensor)

// Config is the configuration of a training run.
type Config struct {
	Model    train.ModelFn
	Batch    Batch
	Evaluate func() (float64, error) // a figure of merit on held-out data; nil: none
	Merit    string                  // its name
	Title    string                  // of the plot
	Target   float64                 // training stops when the merit reaches it; 0: never
	Steps    int
	Every    int // steps between evaluations
	Save     int // steps between checkpoints; 0: only at the end
	Dir      string
	Params   map[string]any // hyperparameters
	Seed     int64
	Progress io.Writer // nil: none
}

// Result is a finished run.
type Result struct {
	Steps   int       `json:"steps"`
	Losses  []float64 `json:"-"` // of every step from the first, also before a resumption
	Loss    float64   `json:"loss"`
	Merit   float64   `json:"-"`       // of the last evaluation, which callers print by its name
	Seconds float64   `json:"seconds"` // of this call
	Resumed int       `json:"resumed"` // the step from which this call resumed
}

// OpenBackend opens a backend by name (device.Open), with download progress on w.
func OpenBackend(ctx context.Context, name string, w io.Writer) (compute.Backend, error) {
	return device.Open(ctx, name, device.Options{Plugin: plugins.Options{Progress: w}})
}

// NewStore returns the store of a run, with hyperparameters and the random state.
func NewStore(c Config) (*model.Store, error) {
	store := model.NewStore()
	store.SetParams(map[string]any{optimizer.ParamOptimizer: "adamw", optimizer.ParamLearningRate: 3e-3})
	store.SetParams(c.Params)
	return store, store.SetRNGStateFromSeed(c.Seed)
}

// Train trains, resuming from the checkpoint in c.Dir if there is one. When stop is done it saves a checkpoint and
// returns after the current step.
func Train(stop context.Context, b compute.Backend, store *model.Store, c Config) (*Result, error) {
	start := time.Now()
	r := &run{config: c, store: store}
	if err := r.restore(); err != nil {
		return nil, err
	}
	r.trainer = train.NewTrainer(b, store, c.Model, loss.SparseCategoricalCrossEntropyLogits, optimizer.FromStore(store), nil, nil)
	told := newProgress(c, r.Resumed)
	done := false
	for step := r.Resumed; step < c.Steps && !done && stop.Err() == nil; step++ {
		var err error
		if done, err = r.step(step, told); err != nil {
			return nil, err
		}
		if !done && c.Save > 0 && (step+1)%c.Save == 0 {
			if err := r.save(); err != nil {
				return nil, err
			}
		}
	}
	told.close()
	if err := r.save(); err != nil {
		return nil, err
	}
	if n := len(r.Losses); c.Evaluate != nil && n > 0 && r.judged < n && stop.Err() == nil { // the run was complete before this call
		var err error
		if r.Merit, err = c.Evaluate(); err != nil {
			return nil, fmt.Errorf("evaluation of the checkpoint: %w", err)
		}
	}
	r.Steps, r.Seconds = len(r.Losses), time.Since(start).Seconds()
	if n := len(r.Losses); n > 0 {
		r.Loss = r.Losses[n-1]
	}
	return &r.Result, nil
}

// run is a training in progress.
type run struct {
	Result
	config  Config
	store   *model.Store
	trainer *train.Trainer
	judged  int // steps when Merit was found
}

// file returns the path of the checkpoint.
func (r *run) file() string { return filepath.Join(r.config.Dir, CheckpointName) }

// restore loads the checkpoint, if there is one.
func (r *run) restore() (err error) {
	if r.config.Dir == "" {
		return nil
	}
	if err := os.MkdirAll(r.config.Dir, 0o755); err != nil {
		return err
	}
	r.Losses, err = Restore(r.file(), r.store)
	r.Resumed = len(r.Losses)
	return err
}

// save writes the checkpoint and the plot.
func (r *run) save() error {
	if r.config.Dir == "" {
		return nil
	}
	if err := Save(r.file(), r.store, r.Losses); err != nil {
		return err
	}
	return Plot(filepath.Join(r.config.Dir, PlotName), r.config.Title, r.Losses)
}

// step trains on one batch, and evaluates if due. last reports the last step: all are done, or the target is reached.
func (r *run) step(step int, told *progress) (last bool, err error) {
	inputs, labels := r.config.Batch(step)
	metrics, err := r.trainer.TrainStep(train.Batch{Inputs: inputs, Labels: labels})
	if err != nil {
		return false, fmt.Errorf("step %d: %w", step, err)
	}
	loss := float64(tensors.ToScalar[float32](metrics[0]))
	for _, m := range metrics {
		m.MustFinalizeAll()
	}
	r.Losses = append(r.Losses, loss)
	last = step+1 == r.config.Steps
	due := r.config.Every > 0 && (last || (step+1)%r.config.Every == 0)
	if r.config.Evaluate != nil && due {
		if r.Merit, err = r.config.Evaluate(); err != nil {
			return false, fmt.Errorf("evaluation after step %d: %w", step, err)
		}
		r.judged = step + 1
		last = last || r.config.Target > 0 && r.Merit >= r.config.Target
	}
	describe := fmt.Sprintf("loss %.4f", loss)
	if r.judged > 0 {
		describe += fmt.Sprintf(", %s %.3f", r.config.Merit, r.Merit)
	}
	told.step(step+1, describe, due || last)
	return last, nil
}
