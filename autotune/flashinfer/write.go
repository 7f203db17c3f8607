package flashinfer

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// object writes a JSON object whose members keep their order.
type object struct {
	b   bytes.Buffer
	err error
}

// add appends a member.
func (o *object) add(name string, value any) {
	if o.err != nil {
		return
	}
	key, err := encode(name)
	if err == nil {
		var data []byte
		if data, err = encode(value); err == nil {
			if o.b.Len() > 0 {
				o.b.WriteByte(',')
			}
			o.b.Write(key)
			o.b.WriteByte(':')
			o.b.Write(data)
		}
	}
	o.err = err
}

// addText appends a member unless it is empty.
func (o *object) addText(name, value string) {
	if value != "" {
		o.add(name, value)
	}
}

// extra appends the members that the schema does not know.
func (o *object) extra(m map[string]any) {
	for _, name := range sortedKeys(m) {
		o.add(name, m[name])
	}
}

func (o *object) json() ([]byte, error) {
	if o.err != nil {
		return nil, o.err
	}
	return slices.Concat([]byte("{"), o.b.Bytes(), []byte("}")), nil
}

// encode is json.Marshal without HTML escapes.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimRight(b.Bytes(), "\n"), nil
}

// Indent returns v as indented JSON, the form in which definitions and solutions are stored.
func Indent(v any) ([]byte, error) {
	data, err := encode(v)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if err := json.Indent(&b, data, "", "  "); err != nil {
		return nil, err
	}
	b.WriteByte('\n')
	return b.Bytes(), nil
}

// Line returns v as one line of a JSON lines file, with its newline.
func Line(v any) ([]byte, error) {
	data, err := encode(v)
	return append(data, '\n'), err
}

// ReadLines reads the traces, or workloads, of a JSON lines file; name is for errors. Empty lines are skipped.
func ReadLines(name string, data []byte) ([]*Trace, error) {
	var list []*Trace
	line := 0
	for text := range bytes.Lines(data) {
		line++
		if len(bytes.TrimSpace(text)) == 0 {
			continue
		}
		t, err := ParseTrace(text)
		if err != nil {
			return list, fmt.Errorf("%s:%d: %w", name, line, err)
		}
		list = append(list, t)
	}
	return list, nil
}
