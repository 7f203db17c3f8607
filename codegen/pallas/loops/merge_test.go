package loops

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/ir"
)

// triangles write merges of the inverses of blocks of two heads as a kernel has them: 4 blocks of 16 rows of words, of 32 lanes each.
type triangles struct {
	*ir.Builder
	turn float64 // what is added to lanes, beside what is right
	of   map[[2]int]*ir.Value
}

const blocks, rows, lanes = 4, 16, 128

func (b *triangles) mask(n, i int) *ir.Value {
	if b.of[[2]int{n, i}] == nil {
		t := ir.T(ir.I32, rows, lanes)
		block := b.Div(b.Iota(t, 1), b.Const(t, float64(n*lanes/blocks)))
		u := ir.T(ir.U32, rows, lanes)
		b.of[[2]int{n, i}] = b.Select(b.Compare(ir.EQ, block, b.Const(t, float64(i))), b.Const(u, math.MaxUint32), b.Const(u, 0))
	}
	return b.of[[2]int{n, i}]
}

func (b *triangles) turned(x *ir.Value, by int) *ir.Value {
	if b.of[[2]int{-1, by}] == nil {
		t := ir.T(ir.I32, rows, lanes)
		sum := b.Add(b.Iota(t, 1), b.Const(t, float64(by)+b.turn))
		b.of[[2]int{-1, by}] = b.Sub(sum, b.Mul(b.Div(sum, b.Const(t, lanes)), b.Const(t, lanes)))
	}
	return b.Take(x, b.of[[2]int{-1, by}], 1)
}

func (b *triangles) packed(t []*ir.Value, n int) (out []*ir.Value) {
	for j := n; j < 2*n; j++ {
		x := t[j]
		for i := j + 2*n; i < blocks; i += 2 * n {
			x = b.Or(x, t[i])
		}
		out = append(out, x)
	}
	return out
}

func (b *triangles) product(left, right [2][]*ir.Value, n, side int) *ir.Value {
	all := slices.Clone(left[0])
	for _, x := range left[1] {
		all = append(all, b.turned(x, []int{lanes - n*lanes/blocks, n * lanes / blocks}[side]))
	}
	var both []*ir.Value
	for i := range blocks {
		if i/n%2 == side {
			both = append(both, right[0][i])
		} else {
			both = append(both, right[1][i^n])
		}
	}
	dot := b.MatMul(b.Halves(b.Concat(0, all...)), b.Halves(b.Concat(0, both...)), false, false, ir.PrecF32)
	return b.Words(b.Convert(dot, ir.BF16))
}

// parts are rows of words of two heads; contained ones are numbers.
func (b *triangles) parts(words *ir.Value, n int, contained bool) (out [2][]*ir.Value) {
	for i := range 2 * n {
		x := b.SliceAxis(words, 0, rows*i, rows*(i+1))
		if contained {
			y := b.Halves(x)
			x = b.Binary(ir.OpXor, x, b.Words(b.Sub(y, y)))
		}
		out[i/n] = append(out[i/n], x)
	}
	return out
}

func (b *triangles) pair(x, a, to [2]*ir.Value) {
	var blocksOf, under [2][]*ir.Value
	for k := range 2 {
		for i := range blocks {
			blocksOf[k] = append(blocksOf[k], b.And(x[k], b.mask(1, i)))
			under[k] = append(under[k], b.SliceAxis(a[k], 0, rows*i, rows*(i+1)))
		}
	}
	for n := 1; n < blocks; n *= 2 {
		every := func(t [2][]*ir.Value, masked bool) (out [2][]*ir.Value) {
			for k := range t {
				for i := range blocks {
					var x *ir.Value
					if i/n%2 == 1 {
						if x = t[k][i%len(t[k])]; masked {
							x = b.And(x, b.mask(n, i/(2*n)*2))
						}
					}
					out[k] = append(out[k], x)
				}
			}
			return out
		}
		pack := func(t [2][]*ir.Value) [2][]*ir.Value {
			return [2][]*ir.Value{b.packed(t[0], n), b.packed(t[1], n)}
		}
		half := b.parts(b.product(pack(every(under, true)), blocksOf, n, 0), n, true)
		more := every(b.parts(b.product(pack(blocksOf), every(half, 2*n < blocks), n, 1), n, 2*n < blocks), 2*n < blocks)
		for k := range more {
			for i, y := range more[k] {
				if y != nil {
					blocksOf[k][i] = b.Or(blocksOf[k][i], y)
				}
			}
		}
	}
	for k := range blocksOf {
		b.Store(b.Concat(0, blocksOf[k]...), to[k], []int{0, 0}, nil)
	}
}

// Merges of two pairs of heads or more are one node, and where a value is another than the formula's, or one pair alone is merged, none.
func TestMerge(t *testing.T) {
	for _, test := range []struct {
		pairs int
		turn  float64
		want  bool
	}{{2, 0, true}, {3, 0, true}, {2, 1, false}, {1, 0, false}} {
		m, builder := ir.NewModule("merges")
		b := &triangles{Builder: builder, turn: test.turn, of: map[[2]int]*ir.Value{}}
		b.Stage("solve")
		of := map[*ir.Value]*Item{}
		for range test.pairs {
			var x, a, to [2]*ir.Value
			for k := range 2 {
				x[k], a[k] = b.Param("x", ir.T(ir.U32, rows, lanes)), b.Param("a", ir.T(ir.U32, blocks*rows, lanes))
				memory := a[k].Type
				memory.Space = ir.VMEM
				to[k] = b.Param("to", memory)
				for i, v := range []*ir.Value{x[k], a[k], to[k]} {
					of[v] = &Item{Typ: v.Type, Param: i + 1}
				}
				x[k] = b.Binary(ir.OpAnd, x[k], b.mask(blocks, 0)) // made here
			}
			b.pair(x, a, to)
		}
		var got []*Node
		for _, n := range Fuse(ToNodes(m.Body.Instrs, of, nil)) {
			if n.Call == "merge" {
				got = append(got, n)
			}
		}
		if !test.want {
			require.Empty(t, got, "%+v", test)
			continue
		}
		require.Len(t, got, 1, "%+v", test)
		require.Equal(t, []Form{Number(2 * test.pairs), Number(4 * test.pairs), Number(0)}, got[0].Ints, "heads, products, lower triangles")
		require.Len(t, got[0].Args, 2*2*test.pairs*blocks)
	}
}
