package store

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
)

const (
	sumOpen  = `,"sum":"`
	sumClose = "\"}\n"
	sumSize  = len(sumOpen) + 2*sha256.Size + len(sumClose)
)

// Seal returns the line of a JSON object with the SHA-256 of the object as last field, and that sum.
func Seal(object []byte) (line []byte, sum string) {
	digest := sha256.Sum256(object)
	sum = hex.EncodeToString(digest[:])
	return append(object[:len(object)-1:len(object)-1], sumOpen+sum+sumClose...), sum
}

// Unseal returns the object of a line that ends in a newline, and its sum, or an error if the sum does not match.
func Unseal(line []byte) (object []byte, sum string, err error) {
	at := len(line) - sumSize
	if at < 1 || !bytes.HasPrefix(line[at:], []byte(sumOpen)) || !bytes.HasSuffix(line, []byte(sumClose)) {
		return nil, "", errors.New("it does not end in a checksum")
	}
	sum = string(line[at+len(sumOpen):][:2*sha256.Size])
	object = append(bytes.Clone(line[:at]), '}')
	if digest := sha256.Sum256(object); hex.EncodeToString(digest[:]) != sum {
		return nil, "", errors.New("its checksum does not match its content")
	}
	return object, sum, nil
}

// Torn reports whether the rest after the last complete line is a line cut by a kill. A complete line whose newline was changed is damage.
func Torn(rest []byte) bool {
	if len(rest) == 0 {
		return true
	}
	_, _, err := Unseal(append(bytes.Clone(rest[:len(rest)-1]), '\n'))
	return err != nil
}

// Hole reports whether a last line has zeros that no program wrote: a loss of power can leave them if a write reached
// the disk in parts. One flipped bit does not make such a line.
func Hole(line []byte) bool {
	return len(line) > 0 && (line[0] == 0 || bytes.Contains(line, []byte{0, 0}))
}

// link is a line of a chain: a record, and the sum of the line before.
type link struct {
	Prev   string          `json:"prev"`
	Record json.RawMessage `json:"record"`
}

// Link returns the line of a record and its sum. prev is the sum of the line before; empty for the first.
func Link(prev string, record any) (line []byte, sum string, err error) {
	text, err := json.Marshal(record)
	if err == nil {
		text, err = json.Marshal(link{prev, text})
	}
	if err != nil {
		return nil, "", err
	}
	line, sum = Seal(text)
	return line, sum, nil
}

// ReadChain calls each for the records of lines by Link, and verifies the chain. whole is the length without a last
// line cut by a kill, last the sum of the last line. old means lines of an earlier release, without sums.
func ReadChain(text []byte, each func(record []byte) error) (whole int, last string, old bool, err error) {
	for n := 1; whole < len(text); n++ {
		rest := text[whole:]
		end := bytes.IndexByte(rest, '\n') + 1
		if end == 0 {
			if !old && !Torn(rest) {
				return whole, last, old, fmt.Errorf("line %d: its end is another byte", n)
			}
			break
		}
		if end == len(rest) && Hole(rest) {
			break
		}
		record := rest[:end]
		if n == 1 {
			old = !bytes.Contains(record, []byte(`"sum"`)) && !bytes.HasPrefix(record, []byte(`{"prev"`))
		}
		if !old {
			object, sum, err := Unseal(record)
			var l link
			if err == nil {
				err = json.Unmarshal(object, &l)
			}
			if err == nil && l.Prev != last {
				err = errors.New("it does not follow from the line before")
			}
			if err != nil {
				return whole, last, old, fmt.Errorf("line %d: %w", n, err)
			}
			record, last = l.Record, sum
		}
		if err := each(record); err != nil {
			return whole, last, old, fmt.Errorf("line %d: %w", n, err)
		}
		whole += end
	}
	return whole, last, old, nil
}
