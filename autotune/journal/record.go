package journal

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/gdngen/gdngen/autotune/ruler"
)

// Format is the version of the journal's form. A reader refuses others.
const Format = 2

// Rules is the version of Rank, CauseOf and the champions. Raise it when an old record gets another verdict, reason or cause.
const Rules = 1

// Kind says which type the body of a record has.
type Kind string

// The kinds.
const (
	KindHeader    Kind = "header"    // Header; only the first record
	KindCandidate Kind = "candidate" // Candidate
	KindBaseline  Kind = "baseline"  // Candidate without an id: auto's variant, judged before the first candidate
	KindSession   Kind = "session"   // Event: a driver began or resumed the run
	KindError     Kind = "error"     // Event: the machinery failed; the candidate is tried again
	KindPause     Kind = "pause"     // Event: the machinery kept failing; the driver gave up
	KindEnd       Kind = "end"       // Event: a driver left the run, and why
)

// Record is one line of the journal.
type Record struct {
	Seq   int             `json:"seq"`  // from 0
	Prev  string          `json:"prev"` // checksum of the record before; empty for the first
	Kind  Kind            `json:"kind"`
	Body  json.RawMessage `json:"body"`
	Times Times           `json:"times"`
}

// Times are the parts of a record that differ between two runs of the same search.
type Times struct {
	At   time.Time          `json:"at"`
	Wall map[string]float64 `json:"wall,omitempty"` // seconds by gate
	CPU  float64            `json:"cpu,omitempty"`  // processor seconds of the session so far, with its workers
	Runs *Timing            `json:"runs,omitempty"` // on a device, if attached
	Node string             `json:"node,omitempty"` // the machine that judged, if another than the driver's
}

// Event decodes the body of a record other than a header or candidate.
func (r Record) Event() (e Event, err error) {
	err = json.Unmarshal(r.Body, &e)
	return e, err
}

// Decision returns the part of the record that two runs with the same header share: kind and body of a header or
// candidate. ok is false for other records.
func (r Record) Decision() (text string, ok bool) {
	return string(r.Kind) + " " + string(r.Body), r.Kind == KindHeader || r.Kind == KindCandidate
}

// Header is the identity of a run: everything that its decisions depend on.
type Header struct {
	Format    int               `json:"format"`
	Spec      string            `json:"spec"`                // text of the gdn.Spec
	Shapes    []Shape           `json:"shapes,omitempty"`    // if the run weighs several specs: all of them, Spec first
	Targets   []string          `json:"targets"`             // the first is compiled for first
	Ruler     ruler.Ruler       `json:"ruler,omitempty"`     // unit of cycles; empty in older journals: ruler.Issue
	Objective string            `json:"objective,omitempty"` // what is minimized, as in objective.Parse; empty: cost
	Seed      uint64            `json:"seed"`
	Strategy  string            `json:"strategy"`            // such as model:4
	Seeds     []string          `json:"seeds"`               // variants proposed first
	Reserve   []string          `json:"reserve,omitempty"`   // variants proposed if no seed has a rank
	Promoted  string            `json:"promoted,omitempty"`  // digest of the user's champions among them
	Axes      []string          `json:"axes,omitempty"`      // axes that proposals may change; none: all
	Focus     map[string]string `json:"focus,omitempty"`     // axes held at a value
	Directive string            `json:"directive,omitempty"` // the preset that gave the axes
	Words     string            `json:"words,omitempty"`     // demands on an outside proposer
	Expected  Figure            `json:"expected,omitempty"`  // least gain, as a share, that its proposals must expect
	Guards    map[string]Figure `json:"guards,omitempty"`    // by target: by what share a champion of another target may be worse there
	Precision string            `json:"precision"`           // the lowest that a candidate may compute in
	Estimates bool              `json:"estimates,omitempty"` // the strategy ranks untried variants by estimates
	Lookahead int               `json:"lookahead"`           // candidate n is proposed knowing those before n-lookahead+1
	Generator string            `json:"generator"`           // version of gdngen
	Plugins   map[string]string `json:"plugins,omitempty"`   // versions by name
	Proposer  string            `json:"proposer,omitempty"`  // identity of the proposer: version of the strategy, digests of the choices and of estimates
	Rules     int               `json:"rules,omitempty"`     // version of the rules for ranks and causes
	Gates     []string          `json:"gates"`               // names, in order
	Mixed     bool              `json:"mixed,omitempty"`     // judged on processors that may round differently
}

// Shape is one of the specs that a run weighs.
type Shape struct {
	Spec   string `json:"spec"`
	Weight Figure `json:"weight"` // relative frequency of use
}

// Event is something that happened to the run rather than to a candidate.
type Event struct {
	Candidate int    `json:"candidate,omitempty"` // the one being judged
	Gate      string `json:"gate,omitempty"`
	Node      string `json:"node,omitempty"` // the machine whose worker was lost
	Attempt   int    `json:"attempt,omitempty"`
	Message   string `json:"message"`
	Flight    string `json:"flight,omitempty"` // of a session: how many candidates are judged at a time, and the limit
}

// Candidate is the record of one variant: proposal, verdict, errors and costs.
type Candidate struct {
	ID         int               `json:"id"`                  // from 1, in order of proposal
	Parent     int               `json:"parent,omitempty"`    // the candidate it was changed from; 0: none
	Variant    string            `json:"variant"`             // empty if a proposer gave the text of a program, or nothing usable: object proposal
	Fitted     string            `json:"fitted"`              // the variant at the sizes of the spec: equal ones are one program
	Cell       string            `json:"cell"`                // structural part of the fitted variant
	Change     []string          `json:"change,omitempty"`    // axis=value, changes of the parent
	Escalated  bool              `json:"escalated,omitempty"` // the search asked for a cell without a candidate
	Scalar     bool              `json:"scalar,omitempty"`    // differs from its parent only in scalars: tuning, not an iteration
	Hypothesis string            `json:"hypothesis"`
	Gain       Figure            `json:"gain,omitempty"`      // expected saving, as a share of the parent's cycles
	Risk       Figure            `json:"risk,omitempty"`      // expected probability of no rank
	Shortlist  []Option          `json:"shortlist,omitempty"` // options considered, best first
	Next       string            `json:"next,omitempty"`      // an outside proposer's plan for later, in its words
	IR         string            `json:"ir,omitempty"`        // hash of the module
	Gate       string            `json:"gate"`                // the last gate reached
	Verdict    Verdict           `json:"verdict"`
	Reason     string            `json:"reason,omitempty"`
	Cause      Cause             `json:"cause,omitempty"`    // why it failed, if the records show it
	Evidence   string            `json:"evidence,omitempty"` // for the cause
	Of         int               `json:"of,omitempty"`       // the earlier candidate that a duplicate repeats
	Errors     []ClassError      `json:"errors,omitempty"`
	Costs      []Cost            `json:"costs,omitempty"` // in the order of the header's targets, as far as judged
	Notes      []string          `json:"notes,omitempty"`
	Objects    map[string]string `json:"objects,omitempty"` // keys in the object store, by role
}

// Clone returns a deep copy.
func (c *Candidate) Clone() *Candidate {
	d := *c
	d.Change, d.Shortlist, d.Errors, d.Notes = slices.Clone(c.Change), slices.Clone(c.Shortlist), slices.Clone(c.Errors), slices.Clone(c.Notes)
	d.Objects, d.Costs = maps.Clone(c.Objects), slices.Clone(c.Costs)
	for i, k := range d.Costs {
		d.Costs[i].Stages, d.Costs[i].Shapes = slices.Clone(k.Stages), slices.Clone(k.Shapes)
	}
	return &d
}

// Proposal returns only the fields that are set before judgement. No gate changes them.
func (c *Candidate) Proposal() *Candidate {
	return &Candidate{ID: c.ID, Parent: c.Parent, Variant: c.Variant, Fitted: c.Fitted, Cell: c.Cell, Change: c.Change, Escalated: c.Escalated, Scalar: c.Scalar,
		Hypothesis: c.Hypothesis, Gain: c.Gain, Risk: c.Risk, Shortlist: c.Shortlist, Next: c.Next}
}

// Option is a change that a strategy considered.
type Option struct {
	Parent int    `json:"parent"`
	Change string `json:"change"` // axis=value, separated by commas; or the words of an outside proposer
	Gain   Figure `json:"gain"`
	Risk   Figure `json:"risk"`
}

// EngineAccuracy is the engine of errors in the columns of docs/accuracy.md.
const EngineAccuracy = "accuracy"

// ClassError is the error of one kind on one input class, of the output nearest to its limit.
type ClassError struct {
	Class  string `json:"class"`
	Engine string `json:"engine"` // interp: the program, kernels: its lowered kernels, both interpreted; cpu: the program through PJRT; long: of many tokens; device: the program of the device; accuracy: the kernels on a column of docs/accuracy.md
	Output string `json:"output"`
	Kind   string `json:"kind,omitempty"` // rms, max or bias, as gdn/exam has them; none in older journals, where it is max
	Error  Figure `json:"error"`
	Limit  Figure `json:"limit"`
}

// Cost is the static cost on one target, or the reason why there is none.
type Cost struct {
	Target   string      `json:"target"`
	Verdict  Verdict     `json:"verdict,omitempty"` // if there is no cost
	Reason   string      `json:"reason,omitempty"`
	Ruler    ruler.Ruler `json:"ruler,omitempty"`       // of Score, Stages and XLA; none in older journals, where it is ruler.Issue
	Cycles   int64       `json:"cycles,omitempty"`      // issue cycles of the whole module
	Wall     int64       `json:"wall,omitempty"`        // in-order cycles; 0: unknown
	HBM      int64       `json:"hbm,omitempty"`         // least cycles of its HBM traffic
	Score    int64       `json:"score,omitempty"`       // what candidates are ranked by: the larger of HBM and the cycles by the ruler; below a bound of cycles, where the objective is error, a measure of error
	PerToken Figure      `json:"per_token,omitempty"`   // score per token and value head
	Micros   Figure      `json:"modelled_us,omitempty"` // on a GPU: microseconds, modelled
	Spills   int64       `json:"spills,omitempty"`      // register spills executed; on a GPU the most bytes of a thread's stack
	VMEM     int64       `json:"vmem,omitempty"`        // bytes, on a GPU the most shared memory of a program; -1 where the compiler does not say
	Schedule string      `json:"schedule,omitempty"`    // hash of the bundles

	Stages []Stage     `json:"stages,omitempty"` // cycles by stage of the algorithm, by the ruler, most first
	XLA    int64       `json:"glue,omitempty"`   // cycles outside of kernels, by the ruler
	Calls  int64       `json:"calls,omitempty"`  // ops that the module runs
	Stall  int64       `json:"stall,omitempty"`  // cycles of waiting for an MXU
	Slot   string      `json:"slot,omitempty"`   // the fullest slot of the op with most cycles
	Fill   Figure      `json:"fill,omitempty"`   // its share of full bundles
	Shapes []ShapeCost `json:"shapes,omitempty"` // if the run weighs several specs; the figures above are weighted sums
}

// RulerName returns the ruler of the run.
func (h *Header) RulerName() ruler.Ruler { return cmp.Or(h.Ruler, ruler.Issue) }

// RulerName returns the ruler of the score.
func (c *Cost) RulerName() ruler.Ruler { return cmp.Or(c.Ruler, ruler.Issue) }

// Took returns the cycles of the module by the ruler of the score.
func (c *Cost) Took() int64 {
	if c.Ruler == ruler.InOrder {
		return c.Wall
	}
	return c.Cycles
}

// Stage is the cycles of one stage of the algorithm.
type Stage struct {
	Name   string `json:"name"`
	Cycles int64  `json:"cycles"`
}

// ShapeCost is the cost of one of several specs.
type ShapeCost struct {
	Spec     string `json:"spec"`
	Score    int64  `json:"score"`
	PerToken Figure `json:"per_token"`
	Schedule string `json:"schedule"`
}

// hotStages is the number of stages that count as hot spots.
const hotStages = 2

// Hot returns the names of the stages with most cycles.
func (c *Cost) Hot() []string {
	var names []string
	for _, s := range c.Stages[:min(hotStages, len(c.Stages))] {
		names = append(names, cmp.Or(s.Name, "(no location)"))
	}
	return names
}

// Timing compares times on a device: interleaved pairs of runs of a candidate and of the champion of that moment.
type Timing struct {
	Device  string  `json:"device"`
	Against int     `json:"against"` // the other candidate; itself for the first
	Pairs   int     `json:"pairs"`
	Seconds float64 `json:"seconds"` // median of one run
	Ratio   float64 `json:"ratio"`   // median over the pairs of this candidate's time over the other's
	Low     float64 `json:"low"`     // confidence interval of the ratio, by paired bootstrap
	High    float64 `json:"high"`
	Others  string  `json:"others,omitempty"` // load by other processes meanwhile, if large enough to matter
}

// Cost returns the cost on a target; nil if there is none.
func (c *Candidate) Cost(target string) *Cost {
	for i := range c.Costs {
		if c.Costs[i].Target == target && c.Costs[i].Verdict == "" {
			return &c.Costs[i]
		}
	}
	return nil
}

// Worst returns the class error nearest to its limit, relatively; nil if there is none.
func (c *Candidate) Worst() *ClassError {
	var worst *ClassError
	for i := range c.Errors {
		if worst == nil || c.Errors[i].Use() > worst.Use() {
			worst = &c.Errors[i]
		}
	}
	return worst
}

// Use returns the error as a share of its limit; infinity for NaN.
func (e ClassError) Use() float64 {
	if math.IsNaN(float64(e.Error)) {
		return math.Inf(1)
	}
	return float64(e.Error / e.Limit)
}

// Figure is a float64 whose JSON form writes NaN and infinities as strings.
type Figure float64

// MarshalJSON writes NaN and infinities as strings.
func (f Figure) MarshalJSON() ([]byte, error) {
	x := float64(f)
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return strconv.AppendQuote(nil, fmt.Sprint(x)), nil
	}
	return json.Marshal(x)
}

// UnmarshalJSON reads the form of MarshalJSON.
func (f *Figure) UnmarshalJSON(text []byte) error {
	if len(text) > 1 && text[0] == '"' {
		text = text[1 : len(text)-1]
	}
	x, err := strconv.ParseFloat(string(text), 64)
	*f = Figure(x)
	return err
}
