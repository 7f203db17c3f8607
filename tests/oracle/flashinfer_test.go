package oracle

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/autotune/flashinfer"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/truth"
	"github.com/gdngen/gdngen/ir/array"
)

// What a trace set holds in Python computes what it says: the reference of a definition, and the entry point of a solution, which
// calls this repository's command and runs its programs through JAX. Judged by the rule of the benchmark, and by a closer one.
func TestFlashInferPython(t *testing.T) {
	py := python(t)
	gdngen := filepath.Join(t.TempDir(), "gdngen")
	msg, err := exec.Command("go", "build", "-o", gdngen, "../../cmd/gdngen").CombinedOutput()
	require.NoError(t, err, "%s", msg)
	variant, err := gdn.ParseVariant("token")
	require.NoError(t, err)
	for _, c := range []struct {
		name, definition string
		axes             map[string]int
		without, scale   string
	}{
		{"decode", "gdn_decode_qk2_v4_d16_k_last", map[string]int{"batch_size": 3}, "", "0.0"},
		{"decode v last, no state", "gdn_decode_qk1_v2_d16_v_last", map[string]int{"batch_size": 2}, "state", "0.5"},
		{"prefill", "gdn_prefill_qk2_v4_d16_k_last", map[string]int{"total_seq_len": 9, "num_seqs": 3, "len_cu_seqlens": 4}, "", "0.0"},
		{"prefill v last, an empty sequence", "gdn_prefill_qk1_v2_d16_v_last", map[string]int{"total_seq_len": 2, "num_seqs": 3, "len_cu_seqlens": 4}, "", "0.25"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			d, err := flashinfer.Named(c.definition)
			require.NoError(t, err)
			p, err := flashinfer.NewProblem(d)
			require.NoError(t, err)
			w := &flashinfer.Workload{UUID: c.name, Axes: c.axes, Inputs: map[string]flashinfer.Input{}}
			var order []string
			for _, x := range d.Inputs {
				order = append(order, x.Name)
				if x.Name != c.without {
					w.Inputs[x.Name] = flashinfer.Input{Type: flashinfer.Random}
				}
			}
			w.Inputs["scale"] = flashinfer.Input{Type: flashinfer.Scalar, Value: json.Number(c.scale)}
			s, err := p.Spec(w)
			require.NoError(t, err)
			inputs, err := p.MakeInputs(s, w, "", 0)
			require.NoError(t, err)
			want, err := truth.Reference(s, inputs)
			require.NoError(t, err)
			solution, err := p.ProgramSolution("s", "a", s, variant.String(), nil)
			require.NoError(t, err)

			file := &array.File{Tensors: map[string]*array.Array{}}
			for name, a := range inputs {
				if name == "initial_state" {
					name = "state"
				}
				file.Tensors[name] = a
			}
			dir := t.TempDir()
			in, out := filepath.Join(dir, "in.safetensors"), filepath.Join(dir, "out.safetensors")
			require.NoError(t, array.WriteSafetensors(in, file))
			for name, source := range map[string]string{"reference.py": d.Reference, "main.py": solution.Sources[0].Content} {
				path := filepath.Join(dir, name)
				require.NoError(t, os.WriteFile(path, []byte(source), 0o644))
				cmd := exec.Command(py, "flashinfer_run.py", path, "--inputs", in, "--order", strings.Join(order, ","), "--scale", c.scale, "--out", out)
				cmd.Env = append(os.Environ(), "GDNGEN="+gdngen, "JAX_PLATFORMS=cpu")
				msg, err := cmd.CombinedOutput()
				require.NoError(t, err, "%s", msg)
				f, err := array.ReadSafetensors(out)
				require.NoError(t, err)
				got := []*array.Array{f.Tensors["out0"].Convert(s.Out), f.Tensors["out1"]}
				v := flashinfer.Judge(s, got, want)
				require.Equal(t, flashinfer.Passed, v.Status, "%s: %s", name, v.Note)
				require.Less(t, v.OfLargest, 4e-3, "%s: the rounding of bf16", name)
			}
		})
	}
}
