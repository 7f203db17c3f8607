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
)

// Format is the version of the journal's form. A reader refuses others.
const Format = 2

// Rules is the version of Rank, CauseOf and the champions: a change that gives an old record another verdict, reason or cause raises it.
const Rules = 1

// Kind says what a record's body is.
type Kind string

// The kinds.
const (
	KindHeader    Kind = "header"    // Header; the first record and no other
	KindCandidate Kind = "candidate" // Candidate
	KindBaseline  Kind = "baseline"  // Candidate without an id: what auto stands for, judged before the first
	KindSession   Kind = "session"   // Event: a driver took the run up
	KindError     Kind = "error"     // Event: the machinery failed; the candidate is tried again
	KindPause     Kind = "pause"     // Event: the machinery kept failing; the driver gave up
	KindEnd       Kind = "end"       // Event: a driver left the run, and why
)

// Record is one line.
type Record struct {
	Seq   int             `json:"seq"`  // from 0
	Prev  string          `json:"prev"` // checksum of the record before; empty for the first
	Kind  Kind            `json:"kind"`
	Body  json.RawMessage `json:"body"`
	Times Times           `json:"times"`
}

// Times is what differs between two runs of the same search.
type Times struct {
	At   time.Time          `json:"at"`
	Wall map[string]float64 `json:"wall,omitempty"` // seconds by gate
	CPU  float64            `json:"cpu,omitempty"`  // seconds of processor time that the session has used so far, its workers included
	Runs *Timing            `json:"runs,omitempty"` // on a device, where one is attached
	Node string             `json:"node,omitempty"` // the machine that judged, where the driver had others judge
}

// Event reads the body of a record that is none of a header or candidate.
func (r Record) Event() (e Event, err error) {
	err = json.Unmarshal(r.Body, &e)
	return e, err
}

// Decision is the part of the record that two runs with the same header share: kind and body of a header or candidate.
// ok is false for events.
func (r Record) Decision() (text string, ok bool) {
	return string(r.Kind) + " " + string(r.Body), r.Kind == KindHeader || r.Kind == KindCandidate
}

// Header is what a run is: everything that its decisions depend on.
type Header struct {
	Format    int               `json:"format"`
	Spec      string            `json:"spec"`                // text of the gdn.Spec
	Shapes    []Shape           `json:"shapes,omitempty"`    // where the run weighs several specs: all of them, Spec first
	Targets   []string          `json:"targets"`             // the first is compiled for first
	Ruler     string            `json:"ruler,omitempty"`     // what cycles are counted by, wall, throughput or modelled; none in older journals, where it is throughput
	Objective string            `json:"objective,omitempty"` // what is made small, as objective.Parse reads it; none: cost
	Seed      uint64            `json:"seed"`
	Strategy  string            `json:"strategy"`            // such as model:4
	Seeds     []string          `json:"seeds"`               // variants proposed first
	Reserve   []string          `json:"reserve,omitempty"`   // variants proposed where none of the seeds has a rank
	Promoted  string            `json:"promoted,omitempty"`  // digest of the user's champions among them
	Axes      []string          `json:"axes,omitempty"`      // axes walked; none: all
	Focus     map[string]string `json:"focus,omitempty"`     // axes held at a value
	Directive string            `json:"directive,omitempty"` // the preset that gave the axes
	Words     string            `json:"words,omitempty"`     // what was demanded of an outside proposer
	Expected  Figure            `json:"expected,omitempty"`  // the gain, as a share, that its proposals are to expect at least
	Guards    map[string]Figure `json:"guards,omitempty"`    // by target: by what share a new champion elsewhere may be worse there
	Precision string            `json:"precision"`           // the lowest that a candidate may compute in
	Estimates bool              `json:"estimates,omitempty"` // the strategy ranks what nobody has tried by estimates
	Lookahead int               `json:"lookahead"`           // candidate n is proposed knowing those before n-lookahead+1
	Generator string            `json:"generator"`           // version of gdngen
	Plugins   map[string]string `json:"plugins,omitempty"`   // versions by name
	Proposer  string            `json:"proposer,omitempty"`  // what proposals depend on beside: version of the strategy, digests of the choices and of estimates
	Rules     int               `json:"rules,omitempty"`     // version of the rules by which candidates are ranked and causes found
	Gates     []string          `json:"gates"`               // names, in order
	Mixed     bool              `json:"mixed,omitempty"`     // judged on processors that may round differently
}

// Shape is one of the specs that a run weighs.
type Shape struct {
	Spec   string `json:"spec"`
	Weight Figure `json:"weight"` // how often it is used, against the others
}

// Event tells what happened to the run rather than to a candidate.
type Event struct {
	Candidate int    `json:"candidate,omitempty"` // the one being judged
	Gate      string `json:"gate,omitempty"`
	Node      string `json:"node,omitempty"` // the machine whose worker was lost
	Attempt   int    `json:"attempt,omitempty"`
	Message   string `json:"message"`
	Flight    string `json:"flight,omitempty"` // of a session: how many candidates are judged at a time, and why no more
}

// Candidate is the judgement of one variant.
type Candidate struct {
	ID         int               `json:"id"`                  // from 1, in order of proposal
	Parent     int               `json:"parent,omitempty"`    // the candidate it was changed from; 0: none
	Variant    string            `json:"variant"`             // empty where a proposer gave the text of a program, or nothing of use: object proposal
	Fitted     string            `json:"fitted"`              // the variant at the sizes of the spec: equal ones are one program
	Cell       string            `json:"cell"`                // structural part of the fitted variant
	Change     []string          `json:"change,omitempty"`    // axis=value, what was changed in the parent
	Escalated  bool              `json:"escalated,omitempty"` // the search asked for a cell that nobody had visited
	Scalar     bool              `json:"scalar,omitempty"`    // differs from its parent in scalars alone: tuning, not an iteration
	Hypothesis string            `json:"hypothesis"`
	Gain       Figure            `json:"gain,omitempty"`      // share of the parent's cycles that was expected to be saved
	Risk       Figure            `json:"risk,omitempty"`      // how likely it seemed that it would have no rank
	Shortlist  []Option          `json:"shortlist,omitempty"` // what was weighed with it, best first
	Next       string            `json:"next,omitempty"`      // what an outside proposer means to try afterwards, in its words
	IR         string            `json:"ir,omitempty"`        // hash of the module
	Gate       string            `json:"gate"`                // the last gate reached
	Verdict    Verdict           `json:"verdict"`
	Reason     string            `json:"reason,omitempty"`
	Cause      Cause             `json:"cause,omitempty"`    // why it failed, where the records tell
	Evidence   string            `json:"evidence,omitempty"` // for the cause
	Of         int               `json:"of,omitempty"`       // the earlier candidate that a duplicate repeats
	Errors     []ClassError      `json:"errors,omitempty"`
	Costs      []Cost            `json:"costs,omitempty"` // in the order of the header's targets, as far as reached
	Notes      []string          `json:"notes,omitempty"`
	Objects    map[string]string `json:"objects,omitempty"` // keys in the object store, by role
}

// Clone is a copy that shares nothing with c.
func (c *Candidate) Clone() *Candidate {
	d := *c
	d.Change, d.Shortlist, d.Errors, d.Notes = slices.Clone(c.Change), slices.Clone(c.Shortlist), slices.Clone(c.Errors), slices.Clone(c.Notes)
	d.Objects, d.Costs = maps.Clone(c.Objects), slices.Clone(c.Costs)
	for i, k := range d.Costs {
		d.Costs[i].Stages, d.Costs[i].Shapes = slices.Clone(k.Stages), slices.Clone(k.Shapes)
	}
	return &d
}

// Proposal is what of a candidate is said before it is judged: no gate changes it.
func (c *Candidate) Proposal() *Candidate {
	return &Candidate{ID: c.ID, Parent: c.Parent, Variant: c.Variant, Fitted: c.Fitted, Cell: c.Cell, Change: c.Change, Escalated: c.Escalated, Scalar: c.Scalar,
		Hypothesis: c.Hypothesis, Gain: c.Gain, Risk: c.Risk, Shortlist: c.Shortlist, Next: c.Next}
}

// Option is a change that a strategy weighed.
type Option struct {
	Parent int    `json:"parent"`
	Change string `json:"change"` // axis=value, separated by commas; or the words of an outside proposer
	Gain   Figure `json:"gain"`
	Risk   Figure `json:"risk"`
}

// EngineAccuracy is the engine of errors on the columns of docs/accuracy.md.
const EngineAccuracy = "accuracy"

// ClassError is the error of one kind on one input class, of the output that is worst against its limit.
type ClassError struct {
	Class  string `json:"class"`
	Engine string `json:"engine"` // interp: the program, kernels: its lowered kernels, both interpreted; cpu: the program through PJRT; long: of many tokens; device: the program of the device; accuracy: the kernels on a column of docs/accuracy.md
	Output string `json:"output"`
	Kind   string `json:"kind,omitempty"` // rms, max or bias, as gdn/exam has them; none in older journals, where it is max
	Error  Figure `json:"error"`
	Limit  Figure `json:"limit"`
}

// Cost is the static cost on one target, or why there is none.
type Cost struct {
	Target   string  `json:"target"`
	Verdict  Verdict `json:"verdict,omitempty"` // where there is no cost
	Reason   string  `json:"reason,omitempty"`
	Ruler    string  `json:"ruler,omitempty"`       // of Score, stages and glue: wall, throughput or modelled; none in older journals, where it is throughput
	Cycles   int64   `json:"cycles,omitempty"`      // of the whole module, as throughput
	Wall     int64   `json:"wall,omitempty"`        // the same as wall; none where it is not known
	HBM      int64   `json:"hbm,omitempty"`         // cycles that its main memory traffic takes at least
	Score    int64   `json:"score,omitempty"`       // what candidates are ranked by: the larger of HBM and the cycles by the ruler; below a bound of cycles, where the objective is error, a measure of error
	PerToken Figure  `json:"per_token,omitempty"`   // score per token and value head
	Micros   Figure  `json:"modelled_us,omitempty"` // on a GPU: microseconds, modelled
	Spills   int64   `json:"spills,omitempty"`      // register spills executed; on a GPU the most bytes of a thread's stack
	VMEM     int64   `json:"vmem,omitempty"`        // bytes, on a GPU the most shared memory of a program; -1 where the compiler does not say
	Schedule string  `json:"schedule,omitempty"`    // hash of the bundles

	Stages []Stage     `json:"stages,omitempty"` // cycles by stage of the algorithm, by the ruler, most first
	XLA    int64       `json:"glue,omitempty"`   // cycles outside of kernels, by the ruler
	Calls  int64       `json:"calls,omitempty"`  // ops that the module runs
	Stall  int64       `json:"stall,omitempty"`  // cycles of waiting for a matrix unit
	Slot   string      `json:"slot,omitempty"`   // the fullest slot of the op that takes most
	Fill   Figure      `json:"fill,omitempty"`   // how full it is
	Shapes []ShapeCost `json:"shapes,omitempty"` // where the run weighs several specs; the figures above are weighed sums
}

// Names of rulers.
const (
	Wall       = "wall"
	Throughput = "throughput"
	Modelled   = "modelled" // of GPUs: cycles of a modelled time
)

// RulerTexts say what candidates are ranked by, for readers.
var RulerTexts = map[string]string{
	Wall:       "static cycles by wall: the compiled schedule in order, with its stalls and its waits for HBM and for copies around kernels",
	Throughput: "static cycles by throughput: the bundles that the schedule issues and its waits for MXUs, or the time of its HBM traffic if that is more; a lower bound of compute time",
	Modelled:   "cycles of a modelled time: machine code in an order that a warp scheduler could take, with the latencies that are known of the GPU",
}

// RulerName is the ruler of the run.
func (h *Header) RulerName() string { return cmp.Or(h.Ruler, Throughput) }

// RulerName is the ruler of the score.
func (c *Cost) RulerName() string { return cmp.Or(c.Ruler, Throughput) }

// Took is the cycles of the module by the ruler of the score.
func (c *Cost) Took() int64 {
	if c.Ruler == Wall {
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

// hotStages is how many stages count as the hot spots.
const hotStages = 2

// Hot names the stages that take most.
func (c *Cost) Hot() []string {
	var names []string
	for _, s := range c.Stages[:min(hotStages, len(c.Stages))] {
		names = append(names, cmp.Or(s.Name, "(no location)"))
	}
	return names
}

// Timing is a comparison on a device: interleaved pairs of runs of a candidate and of the champion of its time.
type Timing struct {
	Device  string  `json:"device"`
	Against int     `json:"against"` // the candidate it was compared with; itself for the first
	Pairs   int     `json:"pairs"`
	Seconds float64 `json:"seconds"` // median of one run
	Ratio   float64 `json:"ratio"`   // median of the ratio of each pair to the other candidate
	Low     float64 `json:"low"`     // confidence interval of the ratio, by paired bootstrap
	High    float64 `json:"high"`
	Others  string  `json:"others,omitempty"` // what other processes used meanwhile, where it was so much that it may show
}

// Cost finds the cost on a target; nil if there is none.
func (c *Candidate) Cost(target string) *Cost {
	for i := range c.Costs {
		if c.Costs[i].Target == target && c.Costs[i].Verdict == "" {
			return &c.Costs[i]
		}
	}
	return nil
}

// Worst is the class error that uses most of its limit; nil where there is none.
func (c *Candidate) Worst() *ClassError {
	var worst *ClassError
	for i := range c.Errors {
		if worst == nil || c.Errors[i].Use() > worst.Use() {
			worst = &c.Errors[i]
		}
	}
	return worst
}

// Use is the error as a share of its limit, infinite where the error is not a number.
func (e ClassError) Use() float64 {
	if math.IsNaN(float64(e.Error)) {
		return math.Inf(1)
	}
	return float64(e.Error / e.Limit)
}

// Figure is a float64 whose JSON form has the values that JSON lacks as strings.
type Figure float64

// MarshalJSON writes NaN and infinities as strings.
func (f Figure) MarshalJSON() ([]byte, error) {
	x := float64(f)
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return strconv.AppendQuote(nil, fmt.Sprint(x)), nil
	}
	return json.Marshal(x)
}

// UnmarshalJSON is the inverse.
func (f *Figure) UnmarshalJSON(text []byte) error {
	if len(text) > 1 && text[0] == '"' {
		text = text[1 : len(text)-1]
	}
	x, err := strconv.ParseFloat(string(text), 64)
	*f = Figure(x)
	return err
}
