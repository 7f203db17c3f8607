package autotune

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gdngen/gdngen/autotune/journal"
	"github.com/gdngen/gdngen/autotune/judge"
	"github.com/gdngen/gdngen/autotune/report"
	"github.com/gdngen/gdngen/autotune/strategy"
	"github.com/gdngen/gdngen/internal/disk"
	"github.com/gdngen/gdngen/internal/store"
	"github.com/gdngen/gdngen/ir/target"
	"github.com/gdngen/gdngen/pjrt/machine"
)

// Search begins a run in c.Dir. It ends when the strategy has no more proposals, when a budget is spent, or when ctx is done: then it returns
// within interruptGrace, compilers are stopped, candidates in flight are dropped, and the run can be resumed. Failing machinery is a
// *PauseError, another driver on the run a *journal.LockedError; these errors come with the summary of the records so far.
func Search(ctx context.Context, c Config) (*report.Summary, error) {
	return interruptible(ctx, c, true)
}

// Resume continues the run in c.Dir; the fields of c that belong to the run are taken from its header.
func Resume(ctx context.Context, c Config) (*report.Summary, error) {
	if _, _, err := journal.Read(c.Dir, nil); err != nil {
		return nil, err
	}
	return interruptible(ctx, c, false)
}

// drive runs one session.
func drive(ctx context.Context, c Config, fresh bool) (sum *report.Summary, err error) {
	if c.Dir == "" {
		return nil, errors.New("a run needs a folder")
	}
	if err := c.session(); err != nil {
		return nil, &ConfigError{err}
	}
	defer func() {
		if disk.Trouble(err) && !errors.As(err, new(*PauseError)) {
			err = &PauseError{Err: err}
		}
	}()
	j, warnings, err := journal.Open(c.Dir)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil && !disk.Trouble(err) {
			err = errors.Join(err, j.Discard()) // what is refused at once leaves nothing
			return
		}
		err = errors.Join(err, j.Close())
	}()
	for _, w := range warnings {
		c.Warn(w)
	}
	if c.Machine == nil {
		c.Machine = machine.New(filepath.Join(c.Dir, "machine"), nil)
	}
	if fresh && j.State().Header != nil {
		return nil, fmt.Errorf("%s: %w", c.Dir, ErrExists)
	}
	e := c.Evaluator
	if e == nil {
		c.Lab.Workers = cmp.Or(c.Lab.Workers, c.Workers)
		targets := c.Targets
		if h := j.State().Header; h != nil {
			targets = h.Targets
		}
		lab, err := newEvaluator(ctx, targets, c.Lab)
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, lab.Close()) }()
		e = lab
	}
	d := &driver{Config: c, journal: j, state: j.State(), gates: e.Gates(), objects: store.Store{Dir: objectsDir(c.Dir)}}
	if d.meter, _ = e.(meter); d.meter != nil {
		d.before = d.meter.CPU()
	}
	d.confirmer, _ = e.(judge.Confirmer)
	d.begun = d.state.Len()
	if err := errors.Join(d.begin(e), d.objects.Clean()); err != nil {
		return nil, err
	}
	d.start = time.Now() // the budget does not include setup
	defer func() { err = errors.Join(err, d.plan.strategy.Close()) }()
	if err := d.baseline(ctx); err != nil {
		return nil, err
	}
	stopped, err := d.run(ctx)
	if end := d.journal.Append(journal.KindEnd, journal.Event{Message: stopped}); err == nil {
		err = end
	}
	sum = report.New(c.Dir, d.state)
	sum.Warnings = warnings
	return sum, err
}

// newEvaluator returns the default evaluator for targets.
func newEvaluator(ctx context.Context, targets []string, o judge.LabOptions) (judge.Evaluator, error) {
	gpus, err := gpusOf(targets)
	switch {
	case err != nil:
		return nil, &ConfigError{err}
	case gpus != nil:
		return judge.NewGPULab(ctx, o)
	}
	return judge.NewLab(ctx, o)
}

// driver is one session of a run.
type driver struct {
	Config
	*plan
	journal *journal.Journal
	state   *journal.State
	gates   []judge.Gate
	objects store.Store
	start   time.Time
	begun   int // candidates before this session
	pace    pace
	failing atomic.Int64 // consecutive failures
	meter   meter        // nil: the evaluator does not count processor time

	confirmer judge.Confirmer // nil: the evaluator runs in this process
	before    time.Duration
	flight    []string // candidates being judged, for the progress
}

// attach binds an evaluator's device, if it has one, to the targets of the run.
func attach(e judge.Evaluator, targets []string) error {
	a, ok := e.(interface {
		Attach([]*target.Target) error
	})
	if !ok {
		return nil
	}
	var list []*target.Target
	for _, name := range targets {
		t, err := target.Lookup(name)
		if err != nil {
			return err
		}
		list = append(list, t)
	}
	return a.Attach(list)
}

// meter is an evaluator that reports the processor time used by it and its workers.
type meter interface{ CPU() time.Duration }

// pace is the time that candidates take which reach a compiler.
type pace struct {
	mu    sync.Mutex
	sum   time.Duration
	count int
}

func (p *pace) add(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sum, p.count = p.sum+d, p.count+1
}

func (p *pace) mean() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.sum / time.Duration(max(1, p.count))
}

// spent reports whether less than half the time of a typical candidate is left in the budget.
func (d *driver) spent() bool {
	return d.Budget > 0 && time.Since(d.start)+d.pace.mean()/2 >= d.Budget
}

// interrupted is the reason of a session whose context ended.
const interrupted = "interrupted"

func (d *driver) budgetSpent() string { return fmt.Sprintf("the budget of %v is spent", d.Budget) }

// begin writes the header of a new run, or checks an existing one.
func (d *driver) begin(e judge.Evaluator) error {
	message := "resumed"
	if d.state.Header == nil {
		message = "begun"
		h, err := d.Config.header(e)
		if err != nil {
			return &ConfigError{err}
		}
		if err := attach(e, h.Targets); err != nil {
			return err
		}
		if err := d.journal.Append(journal.KindHeader, h); err != nil {
			return err
		}
	} else if err := attach(e, d.state.Header.Targets); err != nil {
		return err
	}
	p, err := newPlan(d.state.Header, d.Answer)
	if err != nil {
		return fmt.Errorf("the header of the run: %w", err)
	}
	if err := matches(d.state.Header, d.generator(), p.proposer(), e); err != nil {
		return errors.Join(err, p.strategy.Close())
	}
	d.plan = p
	flight := inFlight(d.Workers, d.plan.Lookahead, d.limit)
	if d.Begun != nil {
		d.Begun(flight)
	}
	return d.journal.Append(journal.KindSession, journal.Event{Message: message, Flight: flight})
}

// task is a candidate in flight.
type task struct {
	work   *judge.Work
	fresh  judge.Work         // as proposed; workers write into work
	marks  map[int]judge.Mark // the candidate before each gate that is asked again
	reject *judge.Refusal
	fault  bool          // reject is the proposer's fault: there is no program
	err    error         // of the machinery
	done   chan struct{} // closed when judged, or dropped
	judged bool          // false: dropped, before it began or in the middle
}

// run proposes, judges and records until there is a reason to stop, which it returns.
func (d *driver) run(ctx context.Context) (stopped string, err error) {
	queue := make(chan *task, d.plan.Lookahead)
	halt := make(chan struct{}) // closed: begin no more
	finished := make(chan struct{})
	ctx, cancel := context.WithCancel(ctx)
	for range d.Workers {
		go func() {
			defer func() { finished <- struct{}{} }()
			for t := range queue {
				d.judge(ctx, t, halt)
			}
		}()
	}
	var flight []*task // in order of their ids
	defer func() {
		cancel() // tasks still in flight can not be recorded: their turn does not come
		close(queue)
		for range d.Workers {
			<-finished
		}
	}()
	stop := func(why string) {
		if stopped == "" {
			stopped = why
			close(halt)
		}
	}
	var deadline, late <-chan time.Time
	if d.Budget > 0 {
		timer, grace := time.NewTimer(time.Until(d.start.Add(d.Budget))), time.NewTimer(time.Until(d.start.Add(d.Budget+d.Budget/graceShare)))
		defer timer.Stop()
		defer grace.Stop()
		deadline, late = timer.C, grace.C
	}
	for {
		for stopped == "" && len(flight) < d.plan.Lookahead {
			t, why := d.propose(ctx, flight)
			if t == nil {
				if len(flight) == 0 {
					stop(why)
				}
				break
			}
			flight = append(flight, t)
			queue <- t
		}
		if len(flight) == 0 {
			return stopped, nil
		}
		select {
		case <-flight[0].done:
		case <-ctx.Done():
			stop(interrupted)
			<-flight[0].done
		case <-deadline:
			stop(d.budgetSpent())
			select {
			case <-flight[0].done:
			case <-ctx.Done():
				<-flight[0].done
			case <-late:
				cancel()
				<-flight[0].done
			}
		case <-late: // several candidates were to be finished
			cancel()
			<-flight[0].done
		}
		head := flight[0]
		flight = flight[1:]
		d.flight = nil
		for _, t := range flight {
			d.flight = append(d.flight, t.fresh.Record.Variant)
		}
		err := errDropped
		if head.judged {
			err = d.record(ctx, head)
		}
		switch {
		case errors.Is(err, errDropped):
			if ctx.Err() != nil {
				stop(interrupted)
			}
			stop(d.budgetSpent())
			return stopped, nil
		case err != nil:
			stop("the machinery failed")
			return stopped, err
		}
	}
}

// graceShare: candidates in flight may take 1/graceShare of the budget beyond its end; then they are dropped, as by an interrupt.
const graceShare = 4

// propose returns the next candidate, or the reason why there is none. The strategy sees the candidates up to its
// number less the lookahead. If it has nothing to propose for so few, it is shown one more at a time.
func (d *driver) propose(ctx context.Context, flight []*task) (*task, string) {
	done := d.state.Len()
	id := done + len(flight) + 1
	switch {
	case ctx.Err() != nil:
		return nil, interrupted
	case d.spent():
		return nil, d.budgetSpent()
	case d.Candidates > 0 && id > d.Candidates:
		return nil, fmt.Sprintf("the budget of %d candidates is spent", d.Candidates)
	case d.Patience > 0 && d.idle() >= d.Patience:
		return nil, fmt.Sprintf("no new champion in %d iterations", d.Patience)
	case d.atBound():
		return nil, fmt.Sprintf("the champions are within %d %% of what HBM allows", boundPercent)
	}
	if d.Budget > 0 { // an outside proposer may take long
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, d.start.Add(d.Budget))
		defer cancel()
	}
	for known := max(0, id-d.plan.Lookahead); known <= done; known++ {
		view := d.state.At(known)
		if p := d.plan.strategy.Next(ctx, view, d.pending(known, flight)); p != nil {
			if p.Warning != "" {
				d.Warn(p.Warning)
			}
			return d.task(id, p, view), ""
		}
	}
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded) && d.spent():
		return nil, d.budgetSpent()
	case ctx.Err() != nil:
		return nil, interrupted
	}
	return nil, "the strategy has nothing more to propose"
}

// boundPercent: a search ends when its champions are within so many percent of the HBM bound, since nothing can gain more.
const boundPercent = 2

// atBound reports whether no program can be noticeably better on any target. Only the objective cost has such a bound.
func (d *driver) atBound() bool {
	if d.plan.Objective != "" {
		return false
	}
	view := d.state.Now()
	within := func(name string, least float64) bool {
		champion := view.Champion(name)
		return champion != nil && 100*float64(champion.Cost(name).Score) <= (100+boundPercent)*least
	}
	for _, t := range d.plan.targets {
		if !within(t.Name, judge.Traffic(d.plan.shapes, t)) {
			return false
		}
	}
	for _, g := range d.plan.gpus {
		if !within(g.Name, judge.GPUTraffic(d.plan.shapes, g)) {
			return false
		}
	}
	return true
}

// idle counts the iterations of this session since the last champion; 0 before the first champion.
func (d *driver) idle() (n int) {
	for _, c := range slices.Backward(d.state.Now().Candidates()[d.begun:]) {
		if c.Verdict == journal.Improved {
			return n
		}
		if !c.Scalar {
			n++
		}
	}
	return 0
}

// pending returns the variants in flight after the first known candidates.
func (d *driver) pending(known int, flight []*task) []string {
	l := variants(d.state.Now().Candidates()[known:])
	for _, t := range flight {
		if t.fresh.Record.Variant != "" {
			l = append(l, t.fresh.Record.Variant)
		}
	}
	return l
}

// variants returns the variants of candidates; texts of programs are left out.
func variants(l []*journal.Candidate) (out []string) {
	for _, c := range l {
		if c.Variant != "" {
			out = append(out, c.Variant)
		}
	}
	return out
}

// proposed returns the record of a candidate before judgement: its proposal.
func (p *plan) proposed(id int, x *strategy.Proposal, view journal.View) *journal.Candidate {
	c := &journal.Candidate{ID: id, Parent: x.Parent, Hypothesis: x.Hypothesis, Gain: journal.Figure(x.Gain), Risk: journal.Figure(x.Risk), Shortlist: x.Shortlist, Next: x.Next, Escalated: x.Escalated}
	for _, m := range x.Moves {
		c.Change = append(c.Change, m.String())
	}
	if x.IsVariant() {
		c.Variant, c.Fitted, c.Cell = x.Text.Variant, x.Text.Fitted, x.Text.Cell
		if parent := view.Candidate(x.Parent); parent != nil {
			c.Scalar = parent.Cell == c.Cell
		}
	}
	return c
}

func (d *driver) task(id int, p *strategy.Proposal, view journal.View) *task {
	t := &task{
		work: &judge.Work{Spec: d.plan.spec, Shapes: d.plan.shapes, Targets: d.plan.targets, GPUs: d.plan.gpus, Ruler: d.plan.ruler, Objective: d.plan.objective, Seed: d.plan.Seed, Least: d.plan.Precision, Variant: p.Variant, Text: p.IR, Known: view,
			Record: d.plan.proposed(id, p, view), Objects: map[string][]byte{}, Wall: map[string]float64{}},
		marks: map[int]judge.Mark{}, done: make(chan struct{}),
	}
	t.fresh = *t.work
	t.fresh.Record = t.work.Record.Clone()
	if p.IR != "" {
		t.work.Objects[proposalRole] = []byte(p.IR)
	}
	if f := p.Fault; f != nil {
		t.work.Record.Gate = journal.GateProposal
		if t.work.Record.Hypothesis == "" {
			t.work.Record.Hypothesis = "none: the proposer gave nothing of use"
		}
		t.reject, t.fault = &judge.Refusal{Verdict: f.Verdict, Reason: f.Reason}, true
		if f.Text != "" {
			t.work.Objects[proposalRole] = []byte(f.Text)
		}
	}
	return t
}

// verdictGate is the name of the last gate, which the driver runs itself: rank by cost.
const verdictGate = "verdict"

// proposalRole is the role of the object with a proposer's answer, if that is no variant.
const proposalRole = "proposal"

// judge runs a task through the gates. If ctx ends meanwhile the task is dropped.
func (d *driver) judge(ctx context.Context, t *task, halt <-chan struct{}) {
	defer close(t.done)
	select {
	case <-halt:
		return
	default:
	}
	if d.spent() {
		return
	}
	if t.judged = true; t.fault {
		return
	}
	defer func() { t.judged = ctx.Err() == nil }()
	start := time.Now()
	defer func() {
		if len(t.work.Record.Costs) > 0 {
			d.pace.add(time.Since(start))
		}
	}()
	for i, g := range d.gates {
		if ctx.Err() != nil {
			return
		}
		if g.Again {
			t.marks[i] = t.work.Mark()
		}
		if t.reject, t.err = d.attempt(ctx, g, t.work); t.reject != nil || t.err != nil {
			return
		}
	}
}

// attempt runs a gate, and again after a pause if the machinery fails. A failure because ctx ended does not count.
func (d *driver) attempt(ctx context.Context, g judge.Gate, w *judge.Work) (*judge.Refusal, error) {
	before := w.Mark()
	for n := 1; ; n++ {
		r, err := g.AskAlone(ctx, d.Machine, w)
		if err == nil || ctx.Err() != nil {
			return r, err
		}
		d.failing.Add(1)
		event := journal.Event{Candidate: w.Record.ID, Gate: g.Name, Attempt: n, Message: err.Error()}
		if lost := (*judge.LostError)(nil); errors.As(err, &lost) {
			event.Node = lost.Node
		}
		d.Warn(fmt.Sprintf("candidate %d, gate %s, attempt %d of %d: %v", w.Record.ID, g.Name, n, d.Attempts, err))
		if bad := d.journal.Append(journal.KindError, event); bad != nil {
			err = errors.Join(err, bad)
		}
		if n == d.Attempts || d.failing.Load() >= int64(d.Failures) {
			return nil, &PauseError{Candidate: w.Record.ID, Gate: g.Name, Attempts: n, Err: err}
		}
		w.Back(before)
		if err := d.backOff(ctx, n); err != nil {
			return nil, err
		}
	}
}

// backOff waits after the n-th attempt. It returns ctx's error if that ends first.
func (d *driver) backOff(ctx context.Context, n int) error {
	select {
	case <-time.After(d.Backoff << (n - 1)):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// record concludes a judged task in its turn, and appends it to the journal.
func (d *driver) record(ctx context.Context, t *task) error {
	w := t.work
	if t.err != nil {
		pause := journal.Event{Candidate: w.Record.ID, Gate: w.Record.Gate, Message: t.err.Error()}
		return errors.Join(t.err, d.journal.Append(journal.KindPause, pause))
	}
	w.Known = d.state.Now()
	reject := t.reject
	if t.fault {
		return d.append(w, reject)
	}
	for i, g := range d.gates {
		if _, passed := t.marks[i]; !passed || !g.Again {
			continue
		}
		now := w.Mark()
		w.Back(t.marks[i])
		if r, err := g.Ask(ctx, w); err == nil && r != nil {
			reject = r
			break
		}
		w.Back(now)
	}
	if reject == nil {
		w.Record.Gate = verdictGate
		v, reason, err := w.Known.Rank(w.Record)
		if err != nil {
			return err
		}
		if err := d.confirm(ctx, t, v); err != nil {
			return err
		}
		reject = &judge.Refusal{Verdict: v, Reason: reason}
	}
	return d.append(w, reject)
}

// errDropped says that the session ended before a candidate could be recorded.
var errDropped = errors.New("the session is over")

// confirm has a worker's champion judged once more before it counts, since the worker may be faulty. A lost worker is
// replaced up to d.Attempts times. A champion that is not confirmed within the budget and its grace is dropped.
func (d *driver) confirm(ctx context.Context, t *task, v journal.Verdict) error {
	if d.confirmer == nil || v != journal.Improved {
		return nil
	}
	if d.Budget > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, d.start.Add(d.Budget+d.Budget/graceShare))
		defer cancel()
	}
	for n := 1; ; n++ {
		again := t.fresh
		again.Record, again.Objects, again.Wall = t.fresh.Record.Clone(), map[string][]byte{}, map[string]float64{}
		err := d.confirmer.Confirm(ctx, &again, t.work)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return errDropped
		}
		event := journal.Event{Candidate: t.work.Record.ID, Gate: verdictGate, Node: t.work.Node, Message: err.Error()}
		lost := (*judge.LostError)(nil)
		if !errors.As(err, &lost) || n == d.Attempts {
			return errors.Join(&PauseError{Candidate: event.Candidate, Gate: event.Gate, Attempts: n, Err: err}, d.journal.Append(journal.KindPause, event))
		}
		d.Warn(fmt.Sprintf("candidate %d, once more, attempt %d of %d: %v", event.Candidate, n, d.Attempts, err))
		event.Node, event.Attempt = lost.Node, n
		if err := d.journal.Append(journal.KindError, event); err != nil {
			return err
		}
		if d.backOff(ctx, n) != nil {
			return errDropped
		}
	}
}

// keep stores the objects of a candidate and writes their keys into its record.
func (d *driver) keep(w *judge.Work) error {
	for role, content := range w.Objects {
		key, err := d.objects.Put(content)
		if err != nil {
			return &PauseError{Candidate: w.Record.ID, Gate: "store", Attempts: 1, Err: err}
		}
		if w.Record.Objects == nil {
			w.Record.Objects = map[string]string{}
		}
		w.Record.Objects[role] = key
	}
	return nil
}

// append writes a concluded candidate.
func (d *driver) append(w *judge.Work, reject *judge.Refusal) error {
	w.Conclude(reject)
	w.Record.Cause, w.Record.Evidence = w.Known.CauseOf(w.Record)
	if err := d.keep(w); err != nil {
		return err
	}
	times := journal.Times{Wall: w.Wall, Runs: w.Runs, Node: w.Node}
	if d.meter != nil {
		times.CPU = (d.meter.CPU() - d.before).Seconds()
	}
	if err := d.journal.AppendTimed(journal.KindCandidate, w.Record, times); err != nil {
		return &PauseError{Candidate: w.Record.ID, Gate: "journal", Attempts: 1, Err: err}
	}
	if d.Progress != nil {
		d.Progress(Progress{Candidate: w.Record, Times: times, Flight: d.flight, View: d.state.Now(), Elapsed: time.Since(d.start), Budget: d.Budget})
	}
	switch v := w.Record.Verdict; {
	case v != journal.Timeout && v != journal.Crash && w.Record.Gate != journal.GateProposal:
		d.failing.Store(0)
	case d.failing.Add(1) >= int64(d.Failures):
		pause := &PauseError{Candidate: w.Record.ID, Gate: w.Record.Gate, Attempts: d.Failures, Err: fmt.Errorf("%d failures in a row: %s", d.Failures, w.Record.Reason)}
		return errors.Join(pause, d.journal.Append(journal.KindPause, journal.Event{Candidate: w.Record.ID, Gate: w.Record.Gate, Message: pause.Err.Error()}))
	}
	return nil
}
