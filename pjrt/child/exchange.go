package child

import (
	"context"
	"errors"
	"strconv"
	"time"
)

// Ends of an exchange other than a reply or the context's end. After the last two the worker is dead.
var (
	ErrDied  = errors.New("the worker ended")
	ErrLate  = errors.New("the worker is late")
	ErrLarge = errors.New("the worker takes too much memory")
)

// Limits of one exchange with a worker; 0: no limit.
type Limits struct {
	Time   time.Duration
	Memory int64 // resident bytes
}

// weighEvery is how often a working worker's memory is read.
const weighEvery = 25 * time.Millisecond

// Exchange sends an order, unless it is nil, and waits for one reply. On an error the worker is dead or must be stopped. The error is
// ErrDied, ErrLate, ErrLarge, or the cause of a done ctx.
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

// Obituary returns how a worker with a broken pipe ended. It kills one that closed its pipe and still lives.
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
