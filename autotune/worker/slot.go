package worker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/gdngen/gdngen/autotune/journal"
	"github.com/gdngen/gdngen/autotune/judge"
)

// slot holds one worker, which is restarted after it was lost. A busy slot belongs to its acquirer; but conn, refused,
// failures and rests are written under the pool's mutex, since others read them.
type slot struct {
	pool   *Pool
	engine *Engine
	name   string
	conn   *conn // nil: no worker runs

	busy     bool
	refused  error     // permanent: another worker of this engine would fail too
	failures int       // consecutive failed starts
	rests    time.Time // earliest time of the next start
}

const (
	restLeast = time.Second
	restMost  = time.Minute
)

// start starts a worker and waits for its Hello.
func (s *slot) start(ctx context.Context) error {
	p, err := s.engine.open(ctx, s.pool.o.Flags)
	if err != nil {
		return err
	}
	c := &conn{pipes: p, out: &writer{out: p.in}, messages: make(chan *message), gone: make(chan struct{})}
	go c.read()
	ready, cancel := context.WithTimeoutCause(ctx, s.pool.o.Ready, fmt.Errorf("it was not ready within %v", s.pool.o.Ready))
	defer cancel()
	if err := c.greet(ready, s.pool.o.Silence); err != nil {
		c.close()
		var r *refusedError
		if errors.As(err, &r) {
			s.set(func() { s.refused = err })
		}
		return err
	}
	s.set(func() { s.conn = c })
	return nil
}

// agree compares the worker with the run's needs.
func (s *slot) agree() error {
	c := s.running()
	if c == nil {
		return context.Canceled
	}
	if why := c.hello.differs(s.pool.want, s.pool.o.Mixed); why != "" {
		s.drop()
		err := &refusedError{why}
		s.set(func() { s.refused = err })
		return err
	}
	return nil
}

// down delays the slot's next start after a failed one.
func (s *slot) down(err error) {
	s.pool.warn("worker %s does not start: %v", s.name, err)
	s.set(func() {
		s.rests = time.Now().Add(min(restLeast<<min(s.failures, 10), restMost))
		s.failures++
	})
}

// drop ends the worker.
func (s *slot) drop() {
	var c *conn
	s.set(func() { c, s.conn = s.conn, nil })
	if c != nil {
		c.close()
	}
}

// running returns the worker; nil: none.
func (s *slot) running() (c *conn) {
	s.set(func() { c = s.conn })
	return c
}

func (s *slot) set(change func()) {
	s.pool.mu.Lock()
	defer s.pool.mu.Unlock()
	change()
}

// refusedError is a reason why a worker can not serve a run, which a restart would not change.
type refusedError struct{ why string }

func (e *refusedError) Error() string { return e.why }

// conn is a running worker.
type conn struct {
	*pipes
	out      *writer
	messages chan *message // closed at the end, after fault is set
	gone     chan struct{} // closed when there is no listener any more
	fault    error

	hello *Hello
	told  bool // the header was sent
	known int  // number of candidates sent
}

// read receives the worker's messages.
func (c *conn) read() {
	defer close(c.messages)
	for r := newReader(c.pipes.out); ; {
		m, err := r.next()
		if err != nil {
			c.fault = err
			return
		}
		select {
		case c.messages <- m:
		case <-c.gone:
			return
		}
	}
}

func (c *conn) close() {
	close(c.gone)
	c.pipes.close()
	for range c.messages {
	}
}

var errSilent = errors.New("it is silent")

// next waits for a message other than a beat. Beats of another order are ignored.
func (c *conn) next(ctx context.Context, silence time.Duration, id int) (*message, error) {
	quiet := time.NewTimer(silence)
	defer quiet.Stop()
	for {
		select {
		case m, ok := <-c.messages:
			switch {
			case !ok:
				return nil, c.ended(c.fault)
			case m.Beat == nil:
				return m, nil
			case m.Beat.ID == id || m.Beat.ID == 0:
				quiet.Reset(silence)
			}
		case <-quiet.C:
			return nil, fmt.Errorf("%w: nothing came for %v", errSilent, silence)
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// greet waits for the Hello.
func (c *conn) greet(ctx context.Context, silence time.Duration) error {
	m, err := c.next(ctx, silence, 0)
	switch {
	case err != nil:
		return err
	case m.Refused != "":
		return &refusedError{m.Refused}
	case m.Hello == nil || m.Hello.Node == "" || len(m.Hello.Gates) == 0:
		return errors.New("its first message is no hello")
	}
	c.hello = m.Hello
	return nil
}

// errLimit ends a candidate that takes too long.
var errLimit = errors.New("it did not end in time")

// judge sends the worker what it lacks and the order, and waits for the reply.
func (c *conn) judge(ctx context.Context, limits PoolOptions, w *judge.Work) (*reply, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, limits.Limit, fmt.Errorf("%w: %v", errLimit, limits.Limit))
	defer cancel()
	sent := make(chan error, 1)
	id := w.Record.ID
	o := &order{ID: id, At: w.Known.Len(), Candidate: w.Record.Clone(), Text: w.Text}
	go func() { sent <- c.send(w.Known, o) }() // a worker that does not read must not block the driver
	m, err := c.next(ctx, limits.Silence, id)
	switch {
	case err != nil:
		return nil, err
	case m.Refused != "":
		return nil, &refusedError{m.Refused}
	case m.Reply == nil || m.Reply.ID != id:
		return nil, fmt.Errorf("it answered what it was not asked (candidate %d was)", id)
	}
	if err := c.check(m.Reply, o.Candidate); err != nil {
		return nil, err
	}
	if faults := m.Reply.faults(w.Grounds()); len(faults) > 0 {
		return nil, fmt.Errorf("its record contradicts itself: %s", strings.Join(faults, "; "))
	}
	select {
	case err = <-sent:
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	return m.Reply, err
}

// send writes everything that an order needs.
func (c *conn) send(view journal.View, o *order) error {
	if !c.told {
		if err := c.out.put(&message{Header: view.Header()}); err != nil {
			return err
		}
		c.told = true
	}
	if all := view.Candidates(); len(all) > c.known {
		news := &message{From: c.known + 1}
		for _, x := range all[c.known:] {
			news.Known = append(news.Known, short(x))
		}
		if err := c.out.put(news); err != nil {
			return err
		}
		c.known = len(all)
	}
	return c.out.put(&message{Order: o})
}

// check returns why a reply is not a valid judgement of a candidate by the run's gates, or nil.
func (c *conn) check(r *reply, of *journal.Candidate) error {
	id := of.ID
	asked, err := json.Marshal(of.Proposal())
	if err != nil {
		return err
	}
	if r.Error != "" {
		return nil
	}
	if len(r.Steps) == 0 || len(r.Steps) > len(c.hello.Gates) {
		return fmt.Errorf("its judgement has %d steps", len(r.Steps))
	}
	for i, s := range r.Steps {
		last := i == len(r.Steps)-1
		switch {
		case s.Gate != c.hello.Gates[i].Name:
			return fmt.Errorf("step %d of its judgement is of gate %q", i+1, s.Gate)
		case s.Record == nil || s.Record.ID != id:
			return fmt.Errorf("gate %s of its judgement has no record of candidate %d", s.Gate, id)
		case !same(s.Record, asked):
			return fmt.Errorf("gate %s of its judgement has a record of another candidate than %d", s.Gate, id)
		case !last && (s.Refusal != nil || s.Error != ""):
			return fmt.Errorf("its judgement goes on after gate %s", s.Gate)
		case s.Refusal != nil && !known(s.Refusal.Verdict):
			return fmt.Errorf("gate %s says %q", s.Gate, s.Refusal.Verdict)
		case last && s.Refusal == nil && s.Error == "" && len(r.Steps) < len(c.hello.Gates):
			return fmt.Errorf("its judgement ends after gate %s, which did not refuse", s.Gate)
		}
	}
	return nil
}

// same reports whether a record is of the candidate that was asked for.
func same(r *journal.Candidate, asked []byte) bool {
	text, err := json.Marshal(r.Proposal())
	return err == nil && bytes.Equal(text, asked)
}

// faults lists contradictions in the costs of a reply.
func (r *reply) faults(g judge.Grounds) (l []string) {
	objects := map[string][]byte{}
	for _, s := range r.Steps {
		maps.Copy(objects, s.Objects)
	}
	if len(r.Steps) > 0 && r.Steps[len(r.Steps)-1].Record != nil {
		l = g.Faults(r.Steps[len(r.Steps)-1].Record, func(role string) []byte { return objects[role] })
	}
	return l
}

func known(v journal.Verdict) bool { return v != "" && v.Known() }
