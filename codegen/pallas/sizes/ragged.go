package sizes

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

var (
	// tokenRows matches an array of tokens as the rows of a kernel's operand: q.reshape(rows, 2048 * steps, 128).
	tokenRows = regexp.MustCompile(`\b([qkvo])\.reshape\(([^,()]+), ([^,()]*\bsteps\b[^,()]*), ([^()]*)\)`)
	// operandsOf matches the names of the operands of a kernel that takes them as args.
	operandsOf = regexp.MustCompile(`, \*args: (?s:.*?)"""Runs the kernel on (.*?)\."""`)
	// firstOut matches the shape of a kernel's first result.
	firstOut = regexp.MustCompile(`out_shape = \((_pinned|jax\.ShapeDtypeStruct)\((\([^()]*\)), `)
)

// Ragged changes a program so that its only kernel accepts any number of tokens: the last blocks of q, k, v and o then
// extend beyond the ends of the arrays. If the program has another form, it returns funcs unchanged, and false.
func Ragged(funcs []string, run string) ([]string, bool) {
	out := slices.Clone(funcs)
	call, shapes := -1, map[string]string{}
	for i, f := range out {
		if strings.Contains(f, "pl.pallas_call") {
			if call >= 0 {
				return funcs, false
			}
			call = i
		}
		if !strings.HasPrefix(f, "def "+run+"(") {
			continue
		}
		out[i] = tokenRows.ReplaceAllStringFunc(f, func(text string) string {
			m := tokenRows.FindStringSubmatch(text)
			shapes[m[1]] += "(" + strings.Join(m[2:], ", ") + ")"
			return m[1] + ".reshape(" + m[2] + ", -1, " + m[4] + ")"
		})
	}
	if call < 0 || len(shapes) != 4 {
		return funcs, false
	}
	m := firstOut.FindStringSubmatchIndex(out[call])
	names := operandsOf.FindStringSubmatch(out[call])
	if m == nil || out[call][m[4]:m[5]] != shapes["v"] || names == nil {
		return funcs, false
	}
	v := slices.Index(strings.Split(names[1], ", "), "v")
	if v < 0 {
		return funcs, false
	}
	out[call] = strings.Replace(out[call][:m[4]]+fmt.Sprintf("args[%d].shape", v)+out[call][m[5]:], "pl.pallas_call", "_ragged_call", 1)
	return out, true
}
