package autotune

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/gdngen/gdngen/autotune/journal"
	"github.com/gdngen/gdngen/autotune/report"
	"github.com/gdngen/gdngen/autotune/store"
	"github.com/gdngen/gdngen/autotune/strategy"
	"github.com/gdngen/gdngen/gdn"
)

// Search begins a run in c.Dir. It ends when the strategy has nothing more, when a budget is spent, or when ctx is done:
// candidates under way are then finished and recorded, and the run can be resumed. Failing machinery is a *PauseError,
// another driver on the run a *journal.LockedError; with these errors the summary of what is recorded comes too.
func Search(ctx context.Context, c Config) (*report.Summary, error) { return drive(ctx, c, true) }

// Resume goes on with the run in c.Dir; the fields of c that belong to the run are taken from its header.
func Resume(ctx context.Context, c Config) (*report.Summary, error) {
	if _, _, err := journal.Read(c.Dir, nil); err != nil {
		return nil, err
	}
	return drive(ctx, c, false)
}

func drive(ctx context.Context, c Config, fresh bool) (sum *report.Summary, err error) {
	if c.Dir == "" {
		return nil, errors.New("a run needs a folder")
	}
	if c.Warn == nil {
		c.Warn = func(string) {}
	}
	c.Workers = cmp.Or(max(c.Workers, 0), min(2, runtime.NumCPU()))
	c.Attempts = cmp.Or(max(c.Attempts, 0), defaultAttempts)
	c.Backoff = cmp.Or(max(c.Backoff, 0), defaultBackoff)
	j, warnings, err := journal.Open(c.Dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, j.Close()) }()
	for _, w := range warnings {
		c.Warn(w)
	}
	if fresh && j.State().Header != nil {
		return nil, fmt.Errorf("%s: %w", c.Dir, ErrExists)
	}
	e := c.Evaluator
	if e == nil {
		c.Lab.Workers = cmp.Or(c.Lab.Workers, c.Workers)
		lab, err := NewLab(ctx, c.Lab)
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, lab.Close()) }()
		e = lab
	}
	d := &driver{Config: c, journal: j, state: j.State(), gates: e.Gates(), objects: store.Store{Dir: objectsDir(c.Dir)}, start: time.Now()}
	if err := errors.Join(d.begin(e), d.objects.Clean()); err != nil {
		return nil, err
	}
	stopped, err := d.run(ctx)
	if end := d.journal.Append(journal.KindEnd, journal.Event{Message: stopped}, nil); err == nil {
		err = end
	}
	sum = report.New(c.Dir, d.state)
	sum.Warnings = warnings
	return sum, err
}

// driver is one session of a run.
type driver struct {
	Config
	*plan
	journal *journal.Journal
	state   *journal.State
	gates   []Gate
	objects store.Store
	start   time.Time
	pace    pace
}

// pace is how long candidates take that reach a compiler.
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

// spent says whether the budget does not leave half the time that a candidate takes.
func (d *driver) spent() bool {
	return d.Budget > 0 && time.Since(d.start)+d.pace.mean()/2 >= d.Budget
}

func (d *driver) budgetSpent() string { return fmt.Sprintf("the budget of %v is spent", d.Budget) }

// begin writes the header of a new run, or checks that of an old one.
func (d *driver) begin(e Evaluator) error {
	message := "resumed"
	if d.state.Header == nil {
		message = "begun"
		h, err := d.Config.header(e)
		if err != nil {
			return err
		}
		if err := d.journal.Append(journal.KindHeader, h, nil); err != nil {
			return err
		}
	}
	if err := matches(d.state.Header, d.generator(), e); err != nil {
		return err
	}
	p, err := newPlan(d.state.Header)
	if err != nil {
		return fmt.Errorf("the header of the run: %w", err)
	}
	d.plan = p
	return d.journal.Append(journal.KindSession, journal.Event{Message: message}, nil)
}

// task is a candidate under way.
type task struct {
	work   *Work
	marks  map[int]mark // the candidate before each gate that asks again
	reject *Refusal
	err    error         // the machinery's
	done   chan struct{} // closed when judged, or dropped
	judged bool          // false: dropped before it began
}

// run proposes, judges and records until there is a reason to stop, which it returns.
func (d *driver) run(ctx context.Context) (stopped string, err error) {
	queue := make(chan *task, d.plan.Lookahead)
	halt := make(chan struct{}) // closed: begin nothing more
	finished := make(chan struct{})
	for range d.Workers {
		go func() {
			defer func() { finished <- struct{}{} }()
			for t := range queue {
				d.judge(context.WithoutCancel(ctx), t, halt)
			}
		}()
	}
	var flight []*task // in order of their ids
	defer func() {
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
	var deadline <-chan time.Time
	if d.Budget > 0 {
		timer := time.NewTimer(time.Until(d.start.Add(d.Budget)))
		defer timer.Stop()
		deadline = timer.C
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
			stop("interrupted")
			<-flight[0].done
		case <-deadline:
			stop(d.budgetSpent())
			<-flight[0].done
		}
		if !flight[0].judged {
			stop(d.budgetSpent())
			return stopped, nil
		}
		if err := d.record(flight[0]); err != nil {
			stop("the machinery failed")
			return stopped, err
		}
		flight = flight[1:]
	}
}

// propose makes the next candidate, or says why there is none. It knows the candidates up to its number less the lookahead
// and, where the strategy has nothing for so few, one more at a time.
func (d *driver) propose(ctx context.Context, flight []*task) (*task, string) {
	done := d.state.Len()
	id := done + len(flight) + 1
	switch {
	case ctx.Err() != nil:
		return nil, "interrupted"
	case d.spent():
		return nil, d.budgetSpent()
	case d.Candidates > 0 && id > d.Candidates:
		return nil, fmt.Sprintf("the budget of %d candidates is spent", d.Candidates)
	}
	for known := max(0, id-d.plan.Lookahead); known <= done; known++ {
		view := d.state.At(known)
		if p, ok := d.plan.strategy.Next(view, d.pending(known, flight)); ok {
			return d.task(id, p, view), ""
		}
	}
	return nil, "the strategy has nothing more to propose"
}

// pending lists the variants of the candidates after the first known ones.
func (d *driver) pending(known int, flight []*task) []gdn.Variant {
	var l []gdn.Variant
	for _, c := range d.state.Now().Candidates()[known:] {
		if v, err := gdn.ParseVariant(c.Variant); err == nil {
			l = append(l, v)
		}
	}
	for _, t := range flight {
		l = append(l, t.work.Variant)
	}
	return l
}

func (d *driver) task(id int, p strategy.Proposal, view journal.View) *task {
	fitted := p.Variant.Fit(d.plan.spec)
	c := &journal.Candidate{ID: id, Parent: p.Parent, Variant: p.Variant.String(), Fitted: fitted.String(), Cell: fitted.Cell(), Hypothesis: p.Hypothesis}
	if parent := view.Candidate(p.Parent); parent != nil {
		c.Scalar = parent.Cell == c.Cell
	}
	return &task{
		work: &Work{Spec: d.plan.spec, Targets: d.plan.targets, Seed: d.plan.Seed, Least: d.plan.Precision, Variant: p.Variant, Known: view, Record: c,
			Objects: map[string][]byte{}, Wall: map[string]float64{}},
		marks: map[int]mark{}, done: make(chan struct{}),
	}
}

// judge leads a task through the gates.
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
	t.judged = true
	start := time.Now()
	defer func() {
		if len(t.work.Record.Costs) > 0 {
			d.pace.add(time.Since(start))
		}
	}()
	for i, g := range d.gates {
		if g.Again {
			t.marks[i] = t.work.mark()
		}
		if t.reject, t.err = d.attempt(ctx, g, t.work); t.reject != nil || t.err != nil {
			return
		}
	}
}

// attempt runs a gate, and again after a pause where the machinery fails.
func (d *driver) attempt(ctx context.Context, g Gate, w *Work) (*Refusal, error) {
	before := w.mark()
	for n := 1; ; n++ {
		r, err := judge(ctx, g, w)
		if err == nil {
			return r, nil
		}
		event := journal.Event{Candidate: w.Record.ID, Gate: g.Name, Attempt: n, Message: err.Error()}
		d.Warn(fmt.Sprintf("candidate %d, gate %s, attempt %d of %d: %v", w.Record.ID, g.Name, n, d.Attempts, err))
		if bad := d.journal.Append(journal.KindError, event, nil); bad != nil {
			err = errors.Join(err, bad)
		}
		if n == d.Attempts {
			return nil, &PauseError{Candidate: w.Record.ID, Gate: g.Name, Attempts: n, Err: err}
		}
		w.back(before)
		time.Sleep(d.Backoff << (n - 1))
	}
}

// record concludes a judged task, whose turn it is, and appends it to the journal.
func (d *driver) record(t *task) error {
	w := t.work
	if t.err != nil {
		pause := journal.Event{Candidate: w.Record.ID, Gate: w.Record.Gate, Message: t.err.Error()}
		return errors.Join(t.err, d.journal.Append(journal.KindPause, pause, nil))
	}
	w.Known = d.state.Now()
	reject := t.reject
	for i, g := range d.gates {
		if _, passed := t.marks[i]; !passed || !g.Again {
			continue
		}
		now := w.mark()
		w.back(t.marks[i])
		if r, err := judge(context.Background(), g, w); err == nil && r != nil {
			reject = r
			break
		}
		w.back(now)
	}
	if reject == nil {
		w.Record.Gate = verdictGate
		v, reason, err := w.Known.Rank(w.Record)
		if err != nil {
			return err
		}
		reject = &Refusal{Verdict: v, Reason: reason}
	}
	w.conclude(reject)
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
	if err := d.journal.Append(journal.KindCandidate, w.Record, w.Wall); err != nil {
		return &PauseError{Candidate: w.Record.ID, Gate: "journal", Attempts: 1, Err: err}
	}
	if d.Progress != nil {
		d.Progress(Progress{Candidate: w.Record, View: d.state.Now(), Elapsed: time.Since(d.start), Budget: d.Budget})
	}
	return nil
}
