package gdn

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/ir"
)

func TestSpecText(t *testing.T) {
	for _, c := range []struct{ text, canonical string }{
		{"t=8,hk=2,k=16", "b=1,t=8,hk=2,hv=2,k=16,v=16,dtype=f32"},
		{"k=16, tokens=8 ,hk=2,v=32,hv=4,batch=3", "b=3,t=8,hk=2,hv=4,k=16,v=32,dtype=f32"},
		{"bench", "b=1,t=4096,hk=4,hv=8,k=128,v=128,dtype=bf16"},
		{"bench,t=256,l2norm,out=f32", "b=1,t=256,hk=4,hv=8,k=128,v=128,dtype=bf16,out=f32,l2norm"},
		{"bench,dtype=f32,out=f32", "b=1,t=4096,hk=4,hv=8,k=128,v=128,dtype=f32"},
		{"t=8,hk=2,k=16,empty=zero,seqs=3,init,scale=1e-6,state=vk,gates=fused,gatedtype=bf16,negeig=true,statedtype=bf16,packed",
			"b=1,t=8,hk=2,hv=2,k=16,v=16,dtype=f32,gates=fused,gatedtype=bf16,negeig,seqs=3,init,scale=1e-06,state=vk,statedtype=bf16,empty=zero,packed"},
		{"t=8,hk=2,k=16,rows=flat,l2norm", "b=1,t=8,hk=2,hv=2,k=16,v=16,dtype=f32,l2norm,rows=flat"},
		{"t=8,hk=2,k=16,rows=qkv,packed", "b=1,t=8,hk=2,hv=2,k=16,v=16,dtype=f32,rows=qkv,packed"},
		{"t=8,hk=2,k=16,rows=heads", "b=1,t=8,hk=2,hv=2,k=16,v=16,dtype=f32"},
		{"t=8,hk=2,k=16,conv=4,l2norm", "b=1,t=8,hk=2,hv=2,k=16,v=16,dtype=f32,l2norm,conv=4"},
		{"t=1,hk=2,k=16,conv=4,l2norm,convbias,init,conv_state", "b=1,t=1,hk=2,hv=2,k=16,v=16,dtype=f32,l2norm,init,conv=4,convbias,convstate"},
		{"t=8,hk=2,k=16,final=false,scale=0,gates=given", "b=1,t=8,hk=2,hv=2,k=16,v=16,dtype=f32,final=false"},
	} {
		s, err := Parse(c.text)
		require.NoError(t, err, c.text)
		require.Equal(t, c.canonical, s.String())
		requireRoundTrip(t, s)
	}
}

func requireRoundTrip(t *testing.T, s Spec) {
	t.Helper()
	require.NoError(t, s.Validate())
	require.Regexp(t, `^[a-z0-9=,.+-]+$`, s.String())
	back, err := Parse(s.String())
	require.NoError(t, err)
	require.Equal(t, s, back)
	require.Equal(t, s.Hash(), back.Hash())
	data, err := json.Marshal(s)
	require.NoError(t, err)
	var fromJSON Spec
	require.NoError(t, json.Unmarshal(data, &fromJSON), string(data))
	require.Equal(t, s, fromJSON)
	text, err := json.Marshal(s.String())
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &fromJSON))
	require.Equal(t, s, fromJSON)
}

func FuzzSpecText(f *testing.F) {
	for _, p := range Presets {
		f.Add(p.Text)
	}
	f.Add("t=8,hk=2,k=16,empty=zero,seqs=3,init,scale=1e-300,state=vk,final=true,statedtype=bf16,negeig")
	f.Fuzz(func(t *testing.T, text string) {
		if s, err := Parse(text); err == nil {
			requireRoundTrip(t, s)
		}
	})
}

// Words of other tools, capitals and spaces give the same spec.
func TestSpecAsSpoken(t *testing.T) {
	want := mustParse(t, "b=2,t=8,hk=2,k=16,dtype=bf16,gates=fused,l2norm")
	for _, text := range []string{"B=2 T=8 hk=2 k=16 dtype=bfloat16 gates=raw l2norm", "b = 2, t = 8,hk=2, K=16,DType=BF16,gates=Fused,L2Norm", "b=2,t=8 hk=2,k=16,dtype=bfloat16,gates=raw,l2norm=true"} {
		require.Equal(t, want, mustParse(t, text), text)
	}
	require.Equal(t, mustParse(t, "bench,t=512"), mustParse(t, " Bench T=512"))
}

func TestSpecErrors(t *testing.T) {
	for text, want := range map[string]string{
		"":                                            "empty",
		"t=8,,hk=1,k=8":                               "entry 2",
		"benhc":                                       `unknown preset "benhc", did you mean "bench"`,
		"t=8,hk=2,k=16,sqes=3":                        `unknown field "sqes", did you mean "seqs"`,
		"t=8,hk=2,k=16,l2nrm":                         `did you mean "l2norm"`,
		"hk=2,k=16":                                   "t (tokens",
		"t=8,k=16":                                    "hk (query and key heads) is missing",
		"t=8,t=9,hk=2,k=16":                           "t is given twice",
		"t=8,tokens=9,hk=2,k=16":                      "t is given twice",
		"t=0,hk=2,k=16":                               "0 needs no kernel: outputs are empty, and states go on as they came",
		"b=0,t=4,hk=2,k=16":                           "0 needs no kernel: outputs are empty",
		"t=4,hk=0,k=16":                               "0 is out of range: 1 to",
		"t=-1,hk=2,k=16":                              "out of range",
		"t=x,hk=2,k=16":                               `"x" is not an integer`,
		"t,hk=2,k=16":                                 "needs a value",
		"t=8,hk=3,hv=8,k=16":                          "8 is not a multiple of hk=3",
		"t=8,hk=2,k=16,dtype=bf61":                    `did you mean "bf16"? (allowed: f32 bf16 f16)`,
		"t=8,hk=2,k=16,dtype=i32":                     "allowed: f32 bf16 f16",
		"t=8,hk=2,k=16,gates=fuse":                    `did you mean "fused"`,
		"t=8,hk=2,k=16,l2norm=1":                      "neither true nor false",
		"b=2,t=8,hk=2,k=16,seqs=2":                    "need b=1",
		"b=2,t=8,hk=2,k=16,packed":                    "need b=1",
		"t=8,hk=2,k=16,scale=-1":                      "not a positive finite number",
		"t=8,hk=2,k=16,scale=NaN":                     "not a positive finite number",
		"t=8,hk=2,k=16,scale=inf":                     "not a positive finite number",
		"t=8,hk=2,k=16,gatedtype=bf16":                "needs gates=fused",
		"t=8,hk=2,k=16,empty=zero":                    "packed sequences",
		"t=64,hk=2,k=16,every=24":                     "24 is no multiple of 16 from 16 to t=64",
		"t=64,hk=2,k=16,every=128":                    "from 16 to t=64",
		"t=64,hk=2,k=16,every=16,seqs=2":              "leave out seqs",
		"t=64,hk=2,k=16,every=16,direction=train":     "leave out every",
		"t=8,hk=2,k=16,conv=4":                        "add l2norm",
		"t=8,hk=2,k=16,l2norm,conv=1":                 "2 to 32, 0 for none",
		"t=8,hk=2,k=16,l2norm,conv=33":                "out of range",
		"t=8,hk=2,k=16,l2norm,conv=4,direction=train": "no gradient of the taps",
		"t=8,hk=2,k=16,l2norm,conv=4,init":            "add convstate",
		"t=8,hk=2,k=16,l2norm,init,conv=4,convstate,convrows=2": "4 taps need 3",
		"t=8,hk=2,k=16,convrows=4":                              "add convstate",
		"t=8,hk=2,k=16,convbias":                                "set conv",
		"t=8,hk=2,k=16,convstate":                               "set conv",
		"t=8,hk=2,k=16,l2norm,conv=4,convstate,final=false":     "neither an initial nor a final state",
		"t=1,hk=2,k=16,l2norm,conv=4":                           "one token has none before it",
		"t=8,hk=2,k=16,rows=flt":                                `did you mean "flat"? (allowed: heads flat qkv)`,
		"t=8,hk=2,k=16,rows=qkv,direction=train":                "set rows=flat",
		"t=8,hk=2,k=16,read":                                    "need a pool",
		"t=8,hk=2,k=16,mixed=1":                                 "add packed, and seqs",
		"t=8,hk=2,k=16,seqs=2,packed,init,pool=8,mixed=1":       "add init, pool and read",
		"t=8,hk=2,k=16,seqs=2,packed,init,pool=8,read,mixed=17": "0 to 16",
		"t=8,hk=2,k=16,seqs=2,packed,init,pool=8,read,mixed=3":  "pool=8 is no multiple of 3",
		"t=8,hk=2,k=16,seqs=2,packed,init,pool=2,read,mixed=1":  "one more, which padding has",
		"t=4,hk=2,k=16,init,pool=8,window":                      "must be named (read)",
		"t=17,hk=2,k=16,init,pool=34,read,window":               "2 to 16 tokens, here t=17",
		"t=3,hk=2,k=16,init,pool=8,read,window":                 "pool=8 is not a multiple of t=3",
		"t=4,hk=2,k=16,init,pool=8,seqs=2,read,window":          "leave out seqs",
		"t=8,hk=2,k=16,final=false,state=vk":                    "neither an initial nor a final state",
		"b=65536,t=16777216,hk=4096,k=4096":                     "elements",
		"t=99999999999999999999,hk=2,k=16":                      "not an integer",
		"t=8,hk=2,k=16,direction=backwards":                     "allowed: forward backward train",
		"t=8,hk=2,k=16,final=false,statedtype=bf16":             "neither an initial nor a final state",
	} {
		_, err := Parse(text)
		require.ErrorContains(t, err, want, text)
	}
	require.Error(t, Spec{}.Validate())
	for _, text := range []string{`{"tokens":8,"heads_k":2,"k":16,"hk":2}`, `[1]`, `{"tokens":"8","heads_k":2,"k":16}`, `{"tokens":8.5,"heads_k":2,"k":16}`,
		`{"tokens":8,"heads_k":2,"k":16,"dtype":1}`, `{"heads_k":2,"k":16}`, `"t=8"`, `null`} {
		var s Spec
		require.Error(t, s.UnmarshalJSON([]byte(text)), text)
	}
}

func TestSpecParams(t *testing.T) {
	show := func(ps []Param) (out []string) {
		for _, p := range ps {
			out = append(out, p.Name+" "+p.Type.String())
		}
		return out
	}
	s, err := Parse("b=2,t=8,hk=2,hv=4,k=16,v=32,dtype=bf16,out=f32,init")
	require.NoError(t, err)
	require.Equal(t, []string{"q bf16[2,8,2,16]", "k bf16[2,8,2,16]", "v bf16[2,8,4,32]", "g f32[2,8,4]", "beta f32[2,8,4]",
		"initial_state f32[2,4,16,32]"}, show(s.Inputs()))
	require.Equal(t, []string{"o f32[2,8,4,32]", "final_state f32[2,4,16,32]"}, show(s.Outputs()))
	s, err = LookupPreset("contest-prefill")
	require.NoError(t, err)
	require.Equal(t, []string{"q bf16[8192,4,128]", "k bf16[8192,4,128]", "v bf16[8192,8,128]", "A_log f32[8]", "a bf16[8192,8]",
		"dt_bias f32[8]", "b bf16[8192,8]", "initial_state f32[32,8,128,128]", "cu_seqlens i64[33]"}, show(s.Inputs()))
	require.Equal(t, []string{"o bf16[8192,8,128]", "final_state f32[32,8,128,128]"}, show(s.Outputs()))
	s, err = Parse("t=8,hk=2,k=16,v=32,state=vk,final=false,init")
	require.NoError(t, err)
	require.Equal(t, []string{"o f32[1,8,2,32]"}, show(s.Outputs()))
	require.Equal(t, ir.T(ir.F32, 1, 2, 32, 16), s.Inputs()[5].Type)
	s, err = Parse("b=3,t=1,hk=2,hv=4,k=16,v=32,dtype=bf16,l2norm,init,pool=9,conv=4,convbias,convstate")
	require.NoError(t, err)
	require.Equal(t, []string{"q bf16[3,1,2,16]", "k bf16[3,1,2,16]", "v bf16[3,1,4,32]", "conv_q bf16[2,4,16]", "conv_k bf16[2,4,16]", "conv_v bf16[4,4,32]",
		"bias_q bf16[2,16]", "bias_k bf16[2,16]", "bias_v bf16[4,32]", "g f32[3,1,4]", "beta f32[3,1,4]",
		"initial_state f32[9,4,16,32]", "initial_conv bf16[9,3,192]", "state_indices i32[3]"}, show(s.Inputs()))
	require.Equal(t, []string{"o bf16[3,1,4,32]", "final_state f32[9,4,16,32]", "final_conv bf16[9,3,192]"}, show(s.Outputs()))
	s, err = Parse("t=20,hk=2,k=16,seqs=3,packed,init,pool=4,read,mixed=1,rows=qkv")
	require.NoError(t, err)
	require.Equal(t, []string{"qkv f32[20,96]", "g f32[20,2]", "beta f32[20,2]", "initial_state f32[4,2,16,16]", "state_indices i32[3]", "read_indices i32[3]",
		"cu_seqlens i32[4]", "distribution i32[3]"}, show(s.Inputs()))
	require.Equal(t, []string{"o f32[20,32]", "final_state f32[4,2,16,16]"}, show(s.Outputs()))
}

func TestPresets(t *testing.T) {
	for _, p := range Presets {
		s, err := Parse(p.Name)
		require.NoError(t, err, p.Name)
		require.Equal(t, p.Text, s.String())
		require.NotEmpty(t, p.Doc)
		requireRoundTrip(t, s)
	}
}

// The floors of the bench work in cycles per token and value head are public figures of the cost notes: MXU without the
// inverse at chunk 128 is .75 on two 256 x 256 units, and HBM is .83 at 1640 GB/s and 1.75 GHz.
func TestSpecCost(t *testing.T) {
	s, err := LookupPreset("bench")
	require.NoError(t, err)
	tokenHeads := float64(s.Tokens * s.HeadsV)
	require.InDelta(t, .75, s.Flops(128)/tokenHeads/(2*2*256*256), 1e-9)
	require.InDelta(t, .83, float64(s.NecessaryBytes())/tokenHeads/(1640/1.75), .02)
	require.Equal(t, tokenHeads*7*128*128, s.Flops(1))
	require.Equal(t, 1/math.Sqrt(128), s.EffectiveScale())
	require.Equal(t, 2, s.Groups())
}
