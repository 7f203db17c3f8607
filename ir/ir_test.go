package ir_test

import (
	"testing"

	"github.com/gdngen/gdngen/ir"
	"github.com/stretchr/testify/require"
)

const scan = `module scan (%q: f32[2,8,4], %s: f32[2,4,4]) -> (o, final) {
  %0, %1 = grid %q, %s {name=step, dims=(b:2, c:4:seq), in=([1,2,4]@(b,c,0)), out=([1,2,4]@(b,c,0):f32[2,8,4]), carry=([1,4,4]@(b,0,0))} (%2: f32[1,2,4], %3: f32[1,4,4]) {
    %4 = dot %2, %3 {lb=[0], rb=[0], lc=[2], rc=[1], prec=bf16x3} : f32[1,2,4] @state.c0.h1
    %5 = const {value=0.5} : f32[1,4,4]
    %6 = mul %3, %5 : f32[1,4,4] @state
    yield %4, %6
  } : f32[2,8,4], f32[2,4,4]
  yield %0, %1
}
`

func TestRoundTrip(t *testing.T) {
	m, err := ir.Parse(scan)
	require.NoError(t, err)
	require.Equal(t, scan, m.String())
	n, err := ir.Parse(m.String())
	require.NoError(t, err)
	require.Equal(t, m.Hash(), n.Hash())
}
