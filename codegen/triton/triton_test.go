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

// atLaunch is the spec of a golden whose sizes are those of a call.
const atLaunch = "contest-prefill,seqs=2"

// goldens are files whose text is kept: a step of a pool, a packed prefill, one long sequence in parts, and padded widths in one kernel.
var goldens = map[string][2]string{
	"launch": {atLaunch, "part=4"},

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
	write := Source
	if spec == atLaunch {
		write = AtLaunch
	}
	text, err := write(s, v, "vX")
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
			require.Regexp(t, `^(@triton\.jit(\(.*\))?\n)?def `, f, name)
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
		{"bench", "bv=32,stages=1", "reads beyond shared memory"},
		{"bench", "bv=64,stages=1,mapbv=32,part=4", "reads beyond shared memory"},
		{"bench", "width=7", `there is no axis "width"`},
		{"bench", "tpu", `"tpu": want auto, naive, or changes`},
		{"train", "auto", "kernels of the forward pass alone"},
		{"bench,rule=deltanet", "auto", "kernels of the gated delta rule alone"},
		{"bench,k=320", "auto", "at most 256"},
		{"bench,l2norm,conv=4", "auto", "behind the convolution"},
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

// What is taken without a wish never strays, whatever its widths; two warps are no group, and stray in no form.
func TestMiscompiled(t *testing.T) {
	for _, heads := range []string{"hk=1,hv=1", "hk=4,hv=8", "hk=16,hv=32"} {
		for _, widths := range []string{"k=16,v=16", "k=32,v=128", "k=128,v=32", "k=128,v=128", "k=256,v=256", "k=100,v=96"} {
			for _, rest := range []string{"t=70", "t=8192", "t=8192,seqs=57", "t=8192,seqs=8", "t=8192,dtype=f32"} {
				if !strings.Contains(rest, "dtype") {
					rest += ",dtype=bf16"
				}
				s, err := gdn.Parse("b=1," + heads + "," + widths + "," + rest)
				require.NoError(t, err)
				for _, text := range []string{"auto", "naive"} {
					v, err := Parse(text, s)
					require.NoError(t, err, "%s: %s", s, text)
					require.False(t, v.miscompiles(s), "%s: %s", s, v.Text(s))
				}
			}
		}
	}
	s, err := gdn.Parse("bench")
	require.NoError(t, err)
	_, err = Parse("part=0,bv=16,warps=2,stages=1", s)
	require.NoError(t, err)
	for text, strays := range map[string]bool{"part=0,bv=32": true, "part=0,bv=64": false, "part=4,bv=64,mapbv=64": false, "part=4,bv=64,mapbv=32": true, "part=0,bv=16,warps=8": true, "part=0,bv=16,warps=2": false} {
		v, err := Default(s).changed(text + ",stages=1")
		require.NoError(t, err)
		require.Equal(t, strays, v.miscompiles(s), text)
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
	work := func(spec, variant string) Works {
		s, err := gdn.Parse(spec)
		require.NoError(t, err)
		v, err := Parse(variant, s)
		require.NoError(t, err)
		return WorkOf(s, v)
	}
	require.Equal(t, Works{"decode": {Bytes: 64*(2*8*128*128*4+(2*4+8+8)*128*2+2*8*2) + 2*8*4}}, work("contest-decode", "auto"))
	packed := work("contest-prefill,seqs=57", "part=0")
	require.Equal(t, 5, packed["scan"].Trips, "144 tokens a sequence, 32 a chunk")
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

// What takes calls of all sizes has no size of one in it: the text is the same whatever workload it was written from.
func TestAtLaunch(t *testing.T) {
	for _, specs := range [][2]string{{"contest-decode,b=1", "contest-decode,b=64,scale=0.5"}, {"contest-prefill,t=6,seqs=1", "contest-prefill,seqs=57"}} {
		var texts []string
		for _, text := range specs {
			s, err := gdn.Parse(text)
			require.NoError(t, err)
			forms, err := Forms(s, "")
			require.NoError(t, err)
			all := ""
			for _, f := range forms {
				text, err := AtLaunch(s, f.Variant, "vX")
				require.NoError(t, err)
				all += text
			}
			texts = append(texts, all)
		}
		require.Equal(t, texts[0], texts[1])
		require.NotContains(t, texts[0], "TOKENS")
		require.NotContains(t, texts[0], "SCALE")
		require.Equal(t, strings.HasPrefix(specs[0], "contest-prefill"), strings.Contains(texts[0], "tokens * 1024 >= 2**31"), "addresses have 32 bits")
	}
	for _, spec := range []string{"bench", "contest-decode,pool=128", "contest-prefill,seqs=3,init=false,empty=keep"} {
		s, err := gdn.Parse(spec)
		require.NoError(t, err)
		_, err = AtLaunch(s, Default(s), "vX")
		require.ErrorContains(t, err, "sizes of a call are for")
	}
}

// pick is the form of a call, by the tokens of all its sequences.
func pick(forms []Form, s gdn.Spec, tokens, sequences int) *Form {
	keeps := func(n, most int) bool { return most == 0 || n <= most }
	for i, f := range forms {
		if keeps(sequences*s.HeadsV*s.V, f.Columns) && (f.Length == 0 || tokens <= f.Length*sequences) && keeps(tokens, f.Tokens) {
			return &forms[i]
		}
	}
	return nil
}

// Every call has a form: what auto would take there, but for lengths between.
func TestForms(t *testing.T) {
	s, err := gdn.Parse("contest-prefill,seqs=2")
	require.NoError(t, err)
	forms, err := Forms(s, "prec=tf32")
	require.NoError(t, err)
	for _, c := range []struct {
		tokens, sequences int
		want              string
	}{{0, 1, "scan"}, {6, 1, "scan"}, {65, 1, "scan"}, {300, 3, "scan"}, {2048, 1, "parts"}, {4096, 2, "parts"}, {8192, 1, "long_parts"}, {8192, 8, "wide"}, {65536, 16, "wide"}, {8192, 57, "wide"}, {1 << 20, 57, "wide"}} {
		f := pick(forms, s, c.tokens, c.sequences)
		require.Equal(t, c.want, f.Name, "%d tokens of %d sequences", c.tokens, c.sequences)
		require.Equal(t, "tf32", f.Variant.Prec)
	}
	s, err = gdn.Parse("contest-decode")
	require.NoError(t, err)
	forms, err = Forms(s, "auto,warps=2")
	require.NoError(t, err)
	require.Equal(t, []int{4, 8}, []int{pick(forms, s, 1, 1).Variant.BV, pick(forms, s, 2, 2).Variant.BV})
	require.Equal(t, 2, forms[0].Variant.Warps)
	_, err = Forms(s, "width=3")
	require.ErrorContains(t, err, `form few: triton variant: there is no axis "width"`)
}
