module @loop {
  func.func public @main(%n: tensor<i32>, %x: tensor<64x1024xf32>, %y: tensor<1024xf32>) -> (tensor<64x1024xf32>) {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %three = stablehlo.constant dense<3> : tensor<i32>
    %r:2 = stablehlo.while(%i = %zero, %v = %x) : tensor<i32>, tensor<64x1024xf32>
     cond {
      %c = stablehlo.compare LT, %i, %three, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %s:2 = stablehlo.while(%j = %zero, %w = %v) : tensor<i32>, tensor<64x1024xf32>
       cond {
        %c = stablehlo.compare LT, %j, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %c : tensor<i1>
      } do {
        %row = stablehlo.dynamic_slice %w, %j, %zero, sizes = [1, 1024] : (tensor<64x1024xf32>, tensor<i32>, tensor<i32>) -> tensor<1x1024xf32>
        %y2 = stablehlo.reshape %y : (tensor<1024xf32>) -> tensor<1x1024xf32>
        %sum = stablehlo.add %row, %y2 : tensor<1x1024xf32>
        %new = stablehlo.dynamic_update_slice %w, %sum, %j, %zero : (tensor<64x1024xf32>, tensor<1x1024xf32>, tensor<i32>, tensor<i32>) -> tensor<64x1024xf32>
        %k = stablehlo.add %j, %one : tensor<i32>
        stablehlo.return %k, %new : tensor<i32>, tensor<64x1024xf32>
      }
      %k = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %k, %s#1 : tensor<i32>, tensor<64x1024xf32>
    }
    return %r#1 : tensor<64x1024xf32>
  }
}
