package passes

import (
	"fmt"
	"testing"

	"github.com/gdngen/gdngen/internal/irtest"
	"github.com/gdngen/gdngen/ir"
	"github.com/stretchr/testify/require"
)

func TestClone(t *testing.T) {
	for seed := range uint64(20) {
		m, _ := irtest.Program(t, seed, 60)
		n, err := Clone(m)
		require.NoError(t, err)
		require.Equal(t, m.String(), n.String())
		old := map[*ir.Value]bool{}
		m.Body.Walk(func(in *ir.Instr) {
			for _, r := range in.Results {
				old[r] = true
			}
		})
		n.Body.Walk(func(in *ir.Instr) {
			for _, a := range append(in.Args, in.Results...) {
				require.False(t, old[a])
			}
		})
	}
}

// apply runs passes one after the other.
func apply(m *ir.Module, passes ...func(*ir.Module) (*ir.Module, error)) (*ir.Module, error) {
	for _, pass := range passes {
		n, err := pass(m)
		if err != nil {
			return nil, err
		}
		m = n
	}
	return m, nil
}

// ops counts the instructions of a module.
func ops(m *ir.Module) map[string]int {
	n := map[string]int{}
	m.Body.Walk(func(in *ir.Instr) { n[in.Op.String()]++ })
	return n
}

func TestFold(t *testing.T) {
	for body, want := range map[string]string{
		"%c = const {value=-0} : f32[2] %1 = add %x, %c : f32[2]":                                                                                 "x",
		"%c = const {value=0} : f32[2] %1 = add %x, %c : f32[2]":                                                                                  "",
		"%c = const {value=0} : f32[2] %1 = sub %x, %c : f32[2]":                                                                                  "x",
		"%c = const {value=-0} : f32[2] %1 = sub %x, %c : f32[2]":                                                                                 "",
		"%c = const {value=1} : f32[2] %1 = mul %c, %x : f32[2]":                                                                                  "x",
		"%c = const {value=0} : f32[2] %1 = mul %x, %c : f32[2]":                                                                                  "",
		"%c = const {value=1} : f32[2] %1 = div %c, %x : f32[2]":                                                                                  "",
		"%c = const {value=1} : f32[2] %1 = div %x, %c : f32[2]":                                                                                  "x",
		"%c = const {value=-Inf} : f32[2] %1 = max %x, %c : f32[2]":                                                                               "x",
		"%c = const {value=2} : f32[2] %1 = mul %c, %c : f32[2]":                                                                                  "4",
		"%c = const {value=0} : f32[2] %1 = div %c, %c : f32[2]":                                                                                  "",
		"%c = const {value=3} : f32[] %1 = broadcast %c {dims=[]} : f32[2]":                                                                       "3",
		"%c = const {value=0.1} : bf16[2] %1 = convert %c : f32[2]":                                                                               "0.10009765625",
		"%c = const {value=1} : bool[] %d = const {value=5} : f32[2] %1 = select %c, %x, %d : f32[2]":                                             "x",
		"%2 = reshape %x : f32[2,1] %3 = reshape %2 : f32[1,2] %1 = reshape %3 : f32[2]":                                                          "x",
		"%2 = neg %x : f32[2] %1 = neg %2 : f32[2]":                                                                                               "x",
		"%1 = slice %x {starts=[0], limits=[2]} : f32[2]":                                                                                         "x",
		"%2 = reshape %x : f32[2,1] %3 = transpose %2 {dims=[1,0]} : f32[1,2] %4 = transpose %3 {dims=[1,0]} : f32[2,1] %1 = reshape %4 : f32[2]": "x",
		"%1 = convert %x : f32[2]":                                                                                                                "x",
	} {
		m, err := ir.Parse("module t (%x: f32[2]) -> (o) { " + body + " yield %1 }")
		require.NoError(t, err, body)
		n, err := apply(m, Fold, DCE)
		require.NoError(t, err)
		v := n.Body.Yield[0]
		switch want {
		case "x":
			require.Empty(t, n.Body.Instrs, body)
		case "":
			require.NotEqual(t, "const", v.Def.Op.String(), body)
			require.Len(t, n.Body.Instrs, 2, body)
		default:
			require.Len(t, n.Body.Instrs, 1, body)
			require.Equal(t, want, fmt.Sprint(v.Def.Attrs.Value), body)
		}
	}
}

func TestCSEScopes(t *testing.T) {
	m, err := ir.Parse(`module t (%x: f32[2], %n: f32[1]) -> (o, p, q) {
  %1 = exp %x : f32[2]
  %2 = exp %x : f32[2] @other
  %3 = add %1, %2 : f32[2]
  %4 = loop %x {count=2} (%i: i32[], %c: f32[2]) {
    %5 = exp %x : f32[2]
    %6 = add %5, %c : f32[2]
    yield %6
  } : f32[2]
  %k = const {value=2} : f32[1]
  %7 = grid %x {name=g, dims=(i:2), in=([1]@(i)), out=([1]@(i):f32[2])} (%y: f32[1]) {
    %l = const {value=2} : f32[1]
    %8 = mul %y, %l : f32[1]
    yield %8
  } : f32[2]
  %9 = mul %n, %k : f32[1]
  yield %3, %4, %7
}`)
	require.NoError(t, err)
	n, err := apply(m, CSE)
	require.NoError(t, err)
	require.Equal(t, map[string]int{"exp": 1, "add": 2, "loop": 1, "grid": 1, "const": 2, "mul": 2}, ops(n))
	n, err = apply(n, DCE)
	require.NoError(t, err)
	require.Equal(t, map[string]int{"exp": 1, "add": 2, "loop": 1, "grid": 1, "const": 1, "mul": 1}, ops(n))
}

const kernel = `module t (%a: f32[2,4]) -> (o) {
  %0 = kernel %a {name=k, dims=(), in=([2,4]@(0,0)), out=([2,4]@(0,0):f32[2,4])} (%x: vmem:f32[2,4], %y: vmem:f32[2,4]) {
    %1 = load %x {starts=[0,0]} : f32[2,4]
    %2 = exp %1 : f32[2,4]
    store %1, %y {starts=[0,0]}
    %3 = load %y {starts=[0,0]} : f32[2,4]
    %4 = load %y {starts=[0,0]} : f32[2,4]
    %5 = add %3, %4 : f32[2,4]
    store %5, %y {starts=[0,0]}
    yield
  } : f32[2,4]
  yield %0
}`

// Effects stay, in their order; pure ops within a kernel go.
func TestEffectsStay(t *testing.T) {
	m, err := ir.Parse(kernel)
	require.NoError(t, err)
	n, err := apply(m, Fold, CSE, DCE)
	require.NoError(t, err)
	require.Equal(t, map[string]int{"kernel": 1, "load": 3, "store": 2, "add": 1}, ops(n))
}

func TestPrecisionExpands(t *testing.T) {
	for prec, dots := range map[string]int{"f32": 1, "bf16x1": 1, "bf16x3": 3, "bf16x6": 6} {
		m, err := ir.Parse("module t (%a: f32[2,4], %b: bf16[4,2]) -> (o, p) { %1 = dot %a, %a {lb=[], rb=[], lc=[1], rc=[1], prec=" + prec +
			"} : f32[2,2] @x.c1 %2 = dot %a, %b {lb=[], rb=[], lc=[1], rc=[0], prec=" + prec + "} : f32[2,2] yield %1, %2 }")
		require.NoError(t, err)
		n, err := apply(m, Precision, CSE, DCE)
		require.NoError(t, err)
		mixed := map[string]int{"f32": 1, "bf16x1": 1, "bf16x3": 2, "bf16x6": 3}[prec]
		require.Equal(t, dots+mixed, ops(n)["dot"], prec)
		n.Body.Walk(func(in *ir.Instr) {
			if in.Op == ir.OpDot {
				require.Equal(t, prec == "f32", in.Attrs.Prec == ir.PrecF32)
			}
		})
	}
}
