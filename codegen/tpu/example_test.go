package tpu_test

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gdngen/gdngen/codegen/pass"
	"github.com/gdngen/gdngen/codegen/tpu"
	"github.com/gdngen/gdngen/ir"
)

// Three chunks pass through three phases. Each step takes the next chunk into phase 0, and the
// chunks before it one phase further, so that the products of one chunk fill the latency of the
// state of another. Between phases a value waits in a ring, [place] here: two places are enough
// where the next phase is one step behind.
func ExamplePlaces() {
	m, err := ir.Parse(`module t (%x: f32[24,128]) -> (o) {
  %z = const {value=0} : f32[8,128]
  %o, %final = grid %x, %z {name=k, dims=(c:3:seq), in=([8,128]@(c,0)), out=([8,128]@(c,0):f32[24,128]), carry=([8,128]@(0,0)),
    steps=1, lags=[0, 1, 2], phases=(solve:1), lock=1} (%k: f32[8,128], %s: f32[8,128]) {
    %a = dot %k, %k {lb=[], rb=[], lc=[1], rc=[1], prec=f32} : f32[8,8] @products
    %t = dot %a, %a {lb=[], rb=[], lc=[1], rc=[0], prec=f32} : f32[8,8] @solve
    %u = dot %t, %s {lb=[], rb=[], lc=[1], rc=[0], prec=f32} : f32[8,128] @state
    %n = add %s, %u : f32[8,128] @state
    yield %u, %n
  } : f32[24,128], f32[8,128]
  yield %o
}`)
	if err != nil {
		panic(err)
	}
	tiled, err := pass.Apply(m, "tile")
	if err != nil {
		panic(err)
	}
	scheduled, places, err := tpu.Places(tiled)
	if err != nil {
		panic(err)
	}
	kernel := scheduled.Body.Instrs[1]
	fmt.Println("step", kernel.Attrs.Grid.Dims[0].Size, "of 3 chunks")
	step := 0
	for _, body := range kernel.Body.Instrs {
		// Each step has a body of its own, since each has other phases. What sets the state, in the second step, is in none.
		if body.Op != ir.OpWhen || !slices.ContainsFunc(body.Body.Instrs, func(in *ir.Instr) bool { _, ok := places[in]; return ok }) {
			continue
		}
		phases := make([]string, 3)
		for _, in := range body.Body.Instrs {
			place, scheduled := places[in]
			if !scheduled {
				continue
			}
			text := &phases[place.Phase]
			switch {
			case in.Op == ir.OpDot:
				*text += fmt.Sprintf("%s of chunk %d", place.Task, step-place.Phase)
			case in.Op == ir.OpLoad && in.Args[0].Type.Rank() == 3: // a ring, of places in its first dimension
				*text += fmt.Sprintf("[%d] ", in.Attrs.Starts[0])
			case in.Op == ir.OpStore && in.Args[1].Type.Rank() == 3:
				*text += fmt.Sprintf(" [%d]", in.Attrs.Starts[0])
			}
		}
		fmt.Println(strings.TrimRight(fmt.Sprintf("%d  %-25s %-25s %s", step, phases[0], phases[1], phases[2]), " "))
		step++
	}
	// Output:
	// step 5 of 3 chunks
	// 0  products of chunk 0 [0]
	// 1  products of chunk 1 [1]   [0] solve of chunk 0 [0]
	// 2  products of chunk 2 [0]   [1] solve of chunk 1 [1]  [0] state of chunk 0
	// 3                            [0] solve of chunk 2 [0]  [1] state of chunk 1
	// 4                                                      [0] state of chunk 2
}
