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
