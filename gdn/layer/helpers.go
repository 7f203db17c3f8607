package layer

import (
	"math"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/ml/model/initializer"
)

// Building blocks for models around the layers, with gradients that are cheap on every backend.

// Linear multiplies the features of x [batch, tokens, in] by weights [in, out] in scope and returns [batch, tokens, out]. Its gradient is two
// matrix products.
func Linear(scope *model.Scope, x *Node, out int) *Node {
	in := x.Shape().Dim(-1)
	limit := math.Sqrt(6 / float64(in+out))
	w := scope.WithInitializer(uniform(scope, -limit, limit)).VariableWithShape("weights", shapes.Make(x.DType(), in, out))
	return project(x, w.NodeValue(x.Graph()))[0]
}

// RMSNorm divides the features of x by their root mean square and scales them by weights in scope.
func RMSNorm(scope *model.Scope, x *Node) *Node {
	n := x.Shape().Dim(-1)
	w := scope.WithInitializer(initializer.One).VariableWithShape("scale", shapes.Make(x.DType(), n)).NodeValue(x.Graph())
	y := ConvertDType(x, dtypes.Float32)
	y = Div(y, Sqrt(AddScalar(ReduceAndKeep(Square(y), ReduceMean, -1), 1e-6)))
	return Narrow(Mul(y, ExpandLeftToRank(ConvertDType(w, dtypes.Float32), x.Rank())), x.DType())
}
