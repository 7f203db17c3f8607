package hlo

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Operands that follow from constants have values, however the module makes them; others have none.
func TestConstant(t *testing.T) {
	h, err := Parse(`HloModule m
%sum (p.0: s32[4]) -> s32[4] {
  %p.0 = s32[4]{0} parameter(0)
  %one = s32[] constant(1)
  %ones = s32[4]{0} broadcast(%one), dimensions={}
  %count = s32[4]{0} iota(), iota_dimension=0
  %next = s32[4]{0} add(%count, %ones)
  ROOT %product = s32[4]{0} multiply(%p.0, %next)
}
%body (arg: (s32[], s32[1], s32[1])) -> (s32[], s32[1], s32[1]) {
  %arg = (s32[], s32[1], s32[1]) parameter(0)
  %turn = s32[] get-tuple-element(%arg), index=0
  %held = s32[1]{0} get-tuple-element(%arg), index=1
  %moved = s32[1]{0} get-tuple-element(%arg), index=2
  %in_loop = f32[8]{0} custom-call(%held, %moved, %turn), custom_call_target="k"
  %more = s32[1]{0} add(%moved, %held)
  ROOT %t = (s32[], s32[1], s32[1]) tuple(%turn, %held, %more)
}
%condition (arg.1: (s32[], s32[1], s32[1])) -> pred[] {
  %arg.1 = (s32[], s32[1], s32[1]) parameter(0)
  ROOT %less = pred[] constant(true)
}
ENTRY %main (x: s32[4]) -> f32[8] {
  %x = s32[4]{0} parameter(0)
  %three = s32[] constant(3)
  %threes = s32[4]{0} broadcast(%three), dimensions={}
  %sums = s32[4]{0} fusion(%threes), kind=kLoop, calls=%sum
  %of_x = s32[4]{0} fusion(%x), kind=kLoop, calls=%sum
  %pair = s32[2]{0} constant({5, -6})
  %rows = s32[2,2]{1,0} broadcast(%pair), dimensions={1}
  %columns = s32[2,2]{1,0} broadcast(%pair), dimensions={0}
  %truths = pred[2]{0} constant({true, false})
  %numbers = s32[2]{0} convert(%truths)
  %small = s8[2]{0} convert(%pair)
  %start = (s32[2]{0}, s32[2]{0}, u32[]) copy-start(%pair)
  %done = s32[2]{0} copy-done(%start)
  %float = f32[2]{0} constant({1, 2})
  %zero = s32[] constant(0)
  %seven = s32[1]{0} constant({7})
  %init = (s32[], s32[1], s32[1]) tuple(%zero, %seven, %seven)
  %loop = (s32[], s32[1], s32[1]) while(%init), condition=%condition, body=%body
  %after = s32[1]{0} get-tuple-element(%loop), index=1
  %after2 = s32[1]{0} get-tuple-element(%loop), index=2
  ROOT %k = f32[8]{0} custom-call(%threes, %sums, %of_x, %rows, %columns, %numbers, %small, %done, %float, %x, %after, %after2), custom_call_target="k"
}
`)
	require.NoError(t, err)
	for i, want := range [][]int64{{3, 3, 3, 3}, {3, 6, 9, 12}, nil, {5, -6, 5, -6}, {5, 5, -6, -6}, {1, 0}, nil, {5, -6}, nil, nil, {7}, nil} {
		got, ok := h.Constant("k", i)
		require.Equal(t, want != nil, ok, i)
		require.Equal(t, want, got, i)
	}
	for i, want := range [][]int64{{7}, nil, {0}} {
		got, _ := h.Constant("in_loop", i)
		require.Equal(t, want, got, "in the loop, %d", i)
	}
	_, ok := h.Constant("k", 99)
	require.False(t, ok)
}

// Values of an operand as they lie in words of memory.
func TestWords(t *testing.T) {
	h, err := Parse(`HloModule m
ENTRY %main (x: s8[2,3]) -> f32[8] {
  %x = s8[2,3]{1,0:T(8,128)(4,1)} parameter(0)
  %deep = u8[2,9,2]{2,1,0:T(8,128)(4,1)S(1)} parameter(1)
  %wide = s16[3,200]{1,0:T(8,128)(2,1)} parameter(2)
  %words = s32[2,3]{1,0:T(8,128)} parameter(3)
  %list = s32[5]{0:T(128)} parameter(4)
  %bytes = s8[5]{0:T(1024)(128)(4,1)} parameter(5)
  %turned = s8[2,3]{0,1:T(8,128)(4,1)} parameter(6)
  %single = s8[]{:T(512)} parameter(7)
  ROOT %k = f32[8]{0} custom-call(%x, %deep, %wide, %words, %list, %bytes, %turned, %single), custom_call_target="k"
}
`)
	require.NoError(t, err)
	count := func(n int) (l []int64) {
		for i := range n {
			l = append(l, int64(i+1))
		}
		return l
	}
	words := func(index, n int) []int64 {
		w, ok := h.Words("k", index, count(n))
		require.True(t, ok, index)
		return w
	}
	x := words(0, 6) // rows 1 2 3 and 4 5 6
	require.Len(t, x, 256)
	require.Equal(t, []int64{0x0401, 0x0502, 0x0603, 0}, x[:4])
	deep := words(1, 36) // 2 x 9 rows of 2: two tiles down in each matrix
	require.Len(t, deep, 2*2*256)
	require.Equal(t, []int64{0x07050301, 0x08060402}, deep[:2])
	require.Equal(t, []int64{0x0f0d0b09, 0x100e0c0a}, deep[128:130])
	require.Equal(t, []int64{17, 18}, deep[256:258], "the ninth row")
	require.Equal(t, int64(0x19171513), deep[512], "the second matrix")
	wide := words(2, 600)
	require.Len(t, wide, 2*512)
	require.Equal(t, int64(1|201<<16), wide[0])
	require.Equal(t, int64(129|329<<16), wide[512], "the second tile across")
	require.Equal(t, int64(401), wide[128], "the third row")
	require.Equal(t, []int64{4, 5, 6}, words(3, 6)[128:131])
	require.Equal(t, count(5), words(4, 5))
	require.Equal(t, count(1), words(7, 1))
	require.Equal(t, count(4), words(4, 4), "the first words of a list")
	_, ok := h.Words("k", 0, count(4))
	require.False(t, ok, "fewer than share words")
	for _, index := range []int{5, 6} {
		_, ok := h.Words("k", index, count([]int{5, 6}[index-5]))
		require.False(t, ok, "a layout that is not known here")
	}
	minus, ok := h.Words("k", 0, []int64{0, 0, 0, 0, 0, -1})
	require.True(t, ok)
	require.Equal(t, int64(0xff00), minus[2])
}
