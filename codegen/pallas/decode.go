package pallas

import (
	"bytes"
	"strings"

	"github.com/gdngen/gdngen/codegen/pallas/pytext"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/ir"
)

// mostTokens is how many tokens of a sequence the kernel of decode.py.tmpl is chosen for; writtenTokens how many it takes, whose work is written out.
const mostTokens, writtenTokens = 4, 16

// Longest is writtenTokens, for the kernel's text.
func (d fileData) Longest() int { return writtenTokens }

// decodes says whether a file has few tokens of each sequence and goes token by token. Then the work is so little that what counts is how
// states come and leave, and the kernel is a text that does so for all sizes, every variant alike: decode.py.tmpl.
func decodes(s gdn.Spec, v gdn.Variant) bool {
	return v.Algo == gdn.AlgoToken && s.Seqs == 0 && s.Tokens <= mostTokens && s.Direction == gdn.Forward
}

// decodeFile is the file of a spec that decodes. Its outputs are sums in float32, but for states with the keys along lanes, whose sums
// take the unit of lanes: there they are products of the matrix unit, unless the variant has its products with the state exact.
func decodeFile(s gdn.Spec, v gdn.Variant) *file {
	m := &module{helpers: map[string]bool{"pin": true, "pinned": true}, taken: map[string]bool{}}
	f := &file{code: &code{m}, variant: v}
	f.data.Decode, f.data.Pool = true, s.Final
	f.data.Exact = v.Numerics.PrecState != ir.PrecBF16x1
	if s.State == gdn.StateVK && !f.data.Exact {
		for _, name := range []string{"bf16", "dot_nt", "dot_general"} {
			m.helpers[name] = true
		}
	}
	return f
}

// writeDecode writes the kernel, once the file's facts are known.
func (f *file) writeDecode() error {
	var b bytes.Buffer
	if err := templates.ExecuteTemplate(&b, "decode", f.data); err != nil {
		return err
	}
	f.funcs = []string{strings.TrimSpace(pytext.Spaced(b.String()))}
	return nil
}

// Prefix begins the names of kernels.
func (d fileData) Prefix() string { return strings.ReplaceAll(d.Rule.String(), "-", "_") }
