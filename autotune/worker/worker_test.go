package worker

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/autotune"
	"github.com/gdngen/gdngen/autotune/journal"
	"github.com/gdngen/gdngen/autotune/judge"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/internal/rotate"
)

// The environment of a test's worker: what is wrong with it, at which candidate and gate, and a file whose making lets it go wrong once.
const (
	modeEnv = "GDNGEN_TEST_WORKER"
	atEnv   = "GDNGEN_TEST_AT" // CANDIDATE/GATE
	onceEnv = "GDNGEN_TEST_ONCE"
	runEnv  = "GDNGEN_TEST_RUN" // folder of the run of a driver

	engineEnv = "GDNGEN_TEST_ENGINE" // of that driver, in place of two workers that are started here
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(runEnv); dir != "" {
		os.Unsetenv(runEnv)
		drive(dir)
	}
	mode := os.Getenv(modeEnv)
	if mode == "" && len(os.Args) > 1 && os.Args[1] == "worker" { // started as the program would be
		mode = "good"
	}
	if mode != "" {
		if err := behave(mode); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// testGenerator is the version of this program in tests.
const testGenerator = "(devel)"

// testBeat is between two signs of life, testSilence when their absence is noticed.
const (
	testBeat    = 20 * time.Millisecond
	testSilence = time.Second
)

// behave is a worker of a kind.
func behave(mode string) error {
	var out io.Writer = os.Stdout
	e := &fake{}
	o := Options{Generator: testGenerator, Beat: testBeat, Evaluator: func(context.Context) (judge.Evaluator, error) { return e, nil }}
	first := func(file string) bool { // of all workers
		f, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL, 0o600)
		if err == nil {
			f.Close()
		}
		return err == nil
	}
	wrong := func() bool { return first(os.Getenv(onceEnv)) } // now
	switch mode {
	case "good":
	case "other":
		o.Generator = "v9.9.9"
	case "plugins":
		e.plugins = map[string]string{"libtpu": "9.9"}
	case "broken":
		o.Evaluator = func(context.Context) (judge.Evaluator, error) { return nil, fmt.Errorf("no plugin here") }
	case "beats":
		for ; ; time.Sleep(testBeat) {
			fmt.Println(`{"beat":{}}`)
		}
	case "second": // the second that is asked for a candidate is lost
		e.before = func(gate string, w *judge.Work) error {
			if at(gate, w) && !wrong() && first(os.Getenv(onceEnv)+"2") {
				misbehave("die")
			}
			return nil
		}
	case "lazy": // it is lost at a candidate, and every one after it only says that it gets ready
		if _, err := os.Stat(os.Getenv(onceEnv)); err == nil {
			return behave("beats")
		}
		e.before = func(gate string, w *judge.Work) error {
			if at(gate, w) && wrong() {
				misbehave("die")
			}
			return nil
		}
	case "mute":
		select {}
	case "babble":
		fmt.Println("hello, world")
		select {}
	case "tired":
		e.before = func(string, *judge.Work) error { time.Sleep(testBeat); return nil }
	case "slow":
		e.before = func(string, *judge.Work) error { time.Sleep(testSilence / 4); return nil }
	case "crash verdict":
		e.refuse = journal.Crash
	case "fails":
		e.before = func(gate string, w *judge.Work) error {
			if at(gate, w) && wrong() {
				return fmt.Errorf("no space left on device")
			}
			return nil
		}
	default:
		e.before = func(gate string, w *judge.Work) error {
			if at(gate, w) && wrong() {
				misbehave(mode)
			}
			return nil
		}
		if slices.Contains([]string{"half", "twice", "stranger", "lie", "cheap", "negative", "swindle", "another", "reworded", "invented"}, mode) {
			e.before, out = nil, &mangler{mode: mode, wrong: wrong}
		}
	}
	return Serve(context.Background(), os.Stdin, out, o)
}

// at reports whether a candidate is at the place where something goes wrong.
func at(gate string, w *judge.Work) bool {
	return fmt.Sprintf("%d/%s", w.Record.ID, gate) == os.Getenv(atEnv)
}

func misbehave(mode string) {
	switch mode {
	case "die":
		fmt.Fprintln(os.Stderr, "the last words")
		os.Exit(9)
	case "stop": // the whole process, beats and all
		exec.Command("kill", "-STOP", fmt.Sprint(os.Getpid())).Run()
		time.Sleep(time.Minute)
	case "forever": // but it beats
		select {}
	case "garbage":
		fmt.Println(`{"reply": what?`)
	case "unknown":
		fmt.Println(`{"oops":1}`)
	case "empty":
		fmt.Println(`{}`)
	case "flood": // one endless line
		block := bytes.Repeat([]byte("x"), 1<<20)
		for {
			os.Stdout.Write(block)
		}
	case "chatter": // beats for another order
		for {
			fmt.Println(`{"beat":{"id":999}}`)
		}
	case "deaf":
		os.Stdout.Close()
		select {}
	}
}

// mangler spoils the first reply.
type mangler struct {
	mode  string
	wrong func() bool
}

func (m *mangler) Write(b []byte) (int, error) {
	if bytes.HasPrefix(b, []byte(`{"reply"`)) && m.wrong() {
		switch m.mode {
		case "half":
			os.Stdout.Write(b[:len(b)/2])
			os.Exit(0)
		case "twice":
			os.Stdout.Write(b)
		case "stranger":
			b = bytes.Replace(b, []byte(`{"reply":{"id":`), []byte(`{"reply":{"id":9`), 1)
		case "lie":
			b = regexp.MustCompile(`"score":\d+`).ReplaceAll(b, []byte(`"score":1`))
		case "cheap":
			b = regexp.MustCompile(`"per_token":[0-9.]+`).ReplaceAll(b, []byte(`"per_token":0.001`))
		case "invented":
			b = regexp.MustCompile(`^\{"reply":\{"id":(\d+).*`).ReplaceAll(b, []byte(`{"reply":{"id":$1,"steps":[{"gate":"x"}]}}`))
		case "negative":
			b = regexp.MustCompile(`"score":(\d+)`).ReplaceAll(b, []byte(`"score":-$1`))
		case "another":
			b = regexp.MustCompile(`"variant":"[^"]+"`).ReplaceAll(b, []byte(`"variant":"naive,chunk=64"`))
		case "reworded":
			b = regexp.MustCompile(`"hypothesis":"[^"]+"`).ReplaceAll(b, []byte(`"hypothesis":"mine"`))
		case "swindle": // without a contradiction
			b = regexp.MustCompile(`"(cycles|score)":\d+`).ReplaceAll(b, []byte(`"$1":32768`))
			b = regexp.MustCompile(`"per_token":[0-9.]+`).ReplaceAll(b, []byte(`"per_token":1`))
		}
	}
	return os.Stdout.Write(b)
}

// fake is an evaluator without machinery: figures follow from the hash of the variant.
type fake struct {
	before  func(gate string, w *judge.Work) error
	refuse  journal.Verdict
	plugins map[string]string
	used    time.Duration
}

func (f *fake) Plugins() map[string]string { return f.plugins }
func (f *fake) Close() error               { return nil }
func (f *fake) CPU() time.Duration         { f.used += time.Second; return f.used }

func number(v gdn.Variant, salt string) uint64 {
	h := fnv.New64a()
	fmt.Fprint(h, v.Hash(), salt)
	return h.Sum64()
}

func (f *fake) Gates() []judge.Gate {
	gates := []judge.Gate{
		{Name: "legality", Run: func(_ context.Context, w *judge.Work) (*judge.Refusal, error) {
			if err := w.Variant.Check(w.Spec); err != nil {
				return &judge.Refusal{Verdict: journal.Invalid, Reason: err.Error()}, nil
			}
			return nil, nil
		}},
		{Name: "build", Run: func(_ context.Context, w *judge.Work) (*judge.Refusal, error) {
			w.Record.IR = fmt.Sprint(number(w.Variant, "ir") % 60)
			w.Objects["ir"] = []byte(w.Variant.String())
			return nil, nil
		}},
		{Name: "compile", Run: func(_ context.Context, w *judge.Work) (*judge.Refusal, error) {
			w.Objects["module"] = bytes.Repeat([]byte("module\n"), 5000)
			if f.refuse != "" {
				return &judge.Refusal{Verdict: f.refuse, Reason: "the machine is bad"}, nil
			}
			if number(w.Variant, "vmem")%10 == 0 {
				return &judge.Refusal{Verdict: journal.VMEM, Reason: "too large"}, nil
			}
			score := int64(200_000 + number(w.Variant, "score")%1_000_000)
			if best := w.Known.Champion(w.Targets[0].Name); best != nil { // what is known decides, as with real gates
				w.Record.Notes = append(w.Record.Notes, fmt.Sprintf("against candidate %d", best.ID))
			}
			w.Record.Costs = append(w.Record.Costs, journal.Cost{Target: w.Targets[0].Name, Cycles: score, Score: score, PerToken: journal.Figure(score) / 32768,
				Schedule: fmt.Sprint(number(w.Variant, "schedule") % 50)})
			return nil, nil
		}},
	}
	again := judge.AgainGates()
	gates = slices.Insert(gates, 2, again[0])
	gates = append(gates, again[1])
	for i, g := range gates {
		gates[i].Run = func(ctx context.Context, w *judge.Work) (*judge.Refusal, error) {
			if f.before != nil {
				if err := f.before(g.Name, w); err != nil {
					return nil, err
				}
			}
			return g.Run(ctx, w)
		}
	}
	return gates
}

const judged = 24 // candidates of a run

// quick is a run judged by an evaluator.
func quick(t *testing.T, e judge.Evaluator) autotune.Config {
	s, err := gdn.LookupPreset("bench")
	require.NoError(t, err)
	return run(s, t.TempDir(), e)
}

func run(s gdn.Spec, dir string, e judge.Evaluator) autotune.Config {
	return autotune.Config{Spec: s, Targets: []string{"v6e"}, Dir: dir, Candidates: judged, Strategy: "exhaustive", Seeds: []string{"naive", "default"}, Lookahead: 5,
		Workers: 3, Evaluator: e, Generator: testGenerator, Backoff: time.Millisecond}
}

// engine runs the test's worker in a mode.
func engine(t *testing.T, text string, env ...string) *Engine {
	e, err := ParseEngine("exec:" + strings.Join(append(env, modeEnv+"='"+text+"' exec "+os.Args[0]), " "))
	require.NoError(t, err)
	return e
}

func pool(t *testing.T, o PoolOptions, engines ...*Engine) *Pool {
	o.Generator, o.Silence = testGenerator, cmp.Or(o.Silence, time.Minute) // on a busy machine
	if o.Warn == nil {
		o.Warn = func(text string) { t.Log(text) }
	}
	p, err := New(t.Context(), engines, o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	return p
}

// outcome is what a run's journal holds: its decisions, the contents of its objects by key, and the machinery's events.
func outcome(t *testing.T, dir string) (decisions []string, losses []journal.Event) {
	s, _, err := journal.Read(dir, func(r journal.Record) error {
		if text, ok := r.Decision(); ok {
			decisions = append(decisions, text)
		}
		if r.Kind == journal.KindError {
			e, err := r.Event()
			require.NoError(t, err)
			losses = append(losses, e)
		}
		return nil
	})
	require.NoError(t, err)
	for _, c := range s.Now().Candidates() {
		for _, key := range c.Objects {
			_, err := autotune.Object(dir, key)
			require.NoError(t, err)
		}
	}
	v, err := autotune.Verify(dir, nil)
	require.NoError(t, err)
	require.Empty(t, v.Faults)
	return decisions, losses
}

// local is the journal of the run where this process judges.
func local(t *testing.T) []string {
	c := quick(t, &fake{})
	_, err := autotune.Search(t.Context(), c)
	require.NoError(t, err)
	want, losses := outcome(t, c.Dir)
	require.Len(t, want, judged+1)
	require.Empty(t, losses)
	text := strings.Join(want, "\n")
	for _, v := range []journal.Verdict{journal.Improved, journal.Worse, journal.Duplicate, journal.VMEM} {
		require.Contains(t, text, fmt.Sprintf("%q", v))
	}
	return want
}

// A journal does not depend on where candidates were judged.
func TestSameAsLocal(t *testing.T) {
	p := pool(t, PoolOptions{}, engine(t, "good"), engine(t, "good"))
	c := quick(t, p)
	_, err := autotune.Search(t.Context(), c)
	require.NoError(t, err)
	got, losses := outcome(t, c.Dir)
	require.Equal(t, local(t), got)
	require.Empty(t, losses)
	require.NotZero(t, p.CPU())

	s, _, err := journal.Read(c.Dir, nil)
	require.NoError(t, err)
	node, err := os.Hostname()
	require.NoError(t, err)
	for _, times := range s.Times() {
		require.Equal(t, node, times.Node)
		require.Contains(t, times.Wall, "legality")
	}
}

// A worker that is lost is an event of the journal; its candidate is judged by the next one, and no verdict differs.
func TestMisbehaving(t *testing.T) {
	want := local(t)
	modes := []struct{ mode, at, says string }{
		{"die", "3/legality", "exit status 9: the last words"},
		{"die", "3/build", "exit status 9"},
		{"die", "3/duplicate", "exit status 9"},
		{"die", "3/compile", "exit status 9"},
		{"die", "1/schedule", "exit status 9"},
		{"stop", "4/compile", "silent: nothing came for 1s"},
		{"deaf", "4/compile", "it closed its output"},
		{"garbage", "5/build", "no message"},
		{"unknown", "5/build", `unknown field "oops"`},
		{"empty", "5/build", "not asked"},
		{"half", "", "middle of a line"},
		{"stranger", "", "not asked"},
		{"flood", "6/compile", "it wrote"},
		{"lie", "", "its record contradicts itself: cost on v6e: score 1, and the larger of its cycles and of HBM is "},
		{"cheap", "", "its record contradicts itself: cost on v6e: 0.001 cycles a token, and score "},
		{"invented", "", `step 1 of its judgement is of gate "x"`},
		{"another", "", "of its judgement has a record of another candidate than"},
		{"reworded", "", "of its judgement has a record of another candidate than"},
		{"negative", "", "its record contradicts itself: cost on v6e: score -"},
		{"chatter", "6/compile", "did not end in time"},
		{"forever", "7/compile", "did not end in time: 2s"},
	}
	for _, x := range rotate.Sample(664, modes, rotate.Short(len(modes))) {
		t.Run(x.mode+" "+x.at, func(t *testing.T) {
			once := onceEnv + "=" + filepath.Join(t.TempDir(), "once")
			bad := func() *Engine { return engine(t, x.mode, once, atEnv+"="+x.at) }
			o := PoolOptions{Limit: time.Minute} // the text does not depend on times
			switch {
			case strings.Contains(x.says, "silent"):
				o.Silence = testSilence
			case strings.Contains(x.says, "in time"):
				o.Limit = 2 * time.Second
			}
			p := pool(t, o, bad(), bad())
			c := quick(t, p)
			_, err := autotune.Search(t.Context(), c)
			require.NoError(t, err)
			got, losses := outcome(t, c.Dir)
			require.Equal(t, want, got)
			require.Len(t, losses, 1)
			require.Contains(t, losses[0].Message, x.says)
			require.NotEmpty(t, losses[0].Node)
			require.Equal(t, 1, losses[0].Attempt)
		})
	}
}

// A worker that lies without a contradiction is found where it would make a champion, before the champion ends anything.
func TestSwindle(t *testing.T) {
	once := onceEnv + "=" + filepath.Join(t.TempDir(), "once")
	p := pool(t, PoolOptions{}, engine(t, "swindle", once), engine(t, "swindle", once))
	c := quick(t, p)
	_, err := autotune.Search(t.Context(), c)
	var pause *autotune.PauseError
	require.ErrorAs(t, err, &pause)
	require.ErrorContains(t, err, "it would be a champion by v6e: score 32768")
	_, err = autotune.Resume(t.Context(), c) // once is over
	require.NoError(t, err)
	v, err := autotune.Verify(c.Dir, nil)
	require.NoError(t, err)
	require.Empty(t, v.Faults)
}

// What is no worker at all: within the limits, an error that names it, and nothing of its own reaches a terminal.
func TestHostileWorkers(t *testing.T) {
	scripts := map[string]string{
		"garbage":  `echo 'hello there'; sleep 2`,
		"binary":   `head -c 5000000 /dev/urandom`,
		"longline": `head -c 90000000 /dev/zero | tr '\0' 'a'`,
		"deep":     `printf '{"hello":'; head -c 5000000 /dev/zero | tr '\0' '['; echo`,
		"beats":    `while :; do echo '{"beat":{}}'; sleep .05; done`,
		"null":     `echo '{"hello":null}'`,
		"two":      `echo '{"hello":{},"reply":{}}'`,
		"refused":  `printf '{"refused":"\\u001b[2J\\u001b]0;own\\u0007 no"}\n'`,
		"silent":   `sleep 100`,
		"dead":     `exit 3`,
		"closed":   `exec >&-; sleep 100`,
	}
	for _, name := range rotate.Sample(665, slices.Sorted(maps.Keys(scripts)), rotate.Short(len(scripts))) {
		t.Run(name, func(t *testing.T) {
			script := scripts[name]
			file := filepath.Join(t.TempDir(), "w.sh")
			require.NoError(t, os.WriteFile(file, []byte(script), 0o644))
			e, err := ParseEngine("exec:sh " + file)
			require.NoError(t, err)
			begun := time.Now()
			_, err = New(t.Context(), []*Engine{e}, PoolOptions{Generator: testGenerator, Silence: time.Second, Ready: 2 * time.Second, Warn: func(string) {}})
			require.Error(t, err)
			require.Less(t, time.Since(begun), 30*time.Second)
			require.Less(t, len(err.Error()), 4000)
		})
	}
}

// A worker that says for ever that it gets ready is not waited for.
func TestNeverReady(t *testing.T) {
	_, err := New(t.Context(), []*Engine{engine(t, "beats")}, PoolOptions{Silence: testSilence, Ready: 300 * time.Millisecond})
	require.ErrorContains(t, err, "it was not ready within 300ms")
}

// A worker that is lost while it judges a champion for the second time is an event as any: another one judges it.
func TestConfirmingLost(t *testing.T) {
	once := onceEnv + "=" + filepath.Join(t.TempDir(), "once")
	bad := func() *Engine { return engine(t, "second", once, atEnv+"=1/compile") }
	c := quick(t, pool(t, PoolOptions{}, bad(), bad()))
	_, err := autotune.Search(t.Context(), c)
	require.NoError(t, err)
	got, losses := outcome(t, c.Dir)
	require.Equal(t, local(t), got)
	require.Len(t, losses, 1)
	require.Contains(t, losses[0].Message, "exit status 9: the last words")
}

// A budget ends a search also while a worker that takes the place of a lost one gets ready for ever.
func TestBudgetEndsReadiness(t *testing.T) {
	c := quick(t, pool(t, PoolOptions{}, engine(t, "lazy", onceEnv+"="+filepath.Join(t.TempDir(), "once"), atEnv+"=2/compile")))
	c.Budget = 2 * time.Second
	begun := time.Now()
	sum, err := autotune.Search(t.Context(), c)
	require.NoError(t, err)
	require.Equal(t, "the budget of 2s is spent", sum.Stopped)
	require.Less(t, time.Since(begun), 30*time.Second)
	require.Less(t, sum.Candidates, judged)
}

// Output of a worker besides its answer is noticed at the next order; a failure of its machinery is tried again as here.
func TestLesserFaults(t *testing.T) {
	want := local(t)
	for mode, says := range map[string]string{"twice": "not asked", "fails": "no space left on device"} {
		e := engine(t, mode, onceEnv+"="+filepath.Join(t.TempDir(), "once"), atEnv+"=3/compile")
		c := quick(t, pool(t, PoolOptions{}, e))
		_, err := autotune.Search(t.Context(), c)
		require.NoError(t, err)
		got, losses := outcome(t, c.Dir)
		require.Equal(t, want, got, mode)
		require.Len(t, losses, 1, mode)
		require.Contains(t, losses[0].Message, says)
	}
}

// rayEngine starts the test's worker by rayslot.py over a stand-in for Ray.
func rayEngine(t *testing.T, address string, slots int) *Engine {
	t.Setenv("PYTHONPATH", "testdata/ray")
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	e, err := ParseEngine(fmt.Sprintf("ray:%s*%d", address, slots))
	require.NoError(t, err)
	return e
}

// Workers of a Ray cluster: the program travels, a lost actor is a retry, and what Ray prints is no message.
func TestRay(t *testing.T) {
	e := rayEngine(t, "auto", 2)
	t.Setenv("RAY_LOSES", filepath.Join(t.TempDir(), "once"))
	c := quick(t, pool(t, PoolOptions{}, e))
	_, err := autotune.Search(t.Context(), c)
	require.NoError(t, err)
	got, losses := outcome(t, c.Dir)
	require.Equal(t, local(t), got)
	require.Len(t, losses, 1)
	require.Contains(t, losses[0].Message, "ActorDiedError: The actor died because its node did")

	_, err = New(t.Context(), []*Engine{rayEngine(t, "nowhere", 1)}, PoolOptions{Generator: testGenerator})
	require.ErrorContains(t, err, "Could not find any running Ray instance")
	t.Setenv("PYTHONPATH", "/nonexistent")
	_, err = New(t.Context(), []*Engine{e}, PoolOptions{Generator: testGenerator})
	var none *NoWorkerError
	require.ErrorAs(t, err, &none)
}

// A gate that takes longer than the silence that is allowed is no loss while its worker says that it is alive.
func TestSlowIsNotLost(t *testing.T) {
	c := quick(t, pool(t, PoolOptions{Silence: testSilence}, engine(t, "slow")))
	c.Candidates = 2
	_, err := autotune.Search(t.Context(), c)
	require.NoError(t, err)
	got, losses := outcome(t, c.Dir)
	require.Len(t, got, 3)
	require.Empty(t, losses)
}

// Three losses of one candidate pause the run, which goes on from there with better workers.
func TestThreeLossesPause(t *testing.T) {
	dies := engine(t, "die", onceEnv+"=/dev/null/no", atEnv+"=3/compile")
	dies.rest = strings.Replace(dies.rest, "/dev/null/no", filepath.Join(t.TempDir(), "$$"), 1) // each process makes its own file
	dies.Slots = 3
	c := quick(t, pool(t, PoolOptions{}, dies))
	_, err := autotune.Search(t.Context(), c)
	var pause *autotune.PauseError
	require.ErrorAs(t, err, &pause)
	require.Equal(t, 3, pause.Candidate)
	require.ErrorContains(t, err, "exit status 9")
	got, losses := outcome(t, c.Dir)
	require.Len(t, got, 3, "the header and two candidates")
	require.GreaterOrEqual(t, len(losses), 3)

	c.Evaluator = pool(t, PoolOptions{}, engine(t, "good"))
	_, err = autotune.Resume(t.Context(), c)
	require.NoError(t, err)
	got, _ = outcome(t, c.Dir)
	require.Equal(t, local(t), got)
}

// Workers that are not alike are refused with both texts, and the others go on; where none is left the search does not begin.
func TestRefused(t *testing.T) {
	var said []string
	p := pool(t, PoolOptions{Warn: func(text string) { said = append(said, text) }}, engine(t, "good"), engine(t, "other"), engine(t, "plugins"), engine(t, "broken"))
	text := strings.Join(said, "\n")
	for _, want := range []string{"it is gdngen v9.9.9, and the run needs (devel)", "its plugins are libtpu 9.9, and the run needs none", "no plugin here"} {
		require.Contains(t, text, want)
	}
	c := quick(t, p)
	_, err := autotune.Search(t.Context(), c)
	require.NoError(t, err)
	got, losses := outcome(t, c.Dir)
	require.Equal(t, local(t), got)
	require.Empty(t, losses)

	for mode, says := range map[string]string{"other": "v9.9.9", "broken": "no plugin here", "mute": "silent", "babble": "no message"} {
		silence := time.Minute // they have time to start on a busy machine
		if mode == "mute" {
			silence = testSilence
		}
		_, err := New(t.Context(), []*Engine{engine(t, mode)}, PoolOptions{Generator: testGenerator, Silence: silence})
		var none *NoWorkerError
		require.ErrorAs(t, err, &none, mode)
		require.ErrorContains(t, err, says)
	}
	p2, err := New(t.Context(), []*Engine{engine(t, "plugins")}, PoolOptions{Generator: testGenerator, Silence: time.Minute})
	require.NoError(t, err, "a run of its own")
	defer p2.Close()
	c = quick(t, p2)
	c.Dir = c.Dir + "/new"
	c.Candidates = 1
	_, err = autotune.Search(t.Context(), c)
	require.NoError(t, err)
	c.Evaluator = p
	_, err = autotune.Resume(t.Context(), c)
	require.ErrorContains(t, err, "begun with other tools")
}

// A crash counts when a second machine says the same.
func TestDoubt(t *testing.T) {
	t.Run("not confirmed", func(t *testing.T) {
		p := pool(t, PoolOptions{}, engine(t, "crash verdict"), engine(t, "good"))
		p.slots[0].conn.hello.Node = "elsewhere"
		c := quick(t, p)
		_, err := autotune.Search(t.Context(), c)
		require.NoError(t, err)
		got, _ := outcome(t, c.Dir)
		require.Equal(t, local(t), got)
	})
	t.Run("confirmed", func(t *testing.T) {
		p := pool(t, PoolOptions{}, engine(t, "crash verdict"), engine(t, "crash verdict"))
		p.slots[0].conn.hello.Node = "elsewhere"
		c := quick(t, p)
		c.Candidates, c.Failures = 3, 100
		_, err := autotune.Search(t.Context(), c)
		require.NoError(t, err)
		got, _ := outcome(t, c.Dir)
		require.Contains(t, got[1], `"verdict":"crash"`)
	})
}

// drive is a process that begins the run in a folder with two workers.
func drive(dir string) {
	s, err := gdn.LookupPreset("bench")
	must := func() {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	must()
	e, err := ParseEngine(cmp.Or(os.Getenv(engineEnv), "exec:"+modeEnv+"=tired exec "+os.Args[0]+"*2"))
	must()
	p, err := New(context.Background(), []*Engine{e}, PoolOptions{Generator: testGenerator})
	must()
	c := run(s, dir, p)
	_, err = autotune.Search(context.Background(), c)
	must()
	os.Exit(0)
}

// Killed on the way, a driver loses nothing that it recorded, leaves no worker, and another goes on.
func TestDriverKilled(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), runEnv+"="+dir)
	cmd.Stderr = os.Stderr
	require.NoError(t, cmd.Start())
	candidates := func() int {
		s, _, err := journal.Read(dir, nil)
		if err != nil {
			return 0
		}
		return s.Len()
	}
	require.Eventually(t, func() bool { return candidates() > 4 }, time.Minute, 5*time.Millisecond)
	workers := children(t, cmd.Process.Pid)
	require.Len(t, workers, 2)
	require.NoError(t, cmd.Process.Kill())
	require.Error(t, cmd.Wait())
	had := candidates()
	require.Less(t, had, judged)
	require.Eventually(t, func() bool {
		return !slices.ContainsFunc(workers, func(pid string) bool {
			_, err := os.Stat("/proc/" + pid)
			return err == nil
		})
	}, time.Minute, 10*time.Millisecond, "workers go on")

	c := quick(t, pool(t, PoolOptions{}, engine(t, "good")))
	c.Dir = dir
	_, err := autotune.Resume(t.Context(), c)
	require.NoError(t, err)
	got, losses := outcome(t, dir)
	require.Equal(t, local(t), got)
	require.Empty(t, losses)
}

// children lists the processes that a process started.
func children(t *testing.T, pid int) (l []string) {
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	require.NoError(t, err)
	for _, name := range tasks {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		l = append(l, strings.Fields(string(text))...)
	}
	return l
}

// The end of a search, and of its process, is that of its workers.
func TestNothingIsLeft(t *testing.T) {
	c := quick(t, nil)
	p := pool(t, PoolOptions{}, engine(t, "slow"), engine(t, "slow"))
	c.Evaluator = p
	var pids []int
	for _, s := range p.slots {
		pids = append(pids, s.conn.Pid())
	}
	ctx, cancel := context.WithTimeout(t.Context(), testSilence)
	defer cancel()
	begun := time.Now()
	_, err := autotune.Search(ctx, c)
	require.NoError(t, err)
	require.Less(t, time.Since(begun), 4*time.Second)
	require.NoError(t, p.Close())
	for _, pid := range pids {
		_, err := os.Stat(fmt.Sprintf("/proc/%d", pid))
		require.ErrorIs(t, err, os.ErrNotExist)
	}
	_, losses := outcome(t, c.Dir)
	require.Empty(t, losses, "an interrupt is no loss")
}

// A worker ends with its input, also in the middle of a gate.
func TestEndOfInput(t *testing.T) {
	for _, mode := range []string{"good", "mute"} {
		in, end := io.Pipe()
		o := Options{Generator: "x", Beat: testBeat, Evaluator: func(ctx context.Context) (judge.Evaluator, error) {
			if mode == "mute" {
				select {}
			}
			return &fake{}, nil
		}}
		done := make(chan error)
		go func() { done <- Serve(t.Context(), in, io.Discard, o) }()
		end.Close()
		select {
		case err := <-done:
			require.NoError(t, err)
		case <-time.After(10 * time.Second):
			t.Fatal("it goes on")
		}
	}
}

// A driver that is none ends a worker with a reason.
func TestBadDriver(t *testing.T) {
	for line, says := range map[string]string{
		"nonsense\n": "no message", `{"order":{"id":1,"at":0,"candidate":{}}}` + "\n": "before the header", `{"header":{"format":2,"spec":"?"}}` + "\n": "header", `{"hea`: "middle of a line",
	} {
		var out bytes.Buffer
		o := Options{Generator: "x", Evaluator: func(context.Context) (judge.Evaluator, error) { return &fake{}, nil }}
		require.ErrorContains(t, Serve(t.Context(), strings.NewReader(line), &out, o), says, line)
	}
}

// A line without an end does not fill the memory.
func TestLongLine(t *testing.T) {
	r, w := io.Pipe()
	go func() {
		block := bytes.Repeat([]byte("x"), 1<<20)
		for {
			if _, err := w.Write(block); err != nil {
				return
			}
		}
	}()
	_, err := newReader(r).next()
	require.ErrorContains(t, err, "a line of more than 64 MiB")
	require.NoError(t, r.Close())
}

func TestParseEngine(t *testing.T) {
	for text, want := range map[string]Engine{
		"local": {Text: "local", Slots: 1}, "local*4": {Text: "local", Slots: 4}, "ssh:me@host*2": {Text: "ssh:me@host", Slots: 2, rest: "me@host"},
		"exec:kubectl exec -i p -- gdngen worker*3": {Text: "exec:kubectl exec -i p -- gdngen worker", Slots: 3, rest: "kubectl exec -i p -- gdngen worker"},
		"exec:ls *": {Text: "exec:ls *", Slots: 1, rest: "ls *"},
	} {
		e, err := ParseEngine(text)
		require.NoError(t, err, text)
		require.Equal(t, want, Engine{Text: e.Text, Slots: e.Slots, rest: e.rest}, text)
	}
	for text, says := range map[string]string{"": "unknown engine", "slurm:x": "known: local ssh:", "ray:": "want ray:ADDRESS", "ssh:": "want ssh:[USER@]HOST", "local:x": "want local", "local*0": "from 1 to 256", "exec:": "want exec:COMMAND"} {
		_, err := ParseEngine(text)
		require.ErrorContains(t, err, says, text)
	}
}

// What ssh would take for an option is no machine.
func TestEngineIsNoOption(t *testing.T) {
	for _, text := range []string{"ssh:-oProxyCommand=x", "ssh:a b", "ray:-x"} {
		_, err := ParseEngine(text)
		require.ErrorContains(t, err, "want "+text[:3], text)
	}
}
