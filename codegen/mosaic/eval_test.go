package mosaic_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gdngen/gdngen/codegen/mosaic"
	"github.com/gdngen/gdngen/codegen/mosaic/eval"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/array"
	"github.com/gdngen/gdngen/ir/interp"
	"github.com/gdngen/gdngen/ir/target"
	"github.com/stretchr/testify/require"
)

const root = "../.."

// python finds the interpreter of the oracle: GDNGEN_PYTHON, or the virtual environment of the repository. Without one the test is
// skipped, but fails in CI.
func python(t *testing.T) string {
	t.Helper()
	p := os.Getenv("GDNGEN_PYTHON")
	if p == "" {
		p = filepath.Join(root, ".venv", "bin", "python")
	}
	if _, err := exec.LookPath(p); err != nil {
		const how = "no Python for the oracle: set GDNGEN_PYTHON to an interpreter with the packages of tests/oracle/requirements.txt"
		if os.Getenv("CI") == "true" {
			t.Fatal(how)
		}
		t.Skip(how)
	}
	return p
}

// evaluators run an emitted module from its text: ours, and the oracle, which reads the Mosaic text as the compiler does.
var evaluators = []struct {
	name string
	run  func(t *testing.T, text string, args []*array.Array) []*array.Array
}{{"eval", evaluate}, {"oracle", consult}}

func evaluate(t *testing.T, text string, args []*array.Array) []*array.Array {
	t.Helper()
	p, err := eval.Parse(text)
	require.NoError(t, err)
	outs, err := p.Run(args...)
	require.NoError(t, err)
	return outs
}

func consult(t *testing.T, text string, args []*array.Array) []*array.Array {
	t.Helper()
	py, dir := python(t), t.TempDir()
	in := &array.File{Tensors: map[string]*array.Array{}}
	for i, a := range args {
		in.Tensors[fmt.Sprint("arg", i)] = a
	}
	at := func(n string) string { return filepath.Join(dir, n) }
	require.NoError(t, array.WriteSafetensors(at("in.safetensors"), in))
	require.NoError(t, os.WriteFile(at("m.mlir"), []byte(text), 0o644))
	cmd := exec.Command(py, filepath.Join(root, "tests", "oracle", "mosaic_eval.py"), at("m.mlir"), "--inputs", at("in.safetensors"), "--out", at("out.safetensors"))
	msg, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", msg)
	f, err := array.ReadSafetensors(at("out.safetensors"))
	require.NoError(t, err)
	outs := make([]*array.Array, len(f.Tensors))
	for i := range outs {
		outs[i] = f.Tensors[fmt.Sprint("out", i)]
	}
	return outs
}

func parse(t testing.TB, text string) *ir.Module {
	t.Helper()
	m, err := ir.Parse(text)
	require.NoError(t, err, text)
	require.NoError(t, m.Verify(), text)
	return m
}

func machine(t testing.TB, name string) *target.Target {
	t.Helper()
	tg, err := target.Lookup(name)
	require.NoError(t, err)
	return tg
}

var odd = regexp.MustCompile(`\W+`)

// module joins cases into one module, whose parameters they share by type; results are in the order of the cases' outputs.
func module(cs []kernelCase) string {
	var params, names, results []string
	var body strings.Builder
	param := func(i int, t string, bound int) string {
		n := "x" + odd.ReplaceAllString(t, "_") + fmt.Sprint(i)
		if bound > 0 && t[0] == 'i' {
			n += fmt.Sprint("_below_", bound)
		}
		if p := "%" + n + ": " + t; !slices.Contains(params, p) {
			params = append(params, p)
		}
		return "%" + n
	}
	for _, c := range cs {
		var in, out []string
		for i, t := range c.in {
			in = append(in, param(i, t, c.bound))
		}
		for i := range c.out {
			r := fmt.Sprint("y", len(results))
			out, results = append(out, "%"+r), append(results, "%"+r)
			names = append(names, fmt.Sprint(c.name, "_", i))
		}
		// Names within a body are its own in the text only: rename them.
		text := c.kernel(in, out)
		body.WriteString(inner.ReplaceAllStringFunc(text, func(v string) string {
			if slices.Contains(in, v) || slices.Contains(out, v) {
				return v
			}
			return "%" + c.name + "_" + v[1:]
		}))
	}
	return fmt.Sprintf("module rules (%s) -> (%s) {\n%s  yield %s\n}\n", strings.Join(params, ", "), strings.Join(names, ", "), body.String(), strings.Join(results, ", "))
}

var inner = regexp.MustCompile(`%\w+`)

// inputs fills a module's parameters: numbers around 0, a few of them equal between parameters, integers small or below a bound.
func inputs(m *ir.Module) (map[string]*array.Array, []*array.Array) {
	byName, list := map[string]*array.Array{}, []*array.Array{}
	for k, p := range m.Params() {
		r := rand.New(rand.NewPCG(7, uint64(k)))
		bound := 0
		if _, b, ok := strings.Cut(p.Name, "_below_"); ok {
			fmt.Sscan(b, &bound)
		}
		v := make([]float64, p.Type.Size())
		for i := range v {
			switch {
			case bound > 0:
				v[i] = float64(r.IntN(bound))
			case p.Type.DType == ir.U32:
				v[i] = float64(r.IntN(50)) + float64(r.IntN(2))*3e9
			case p.Type.DType.IsInt():
				v[i] = float64(r.IntN(100) - 50)
			case i%7 == 3:
				v[i] = float64(i % 5)
			default:
				v[i] = r.NormFloat64() * 2
			}
		}
		a := array.FromFloat64s(p.Type.DType, p.Type.Shape, v)
		byName[p.Name], list = a, append(list, a)
	}
	return byName, list
}

// TestRulesAgainstInterpreter evaluates every rule from its emitted text and compares with the definition of the op.
func TestRulesAgainstInterpreter(t *testing.T) {
	cs := cases()
	m := parse(t, module(cs))
	byName, list := inputs(m)
	want, err := interp.Run(m, byName, interp.Options{})
	require.NoError(t, err)
	for _, name := range []string{"v5e", "v6e"} { // without and with bf16 vector units
		for _, by := range evaluators {
			t.Run(name+"/"+by.name, func(t *testing.T) {
				a, err := mosaic.Backend{}.Emit(m, machine(t, name))
				require.NoError(t, err)
				got := by.run(t, a.Text, list)
				require.Len(t, got, len(m.Results))
				k, wrong := 0, []string(nil)
				for _, c := range cs {
					for i := range c.out {
						w := want[m.Results[k]]
						s := array.Compare(got[k], w.Convert(got[k].Type))
						if !(s.RelMax <= c.tol) {
							wrong = append(wrong, fmt.Sprintf("%s, output %d: %s, allowed %.2g", c.name, i, s, c.tol))
						}
						k++
					}
				}
				require.Empty(t, wrong, strings.Join(wrong, "\n"))
			})
		}
	}
}
