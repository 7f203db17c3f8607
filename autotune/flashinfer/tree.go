package flashinfer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
)

// tree is a JSON value with its path. Members of an object keep their order.
type tree struct {
	path    string
	value   any // nil, bool, json.Number or string; objects and arrays use members and items instead
	members []member
	items   []*tree
}

type member struct {
	name string
	*tree
}

// parse reads one JSON value; paths begin with name.
func parse(name string, data []byte) (*tree, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	t, err := read(d, name)
	if err == nil {
		if _, more := d.Token(); more != io.EOF {
			err = errors.New("there is more after the value")
		}
	}
	if err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		offset := d.InputOffset()
		if syntax := (*json.SyntaxError)(nil); errors.As(err, &syntax) {
			offset = syntax.Offset
		}
		return nil, fmt.Errorf("%s: line %d: %w", name, 1+bytes.Count(data[:min(offset, int64(len(data)))], []byte("\n")), err)
	}
	return t, nil
}

func read(d *json.Decoder, path string) (*tree, error) {
	token, err := d.Token()
	if err != nil {
		return nil, err
	}
	t := &tree{path: path}
	switch token {
	case json.Delim('{'):
		seen := map[string]bool{}
		for d.More() {
			key, err := d.Token()
			if err != nil {
				return nil, err
			}
			name := key.(string)
			at := path + "." + name
			if seen[name] {
				return nil, fmt.Errorf("%s is there twice", at)
			}
			seen[name] = true
			x, err := read(d, at)
			if err != nil {
				return nil, err
			}
			t.members = append(t.members, member{name, x})
		}
		t.value = json.Delim('{')
		_, err = d.Token()
	case json.Delim('['):
		for d.More() {
			x, err := read(d, indexed(path, len(t.items)))
			if err != nil {
				return nil, err
			}
			t.items = append(t.items, x)
		}
		t.value = json.Delim('[')
		_, err = d.Token()
	default:
		t.value = token
	}
	return t, err
}

// kind returns JSON's name of the value's type.
func (t *tree) kind() string {
	switch v := t.value.(type) {
	case nil:
		return "null"
	case bool:
		return "a boolean"
	case string:
		return "a string"
	case json.Number:
		return "the number " + v.String()
	case json.Delim:
		if v == '{' {
			return "an object"
		}
		return "an array"
	}
	return "?"
}

// any returns the value as encoding/json would decode it.
func (t *tree) any() any {
	switch t.value {
	case json.Delim('{'):
		m := map[string]any{}
		for _, x := range t.members {
			m[x.name] = x.any()
		}
		return m
	case json.Delim('['):
		l := []any{}
		for _, x := range t.items {
			l = append(l, x.any())
		}
		return l
	}
	return t.value
}

// reader collects the faults of a file.
type reader struct{ errs []error }

func (r *reader) failf(path, format string, args ...any) {
	r.errs = append(r.errs, fmt.Errorf("%s: %s", path, fmt.Sprintf(format, args...)))
}

func (r *reader) err() error { return errors.Join(r.errs...) }

// indexed returns the path of an element.
func indexed(path string, i int) string { return fmt.Sprintf("%s[%d]", path, i) }

// fields maps names of members to handlers; other members are kept. A missing required member is a fault; null counts
// as missing if the member is not required.
type fields map[string]field

type field struct {
	required bool
	nullable bool // null reaches the handler
	read     func(*tree)
}

func (r *reader) object(t *tree, f fields) (extra map[string]any) {
	if t.value != json.Delim('{') {
		r.failf(t.path, "is %s, want an object", t.kind())
		return nil
	}
	seen := map[string]bool{}
	for _, m := range t.members {
		h, known := f[m.name]
		if !known {
			if extra == nil {
				extra = map[string]any{}
			}
			extra[m.name] = m.any()
			continue
		}
		seen[m.name] = true
		if m.value == nil && !h.nullable {
			if h.required {
				r.failf(m.path, "is null")
			}
			continue
		}
		h.read(m.tree)
	}
	for _, name := range sortedKeys(f) {
		if f[name].required && !seen[name] {
			r.failf(t.path+"."+name, "is missing")
		}
	}
	return extra
}

// text reads a string; an empty one is a fault unless mayBeEmpty.
func (r *reader) text(at *string, mayBeEmpty bool) func(*tree) {
	return func(t *tree) {
		s, ok := t.value.(string)
		switch {
		case !ok:
			r.failf(t.path, "is %s, want a string", t.kind())
		case s == "" && !mayBeEmpty:
			r.failf(t.path, "is empty")
		default:
			*at = s
		}
	}
}

// integer reads an integer of at least low.
func (r *reader) integer(at *int, low int) func(*tree) {
	return func(t *tree) {
		n, ok := t.value.(json.Number)
		if !ok {
			r.failf(t.path, "is %s, want an integer", t.kind())
			return
		}
		v, err := strconv.Atoi(n.String())
		switch {
		case err != nil:
			r.failf(t.path, "is %s, want an integer", n)
		case v < low:
			r.failf(t.path, "is %d, want at least %d", v, low)
		default:
			*at = v
		}
	}
}

// list reads an array, one element after another.
func (r *reader) list(each func(*tree)) func(*tree) {
	return func(t *tree) {
		if t.value != json.Delim('[') {
			r.failf(t.path, "is %s, want an array", t.kind())
			return
		}
		for _, x := range t.items {
			each(x)
		}
	}
}

// texts reads an array of non-empty strings.
func (r *reader) texts(at *[]string) func(*tree) {
	return r.list(func(t *tree) {
		var s string
		r.text(&s, false)(t)
		*at = append(*at, s)
	})
}

// each reads the members of an object that serves as a map.
func (r *reader) each(visit func(name string, t *tree)) func(*tree) {
	return func(t *tree) {
		if t.value != json.Delim('{') {
			r.failf(t.path, "is %s, want an object", t.kind())
			return
		}
		for _, m := range t.members {
			if m.name == "" {
				r.failf(t.path, "has a member without a name")
				continue
			}
			visit(m.name, m.tree)
		}
	}
}
