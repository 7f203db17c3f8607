package report

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/autotune/journal"
	"github.com/gdngen/gdngen/autotune/ruler"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/exam/accuracy"
)

// story is a run of every verdict: seeds, changes that win and lose for different reasons, and what never got a cost.
func story(t *testing.T) *journal.State {
	s := journal.NewState()
	add := func(kind journal.Kind, body any, times journal.Times) {
		text, err := json.Marshal(body)
		require.NoError(t, err)
		require.NoError(t, s.Add(journal.Record{Kind: kind, Body: text, Times: times}))
	}
	begin := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	add(journal.KindHeader, journal.Header{Format: journal.Format, Spec: "b=1,t=4096,hk=4,hv=8,k=128,v=128,dtype=bf16", Targets: []string{"v6e", "v5e"}, Seed: 1, Strategy: "beam:4",
		Lookahead: 1, Precision: "bf16x1", Generator: "test", Plugins: map[string]string{"libtpu": "1"}, Gates: []string{"build", "numerics", "compile", "cost", "verdict"}}, journal.Times{At: begin})
	id := 0
	judge := func(c journal.Candidate, v6e, v5e int64, stages ...journal.Stage) {
		id++
		c.ID = id
		if c.Variant != "" {
			v, err := gdn.ParseVariant(c.Variant)
			require.NoError(t, err)
			spec, err := gdn.Parse(s.Header.Spec)
			require.NoError(t, err)
			c.Variant, c.Fitted, c.Cell = v.String(), v.Fit(spec).String(), v.Fit(spec).Cell()
			c.IR = fmt.Sprintf("%064d", id)
		}
		c.Hypothesis = "it may be cheaper"
		for i, score := range []int64{v6e, v5e} {
			if score > 0 {
				c.Costs = append(c.Costs, journal.Cost{Target: []string{"v6e", "v5e"}[i], Cycles: score, Score: score, PerToken: journal.Figure(float64(score) / 32768), Schedule: fmt.Sprint(id, i),
					Stages: stages, Slot: "VALU", Fill: .5, VMEM: 1 << 20})
			}
		}
		if c.Verdict == "" {
			c.Gate = "verdict"
			c.Errors = append(c.Errors, journal.ClassError{Class: "identical", Engine: "kernels", Output: "o", Error: journal.Figure(.001 * float64(id)), Limit: .04})
			var err error
			c.Verdict, c.Reason, err = s.Now().Rank(&c)
			require.NoError(t, err)
		}
		c.Cause, c.Evidence = s.Now().CauseOf(&c)
		add(journal.KindCandidate, c, journal.Times{At: begin.Add(time.Duration(id) * 10 * time.Second), CPU: float64(id) * 5, Wall: map[string]float64{"compile": 2, "compile/v6e": 2, "numerics": 1}})
	}
	stages := func(solve, state int64) []journal.Stage {
		l := []journal.Stage{{Name: "solve", Cycles: solve}, {Name: "state", Cycles: state}}
		if state > solve {
			l[0], l[1] = l[1], l[0]
		}
		return l
	}
	judge(journal.Candidate{Variant: "naive"}, 4_000_000, 5_000_000, stages(3_500_000, 400_000)...)
	judge(journal.Candidate{Variant: "naive,solve=merge", Parent: 1, Change: []string{"solve=merge"}, Gain: .3, Risk: .1, Shortlist: []journal.Option{{Parent: 1, Change: "solve=merge", Gain: .3, Risk: .1}}}, 1_000_000, 1_200_000, stages(500_000, 450_000)...)
	judge(journal.Candidate{Variant: "solve=merge,heads=2", Parent: 2, Change: []string{"heads=2"}}, 600_000, 900_000, stages(200_000, 390_000)...)
	judge(journal.Candidate{Variant: "solve=merge,heads=2,beta=right", Parent: 3, Change: []string{"beta=right"}}, 640_000, 930_000, stages(150_000, 480_000)...) // a stage wins, the whole loses
	judge(journal.Candidate{Variant: "solve=neumann", Verdict: journal.Numerics, Gate: "numerics", Reason: "o is off by NaN",
		Errors: []journal.ClassError{{Class: "identical", Engine: "interp", Output: "o", Error: journal.Figure(math.NaN()), Limit: .04}}}, 0, 0)
	judge(journal.Candidate{Variant: "solve=merge,heads=2,share=no", Parent: 3, Change: []string{"share=no"}, Verdict: journal.Duplicate, Of: 3, Gate: "build", Reason: "the program of candidate 3"}, 0, 0)
	judge(journal.Candidate{Variant: "solve=merge,heads=4,share=no", Parent: 3, Change: []string{"share=no"}, Verdict: journal.Duplicate, Of: 3, Gate: "build", Reason: "the program of candidate 3"}, 0, 0)
	judge(journal.Candidate{Verdict: journal.Timeout, Gate: journal.GateProposal, Reason: "the proposer gave nothing within 1s"}, 0, 0)
	judge(journal.Candidate{Variant: "solve=merge,heads=2,kq=joined", Parent: 3, Change: []string{"kq=joined"}}, 0, 850_000, stages(200_000, 390_000)...)
	add(journal.KindEnd, journal.Event{Message: "the budget is spent"}, journal.Times{At: begin.Add(time.Hour)})
	return s
}

func TestSummary(t *testing.T) {
	s := story(t)
	sum := New("dir", s)
	require.Equal(t, "the budget is spent", sum.Stopped)
	require.Equal(t, 9, sum.Candidates)
	require.InDelta(t, 45, sum.CPU, 1e-9)
	require.Equal(t, 3, sum.Rankings[0].Rows[0].ID)
	require.Equal(t, 9, sum.Rankings[1].Rows[0].ID)
	require.Len(t, sum.Portfolio, 2)
	require.True(t, strings.HasPrefix(note(s.Header), "Candidates are ranked by static issue cycles"), "a journal of before names no ruler")
	s.Header.Ruler = ruler.InOrder
	require.Contains(t, note(s.Header), "in-order cycles")
	dead := map[string]bool{}
	for _, f := range sum.Axes {
		dead[f.Axis] = f.Dead
	}
	require.True(t, dead["share"], "moved twice, nothing changed")
	require.False(t, dead["solve"])
	require.Equal(t, journal.CauseLocal, s.Now().Candidate(4).Cause)
	require.Contains(t, s.Now().Candidate(4).Evidence, "solve takes 50000 cycles less on v6e, but state 90000 more")
	require.Equal(t, journal.CauseNumerics, s.Now().Candidate(5).Cause)
	require.Equal(t, journal.CauseRepeated, s.Now().Candidate(6).Cause)
	require.Empty(t, journal.Lint(s))
	var b bytes.Buffer
	require.NoError(t, sum.Text(&b, 2))
	for _, want := range []string{"close: within 10 % of it", "portfolio: the fewest candidates within 3 %", "dead axis: share was moved 2 times", "5.0 s of processor time each", "... 2 more"} {
		require.Contains(t, b.String(), want)
	}
}

// The page is well-formed, needs no other file, and holds what a report must show.
func TestHTML(t *testing.T) {
	var b bytes.Buffer
	require.NoError(t, HTML(&b, "dir", story(t), map[string][]Picture{"v6e": {{ID: 2, Role: "the champion", SVG: "<svg id=\"drawn\"></svg>"}}}))
	page := b.String()
	for _, want := range []string{"Best so far", "Cycles and error", "Champion against the first, by stage", "Every axis", "Dead axes", "Rejected, and why", "Portfolio", "Succession", "the budget is spent",
		"o is off by NaN", "local win", `aria-label="best so far"`, "6.7 x",
		`<svg id="drawn">`, "Schedule of the champion", `heads <s>1</s> <b>2</b></span>  <i class="soft">from its parent #2</i>`} {
		require.Contains(t, page, want)
	}
	require.NotContains(t, strings.ReplaceAll(page, "http://www.w3.org", ""), "http")
	require.NotContains(t, page, "NaN cycles")
	require.NotContains(t, page, "ZgotmplZ")
	d := xml.NewDecoder(strings.NewReader(strings.Replace(page, "<!DOCTYPE html>", "", 1)))
	d.Strict, d.Entity = true, xml.HTMLEntity
	for {
		if _, err := d.Token(); err == io.EOF {
			break
		} else {
			require.NoError(t, err)
		}
	}
	empty := journal.NewState()
	text, err := json.Marshal(story(t).Header)
	require.NoError(t, err)
	require.NoError(t, empty.Add(journal.Record{Kind: journal.KindHeader, Body: text}))
	b.Reset()
	require.NoError(t, HTML(&b, "dir", empty, nil))
	require.Contains(t, b.String(), "No candidate has a cost here")
}

// A champion is seen as a change of its parent; of a seed, which has none, as one of the champion before.
func TestBefore(t *testing.T) {
	s := story(t)
	v := s.Now()
	from, role := Before(v, v.Candidate(3), "v6e")
	require.Equal(t, 2, from.ID)
	require.Equal(t, "its parent", role)
	from, _ = Before(v, v.Candidate(1), "v6e")
	require.Nil(t, from)
	seed := *v.Candidate(3)
	seed.Parent = 0
	from, role = Before(v, &seed, "v6e")
	require.Equal(t, 2, from.ID)
	require.Equal(t, "the champion before", role)
}

// A row names what differs from the champion, or has its short name where that is shorter; structures are folded under their best.
func TestRankingRows(t *testing.T) {
	require.Equal(t, []axisDiff{{"leaf", "8", "16"}}, diffs("default", "default,leaf=16"))
	require.Empty(t, diffs("default", "tpu-long"), "far apart")
	require.Empty(t, diffs("default", ""))
	require.Equal(t, "tpu-long", short("tpu-long"))
	require.Equal(t, "(text of a program)", short(""))
	rows := make([]pageRanked, 5)
	families(rows, []string{"a", "b", "a", "", "a"})
	require.Equal(t, []bool{false, false, true, false, true}, []bool{rows[0].Kin, rows[1].Kin, rows[2].Kin, rows[3].Kin, rows[4].Kin})
	require.Equal(t, 2, rows[0].Family)
	require.NotEqual(t, cellOf("default"), cellOf("default,solve=ladder"))
	require.Equal(t, cellOf("default,chunk=64"), cellOf("default,chunk=32"))
}

// Whatever its size, the screen keeps to the terminal.
func TestScreen(t *testing.T) {
	s := story(t)
	for _, size := range [][2]int{{80, 24}, {40, 10}, {200, 50}, {20, 5}} {
		l := &Live{Dir: "runs/first", View: s.Now(), Elapsed: 90 * time.Second, Budget: 3 * time.Minute, CPU: 45, Flight: []string{"solve=merge"}, Warning: "the machine is slow"}
		lines := strings.Split(l.Screen(size[0], size[1]), "\n")
		require.LessOrEqual(t, len(lines), size[1])
		for _, line := range lines {
			require.LessOrEqual(t, utf8.RuneCountInString(line), size[0], line)
		}
		require.Contains(t, lines[0], "gdngen search")
	}
	screen := (&Live{View: s.Now(), Elapsed: time.Minute}).Screen(160, 40)
	for _, want := range []string{"9 candidates, 9.0 a minute", "18.31 issue cycles per token and head", "6.7 x below the first", "hot: state, solve; fullest slot VALU 50 %", "kq=joined on #3"} {
		require.Contains(t, screen, want)
	}
	require.Contains(t, (&Live{}).Screen(80, 24), "getting ready")
}

// Every form has every candidate; T4 and traces keep the rules of their schemas.
func TestExports(t *testing.T) {
	s := story(t)
	write := func(name string) string {
		e, err := LookupExport(name)
		require.NoError(t, err)
		var b bytes.Buffer
		require.NoError(t, e.Write(&b, "dir", s))
		return b.String()
	}
	var t4 struct {
		Version string `json:"schema_version"`
		Results []struct {
			Configuration map[string]string
			Times         map[string]any
			Invalidity    string
			Correctness   *float64
			Objectives    []string
			Measurements  []struct {
				Name  string
				Value float64
			}
		}
	}
	require.NoError(t, json.Unmarshal([]byte(write("t4")), &t4))
	require.Regexp(t, `^\d+\.\d+\.\d+$`, t4.Version)
	require.Len(t, t4.Results, 9)
	for i, r := range t4.Results {
		require.NotEmpty(t, r.Configuration)
		require.Contains(t, []string{"timeout", "compile", "runtime", "correctness", "constraints", "correct"}, r.Invalidity)
		require.NotNil(t, r.Correctness)
		require.Equal(t, r.Invalidity == "correct", *r.Correctness == 1)
		require.InDelta(t, 2000., r.Times["compilation_time"], 1e-9)
		if i < 4 {
			require.Equal(t, "issue_cycles", r.Measurements[0].Name)
		}
	}
	lines := strings.Split(strings.TrimSpace(write("traces")), "\n")
	require.Len(t, lines, 9)
	for i, line := range lines {
		var x trace
		require.NoError(t, json.Unmarshal([]byte(line), &x))
		r := x.Evaluation
		require.NotEmpty(t, x.Definition)
		require.Contains(t, []string{"PASSED", "INCORRECT_NUMERICAL", "COMPILE_ERROR", "TIMEOUT"}, r.Status)
		require.Equal(t, r.Status == "PASSED", r.Performance != nil, i)
		require.Equal(t, r.Status == "PASSED" || r.Status == "INCORRECT_NUMERICAL", r.Correctness != nil)
		require.NotEmpty(t, r.Environment.Hardware)
		require.Len(t, x.Workload.UUID, 36)
	}
	rows, err := csv.NewReader(strings.NewReader(write("csv"))).ReadAll()
	require.NoError(t, err)
	require.Len(t, rows, 1+4*2+4+1, "a row for each cost, one where there is none")
	log := write("markdown")
	for _, want := range []string{"**Hypothesis**", "**Change**: `solve=merge` in candidate 1", "**Command**: `gdngen explain --spec 'b=1", "--target v6e,v5e`", "**Hot spots**: before solve 3500000, state 400000; after solve 500000",
		"**Verdict**: numerics at numerics", "**Cause**: local win", "**Next**: #2, solve=merge on #1", "expected gain 30.0 %"} {
		require.Contains(t, log, want)
	}
	_, err = LookupExport("xml")
	require.ErrorContains(t, err, "t4 traces csv markdown")
}

// A candidate of several specs is judged again on each of them, by its full text.
func TestCommandOfShapes(t *testing.T) {
	h := &journal.Header{Spec: "a", Targets: []string{"v6e", "v5e"}, Shapes: []journal.Shape{{Spec: "a", Weight: 1}, {Spec: "b", Weight: 2}}}
	require.Equal(t, "gdngen explain --spec 'a' --variant 'x=1' --target v6e,v5e && gdngen explain --spec 'b' --variant 'x=1' --target v6e,v5e",
		Command(h, &journal.Candidate{Variant: "x=1"}))
}

// Where an objective had errors measured, the front has them over flash-linear-attention's, with public kernels in the same table.
func TestFrontWithPeers(t *testing.T) {
	s := journal.NewState()
	require.NoError(t, s.Add(journal.Record{Kind: journal.KindHeader, Body: []byte(`{"format":2,"spec":"b=1,t=4096,hk=4,hv=8,k=128,v=128,dtype=bf16","targets":["v6e"],"lookahead":1,"objective":"cost@error=fla"}`)}))
	add := func(id int, verdict journal.Verdict, perToken, times float64) {
		c := &journal.Candidate{ID: id, Verdict: verdict, Costs: []journal.Cost{{Target: "v6e", Score: int64(32768 * perToken), PerToken: journal.Figure(perToken)}}}
		for _, col := range accuracy.Short() {
			e, _ := accuracy.Of(accuracy.FLA, col.Name)
			c.Errors = append(c.Errors, journal.ClassError{Class: col.Name, Engine: journal.EngineAccuracy, Output: "o", Kind: "rms", Error: journal.Figure(times * e.O), Limit: journal.Figure(e.O)})
		}
		body, err := json.Marshal(c)
		require.NoError(t, err)
		require.NoError(t, s.Add(journal.Record{Kind: journal.KindCandidate, Body: body}))
	}
	add(1, journal.Improved, 2.5, 1)
	add(2, journal.Numerics, 2, 3) // missed the class, and is on the front of cost and error
	add(3, journal.Worse, 3, 2)
	p, off := frontPlot(s, s.Now(), "v6e")
	require.Zero(t, off)
	var classes []string
	for _, d := range p.Dots {
		classes = append(classes, d.Class)
	}
	require.Equal(t, []string{"front", "front", ""}, classes[:3])
	require.Greater(t, len(classes), 3)
	for i, d := range p.Dots[3:] {
		require.Equal(t, "peer", d.Class)
		require.NotEmpty(t, p.Names[i].Text)
	}
	require.Contains(t, p.Dots[3].Title, "tokamax")
	require.Contains(t, p.Dots[1].Title, "error 3.00 x flash-linear-attention's")

	s.Header.Spec = "b=1,t=512,hk=4,hv=8,k=128,v=128,dtype=bf16"
	p, _ = frontPlot(s, s.Now(), "v6e")
	require.Len(t, p.Dots, 3, "public kernels have figures on the bench work alone")
}

// Champions that climbed stand with both ranks, in the text and on the page; what a kill cut is left out, and a damaged file is a warning.
func TestStandings(t *testing.T) {
	s := story(t)
	dir := t.TempDir()
	path := filepath.Join(dir, StandingsName)
	champions := s.Now().Champions("v6e")
	require.GreaterOrEqual(t, len(champions), 2)
	var lines strings.Builder
	for i, c := range champions { // the better the kernel, the worse the step
		fmt.Fprintf(&lines, `{"candidate":%d,"variant":"naive","target":"v6e","model":"layer","ruler":"wall","score":%d,"mfu":0.25}`+"\n", c.ID, 1000+i)
	}
	fmt.Fprintf(&lines, `{"candidate":%d,"variant":"naive","target":"v6e","model":"130m","verdict":"vmem","reason":"17 of 16 MiB"}`+"\n"+`{"candidate":`, champions[0].ID)
	require.NoError(t, os.WriteFile(path, []byte(lines.String()), 0o644))
	sum := New(dir, s)
	require.Len(t, sum.Standings, len(champions)+1)
	first := sum.Standings[1] // after that of 130m
	require.Equal(t, []int{champions[0].ID, 1, len(champions)}, []int{first.Candidate, first.Rank, first.KernelRank})
	var b bytes.Buffer
	require.NoError(t, sum.Text(&b, 2))
	require.Contains(t, b.String(), "champions in a step of a model")
	require.Contains(t, b.String(), "1000 in-order")
	require.Contains(t, b.String(), "vmem")

	require.NoError(t, os.WriteFile(path, []byte("nonsense\n"), 0o644))
	sum = New(dir, s)
	require.Contains(t, sum.Warnings[len(sum.Warnings)-1], "damaged at line 1")
}
