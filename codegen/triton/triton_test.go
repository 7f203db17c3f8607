package triton

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/gdn"
)

var update = flag.Bool("update", false, "write the goldens anew")

// goldens are files whose text is kept: a step of a pool, a packed prefill, one long sequence in parts, and padded widths in one kernel.
var goldens = map[string][2]string{
	"decode":  {"contest-decode,pool=128,inplace", "auto"},
	"packed":  {"contest-prefill,seqs=57", "auto"},
	"parts":   {"b=1,t=8192,hk=4,hv=8,k=128,v=128,dtype=bf16,init", "prec=tf32"},
	"padded":  {"b=2,t=100,hk=2,hv=4,k=48,v=96,dtype=f32,l2norm,gates=fused", "kernels=one,chunk=32,inverse=masked"},
	"refined": {"b=2,t=256,hk=1,hv=1,k=64,v=64,dtype=f16", "naive"},
}

func source(t *testing.T, spec, variant string) string {
	s, err := gdn.Parse(spec)
	require.NoError(t, err)
	v, err := Parse(variant, s)
	require.NoError(t, err)
	text, err := Source(s, v, "vX")
	require.NoError(t, err)
	return text
}

// The text of files is that of testdata: go test ./codegen/triton -update writes it anew.
func TestGoldens(t *testing.T) {
	for name, g := range goldens {
		path := filepath.Join("testdata", name+".py")
		text := source(t, g[0], g[1])
		if *update {
			require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
		}
		want, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, string(want), text, name)
	}
}

// Files are laid out as Python is: no blank line inside of a function, two between functions, no trailing space.
func TestLayout(t *testing.T) {
	for name, g := range goldens {
		text := source(t, g[0], g[1])
		require.NotContains(t, text, "\n\n\n\n", name)
		require.NotContains(t, text, " \n", name)
		require.NotContains(t, text, "<no value>", name)
		require.True(t, strings.HasSuffix(text, ")\n"), name)
		for _, f := range strings.Split(text, "\n\n\n")[1:] {
			require.Regexp(t, `^(@triton\.jit\n)?def `, f, name)
			head, body, _ := strings.Cut(f, `"""`)
			require.NotContains(t, head, "\n\n", name)
			_, body, _ = strings.Cut(body, `"""`)
			require.NotContains(t, strings.TrimSpace(body), "\n\n", name)
		}
	}
}

// The text of a variant is its identity: it parses to itself, and what changes no program is not in it.
func TestVariantText(t *testing.T) {
	for _, spec := range []string{"contest-decode", "contest-prefill", "tiny", "bench"} {
		s, err := gdn.Parse(spec)
		require.NoError(t, err)
		for _, a := range Axes {
			for _, value := range a.Values {
				v, err := Default(s).With(a.Name, value)
				require.NoError(t, err)
				v = v.canon(s)
				if v.Check(s) != nil {
					continue
				}
				again, err := Parse("auto,"+v.Text(s), s)
				require.NoError(t, err)
				require.Equal(t, v, again, "%s: %s", spec, v.Text(s))
				if !a.Applies(s, v) {
					require.Equal(t, Default(s), v, "%s: %s changes nothing", spec, a.Name)
				}
			}
		}
	}
}

// Each axis that applies changes the program, and each value gives another.
func TestAxesChangePrograms(t *testing.T) {
	s, err := gdn.Parse("contest-prefill,seqs=4")
	require.NoError(t, err)
	seen := map[string]string{}
	for _, a := range Axes {
		for _, value := range a.Values {
			v, err := Default(s).With(a.Name, value)
			require.NoError(t, err)
			if v = v.canon(s); v.Check(s) != nil {
				continue
			}
			text, err := Source(s, v, "vX")
			require.NoError(t, err)
			_, body, _ := strings.Cut(text, "variant:")
			_, body, _ = strings.Cut(body, "\n")
			if other, ok := seen[body]; ok {
				require.Equal(t, other, v.Text(s))
			}
			seen[body] = v.Text(s)
		}
	}
	require.Greater(t, len(seen), 25)
}

// What can not be written says why.
func TestRefusals(t *testing.T) {
	for _, c := range [][3]string{
		{"bench", "bv=8", "products of Triton are at least 16 wide"},
		{"tiny", "prec=bf16", "rounds inputs that dtype=f32 promises to keep"},
		{"bench", "kernels=one,inverse=substitution", "goes with kernels=two"},
		{"bench", "bv=7", "want 4, 8, 16"},
		{"bench", "width=7", `there is no axis "width"`},
		{"bench", "tpu", `"tpu": want auto, naive, or changes`},
		{"train", "auto", "kernels of the forward pass alone"},
		{"bench,rule=deltanet", "auto", "kernels of the gated delta rule alone"},
		{"bench,k=320", "auto", "at most 256"},
	} {
		s, err := gdn.Parse(c[0])
		require.NoError(t, err)
		_, err = Parse(c[1], s)
		require.ErrorContains(t, err, c[2], c)
	}
}

// Parts are taken where the sequences alone would leave a GPU idle.
func TestDefaultParts(t *testing.T) {
	for spec, part := range map[string]int{"contest-prefill,seqs=57": 0, "contest-prefill,seqs=1": 16, "bench": 8, "bench,b=16": 0, "tiny": 0} {
		s, err := gdn.Parse(spec)
		require.NoError(t, err)
		require.Equal(t, part, Default(s).Part, spec)
	}
}

// A decode step of few sequences has narrower programs.
func TestDefaultDecode(t *testing.T) {
	for spec, bv := range map[string]int{"contest-decode": 8, "contest-decode,b=2": 8, "contest-decode,b=1": 4} {
		s, err := gdn.Parse(spec)
		require.NoError(t, err)
		require.Equal(t, bv, Default(s).BV, spec)
	}
}

// The work of kernels: a decode step moves what the rule needs; a scan goes through the chunks of a sequence, in parts through those of a part.
func TestWork(t *testing.T) {
	work := func(spec, variant string) map[string]Work {
		s, err := gdn.Parse(spec)
		require.NoError(t, err)
		v, err := Parse(variant, s)
		require.NoError(t, err)
		return WorkOf(s, v)
	}
	require.Equal(t, map[string]Work{"decode": {Bytes: 64*(2*8*128*128*4+(2*4+8+8)*128*2+2*8*2) + 2*8*4}}, work("contest-decode", "auto"))
	packed := work("contest-prefill,seqs=57", "part=0")
	require.Equal(t, 3, packed["scan"].Trips, "144 tokens a sequence")
	require.Zero(t, packed["prepare"].Trips)
	states := int64(2 * 57 * 8 * 128 * 128 * 4)
	require.Greater(t, packed["scan"].Bytes, states+8192*(2*4+2*8)*128*2)
	parts := work("contest-prefill,seqs=1", "part=16")
	require.Len(t, parts, 4)
	require.Equal(t, []int{16, 8, 16}, []int{parts["summarise"].Trips, parts["combine"].Trips, parts["scan"].Trips})
	require.Equal(t, int64(8*8*(128*256+128*128)*4+2*8*128*128*4), parts["combine"].Bytes)
	require.Equal(t, 63, work("contest-prefill,seqs=1", "naive")["prepare"].Trips)
	require.NotContains(t, work("contest-prefill,seqs=1", "kernels=one"), "prepare")
	one, two := work("contest-prefill,seqs=57", "kernels=one"), packed
	require.Less(t, one["scan"].Bytes, two["scan"].Bytes, "T and P are not read")
}
