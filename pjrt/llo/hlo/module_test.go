package hlo

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// An attribute may hold text of several lines; one that never ends is an error that names the line where it began.
func TestLines(t *testing.T) {
	text := "HloModule m\n\nENTRY %main (a: f32[8]) -> f32[8] {\n  %a = f32[8]{0} parameter(0)\n" +
		"  %k = f32[8]{0} custom-call(%a), frontend_attributes={meta={\n\"x\":\"{1}\"\n}}, custom_call_target=\"k\"\n" +
		"  ROOT %r = f32[8]{0} negate(%k)\n}\n"
	h, err := Parse(text)
	require.NoError(t, err)
	require.Equal(t, []string{"a", "k", "r"}, h.order)
	require.Equal(t, []string{"frontend_attributes={meta={\n\"x\":\"{1}\"\n}}", `custom_call_target="k"`}, h.ops["k"].attributes)

	_, err = Parse(strings.Replace(text, "}}, custom", "}, custom", 1))
	require.ErrorContains(t, err, "5: bracket or quote is not closed")
}

// FuzzModule parses any text as an optimised module and compares its ops.
func FuzzModule(f *testing.F) {
	f.Add("%c (p: f32[]) -> f32[] {\n  ROOT %p = f32[] parameter(0)\n}\nENTRY %m () -> f32[] {\n  %x = f32[]{:T(128)} constant({1, \"}\"})\n  ROOT %y = f32[] call(%x), to_apply=%c, backend_config={\"a\":1}\n}\n")
	f.Fuzz(func(t *testing.T, text string) {
		h, err := Parse(text)
		if err != nil {
			return
		}
		for _, name := range h.order {
			one, err := h.identity(name)
			if err == nil {
				again, err := h.identity(name)
				require.NoError(t, err)
				require.Equal(t, one, again)
			}
		}
	})
}

// A broadcast's schedule reads what it fills its result with, so that libtpu compiles those of one type once; within a fusion it is part of the code.
func TestTwinsOfConstants(t *testing.T) {
	h, err := Parse(`%ones (p: s32[1,64]) -> s32[1,64] {
  %p = s32[1,64]{1,0} parameter(0)
  %c = s32[] constant(1)
  %b = s32[1,64]{1,0} broadcast(%c), dimensions={}
  ROOT %add = s32[1,64]{1,0} add(%p, %b)
}

%zeros (p.1: s32[1,64]) -> s32[1,64] {
  %p.1 = s32[1,64]{1,0} parameter(0)
  %c.1 = s32[] constant(0)
  %b.1 = s32[1,64]{1,0} broadcast(%c.1), dimensions={}
  ROOT %add.1 = s32[1,64]{1,0} add(%p.1, %b.1)
}

ENTRY %m () -> s32[1,64] {
  %one = s32[] constant(1)
  %zero = s32[] constant(0)
  %filled = s32[1,64]{1,0} broadcast(%one), dimensions={}
  %cleared = s32[1,64]{1,0} broadcast(%zero), dimensions={}
  %fusion = s32[1,64]{1,0} fusion(%filled), kind=kLoop, calls=%ones
  ROOT %other = s32[1,64]{1,0} fusion(%fusion), kind=kLoop, calls=%zeros
}
`)
	require.NoError(t, err)
	for name, want := range map[string][]string{"filled": {"cleared"}, "fusion": nil} {
		twins, err := h.Twins(name)
		require.NoError(t, err)
		require.Subset(t, twins, want, name)
		require.NotContains(t, twins, "other", name)
	}
}
