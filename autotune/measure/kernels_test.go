package measure

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/pjrt/llo"
)

func TestKernelNames(t *testing.T) {
	require.Nil(t, kernelNames(`%0 = stablehlo.add %a, %b`))
	got := kernelNames(`
    %0 = stablehlo.custom_call @tpu_custom_call(%a) {backend_config = "{\22custom_call_config\22: {\22body\22: \22TUz+/=\22}}", kernel_name = "first"} : (x) -> y
    %1 = stablehlo.custom_call @tpu_custom_call(%b) {backend_config = "{\"custom_call_config\": {\"body\": \"one\\ntwo\"}}", kernel_name = "second"} : (x) -> y
    %2 = stablehlo.custom_call @tpu_custom_call(%b) {backend_config = "none", kernel_name = "third"} : (x) -> y
    %3 = stablehlo.custom_call @Sharding(%b) {backend_config = "", kernel_name = "fourth"} : (x) -> y`)
	require.Equal(t, map[string]string{llo.KernelKey("TUz+/="): "first", llo.KernelKey("one\ntwo"): "second"}, got)
}

func TestParseScalars(t *testing.T) {
	got, err := ParseScalars([]string{"0=0,100", "walk/1=true", "walk/1=False, 3"})
	require.NoError(t, err)
	require.Equal(t, map[string][]int64{"0": {0, 100}, "walk/1": {1, 0, 3}}, got)
	for _, text := range []string{"0", "=1", "0=", "0=yes"} {
		_, err := ParseScalars([]string{text})
		require.Error(t, err, text)
	}
}
