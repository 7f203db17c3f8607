package gdn

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The first form of a named variant, by spec and machine: how much shares a program.
func TestSuited(t *testing.T) {
	small, wide, pair := Machine{Cores: 1, MXUSize: 128}, Machine{Cores: 1, MXUSize: 256}, Machine{Cores: 2, MXUSize: 128}
	for _, c := range []struct {
		spec    string
		machine Machine
		changed string
	}{
		{"bench", small, "tpu-128"},
		{"bench", wide, "tpu-long"},
		{"bench,t=1024", wide, "tpu-long"},
		{"bench,t=2048", wide, "tpu-long"},
		{"bench,t=256", wide, "tpu-long,ahead=0"},
		{"bench,t=1", small, "tpu-long,ahead=0"},
		{"bench,t=257", wide, ""},
		{"bench,t=100,hk=8,hv=16", wide, ""},
		{"bench,t=500", wide, "tpu-long,ahead=0"},
		{"bench,t=400", wide, ""}, // 112 would be padding
		{"bench,t=1000", wide, "tpu-long"},
		{"bench,t=600", wide, ""},
		{"bench,t=768", small, "tpu-128,chunks=2"},
		{"bench,t=1100", wide, ""}, // 436 tokens would be padding
		{"bench,b=3", wide, "tpu-long"},
		{"bench,b=8,hk=1,hv=1", wide, "tpu-long,batch=8"},
		{"bench,direction=train", wide, "tpu-long"},
		{"bench", pair, "tpu-128,heads=4"},
		{"bench,t=1024", pair, "tpu-128,heads=4"},
		{"bench,t=512", pair, "tpu-128,chunks=2,heads=4"},
		{"bench,t=200", pair, "tpu-long,ahead=0,heads=4"},
		{"bench,b=2,t=1024", pair, "tpu-128"},
		{"bench,hk=8,hv=16", small, "tpu-128,heads=8"},
		{"bench,hk=8,hv=16", wide, "tpu-long,heads=8"},
		{"bench,hk=8,hv=16,t=512", wide, ""},
		{"bench,hk=16,hv=32", wide, "tpu-long,heads=8"},
		{"bench,hk=16,hv=32,t=512", wide, "heads=16"},
		{"bench,hk=2,hv=32", small, "tpu,low=rows,beside=no,ready=100"}, // words of two keys are not parted
		{"bench,hk=7,hv=14", small, "tpu,low=rows,beside=no,ready=100"},
		{"bench,hk=7,hv=7", small, "tpu-128"},
		{"bench,l2norm", small, "tpu-128,ready=100"},
		{"bench,b=4", wide, "tpu-long"},
		{"bench,b=4,t=512", wide, "batch=2"},
		{"bench,b=8,hk=1,hv=1", small, "tpu-128,batch=8"},
		{"bench,hk=1,hv=1", wide, "tpu-long"},
		{"bench,hk=1,hv=2", wide, "tpu-long"},
		{"bench,hk=2,hv=4", wide, "tpu-long"},
		{"bench,hk=2,hv=4,t=900", wide, ""},
		{"bench,hk=1,hv=1,seqs=4", wide, ""},
		{"bench,k=64,v=96", small, "tpu-128,layout=turned"},
		{"bench,k=64,v=128", small, "tpu-128"},
		{"bench,k=64,v=64", wide, "tpu-long,layout=turned"},
		{"bench,k=256,v=256", wide, "tpu-long"},
		{"bench,k=256,v=256", small, "tpu,low=rows,beside=no,ready=100"}, // four tiles of a matrix unit a state
		{"bench,k=64,v=64,t=40", small, "tpu-long,ahead=0"},
	} {
		s := mustParse(t, c.spec)
		text := "tpu"
		if strings.HasPrefix(c.changed, "tpu") {
			text = c.changed
		} else if c.changed != "" {
			text += "," + c.changed
		}
		list, err := ParseVariantFor("tpu", s, c.machine)
		require.NoError(t, err)
		require.Equal(t, parseVariant(t, text).String(), list[0].String(), "%s %+v", c.spec, c.machine)
		require.Greater(t, len(list), 1)
		for _, v := range list {
			require.NoError(t, v.Check(s), c.spec)
		}
	}
}

// Visits of packed sequences share a program up to twice as many heads as fill it; fewer where memory does not hold them. On matrix
// units of 128 first with another schedule.
func TestSuitedPacked(t *testing.T) {
	for _, c := range []struct {
		heads string
		mxu   int
		want  []int // chunks
	}{{"hk=4,hv=8", 256, []int{4, 2, 1}}, {"hk=4,hv=8", 128, []int{2, 1, 2, 1}}, {"hk=8,hv=16", 256, []int{2, 1}}, {"hk=1,hv=2", 128, []int{4, 2, 1, 4, 2, 1}}} {
		s := mustParse(t, "contest-prefill,seqs=9,"+c.heads)
		list, err := ParseVariantFor("tpu-packed", s, Machine{Cores: 1, MXUSize: c.mxu})
		require.NoError(t, err)
		var got []int
		for _, v := range list {
			if n := v.Fit(s).Chunks; v.Chunk == 128 && v.Fit(s).Pack == PackAligned && (len(got) == 0 || got[len(got)-1] != n) {
				got = append(got, n)
			}
		}
		require.Equal(t, c.want, got, "%+v", c)
	}
}

// The kernel copies blocks of inputs that vector memory does not hold beside it.
func TestSuitedFetch(t *testing.T) {
	for spec, want := range map[string]map[int]Fetch{
		"contest-prefill,seqs=57":        {0: FetchWindows, 64 << 20: FetchCopies, 128 << 20: FetchWindows},
		"contest-prefill,seqs=57,t=4096": {64 << 20: FetchCopies, 128 << 20: FetchWindows},
		"contest-prefill,seqs=9,t=2048":  {64 << 20: FetchWindows},
	} {
		for vmem, fetch := range want {
			list, err := ParseVariantFor("tpu-packed", mustParse(t, spec), Machine{Cores: 1, MXUSize: 256, VMEM: vmem})
			require.NoError(t, err)
			require.Equal(t, fetch, list[0].Fetch, "%s, %d", spec, vmem)
		}
	}
	list, err := ParseVariantFor("tpu-packed,fetch=windows", mustParse(t, "contest-prefill,seqs=57"), Machine{Cores: 1, MXUSize: 256, VMEM: 64 << 20})
	require.NoError(t, err)
	require.Equal(t, FetchWindows, list[0].Fetch)
}

// Few and short packed sequences: one is a batch row as it lies, those of three visits are batch rows with others masked, and those of
// a few steps do without phases that overlap.
func TestSuitedShort(t *testing.T) {
	for _, c := range []struct{ spec, narrow, wide string }{
		{"t=6,seqs=1", "tpu-long,ahead=0", "tpu-long,ahead=0"},
		{"t=4096,seqs=1", "tpu-128", "tpu-long"},
		{"t=6,seqs=2", "tpu-long,pack=masked,batch=4,ahead=0", "tpu-long,pack=masked,batch=4,ahead=0"},
		{"t=256,seqs=2", "tpu-long,pack=masked,batch=4,ahead=0", "tpu-long,pack=masked,batch=4,ahead=0"},
		{"t=257,seqs=2", "tpu-packed,ahead=0,chunks=1", "tpu-packed,ahead=0,chunks=1"},
		{"t=128,seqs=4", "tpu-packed,ahead=0,chunks=1", "tpu-packed,ahead=0,chunks=1"},
		{"t=461,seqs=2", "tpu-packed,chunks=2,low=operands,late=3", "tpu-packed,ahead=0"},
		{"t=1024,seqs=2", "tpu-packed,chunks=2,low=operands,late=3", "tpu-packed"},
		{"t=8192,seqs=57", "tpu-packed,chunks=2,low=operands,late=3", "tpu-packed"},
	} {
		s := mustParse(t, "contest-prefill,"+c.spec)
		for size, want := range map[int]string{128: c.narrow, 256: c.wide} {
			list, err := ParseVariantFor("tpu-packed", s, Machine{Cores: 1, MXUSize: size})
			require.NoError(t, err)
			require.Equal(t, parseVariant(t, want).Fit(s).String(), list[0].Fit(s).String(), "%s on %d", c.spec, size)
		}
		list, err := ParseVariantFor("tpu-packed,lock=2", s, Machine{Cores: 1, MXUSize: 256}) // entries are meant for the variant itself
		require.NoError(t, err)
		require.Equal(t, PackAligned, list[0].Pack)
	}
}

// Entries after a name hold in every form; texts without a name, and variants whose phases do not overlap, have one form.
func TestParseVariantFor(t *testing.T) {
	s := mustParse(t, "bench,hk=16,hv=32")
	list, err := ParseVariantFor("tpu,heads=8,steps=1", s, Machine{Cores: 1, MXUSize: 256})
	require.NoError(t, err)
	for _, v := range list {
		require.Equal(t, []int{8, 1}, []int{v.Heads, v.Steps})
	}
	require.Equal(t, parseVariant(t, "tpu,heads=8,steps=1"), list[0])
	for _, text := range []string{"chunk=128,ahead=1", "merge-packed", "naive", "token"} {
		list, err := ParseVariantFor(text, s, Machine{})
		require.NoError(t, err)
		require.Equal(t, []Variant{parseVariant(t, text)}, list)
	}
	const long = ",chunks=4,steps=1,mergepairs=64,ahead=1,lock=1,beside=no,ready=100,late=3"
	for _, c := range []struct {
		spec, name string
		size       int
		changes    string
	}{
		{"train", "tpu-train", 128, long + ",grads=lanes,decaysums=lanes,backlate=0,stagger=0"},
		{"train,t=600", "tpu-train", 128, ",low=rows,grads=lanes,decaysums=lanes,backlate=0,stagger=0"},
		{"train", "tpu-train", 256, long},
		{"train", "tpu-train-x3", 256, long + ",spread=turned"},
		{"train,t=600", "tpu-train", 256, ""},
		{"train,hk=8,hv=16", "tpu-train", 256, ""},
	} {
		list, err := ParseVariantFor(c.name, mustParse(t, c.spec), Machine{Cores: 1, MXUSize: c.size})
		require.NoError(t, err)
		require.Equal(t, parseVariant(t, c.name+c.changes).String(), list[0].String(), c.spec)
	}
	for _, bad := range []func(*Spec){func(s *Spec) { *s = Spec{} }, func(s *Spec) { s.HeadsV = 7 }} {
		broken := s
		bad(&broken)
		_, err := ParseVariantFor("tpu", broken, Machine{MXUSize: 256})
		require.Error(t, err)
	}
	_, err = ParseVariantFor("tpuu", s, Machine{})
	require.ErrorContains(t, err, `did you mean "tpu"`)
}
