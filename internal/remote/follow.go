package remote

import (
	"context"
	"errors"
	"fmt"
	"github.com/gdngen/gdngen/internal/web"
	"io"
	"regexp"
	"time"
)

// Follower waits for a job and copies its output.
type Follower struct {
	Place   Place
	ID      string
	Out     io.Writer     // of the job; nil: none
	From    int64         // bytes of the output to skip
	Every   time.Duration // interval between checks; 0: lookEvery
	Pending time.Duration // longest wait for the job to begin; 0: no limit
	Note    func(string)  // called for messages to the user; may be nil
}

const (
	lookEvery = 2 * time.Second
	cutsMost  = 20 // consecutive failures before a place is given up
)

// PendingError says that a job did not begin in time.
type PendingError struct {
	ID      string
	After   time.Duration
	Message string
}

func (e *PendingError) Error() string {
	return fmt.Sprintf("job %s did not begin within %v: %s", e.ID, e.After, e.Message)
}

// Wait returns the state of the job once it has ended. Cut connections are reopened, and no output is repeated.
func (f *Follower) Wait(ctx context.Context) (*State, error) {
	every := f.Every
	if every <= 0 {
		every = lookEvery
	}
	begun := time.Now()
	for cuts := 0; ; {
		s, err := f.Place.Status(ctx, f.ID)
		if err == nil && s.Phase != Pending && f.Out != nil {
			err = f.copy(ctx, !s.Phase.Done())
		}
		none := (*NoJobError)(nil)
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case errors.As(err, &none):
			return nil, err
		case err != nil:
			if cuts++; cuts == cutsMost {
				return nil, err
			}
			if cuts == 1 && f.Note != nil {
				f.Note(fmt.Sprintf("%v; trying again", err))
			}
		case s.Phase.Done():
			return s, nil
		case s.Phase == Pending && f.Pending > 0 && time.Since(begun) > f.Pending:
			pending := &PendingError{f.ID, f.Pending, s.Message}
			return s, errors.Join(pending, f.Place.Stop(ctx, f.ID))
		default:
			cuts = 0
		}
		select {
		case <-time.After(every):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// copy copies the output until its stream ends. It does not follow the output of an ended job: the stream could end before all is read.
func (f *Follower) copy(ctx context.Context, follow bool) error {
	r, err := f.Place.Logs(ctx, f.ID, f.From, follow)
	if err != nil {
		return err
	}
	defer r.Close()
	buffer := make([]byte, 32<<10)
	for {
		n, err := r.Read(buffer)
		if n > 0 {
			if _, bad := f.Out.Write(buffer[:n]); bad != nil {
				return bad
			}
			f.From += int64(n)
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// mostOutput bounds the output of a job that is read at once, in bytes.
const mostOutput = 1 << 30

// Output returns a job's output so far.
func Output(ctx context.Context, p Place, id string) (string, error) {
	r, err := p.Logs(ctx, id, 0, false)
	if err != nil {
		return "", err
	}
	defer r.Close()
	text, err := web.All(r, mostOutput)
	return string(text), err
}

// Last makes the follower begin with the last lines of a job's output so far.
func (f *Follower) Last(ctx context.Context, lines int) error {
	text, err := Output(ctx, f.Place, f.ID)
	if err != nil {
		return err
	}
	last := Lines(text, regexp.MustCompile(""), lines)
	f.From = int64(len(text) - len(last))
	return nil
}
