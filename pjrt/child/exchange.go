package child

import (
	"context"
	"errors"
	"strconv"
	"time"
)

// How an exchange ends other than by a reply or by its context. The worker is dead after the last two.
var (
	ErrDied  = errors.New("the worker ended")
	ErrLate  = errors.New("the worker is late")
	ErrLarge = errors.New("the worker takes too much memory")
)

// Limits bound one exchange with a worker; 0: no limit.
type Limits struct {
	Time   time.Duration
	Memory int64 // bytes resident
}

// weighEvery is how often the memory of a worker at work is read.
const weighEvery = 25 * time.Millisecond

// Exchange sends an order, unless it is nil, and waits for one reply. After an error the worker is dead or must be stopped: ErrDied, ErrLate
// or ErrLarge, or the cause of a done ctx.
func (p *Process) Exchange(ctx context.Context, l Limits, order, reply any) error {
	done := make(chan error, 1)
	go func() {
		var err error
		if order != nil {
			err = p.Send(order)
		}
		if err == nil {
			err = p.Receive(reply)
		}
		done <- err
	}()
	var late, weigh <-chan time.Time
	if l.Time > 0 {
		timer := time.NewTimer(l.Time)
		defer timer.Stop()
		late = timer.C
	}
	if l.Memory > 0 {
		ticker := time.NewTicker(weighEvery)
		defer ticker.Stop()
		weigh = ticker.C
	}
	var err error
	for err == nil {
		select {
		case e := <-done:
			if e != nil {
				return ErrDied
			}
			return nil
		case <-weigh:
			if Resident(strconv.Itoa(p.Pid())) > l.Memory {
				err = ErrLarge
			}
		case <-late:
			err = ErrLate
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
	}
	p.Kill()
	<-done
	return err
}

// Obituary says how a worker whose pipe broke ended. One that closed its pipe and lives is killed.
func (p *Process) Obituary() string {
	select {
	case <-p.Reaped():
	case <-time.After(5 * time.Second):
		p.Kill()
		<-p.Reaped()
	}
	if err := p.Exit(); err != nil {
		return err.Error()
	}
	return "exit status 0"
}
