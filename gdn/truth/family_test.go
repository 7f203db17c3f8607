package truth

import (
	"encoding/json"
	"flag"
	"hash/crc32"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/gdntest"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/array"
)

var updateFamily = flag.Bool("update", false, "write the cases of other rules again; tests/peers/naive.py then compares them with flash-linear-attention")

const family = fixtures + "/family"

// familyCases are the stored cases of rules whose decay is of channels.
var familyCases = []struct{ name, class, spec string }{
	{"kda_forward", "random", "b=2,t=70,hk=2,hv=4,k=32,v=24,dtype=f32,init,rule=kda"},
	{"kda_mixed", "mixed", "b=1,t=90,hk=2,hv=2,k=24,v=32,dtype=f32,init,rule=kda"},
	{"kda_raw", "slow", "b=1,t=100,hk=2,hv=2,k=32,v=32,dtype=f32,gates=fused,l2norm,init,rule=kda"},
	{"kda_bound", "bound", "b=1,t=100,hk=2,hv=2,k=32,v=32,dtype=f32,gates=fused,l2norm,init,rule=kda,bound=-5"},
	{"kda_bf16", "random", "b=1,t=80,hk=2,hv=2,k=32,v=32,dtype=bf16,out=f32,rule=kda"},
	{"kda_decode", "random", "b=3,t=1,hk=2,hv=2,k=32,v=32,dtype=f32,init,state=vk,rule=kda"},
	{"kda_packed", "random", "b=1,t=95,hk=2,hv=2,k=24,v=40,dtype=f32,seqs=4,init,rule=kda"},
	{"kda_backward", "random", "b=1,t=70,hk=2,hv=2,k=32,v=24,dtype=f32,init,rule=kda,direction=train"},
	{"kda_raw_backward", "slow", "b=1,t=70,hk=2,hv=4,k=24,v=24,dtype=f32,gates=fused,l2norm,rule=kda,bound=-5,direction=train"},
	{"gdn2_forward", "random", "b=2,t=70,hk=2,hv=4,k=32,v=24,dtype=f32,init,rule=gdn2"},
	{"gdn2_raw", "slow", "b=1,t=100,hk=2,hv=2,k=32,v=32,dtype=f32,gates=fused,l2norm,init,rule=gdn2,bound=-5"},
	{"gdn2_decode", "random", "b=3,t=1,hk=2,hv=2,k=32,v=32,dtype=f32,init,state=vk,rule=gdn2"},
	{"gdn2_packed", "random", "b=1,t=95,hk=2,hv=2,k=24,v=40,dtype=f32,seqs=4,init,rule=gdn2"},
	{"gdn2_backward", "random", "b=1,t=70,hk=2,hv=2,k=32,v=24,dtype=f32,init,rule=gdn2,direction=train"},
}

// Stored cases of other rules are what the reference computes from their inputs, rounded once.
func TestFamilyFixtures(t *testing.T) {
	if *updateFamily {
		writeFamily(t)
	}
	cases, err := ReadCases(family)
	require.NoError(t, err)
	require.Len(t, cases, len(familyCases))
	for i, c := range cases {
		require.Equal(t, familyCases[i].name, c.Name)
		require.Equal(t, gdntest.MustParse(t, familyCases[i].spec), c.Spec)
		require.True(t, c.Supported, c.Reason)
		inputs, expected, err := c.Load()
		require.NoError(t, err)
		out := reference(t, c.Spec, inputs)
		require.Len(t, expected, len(out))
		for name, want := range expected {
			require.LessOrEqual(t, array.Compare(out[name], want).Ratio, 1e-7, "%s %s", c.Name, name)
		}
		file, err := c.FileOutputs(out)
		require.NoError(t, err)
		for _, precision := range []string{"f32-strict", "f32", "bf16x3", "bf16x1", "lowp"} {
			verdicts, err := c.Judge(expected, file.Tensors, precision)
			require.NoError(t, err)
			require.Len(t, verdicts, len(out))
		}
	}
}

// familyLimits are the limits of an output's ratio by precision: at float32 20 times what flash-linear-attention's own float32 loses
// (tests/peers/naive.py: at most 2.7e-7 of results, 3.5e-7 of gradients), in few passes those of the gated delta rule's cases.
func familyLimits(p gdn.Param, result bool) map[string]float64 {
	if !result {
		return map[string]float64{"f32_ratio_strict": 5e-6, "f32_ratio": 7e-6, "lowp_ratio": FieldLimit(p)}
	}
	return map[string]float64{"f32_ratio_strict": 3e-6, "f32_ratio": 5e-6, "bf16x3_ratio": 5e-5, "bf16x1_ratio": 1e-2, "lowp_ratio": 5e-3}
}

// writeFamily writes the cases and their manifest.
func writeFamily(t *testing.T) {
	type row struct {
		Name      string                        `json:"name"`
		File      string                        `json:"file"`
		Class     string                        `json:"class"`
		Op        string                        `json:"op"`
		Spec      string                        `json:"spec"`
		Tensors   map[string]manifestTensor     `json:"tensors"`
		Tolerance map[string]map[string]float64 `json:"tolerance"`
		Bytes     int                           `json:"bytes"`
		CRC32     uint32                        `json:"crc32"`
	}
	stored := map[ir.DType]string{}
	for name, d := range storedTypes {
		stored[d] = name
	}
	var rows []row
	for _, c := range familyCases {
		s := gdntest.MustParse(t, c.spec)
		in := generate(t, c.class, s, 1)
		r := row{Name: c.name, File: c.name + ".safetensors", Class: c.class, Op: "spec", Spec: s.String(),
			Tensors: map[string]manifestTensor{}, Tolerance: map[string]map[string]float64{}}
		f := &array.File{Tensors: map[string]*array.Array{}}
		put := func(name string, a *array.Array) {
			f.Names, f.Tensors[name] = append(f.Names, name), a
			r.Tensors[name] = manifestTensor{a.Shape, stored[a.Type]}
		}
		for _, p := range s.Inputs() {
			put(p.Name, in[p.Name])
		}
		want := reference(t, s, in)
		for _, p := range s.Outputs() {
			put(p.Name, want[p.Name].Convert(ir.F32))
			r.Tolerance[p.Name] = familyLimits(p, s.IsResult(p.Name))
		}
		data, err := f.Bytes()
		require.NoError(t, err)
		r.Bytes, r.CRC32 = len(data), crc32.ChecksumIEEE(data)
		require.NoError(t, os.WriteFile(filepath.Join(family, r.File), data, 0o644))
		rows = append(rows, r)
	}
	text, err := json.MarshalIndent(map[string]any{"set": "rules with a decay of channels", "cases": rows}, "", " ")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(family, ManifestName), append(text, '\n'), 0o644))
}

// A case that states its spec is held to it.
func TestStatedSpecErrors(t *testing.T) {
	for _, c := range []struct {
		edit func(m *manifestCase)
		want string
	}{
		{func(m *manifestCase) { m.Spec = "b=1,t=70,rule=kdb" }, `field spec: .*did you mean "kda"`},
		{func(m *manifestCase) { m.Spec = "b=1,t=70,hk=2,hv=2,k=32,v=24,init,rule=gdn2" }, "beta is neither an input nor an output"},
		{func(m *manifestCase) { m.Spec = "b=1,t=71,hk=2,hv=2,k=32,v=24,init,rule=kda" }, `field tensors.q.shape`},
		{func(m *manifestCase) { delete(m.Tensors, "k") }, "the input k is missing"},
	} {
		s := gdntest.MustParse(t, "b=1,t=70,hk=2,hv=2,k=32,v=24,init,rule=kda")
		m := manifestCase{Name: "x", File: "x.safetensors", Op: "spec", Spec: s.String(), Tensors: map[string]manifestTensor{}}
		for _, p := range s.Inputs() {
			m.Tensors[p.Name] = manifestTensor{p.Type.Shape, "float32"}
		}
		_, err := m.read(t.TempDir())
		require.NoError(t, err)
		c.edit(&m)
		_, err = m.read(t.TempDir())
		require.Error(t, err)
		require.Regexp(t, c.want, err.Error())
	}
}
