package lm_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/gdn/internal/layertest"
	"github.com/gdngen/gdngen/gdn/layer/device"
	"github.com/gdngen/gdngen/gdn/lm"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/array"
)

// The models of testdata, with their answers, are transformers' own (tests/peers/hybrid.py).
var models = []string{"qwen3_5", "qwen3_next"}

const prompt = 23 // tokens before the single steps and the greedy tokens

func open(t *testing.T, b compute.Backend, name string, d dtypes.DType) (*lm.Model, *array.File) {
	t.Helper()
	m, err := lm.Open(b, filepath.Join("testdata", name), d)
	require.NoError(t, err)
	t.Cleanup(m.Finalize)
	f, err := array.ReadSafetensors(filepath.Join("testdata", name, "answers.safetensors"))
	require.NoError(t, err)
	return m, f
}

// rows cuts [rows, n] of whole numbers into rows.
func rows(a *array.Array, from, to int) [][]int32 {
	v, n := a.Float64s(), a.Shape[1]
	out := make([][]int32, a.Shape[0])
	for i := range out {
		for _, x := range v[i*n+from : i*n+to] {
			out[i] = append(out[i], int32(x))
		}
	}
	return out
}

// close compares logits of tokens from to to with those of all.
func close(t *testing.T, got []float32, want *array.Array, from, to int, limit float64) {
	t.Helper()
	n, v := want.Shape[1], want.Shape[2]
	var part []float32
	for i := range want.Shape[0] {
		part = append(part, want.Float32s()[(i*n+from)*v:(i*n+to)*v]...)
	}
	shape := []int{want.Shape[0], to - from, v}
	s := array.Compare(array.FromFloat32s(ir.F32, shape, got), array.FromFloat32s(ir.F32, shape, part))
	require.Less(t, s.Ratio, limit)
}

// Logits are transformers', of all tokens at once, of a prompt in pieces and of single tokens after it, and so are greedy tokens.
func TestTransformers(t *testing.T) {
	layertest.Each(t, func(t *testing.T, b compute.Backend) {
		for _, name := range models {
			t.Run(name, func(t *testing.T) {
				m, want := open(t, b, name, dtypes.Float32)
				tokens, logits := want.Tensors["tokens"], want.Tensors["logits"]
				all := tokens.Shape[1]
				got, err := m.Session().Step(rows(tokens, 0, all))
				require.NoError(t, err)
				close(t, got, logits, 0, all, 2e-5)

				s := m.Session()
				at := 0
				for _, n := range []int{11, 11, 1} {
					got, err = s.Step(rows(tokens, at, at+n))
					require.NoError(t, err)
					close(t, got, logits, at, at+n, 2e-5)
					at += n
				}
				require.Equal(t, prompt, s.Tokens())
				fork := s.Fork()
				greedy, err := fork.Generate(64)
				require.NoError(t, err)
				require.Equal(t, rows(want.Tensors["greedy"], 0, 64), greedy)
				for i := range all - prompt { // the session is where it was, whatever its fork did
					got, err = s.Step(rows(tokens, prompt+i, prompt+i+1))
					require.NoError(t, err)
					close(t, got, want.Tensors["steps"], i, i+1, 2e-5)
				}
			})
		}
	})
}

// Weights held in bfloat16 are those of the file, rounded: all is computed in float32.
func TestBFloat16(t *testing.T) {
	b := layertest.Backend(t, device.Go)
	for _, name := range models {
		m, answers := open(t, b, name, dtypes.BFloat16)
		folder := t.TempDir()
		config, err := os.ReadFile(filepath.Join("testdata", name, "config.json"))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(folder, "config.json"), config, 0o644))
		f, err := array.ReadSafetensors(filepath.Join("testdata", name, "model.safetensors"))
		require.NoError(t, err)
		for key, a := range f.Tensors {
			if !strings.HasSuffix(key, "A_log") && !strings.HasSuffix(key, "dt_bias") { // float32 always
				f.Tensors[key] = a.Convert(ir.BF16).Convert(ir.F32)
			}
		}
		require.NoError(t, array.WriteSafetensors(filepath.Join(folder, "model.safetensors"), f))
		rounded, err := lm.Open(b, folder, dtypes.Float32)
		require.NoError(t, err)
		defer rounded.Finalize()
		tokens := rows(answers.Tensors["tokens"], 0, prompt)
		got, err := m.Session().Step(tokens)
		require.NoError(t, err)
		want, err := rounded.Session().Step(tokens)
		require.NoError(t, err)
		shape := []int{len(tokens), prompt, m.Vocabulary}
		close(t, got, array.FromFloat32s(ir.F32, shape, want), 0, prompt, 2e-6)
		exact, err := lm.Open(b, filepath.Join("testdata", name), dtypes.Float32)
		require.NoError(t, err)
		defer exact.Finalize()
		other, err := exact.Session().Step(tokens)
		require.NoError(t, err)
		require.NotEqual(t, other, got, "nothing was rounded")
	}
}

// What a step can not take is refused.
func TestStepErrors(t *testing.T) {
	m, _ := open(t, layertest.Backend(t, device.Go), models[0], dtypes.Float32)
	s := m.Session()
	for want, tokens := range map[string][][]int32{
		"at least one token":                      {{}},
		"2 tokens of sequence 1, 1 of the first":  {{1}, {1, 2}},
		"token 64 is not in the vocabulary of 64": {{64}},
		"token -1 is not in the vocabulary of 64": {{-1}},
	} {
		_, err := s.Step(tokens)
		require.ErrorContains(t, err, want)
	}
	_, err := s.Generate(1)
	require.ErrorContains(t, err, "give a prompt to Step first")
	_, err = s.Step([][]int32{{1, 2}})
	require.NoError(t, err)
	_, err = s.Step([][]int32{{1}, {2}})
	require.ErrorContains(t, err, "tokens of 2 sequences, the session has 1")
}

// What a configuration has that is not computed is refused by its field.
func TestRefused(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("testdata", "qwen3_next", "config.json"))
	require.NoError(t, err)
	for want, change := range map[string][2]string{
		"num_experts is 8":                {`"num_experts": 0`, `"num_experts": 8`},
		"attention_bias is true":          {`"attention_bias": false`, `"attention_bias": true`},
		"field intermediate_size is 0":    {`"intermediate_size": 48`, `"intermediate_size": 0`},
		"no multiple of num_key_value":    {`"num_key_value_heads": 2`, `"num_key_value_heads": 3`},
		`rope_type "yarn"`:                {`"rope_type": "default"`, `"rope_type": "yarn"`},
		`"sliding_attention" is no layer`: {`"full_attention"`, `"sliding_attention"`},
	} {
		text := strings.Replace(string(data), change[0], change[1], 1)
		require.NotEqual(t, string(data), text, "the configuration has no %s", change[0])
		path := filepath.Join(t.TempDir(), "config.json")
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
		_, err := lm.ReadConfig(path)
		require.ErrorContains(t, err, want)
	}
}
