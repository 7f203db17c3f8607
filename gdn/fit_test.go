package gdn

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// forms are those that a text of auto stands for on a TPU.
func forms(t *testing.T, text string, s Spec, m Machine) []Variant {
	t.Helper()
	list, err := Choices(text, s, HostTPU, m)
	require.NoError(t, err)
	var variants []Variant
	for _, c := range list {
		require.NoError(t, c.Variant.Check(s))
		variants = append(variants, c.Variant)
	}
	return variants
}

// fast is the text of a variant as the class fast has it: what is left of the decay goes to V', and steps of many heads and chunks copy their
// blocks. Decays of few tokens, or few heads, are in float32.
func fast(t *testing.T, text string, s Spec) string {
	changes := []string{"out=separate"}
	if s.Tokens <= 1024 || s.Batch*s.HeadsV <= 2 {
		changes = append(changes, "decay_bf16=none")
	}
	if !strings.HasPrefix(text, "tpu-few") { // whose K has the decay that is left
		changes = append(changes, "tail_decay=v")
	}
	if strings.HasPrefix(text, "tpu-") && !strings.Contains(text, "phases_before=0") && !strings.Contains(text, "heads=24") { // where steps overlap, of no more than fill a program
		changes = append(changes, "prefetch=dma")
	}
	v := parseVariant(t, text)
	for _, change := range changes {
		axis, value, _ := strings.Cut(change, "=")
		var err error
		v, err = v.With(axis, value)
		require.NoError(t, err)
	}
	return v.String()
}

// The first form that auto stands for, by spec and machine: how much shares a program.
func TestSuited(t *testing.T) {
	small, wide, pair := Machine{Cores: 1, MXUSize: 128}, Machine{Cores: 1, MXUSize: 256}, Machine{Cores: 2, MXUSize: 128}
	for _, c := range []struct {
		spec    string
		machine Machine
		changed string
	}{
		{"bench", small, "tpu-128,state_delay=6"},
		{"bench", wide, "tpu-long,hbm=yes"},
		{"bench,t=1024", wide, "tpu-long,chunks=2,head_group=2,state_delay=3,hbm=yes"},
		{"bench,t=2048", wide, "tpu-long,hbm=yes"},
		{"bench,t=256", wide, "tpu-long,phases_before=0"},
		{"bench,t=5", small, "tpu-long,phases_before=0"},
		{"bench,t=96,hk=1,hv=2", wide, "tpu-long,phases_before=0"},
		{"bench,t=256,hk=1,hv=1", small, "tpu-long,phases_before=0"},
		{"bench,t=257", wide, ""},
		{"bench,t=100,hk=8,hv=16", wide, ""},
		{"bench,t=500", wide, "tpu-long,chunks=2,hbm=yes,head_group=2,state_delay=3"},
		{"bench,t=400", wide, ""}, // 112 would be padding
		{"bench,t=768", wide, "tpu-long,chunks=2,head_group=2,state_delay=3,hbm=yes"},
		{"bench,t=1000", wide, "tpu-long,chunks=2,head_group=2,state_delay=3,hbm=yes"},
		{"bench,t=1536", wide, "tpu-long,hbm=yes"},
		{"bench,t=600", wide, ""},
		{"bench,t=768", small, "tpu-128,chunks=2,decay_bf16=operands,head_group=2"},
		{"bench,t=1100", wide, ""}, // 436 tokens would be padding
		{"bench,b=3", wide, "tpu-long,persistent_rows=yes,hbm=yes"},
		{"bench,b=8,hk=1,hv=1", wide, "tpu-long,batch=8,hbm=yes"},
		{"bench", pair, "tpu-128,heads=4"},
		{"bench,t=1024", pair, "tpu-128,heads=4"},
		{"bench,t=512", pair, "tpu-128,chunks=2,decay_bf16=operands,head_group=2,heads=4"},
		{"bench,t=200", pair, "tpu-long,phases_before=0,heads=4"},
		{"bench,b=2,t=1024", pair, "tpu-128,chunks=2,decay_bf16=operands,head_group=2"},
		{"bench,hk=8,hv=16", small, "tpu-128,state_delay=6,heads=8"},
		{"bench,hk=8,hv=16", wide, "tpu-long,heads=8,hbm=yes"},
		{"bench,hk=8,hv=16,t=512", wide, ""},
		{"bench,hk=16,hv=32", wide, "tpu-long,heads=8,hbm=yes"},
		{"bench,hk=16,hv=32,t=512", wide, "heads=16"},
		{"bench,hk=2,hv=32", small, "tpu,decay_bf16=rows,interleave=no,prologue_end=100"}, // words of two keys are not parted
		{"bench,hk=16,hv=48", small, "tpu-long,heads=24,chunks=1"},
		{"bench,hk=16,hv=48", wide, "tpu-long,heads=24,chunks=1"}, // 16 are no words of keys, 6 no tiles of rows
		{"bench,hk=7,hv=14", small, "tpu,decay_bf16=rows,interleave=no,prologue_end=100"},
		{"bench,hk=7,hv=7", small, "tpu-128,state_delay=6"},
		{"bench,hk=10,hv=10", wide, "tpu-long,chunks=2,hbm=yes"}, // rows of ten heads are no tiles, of two heads laid out anew
		{"bench,hk=6,hv=12,rows=flat", wide, "tpu-long,chunks=2,hbm=yes,layout=bt_hd"},
		{"bench,hk=30,hv=30,k=96,v=192", wide, ""},
		{"bench,rows=flat", wide, "tpu-long,hbm=yes,layout=bt_hd"},
		{"bench,rows=qkv", wide, "tpu-long,hbm=yes,layout=bt_hd"},
		{"bench,k=64,v=64,rows=flat", wide, "tpu-long,layout=bhdt,hbm=yes"}, // lanes are cut at whole registers
		{"bench,l2norm", small, "tpu-128,state_delay=6,prologue_end=100"},
		{"bench,b=4", wide, "tpu-long,persistent_rows=yes,hbm=yes"},
		{"bench,b=8,t=128", wide, "tpu-long,batch=2,chunks=1,persistent_rows=yes,head_group=2,state_delay=3,hbm=yes"}, // rows interleaved where chunks are few
		{"bench,b=8,t=200", small, "tpu-128,chunks=2,persistent_rows=yes,state_delay=6"},                              // four chunks would be half padding
		{"bench,b=4,t=1000", wide, "tpu-long,hbm=yes"},                                                                // rows that lie one behind another would be a copy more
		{"bench,b=8,hk=1,hv=2", wide, "tpu-long,batch=4,persistent_rows=yes,hbm=yes"},                                 // rows where heads are few
		{"bench,b=3,gates=fused,l2norm,conv=4", wide, "tpu-long,hbm=yes,state_delay=3,prologue_end=90"},               // the last tokens of a chunk pass to the next
		{"bench,b=4,t=512", wide, "tpu-long,persistent_rows=yes,hbm=yes"},
		{"bench,b=8,hk=1,hv=1", small, "tpu-128,state_delay=6,batch=8"},
		{"bench,hk=1,hv=1", wide, "tpu-few,hbm=yes"},
		{"bench,hk=1,hv=2,t=1024", wide, "tpu-few,hbm=yes,chunks=4"},
		{"bench,hk=1,hv=1,l2norm", wide, "tpu-long,hbm=yes"},
		{"bench,hk=1,hv=2", wide, "tpu-few,hbm=yes"},
		{"bench,hk=2,hv=4", wide, "tpu-long,hbm=yes"},
		{"bench,hk=2,hv=4,t=900", wide, ""},
		{"bench,k=64,v=96", small, "tpu-128,state_delay=6,layout=bhdt"},
		{"bench,k=64,v=128", small, "tpu-128,state_delay=6"},
		{"bench,k=64,v=64", wide, "tpu-long,layout=bhdt,hbm=yes"},
		{"bench,k=256,v=256", wide, "tpu-long,hbm=yes"},
		{"bench,k=256,v=256", small, "tpu,decay_bf16=rows,interleave=no,prologue_end=100"}, // four tiles of an MXU a state
		{"bench,k=64,v=64,t=40", small, "tpu-long,phases_before=0"},
	} {
		s := mustParse(t, c.spec)
		text := "tpu"
		if strings.HasPrefix(c.changed, "tpu") {
			text = c.changed
		} else if c.changed != "" {
			text += "," + c.changed
		}
		list := forms(t, "auto-fast", s, c.machine)
		require.Equal(t, fast(t, text, s), list[0].String(), "%s %+v", c.spec, c.machine)
		require.Greater(t, len(list), 1)
		for _, v := range list {
			require.NoError(t, v.Check(s), c.spec)
		}
	}
}

// Visits of packed sequences share a program up to twice as many heads as fill it, then half of them; fewer where memory does not hold them. On
// MXUs of 128 first with another schedule.
func TestSuitedPacked(t *testing.T) {
	for _, c := range []struct {
		heads string
		mxu   int
		want  string // heads x chunks
	}{
		{"hk=4,hv=8", 256, "8x4 8x2 8x1 4x4 4x2 4x1"},
		{"hk=4,hv=8", 128, "8x4 4x4 8x2 8x1 4x4 4x2 4x1 8x2 8x1 4x4 4x2 4x1"},
		{"hk=8,hv=16", 256, "16x2 16x1 8x4 8x2 8x1 4x4 4x2 4x1"},
		{"hk=1,hv=2", 128, "2x4 2x2 2x1 2x4 2x2 2x1"},
		{"hk=16,hv=32", 256, "16x2 16x1 8x4 8x2 8x1 4x4 4x2 4x1"},
		{"hk=16,hv=32", 128, "8x4 4x4 8x2 8x1 4x4 4x2 4x1 8x2 8x1 4x4 4x2 4x1"},
		{"hk=16,hv=48", 256, "24x1"},
	} {
		s := mustParse(t, "contest-prefill,seqs=9,"+c.heads)
		list := forms(t, "auto", s, Machine{Cores: 1, MXUSize: c.mxu})
		var got []string
		for _, v := range list {
			m := v.Fit(s).Mapping
			if n := fmt.Sprintf("%dx%d", m.Heads, m.Chunks); v.Chunk == 128 && m.Pack == PackAligned && (len(got) == 0 || got[len(got)-1] != n) {
				got = append(got, n)
			}
		}
		require.Equal(t, c.want, strings.Join(got, " "), "%+v", c)
	}
}

// Few and short packed sequences: one is a batch row as it lies, those in one block are batch rows with others masked, and those of
// a few steps do without phases that overlap.
func TestSuitedShort(t *testing.T) {
	for _, c := range []struct{ spec, narrow, wide string }{
		{"t=6,seqs=1", "tpu-long,tail_decay=v,decay_bf16=none,phases_before=0", "tpu-long,tail_decay=v,decay_bf16=none,phases_before=0"},
		{"t=4096,seqs=1", "tpu-128,prefetch=dma,tail_decay=v,state_delay=6", "tpu-long,prefetch=dma,hbm=yes,tail_decay=v"},
		{"t=6,seqs=2", "tpu-long,tail_decay=v,pack=masked,batch=4,phases_before=0", "tpu-long,tail_decay=v,pack=masked,batch=4,phases_before=0"},
		{"t=128,seqs=3", "tpu-long,tail_decay=v,pack=masked,batch=4,phases_before=0", "tpu-long,tail_decay=v,pack=masked,batch=4,phases_before=0"},
		{"t=256,seqs=2", "tpu-packed,phases_before=0,chunks=1", "tpu-packed,phases_before=0"},
		{"t=257,seqs=2", "tpu-packed,phases_before=0,chunks=1", "tpu-packed,phases_before=0"},
		{"t=132,seqs=3", "tpu-packed,phases_before=0,chunks=1", "tpu-packed,phases_before=0"},
		{"t=128,seqs=4", "tpu-packed,phases_before=0,chunks=1", "tpu-long,tail_decay=v,pack=masked,batch=4,phases_before=0"},
		{"t=128,seqs=5", "tpu-packed,prefetch=dma,hbm=yes,chunks=2,decay_bf16=operands,state_delay=3", "tpu-packed,phases_before=0"},
		{"t=461,seqs=2", "tpu-packed,prefetch=dma,hbm=yes,chunks=2,decay_bf16=operands,state_delay=3", "tpu-packed,phases_before=0"},
		{"t=1024,seqs=2", "tpu-packed,prefetch=dma,hbm=yes,chunks=2,decay_bf16=operands,state_delay=3", "tpu-packed,prefetch=dma,hbm=yes"},
		{"t=8192,seqs=57", "tpu-packed,prefetch=dma,hbm=yes,chunks=4,decay_bf16=operands,mergepairs=32", "tpu-packed,prefetch=dma,hbm=yes"},
	} {
		s := mustParse(t, "contest-prefill,"+c.spec)
		for size, want := range map[int]string{128: c.narrow, 256: c.wide} {
			list := forms(t, "auto", s, Machine{Cores: 1, MXUSize: size})
			require.Equal(t, parseVariant(t, want).Fit(s).String(), list[0].Fit(s).String(), "%s on %d", c.spec, size)
		}
	}
}

// Changes behind auto hold in every form. Training has rows of its own, and so has each class of accuracy.
func TestChoices(t *testing.T) {
	s := mustParse(t, "bench,hk=16,hv=32")
	for _, v := range forms(t, "auto,heads=8,steps=1", s, Machine{Cores: 1, MXUSize: 256}) {
		require.Equal(t, []int{8, 1}, []int{v.Mapping.Heads, v.Forward.Steps})
	}
	for _, c := range []struct {
		spec, auto string
		size       int
		want       string
	}{
		{"train", "auto", 128, "tpu-train-128,row_broadcast=transpose,prefetch=dma,head_group=2,state_delay=6,prologue_end=90,bwd.state_delay=6"},
		{"train,l2norm", "auto", 128, "tpu-train-128,row_broadcast=transpose,prefetch=dma,head_group=2,state_delay=6,bwd.state_delay=10,bwd.grain=100"},
		{"train,t=600,l2norm", "auto", 128, "tpu-train,decay_bf16=rows,bwd.decay_bf16=rows,grads=lanes,decaysums=lanes,bwd.state_delay=0,bwd.head_skew=0"},
		{"train,t=600", "auto", 128, "tpu-train,decay_bf16=rows,bwd.decay_bf16=rows,grads=lanes,decaysums=lanes,bwd.state_delay=0,bwd.head_skew=0"},
		{"train", "auto", 256, "tpu-train-long,row_broadcast=transpose,prefetch=dma,head_group=2,state_delay=6,prologue_end=90"},
		{"train", "auto-f32-like", 256, "tpu-train-x3-long"},
		{"train", "auto-fla", 256, "tpu-train-x3-long"},
		{"train,negeig", "auto-fla", 256, "tpu-train-x3-long,bwd.state_delay=10"},
		{"train,rule=kda,negeig", "auto-fla", 256, "tpu-train-x3,prec=bf16x3,steps=1,bwd.steps=1"},
		{"train,dtype=f32", "auto", 128, "tpu-train-x3"},
		{"train,gates=fused,l2norm", "auto", 256, "tpu-train-long,row_broadcast=transpose,prefetch=dma,head_group=2,state_delay=6,bwd.head_skew=0"},
		{"train,t=600", "auto", 256, "tpu-train"},
		{"train,t=600,l2norm", "auto", 256, "tpu-train,bwd.head_skew=0"},
		{"train,seqs=9,l2norm", "auto", 256, "tpu-train-long,row_broadcast=transpose,pack=segments,prefetch=dma,head_group=2,state_delay=6,prologue_end=90,bwd.phases_before=0,bwd.head_group=4,bwd.head_skew=0"},
		{"train,hk=8,hv=16", "auto", 256, "tpu-train"},
		{"bench,dtype=f32", "auto", 256, "tpu-x3-long"},
		{"bench,dtype=f32", "auto-fast", 256, "tpu-long,prefetch=dma,hbm=yes,tail_decay=v"},
		{"bench", "auto-f32-like", 128, "tpu-x3"},
		{"bench", "auto-fla", 256, "tpu-long,fold=no,prefetch=dma,hbm=yes,tail_decay=v,refine=yes"},
		{"bench,t=300", "auto-fla", 256, "tpu,fold=no,out=separate,tail_decay=v,refine=yes"},
		{"bench,seqs=9", "auto-fla", 256, "tpu-packed,prefetch=dma,hbm=yes,decay_bf16=rows,refine=yes"},
		{"contest-prefill,t=461,seqs=2", "auto-fla", 256, "tpu-packed,decay_bf16=rows,refine=yes"},
		{"bench,seqs=9", "auto-f32-like", 256, "tpu-x3,pack=segments,prefetch=dma"},
		{"bench,seqs=9,rule=simple-gla", "auto", 256, "tpu-packed,pack=segments,prefetch=dma,hbm=yes"},
		{"train,seqs=9", "auto", 256, "tpu-train-long,row_broadcast=transpose,pack=segments,prefetch=dma,head_group=2,state_delay=6,prologue_end=90,bwd.head_group=4"},
		{"train,seqs=9", "auto", 128, "tpu-train-128,row_broadcast=transpose,pack=segments,prefetch=dma,head_group=2,state_delay=6,prologue_end=90,decay_bf16=rows,bwd.phases_before=0,bwd.head_group=4"},
		{"train,seqs=9", "auto-fla", 256, "tpu-train-x3-long,pack=segments,prefetch=dma"},
		{"train,seqs=9,k=256,v=256", "auto", 128, "tpu-train,decay_bf16=rows,bwd.decay_bf16=rows,grads=lanes,decaysums=lanes,pack=segments,prefetch=dma,bwd.phases_before=0,bwd.head_group=4"},
		{"bench,seqs=9,hk=16,hv=16,rule=simple-gla", "auto", 256, "tpu-packed,pack=segments,chunks=2,prefetch=dma,hbm=yes"},
		{"train,t=256,seqs=2", "auto", 256, "tpu-train,pack=segments,prefetch=dma,bwd.phases_before=0,bwd.head_group=4"},
		{"train,seqs=9,hk=16,hv=16", "auto", 256, "tpu-train,pack=segments,prefetch=dma,bwd.phases_before=0,bwd.head_group=4"},
		{"train,seqs=9,rule=kda", "auto-fla", 256, "tpu-train,out=separate,transpose_k=value,steps=1,head_group=4,bwd.steps=1,bwd.phases_after=0,bwd.head_group=1,span=32,refine=yes,precapply=bf16x3,precgrad=bf16x3,pack=segments,prefetch=dma,decay_bf16=rows,bwd.decay_bf16=rows"},
		{"decode", "auto", 256, "decode-f32,hbm=yes"}, // at the cost of bf16, to the cycle
		{"contest-decode", "auto-fast", 128, "decode-f32,hbm=yes"},
		{"decode,b=2", "auto", 256, "decode,hbm=yes"}, // 305 cycles in float32 for 222 on v6e: few steps hide nothing
		{"decode,b=16", "auto", 256, "decode-f32,hbm=yes"},
		{"decode-pool", "auto", 256, "decode,hbm=yes"}, // 74530 for 74047
		{"decode,rule=kda", "auto", 256, "decode,hbm=yes"},
		{"decode-pool,t=4", "auto-fast", 128, "decode,hbm=yes"},
		{"decode", "auto-fla", 128, "decode-f32,hbm=yes"},
		{"contest-prefill", "auto", 256, "tpu-packed,prefetch=dma,hbm=yes"},
		{"bench,seqs=9", "auto", 256, "tpu-packed,prefetch=dma,hbm=yes,decay_bf16=operands,prologue_end=80,state_whole=yes"},
		{"bench,seqs=9,init", "auto", 128, "tpu-packed,prefetch=dma,hbm=yes,decay_bf16=rows,mergepairs=32,state_whole=yes"},
		{"bench,seqs=9,init,gates=fused", "auto", 128, "tpu-packed,prefetch=dma,hbm=yes,decay_bf16=operands,mergepairs=32,state_whole=yes"},
		{"bench,seqs=9,init,state=vk", "auto", 128, "tpu-packed,prefetch=dma,hbm=yes,decay_bf16=operands,mergepairs=32"},
		{"bench,t=1024,seqs=5,init", "auto", 128, "tpu-packed-128,prefetch=dma,hbm=yes,state_whole=yes"},
		{"bench,seqs=9,gates=fused", "auto", 256, "tpu-packed,prefetch=dma,hbm=yes"},
		{"bench,seqs=9,rule=deltanet", "auto", 256, "tpu-packed,prefetch=dma,hbm=yes"},
		{"contest-prefill", "auto", 128, "tpu-packed,prefetch=dma,hbm=yes,chunks=4,decay_bf16=operands,mergepairs=32"},
		{"contest-prefill,pool=128", "auto", 256, "tpu-packed,prefetch=dma,hbm=yes"},
		{"contest-prefill,t=1024,seqs=1,pool=4", "auto", 256, "tpu-packed,prefetch=dma,hbm=yes"},
	} {
		list := forms(t, c.auto, mustParse(t, c.spec), Machine{Cores: 1, MXUSize: c.size})
		require.Equal(t, parseVariant(t, c.want).String(), list[0].String(), "%s %s", c.spec, c.auto)
	}
	fastMemory := Machine{Cores: 1, MXUSize: 256, VMEM: 64 << 20} // with it, raw gates in float32 cost a fifth
	require.Equal(t, parseVariant(t, "decode,hbm=yes"), parseVariant(t, forms(t, "auto", mustParse(t, "contest-decode"), fastMemory)[0].String()))
	require.Equal(t, parseVariant(t, "decode-f32,hbm=yes"), parseVariant(t, forms(t, "auto", mustParse(t, "decode"), fastMemory)[0].String()))
	for spec, want := range map[string][3]string{
		"bench": {"cpu", "cpu", "chunk=64,flow=split,form=uw"}, "bench,seqs=4": {"cpu-packed", "cpu", "chunk=64,flow=split,form=uw"},
		"decode": {"cpu-decode", "token-inner", "token-inner"}, "decode,t=3": {"cpu-decode", "cpu", "chunk=64,flow=split,form=uw"},
		"train": {"cpu", "cpu", "chunk=64,flow=split,form=uw"},
	} {
		for i, host := range []Host{HostCPU, HostLoops, HostUnrolled} {
			for _, auto := range AutoNames() {
				list, err := Choices(auto, mustParse(t, spec), host, Machine{})
				require.NoError(t, err)
				require.NotEmpty(t, list)
				require.Equal(t, parseVariant(t, want[i]), list[0].Variant)
			}
		}
	}
}

// A broken spec, an unknown class and an axis that does not apply are refused.
func TestChoicesRefused(t *testing.T) {
	s := mustParse(t, "bench")
	for _, bad := range []func(*Spec){func(s *Spec) { *s = Spec{} }, func(s *Spec) { s.HeadsV = 7 }} {
		broken := s
		bad(&broken)
		_, err := Choices("auto", broken, HostTPU, Machine{MXUSize: 256})
		require.Error(t, err)
	}
	_, err := Choices("auto,bwd.head_skew=9", s, HostTPU, Machine{MXUSize: 256})
	require.ErrorContains(t, err, "bwd.head_skew")
	_, err = Choices("automatic", s, HostTPU, Machine{MXUSize: 256})
	require.ErrorContains(t, err, "none of auto auto-fast auto-fla auto-f32-like")
	for host := HostTPU; host <= HostUnrolled; host++ {
		_, err = Choices("auto", mustParse(t, "train,rule=simple-gla"), host, Machine{Cores: 1, MXUSize: 256})
		require.ErrorContains(t, err, "gradients of rule=simple-gla are computed by the reference alone")
	}
	_, err = ParseVariant("auto,state_delay=3")
	require.ErrorContains(t, err, "chosen by spec and target")
	_, err = ParseAccuracy("flaa")
	require.ErrorContains(t, err, `did you mean "fla"`)
}

// Each row of the table can be parsed and gives its reason, and those of a job end with one that holds always, but where a class has rows for
// decays of channels alone: all other specs take the next class.
func TestChampions(t *testing.T) {
	for i, c := range Champions {
		_, err := ParseVariant(c.Text)
		require.NoError(t, err)
		require.NotEmpty(t, c.Why)
		require.NotRegexp(t, `^as `, c.Why, "a reader sees no row but this one")
		same := i+1 < len(Champions) && Champions[i+1].Host == c.Host && Champions[i+1].Accuracy == c.Accuracy && Champions[i+1].job == c.job
		require.Equal(t, !same && !c.where.upTo1, c.where == (where{}), c.Text)
	}
	for _, p := range Presets {
		for host := HostTPU; host <= HostUnrolled; host++ {
			for _, auto := range AutoNames() {
				list, err := Choices(auto, mustParse(t, p.Name), host, Machine{Cores: 1, MXUSize: 256})
				require.NoError(t, err)
				require.NotEmpty(t, list)
			}
		}
	}
	for text, want := range map[string]string{"bench,rule=kda": "tpu,", "bench,rule=gdn2": "tpu,", "decode,rule=gdn2": "decode", "bench,rule=kda,seqs=3": "tpu,", "train,rule=kda": "tpu-train,", "train,rule=gla": "tpu-train,", "decode,rule=kda": "decode",
		"bench,rule=simple-gla": "tpu-long,hbm=yes,out=joined", "bench,rule=linear,t=512": "tpu-long,hbm=yes,out=joined,head_group=2,chunks=2", "bench,rule=simple-gla,t=200": "tpu-long,out=joined", "bench,rule=deltanet": "tpu-"} {
		for _, mxu := range []int{128, 256} {
			for host := HostTPU; host <= HostUnrolled; host++ {
				list, err := Choices("auto", mustParse(t, text), host, Machine{Cores: 1, MXUSize: mxu})
				require.NoError(t, err)
				require.NotEmpty(t, list)
				if host == HostTPU {
					require.True(t, strings.HasPrefix(list[0].From.Text, want), "%s: %s", text, list[0].From.Text)
				}
			}
		}
	}
}

// The short text of a variant parses back, and is a name where there is one.
func TestShort(t *testing.T) {
	for text, want := range map[string]string{"tpu-128": "tpu-128", "tpu-128,heads=4,state_delay=6": "tpu-128,heads=4,state_delay=6", "tpu-x3,mergepairs=64,chunks=4,phases_before=1,steps=1,head_group=1,state_delay=3": "tpu-x3-long",
		"algo=chunk": "default", "chunk=16": "default,chunk=16"} {
		v := parseVariant(t, text)
		require.Equal(t, want, v.Short())
	}
	for _, m := range []Machine{{Cores: 2, MXUSize: 128}, {Cores: 1, MXUSize: 256}} {
		for _, p := range Presets {
			for _, v := range forms(t, "auto-fla", mustParse(t, p.Name), m) {
				require.Equal(t, v, parseVariant(t, v.Short()))
			}
		}
	}
}

// A step has several visits of packed sequences where one program has all heads.
func TestFitSegments(t *testing.T) {
	for text, want := range map[string]int{"tpu-train-long,chunk=64,chunks=2,pack=segments": 2, "tpu-train-long,chunk=64,pack=segments": 4, "tpu-train-long,chunk=64,pack=segments,heads=2": 1, "tpu-train-long,chunk=64": 1} {
		for _, spec := range []string{"train,t=150,hk=2,hv=4,seqs=5", "bench,t=150,hk=2,hv=4,seqs=4,init,rule=simple-gla"} {
			require.Equal(t, want, parseVariant(t, text).Fit(mustParse(t, spec)).Mapping.Chunks, "%s by %s", spec, text)
		}
	}
}
