package pallas_test

import (
	"archive/zip"
	"bytes"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/codegen/pallas"
	"github.com/gdngen/gdngen/codegen/pallas/family"
	"github.com/gdngen/gdngen/codegen/route"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/ir"
)

func spec(t *testing.T, text string) gdn.Spec {
	t.Helper()
	s, err := gdn.Parse(text)
	require.NoError(t, err)
	return s
}

func source(t *testing.T, specText, variant string) string {
	t.Helper()
	v, err := gdn.ParseVariant(variant)
	require.NoError(t, err)
	text, err := pallas.Source(spec(t, specText), v, route.Modules, pallas.Provenance{Version: "v0", Libtpu: "libtpu 1", Costs: []pallas.Cost{{Target: "v6e", Cycles: 1000, Wall: 1200}}})
	require.NoError(t, err, "%s by %s", specText, variant)
	return text
}

// Each op is written or refused with a reason.
func TestEveryOp(t *testing.T) {
	for op := ir.BadOp + 1; op < ir.NumOps; op++ {
		if err := pallas.Supports(op); err != nil {
			require.Greater(t, len(err.Error()), len("pallas: "+op.String()+": ")+10, "%s is refused without a reason", op)
		}
	}
	require.Error(t, pallas.Supports(ir.BadOp))
	require.Error(t, pallas.Supports(ir.NumOps))
}

// Files of all named variants are written, with lines no longer than a line is.
func TestNamedVariants(t *testing.T) {
	for _, n := range gdn.Variants {
		if n.Negative {
			continue
		}
		for _, s := range []string{"bench,t=512,hk=1,hv=2", "b=2,t=40,hk=1,hv=2,k=16,v=16,dtype=f32,gates=fused,l2norm,init,state=vk", "b=1,t=96,hk=1,hv=1,k=32,v=32,dtype=f32,seqs=3,init,empty=zero,packed"} {
			v, err := gdn.ParseVariant(n.Text)
			require.NoError(t, err)
			if v.Check(pallas.Spec(spec(t, s))) != nil {
				continue
			}
			if v.Fit(spec(t, s)).Mapping.Pack == gdn.PackStream {
				_, err := pallas.Source(spec(t, s), v, route.Modules, pallas.Provenance{Version: "v0"})
				require.ErrorContains(t, err, "backend stablehlo")
				continue
			}
			text := source(t, s, n.Text)
			for i, line := range strings.Split(text, "\n") {
				require.LessOrEqual(t, len(line), 88, "%s by %s, line %d: %s", s, n.Name, i+1, line)
			}
			require.Contains(t, text, "def gated_delta_rule(")
			require.NotContains(t, text, "\n\n\n\n", "two blank lines at most")
			require.Contains(t, text, "v6e in-order 1200 (")
			require.Contains(t, text, ", issue 1000 (")
		}
	}
}

// A file of flat rows is that of heads as an axis, and says that its kernels read flat ones: a reshape beside it moves nothing.
func TestFlatRows(t *testing.T) {
	const says = "  rows: the kernels read [B, T, heads * width]; reshape such of a projection in the same\n    jit, which moves nothing\n"
	flat := source(t, "bench,t=512,hk=3,hv=3,rows=flat", "tpu-long,layout=bt_hd")
	require.Contains(t, flat, says)
	plain := source(t, "bench,t=512,hk=3,hv=3", "tpu-long,layout=bt_hd")
	require.Equal(t, plain, strings.Replace(strings.Replace(flat, says, "", 1), ",rows=flat", "", 1))
	require.NotContains(t, source(t, "bench,t=512,hk=3,hv=3,rows=flat", "tpu-long"), says)
	_, err := pallas.Source(spec(t, "bench,t=512,rows=qkv"), gdn.Variant{}, route.Modules, pallas.Provenance{Version: "v0"})
	require.ErrorContains(t, err, "with rows=flat")
}

// Views of references, which no list holds, are not taken from their users into a loop of their own.
func TestLoopsHaveBodies(t *testing.T) {
	text := source(t, "hk=1,hv=2,k=128,v=128,dtype=bf16,t=150,seqs=7,init,empty=zero,packed", "tpu-packed,chunk=32,mergepairs=0")
	require.Contains(t, text, "_store_words(")
	indent := func(line string) int { return len(line) - len(strings.TrimLeft(line, " ")) }
	lines := strings.Split(text, "\n")
	for i, line := range lines[:len(lines)-1] {
		if begin := strings.TrimSpace(line); strings.HasPrefix(begin, "for ") && strings.HasSuffix(begin, ":") {
			require.Greater(t, indent(lines[i+1]), indent(line), "line %d: %s", i+1, line)
		}
	}
}

// The rounds of a loop that the IR writes out are a loop again: the file of the kernel for 8 heads is hardly longer than that for 2.
// Where merges join two heads in three passes, a phase ends between the first pair of heads and the others: those are written apart.
func TestHeadsAreRolled(t *testing.T) {
	for variant, most := range map[string]float64{"tpu": 1.45, "tpu-x3,mergepairs=0": 1.45, "tpu-x3": 1.7, "merge-neumann": 1.45} {
		two := strings.Count(source(t, "bench,hk=1,hv=2", variant), "\n")
		eight := strings.Count(source(t, "bench,hk=4,hv=8", variant), "\n")
		require.Less(t, float64(eight), most*float64(two), "%s: %d lines for 2 heads, %d for 8", variant, two, eight)
	}
}

// Each rule has a file in its own name and with its own gates, in chunks, token by token and with kernels of the gradient, and each argument
// is described.
func TestEveryRule(t *testing.T) {
	for i, rule := range gdn.RuleNames() {
		gates := []string{"given", "fused"}[i%2]
		if rule == "simple-gla" || rule == "linear" {
			gates = "given"
		}
		for _, s := range []string{"tiny,rule=" + rule, "tiny,hk=2,l2norm,seqs=2,packed,state=vk,init,rule=" + rule, "tiny,direction=train,rule=" + rule} {
			if strings.Contains(s, "train") && !slices.Contains([]string{"gdn", "kda", "gla", "gdn2"}, rule) {
				continue
			}
			if gates == "fused" {
				s += ",gates=fused"
			}
			text := source(t, s, "chunk=16")
			name := family.Of(spec(t, "tiny,rule="+rule).Rule).Function
			require.Contains(t, text, "\ndef "+name+"(", s)
			require.Contains(t, text, "__all__ = [\""+name+"\"]", s)
			for _, p := range pallas.Spec(spec(t, s)).Differentiable() {
				require.Regexp(t, "(?m)^      "+p.Name+": [a-z]+32\\[.*\\], [a-z]", text, "%s of %s", p.Name, s)
			}
			for i, line := range strings.Split(text, "\n") {
				require.LessOrEqual(t, len(line), 88, "%s, line %d: %s", s, i+1, line)
			}
		}
		source(t, "b=4,t=1,hk=2,hv=2,k=16,v=16,dtype=f32,rule="+rule, "decode-f32")
	}
}

// What a loop varies in a number of an instruction stands in its text, also where the first round adds 0: levels of a decay a channel shift by
// one bit more each, and a sequence begins where the table names another than for the chunk before.
func TestLoopsVaryNumbers(t *testing.T) {
	require.Contains(t, source(t, "t=160,hk=1,hv=2,k=16,v=16,dtype=f32,seqs=3,init,packed", "chunk=64,leafby=neumann,decay=segment"), "jnp.maximum(here - i, 0)")
	require.Contains(t, source(t, "t=32,hk=1,hv=1,k=8,v=8,dtype=f32,rule=gla", "chunk=32"), "row >> i + 2")
}

func TestSameEachTime(t *testing.T) {
	require.Equal(t, source(t, "bench,hk=1,hv=2", "tpu"), source(t, "bench,hk=1,hv=2", "tpu"))
}

// A package has a file for each kind of work, and one for short sequences where they take another variant.
func TestPackage(t *testing.T) {
	write := func(short string) (paths []string, files []pallas.File) {
		parts := pallas.Parts(spec(t, "tiny"))
		for i, p := range parts {
			text := map[bool]string{false: "default", true: short}[p.Name == "short"]
			var err error
			parts[i].Variant, err = gdn.ParseVariant(text)
			require.NoError(t, err)
			parts[i].Costs = []pallas.Cost{{Target: "v6e", Cycles: 1000 * int64(p.Spec.Work())}}
		}
		files, err := pallas.Package("gdr", parts, route.Modules, pallas.Provenance{Version: "v0", Revision: "0123abc"})
		require.NoError(t, err)
		for _, f := range files {
			paths = append(paths, f.Path)
			require.NotEmpty(t, f.Text)
			require.Equal(t, f.Path == "README.md", strings.Contains(f.Text, "v0, revision 0123abc"), f.Path) // modules are the same whatever the commit
		}
		return paths, files
	}
	paths, files := write("default")
	require.Equal(t, []string{"LICENSE", "README.md", "pyproject.toml", "src/gdr/__init__.py", "src/gdr/_recurrent.py", "src/gdr/api.py", "src/gdr/common.py", "src/gdr/decode.py", "src/gdr/forward.py",
		"src/gdr/packed.py", "src/gdr/parallel.py", "src/gdr/py.typed", "src/gdr/train.py", "tests/conftest.py", "tests/test_api.py",
		"tests/test_parallel.py"}, paths)
	license, err := os.ReadFile(filepath.Join("..", "..", "LICENSE"))
	require.NoError(t, err)
	require.Equal(t, string(license), files[0].Text)
	require.Contains(t, files[1].Text, "v6e 1000.00")
	require.NotContains(t, files[5].Text, "short")
	paths, _ = write("token")
	require.Contains(t, paths, "src/gdr/short.py")
}

// A package for several generations has one file of what they have alike, and a table of the others by kinds of devices.
func TestPackageOfSeveralTargets(t *testing.T) {
	var parts []pallas.Part
	for target, text := range map[string]string{"v6e": "default", "v5e": "chunk=16"} {
		for _, p := range pallas.Parts(spec(t, "tiny")) {
			variant := "default"
			if p.Name == "forward" || p.Name == "short" {
				variant = text
			}
			var err error
			p.Target = target
			p.Variant, err = gdn.ParseVariant(variant)
			require.NoError(t, err)
			parts = append(parts, p)
		}
	}
	slices.SortStableFunc(parts, func(a, b pallas.Part) int { return strings.Compare(b.Target, a.Target) }) // v6e first
	files, err := pallas.Package("gdr", parts, route.Modules, pallas.Provenance{Version: "v0"})
	require.NoError(t, err)
	texts := map[string]string{}
	for _, f := range files {
		texts[f.Path] = f.Text
	}
	api := texts["src/gdr/api.py"]
	require.Contains(t, api, "from gdr import common, decode, forward, forward_v5e, packed, train\n")
	require.Contains(t, api, "V5E = {forward: forward_v5e}\n")
	require.Contains(t, api, `"TPU v5 lite": V5E`)
	require.Contains(t, api, `"TPU v4": V5E`, "matrix units of as many rows")
	require.NotContains(t, api, "TPU7x", "it runs what v6e runs")
	require.Contains(t, texts["src/gdr/forward_v5e.py"], "from gdr.common import (")
	require.Contains(t, texts["README.md"], "was chosen for TPU v6e, and in `forward_v5e` for TPU v5e (taken on v4, v5p too).")
	require.Contains(t, texts["tests/conftest.py"], `params=["cpu", "TPU v5 lite"]`)
}

// A wheel has the modules of a package, and a record by which pip finds each.
func TestWheel(t *testing.T) {
	name, data, err := pallas.Wheel("two_words", []pallas.File{{Path: "LICENSE", Text: "Do.\n"}, {Path: "README.md", Text: "# It\n"}, {Path: "src/two_words/__init__.py", Text: "x = 1\n"}, {Path: "tests/test_api.py", Text: ""}})
	require.NoError(t, err)
	require.Equal(t, "two_words-0.1.0-py3-none-any.whl", name)
	z, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	require.NoError(t, err)
	texts := map[string]string{}
	for _, f := range z.File {
		r, err := f.Open()
		require.NoError(t, err)
		text, err := io.ReadAll(r)
		require.NoError(t, err)
		texts[f.Name] = string(text)
	}
	require.Len(t, texts, 5)
	require.Equal(t, "Do.\n", texts["two_words-0.1.0.dist-info/licenses/LICENSE"])
	require.Equal(t, "x = 1\n", texts["two_words/__init__.py"])
	require.Contains(t, texts["two_words-0.1.0.dist-info/METADATA"], "Name: two-words\n")
	require.Contains(t, texts["two_words-0.1.0.dist-info/RECORD"], "two_words/__init__.py,sha256=nia_NpkRxFwkPGhBR7I_yeHc_PJX0pmhxjIBam_NM_Q,6\n")
}

// A file of few tokens has a function over a pool where it gives states, and one kernel whatever the size and the variant.
func TestDecode(t *testing.T) {
	kernel := func(text string) string {
		from, to := strings.Index(text, "class _States("), strings.Index(text, "AXES = {")
		require.Positive(t, from)
		return text[from:to]
	}
	want := kernel(source(t, "b=8,t=1,hk=2,hv=4,k=16,v=16,init", "decode"))
	for _, work := range []string{"b=1,t=1,hk=4,hv=4,k=128,v=128,init", "b=70,t=3,hk=2,hv=4,k=16,v=16"} {
		for _, variant := range []string{"decode", "decode,heads=2,hbm=yes"} {
			text := source(t, work, variant)
			require.Equal(t, want, kernel(text), "%s by %s", work, variant)
			require.Contains(t, text, "def gated_delta_rule_pool(")
		}
	}
	require.Contains(t, source(t, "b=8,t=1,hk=4,hv=4,k=16,v=16,init,state=vk,rule=kda", "decode"), "def kda_pool(")
	require.NotContains(t, source(t, "b=8,t=1,hk=2,hv=4,k=16,v=16,final=false", "decode"), "_pool(")
	require.NotContains(t, source(t, "b=8,t=8,hk=2,hv=4,k=16,v=16", "decode"), "class _States(", "tokens one by one, by steps")
}

func TestRefusals(t *testing.T) {
	for text, want := range map[string]string{
		"tiny,dtype=f16":                        "take bf16",
		"tiny,direction=backward":               "direction=forward",
		"tiny,rule=deltanet,direction=train":    "direction=forward",
		"tiny,every=16":                         "leave out every",
		"tiny,l2norm,conv=4":                    "leave out conv",
		"b=2,t=8,hk=1,hv=1,k=8,v=8,init,pool=4": "without pool",
	} {
		v, err := gdn.ParseVariant("default")
		require.NoError(t, err)
		_, err = pallas.Source(spec(t, text), v, route.Modules, pallas.Provenance{})
		require.ErrorContains(t, err, want, text)
	}
}

// Interpret mode takes no number beside rows with a stride, so the place in a list of scratch stands apart from them.
func TestStridesStandAlone(t *testing.T) {
	text := source(t, "b=1,t=70,hk=2,hv=4,k=32,v=32,dtype=f32,init,direction=train", "chunk=32,layout=bthd,kq=joined")
	require.Contains(t, text, ".at[0][pl.ds(i, 32, stride=2)]")
	require.NotRegexp(t, `\[\w+, pl\.ds\([^)]*stride=`, text)
}

// Scratch is named after what it holds, and so is what is loaded from it: q and k in turn, or both where a loop takes now one, now the other.
func TestScratchSaysWhatItHolds(t *testing.T) {
	text := source(t, "t=512,hk=2,hv=4,k=128,v=128,dtype=bf16,direction=train", "tpu-train-long")
	require.Regexp(t, `products_q_k: Ref`, text)
	require.Regexp(t, `\bk = _halves\(refs\.products_q_k\[2 \* h \+ 1,`, text)
	require.Contains(t, text, "k_q_growns")
	require.Regexp(t, `operands_parts: Ref`, text)
}

// A gradient that nobody asks for is a constant, which the backward kernel takes as zeros.
func TestKernelTakesConstant(t *testing.T) {
	text := source(t, "t=40,hk=1,hv=2,k=64,v=64,dtype=bf16,seqs=2,init,final=false,direction=train", "uw")
	_, call, _ := strings.Cut(text, " = _backward(\n")
	call, _, _ = strings.Cut(call, "\n    )\n")
	require.Contains(t, call, "jnp.zeros((rows, 2, 64, 64), jnp.float32)")
}

// The bodies of packed sequences, of which there is one for each number of steps behind the last, share the functions of a phase: they
// differ in a place, inside conditions too.
func TestBodiesShareFunctions(t *testing.T) {
	text := source(t, "t=70,hk=1,hv=2,k=128,v=128,dtype=bf16,seqs=3,init,packed", "tpu-packed,chunk=32,mergepairs=0,prefetch=dma")
	require.Contains(t, text, "def _copy(")
	require.NotContains(t, text, "def _copy_2(")
	require.Regexp(t, `_advance\(\s*refs, [^)]*place=0`, text)
	require.Regexp(t, `_advance\(\s*refs, [^)]*place=1`, text)
}

// Lanes of one row are taken from two, of which alone JAX makes what a TPU lowers; files of more rows take them as they are.
func TestLanesOfOneRow(t *testing.T) {
	for work, rows := range map[string]bool{"b=1,t=64,hk=1,hv=1,k=16,v=16": true, "b=1,t=64,hk=1,hv=2,k=16,v=16": false} {
		text := source(t, work+",dtype=bf16", "tpu,chunk=16,leaf=8")
		require.Contains(t, text, "def _take(", work)
		require.Equal(t, rows, strings.Contains(text, "return _take(*rows)[:1]"), work)
	}
}
