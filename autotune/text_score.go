package autotune

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/gdngen/gdngen/autotune/journal"
	"github.com/gdngen/gdngen/internal/store"
)

// ScoreOf judges the champion of another search again, and returns it as a candidate of a run of its own in c.Dir,
// after the variant naive. The text of its program passes all gates here. Spec and targets are c's, whatever the other
// run claims. A program that is wrong for them, or has no cost, is an error.
func ScoreOf(ctx context.Context, found string, c Config) (*journal.Candidate, error) {
	s, _, err := journal.Read(found, nil)
	if err != nil {
		return nil, err
	}
	best := s.Now().Champion(c.Targets[0])
	if best == nil {
		return nil, fmt.Errorf("the search found nothing with a cost on %s", c.Targets[0])
	}
	text, err := Object(found, best.Objects["ir"])
	if err != nil {
		return nil, fmt.Errorf("the program of candidate %d: %w", best.ID, err)
	}
	answer, err := json.Marshal(map[string]string{"ir": string(text), "hypothesis": fmt.Sprintf("candidate %d of %s", best.ID, found)})
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(c.Dir, 0o755); err != nil {
		return nil, err
	}
	file, err := filepath.Abs(filepath.Join(c.Dir, "answer.json"))
	if err == nil {
		err = store.WriteFile(file, append(answer, '\n'))
	}
	if err != nil {
		return nil, err
	}
	c.Dir = filepath.Join(c.Dir, "run")
	c.Seeds, c.Candidates, c.Lookahead, c.Promoted = []string{"naive"}, 2, 1, nil
	c.Strategy = "exec:read -r question; cat " + "'" + strings.ReplaceAll(file, "'", `'\''`) + "'" + "; cat > /dev/null"
	if _, err := Search(ctx, c); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if s, _, err = journal.Read(c.Dir, nil); err != nil {
		return nil, err
	}
	is := s.Now().Candidate(2)
	switch {
	case is == nil:
		return nil, fmt.Errorf("%s: the program was not judged: the same command tries again in another folder", c.Dir)
	case is.Verdict == journal.Duplicate: // of naive
		is = s.Now().Candidate(is.Of)
	case !is.Verdict.Ranked() || is.Cost(c.Targets[0]) == nil:
		return nil, fmt.Errorf("what the search found is no program of %s: %s at %s: %s", c.Spec, is.Verdict, is.Gate, is.Reason)
	}
	return is, nil
}
