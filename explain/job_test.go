package explain

import (
	"compress/gzip"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/tools/txtar"

	"github.com/gdngen/gdngen/codegen"
	"github.com/gdngen/gdngen/measure"
	"github.com/gdngen/gdngen/pjrt/aot"
)

var errRefused = errors.New("no such thing")

// recorded answers for v6e with a schedule that libtpu wrote, and refuses other targets.
type recorded struct{ dump string } // in pjrt/llo/testdata

func (r recorded) Compile(_ context.Context, q aot.Request) (*aot.Result, error) {
	if q.Topology != "v6e:2x2" {
		return nil, errRefused
	}
	f, err := os.Open(filepath.Join("..", "pjrt", "llo", "testdata", r.dump+".txtar.gz"))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(z)
	for _, file := range txtar.Parse(text).Files {
		err = errors.Join(err, os.WriteFile(filepath.Join(q.DumpDir, file.Name), file.Data, 0o644))
	}
	return &aot.Result{CodeBytes: 7}, err
}

// One of several targets that refuses is left out and told of; an only one is the error. Beside another module all is compared.
func TestJob(t *testing.T) {
	p, err := measure.ReadForeign("dot.mlir", []byte("module @dot {\n  func.func @main(%a: tensor<512x512xf32>) -> tensor<512x512xf32> {\n    return %a : tensor<512x512xf32>\n  }\n}\n"))
	require.NoError(t, err)
	x := &measure.Instrument{Compiler: recorded{"dot512_v6e_0.0.51"}, Libtpu: "libtpu test", Scratch: t.TempDir()}
	var said []string
	job := func(targets string) *Job {
		list, err := codegen.ParseTargets(targets)
		require.NoError(t, err)
		j := &Job{Targets: list, Tokens: 64, Heads: 2, Compiler: "libtpu test", Warn: func(text string) { said = append(said, text) }}
		for range list {
			j.Modules = append(j.Modules, NewModule(p))
		}
		return j
	}
	r, refused, err := job("v5e,v6e").Run(t.Context(), x)
	require.NoError(t, err)
	require.ErrorIs(t, refused, errRefused)
	require.ErrorContains(t, refused, "v5e: ")
	require.Equal(t, []string{refused.Error()}, said)
	require.Len(t, r.Targets, 1)
	require.Equal(t, "v6e", r.Targets[0].Target)
	require.InDelta(t, float64(r.Targets[0].Report.Cycles)/128, r.Targets[0].Issued, 1e-9)

	_, refused, err = job("v5e").Run(t.Context(), x)
	require.ErrorIs(t, err, errRefused)
	require.NoError(t, refused)

	j := job("v6e")
	j.Others = j.Modules
	r, refused, err = j.Run(t.Context(), x)
	require.NoError(t, errors.Join(err, refused))
	require.Equal(t, j.Modules[0], r.Against)
	require.NotNil(t, r.Targets[0].Diff)

	ctx, stop := context.WithCancel(t.Context())
	stop()
	_, _, err = job("v5e,v6e").Run(ctx, x)
	require.Error(t, err, "an interrupt is no refusal of a target")
}
