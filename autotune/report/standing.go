package report

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/gdngen/gdngen/autotune/journal"
	"github.com/gdngen/gdngen/autotune/ruler"
	"github.com/gdngen/gdngen/internal/store"
)

// StandingsName is the file of standings in the folder of a run.
const StandingsName = "standings.jsonl"

// Standing is the result of a champion in a model: the time of a training step with it.
type Standing struct {
	Candidate int             `json:"candidate"`
	Variant   string          `json:"variant"` // as resolved for the model
	Target    string          `json:"target"`
	Model     string          `json:"model"`
	Forward   bool            `json:"forward,omitempty"` // without the backward pass
	Ruler     ruler.Ruler     `json:"ruler,omitempty"`
	Score     int64           `json:"score,omitempty"` // cycles of the step
	Rule      int64           `json:"rule,omitempty"`  // of these, the rule's cycles
	MFU       float64         `json:"mfu,omitempty"`
	Verdict   journal.Verdict `json:"verdict,omitempty"` // if it has no program there
	Reason    string          `json:"reason,omitempty"`

	PerToken   journal.Figure `json:"per_token,omitempty"` // of the kernel, from the search
	KernelRank int            `json:"kernel_rank,omitempty"`
	Rank       int            `json:"rank,omitempty"` // by the score; 0: none
}

// ReadStandings reads the standings of a run; nil if there is no file. An incomplete last line is skipped.
func ReadStandings(dir string) ([]Standing, error) {
	return store.ReadLines[Standing](filepath.Join(dir, StandingsName), "remove it, and run resume --climb makes it anew")
}

// ranked sets both ranks of standings, among those of the same model and pass: by kernel and by step. The best step is first.
func ranked(l []Standing, v journal.View) []Standing {
	group := func(a, b Standing) bool {
		return a.Target == b.Target && a.Model == b.Model && a.Forward == b.Forward
	}
	for i := range l {
		if c := v.Candidate(l[i].Candidate); c != nil && c.Cost(l[i].Target) != nil {
			l[i].PerToken = c.Cost(l[i].Target).PerToken
		}
	}
	for i, a := range l {
		l[i].KernelRank = 1
		if a.Score > 0 {
			l[i].Rank = 1
		}
		for _, b := range l {
			if !group(a, b) {
				continue
			}
			if b.PerToken < a.PerToken {
				l[i].KernelRank++
			}
			if a.Score > 0 && b.Score > 0 && b.Score < a.Score {
				l[i].Rank++
			}
		}
	}
	slices.SortStableFunc(l, func(a, b Standing) int {
		last := func(rank int) int { return cmp.Or(rank, len(l)+1) }
		return cmp.Or(cmp.Compare(a.Target, b.Target), cmp.Compare(a.Model, b.Model), cmp.Compare(last(a.Rank), last(b.Rank)))
	})
	return l
}

// standings prints both ranks side by side.
func (p *printer) standings(l []Standing) {
	if len(l) == 0 {
		return
	}
	p.printf("\nchampions in a step of a model (static; nothing ran on a TPU)\n")
	t := p.table()
	fmt.Fprintf(t, "  model\ttarget\trank\tcycles\tMFU\trank of kernel\tcycles per token\tid\tvariant\n")
	for _, x := range l {
		model := x.Model
		if x.Forward {
			model += ", forward"
		}
		rank, score, mfu := fmt.Sprint(x.Rank), fmt.Sprintf("%d %s", x.Score, x.Ruler), fmt.Sprintf("%.1f %%", 100*x.MFU)
		if x.Rank == 0 {
			rank, score, mfu = "-", string(x.Verdict), "-"
		}
		fmt.Fprintf(t, "  %s\t%s\t%s\t%s\t%s\t%d\t%.2f\t#%d\t%s\n", model, x.Target, rank, score, mfu, x.KernelRank, float64(x.PerToken), x.Candidate, Clip(named(x.Variant), 90))
	}
	p.flush(t)
}
