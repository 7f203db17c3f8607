package pallas_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/codegen/pallas"
	"github.com/gdngen/gdngen/codegen/pallas/helpers"
	"github.com/gdngen/gdngen/codegen/route"
	"github.com/gdngen/gdngen/gdn"
)

var (
	issued = regexp.MustCompile(`\(\s*\d+,\s*"(\w+)",\s*lambda refs:`)
	defs   = regexp.MustCompile(`(?m)^(?:def|class) (\w+)`)
	spans  = regexp.MustCompile(`(?m)^_\w*SPANS \|?= (.*)$`)
	waits  = regexp.MustCompile(`\byield\b|\bWork\b|\bwaits\b`)
)

// Files give nothing of a schedule but the part of its time that each phase has, as their phases are ordered while JAX traces them. Stages of
// their own time are scopes.
func TestTrace(t *testing.T) {
	for _, x := range []struct{ spec, variant, spans string }{
		{"bench,t=1024,init", "tpu-long,prefetch=dma,hbm=yes,tail_decay=v", `{"prepare": (0.00, 1.00), "advance": (0.06, 1.00)}`},
		{"bench,t=1024,init", "tpu", `{"prepare": (0.00, 1.00), "invert": (0.00, 1.00), "advance": (0.00, 1.00)}` + "\n" + `{"operands": (0.00, 1.00)}`},
		{"bench,t=1024,init,direction=train", "tpu-train", ""},
		{"bench,t=1024,hk=8,rule=kda,bound=-5,init", "tpu,transpose_k=value,span=32,out=separate,steps=1,head_group=4,interleave=no",
			`{"prepare": (0.44, 0.80), "invert": (0.00, 1.00), "advance": (0.00, 1.00)}` + "\n" + `{"decay": (0.00, 0.28)}`},
		{"bench,t=1024,seqs=3,init", "tpu-packed-128,chunks=4,prefetch=dma,hbm=yes,state_delay=3,prologue_end=80", `{"prepare": (0.00, 1.00), "advance": (0.03, 1.00), "piece": (0.000, 0.005)}`},
	} {
		v, err := gdn.ParseVariant(x.variant)
		require.NoError(t, err)
		text, err := pallas.Source(spec(t, x.spec), v, route.Modules, pallas.Provenance{Version: "v0"})
		require.NoError(t, err)
		_, code, _ := strings.Cut(text, "import dataclasses")
		require.Empty(t, waits.FindString(code), "%s by %s", x.spec, x.variant)
		require.Equal(t, 1, strings.Count(text, strings.TrimSpace(helpers.Pipeline)), "as it stands")
		names := map[string]bool{}
		for _, m := range defs.FindAllStringSubmatch(text, -1) {
			require.False(t, names[m[1]], "%s by %s: %s is defined twice", x.spec, x.variant, m[1])
			names[m[1]] = true
		}
		var own []string
		for _, m := range spans.FindAllStringSubmatch(text, -1) {
			own = append(own, m[1])
		}
		all := strings.Join(own, "\n")
		if x.spans != "" {
			require.Equal(t, x.spans, all, "%s by %s", x.spec, x.variant)
		}
		phases := issued.FindAllStringSubmatch(text, -1)
		require.NotEmpty(t, phases)
		for _, p := range phases {
			require.Contains(t, all, `"`+p[1]+`": (`, "%s by %s", x.spec, x.variant)
		}
		for i, line := range strings.Split(text, "\n") {
			require.LessOrEqual(t, len(line), 88, "%s by %s, line %d: %s", x.spec, x.variant, i+1, line)
		}
	}
}

// A package has the module that orders kernels once, and kernels take it from there.
func TestTracedPackage(t *testing.T) {
	var parts []pallas.Part
	variants := map[string]string{"forward": "tpu", "short": "tpu", "train": "tpu-train,chunk=64", "decode": "decode", "packed": "tpu-packed,chunk=32,mergepairs=0"}
	for _, p := range pallas.Parts(spec(t, "b=2,t=300,hk=1,hv=2,k=128,v=128,dtype=bf16,init")) {
		var err error
		p.Variant, err = gdn.ParseVariant(variants[p.Name])
		require.NoError(t, err)
		parts = append(parts, p)
	}
	files, err := pallas.Package("gdr", parts, route.Modules, pallas.Provenance{Version: "v0"})
	require.NoError(t, err)
	takes := 0
	for _, f := range files {
		if !strings.HasPrefix(f.Path, "src/") || strings.HasSuffix(f.Path, "/decode.py") { // of another text
			continue
		}
		require.Empty(t, waits.FindString(f.Text), f.Path)
		own := strings.Contains(f.Text, "def _interleave(")
		require.Equal(t, f.Path == "src/gdr/pipeline.py", own, f.Path)
		if !own && strings.Contains(f.Text, "_interleave(") {
			require.Contains(t, f.Text, "from gdr.pipeline import _interleave\n", f.Path)
			common := strings.Index(f.Text, "from gdr.common import ")
			require.True(t, 0 <= common && common < strings.Index(f.Text, "from gdr.pipeline"), "%s: imports are sorted", f.Path)
			takes++
		}
	}
	require.Positive(t, takes)
	init := slices.IndexFunc(files, func(f pallas.File) bool { return strings.HasSuffix(f.Path, "/__init__.py") })
	require.Contains(t, files[init].Text, "__version__ = \"0.1.0\"\n")
}
