package journal

import "slices"

// Verdict is the result of judging a candidate.
type Verdict string

// The verdicts. A failure of the machinery is none of them: it is a record of kind error, and the candidate is tried again.
const (
	Improved      Verdict = "improved"       // the best so far on at least one target
	Close         Verdict = "close"          // not the best, but close to it on at least one target
	Worse         Verdict = "worse"          // correct, and not close
	Duplicate     Verdict = "duplicate"      // the same program or schedule as an earlier candidate
	Pruned        Verdict = "pruned"         // can not become the best: its lower bound is above it
	Invalid       Verdict = "invalid"        // not a legal variant of the spec, or a malformed program
	Numerics      Verdict = "numerics"       // wrong numbers
	EmitError     Verdict = "emit-error"     // a backend refuses the program
	CompileReject Verdict = "compile-reject" // a compiler refuses it
	VMEM          Verdict = "vmem"           // needs more vector memory than a target has
	CostUnknown   Verdict = "cost-unknown"   // compiled, and the cost model can not read the schedule
	Timeout       Verdict = "timeout"        // a gate did not end in its time
	Crash         Verdict = "crash"          // killed the process that compiled or ran it
	Internal      Verdict = "internal"       // a pass, a backend or a gate of this program panicked: a fault of ours
)

// Verdicts lists all of them, best first.
var Verdicts = []Verdict{Improved, Close, Worse, Duplicate, Pruned, Invalid, Numerics, EmitError, CompileReject, VMEM, CostUnknown, Timeout, Crash, Internal}

// former has the names that older journals and scripts have.
var former = map[string]Verdict{"keep": Improved, "hold": Close, "slower": Worse}

// UnmarshalText reads a verdict by its present or its former name.
func (v *Verdict) UnmarshalText(text []byte) error {
	*v = Verdict(text)
	if now, ok := former[string(text)]; ok {
		*v = now
	}
	return nil
}

// Known reports whether v is one of Verdicts.
func (v Verdict) Known() bool { return slices.Contains(Verdicts, v) }

// Ranked reports whether a candidate with this verdict is correct and has its own cost.
func (v Verdict) Ranked() bool { return v == Improved || v == Close || v == Worse }
