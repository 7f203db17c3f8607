package explain

import (
	"compress/gzip"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/tools/txtar"

	"github.com/gdngen/gdngen/autotune/measure"
	"github.com/gdngen/gdngen/ir/target"
	"github.com/gdngen/gdngen/pjrt/aot"
)

var errRefused = errors.New("no such thing")

// recorded answers for v6e with a schedule that libtpu wrote, and refuses other targets.
type recorded struct{ dump string } // in pjrt/llo/testdata

func (r recorded) Compile(_ context.Context, q aot.Request) (*aot.Result, error) {
	if q.Topology != "v6e:2x2" {
		return nil, errRefused
	}
	f, err := os.Open(filepath.Join("..", "..", "pjrt", "llo", "testdata", r.dump+".txtar.gz"))
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

// One of several targets that refuses is left out and told of; an only one is the error. With a second module, all figures are compared.
func TestJob(t *testing.T) {
	p, err := measure.ReadForeign("dot.mlir", []byte("module @dot {\n  func.func @main(%a: tensor<512x512xf32>) -> tensor<512x512xf32> {\n    return %a : tensor<512x512xf32>\n  }\n}\n"))
	require.NoError(t, err)
	x := &measure.Instrument{Compiler: recorded{"dot512_v6e_0.0.51"}, Libtpu: "libtpu test", Scratch: t.TempDir()}
	var said []string
	job := func(targets string) *Job {
		list, err := target.Parse(targets)
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

	said = nil
	x.Compiler = recorded{"cond_v6e_0.0.51"}
	r, _, err = job("v6e").Run(t.Context(), x)
	require.NoError(t, err)
	const warning = "all 2 branches of cond.1.clone (jit(<lambda>)/cond) are counted, and a run takes one"
	require.Len(t, said, 1)
	require.Contains(t, said[0], "v6e: "+warning)
	var text strings.Builder
	r.Targets[0].write(&text, 3)
	require.Contains(t, text.String(), "warning   "+warning)
	x.Compiler = recorded{"dot512_v6e_0.0.51"}

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

// asked notes the options of each compile, and refuses a module without any where it is told to.
type asked struct {
	recorded
	refuses bool
	lacks   []string // options that it does not have
	flags   *[]map[string]string
}

func (a asked) Compile(ctx context.Context, q aot.Request) (*aot.Result, error) {
	*a.flags = append(*a.flags, q.Flags)
	if a.refuses && len(q.Flags) == 0 {
		return nil, &aot.RejectError{Code: 3, Msg: "no room\nat all"}
	}
	r, err := a.recorded.Compile(ctx, q)
	if r != nil && len(q.Flags) > 0 && q.DropUnknown {
		r.Dropped = a.lacks
	}
	return r, err
}

// On a target whose kernels want an option of the compiler, what a module takes without it is shown next to what it takes with it.
func TestPlain(t *testing.T) {
	p, err := measure.ReadForeign("dot.mlir", []byte("module @dot {\n  func.func @main(%a: tensor<512x512xf32>) -> tensor<512x512xf32> {\n    return %a : tensor<512x512xf32>\n  }\n}\n"))
	require.NoError(t, err)
	v6e, err := target.Lookup("v6e")
	require.NoError(t, err)
	wanting := *v6e
	wanting.Flags = map[string]string{"xla_tpu_x": "true"}
	for refuses, want := range map[bool]string{false: "options   xla_tpu_x=true: give it to the compiler (in JAX, compiler_options of the outermost jit); without, 4208 in-order cycles (1.00 x)\n", true: "jit); without, refused: "} {
		var flags []map[string]string
		x := &measure.Instrument{Compiler: asked{recorded{"dot512_v6e_0.0.51"}, refuses, nil, &flags}, Libtpu: "libtpu test", Scratch: t.TempDir()}
		j := &Job{Targets: []*target.Target{&wanting}, Modules: []*Module{NewModule(p)}, Plain: true, Warn: func(string) {}}
		r, refused, err := j.Run(t.Context(), x)
		require.NoError(t, errors.Join(err, refused))
		require.Equal(t, []map[string]string{wanting.Flags, nil}, flags)
		var b strings.Builder
		r.Write(&b, 8)
		require.Contains(t, b.String(), want)
		require.Equal(t, refuses, r.Targets[0].Plain.Refused != "")
	}

	lacks := asked{recorded{"dot512_v6e_0.0.51"}, false, []string{"xla_tpu_x"}, new([]map[string]string)}
	j := &Job{Targets: []*target.Target{&wanting}, Modules: []*Module{NewModule(p)}, Warn: func(string) {}}
	r, refused, err := j.Run(t.Context(), &measure.Instrument{Compiler: lacks, Libtpu: "libtpu test", Scratch: t.TempDir()})
	require.NoError(t, errors.Join(err, refused))
	var b strings.Builder
	r.Write(&b, 8)
	require.Contains(t, b.String(), "does not have xla_tpu_x, and compiled without\n")
}
