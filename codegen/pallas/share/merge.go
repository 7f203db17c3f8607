package share

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
)

// merging makes one function of two.
type merging struct {
	a, b, out *stage
	of, back  map[string]string // what b's names are in a, and a's in b
	pending   map[string]int    // lists that b has set to nothing, and the line that does
}

// merge makes one function of two that differ in integers, in names and in lists that one of them keeps; nil where they differ in more.
func merge(a, b *stage) *stage {
	m := &merging{a: a, b: b, out: &stage{doc: a.doc, params: slices.Clone(a.params), own: maps.Clone(a.own)}, of: map[string]string{}, back: map[string]string{}, pending: map[string]int{}}
	if m.out.result = union(a.result, b.result); m.out.result == "" || !m.merge(a.lines, b.lines) {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(m.pending)) {
		if l := &m.out.lines[m.pending[name]]; m.of[name] == "" {
			l.text = empty(l.indent(), append(sets(l.text), m.name(name)))
		}
	}
	for _, p := range b.params {
		i := slices.IndexFunc(a.params, func(q param) bool { return q.name == m.of[p.name] })
		switch {
		case i >= 0 && a.params[i].hint == p.hint:
		case i < 0 && m.of[p.name] == "" && (p.name == "refs" || p.name == "place"):
			m.out.params = append(m.out.params, p)
			m.of[p.name] = p.name
		default:
			return nil
		}
	}
	for _, p := range a.params {
		if m.back[p.name] == "" && p.name != "refs" && p.name != "place" {
			return nil
		}
	}
	m.out.members = slices.Clone(a.members)
	for _, o := range b.members {
		o.params = slices.Clone(o.params)
		for i, p := range o.params {
			o.params[i] = m.of[p]
		}
		m.out.members = append(m.out.members, o)
	}
	return m.out
}

// union is what a function gives that stands for two; empty for none.
func union(a, b string) string {
	switch {
	case a == "None":
		return b
	case b == "None", b == a:
		return a
	}
	return ""
}

func (m *merging) merge(x, y []line) bool {
	none := func(s *stage) [][]string { return make([][]string, len(s.members)) }
	add := func(l line, a, b [][]string) {
		l.values = slices.Concat(a, b)
		m.out.lines = append(m.out.lines, l)
	}
	one := func(l line) { add(l, l.values, none(m.b)) }
	other := func(r line) { add(r.is(m.renamed(r.text)), none(m.a), r.values) }
	for len(x)+len(y) > 0 {
		var l, r line
		if len(x) > 0 {
			l = x[0]
		}
		if len(y) > 0 {
			r = y[0]
		}
		if both, ok := m.unify(l, r); ok {
			m.out.lines = append(m.out.lines, both)
			x, y = x[1:], y[1:]
			continue
		}
		switch {
		case nothing.MatchString(l.text) && nothing.MatchString(r.text):
			for _, n := range sets(r.text) {
				m.pending[n] = len(m.out.lines)
			}
			add(l, none(m.a), none(m.b))
			x, y = x[1:], y[1:]
		case l.spare() && (!l.returns() || len(y) == 0):
			one(l)
			x = x[1:]
		case r.spare() && (!r.returns() || len(x) == 0):
			other(r)
			y = y[1:]
		case l.stores() && !m.b.takes("refs"):
			l.guard = "refs"
			one(l)
			x = x[1:]
		default:
			both, rest, ok := m.kept(l, r)
			if !ok {
				return false
			}
			m.out.lines = append(m.out.lines, both)
			x, y = x[1:], slices.Concat(rest, y[1:])
		}
	}
	return true
}

// name is a name of b in the function that is made.
func (m *merging) name(n string) string {
	if m.of[n] == "" {
		name := n
		for i := 2; m.out.own[name]; i++ {
			name = fmt.Sprintf("%s_%d", n, i)
		}
		m.of[n], m.back[name], m.out.own[name] = name, n, true
	}
	return m.of[n]
}

func (m *merging) renamed(text string) string {
	return token.ReplaceAllStringFunc(text, func(t string) string {
		if m.b.own[t] {
			return m.name(t)
		}
		return t
	})
}

// unifying goes through two lines at a time.
type unifying struct {
	l, r, out line
	x, y      []string // tokens
	i, j      int      // how many of them are taken
	k, n      int      // and how many places and options
}

// put adds a token, of either line or of both. A function that has no value there has the missing one.
func (u *unifying) put(t string, left, right bool, missing string) {
	u.out.text += t
	if t == place || t == option {
		values(u.l.values, u.out.values[:len(u.l.values)], &u.k, left, missing)
		values(u.r.values, u.out.values[len(u.l.values):], &u.n, right, missing)
	}
	if left {
		u.i++
	}
	if right {
		u.j++
	}
}

// values hands on the values at place k, where there is one, or else the missing one.
func values(from, to [][]string, k *int, has bool, missing string) {
	for i, v := range from {
		if v != nil && has {
			missing = v[*k]
		}
		if v != nil {
			to[i] = append(to[i], missing)
		}
	}
	if has {
		*k++
	}
}

// tokens are the next ones, empty where there are none.
func (u *unifying) tokens() (s, t string) {
	if u.i < len(u.x) {
		s = u.x[u.i]
	}
	if u.j < len(u.y) {
		t = u.y[u.j]
	}
	return s, t
}

// unify makes one line of two that differ in names and integers.
func (m *merging) unify(l, r line) (line, bool) {
	u := &unifying{l: l, r: r, x: token.FindAllString(l.text, -1), y: token.FindAllString(r.text, -1)}
	of, back := maps.Clone(m.of), maps.Clone(m.back)
	u.out = line{values: make([][]string, len(m.a.members)+len(m.b.members)), guard: cmp.Or(l.guard, r.guard)}
	if len(l.values) != len(m.a.members) || len(r.values) != len(m.b.members) {
		return u.out, false
	}
	for u.i < len(u.x) || u.j < len(u.y) {
		s, t := u.tokens()
		switch own := m.a.own[s] && m.b.own[t]; {
		case s == option && t == ")":
			u.put(s, true, false, "None")
		case t == option && s == ")":
			u.put(t, false, true, "None")
		case own && of[t] == "" && back[s] == "":
			of[t], back[s] = s, t
			u.put(s, true, true, "")
		case own && of[t] == s, s == t && s != "" && !m.a.own[s] && !m.b.own[t]:
			u.put(s, true, true, "")
		default:
			return u.out, false
		}
	}
	m.of, m.back = of, back
	return u.out, true
}

// kept takes a value that one function names where the other makes it in a list: the list takes the name.
func (m *merging) kept(l, r line) (both line, rest []line, ok bool) {
	n, v := naming.FindStringSubmatch(l.text), appending.FindStringSubmatch(r.text)
	if n == nil || v == nil || n[1] != v[1] {
		return line{}, nil, false
	}
	if both, ok = m.unify(l.is(n[3]), r.is(v[3])); !ok {
		return line{}, nil, false
	}
	name := "kept_" + n[2]
	m.b.own[name], m.of[name], m.back[n[2]] = true, n[2], name
	return both.is(n[1] + n[2] + " = " + both.text), []line{{text: v[1] + v[2] + ".append(" + name + ")", values: make([][]string, len(m.b.members))}}, true
}
