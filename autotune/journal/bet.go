package journal

import "fmt"

// Reasons why a structural change is worth more than a change of a number. They follow from the costs of a candidate
// and of its parent.
const (
	betCalls  = "fewer calls"
	betWork   = "more work in a call"
	betFuller = "fuller MXU"
	betPath   = "shorter critical path"
)

// betLeast is the least share of cycles, or of a slot, that counts as moved.
const betLeast = .01

// Bets lists the reasons that apply to a program compared with its parent, each with its figures.
func Bets(now, had *Cost) (l []string) {
	least := betLeast * float64(had.Score)
	if now.Calls < had.Calls {
		l = append(l, fmt.Sprintf("%s (%d instead of %d)", betCalls, now.Calls, had.Calls))
	}
	if less := had.XLA - now.XLA; float64(less) >= least && less > 0 {
		l = append(l, fmt.Sprintf("%s (%d cycles less outside of kernels)", betWork, less))
	}
	if matrix(now.Slot) && (!matrix(had.Slot) || float64(now.Fill-had.Fill) >= betLeast) {
		l = append(l, fmt.Sprintf("%s (%s %.0f %% full, %s %.0f %% before)", betFuller, now.Slot, 100*float64(now.Fill), slot(had), 100*float64(had.Fill)))
	}
	if is, was := share(now.Stall, now), share(had.Stall, had); was-is >= betLeast {
		l = append(l, fmt.Sprintf("%s (%.0f %% of its cycles wait for an MXU, %.0f %% before)", betPath, 100*is, 100*was))
	} else if is, was := idle(now), idle(had); was-is >= betLeast {
		l = append(l, fmt.Sprintf("%s (%.0f %% of its cycles no slot could fill, %.0f %% before)", betPath, 100*is, 100*was))
	}
	return l
}

// share returns cycles over a program's score.
func share(cycles int64, of *Cost) float64 { return float64(cycles) / float64(max(1, of.Score)) }

// idle returns the share of a program's in-order cycles beyond its issue cycles.
func idle(c *Cost) float64 {
	if c.Wall == 0 {
		return 0
	}
	return float64(c.Wall-c.Cycles) / float64(c.Wall)
}

// matrix reports whether a slot belongs to the MXUs.
func matrix(slot string) bool { return slot == "MXU" || slot == "MATMUL" }

// BetsOf returns Bets of a candidate and its parent, on the first target with both costs; compared is false if there is
// none.
func (v View) BetsOf(c *Candidate) (l []string, compared bool) {
	parent := v.Candidate(c.Parent)
	if parent == nil {
		return nil, false
	}
	for _, t := range v.Header().Targets {
		if now, had := c.Cost(t), parent.Cost(t); now != nil && had != nil {
			return Bets(now, had), true
		}
	}
	return nil, false
}
