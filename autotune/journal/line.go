package journal

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"

	"github.com/gdngen/gdngen/internal/store"
)

// CorruptError says that a line differs from what was written.
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

// encode returns the line of a record with its newline, and its checksum.
func encode(r Record) (line []byte, sum string, err error) {
	object, err := json.Marshal(r)
	if err != nil {
		return nil, "", err
	}
	line, sum = store.Seal(object)
	return line, sum, nil
}

// decode reads a line with its newline, and verifies its own checksum.
func decode(line []byte) (r Record, sum string, err error) {
	object, sum, err := store.Unseal(line)
	if err != nil {
		return r, "", err
	}
	d := json.NewDecoder(bytes.NewReader(object))
	d.DisallowUnknownFields()
	return r, sum, d.Decode(&r)
}

// scan reads the records of a file in order and verifies the chain. good is the length of the complete records; torn is
// the length of an unfinished one after them.
func scan(f interface {
	io.Reader
	Name() string
}, each func(Record) error) (good, torn int64, last string, seq int, err error) {
	data, err := io.ReadAll(f)
	if err != nil {
		return 0, 0, "", 0, err
	}
	for rest := data; len(rest) > 0; {
		fail := func(format string, args ...any) (int64, int64, string, int, error) {
			return 0, 0, "", 0, &CorruptError{Path: f.Name(), Line: seq + 1, Why: fmt.Sprintf(format, args...)}
		}
		end := bytes.IndexByte(rest, '\n') + 1
		if end == 0 && !store.Torn(rest) {
			return fail("its end is another byte")
		} else if end == 0 || end == len(rest) && store.Hole(rest) {
			return good, int64(len(rest)), last, seq, nil
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
