package exam

import (
	"flag"
	"fmt"
	"maps"
	"math"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/truth"
	"github.com/gdngen/gdngen/internal/rotate"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/array"
	"github.com/gdngen/gdngen/tests/arith"
)

var update = flag.String("update", "", "derive limits.txt anew for a precision or a class of inputs, the others as they are, or for all")

// seedsOf is how many seeds limits of a length are derived from, each with three draws of a class; of what has wide margins half of them.
// On one idle core all take some eight minutes.
func seedsOf(precision string, tokens int) int {
	n := map[int]int{300: 12, 1056: 6, 4096: 3}[tokens]
	if precision != "bf16x1" {
		return n / 2
	}
	return n
}

// The limits of LongClasses are derived for long runs too; what computes in more than one pass has margins that hold there.
func derived(precision string, c truth.Class, tokens int) bool {
	return tokens == lengths[0] || precision == "bf16x1" && (tokens == lengths[1] || slices.Contains(LongClasses, c.Name))
}

const draws = 3

// derivation is a Case of one class in draws of it, with bf16 inputs and float32 outputs.
func derivation(t *testing.T, c truth.Class, doubled, bounded bool, tokens int, seed uint64) *Case {
	s, err := gdn.Parse(fmt.Sprintf("t=%d,hk=%d,k=%d,dtype=bf16,out=f32", tokens, draws, derivedWidth))
	require.NoError(t, err)
	if c.OfChannels() {
		s.Rule = gdn.Rule{Decay: gdn.DecayChannel}
	}
	if bounded {
		s.Bound = derivedBound
	}
	s.NegEigval, s.Init = doubled || c.Supports(s) != nil, c.Name == "beta0" // without a state nothing comes of it
	classes := make([]truth.Class, draws)
	for i := range classes {
		classes[i] = c
	}
	x, err := Draw(s, classes, seed)
	require.NoError(t, err)
	return x
}

// compute runs the arithmetic of a class of precision on all heads of a Case.
func compute(t *testing.T, x *Case, precision string) map[string]*array.Array {
	return arith.Outputs(x.Spec, x.Inputs, func(h arith.Head) (o, state arith.Matrix) {
		o, state, err := arith.Run(h, precision)
		require.NoError(t, err)
		return o, state
	})
}

// row is a line of limits.txt.
type row struct {
	precision, class string
	c                truth.Class
	doubled, bounded bool
	tokens           int
}

func rowsOfDerivation() []row {
	var l []row
	for _, precision := range []string{"f32", "bf16x3", "bf16x1"} {
		for _, c := range truth.Classes {
			for _, tokens := range lengths {
				if !derived(precision, c, tokens) {
					continue
				}
				for _, doubled := range []bool{false, true}[:1+number(c.Doubles())] {
					name := c.Name
					if doubled {
						name += "*2"
					}
					if !c.AtBound() {
						l = append(l, row{precision, name, c, doubled, false, tokens})
						name += atBound
					}
					if c.OfChannels() {
						l = append(l, row{precision, name, c, doubled, true, tokens})
					}
				}
			}
		}
	}
	return l
}

func number(x bool) int {
	if x {
		return 1
	}
	return 0
}

// lines are those of a row in the text of limits.txt.
func (r row) lines(text string) (kept string) {
	for line := range strings.Lines(text) {
		if f := strings.Fields(line); len(f) > 3 && f[0] == r.precision && f[1] == r.class && f[3] == fmt.Sprint(r.tokens) {
			kept += line
		}
	}
	return kept
}

// largest is the worst of each kind over the value heads of some seeds, by output.
func (r row) largest(t *testing.T, seeds ...uint64) map[string]Limit {
	worst := map[string]Limit{}
	for _, seed := range seeds {
		x := derivation(t, r.c, r.doubled, r.bounded, r.tokens, seed)
		got := compute(t, x, r.precision)
		for _, p := range x.Spec.Outputs() {
			o := output{got: got[p.Name].Float64s(), want: x.Want[p.Name].Float64s(),
				carried: x.shares.Carried[p.Name].Float64s(), decay: x.shares.Decay[p.Name].Float64s()}
			for h := range x.Spec.HeadsV {
				var f figures
				for _, span := range x.spans(p, 0, h) {
					f.add(o, span[0], span[1])
				}
				e := f.errors()
				l := worst[p.Name]
				worst[p.Name] = Limit{RMS: max(l.RMS, e[0]), Max: max(l.Max, e[1]), Bias: max(l.Bias, e[2], e[3], e[4])}
			}
		}
	}
	return worst
}

// Limits are derived from the arithmetic of each class of precision alone: with -update=all for all classes and seeds, otherwise a sample of
// classes that rotates by commit is held against the table with seeds that the derivation did not see.
func TestDerive(t *testing.T) {
	if *update != "" {
		derive(t)
		return
	}
	turn := uint64(rotate.Rand(25).IntN(1 << 20))
	t.Logf("seed %d", 1000+turn)
	for i, r := range rowsOfDerivation() {
		if r.tokens != lengths[0] || (uint64(i)+turn)%11 != 0 {
			continue
		}
		for name, l := range r.largest(t, 1000+turn) {
			margin, limit := margins[r.precision], found[limitKey{r.precision, r.class, name, r.tokens}]
			require.LessOrEqual(t, l.RMS, limit.RMS*margin.RMS, "%v rms of %s", r, name)
			require.LessOrEqual(t, l.Max, limit.Max*margin.Max, "%v max of %s", r, name)
			require.LessOrEqual(t, l.Bias, limit.Bias*margin.Bias, "%v bias of %s", r, name)
			// One draw can be lucky, as where resets leave little that is rounded: sixteen are not.
			for seed := turn; l.RMS < limit.RMS/4 && seed < turn+16; seed++ {
				l.RMS = max(l.RMS, r.largest(t, 2000+seed)[name].RMS)
			}
			require.GreaterOrEqual(t, l.RMS, limit.RMS/4, "%v: the table is not of this arithmetic", r)
		}
	}
}

// derive writes limits.txt.
func derive(t *testing.T) {
	commit, err := exec.Command("git", "log", "-1", "--format=%h").Output()
	require.NoError(t, err)
	old, err := os.ReadFile("limits.txt")
	require.NoError(t, err)
	made := fmt.Sprintf("# %s, on commit %s: go test ./gdn/exam -run Derive -update=%s\n", time.Now().UTC().Format(time.DateOnly), strings.TrimSpace(string(commit)), *update)
	if *update != "all" { // what was made before, and this
		made = strings.SplitAfter(string(old), "\n")[1] + made
	}
	rows := rowsOfDerivation()
	lines := make([]string, len(rows))
	var wg sync.WaitGroup
	free := make(chan bool, runtime.GOMAXPROCS(0))
	for i, r := range rows {
		wg.Go(func() {
			free <- true
			defer func() { <-free }()
			if *update != "all" && *update != r.precision && *update != r.c.Name {
				lines[i] = r.lines(string(old))
				return
			}
			var seeds []uint64
			for seed := range seedsOf(r.precision, r.tokens) {
				seeds = append(seeds, uint64(seed)+1)
			}
			worst := r.largest(t, seeds...)
			for _, name := range []string{"o", "final_state"} {
				l := rounded(worst[name])
				lines[i] += fmt.Sprintf("%-7s %-12s %-12s %5d %v%s\n", r.precision, r.class, name, r.tokens, l, before(l, found[limitKey{r.precision, r.class, name, r.tokens}]))
			}
		})
	}
	wg.Wait()
	seeds := ""
	for _, tokens := range lengths {
		seeds += fmt.Sprintf(", 1 to %d at %d tokens", seedsOf("bf16x1", tokens), tokens)
	}
	head := fmt.Sprintf(`# The largest errors of the arithmetic of tests/arith, K = V = 128, bf16 inputs without an initial state, against float64.
%s# Seeds%s; for f32 and bf16x3 1 to %d; %d value heads of each.
# A limit is a figure times its margin (limits.go). *2: beta doubled. @-5: log decays of channels cut at a bound of -5. No figure is moved to let a kernel pass.
# Behind a row in which a figure rose: those of the derivation before.
# precision class   output       tokens       rms       max      bias
`, made, strings.TrimPrefix(seeds, ","), seedsOf("f32", lengths[0]), draws)
	require.NoError(t, os.WriteFile("limits.txt", []byte(head+strings.Join(lines, "")), 0o644))
}

// tableFigures are the figures of a row.
type tableFigures Limit

func (l tableFigures) String() string { return fmt.Sprintf("%9.2e %9.2e %9.2e", l.RMS, l.Max, l.Bias) }

func rounded(l Limit) tableFigures {
	return tableFigures{RMS: up(l.RMS), Max: up(l.Max), Bias: up(l.Bias)}
}

// before shows the former figures where one of them rose.
func before(now tableFigures, then Limit) string {
	if then == (Limit{}) || now.RMS <= then.RMS && now.Max <= then.Max && now.Bias <= then.Bias {
		return ""
	}
	return fmt.Sprint("  # ", tableFigures(then))
}

// up rounds up to three digits; what is zero in the derivation may be as far off as float32 is.
func up(x float64) float64 {
	x = max(x, 1e-8)
	unit := math.Pow(10, math.Floor(math.Log10(x))-2)
	return math.Ceil(x/unit-1e-6) * unit // what is of three digits already stays
}

// A decay a channel that is clamped at a bound that the spec does not have is refused on channels that forget more; what is right passes.
func TestChannelsThatForget(t *testing.T) {
	for _, name := range []string{"mixed", "cleared"} {
		c, err := truth.LookupClass(name)
		require.NoError(t, err)
		x := derivation(t, c, false, false, 300, 2000)
		require.Zero(t, worstOf(t, x, compute(t, x, "bf16x1")), name)
		clamped := maps.Clone(x.Inputs)
		g := clamped["g"].Float64s()
		for i := range g {
			g[i] = max(g[i], -4)
		}
		clamped["g"] = array.FromFloat64s(ir.F32, x.Inputs["g"].Shape, g)
		got, err := truth.Reference(x.Spec, clamped)
		require.NoError(t, err)
		for _, p := range x.Spec.Outputs() {
			got[p.Name] = got[p.Name].Convert(p.Type.DType)
		}
		require.NotZero(t, worstOf(t, x, got), name)
	}
}
