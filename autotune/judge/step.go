package judge

import (
	"maps"

	"github.com/gdngen/gdngen/autotune/journal"
)

// Step is the result of one gate.
type Step struct {
	Gate    string             `json:"gate"`
	Record  *journal.Candidate `json:"record"`            // after the gate
	Objects map[string][]byte  `json:"objects,omitempty"` // new or changed, by role
	Refusal *Refusal           `json:"refusal,omitempty"` // of the last step only
	Error   string             `json:"error,omitempty"`   // of the machinery; of the last step only
	Runs    *journal.Timing    `json:"runs,omitempty"`
}

// Replay applies the result of a gate that ran elsewhere to the candidate.
func (w *Work) Replay(s Step) {
	*w.Record = *s.Record.Clone()
	maps.Copy(w.Objects, s.Objects)
	w.Runs = s.Runs
}
