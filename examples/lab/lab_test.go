package lab

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/layers"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/stretchr/testify/require"
	"gonum.org/v1/plot/plotter"

	"github.com/gdngen/gdngen/gdn/layer"
	"github.com/gdngen/gdngen/gdn/layer/device"
)

const (
	symbols, steps = 8, 12
	childDir       = "GDNGEN_LAB_DIR"
	childStop      = "GDNGEN_LAB_STOP" // the write in the middle of which the child waits to be killed
)

// trainTiny trains a model to repeat what it saw three tokens ago.
func trainTiny(dir string) (*Result, error) {
	b, err := OpenBackend(context.Background(), device.Go, nil)
	if err != nil {
		return nil, err
	}
	c := Config{Steps: steps, Save: 1, Dir: dir, Seed: 3,
		Model: func(scope *model.Scope, _ any, in []*Node) []*Node {
			x := layers.Embedding(scope.In("embed"), in[0], dtypes.Float32, symbols, 16)
			x = Add(x, layer.New(scope.In("gdn"), layer.RMSNorm(scope.In("norm"), x)).Heads(1, 2).HeadDims(8, 8).Done())
			return []*Node{layer.Linear(scope.In("logits"), x, symbols)}
		},
		Batch: func(step int) (inputs, labels []*tensors.Tensor) {
			r := rand.New(rand.NewPCG(5, uint64(step)))
			x, y := make([]int32, 2*16), make([]int32, 2*16)
			for i := range x {
				x[i] = int32(r.IntN(symbols))
				if i%16 >= 3 {
					y[i] = x[i-3]
				}
			}
			return []*tensors.Tensor{tensors.FromFlatDataAndDimensions(x, 2, 16, 1)}, []*tensors.Tensor{tensors.FromFlatDataAndDimensions(y, 2, 16, 1)}
		}}
	store, err := NewStore(c)
	if err != nil {
		return nil, err
	}
	return Train(context.Background(), b, store, c)
}

// TestChild is the run that is killed: it does nothing unless it is a child.
func TestCounts(t *testing.T) {
	f := flag.NewFlagSet("x", flag.ContinueOnError)
	f.Int("a", 1, "")
	f.Int("b", 1, "")
	require.NoError(t, f.Parse([]string{"-a", "3"}))
	require.NoError(t, Counts(f, "a", "b"))
	require.NoError(t, f.Parse([]string{"-a", "0", "-b", "-2", "more"}))
	require.EqualError(t, Counts(f, "a", "b"), "-a 0: want at least 1\n-b -2: want at least 1\nthere are no arguments, only flags: [\"more\"] is left over")
}

func TestChild(t *testing.T) {
	dir := os.Getenv(childDir)
	if dir == "" {
		return
	}
	left := len(os.Getenv(childStop))
	duringWrite = func() {
		if left--; left == 0 {
			os.Stdout.WriteString("in the middle of a write\n")
			time.Sleep(time.Minute)
		}
	}
	_, err := trainTiny(dir)
	require.NoError(t, err)
}

// A run that is killed in the middle of writing a checkpoint, again and again, ends with the losses of one that was not.
func TestKilledWhileWriting(t *testing.T) {
	want, err := trainTiny("")
	require.NoError(t, err)
	require.Len(t, want.Losses, steps)
	require.Less(t, want.Losses[steps-1], want.Losses[0])

	dir := t.TempDir()
	self, err := os.Executable()
	require.NoError(t, err)
	for _, writes := range []int{1, 4, 3} {
		c := exec.Command(self, "-test.run=^TestChild$")
		c.Env = append(os.Environ(), childDir+"="+dir, childStop+"="+strings.Repeat("x", writes))
		out, err := c.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, c.Start())
		line, err := bufio.NewReader(out).ReadString('\n')
		require.NoError(t, err)
		require.Equal(t, "in the middle of a write\n", line)
		require.NoError(t, c.Process.Kill())
		require.Error(t, c.Wait())
		part, err := os.Stat(filepath.Join(dir, CheckpointName+".part"))
		require.NoError(t, err)
		require.Positive(t, part.Size())
	}
	got, err := trainTiny(dir)
	require.NoError(t, err)
	require.Equal(t, 5, got.Resumed) // 0 + 3 + 2 whole checkpoints
	require.Equal(t, want.Losses, got.Losses)
	require.NoFileExists(t, filepath.Join(dir, CheckpointName+".part"))
	plot, err := os.ReadFile(filepath.Join(dir, PlotName))
	require.NoError(t, err)
	require.Contains(t, string(plot), "<svg")
	require.Contains(t, string(plot), ">mean of some 20<")

	again, err := trainTiny(dir) // nothing is left to do
	require.NoError(t, err)
	require.Equal(t, steps, again.Resumed)
	text, err := json.Marshal(again)
	require.NoError(t, err)
	require.Contains(t, string(text), `"steps":12`)
}

// A run that is complete says its merit when it is called again, and in a pipe the progress has no lines for it.
func TestCompleteRun(t *testing.T) {
	dir := t.TempDir()
	first, err := trainTiny(dir)
	require.NoError(t, err)
	b, err := OpenBackend(context.Background(), device.Go, nil)
	require.NoError(t, err)
	var told strings.Builder
	c := Config{Steps: steps, Every: 5, Dir: dir, Seed: 3, Progress: &told, Evaluate: func() (float64, error) { return .25, nil }}
	store, err := NewStore(c)
	require.NoError(t, err)
	again, err := Train(context.Background(), b, store, c)
	require.NoError(t, err)
	require.Equal(t, .25, again.Merit)
	require.Equal(t, first.Losses, again.Losses)
	require.Equal(t, "the checkpoint has 12 steps\n", told.String())
}

// The running mean begins at the first loss and leaves out what is not finite.
func TestCurves(t *testing.T) {
	raw, mean := curves([]float64{4, math.NaN(), 2, math.Inf(1), 2})
	require.Equal(t, plotter.XYs{{X: 1, Y: 4}, {X: 3, Y: 2}, {X: 5, Y: 2}}, raw)
	require.Equal(t, 4., mean[0].Y)
	require.InDelta(t, (.95*4+2)/1.95, mean[1].Y, 1e-12)
	require.InDelta(t, (.95*.95*4+.95*2+2)/(.95*.95+.95+1), mean[2].Y, 1e-12)
	require.NoError(t, Plot(filepath.Join(t.TempDir(), "none", PlotName), "one loss", []float64{1}), "nothing to draw")
}

// A file that is no checkpoint is an error, not a new start.
func TestDamagedCheckpoint(t *testing.T) {
	path := filepath.Join(t.TempDir(), CheckpointName)
	require.NoError(t, os.WriteFile(path, []byte("half of it"), 0o644))
	_, err := Restore(path, model.NewStore())
	require.ErrorContains(t, err, "checkpoint")
}
