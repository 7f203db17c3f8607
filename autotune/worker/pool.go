package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gdngen/gdngen/autotune/journal"
	"github.com/gdngen/gdngen/autotune/judge"
	"github.com/gdngen/gdngen/internal/remote"
)

// PoolOptions configures a pool of workers. Zero durations mean the defaults.
type PoolOptions struct {
	Generator string        // version of this program; workers must have the same
	Flags     []string      // for workers that this program starts itself
	Mixed     bool          // processors may differ, and with them the last digits of CPU results
	Silence   time.Duration // silence after which a worker is lost; default defaultSilence
	Limit     time.Duration // time limit of one candidate; default defaultLimit
	Ready     time.Duration // time limit for a worker to get ready; default defaultReady
	Warn      func(string)  // called for warnings to the user; may be nil
}

const (
	defaultSilence = 30 * time.Second
	defaultLimit   = time.Hour
	defaultReady   = 15 * time.Minute // it may have to fetch compilers
)

// NoWorkerError says that no usable worker is left.
type NoWorkerError struct{ Why []string }

func (e *NoWorkerError) Error() string {
	return "no worker can judge for this run: " + strings.Join(e.Why, "; ")
}

// Pool holds the workers of a run. It is a judge.Evaluator.
type Pool struct {
	o     PoolOptions
	want  *Hello // required of all workers
	slots []*slot
	life  context.Context
	end   context.CancelFunc

	mu      sync.Mutex
	changed chan struct{} // closed and replaced when a slot becomes free
	cpu     time.Duration
}

// New starts workers and waits until each has described itself or failed. It errs if none is usable.
func New(ctx context.Context, engines []*Engine, o PoolOptions) (*Pool, error) {
	o.Silence, o.Limit = cmp.Or(o.Silence, defaultSilence), cmp.Or(o.Limit, defaultLimit)
	o.Ready = cmp.Or(o.Ready, defaultReady)
	p := &Pool{o: o, changed: make(chan struct{})}
	p.life, p.end = context.WithCancel(context.WithoutCancel(ctx))
	for _, e := range engines {
		for n := range e.Slots {
			p.slots = append(p.slots, &slot{pool: p, engine: e, name: fmt.Sprintf("%.60s, slot %d", e.Text, n+1)})
		}
	}
	var all sync.WaitGroup
	faults := make([]error, len(p.slots))
	for i, s := range p.slots {
		all.Go(func() { faults[i] = s.start(ctx) })
	}
	all.Wait()
	if ctx.Err() != nil {
		return nil, errors.Join(ctx.Err(), p.Close())
	}
	for i, s := range p.slots {
		if faults[i] == nil && p.want == nil {
			want := *s.conn.hello
			want.Generator = o.Generator
			p.want = &want
		}
	}
	if p.want != nil {
		build, err := remote.Build()
		if err != nil {
			return nil, errors.Join(err, p.Close())
		}
		p.want.Build = build
	}
	var why []string
	for i, s := range p.slots {
		if faults[i] == nil {
			faults[i] = s.agree()
		}
		if faults[i] != nil {
			why = append(why, fmt.Sprintf("%s: %v", s.name, faults[i]))
		}
	}
	if len(why) == len(p.slots) {
		return nil, errors.Join(&NoWorkerError{why}, p.Close())
	}
	for _, text := range why {
		p.warn("worker %s", text)
	}
	return p, nil
}

func (p *Pool) warn(format string, args ...any) {
	if p.o.Warn != nil {
		p.o.Warn(fmt.Sprintf(format, args...))
	}
}

// Slots returns the number of workers: the number of candidates judged at a time.
func (p *Pool) Slots() int { return len(p.slots) }

// Plugins returns the versions of the plugins, equal in all workers.
func (p *Pool) Plugins() map[string]string { return p.want.Plugins }

// Estimates reports whether the workers' costs come from real schedules.
func (p *Pool) Estimates() bool { return p.want.Estimates }

// CPU returns the processor time that workers reported for their answers.
func (p *Pool) CPU() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cpu
}

// Close ends the workers.
func (p *Pool) Close() error {
	p.end()
	for _, s := range p.slots {
		s.drop()
	}
	return nil
}

// Gates returns the gates of the workers. The first gate asked sends the candidate to a worker; the others report that
// worker's answers.
func (p *Pool) Gates() []judge.Gate {
	again := judge.AgainGates()
	var l []judge.Gate
	for _, row := range p.want.Gates {
		g := judge.Gate{Name: row.Name, Doc: row.Doc, Again: row.Again, Own: true, Clocked: true}
		if i := slices.IndexFunc(again, func(x judge.Gate) bool { return x.Name == row.Name }); row.Again && i >= 0 {
			g.Run = again[i].Run
		} else {
			g.Run = func(ctx context.Context, w *judge.Work) (*judge.Refusal, error) {
				return p.gate(ctx, w, row.Name)
			}
		}
		l = append(l, g)
	}
	return l
}

// gate returns a gate's result, after asking a worker if none was asked yet.
func (p *Pool) gate(ctx context.Context, w *judge.Work, name string) (*judge.Refusal, error) {
	r, ok := w.Left.(*reply)
	if !ok {
		var err error
		if r, err = p.judge(ctx, w); err != nil {
			return nil, err
		}
		w.Left = r
	}
	i := slices.IndexFunc(r.Steps, func(s judge.Step) bool { return s.Gate == name })
	if i < 0 {
		i = len(r.Steps) - 1 // this gate was asked again after a failure, and now an earlier gate failed
	}
	s := r.Steps[i]
	if s.Error != "" {
		w.Left = nil // the next attempt asks again
		return nil, fmt.Errorf("on %s: %s", w.Node, s.Error)
	}
	w.Replay(s)
	return s.Refusal, nil
}

// judge has a worker judge a candidate. A crash or a time limit counts only if a second machine confirms it.
func (p *Pool) judge(ctx context.Context, w *judge.Work) (*reply, error) {
	var avoid avoided
	first, s, err := p.ask(ctx, w, &avoid)
	if err != nil {
		return nil, err
	}
	if first.doubtful() && p.others(s) {
		avoid.nodes = append(avoid.nodes, w.Node)
		second, _, err := p.ask(ctx, w, &avoid)
		if err != nil {
			return nil, err
		}
		if !second.doubtful() {
			p.warn("candidate %d: a worker of %s says %s, another does not, and is believed", w.Record.ID, s.name, first.last().Verdict)
		}
		first = second
	}
	w.Wall = first.Wall
	if w.Wall == nil {
		w.Wall = map[string]float64{}
	}
	return first, nil
}

// Confirm lets another machine, or another worker, compute the costs of a candidate again. The second result is not
// recorded. It errs if the two differ.
func (p *Pool) Confirm(ctx context.Context, proposed, judged *judge.Work) error {
	avoid := &avoided{}
	if first, ok := judged.Left.(*reply); ok && first.by != nil {
		avoid.slots = []*slot{first.by}
		if p.others(first.by) {
			avoid.nodes = []string{judged.Node}
		}
	}
	fresh := *proposed
	fresh.Record = proposed.Record.Clone()
	second, s, err := p.ask(ctx, proposed, avoid)
	if err == nil && second.doubtful() { // the machine may be at fault, which is no contradiction
		second, s, err = p.ask(ctx, &fresh, &avoided{slots: []*slot{s}})
	}
	if err != nil {
		return err
	}
	was, is := sums(judged.Record), sums(second.Steps[len(second.Steps)-1].Record)
	if is != was {
		return fmt.Errorf("it would be a champion by %s, and a second judgement, by worker %s, is %s: one of the workers is wrong; leave it out, or mend it", was, s.name, is)
	}
	return nil
}

// sums returns the costs of a candidate as text.
func sums(c *journal.Candidate) string {
	var l []string
	for _, x := range c.Costs {
		l = append(l, fmt.Sprintf("%s: score %d, hbm %d, schedule %s%s", x.Target, x.Score, x.HBM, x.Schedule, x.Verdict))
	}
	return cmp.Or(strings.Join(l, "; "), "no cost")
}

// last returns the refusal of a judgement; nil: none.
func (r *reply) last() *judge.Refusal { return r.Steps[len(r.Steps)-1].Refusal }

// doubtful reports whether a judgement may be the machine's fault.
func (r *reply) doubtful() bool {
	x := r.last()
	return x != nil && (x.Verdict == journal.Timeout || x.Verdict == journal.Crash)
}

// avoided lists the slots that lost a candidate, and the machines that judged it already.
type avoided struct {
	slots []*slot
	nodes []string
}

func (a *avoided) has(s *slot) bool {
	return slices.Contains(a.slots, s) || s.conn != nil && slices.Contains(a.nodes, s.conn.hello.Node)
}

// others reports whether there is another machine than a slot's.
func (p *Pool) others(s *slot) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.ContainsFunc(p.slots, func(x *slot) bool {
		return x.refused == nil && x.conn != nil && s.conn != nil && x.conn.hello.Node != s.conn.hello.Node
	})
}

// ask sends a candidate to a worker and waits for its judgement. A worker that does not start is skipped if another does.
func (p *Pool) ask(ctx context.Context, w *judge.Work, avoid *avoided) (*reply, *slot, error) {
	if lost, ok := w.Left.(*avoided); ok { // by an earlier attempt
		avoid.slots = append(avoid.slots, lost.slots...)
	}
	for failed := 0; ; {
		s, err := p.acquire(ctx, avoid)
		if err != nil {
			return nil, nil, err
		}
		c := s.running()
		if c == nil {
			err := s.start(ctx)
			if err == nil {
				err = s.agree()
			}
			if err != nil {
				s.down(err)
				p.release(s)
				if failed++; ctx.Err() != nil {
					return nil, nil, ctx.Err()
				} else if failed >= p.usable() {
					return nil, nil, &judge.LostError{Node: s.engine.Text, Err: err}
				}
				continue
			}
			if c = s.running(); c == nil {
				return nil, nil, context.Canceled // the pool is closed
			}
		}
		node := c.hello.Node
		r, err := c.judge(ctx, p.o, w)
		if err != nil {
			s.drop()
			p.release(s)
			if ctx.Err() != nil {
				return nil, nil, ctx.Err()
			}
			avoid.slots = append(avoid.slots, s)
			w.Left = &avoided{slots: avoid.slots}
			return nil, nil, &judge.LostError{Node: node, Err: fmt.Errorf("%s: %w", s.name, err)}
		}
		w.Node = node
		p.mu.Lock()
		s.failures = 0
		p.cpu += time.Duration(r.CPU * float64(time.Second))
		p.mu.Unlock()
		p.release(s)
		if r.Error != "" {
			return nil, nil, fmt.Errorf("on %s: %s", node, r.Error)
		}
		r.by = s
		return r, s, nil
	}
}

// usable counts the slots that can still judge.
func (p *Pool) usable() (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.slots {
		if s.refused == nil {
			n++
		}
	}
	return n
}

// acquire waits for a free slot that is not avoided, unless all are.
func (p *Pool) acquire(ctx context.Context, avoid *avoided) (*slot, error) {
	for {
		p.mu.Lock()
		var usable, better, free []*slot
		for _, s := range p.slots {
			if s.refused == nil {
				usable = append(usable, s)
			}
		}
		for _, s := range usable {
			if !avoid.has(s) {
				better = append(better, s)
			}
		}
		if len(better) == 0 {
			better = usable
		}
		wait := time.Hour
		for _, s := range better {
			if rest := time.Until(s.rests); s.busy {
				continue
			} else if rest > 0 {
				wait = min(wait, rest)
			} else {
				free = append(free, s)
			}
		}
		changed := p.changed
		if len(free) > 0 {
			s := slices.MinFunc(free, func(a, b *slot) int { return cmp.Compare(a.failures, b.failures) })
			s.busy = true
			p.mu.Unlock()
			return s, nil
		}
		p.mu.Unlock()
		if len(usable) == 0 {
			var why []string
			for _, s := range p.slots {
				why = append(why, fmt.Sprintf("%s: %v", s.name, s.refused))
			}
			return nil, &NoWorkerError{why}
		}
		timer := time.NewTimer(wait)
		select {
		case <-changed:
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
}

// release frees a slot.
func (p *Pool) release(s *slot) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s.busy = false
	close(p.changed)
	p.changed = make(chan struct{})
}
