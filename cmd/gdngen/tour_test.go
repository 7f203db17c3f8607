package main

import (
	"bytes"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/gdngen/gdngen/autotune/promoted"
	"github.com/gdngen/gdngen/pjrt/plugins"
	"github.com/stretchr/testify/require"
)

// What the tour says of an output has the words of that output: those in quotes, and the heads of columns. Without libtpu the tour has two steps.
func TestTourWords(t *testing.T) {
	t.Setenv(plugins.LockEnv, t.TempDir())
	t.Setenv(promoted.DirEnv, promoted.Off)
	var out, said bytes.Buffer
	require.Zero(t, execute([]string{"tour", "--spec", "t=64,hk=1,hv=2,k=128,dtype=bf16", "--out", filepath.Join(t.TempDir(), "tour")}, nil, &out, &said), said.String())
	shown := 0
	for _, step := range tourSteps {
		_, output, ok := strings.Cut(out.String(), step.before)
		if !ok {
			require.True(t, step.compiles)
			continue
		}
		shown++
		output, _, ok = strings.Cut(output, step.after)
		require.True(t, ok)
		for _, m := range regexp.MustCompile(`"([^"]+)"|\b([A-Z]{3,}(?: [A-Z]{3,})*)\b`).FindAllStringSubmatch(step.after, -1) {
			require.Contains(t, output+said.String(), m[1]+m[2])
		}
	}
	require.GreaterOrEqual(t, shown, 2)
}
