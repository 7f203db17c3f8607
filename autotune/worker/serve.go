package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/gdngen/gdngen/autotune"
	"github.com/gdngen/gdngen/autotune/judge"
	"github.com/gdngen/gdngen/pjrt/machine"
)

// Options configures a worker.
type Options struct {
	Generator string                                         // version of the program
	Evaluator func(context.Context) (judge.Evaluator, error) // closed at the end
	Machine   *machine.Lock                                  // lock for the gates
	Beat      time.Duration                                  // interval between beats; 0: BeatEvery
}

// BeatEvery is the default interval between a worker's beats.
const BeatEvery = 5 * time.Second

// server is a running worker.
type server struct {
	out   *writer
	judge *autotune.Judge

	mu   sync.Mutex
	last beat
}

// Serve runs a worker: it follows orders until in ends, or ctx is done. If the evaluator can not be made, the driver is
// told, and Serve returns the error.
func Serve(ctx context.Context, in io.Reader, out io.Writer, o Options) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s := &server{out: &writer{out: out}}
	orders := make(chan *message)
	var fault error // why orders ended
	go func() {
		defer cancel() // the result of the order in progress is no longer needed
		defer close(orders)
		for r := newReader(in); ; {
			m, err := r.next()
			if err != nil {
				if err != io.EOF {
					fault = fmt.Errorf("the driver is not one: %w", err)
				}
				return
			}
			select {
			case orders <- m:
			case <-ctx.Done():
				return
			}
		}
	}()
	go s.beats(ctx, o.Beat)
	done := make(chan error, 1)
	go func() {
		err := s.serve(ctx, orders, o)
		if err == nil { // the orders ended, and fault was set before
			err = fault
		}
		done <- err
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-done:
		return err
	case <-time.After(endGrace): // a gate that ignores its context is abandoned
		return nil
	}
}

// endGrace is the time that a worker without a driver has to end.
const endGrace = 3 * time.Second

// serve follows orders until there are no more.
func (s *server) serve(ctx context.Context, orders <-chan *message, o Options) error {
	e, err := o.Evaluator(ctx)
	if err != nil {
		return errors.Join(err, s.out.put(&message{Refused: err.Error()}))
	}
	defer e.Close()
	h, err := hello(o.Generator, e)
	if err == nil {
		err = s.out.put(&message{Hello: h})
	}
	if err != nil {
		return err
	}
	for m := range orders {
		if err := s.obey(ctx, e, o.Machine, m); err != nil {
			return err
		}
	}
	return nil
}

// beats sends beats until ctx ends.
func (s *server) beats(ctx context.Context, every time.Duration) {
	if every <= 0 {
		every = BeatEvery
	}
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			s.mu.Lock()
			now := s.last
			s.mu.Unlock()
			if s.out.put(&message{Beat: &now}) != nil {
				return // the driver is gone, so in ends too
			}
		case <-ctx.Done():
			return
		}
	}
}

func (s *server) at(b beat) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = b
}

// obey handles one message of the driver. An error ends the worker.
func (s *server) obey(ctx context.Context, e judge.Evaluator, lock *machine.Lock, m *message) (err error) {
	switch {
	case m.Header != nil:
		if s.judge, err = autotune.NewJudge(m.Header, e, lock); err != nil {
			return errors.Join(err, s.out.put(&message{Refused: err.Error()}))
		}
		return nil
	case s.judge == nil:
		return errors.New("the driver gave an order before the header")
	case m.Known != nil:
		if m.From != s.judge.Known()+1 {
			return fmt.Errorf("the driver tells of candidates from %d, and %d are known", m.From, s.judge.Known())
		}
		return s.judge.Know(m.Known)
	case m.Order != nil:
		return s.follow(ctx, e, m.Order)
	}
	return errors.New("the driver sent a message without a meaning")
}

// follow judges one candidate.
func (s *server) follow(ctx context.Context, e judge.Evaluator, o *order) error {
	defer s.at(beat{})
	meter, _ := e.(interface{ CPU() time.Duration })
	var before time.Duration
	if meter != nil {
		before = meter.CPU()
	}
	r := &reply{ID: o.ID}
	var err error
	r.Steps, r.Wall, err = s.judge.Judge(ctx, autotune.Order{At: o.At, Candidate: o.Candidate, Text: o.Text}, func(gate string) { s.at(beat{o.ID, gate}) })
	if ctx.Err() != nil {
		return nil // the orders have ended
	}
	if err != nil {
		r.Error = err.Error()
	}
	if meter != nil {
		r.CPU = (meter.CPU() - before).Seconds()
	}
	return s.out.put(&message{Reply: r})
}
