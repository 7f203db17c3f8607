package pallas

import (
	"bytes"
	"strings"

	"github.com/gdngen/gdngen/codegen/pallas/pytext"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/ir"
)

// The kernel of decode.py.tmpl is chosen up to mostTokens tokens per sequence, and takes up to writtenTokens, with its work unrolled.
const mostTokens, writtenTokens = 4, 16

// Longest returns writtenTokens, for the template.
func (d fileData) Longest() int { return writtenTokens }

// decodes reports whether a file uses the kernel of decode.py.tmpl: few tokens per sequence, token by token. The work is then so little
// that only the copies of states matter, and one kernel text serves all sizes and variants.
func decodes(s gdn.Spec, v gdn.Variant) bool {
	return v.Algo == gdn.AlgoToken && s.Seqs == 0 && s.Tokens <= mostTokens && s.Direction == gdn.Forward
}

// decodeFile returns the file of a decode. Outputs are float32 sums. With states [V, K] those sums would need the XLU, so they are MXU
// products instead, unless the variant has exact products with the state.
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

// writeDecode writes the kernel's text, after f.data is complete.
func (f *file) writeDecode() error {
	var b bytes.Buffer
	if err := templates.ExecuteTemplate(&b, "decode", f.data); err != nil {
		return err
	}
	f.funcs = []string{strings.TrimSpace(pytext.Spaced(b.String()))}
	return nil
}

// Prefix returns the first part of the kernels' names.
func (d fileData) Prefix() string { return strings.ReplaceAll(d.Rule.String(), "-", "_") }
