package journal

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/autotune/ruler"
)

var header = Header{Format: Format, Rules: Rules, Spec: "tiny", Targets: []string{"v5e", "v6e"}, Strategy: "exhaustive", Lookahead: 1, Gates: []string{"build", "verdict"}}

// ranked is a candidate with a verdict computed from its scores.
func ranked(t *testing.T, s *State, scores ...int64) *Candidate {
	id := s.Len() + 1
	c := &Candidate{ID: id, Variant: fmt.Sprint("v", id), Fitted: fmt.Sprint("v", id), IR: fmt.Sprint("ir", id), Gate: "verdict"}
	for i, score := range scores {
		c.Costs = append(c.Costs, Cost{Target: header.Targets[i], Cycles: score, Score: score, Schedule: fmt.Sprint(id, i)})
	}
	var err error
	c.Verdict, c.Reason, err = s.Now().Rank(c)
	require.NoError(t, err)
	c.Cause, c.Evidence = s.Now().CauseOf(c)
	return c
}

// write makes a journal with a header and candidates with the given scores on the first target.
func write(t *testing.T, dir string, scores ...int64) {
	j, warnings, err := Open(dir)
	require.NoError(t, err)
	require.Empty(t, warnings)
	require.NoError(t, j.Append(KindHeader, header))
	for _, s := range scores {
		require.NoError(t, j.AppendTimed(KindCandidate, ranked(t, j.State(), s), Times{Wall: map[string]float64{"build": .5}}))
	}
	require.NoError(t, j.Close())
}

func TestRoundTrip(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, 100, 90, 95, 500, 90)
	var kinds []Kind
	s, warnings, err := Read(dir, func(r Record) error { kinds = append(kinds, r.Kind); return nil })
	require.NoError(t, err)
	require.Empty(t, warnings)
	require.Equal(t, header, *s.Header)
	require.Len(t, kinds, 6)
	var verdicts []Verdict
	for _, c := range s.Now().Candidates() {
		verdicts = append(verdicts, c.Verdict)
	}
	require.Equal(t, []Verdict{Improved, Improved, Close, Worse, Close}, verdicts)
	require.Equal(t, 2, s.Now().Champion("v5e").ID, "of equals, the first")
	require.Equal(t, 1, s.At(1).Champion("v5e").ID)
	require.Nil(t, s.At(0).Champion("v5e"))
	require.Nil(t, s.Now().Champion("v6e"))
	_, seen := s.At(2).Fitted("v3")
	require.False(t, seen)
	id, seen := s.At(3).Fitted("v3")
	require.True(t, seen)
	require.Equal(t, 3, id)

	j, _, err := Open(dir)
	require.NoError(t, err)
	require.NoError(t, j.Append(KindCandidate, ranked(t, j.State(), 10)))
	require.Equal(t, 6, j.State().Now().Champion("v5e").ID)
	require.NoError(t, j.Close())
	require.Error(t, j.Append(KindEnd, Event{}))
	champions, faults := Verify(j.State(), nil)
	require.Empty(t, faults)
	require.Equal(t, map[string]int{"v5e": 6}, champions)
}

// Any cut of the last line loses that line alone, and the run goes on from there.
func TestTornTail(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, 100, 90, 80)
	path := filepath.Join(dir, FileName)
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	start := bytes.LastIndexByte(whole[:len(whole)-1], '\n') + 1
	for cut := start; cut < len(whole); cut++ {
		require.NoError(t, os.WriteFile(path, whole[:cut], 0o644))
		s, warnings, err := Read(dir, nil)
		require.NoError(t, err)
		require.Equal(t, 2, s.Len())
		require.Len(t, warnings, min(1, cut-start))
		if cut > start && cut%40 != 0 {
			continue
		}
		j, warnings, err := Open(dir)
		require.NoError(t, err)
		require.Len(t, warnings, min(1, cut-start))
		require.NoError(t, j.Append(KindCandidate, ranked(t, j.State(), 70)))
		require.NoError(t, j.Close())
		s, warnings, err = Read(dir, nil)
		require.NoError(t, err)
		require.Empty(t, warnings)
		require.Equal(t, int64(70), s.Now().Champion("v5e").Cost("v5e").Score)
	}
}

// Any changed byte before the last line break is found, and the line is named.
func TestDamage(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, 100, 90, 80)
	path := filepath.Join(dir, FileName)
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	for at := range whole[:len(whole)-1] {
		bad := bytes.Clone(whole)
		bad[at] ^= 1
		require.NoError(t, os.WriteFile(path, bad, 0o644))
		_, _, err := Read(dir, nil)
		var corrupt *CorruptError
		require.ErrorAs(t, err, &corrupt, "byte %d", at)
		require.Equal(t, 1+bytes.Count(whole[:at], []byte("\n")), corrupt.Line)
		if at%97 == 0 {
			_, _, err = Open(dir)
			require.ErrorAs(t, err, &corrupt)
			after, err := os.ReadFile(path)
			require.NoError(t, err)
			require.Equal(t, bad, after, "a damaged journal is left as it is")
		}
	}
}

func TestChain(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, 100, 90, 80)
	path := filepath.Join(dir, FileName)
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	lines := strings.SplitAfter(strings.TrimSuffix(string(whole), "\n"), "\n")
	lines[len(lines)-1] += "\n"
	other := t.TempDir()
	write(t, other, 100, 91, 80)
	foreign, err := os.ReadFile(filepath.Join(other, FileName))
	require.NoError(t, err)
	swapped := strings.SplitAfter(string(foreign), "\n")
	for name, test := range map[string]struct {
		text string
		line int
	}{
		"a line is missing":       {lines[0] + lines[2] + lines[3], 2},
		"lines are exchanged":     {lines[0] + lines[2] + lines[1] + lines[3], 2},
		"a line of another run":   {lines[0] + swapped[1] + lines[2], 2},
		"a line is doubled":       {lines[0] + lines[1] + lines[1], 3},
		"the header is missing":   {lines[1], 1},
		"an empty line":           {lines[0] + "\n" + lines[1], 2},
		"a line of something":     {lines[0] + "{}\n", 2},
		"the header comes twice":  {lines[0] + lines[0], 2},
		"nothing but line breaks": {"\n\n", 1},
	} {
		require.NoError(t, os.WriteFile(path, []byte(test.text), 0o644))
		_, _, err = Read(dir, nil)
		var corrupt *CorruptError
		require.ErrorAs(t, err, &corrupt, name)
		require.Equal(t, test.line, corrupt.Line, name)
		require.Contains(t, err.Error(), path)
	}
}

func TestTwoDrivers(t *testing.T) {
	dir := t.TempDir()
	j, _, err := Open(dir)
	require.NoError(t, err)
	_, _, err = Open(dir)
	var locked *LockedError
	require.ErrorAs(t, err, &locked)
	require.NoError(t, j.Close())
	j, _, err = Open(dir)
	require.NoError(t, err)
	require.NoError(t, j.Close())
}

func TestNoRun(t *testing.T) {
	dir := t.TempDir()
	_, _, err := Read(dir, nil)
	require.ErrorContains(t, err, "no run in "+dir)
	require.NoError(t, os.WriteFile(filepath.Join(dir, FileName), []byte(`{"seq":0`), 0o644))
	_, _, err = Read(dir, nil)
	require.ErrorContains(t, err, "before it began")
}

// Append refuses what could not be read again, and the journal stays good.
func TestRefused(t *testing.T) {
	dir := t.TempDir()
	j, _, err := Open(dir)
	require.NoError(t, err)
	require.ErrorContains(t, j.Append(KindCandidate, Candidate{ID: 1, Verdict: Improved}), "before the header")
	require.ErrorContains(t, j.Append(KindHeader, Header{Format: 99, Targets: header.Targets, Lookahead: 1}), "format 99")
	require.NoError(t, j.Append(KindHeader, header))
	require.ErrorContains(t, j.Append(KindHeader, header), "second header")
	require.ErrorContains(t, j.Append(KindCandidate, Candidate{ID: 2, Verdict: Improved}), "1 was expected")
	require.ErrorContains(t, j.Append(KindCandidate, Candidate{ID: 1, Verdict: "good"}), "unknown verdict")
	by := func(r ruler.Ruler) []Cost { return []Cost{{Target: "v6e", Ruler: r, Cycles: 1, Wall: 1, Score: 1}} }
	require.ErrorContains(t, j.Append(KindCandidate, Candidate{ID: 1, Verdict: Improved, Costs: by(ruler.InOrder)}), "candidate 1: its cost on v6e is in in-order cycles, and the run ranks by issue cycles")
	require.ErrorContains(t, j.Append("rumour", Event{}), "unknown kind")
	require.NoError(t, j.Append(KindEnd, Event{Message: "done"}))
	require.NoError(t, j.Close())
	s, _, err := Read(dir, nil)
	require.NoError(t, err)
	require.Len(t, s.Events(), 1)
}

// A target has one ruler.
func TestMixedRulers(t *testing.T) {
	j, _, err := Open(t.TempDir())
	require.NoError(t, err)
	h := header
	h.Ruler = ruler.InOrder
	require.NoError(t, j.Append(KindHeader, h))
	add := func(id int, cost Cost) error {
		return j.Append(KindCandidate, Candidate{ID: id, Verdict: Invalid, Costs: []Cost{cost}})
	}
	require.NoError(t, add(1, Cost{Target: "v6e", Ruler: ruler.InOrder, Wall: 2}))
	require.NoError(t, add(2, Cost{Target: "v5e", Ruler: ruler.Issue, Cycles: 2}))
	require.ErrorContains(t, add(3, Cost{Target: "v5e", Ruler: ruler.InOrder, Wall: 2}), "candidate 3: its cost on v5e is in in-order cycles, and those before are in issue cycles")
	require.NoError(t, add(3, Cost{Target: "v5e", Verdict: VMEM}))
	require.NoError(t, j.Close())
}

func TestDecision(t *testing.T) {
	a, b := t.TempDir(), t.TempDir()
	write(t, a, 100, 90)
	write(t, b, 100, 90)
	decisions := func(dir string) (all []string) {
		_, _, err := Read(dir, func(r Record) error {
			if text, ok := r.Decision(); ok {
				all = append(all, text)
			}
			return nil
		})
		require.NoError(t, err)
		return all
	}
	require.Equal(t, decisions(a), decisions(b))
	require.Len(t, decisions(a), 3)
}

func TestFigure(t *testing.T) {
	for _, x := range []float64{0, 1.5e-7, math.NaN(), math.Inf(1), math.Inf(-1)} {
		text, err := json.Marshal(Figure(x))
		require.NoError(t, err)
		var back Figure
		require.NoError(t, json.Unmarshal(text, &back))
		require.Equal(t, math.IsNaN(x), math.IsNaN(float64(back)))
		if !math.IsNaN(x) {
			require.Equal(t, x, float64(back))
		}
	}
	require.Error(t, json.Unmarshal([]byte(`"much"`), new(Figure)))
}

func TestVerify(t *testing.T) {
	build := func(change func(id int, c *Candidate)) []string {
		dir := t.TempDir()
		j, _, err := Open(dir)
		require.NoError(t, err)
		defer j.Close()
		require.NoError(t, j.Append(KindHeader, header))
		for i, score := range []int64{100, 90, 200} {
			c := ranked(t, j.State(), score)
			change(i+1, c)
			require.NoError(t, j.Append(KindCandidate, c))
		}
		_, faults := Verify(j.State(), func(key string) error {
			if key == "gone" {
				return fmt.Errorf("it is missing")
			}
			return nil
		})
		return faults
	}
	require.Empty(t, build(func(int, *Candidate) {}))
	for want, change := range map[string]func(c *Candidate){
		"its scores say worse":            func(c *Candidate) { c.Verdict = Improved },
		"object ir: it is missing":        func(c *Candidate) { c.Objects = map[string]string{"ir": "gone"} },
		"neither the program nor":         func(c *Candidate) { c.Verdict, c.Of = Duplicate, 1 },
		"repeats 7, which is not":         func(c *Candidate) { c.Verdict, c.Of = Duplicate, 7 },
		"parent 3 is not":                 func(c *Candidate) { c.Parent = 3 },
		"no gate \"guess\"":               func(c *Candidate) { c.Gate = "guess" },
		"without a reason":                func(c *Candidate) { c.Reason = "" },
		"no cost on any target":           func(c *Candidate) { c.Costs = nil },
		"its records say":                 func(c *Candidate) { c.Cause = CauseMemory },
		"does not follow from its errors": func(c *Candidate) { c.Errors = []ClassError{{Error: 2, Limit: 1}} },
	} {
		faults := build(func(id int, c *Candidate) {
			if id == 3 {
				change(c)
			}
		})
		require.NotEmpty(t, faults, want)
		require.Contains(t, strings.Join(faults, "\n"), want)
	}
	require.Empty(t, build(func(id int, c *Candidate) {
		if id == 3 {
			c.Verdict, c.Of, c.Costs[0].Schedule, c.Cause, c.Evidence = Duplicate, 1, "1 0", CauseRepeated, c.Reason
		}
	}))
}

// Lint refuses records that can not be understood or judged again later.
func TestLint(t *testing.T) {
	lint := func(change func(c *Candidate)) []string {
		dir := t.TempDir()
		j, _, err := Open(dir)
		require.NoError(t, err)
		defer j.Close()
		require.NoError(t, j.Append(KindHeader, header))
		c := ranked(t, j.State(), 100)
		c.Variant, c.Hypothesis, c.Costs[0].Schedule = "algo=chunk", "the default, as a seed", "1"
		c.Errors = []ClassError{{Class: "random", Error: 1e-7, Limit: 1e-6}}
		change(c)
		require.NoError(t, j.Append(KindCandidate, c))
		return Lint(j.State())
	}
	require.Empty(t, lint(func(*Candidate) {}))
	for want, change := range map[string]func(c *Candidate){
		`placeholder "TODO"`:                     func(c *Candidate) { c.Hypothesis = "TODO say why" },
		`placeholder "???"`:                      func(c *Candidate) { c.Hypothesis = "faster because ???" },
		"no hypothesis":                          func(c *Candidate) { c.Hypothesis = " " },
		"without a reason":                       func(c *Candidate) { c.Reason = "" },
		"of no gate":                             func(c *Candidate) { c.Gate = "" },
		"no cost with a schedule":                func(c *Candidate) { c.Costs = nil },
		"no errors against the reference":        func(c *Candidate) { c.Errors = nil },
		"no error beyond its limit":              func(c *Candidate) { c.Verdict, c.Cause, c.Evidence = Numerics, CauseNumerics, "wrong" },
		"of which candidate?":                    func(c *Candidate) { c.Verdict, c.Cause, c.Evidence = Duplicate, CauseRepeated, "again" },
		"verdict worse without a cause":          func(c *Candidate) { c.Verdict = Worse },
		`cause "bad luck" without evidence`:      func(c *Candidate) { c.Cause = "bad luck" },
		"no command judges it again":             func(c *Candidate) { c.Variant = "" },
		"change of candidate 1 that is not told": func(c *Candidate) { c.Parent = 1 },
	} {
		faults := lint(change)
		require.NotEmpty(t, faults, want)
		require.Contains(t, strings.Join(faults, "\n"), want)
	}
}

// Causes are told by the schedules of a candidate and its parent.
func TestCauses(t *testing.T) {
	base := Cost{Target: "v5e", Cycles: 1000_000, Score: 1000_000, HBM: 100_000, Spills: 1000, XLA: 1000, Calls: 2, Slot: "VALU", Fill: .6, Stages: []Stage{{"solve", 600_000}, {"state", 300_000}}}
	for want, change := range map[Cause]func(c *Cost){
		CauseBottleneck: func(c *Cost) { c.Schedule = "another" },
		CauseLocal: func(c *Cost) {
			c.Score, c.Cycles, c.Stages = 1100_000, 1100_000, []Stage{{"solve", 400_000}, {"state", 600_000}}
		},
		CauseUnstable: func(c *Cost) { c.Score, c.Cycles, c.Spills = 1100_000, 1100_000, 90_000 },
		CauseMemory:   func(c *Cost) { c.HBM, c.Score = 1200_000, 1200_000 },
		CauseFusion:   func(c *Cost) { c.Score, c.Cycles, c.XLA = 1200_000, 1200_000, 190_000 },
	} {
		s := NewState()
		add := func(kind Kind, body any) {
			text, err := json.Marshal(body)
			require.NoError(t, err)
			require.NoError(t, s.Add(Record{Kind: kind, Body: text}))
		}
		add(KindHeader, header)
		add(KindCandidate, Candidate{ID: 1, Verdict: Improved, Costs: []Cost{base}})
		add(KindCandidate, Candidate{ID: 2, Verdict: Improved, Costs: []Cost{{Target: "v5e", Score: 10}}})
		c := Candidate{ID: 3, Parent: 1, Verdict: Worse, Costs: []Cost{base}}
		change(&c.Costs[0])
		got, evidence := s.Now().CauseOf(&c)
		require.Equal(t, want, got, evidence)
		require.NotEmpty(t, evidence)
	}
}

// A clone of a candidate shares no memory with it that can be written to.
func TestClone(t *testing.T) {
	c := &Candidate{Change: []string{"a"}, Shortlist: []Option{{Parent: 1}}, Errors: []ClassError{{Class: "c"}}, Notes: []string{"n"}, Objects: map[string]string{"ir": "x"},
		Costs: []Cost{{Target: "v6e", Stages: []Stage{{Name: "s"}}, Shapes: []ShapeCost{{Spec: "x"}}}}}
	d := c.Clone()
	require.Equal(t, c, d)
	distinct(t, "Candidate", reflect.ValueOf(*c), reflect.ValueOf(*d))
}

// distinct requires that every slice and map of a value is set and another than that of its copy.
func distinct(t *testing.T, path string, a, b reflect.Value) {
	switch a.Kind() {
	case reflect.Slice, reflect.Map:
		require.NotZero(t, a.Len(), "%s is not part of the test", path)
		require.NotEqual(t, a.Pointer(), b.Pointer(), path)
		if a.Kind() == reflect.Slice {
			distinct(t, path+"[0]", a.Index(0), b.Index(0))
		}
	case reflect.Struct:
		for i := range a.NumField() {
			distinct(t, path+"."+a.Type().Field(i).Name, a.Field(i), b.Field(i))
		}
	case reflect.Pointer, reflect.Interface:
		t.Fatalf("%s: Clone does not know pointers", path)
	}
}

// A note is a record that is no decision: it is found by its candidate, takes no time of drivers, and must say something of a candidate that is there.
func TestNotes(t *testing.T) {
	dir := t.TempDir()
	require.ErrorIs(t, AddNote(dir, Note{Candidate: 1, Text: "x"}), os.ErrNotExist)
	j, _, err := Open(dir)
	require.NoError(t, err)
	require.NoError(t, j.Append(KindHeader, Header{Format: Format, Spec: "bench", Targets: []string{"v6e"}, Lookahead: 1}))
	require.NoError(t, j.Append(KindCandidate, Candidate{ID: 1, Verdict: Invalid}))
	busy := j.State().Busy()
	locked := (*LockedError)(nil)
	require.ErrorAs(t, AddNote(dir, Note{Candidate: 1, Text: "x"}), &locked)
	require.NoError(t, j.Close())

	n := Note{Candidate: 1, Job: "job-7", Trace: "traces/run", StepMS: 31.7, Tokens: 412000, MFU: .382, Text: "steady"}
	require.NoError(t, AddNote(dir, n))
	bad := (*NoteError)(nil)
	for _, x := range []Note{{Candidate: 2, Text: "x"}, {Candidate: 1}, {Candidate: 1, StepMS: -1}, {Candidate: 1, MFU: 38}} {
		require.ErrorAs(t, AddNote(dir, x), &bad)
	}
	s, _, err := Read(dir, func(r Record) error {
		_, decides := r.Decision()
		require.Equal(t, r.Kind != KindNote, decides)
		return nil
	})
	require.NoError(t, err)
	require.Equal(t, []Note{n}, s.NotesOf(1))
	require.Empty(t, s.NotesOf(2))
	require.Equal(t, busy, s.Busy())
	require.Equal(t, "job job-7, step 31.7 ms, 412000 tokens/s, MFU 38.2 %, trace traces/run, steady", s.NotesOf(1)[0].String())
}

// A clock that is set back, on the way or between sessions, takes no time away and breaks no record.
func TestClockGoesBack(t *testing.T) {
	dir := t.TempDir()
	j, _, err := Open(dir)
	require.NoError(t, err)
	require.NoError(t, j.Append(KindHeader, Header{Format: Format, Spec: "bench", Targets: []string{"v6e"}, Lookahead: 1}))
	for id := range 3 {
		require.NoError(t, j.Append(KindCandidate, Candidate{ID: id + 1, Verdict: Invalid}))
	}
	require.NoError(t, j.Close())
	var records []Record
	_, _, err = Read(dir, func(r Record) error { records = append(records, r); return nil })
	require.NoError(t, err)
	s, at := NewState(), time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	for i, hours := range []int{0, 1, -20, -19} {
		records[i].Times.At = at.Add(time.Duration(hours) * time.Hour)
		require.NoError(t, s.Add(records[i]))
	}
	require.Equal(t, 2*time.Hour, s.Busy())
	require.Equal(t, 3, s.Len())
}

// Older journals have other names for the verdicts of correct candidates.
func TestFormerVerdicts(t *testing.T) {
	var l []Verdict
	require.NoError(t, json.Unmarshal([]byte(`["keep","hold","slower","improved","numerics"]`), &l))
	require.Equal(t, []Verdict{Improved, Close, Worse, Improved, Numerics}, l)
}
