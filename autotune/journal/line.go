package journal

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
)

const (
	sumOpen  = `,"sum":"`
	sumClose = "\"}\n"
	sumSize  = len(sumOpen) + 2*sha256.Size + len(sumClose)
)

// CorruptError says that a line is not what was written.
type CorruptError struct {
	Path string
	Line int // from 1
	Why  string
}

func (e *CorruptError) Error() string {
	mend := "restore the file, or start a new run"
	if e.Line > 1 {
		mend = fmt.Sprintf("restore the file, or start a new run, or go on from the %d lines before, which are sound: head -n %d", e.Line-1, e.Line-1)
	}
	return fmt.Sprintf("journal %s is damaged at line %d: %s; %s", e.Path, e.Line, e.Why, mend)
}

// encode gives the line of a record, its end included, and its checksum.
func encode(r Record) (line []byte, sum string, err error) {
	line, err = json.Marshal(r)
	if err != nil {
		return nil, "", err
	}
	digest := sha256.Sum256(line)
	sum = hex.EncodeToString(digest[:])
	return append(line[:len(line)-1], sumOpen+sum+sumClose...), sum, nil
}

// decode reads a line, its end included, and verifies its own checksum.
func decode(line []byte) (r Record, sum string, err error) {
	at := len(line) - sumSize
	if at < 1 || !bytes.HasPrefix(line[at:], []byte(sumOpen)) || !bytes.HasSuffix(line, []byte(sumClose)) {
		return r, "", errors.New("it does not end in a checksum")
	}
	sum = string(line[at+len(sumOpen):][:2*sha256.Size])
	body := append(bytes.Clone(line[:at]), '}')
	if digest := sha256.Sum256(body); hex.EncodeToString(digest[:]) != sum {
		return r, "", errors.New("its checksum does not match its content")
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	return r, sum, d.Decode(&r)
}

// scan reads the records of a file in order and verifies the chain. good is where the last whole record ends; torn is the
// length of an unfinished one after it.
func scan(f *os.File, each func(Record) error) (good, torn int64, last string, seq int, err error) {
	data, err := io.ReadAll(f)
	if err != nil {
		return 0, 0, "", 0, err
	}
	for rest := data; len(rest) > 0; {
		end := bytes.IndexByte(rest, '\n') + 1
		if end == 0 {
			return good, int64(len(rest)), last, seq, nil
		}
		fail := func(format string, args ...any) (int64, int64, string, int, error) {
			return 0, 0, "", 0, &CorruptError{Path: f.Name(), Line: seq + 1, Why: fmt.Sprintf(format, args...)}
		}
		r, sum, err := decode(rest[:end])
		switch {
		case err != nil:
			return fail("%v", err)
		case r.Seq != seq:
			return fail("it is record %d, and %d was expected", r.Seq, seq)
		case r.Prev != last:
			return fail("it does not follow from the line before")
		}
		if err := each(r); err != nil {
			return fail("%v", err)
		}
		last, seq, good, rest = sum, seq+1, good+int64(end), rest[end:]
	}
	return good, 0, last, seq, nil
}
