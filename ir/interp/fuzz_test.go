package interp

import (
	"strings"
	"testing"

	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/array"
)

// FuzzRun runs whatever verifies and is small: an error is fine, an interpreter fault is not.
func FuzzRun(f *testing.F) {
	for _, body := range []string{
		"%1 = load %x {starts=[0,0]} : f32[2,4] store %1, %y {starts=[0,0]}",
		"%1 = refcast %s : vmem:u32[2,4] %2 = load %1 {starts=[0,0], strides=[1,3]} : u32[2,2] store %2, %q {starts=[0,0]}",
		"dma_start %x, %s, %m dma_wait %x, %s, %m",
		"%1 = const {value=1} : bool[] when %1 () { %2 = program_id {axis=0} : i32[] yield }",
	} {
		f.Add(kernel(pieces, body))
	}
	f.Add("module t (%a: f32[2,3]) -> (o) { %1 = reduce_max %a {dims=[1]} : f32[2] %2 = cumsum %1 {axis=0} : f32[2] yield %2 }")
	f.Add("module t (%a: f32[2,0]) -> (o) { %1 = dot %a, %a {lb=[], rb=[], lc=[1], rc=[1], prec=bf16x3} : bf16[2,2] yield %1 }")
	f.Add("module t (%a: bf16[2,3]) -> (o) { %1 = words %a : u32[1,3] %2 = halves %1 : bf16[2,3] %3 = transpose %2 {dims=[1,0]} : bf16[3,2] yield %3 }")
	f.Add("module t (%a: i32[4], %b: f32[3], %c: f32[4]) -> (o) { %0, %1 = grid %a, %c, %b {name=g, dims=(i:4:seq), tables=1, in=([1]@(clamp(i+1,3))), out=([1]@(i):f32[4]), carry=([1]@(t0[i]))} (%x: f32[1], %s: f32[1]) { yield %x, %s } : f32[4], f32[3] yield %0 }")
	f.Add("module t (%a: f32[3], %n: i32[]) -> (o) { %1 = loop %a {count=3} (%i: i32[], %x: f32[3]) { %2 = dyn_slice %x, %i : f32[1] %3 = dyn_update %x, %2, %n : f32[3] yield %3 } : f32[3] yield %1 }")
	f.Fuzz(func(t *testing.T, text string) {
		m, err := ir.Parse(text)
		if err != nil || work(m.Body) > 1<<16 {
			return
		}
		args := map[string]*array.Array{}
		for _, p := range m.Params() {
			if p.Type.Size() > 1<<12 {
				return
			}
			args[p.Name] = array.New(p.Type.DType, p.Type.Shape...)
		}
		if _, err := Run(m, args, Options{MaxElements: 1 << 12}); err != nil && strings.Contains(err.Error(), "interpreter fault") {
			t.Fatalf("%v\n%s", err, m)
		}
	})
}

// work is about how many instructions a block runs, at most 1<<20.
func work(b *ir.Block) int {
	n := 0
	for _, in := range b.Instrs {
		times := 1
		if in.Op == ir.OpLoop {
			times = in.Attrs.Count
		}
		if g := in.Attrs.Grid; g != nil {
			times = g.Points()
		}
		n++
		if in.Body != nil {
			n += min(times, 1<<20) * (1 + work(in.Body))
		}
		if n = min(n, 1<<20); n == 1<<20 {
			return n
		}
	}
	return n
}
