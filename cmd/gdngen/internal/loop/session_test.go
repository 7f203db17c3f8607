//go:build linux

package loop

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func contextOf() context.Context { return context.Background() }

// Three iterations, unattended: what the first learned is in the prompt of the next, and the last figures are measured anew.
func TestThreeIterations(t *testing.T) {
	c := bed(t, `cat > ../prompt; case $GDNGEN_ITERATION in
		1) `+plan+` echo 60 > cost;;
		2) echo true > tests/check.sh;;
		3) echo true > tests/check.sh;;
		4) `+plan+` grep -q "2 times out-of-bounds (tests/check.sh)" ../prompt && grep -q "1, keep: fewer launches. from 100 to 60, 40 % less" ../prompt && echo 59 > cost;;
		5) `+plan+` grep -q "The last gain was 1.67 %, under 3 %" ../prompt && echo 30 > cost;;
		esac`)
	c.Iterations, c.Goal = 9, 30
	c.HotSpots = `echo solve "$(cat cost)"; echo state 20`
	c.Measure = `echo '{"job":"j-7","trace":"traces/j-7","step_ms":31,"mfu":0.4}' >> $GDNGEN_NOTE; echo '{"mfu":7}' >> $GDNGEN_NOTE; cat cost`
	c.Kernels, c.References = []string{"cost"}, []string{"docs of the kernel"}
	c.Directives = []Directive{{"dataflow", "Look at what passes between kernels. {{NONSENSE}}"}}
	require.NoError(t, Run(t.Context(), c))
	records := must(ReadRecords(c.Dir))
	var verdicts []Verdict
	for _, r := range ends(records) {
		verdicts = append(verdicts, r.Verdict)
	}
	require.Equal(t, []Verdict{Keep, OutOfBounds, OutOfBounds, Keep, Keep}, verdicts)
	final := records[len(records)-2]
	require.Equal(t, KindFinal, final.Kind)
	require.InDelta(t, .7, final.Figures.Gain(), 1e-9)
	require.NotEqual(t, ends(records)[4].Seed, final.Seed)
	require.Equal(t, "the goal is reached", records[len(records)-1].Reason)
	require.Empty(t, must(Lint(t.Context(), c)))

	// A commit that was kept has the evidence, and so has the log.
	message := sh(t, c.Repo, "git log -1 --format=%B gdngen-loop")
	for _, want := range []string{"Gdngen-Iteration: 5\n", "Gdngen-Verdict: keep\n", "Gdngen-Figure: 59 -> 30, 49.2 % less\n", "Gdngen-Check: `sh tests/check.sh` passed (", "Gdngen-Hot-Spots-Before: solve 59; state 20\n", "Gdngen-Hot-Spots-After: solve 30; state 20\n",
		"Gdngen-Evidence: job j-7, step 31 ms, MFU 40.0 %, trace traces/j-7\n"} {
		require.Contains(t, message, want)
	}
	log := string(must(os.ReadFile(filepath.Join(c.Dir, LogName))))
	for _, want := range []string{"- **Check**: `sh tests/check.sh` passed (", "- **Hot spots after**: solve 30; state 20\n", "- **Evidence**: job j-7, step 31 ms, MFU 40.0 %, trace traces/j-7 (measure)\n"} {
		require.Contains(t, log, want)
	}
	prompt := string(must(os.ReadFile(filepath.Join(c.Dir, "iter-005", "prompt.md"))))
	for _, want := range []string{"# Iteration 5 of 9", "59 now, 100 at the start, 30 is the goal", "solve 59", "`tests`, `*.lock`", "- The code under work: `cost`.", "- Read before the work: `docs of the kernel`.", "- The log of all iterations: `" + filepath.Join(c.Dir, LogName) + "`.", "### dataflow", "passes between kernels. {{NONSENSE}}", "expected gain of 10 %"} {
		require.Contains(t, prompt, want)
	}
}

func TestLimits(t *testing.T) {
	t.Run("failures", func(t *testing.T) {
		c := bed(t, "true")
		c.Iterations, c.MaxFailures = 9, 2
		var failed *FailuresError
		require.ErrorAs(t, Run(t.Context(), c), &failed)
		require.Len(t, ends(must(ReadRecords(c.Dir))), 2)
	})
	t.Run("goal", func(t *testing.T) { // the utilisation that commands note
		c := bed(t, `n=$GDNGEN_ITERATION; echo $((100 - 10*n)) > cost`)
		c.Iterations, c.GoalMFU = 9, .5
		c.Measure = `echo "{\"mfu\": 0.$((10 - $(cat cost)/10))}" >> $GDNGEN_NOTE; cat cost`
		require.NoError(t, Run(t.Context(), c))
		records := must(ReadRecords(c.Dir))
		require.Equal(t, "the goal is reached", records[len(records)-1].Reason)
		require.Len(t, ends(records), 5, "0.1, then 0.2, up to 0.5")
	})
	t.Run("no notes", func(t *testing.T) {
		c := bed(t, `echo 90 > cost`)
		c.GoalMFU = .5
		var said []string
		c.Note = func(text string) { said = append(said, text) }
		require.NoError(t, Run(t.Context(), c))
		require.Contains(t, strings.Join(said, "\n"), "no command noted a utilisation")
	})
	t.Run("budget", func(t *testing.T) {
		c := bed(t, "sleep 3") // as long as the budget, which the base must not use up on a busy machine
		c.Iterations, c.Budget = 99, 3*time.Second
		require.NoError(t, Run(t.Context(), c))
		require.Len(t, ends(must(ReadRecords(c.Dir))), 1)
	})
	t.Run("interrupt", func(t *testing.T) {
		c := bed(t, "echo go; sleep 100")
		ctx, stop := context.WithCancel(t.Context())
		c.Note = func(string) { stop() }
		require.ErrorIs(t, Run(ctx, c), context.Canceled)
		require.Equal(t, Interrupted, ends(must(ReadRecords(c.Dir)))[0].Verdict)
		c.Agent, c.Note = "echo 50 > cost", nil
		require.NoError(t, Run(t.Context(), c))
		require.Equal(t, Keep, ends(must(ReadRecords(c.Dir)))[1].Verdict)
	})
	t.Run("retry", func(t *testing.T) {
		c := bed(t, `echo x >> ../../count; test $(wc -l < ../../count) = 3 && echo 50 > cost`)
		c.AgentRetries = 2
		c.CheckRetries, c.Checks = 1, []string{`echo x >> ../n; test $(wc -l < ../n) = 2`}
		require.NoError(t, Run(t.Context(), c))
		require.Equal(t, Keep, ends(must(ReadRecords(c.Dir)))[0].Verdict)
	})
	t.Run("machinery", func(t *testing.T) {
		c := bed(t, "echo 50 > cost")
		c.Measure = "test $(cat cost) = 50 && echo 50 || echo broken" // the base has no figure: no fault of the agent
		var pause *PauseError
		require.ErrorAs(t, Run(t.Context(), c), &pause)
		require.Equal(t, Interrupted, ends(must(ReadRecords(c.Dir)))[0].Verdict)
	})
}

func TestRefused(t *testing.T) {
	c := bed(t, "true")
	sh(t, c.Repo, "git branch other; git worktree add -q ../tree other")
	c.Branch = "other"
	require.ErrorContains(t, Run(t.Context(), c), "is checked out in "+filepath.Join(filepath.Dir(c.Repo), "tree"))
	c.Branch = "gdngen-loop"
	c.Prompt = "line\n{{ITERATION}} {{COST}}"
	require.ErrorContains(t, Run(t.Context(), c), "prompt, line 2: {{COST}} stands for nothing (known: BOUND BUDGET ")
	c.Prompt = ""
	var locked *LockedError
	c.Agent = "echo run; sleep 1; echo 50 > cost"
	d := c
	d.Dir += "2"
	c.Note = func(string) { require.ErrorAs(t, Run(t.Context(), d), &locked) }
	require.NoError(t, Run(t.Context(), c))
	require.Contains(t, locked.What, "branch gdngen-loop")
	require.ErrorContains(t, Run(t.Context(), Config{}), "a loop needs")
}

// The judge's environment: a seed drawn after the agent, a file that the agent does not see, and no variable that was not allowed.
func TestHoldout(t *testing.T) {
	t.Setenv("SECRET", "s")
	t.Setenv("ALLOWED", "a")
	c := bed(t, `test -z "$SECRET$GDNGEN_HOLDOUT$GDNGEN_HOLDOUT_SEED" && test "$ALLOWED" = a && test "$HOME" != "`+os.Getenv("HOME")+`" && echo 50 > cost`)
	c.Holdout = filepath.Join(filepath.Dir(c.Dir), "shapes")
	require.NoError(t, os.WriteFile(c.Holdout, []byte("t=77"), 0o600))
	c.Env = []string{"ALLOWED"}
	c.Sandbox = "auto"
	c.On = "ssh:me@host"
	c.Checks = []string{`test $(cat $GDNGEN_HOLDOUT) = t=77 && test "$GDNGEN_HOLDOUT_SEED" -gt 0 && test "$GDNGEN_ON" = ssh:me@host`}
	require.NoError(t, Run(t.Context(), c))
	require.Equal(t, Keep, ends(must(ReadRecords(c.Dir)))[0].Verdict)
	if len(available(t)) > 0 {
		c.Agent, c.Iterations = fmt.Sprintf("test -s %s || echo 40 > cost", c.Holdout), 2
		require.NoError(t, Run(t.Context(), c))
		require.Equal(t, Keep, ends(must(ReadRecords(c.Dir)))[1].Verdict)
	}
}

func TestSync(t *testing.T) {
	c := bed(t, "echo 50 > cost")
	require.NoError(t, Run(t.Context(), c))
	sh(t, c.Repo, "git stash -q; echo x > other; git add other; git commit -qm more")
	c.SyncBase, c.Iterations, c.Agent = "each", 2, "test -e other && echo 40 > cost"
	require.NoError(t, Run(t.Context(), c))
	require.Equal(t, "2", strings.TrimSpace(sh(t, c.Repo, "git rev-list --count main..gdngen-loop")))
	sh(t, c.Repo, "echo 45 > cost; git commit -qam conflict")
	c.Iterations = 3
	var pause *PauseError
	require.ErrorAs(t, Run(t.Context(), c), &pause)
	require.ErrorContains(t, pause, "does not go onto")
}

func TestScreen(t *testing.T) {
	var said []string
	s := &screen{out: func(text string) { said = append(said, strings.TrimPrefix(text, "  | ")) }}
	for line := range strings.SplitSeq("thinking\nfile update:\ndiff --git a/x b/x\nindex 1..2\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\ndone", "\n") {
		s.line(line)
	}
	s.end()
	require.Equal(t, []string{"thinking", "(8 lines of changed files; --show-file-updates shows them)", "done"}, said)
}

// What is protected unless the user says otherwise is there: a file that was renamed would be open.
func TestDefaultProtect(t *testing.T) {
	for _, pattern := range DefaultProtect {
		found, err := filepath.Glob(filepath.Join("../../../..", filepath.FromSlash(pattern)))
		require.NoError(t, err)
		if pattern != ".github" { // of other repositories
			require.NotEmpty(t, found, pattern)
		}
	}
}

func TestShare(t *testing.T) {
	for text, want := range map[string]float64{"2%": .02, ".02": .02, " 10 %": .1, "0": 0} {
		x, err := ParseShare(text)
		require.NoError(t, err)
		require.InDelta(t, want, x, 1e-12)
	}
	for _, text := range []string{"", "x", "-1%", "1%%", "nan"} {
		_, err := ParseShare(text)
		require.Error(t, err, text)
	}
}

func TestTry(t *testing.T) {
	said, err := Try(t.Context(), `grep -q trial && echo ready; (setsid sleep 515151 >/dev/null 2>&1 &)`, nil, time.Minute)
	require.NoError(t, err)
	require.Equal(t, "ready; it left 1 processes, which were ended", said)
	for agent, want := range map[string]string{"nonesuch-agent": "ended with status 127", "cat > /dev/null": "without a word", "echo ready > x; echo ready": "it left clone/x", "echo no key; exit 1": "its last words: no key", "sleep 9": "not done within"} {
		limit := time.Minute
		if agent == "sleep 9" {
			limit = 500 * time.Millisecond
		}
		_, err := Try(t.Context(), agent, nil, limit)
		require.ErrorContains(t, err, want, agent)
	}
}

// What the user has not committed is there for the agent, and not in what it leaves: the branch gets its change alone. A change that needs it
// is blocked.
func TestIncludeDirty(t *testing.T) {
	c := bed(t, `test "$(cat cost)" = 101 && test ! -e scratch.txt && echo 40 > size`)
	c.IncludeDirty, c.Iterations, c.Measure, c.Checks = true, 1, "cat size", []string{"test $(cat cost) = 100"}
	before := user(t, c.Repo)
	require.NoError(t, Run(t.Context(), c))
	s, err := Status(c.Dir)
	require.NoError(t, err)
	require.Equal(t, Keep, s.Iterations[0].Verdict, s.Iterations[0].Reason)
	require.Equal(t, "100 40", sh(t, c.Repo, "git show "+c.Branch+":cost "+c.Branch+":size | tr '\\n' ' ' | sed 's/ $//'"))
	require.Equal(t, before, user(t, c.Repo))

	c = bed(t, `echo 99 > cost`)
	c.IncludeDirty, c.Iterations = true, 1
	require.NoError(t, Run(t.Context(), c))
	s, err = Status(c.Dir)
	require.NoError(t, err)
	require.Equal(t, Blocked, s.Iterations[0].Verdict)
	require.Contains(t, s.Iterations[0].Reason, "needs what is not committed")
}

// A verdict that this program does not know, of a newer one or of a hand, is an error that names the line.
func TestUnknownVerdict(t *testing.T) {
	dir := t.TempDir()
	b, err := openBook(dir)
	require.NoError(t, err)
	require.NoError(t, b.add(Record{Verdict: Keep}))
	require.NoError(t, b.add(Record{Verdict: "splendid"}))
	_, err = ReadRecords(dir)
	require.ErrorContains(t, err, `line 2: verdict "splendid" is none that this gdngen knows`)
}
