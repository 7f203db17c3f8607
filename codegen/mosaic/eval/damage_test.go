package eval_test

import (
	"encoding/base64"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/gdngen/gdngen/codegen/mosaic/eval"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/truth"
	"github.com/gdngen/gdngen/ir/array"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var body = regexp.MustCompile(`(\\22body\\22: \\22)([A-Za-z0-9+/=]+)(\\22)`)

// inside changes the kernels of an emitted program.
func inside(t testing.TB, text string, change func(kernel string) string) string {
	t.Helper()
	return body.ReplaceAllStringFunc(text, func(s string) string {
		m := body.FindStringSubmatch(s)
		kernel, err := base64.StdEncoding.DecodeString(m[2])
		require.NoError(t, err)
		return m[1] + base64.StdEncoding.EncodeToString([]byte(change(string(kernel)))) + m[3]
	})
}

// fault is a way to damage a kernel: a line that matches is replaced. picks of the lines that match and that the inputs reach are damaged,
// one at a time.
type fault struct {
	name, match, replace string
	picks                int
}

// damaged gives the texts with one line damaged each, by the line's number. idle are the lines of each kernel that are not reached.
func (f fault) damaged(t *testing.T, text string, idle []map[int]bool) map[string]string {
	re := regexp.MustCompile(f.match)
	type place struct{ kernel, line int }
	var places []place
	k := 0
	inside(t, text, func(kernel string) string {
		for i, l := range strings.Split(kernel, "\n") {
			if re.MatchString(l) && !idle[k][1+i] {
				places = append(places, place{k, i})
			}
		}
		k++
		return kernel
	})
	require.GreaterOrEqual(t, len(places), f.picks, f.name)
	texts := map[string]string{}
	for i := range f.picks {
		at := places[i*len(places)/f.picks]
		k := 0
		texts[fmt.Sprintf("%s, line %d of kernel %d", f.name, 1+at.line, at.kernel)] = inside(t, text, func(kernel string) string {
			if k++; k-1 != at.kernel {
				return kernel
			}
			lines := strings.Split(kernel, "\n")
			lines[at.line] = re.ReplaceAllString(lines[at.line], f.replace)
			return strings.Join(lines, "\n")
		})
	}
	return texts
}

// What an emitter could get wrong, the evaluator refuses, or gives numbers that a check refuses: nine in ten of the damaged lines and half of
// each kind at least, for here and there a line matters less than the rounding of bf16.
func TestDamage(t *testing.T) {
	for _, p := range []struct {
		name, target, spec, variant string
		classes                     []string
		faults                      []fault
	}{
		{"tpu", "v6e", "t=256,hk=2,hv=2,k=128,v=128,dtype=bf16,init", "tpu,chunk=64", []string{"random", "cos.9"}, []fault{
			{"operands of a difference", `(arith.subf"\()(%\w+), (%\w+)(.*loc\("decay)`, "$1$3, $2$4", 2},
			{"a dropped store", `^.*vector_store.*$`, "", 2},
			{"the map of a window", `(return"\(%i0, )%\w+(.*\(i32, i32, i32\))`, "${1}%c0$2", 2},
			{"the contracted dimension", `dot_dimension_numbers<\[1\], \[0\], \[0\], \[1\], \[0, 0, 1, 1\]`, "dot_dimension_numbers<[0], [1], [1], [0], [0, 1, 1, 0]", 2},
			{"the direction of a count", `(tpu.iota.*array<i32: )1>`, "${1}0>", 2},
			{"the relation of a mask", `(arith.cmpi.*predicate = )\d`, "${1}1", 2},
			{"the part of a slice", `(extract_strided_slice.*offsets = \[)(16|32|64), 0\]`, "${1}0, 0]", 2},
			{"exp of a natural logarithm", `math.exp2`, "math.exp", 2},
			{"the half of a word", `arith.shli`, "arith.shrui", 2},
			{"halves of words", `(tpu.pack_elementwise"\()(%\w+), (%\w+)`, "$1$3, $2", 1},
		}},
		{"copies", "tpu7x", "t=100,hk=1,hv=2,k=128,v=128,dtype=bf16,gates=fused,gatedtype=bf16,seqs=5,init,state=vk,empty=zero,inplace,packed",
			"tpu-packed,chunk=32,mergepairs=0,prefetch=dma", []string{"reset.cos.9"}, []fault{
				{"a dropped wait", `^.*wait_dma2.*$`, "", 2},
				{"a dropped copy", `^.*enqueue_dma.*$`, "", 2},
				{"source and target", `(enqueue_dma"\()(%\w+), (%\w+)`, "$1$3, $2", 2},
			}},
	} {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			s, text, _ := emitted(t, p.target, p.spec, p.variant)
			v, err := gdn.ParseVariant(p.variant)
			require.NoError(t, err)
			var exams []exam
			for _, class := range p.classes {
				exams = append(exams, newExam(t, s, v, class))
			}
			require.NoError(t, refused(exams, text), "undamaged")
			var idle []map[int]bool
			program, err := eval.Parse(text)
			require.NoError(t, err)
			_, err = program.Run(exams[0].list...)
			require.NoError(t, err)
			for _, k := range program.Kernels {
				lines := map[int]bool{}
				unreached, _ := k.Idle()
				for _, o := range unreached {
					lines[o.Line] = true
				}
				idle = append(idle, lines)
			}
			all, hits := 0, 0
			for _, f := range p.faults {
				of, texts := 0, f.damaged(t, text, idle)
				for name, d := range texts {
					err := refused(exams, d)
					t.Logf("%s: %v", name, err)
					if err != nil {
						of++
					}
				}
				all, hits = all+len(texts), hits+of
				assert.GreaterOrEqual(t, 2*of, len(texts), f.name)
			}
			t.Logf("%d of %d are refused", hits, all)
			assert.GreaterOrEqual(t, 10*hits, 9*all)
		})
	}
}

// exam is a class of inputs with what they should give.
type exam struct {
	spec      gdn.Spec
	precision string
	class     truth.Class
	list      []*array.Array
	want      map[string]*array.Array
}

func newExam(t *testing.T, s gdn.Spec, v gdn.Variant, class string) exam {
	t.Helper()
	inputs, list := drawn(t, s, class)
	want, err := truth.Reference(s, inputs)
	require.NoError(t, err)
	c, err := truth.LookupClass(class)
	require.NoError(t, err)
	return exam{s, v.Precision().String(), c, list, want}
}

// refused says why a text is refused: it does not run, or misses the limit of a class.
func refused(exams []exam, text string) error {
	p, err := eval.Parse(text)
	if err != nil {
		return err
	}
	for _, x := range exams {
		got, err := p.Run(x.list...)
		if err != nil {
			return err
		}
		outs := map[string]*array.Array{}
		for i, o := range x.spec.Outputs() {
			outs[o.Name] = got[i]
		}
		for _, o := range x.spec.Outputs() {
			off, limit, err := x.class.Error(x.spec, x.precision, o, outs, x.want)
			if err != nil {
				return err
			}
			if !(off <= limit) {
				return fmt.Errorf("%s of %s is %.2e off, the limit is %.2g", o.Name, x.class.Name, off, limit)
			}
		}
	}
	return nil
}
