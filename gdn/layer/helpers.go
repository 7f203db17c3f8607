package layer

import (
	"math"

	"github.com/gomlx/gomlx/pkg/core/dtypes"
	. "github.com/gomlx/gomlx/pkg/core/graph"
	"github.com/gomlx/gomlx/pkg/core/shapes"
	"github.com/gomlx/gomlx/pkg/ml/context"
	"github.com/gomlx/gomlx/pkg/ml/context/initializers"
)

// What a model around the layers needs, with gradients that are cheap on every backend.

// Linear multiplies the features of x, [batch, tokens, in], by weights [in, out] of the scope of ctx. Its gradient is two
// matrix products.
func Linear(ctx *context.Context, x *Node, out int) *Node {
	in := x.Shape().Dim(-1)
	limit := math.Sqrt(6 / float64(in+out))
	w := ctx.WithInitializer(uniform(ctx, -limit, limit)).VariableWithShape("weights", shapes.Make(x.DType(), in, out))
	return project(x, w.ValueGraph(x.Graph()))[0]
}

// RMSNorm divides the features of x by their root mean square and scales them by weights of the scope of ctx.
func RMSNorm(ctx *context.Context, x *Node) *Node {
	n := x.Shape().Dim(-1)
	w := ctx.WithInitializer(initializers.One).VariableWithShape("scale", shapes.Make(x.DType(), n)).ValueGraph(x.Graph())
	y := ConvertDType(x, dtypes.Float32)
	y = Div(y, Sqrt(AddScalar(ReduceAndKeep(Square(y), ReduceMean, -1), 1e-6)))
	return narrow(Mul(y, ExpandLeftToRank(ConvertDType(w, dtypes.Float32), x.Rank())), x.DType())
}
