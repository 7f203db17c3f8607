package bench

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"

	"github.com/gdngen/gdngen/autotune/flashinfer"
	"github.com/gdngen/gdngen/internal/terminal"
)

// Score rates a solution over the workloads of a definition as the contest does: the arithmetic mean of its speed-ups over the reference.
type Score struct {
	Definition string  `json:"definition"`
	Solution   string  `json:"solution"` // Best: for each workload the fastest of all solutions that passed it
	Workloads  int     `json:"workloads"`
	Passed     int     `json:"passed"`
	Mean       float64 `json:"mean_speedup,omitempty"` // over the workloads that passed
	Geometric  float64 `json:"geometric_mean_speedup,omitempty"`
	Least      float64 `json:"least_speedup,omitempty"`
}

// Best names the row that takes the best solution for each workload.
const Best = "(best of each)"

// Scores reads all traces of a folder and ranks solutions per definition, by workloads passed, then by mean. The last trace of a workload counts.
func Scores(dir string) (rows []Score, err error) {
	files, err := filepath.Glob(filepath.Join(dir, "traces", "*", "*", "*.jsonl"))
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("%s has no traces: it is no folder of gdngen contest bench", dir)
	}
	last := map[key]*flashinfer.Trace{}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			return nil, err
		}
		whole, _, err := verify(f, text)
		if err != nil {
			return nil, err
		}
		l, err := flashinfer.ReadLines(f, text[:whole])
		if err != nil {
			return nil, err
		}
		for _, t := range l {
			if t.Evaluation != nil {
				last[key{t.Definition, t.Solution, t.Workload.UUID}] = t
			}
		}
	}
	type of struct{ definition, solution string }
	ups := map[of]map[string]float64{} // by workload; 0: it did not pass
	for k, t := range last {
		if p := t.Evaluation.Performance; p != nil && p.LatencyMS == 0 { // judged, not timed
			continue
		}
		up := 0.
		if t.Evaluation.Status == flashinfer.Passed {
			up = t.Evaluation.Performance.Speedup
		}
		for _, name := range []string{k.solution, Best} {
			at := of{k.definition, name}
			if ups[at] == nil {
				ups[at] = map[string]float64{}
			}
			ups[at][k.workload] = max(ups[at][k.workload], up)
		}
	}
	solutions := map[string]int{}
	for at := range ups {
		solutions[at.definition]++
	}
	for at, l := range ups {
		if at.solution == Best && solutions[at.definition] == 2 { // with only one solution, Best equals it
			continue
		}
		rows = append(rows, score(at.definition, at.solution, l))
	}
	slices.SortFunc(rows, func(a, b Score) int {
		return cmp.Or(cmp.Compare(a.Definition, b.Definition), cmp.Compare(b.Passed, a.Passed), cmp.Compare(b.Mean, a.Mean), cmp.Compare(a.Solution, b.Solution))
	})
	return rows, nil
}

func score(definition, solution string, ups map[string]float64) Score {
	s := Score{Definition: definition, Solution: solution, Workloads: len(ups), Least: math.Inf(1)}
	var logs float64
	for _, up := range ups {
		if up > 0 {
			s.Passed++
			s.Mean += up
			logs += math.Log(up)
			s.Least = min(s.Least, up)
		}
	}
	if s.Passed == 0 {
		s.Least = 0
		return s
	}
	s.Mean /= float64(s.Passed)
	s.Geometric = math.Exp(logs / float64(s.Passed))
	return s
}

// WriteScores prints the rows.
func WriteScores(w io.Writer, rows []Score) {
	t := terminal.NewTable("DEFINITION", "SOLUTION", ">PASSED", ">MEAN SPEED-UP", ">GEOMETRIC", ">LEAST")
	for _, s := range rows {
		t.Add(s.Definition, s.Solution, fmt.Sprintf("%d/%d", s.Passed, s.Workloads), fmt.Sprintf("%.2f x", s.Mean), fmt.Sprintf("%.2f x", s.Geometric), fmt.Sprintf("%.2f x", s.Least))
	}
	t.Write(w)
	fmt.Fprintln(w, "\nThe mean is arithmetic, over workloads that passed, as the contest scores.")
}
