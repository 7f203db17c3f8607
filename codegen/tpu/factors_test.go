package tpu

import (
	"fmt"
	"strings"

	"github.com/gdngen/gdngen/ir"
)

// Four tokens of two heads lie token by token in a window, eight rows of 128 lanes. That a head has
// its tokens together is a matter of factors alone: no element moves until a consumer asks for
// tiles, and then each head is one load of every second row.
func Example_factors() {
	draw := func(what string, v *tiled) {
		var dims []string
		for _, d := range v.dims {
			s := ""
			for _, f := range d {
				s += fmt.Sprintf("%s %dx%d ", []string{"tile", "row", "lane"}[f.kind], f.size, f.stride)
			}
			dims = append(dims, strings.TrimSpace(s))
		}
		fmt.Printf("%-24s %s\n", what, strings.Join(dims, " | "))
	}
	rows := func(v *tiled) {
		heads, _ := walk(v.dims[:1])
		tokens, _ := walk(v.dims[1:2])
		for h, head := range heads {
			fmt.Printf("  head %d: rows", h)
			for _, token := range tokens {
				fmt.Printf(" %d", v.row+head.row+token.row)
			}
			fmt.Println()
		}
	}
	v := window(&ir.Value{Type: ir.Ref(ir.VMEM, ir.F32, 8, 128)}, true)
	draw("window", v)
	v, _ = v.reshape([]int{4, 2, 128})
	draw("reshape [4,2,128]", v)
	v = v.transpose([]int{1, 0, 2})
	draw("transpose [2,4,128]", v)
	rows(v)
	v, _ = v.slice([]int{0, 2, 0}, []int{2, 4, 128}, func(int) int { return 1 })
	draw("slice [:,2:4,:]", v)
	rows(v)
	// In registers each head is a tile. Joining heads and tokens needs no move either, but what
	// is asked for then are rows of two tiles.
	v = normal(ir.F32, []int{2, 4, 128}, make([]*ir.Value, 2))
	draw("two tiles", v)
	v, _ = v.transpose([]int{1, 0, 2}).reshape([]int{8, 128})
	draw("token-major rows", v)
	// Output:
	// window                   row 8x1 | lane 128x1
	// reshape [4,2,128]        row 4x2 | row 2x1 | lane 128x1
	// transpose [2,4,128]      row 2x1 | row 4x2 | lane 128x1
	//   head 0: rows 0 2 4 6
	//   head 1: rows 1 3 5 7
	// slice [:,2:4,:]          row 2x1 | row 2x2 | lane 128x1
	//   head 0: rows 4 6
	//   head 1: rows 5 7
	// two tiles                tile 2x1 | row 4x1 | lane 128x1
	// token-major rows         row 4x1 tile 2x1 | lane 128x1
}
