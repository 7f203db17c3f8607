// Package worker judges the candidates of a search in other processes, here or on other machines.
//
// A worker is `gdngen worker`: it reads orders and writes replies as lines of JSON, and judges by the gates of the
// search. An Engine opens a pair of pipes to one: on this machine, by ssh, or by any command. A Pool of workers is a
// judge.Evaluator, so that the driver, the journal and its verification do not know where a candidate was judged.
//
// A worker speaks first:
//
//	worker > {"hello":{"protocol":1,"build":"...","generator":"v1.4.0","plugins":{"libtpu":"0.0.51"},"gates":[...],...}}
//	driver > {"header":{...}}                          once
//	driver > {"known":[{...},...],"from":7}            candidates that were judged since, short
//	driver > {"order":{"id":12,"at":9,"candidate":{...}}}
//	worker > {"beat":{"id":12,"gate":"compile"}}       every few seconds while it works, and while it gets ready
//	worker > {"reply":{"id":12,"steps":[{"gate":"legality","record":{...}},...],"wall":{...},"cpu":3.2}}
//
// A worker ends when its input does. After any other message, half a line, or a long silence it counts as lost: the
// driver ends it and gives its order to another.
package worker

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/gdngen/gdngen/autotune/journal"
	"github.com/gdngen/gdngen/autotune/judge"
)

// Protocol is the version of the messages.
const Protocol = 1

// maxLine bounds a message in bytes.
const maxLine = 64 << 20

// message is one line: exactly one of its fields is set.
type message struct {
	Hello   *Hello               `json:"hello,omitempty"`
	Refused string               `json:"refused,omitempty"` // the worker can not serve this run
	Header  *journal.Header      `json:"header,omitempty"`
	Known   []*journal.Candidate `json:"known,omitempty"`
	From    int                  `json:"from,omitempty"` // id of the first of Known
	Order   *order               `json:"order,omitempty"`
	Beat    *beat                `json:"beat,omitempty"`
	Reply   *reply               `json:"reply,omitempty"`
}

// order asks for a judgement.
type order struct {
	ID        int                `json:"id"`
	At        int                `json:"at"` // number of earlier candidates that it may be compared with
	Candidate *journal.Candidate `json:"candidate"`
	Text      string             `json:"text,omitempty"`
}

// beat says that a worker is alive.
type beat struct {
	ID   int    `json:"id,omitempty"` // the order in progress; 0: the worker gets ready
	Gate string `json:"gate,omitempty"`
}

// reply is a judgement.
type reply struct {
	ID    int                `json:"id"`
	Steps []judge.Step       `json:"steps,omitempty"`
	Wall  map[string]float64 `json:"wall,omitempty"`  // seconds by gate
	CPU   float64            `json:"cpu,omitempty"`   // seconds of processor time
	Error string             `json:"error,omitempty"` // why the order is invalid

	by *slot
}

// reader reads messages.
type reader struct{ lines *bufio.Reader }

func newReader(r io.Reader) *reader { return &reader{bufio.NewReaderSize(r, 64<<10)} }

var errHalf = errors.New("its output ended in the middle of a line")

// next reads one message. io.EOF means that the input ended between lines.
func (r *reader) next() (*message, error) {
	var line []byte
	for {
		part, err := r.lines.ReadSlice('\n')
		line = append(line, part...)
		if len(line) > maxLine {
			return nil, fmt.Errorf("it wrote a line of more than %d MiB", maxLine>>20)
		}
		if err == nil {
			break
		}
		if err == io.EOF && len(line) > 0 {
			return nil, fmt.Errorf("%w: %s", errHalf, excerpt(line))
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return nil, err
		}
	}
	m := new(message)
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(m); err != nil {
		return nil, fmt.Errorf("it wrote what is no message (%w): %s", err, excerpt(line))
	}
	return m, nil
}

// excerpt returns the beginning of a line, for an error.
func excerpt(line []byte) string {
	const most = 80
	if len(line) > most {
		return fmt.Sprintf("%.*q...", most, line)
	}
	return fmt.Sprintf("%q", bytes.TrimSpace(line))
}

// writer writes messages; it is safe for concurrent use.
type writer struct {
	mu  sync.Mutex
	out io.Writer
}

func (w *writer) put(m *message) error {
	text, err := json.Marshal(m)
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	_, err = w.out.Write(append(text, '\n'))
	return err
}

// short returns a candidate with only the fields that other judgements need.
func short(c *journal.Candidate) *journal.Candidate {
	s := c.Clone()
	s.Change, s.Shortlist, s.Errors, s.Notes, s.Objects = nil, nil, nil, nil, nil
	s.Hypothesis, s.Reason, s.Evidence = "", "", ""
	for i := range s.Costs {
		s.Costs[i].Stages = nil
	}
	return s
}
