package autotune

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/autotune/journal"
	"github.com/gdngen/gdngen/internal/rotate"
	"github.com/gdngen/gdngen/internal/terminal"
)

// The example script, of 20 lines, drives a run.
func TestExampleProposer(t *testing.T) {
	script, err := filepath.Abs("../examples/proposer/propose.py")
	require.NoError(t, err)
	text, err := os.ReadFile(script)
	require.NoError(t, err)
	require.LessOrEqual(t, strings.Count(string(text), "\n"), 20)
	c := quick(t, 40)
	c.Strategy, c.Seeds = "exec:python3 '"+script+"'", []string{"naive"}
	sum, err := Search(t.Context(), c)
	require.NoError(t, err)
	require.Equal(t, 40, sum.Candidates)
	require.Greater(t, sum.Verdicts[journal.Improved], 1, "it found something better than the seed")
	requireVerified(t, c.Dir)
	s, _, err := journal.Read(c.Dir, nil)
	require.NoError(t, err)
	require.Empty(t, journal.Lint(s))
	for _, k := range s.Now().Candidates()[1:] {
		require.NotZero(t, k.Parent)
		require.NotEqual(t, journal.Invalid, k.Verdict, "%s: %s", k.Variant, k.Reason)
	}

	// A resumed run asks again, and tells all that is known.
	c.Candidates = 45
	sum, err = Resume(t.Context(), c)
	require.NoError(t, err)
	require.Equal(t, 45, sum.Candidates)
	requireVerified(t, c.Dir)
}

// answers is a proposer whose n-th answer, over all its processes, is the n-th line of a file; the last is repeated.
func answers(t *testing.T, lines ...string) string {
	dir := t.TempDir()
	var cases strings.Builder
	for i, line := range lines {
		fmt.Fprintf(&cases, "  %d) %s ;;\n", i, line)
	}
	fmt.Fprintf(&cases, "  *) %s ;;\n", lines[len(lines)-1])
	script := filepath.Join(dir, "p.sh")
	require.NoError(t, os.WriteFile(script, fmt.Appendf(nil, "while read -r q; do\n  n=$(cat '%s/n' 2>/dev/null || echo 0)\n  echo $((n+1)) > '%s/n'\n  case $n in\n%s  esac\ndone\n", dir, dir, cases.String()), 0o644))
	return "exec:sh '" + script + "'"
}

func say(text string) string { return "echo '" + text + "'" }

// What is no proposer at all: each answer is refused within its limits, and the search ends.
func TestHostileProposers(t *testing.T) {
	scripts := map[string]string{
		"garbage": `while read l; do echo 'not json'; done`,
		"flood":   `yes | tr -d '\n'`,
		"hang":    `sleep 500`,
		"dead":    `exit 3`,
		"huge":    `read l; printf '{"variant":"'; head -c 70000000 /dev/zero | tr '\0' a; echo '"}'; sleep 2`,
		"prog":    `while read l; do echo '{"program":"module t () -> () { yield }"}'; done`,
		"text":    `while read l; do echo '{"text":"module t (%a: f32[2]) -> (a) { %1 = neg %a : f32[2] yield %1 }"}'; done`,
		"escape":  `while read l; do printf '{"variant":"naive,chunk=64","hypothesis":"\\u001b]0;own\\u0007 \\u202e x"}\n'; done`,
		"stdin":   `exec 0<&-; sleep 200`,
	}
	for _, name := range rotate.Sample(66, slices.Sorted(maps.Keys(scripts)), 3) {
		t.Run(name, func(t *testing.T) {
			script := scripts[name]
			file := filepath.Join(t.TempDir(), "p.sh")
			require.NoError(t, os.WriteFile(file, []byte(script), 0o644))
			c := quick(t, 3)
			c.Seeds, c.Lookahead, c.Answer, c.Evaluator = []string{"naive"}, 1, 500*time.Millisecond, &fake{roomy: true}
			c.Strategy = "exec:sh " + file
			begun := time.Now()
			sum, err := Search(t.Context(), c)
			require.NoError(t, err)
			require.Less(t, time.Since(begun), 40*time.Second)
			s, _, err := journal.Read(c.Dir, nil)
			require.NoError(t, err)
			require.Equal(t, 1, s.Now().Champion(s.Header.Targets[0]).ID, "the seed")
			for _, k := range s.Now().Candidates()[1:] {
				require.True(t, k.Gate == "proposal" || name == "escape", "%s: %s %s", k.Gate, k.Verdict, k.Reason)
				require.Equal(t, terminal.Lines(k.Reason), k.Reason)
			}
			var shown strings.Builder
			require.NoError(t, sum.Text(&shown, 9))
			require.Equal(t, terminal.Lines(shown.String()), shown.String())
			requireVerified(t, c.Dir)
		})
	}
}

// Whatever a proposer does is recorded as that, and the run goes on.
func TestBadProposers(t *testing.T) {
	c := quick(t, 12)
	c.Seeds, c.Lookahead, c.Answer, c.Evaluator = []string{"naive"}, 1, 3*time.Second, &fake{roomy: true} // a shell takes long to start on a busy machine
	c.Strategy = answers(t,
		say("I think you should unroll the loop"),
		say(`{"variant": "solve=magic"}`),
		say(`{"variant": "neumann", "hypothesis": "a power series is short"}`),
		say(`{"variant": "solve=forward,heads=1", "parent": 1, "hypothesis": "the seed once more"}`),
		"sleep 30",
		"exit 3",
		say(`{"variant": "default", "parent": 77}`),
		say(`{"variant": "default", "ir": "module"}`),
		say(`{"command": "rm -rf /"}`),
		say(`{"variant": "split", "parent": 1, "hypothesis": "a state-free grid, then a scan", "gain": 0.5, "risk": 0.1}`),
		say(`{"done": true}`))
	start := time.Now()
	sum, err := Search(t.Context(), c)
	require.NoError(t, err)
	require.Less(t, time.Since(start), 25*time.Second, "a sleeper is stopped")
	require.Equal(t, "the strategy has nothing more to propose", sum.Stopped)
	s, _, err := journal.Read(c.Dir, nil)
	require.NoError(t, err)
	all := s.Now().Candidates()
	require.Len(t, all, 11)
	for i, want := range []struct {
		verdict journal.Verdict
		gate    string
		reason  string
	}{
		{journal.Improved, "verdict", "first"},
		{journal.Invalid, "proposal", "not what was asked for"},
		{journal.Invalid, "proposal", "magic"},
		{journal.Numerics, "numerics", "off by"},
		{journal.Duplicate, "duplicate", "the program of candidate 1"},
		{journal.Timeout, "proposal", "gave nothing within 3s"},
		{journal.Crash, "proposal", "exit status 3"},
		{journal.Invalid, "proposal", "parent 77"},
		{journal.Invalid, "proposal", "one of variant, change, ir and done"},
		{journal.Invalid, "proposal", "unknown field"},
		{"", "verdict", ""},
	} {
		k := all[i]
		if want.verdict != "" {
			require.Equal(t, want.verdict, k.Verdict, "%d %s", k.ID, k.Reason)
		}
		require.Equal(t, want.gate, k.Gate, k.Reason)
		require.Contains(t, k.Reason, want.reason)
		if k.Gate == "proposal" && want.verdict == journal.Invalid {
			text, err := Object(c.Dir, k.Objects["proposal"])
			require.NoError(t, err)
			require.NotEmpty(t, text)
			require.Equal(t, journal.CauseProposal, k.Cause)
		}
	}
	require.InDelta(t, .5, float64(all[10].Gain), 1e-9)
	require.Equal(t, []string{"solve=merge", "flow=split", "heads=0"}, sortedChange(all[10].Change))
	requireVerified(t, c.Dir)
	require.Empty(t, journal.Lint(s))
}

// What a proposer weighed and means to do next is recorded, and answers that expect less than is asked are refused.
func TestExpectedGain(t *testing.T) {
	c := quick(t, 4)
	c.Seeds, c.Lookahead, c.Expected = []string{"naive"}, 1, .1
	weighed := `"shortlist": [{"variant": "split", "gain": 0.3, "risk": 0.5}, {"change": "two  heads in a   program", "gain": 0.2}], "next": "the backward pass"`
	c.Strategy = answers(t, say(`{"variant": "solve=merge", "parent": 1, "gain": 0.09}`), say(`{"variant": "solve=merge", "parent": 1, "hypothesis": "fewer products", "gain": 0.1, `+weighed+`}`),
		say(`{"change": "out=shared", "hypothesis": "one product", "gain": 0.1, "next": {"change": "two passes", "gain": 0.2, "risk": 0.5, "command": "make"}}`))
	_, err := Search(t.Context(), c)
	require.NoError(t, err)
	s, _, err := journal.Read(c.Dir, nil)
	require.NoError(t, err)
	require.InDelta(t, .1, float64(s.Header.Expected), 1e-12)
	all := s.Now().Candidates()
	require.Equal(t, journal.Invalid, all[1].Verdict)
	require.Equal(t, "the proposer's answer expects a gain of 9 %, and 10 % is asked (--min-expected)", all[1].Reason)
	require.NotEqual(t, journal.GateProposal, all[2].Gate, all[2].Reason)
	require.Equal(t, "the backward pass", all[2].Next)
	require.NotEqual(t, journal.GateProposal, all[3].Gate, all[3].Reason)
	require.Contains(t, all[3].Change, "out=shared")
	require.Contains(t, all[3].Change, "transpose_k=key", "what it needs comes with it")
	require.Equal(t, "two passes (expected 20 % less, risk 50 %); `make`", all[3].Next)
	require.Equal(t, []journal.Option{{Parent: 1, Change: "solve=merge,leaf=16,merge=packed,flow=split,heads=0", Gain: .3, Risk: .5}, {Parent: 1, Change: "two heads in a program", Gain: .2}}, all[2].Shortlist)
	requireVerified(t, c.Dir)

	c = quick(t, 3)
	c.Expected = .1
	_, err = Search(t.Context(), c)
	require.ErrorContains(t, err, "an expected gain is asked of a proposer")
}

func sortedChange(l []string) []string {
	var out []string
	for _, want := range []string{"solve=merge", "flow=split", "heads=0"} {
		for _, x := range l {
			if x == want {
				out = append(out, x)
			}
		}
	}
	return out
}

// A proposer without a usable answer pauses the run, and its answers are recorded.
func TestUselessProposer(t *testing.T) {
	c := quick(t, 100)
	c.Seeds, c.Strategy, c.Failures = []string{"naive"}, answers(t, say("no")), 4
	sum, err := Search(t.Context(), c)
	var pause *PauseError
	require.ErrorAs(t, err, &pause)
	require.ErrorContains(t, err, "4 failures in a row")
	require.GreaterOrEqual(t, sum.Candidates, 4)
	require.Less(t, sum.Candidates, 9)
	requireVerified(t, c.Dir)
}

// A proposer that gives no hypothesis is judged all the same, and the journal is not fit to be read.
func TestNoHypothesis(t *testing.T) {
	c := quick(t, 2)
	c.Seeds, c.Lookahead, c.Evaluator = []string{"naive"}, 1, &fake{roomy: true}
	c.Strategy = answers(t, say(`{"variant": "split", "parent": 1}`))
	_, err := Search(t.Context(), c)
	require.NoError(t, err)
	requireVerified(t, c.Dir)
	s, _, err := journal.Read(c.Dir, nil)
	require.NoError(t, err)
	require.Equal(t, []string{`candidate 2: no hypothesis: ""`}, journal.Lint(s))
}
