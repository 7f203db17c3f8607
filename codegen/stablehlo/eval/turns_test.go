package eval_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/codegen/stablehlo/eval"
)

// The inner loop has as many turns as an operand says, once for each of the outer; what no condition needs is not computed.
const nested = `module @m {
  func.func public @main(%n: tensor<i32>, %x: tensor<1048576xf32>) -> (tensor<i32>, tensor<1048576xf32>) {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %three = stablehlo.constant dense<3> : tensor<i32>
    %r:2 = stablehlo.while(%i = %zero, %v = %x) : tensor<i32>, tensor<1048576xf32>
     cond {
      %c = stablehlo.compare LT, %i, %three, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %s:2 = stablehlo.while(%j = %zero, %w = %v) : tensor<i32>, tensor<1048576xf32>
       cond {
        %c = stablehlo.compare LT, %j, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %c : tensor<i1>
      } do {
        %k = stablehlo.add %j, %one : tensor<i32>
        %y = stablehlo.add %w, %w : tensor<1048576xf32>
        stablehlo.return %k, %y : tensor<i32>, tensor<1048576xf32>
      }
      %k = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %k, %s#1 : tensor<i32>, tensor<1048576xf32>
    }
    return %r#0, %r#1 : tensor<i32>, tensor<1048576xf32>
  }
}`

func TestTurns(t *testing.T) {
	got, err := eval.Turns(nested, map[int][]int64{0: {5}})
	require.NoError(t, err)
	require.Equal(t, map[int]int64{6: 3, 11: 15}, got)
	got, err = eval.Turns(nested, map[int][]int64{0: {0}})
	require.NoError(t, err)
	require.Equal(t, map[int]int64{6: 3, 11: 0}, got)
	_, err = eval.Turns(nested, nil)
	require.EqualError(t, err, "the turns of a loop depend on operand 0, whose values are not known")
	_, err = eval.Turns(nested, map[int][]int64{0: {5, 6}})
	require.EqualError(t, err, "operand 0 is tensor<i32>, and 2 integers are given")
}
