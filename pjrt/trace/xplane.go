package trace

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/gdngen/gdngen/internal/suggest"
)

// The format is tsl/profiler/protobuf/xplane.proto. Field numbers are given where they are used; other fields are skipped.

// message is a part of a file, with its offset.
type message struct {
	b  []byte
	at int64
}

// field is a field of a message: a number, or bytes of text or of an inner message.
type field struct {
	number protowire.Number
	value  uint64
	inside message
}

func (f field) text() string { return strings.ToValidUTF8(string(f.inside.b), "?") }

// damage is an error in the bytes of a file.
type damage struct {
	at     int64
	reason string
}

func (d *damage) Error() string { return d.reason }

// each calls do for the fields of a message. Fields in numbers must be numbers, fields in parts must be bytes.
func (m message) each(what string, numbers, parts []protowire.Number, do func(field) error) error {
	for at := 0; at < len(m.b); {
		bad := func(size int) error {
			if advice := suggest.Stead(m.b); advice != "" && m.at == 0 {
				return &damage{m.at, "no trace: " + advice}
			}
			reason := fmt.Sprintf("neither trace events (JSON) nor an XSpace: %s is no valid protobuf", what)
			if errors.Is(protowire.ParseError(size), io.ErrUnexpectedEOF) {
				reason = fmt.Sprintf("cut off, or no XSpace: %s ends too early", what)
			}
			return &damage{m.at + int64(at), reason}
		}
		n, kind, head := protowire.ConsumeTag(m.b[at:])
		if head < 0 {
			return bad(head)
		}
		f := field{number: n}
		rest, size := m.b[at+head:], 0
		switch kind {
		case protowire.VarintType:
			f.value, size = protowire.ConsumeVarint(rest)
		case protowire.Fixed64Type:
			f.value, size = protowire.ConsumeFixed64(rest)
		case protowire.BytesType:
			f.inside.b, size = protowire.ConsumeBytes(rest)
			f.inside.at = m.at + int64(at+head+size-len(f.inside.b))
		default:
			size = protowire.ConsumeFieldValue(n, kind, rest)
		}
		if size < 0 {
			return bad(size)
		}
		if has(numbers, n) && kind == protowire.BytesType || has(parts, n) && kind != protowire.BytesType {
			return &damage{m.at + int64(at), fmt.Sprintf("no XSpace: field %d of %s is of another type there", n, what)}
		}
		if err := do(f); err != nil {
			return err
		}
		at += head + size
	}
	return nil
}

func has(list []protowire.Number, n protowire.Number) bool {
	for _, x := range list {
		if x == n {
			return true
		}
	}
	return false
}

// fields returns a list of field numbers.
func fields(list ...protowire.Number) []protowire.Number { return list }

// readXSpace reads an XSpace: planes 1, errors 2, warnings 3, hostnames 4.
func readXSpace(b []byte) (*Trace, error) {
	t := &Trace{}
	err := message{b, 0}.each("the file", nil, fields(1, 2, 3, 4), func(f field) error {
		switch f.number {
		case 1:
			p, err := readPlane(f.inside)
			if err != nil {
				return err
			}
			t.Planes = append(t.Planes, p)
		case 2, 3:
			t.Warnings = append(t.Warnings, "the profiler says: "+f.text())
		case 4:
			t.Hosts = append(t.Hosts, f.text())
		}
		return nil
	})
	if err == nil && len(t.Planes) == 0 {
		err = &damage{0, "no XSpace: it has no planes"}
	}
	return t, err
}

// tables has what the lines of a plane refer to by number.
type tables struct {
	stats map[int64]string // names
	ops   map[int64]*Op
}

// readPlane reads an XPlane: id 1, name 2, lines 3, event metadata 4, stat metadata 5, stats 6.
func readPlane(m message) (*Plane, error) {
	p := &Plane{Stats: map[string]any{}}
	var lines, ops, stats []message
	t := tables{map[int64]string{}, map[int64]*Op{}}
	err := m.each("a plane", fields(1), fields(2, 3, 4, 5, 6), func(f field) error {
		switch f.number {
		case 2:
			p.Name = f.text()
		case 3:
			lines = append(lines, f.inside)
		case 4:
			ops = append(ops, f.inside)
		case 5:
			id, value, err := entry(f.inside)
			if err != nil {
				return err
			}
			return value.each("the name of a stat", fields(1), fields(2), func(f field) error {
				if f.number == 2 {
					t.stats[id] = f.text()
				}
				return nil
			})
		case 6:
			stats = append(stats, f.inside)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, s := range stats {
		k, v, err := t.stat(s)
		if err != nil {
			return nil, err
		}
		p.Stats[k] = v
	}
	scopes := scopeTables{}
	for _, o := range ops {
		if err := t.op(o, scopes); err != nil {
			return nil, err
		}
	}
	if len(scopes) > 0 {
		p.Stats[scopesStat] = scopes
	}
	for _, l := range lines {
		x, err := t.line(l)
		if err != nil {
			return nil, err
		}
		p.Lines = append(p.Lines, x)
	}
	return p, nil
}

// entry reads an entry of a map from int64 to messages.
func entry(m message) (key int64, value message, err error) {
	err = m.each("an entry of a table", fields(1), fields(2), func(f field) error {
		switch f.number {
		case 1:
			key = int64(f.value)
		case 2:
			value = f.inside
		}
		return nil
	})
	return
}

// op reads an XEventMetadata: id 1, name 2, metadata 3, display name 4, stats 5.
func (t tables) op(m message, scopes scopeTables) error {
	id, value, err := entry(m)
	if err != nil {
		return err
	}
	o := &Op{}
	display := ""
	var programs []message
	err = value.each("the description of an event", fields(1), fields(2, 3, 4, 5), func(f field) error {
		switch f.number {
		case 2:
			o.Long = f.text()
		case 4:
			display = f.text()
		case 5:
			k, v, err := t.stat(f.inside)
			if err != nil {
				return err
			}
			if b, ok := v.(message); ok && (k == "hlo_proto" || k == "Hlo Proto") {
				programs = append(programs, b)
			}
			o.set(k, v)
		}
		return nil
	})
	if o.Name == "" {
		o.Name = display
	}
	if o.Name == "" { // %fusion.2 = f32[8] fusion(...)
		head, _, _ := strings.Cut(o.Long, " = ")
		o.Name = strings.TrimPrefix(head, "%")
	}
	t.ops[id] = o
	for _, b := range programs { // the program's number is in a stat, or in the name: jit_step(8)
		_, number := call(o.Name)
		readModule(b, cmp.Or(o.Program, number, fmt.Sprint(uint64(id))), scopes)
	}
	return err
}

// stat reads an XStat: metadata id 1, and its value as double 2, uint64 3, int64 4, text 5, bytes 6, or the number of a name 7.
func (t tables) stat(m message) (key string, value any, err error) {
	err = m.each("a stat", fields(1, 2, 3, 4, 7), fields(5, 6), func(f field) error {
		switch f.number {
		case 1:
			key = t.stats[int64(f.value)]
		case 2:
			value = math.Float64frombits(f.value)
		case 3:
			value = f.value
		case 4:
			value = int64(f.value)
		case 5:
			value = f.text()
		case 6:
			value = f.inside
		case 7:
			value = t.stats[int64(f.value)]
		}
		return nil
	})
	return
}

// line reads an XLine: name 2, start in nanoseconds 3, events 4, display name 11.
func (t tables) line(m message) (*Line, error) {
	l := &Line{}
	var start int64
	var events []message
	err := m.each("a line", fields(1, 3, 9, 10), fields(2, 4, 11), func(f field) error {
		switch f.number {
		case 2:
			if l.Name == "" {
				l.Name = f.text()
			}
		case 3:
			start = int64(f.value) * 1000
		case 4:
			events = append(events, f.inside)
		case 11:
			l.Name = f.text()
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	kinds := map[Op]*Op{} // so that events with equal stats share one Op
	for _, m := range events {
		e, own, counted, err := t.event(m)
		if err != nil {
			return nil, err
		}
		if counted || e.Op == nil {
			continue // a count of events without a time, or of an unknown kind
		}
		if own != *e.Op {
			if kinds[own] == nil {
				kinds[own] = &own
			}
			e.Op = kinds[own]
		}
		e.Start += start
		l.Events = append(l.Events, e)
	}
	l.sort()
	return l, nil
}

// event reads an XEvent: metadata id 1, offset in picoseconds 2 or number of occurrences 5, duration in picoseconds 3, stats 4. own is
// its kind, with the event's own stats.
func (t tables) event(m message) (e Event, own Op, counted bool, err error) {
	var stats []message
	err = m.each("an event", fields(1, 2, 3, 5), fields(4), func(f field) error {
		switch f.number {
		case 1:
			e.Op = t.ops[int64(f.value)]
		case 2:
			e.Start = int64(f.value)
		case 3:
			e.Duration = int64(f.value)
		case 4:
			stats = append(stats, f.inside)
		case 5:
			counted = true
		}
		return nil
	})
	if err != nil || e.Op == nil {
		return
	}
	own = *e.Op
	for _, s := range stats {
		k, v, err := t.stat(s)
		if err != nil {
			return e, own, counted, err
		}
		own.set(k, v)
	}
	return
}

// scopesStat is our name, among a plane's stats, for the instructions of the modules that the plane describes.
const scopesStat = " scopes"

// readModule reads the instructions of an HloProto (xla/service/hlo.proto): module 1 { name 1, computations 3 { instructions 2 { name 1,
// opcode 2, metadata 7 { op name 2, source file 3, source line 4 } } } }. A module that can not be read only loses its scopes.
func readModule(m message, id string, scopes scopeTables) {
	m.each("a program", nil, nil, func(f field) error {
		if f.number != 1 {
			return nil
		}
		table, module := map[string]*Op{}, ""
		err := f.inside.each("a module", nil, nil, func(f field) error {
			switch f.number {
			case 1:
				module = f.text()
			case 3:
				return f.inside.each("a computation", nil, nil, func(f field) error {
					if f.number != 2 {
						return nil
					}
					o := &Op{}
					err := readInstruction(f.inside, o)
					table[o.Name] = o
					return err
				})
			}
			return nil
		})
		scopes[program{module: module, id: id}] = table
		return err
	})
}

func readInstruction(m message, o *Op) error {
	return m.each("an instruction", nil, nil, func(f field) error {
		switch f.number {
		case 1:
			o.Name = f.text()
		case 2:
			o.Category = f.text()
		case 7:
			line := uint64(0)
			err := f.inside.each("its metadata", nil, nil, func(f field) error {
				switch f.number {
				case 2:
					o.Scope = f.text()
				case 3:
					o.Source = f.text()
				case 4:
					line = f.value
				}
				return nil
			})
			if o.Source != "" && line > 0 {
				o.Source = fmt.Sprintf("%s:%d", o.Source, line)
			}
			return err
		}
		return nil
	})
}
