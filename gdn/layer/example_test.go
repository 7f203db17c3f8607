package layer_test

import (
	"context"
	"fmt"

	. "github.com/gomlx/gomlx/pkg/core/graph"
	"github.com/gomlx/gomlx/pkg/core/tensors"
	ml "github.com/gomlx/gomlx/pkg/ml/context"
	"github.com/gomlx/gomlx/pkg/ml/train/optimizers"

	"github.com/gdngen/gdngen/gdn/layer"
	"github.com/gdngen/gdngen/gdn/layer/device"
)

// A layer learns to give its input of two tokens ago.
func Example() {
	backend, err := device.Open(context.Background(), device.Go, device.Options{}) // or device.XLA
	if err != nil {
		panic(err)
	}
	ctx := ml.New()
	ctx.SetParam(ml.ParamInitialSeed, int64(1))
	adam := optimizers.Adam().LearningRate(.01).Done()
	step := ml.MustNewExec(backend, ctx.Checked(false), func(ctx *ml.Context, x *Node) *Node { // x [batch, tokens, features]
		y := layer.New(ctx.In("gdn"), x).Heads(2, 4).HeadDims(8, 8).InitGain(1).Done()
		loss := ReduceAllMean(Square(Sub(SliceAxis(y, 1, AxisRangeToEnd(2)), SliceAxis(x, 1, AxisRangeFromStart(-2)))))
		adam.UpdateGraph(ctx, x.Graph(), loss)
		return loss
	})
	x := tensors.FromFlatDataAndDimensions(make([]float32, 2*12*16), 2, 12, 16)
	tensors.MustMutableFlatData(x, func(v []float32) {
		for i := range v {
			v[i] = float32(i*i%13) / 13
		}
	})
	first := tensors.ToScalar[float32](step.MustExec(x)[0])
	var last float32
	for range 60 {
		last = tensors.ToScalar[float32](step.MustExec(x)[0])
	}
	fmt.Println("the loss fell to less than a tenth:", last < first/10)
	// Output: the loss fell to less than a tenth: true
}
