package layer_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/ml/train/optimizer"

	"github.com/gdngen/gdngen/gdn/layer"
	"github.com/gdngen/gdngen/gdn/layer/device"
	"github.com/gdngen/gdngen/ir/array"
)

// The code of docs/layer.md is here (TestDocs).

// squares are some numbers, [batch, tokens, features].
func squares(batch, tokens, features int) *tensors.Tensor {
	v := make([]float32, batch*tokens*features)
	for i := range v {
		v[i] = float32(i*i%13) / 13
	}
	return tensors.FromFlatDataAndDimensions(v, batch, tokens, features)
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// A layer learns to give its input of two tokens ago.
func Example() {
	var backend compute.Backend
	backend, err := device.Open(context.Background(), device.Go, device.Options{}) // or device.XLA, with cgo and a plugin
	must(err)
	var store *model.Store = model.NewStore()
	store.SetParam(model.ParamInitialSeed, int64(1))
	adam := optimizer.Adam().LearningRate(.01).Done()
	var cfg layer.Config
	step, err := model.NewExec1(backend, store, func(scope *model.Scope, x *Node) *Node { // x [batch, tokens, features]
		b := layer.New(scope.In("gdn"), x).Heads(2, 4).HeadDims(8, 8).InitGain(1) // also Mask, CuSeqlens, Cache, NegativeEigenvalues
		cfg = b.Config()                                                          // all sizes, defaults too
		y := b.Done()
		loss := ReduceAllMean(Square(Sub(SliceAxis(y, 1, AxisRangeToEnd(2)), SliceAxis(x, 1, AxisRangeFromStart(-2)))))
		adam.UpdateGraph(scope, x.Graph(), loss)
		return loss
	})
	must(err)
	var x *tensors.Tensor = squares(2, 12, 16)
	var losses []float32
	for range 60 {
		loss, err := step.Call(x) // *tensors.Tensor
		must(err)
		losses = append(losses, tensors.ToScalar[float32](loss))
	}
	fmt.Println("the loss fell to less than a tenth:", losses[59] < losses[0]/10)

	path := filepath.Join(os.TempDir(), fmt.Sprintf("toy-%d.safetensors", os.Getpid()))
	defer os.Remove(path)
	file, err := layer.Save(store.Scope("/gdn"), "toy.", cfg, layer.Qwen35, dtypes.Float32) // *array.File
	must(err)
	must(array.WriteSafetensors(path, file))

	fresh := model.NewStore()
	weights, err := layer.OpenWeights(path) // *layer.Weights
	must(err)
	_, err = layer.Load(fresh.Scope("/gdn"), weights, "toy.", cfg, dtypes.Float32)
	must(err)
	session, err := layer.NewSession(backend, fresh.Scope("/gdn"), cfg, "")
	must(err)
	defer session.Finalize()
	prompt, err := session.Step(x, nil) // [2, 12, 16], as x
	must(err)
	next, err := session.Step(squares(2, 1, 16), nil) // a token more: the caches go on
	must(err)
	fmt.Println(prompt.Shape(), next.Shape())
	// Output:
	// the loss fell to less than a tenth: true
	// (Float32)[2, 12, 16] (Float32)[2, 1, 16]
}

// Kimi Delta Attention: each channel of a key has a decay of its own.
func ExampleBuilder_KDA() {
	backend, err := device.Open(context.Background(), device.Go, device.Options{})
	must(err)
	y, err := model.CallOnce(backend, model.NewStore(), func(scope *model.Scope, x *Node) *Node {
		return layer.New(scope.In("kda"), x).Heads(4, 4).HeadDims(8, 8).KDA(8, -5).Done() // rank 8; bound 0: none
	}, squares(1, 5, 16))
	must(err)
	fmt.Println(y.Shape())
	// Output: (Float32)[1, 5, 16]
}

// A layer is saved, and loaded into another store.
func ExampleSave() {
	backend, err := device.Open(context.Background(), device.Go, device.Options{})
	must(err)
	path := filepath.Join(os.TempDir(), fmt.Sprintf("toy-%d.safetensors", os.Getpid()))
	defer os.Remove(path)
	store, x := model.NewStore(), squares(1, 5, 16)
	var cfg layer.Config
	y, err := model.CallOnce(backend, store, func(scope *model.Scope, x *Node) *Node {
		b := layer.New(scope.In("gdn"), x).Heads(2, 4).HeadDims(8, 8)
		cfg = b.Config()
		return b.Done()
	}, x)
	must(err)

	file, err := layer.Save(store.Scope("/gdn"), "toy.", cfg, layer.Qwen35, dtypes.Float32) // *array.File
	must(err)
	must(array.WriteSafetensors(path, file))

	fresh := model.NewStore()
	weights, err := layer.OpenWeights(path) // *layer.Weights
	must(err)
	_, err = layer.Load(fresh.Scope("/gdn"), weights, "toy.", cfg, dtypes.Float32)
	must(err)
	use, err := model.NewExec1(backend, fresh, func(scope *model.Scope, x *Node) *Node {
		return layer.New(scope.In("gdn"), x).With(cfg).Done()
	})
	must(err)
	again, err := use.Call(x)
	must(err)
	fmt.Println("the same output:", again.Equal(y))
	// Output: the same output: true
}

// A layer of a model on disk takes a prompt, then a token a call.
func ExampleSession() {
	backend, err := device.Open(context.Background(), device.Go, device.Options{})
	must(err)
	folder, err := os.MkdirTemp("", "qwen")
	must(err)
	defer os.RemoveAll(folder)
	writeModel(backend, folder)

	cfg, err := layer.ReadConfig(filepath.Join(folder, "config.json")) // layer.Config; the rule comes with the sizes
	must(err)
	weights, err := layer.OpenWeights(folder) // *layer.Weights: one file, or shards by their index
	must(err)
	var scope *model.Scope = model.NewStore().Scope("/l0")
	format, err := layer.Load(scope, weights, "model.layers.0.linear_attn.", cfg, dtypes.Float32) // Kimi Linear: "model.layers.0.self_attn."
	must(err)
	session, err := layer.NewSession(backend, scope, cfg, "")
	must(err)
	defer session.Finalize()
	var prompt, next *tensors.Tensor = squares(1, 7, 16), squares(1, 1, 16) // [batch, tokens, hidden]
	y, err := session.Step(prompt, nil)
	must(err)
	fmt.Println(format, y.Shape())
	y, err = session.Step(next, nil) // the cache goes on
	must(err)
	fmt.Println(y.Shape())
	// Output:
	// qwen3.5 (Float32)[1, 7, 16]
	// (Float32)[1, 1, 16]
}

// writeModel writes a layer as a folder of a model has it.
func writeModel(backend compute.Backend, folder string) {
	const config = `{"model_type": "qwen3_5_text", "hidden_size": 16, "num_hidden_layers": 4, "full_attention_interval": 4,
		"linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 8, "linear_value_head_dim": 8,
		"linear_conv_kernel_dim": 4, "rms_norm_eps": 1e-6, "hidden_act": "silu"}`
	must(os.WriteFile(filepath.Join(folder, "config.json"), []byte(config), 0o644))
	cfg, err := layer.ReadConfig(filepath.Join(folder, "config.json"))
	must(err)
	store := model.NewStore()
	_, err = model.CallOnce(backend, store, func(scope *model.Scope, x *Node) *Node {
		return layer.New(scope.In("l0"), x).With(cfg).Done()
	}, squares(1, 2, 16))
	must(err)
	file, err := layer.Save(store.Scope("/l0"), "model.layers.0.linear_attn.", cfg, layer.Qwen35, dtypes.Float32)
	must(err)
	must(array.WriteSafetensors(filepath.Join(folder, "model.safetensors"), file))
}
