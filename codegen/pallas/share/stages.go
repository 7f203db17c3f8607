package share

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// fewLines are those of a function that each file keeps.
const fewLines = 6

// Runs is what runs work by itself, where the work of a stage that others interleave stands in a kernel that interleaves none.
const Runs = `def _run(work: Work[T]) -> T:
    """Runs work by itself."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            return end.value`

var (
	number    = regexp.MustCompile(`[\w.]+`)
	defined   = regexp.MustCompile(`^def (_\w+)\((.*)\) -> (.*):$`)
	prefixes  = regexp.MustCompile(`^_(forward|backward)_|_\d+$`)
	shapes    = regexp.MustCompile(`: [^:]*\[[^:]*\]\."""$`)
	waiting   = regexp.MustCompile(`^ *yield `)
	nothing   = regexp.MustCompile(`^ *\w+(, \w+)* = \[\](, \[\])*$`)
	appending = regexp.MustCompile(`^( *)(\w+)\.append\((.*)\)$`)
	naming    = regexp.MustCompile(`^( *)(\w+) = (.*)$`)
	storing   = regexp.MustCompile(`^ *refs\.\w+\[.*\] = \w+$`)
)

// place stands for an integer.
const place = "\x00"

// line is a line of several functions, with a place for each integer; ints are those of each function, nil where it has no such line.
type line struct {
	text    string
	ints    [][]int
	guarded bool // where there are references alone
}

func (l line) indent() int   { return len(l.text) - len(strings.TrimLeft(l.text, " ")) }
func (l line) waits() bool   { return waiting.MatchString(l.text) }
func (l line) stores() bool  { return storing.MatchString(l.text) }
func (l line) returns() bool { return strings.HasPrefix(l.text, "    return ") }

// spare says whether a function may have a line for the sake of another: it makes or fills a list that nobody needs to read.
func (l line) spare() bool {
	m := appending.FindStringSubmatch(l.text)
	return l.waits() || l.returns() || nothing.MatchString(l.text) || m != nil && !strings.ContainsAny(m[3], "([ ")
}

// stage is a function of one or several kernels.
type stage struct {
	members []member
	params  []string
	result  string
	doc     string
	lines   []line
}

// member is a function of a file.
type member struct {
	file, at int
	name     string
	refs     bool // it takes references
}

// newStage reads a function; nil where it is none of a stage.
func newStage(file, at int, text string) *stage {
	l := strings.Split(text, "\n")
	m := defined.FindStringSubmatch(l[0])
	if m == nil || len(l) < fewLines || !strings.HasPrefix(l[1], `    """`) || strings.Contains(m[2], "*") {
		return nil
	}
	s := &stage{result: m[3], doc: shapes.ReplaceAllString(l[1], `."""`)}
	for _, p := range strings.Split(m[2], ", ") {
		if strings.HasPrefix(p, "refs: ") {
			p = "refs: Any"
		}
		s.params = append(s.params, p)
	}
	s.members = []member{{file, at, m[1], slices.Contains(s.params, "refs: Any")}}
	for _, t := range l[2:] {
		if !strings.HasPrefix(t, "    ") {
			return nil
		}
		n := line{ints: [][]int{{}}}
		n.text = number.ReplaceAllStringFunc(t, func(w string) string {
			if i, err := strconv.Atoi(w); err == nil {
				n.ints[0] = append(n.ints[0], i)
				return place
			}
			return w
		})
		s.lines = append(s.lines, n)
	}
	return s
}

// merge makes one function of two that differ in integers, in waits and in lists that one of them keeps; nil where they differ in more.
func merge(a, b *stage) *stage {
	out := &stage{members: slices.Concat(a.members, b.members), doc: a.doc, result: a.result}
	if out.params = a.params; len(b.params) > len(a.params) {
		out.params = b.params
	}
	for _, s := range []*stage{a, b} {
		if !slices.Equal(s.params, out.params) && !slices.Equal(s.params, slices.DeleteFunc(slices.Clone(out.params), func(p string) bool { return p == "refs: Any" || p == "place: int" })) {
			return nil
		}
		if strings.HasPrefix(s.result, "Work[") {
			out.result = s.result
		}
	}
	if plain(a.result) == "None" || plain(b.result) != "None" {
		kind := plain(b.result)
		if out.result = kind; strings.HasPrefix(a.result, "Work[") || strings.HasPrefix(b.result, "Work[") {
			out.result = "Work[" + kind + "]"
		}
		if plain(a.result) != "None" && plain(a.result) != kind {
			return nil
		}
	}
	add := func(l line, a, b [][]int) {
		l.ints = slices.Concat(a, b)
		out.lines = append(out.lines, l)
	}
	none := func(s *stage) [][]int { return make([][]int, len(s.members)) }
	refs := func(s *stage) bool { return slices.ContainsFunc(s.members, func(m member) bool { return m.refs }) }
	x, y := a.lines, b.lines
	for len(x)+len(y) > 0 {
		var l, r line
		if len(x) > 0 {
			l = x[0]
		}
		if len(y) > 0 {
			r = y[0]
		}
		switch {
		case l.text == r.text:
			l.guarded = l.guarded || r.guarded
			add(l, l.ints, r.ints)
			x, y = x[1:], y[1:]
		case nothing.MatchString(l.text) && nothing.MatchString(r.text):
			add(lists(l, r), none(a), none(b))
			x, y = x[1:], y[1:]
		case l.spare() && (!l.returns() || len(y) == 0) && (!r.waits() || l.indent() >= r.indent()):
			add(l, l.ints, none(b))
			x = x[1:]
		case r.spare() && (!r.returns() || len(x) == 0):
			add(r, none(a), r.ints)
			y = y[1:]
		case l.stores() && !refs(b):
			l.guarded = true
			add(l, l.ints, none(b))
			x = x[1:]
		case r.stores() && !refs(a):
			r.guarded = true
			add(r, none(a), r.ints)
			y = y[1:]
		case kept(l, r) != "":
			add(l, l.ints, r.ints)
			x, y = x[1:], slices.Concat([]line{{text: kept(l, r), ints: none(b)}}, y[1:])
		case kept(r, l) != "":
			add(r, l.ints, r.ints)
			x, y = slices.Concat([]line{{text: kept(r, l), ints: none(a)}}, x[1:]), y[1:]
		default:
			return nil
		}
	}
	return out
}

func plain(result string) string {
	return strings.TrimSuffix(strings.TrimPrefix(result, "Work["), map[bool]string{true: "]"}[strings.HasPrefix(result, "Work[")])
}

// lists makes the lists of nothing that either line makes.
func lists(a, b line) line {
	names := func(l line) []string {
		return strings.Split(strings.TrimSpace(l.text[:strings.Index(l.text, " = ")]), ", ")
	}
	all := names(a)
	for _, n := range names(b) {
		if !slices.Contains(all, n) {
			all = append(all, n)
		}
	}
	return line{text: strings.Repeat(" ", a.indent()) + strings.Join(all, ", ") + " = []" + strings.Repeat(", []", len(all)-1)}
}

// kept is how a list takes a value that one function names, where the other makes it in the list.
func kept(named, listed line) string {
	n, l := naming.FindStringSubmatch(named.text), appending.FindStringSubmatch(listed.text)
	if n == nil || l == nil || n[1] != l[1] || n[3] != l[3] {
		return ""
	}
	return l[1] + l[2] + ".append(" + n[2] + ")"
}

// text is the function, and what each member's calls add.
func (s *stage) text(name string) (text string, args []string, ok bool) {
	args = make([]string, len(s.members))
	base, ok := s.base()
	if !ok {
		return "", nil, false
	}
	params := slices.Clone(s.params)
	if slices.ContainsFunc(s.members, func(m member) bool { return !m.refs }) && slices.Contains(params, "refs: Any") {
		for i, p := range params {
			params[i] = strings.Replace(strings.Replace(p, "refs: Any", "refs: Any = None", 1), "place: int", "place: int = 0", 1)
		}
	}
	waits := make([][]string, len(s.members))
	var lines []string
	for i, l := range s.lines {
		k := 0
		line := replaceNumbers(l.text, func(before, after string) string {
			v := s.values(l, k, l.waits() && k == 0)
			k++
			switch f, same, _ := factor(v, base); {
			case l.waits() && k == 1 && !constant(v):
				for i := range waits {
					waits[i] = append(waits[i], strconv.Itoa(v[i]))
				}
				return fmt.Sprintf("waits[%d]", len(waits[0])-1)
			case same:
				return strconv.Itoa(first(v))
			case f == 1:
				return "count"
			case strings.HasSuffix(before, "(") && strings.HasPrefix(after, ")"):
				return fmt.Sprintf("%d * count", f)
			default:
				return fmt.Sprintf("(%d * count)", f)
			}
		})
		if l.guarded {
			if i == 0 || !s.lines[i-1].guarded {
				lines = append(lines, strings.Repeat(" ", l.indent())+"if refs is not None:")
			}
			line = "    " + line
		}
		lines = append(lines, line)
	}
	own := []string{}
	if base != nil {
		own = append(own, "count: int")
		for i := range args {
			args[i] += fmt.Sprintf(", count=%d", base[i])
		}
	}
	if len(waits[0]) > 0 {
		own = append(own, "waits: tuple[int, ...]")
		for i, w := range waits {
			if slices.ContainsFunc(w, func(t string) bool { return t != "0" }) {
				args[i] += ", waits=(" + strings.Join(w, ", ") + ",)"
			} else {
				args[i] += fmt.Sprintf(", waits=(0,) * %d", len(w))
			}
		}
	}
	if len(own) > 0 {
		params = append(append(params, "*"), own...)
	}
	return "def " + name + "(" + strings.Join(params, ", ") + ") -> " + s.result + ":\n" + s.doc + "\n" + strings.Join(lines, "\n"), args, true
}

// replaceNumbers replaces each integer of a text by what f makes of what stands before and behind it.
func replaceNumbers(text string, f func(before, after string) string) string {
	parts := strings.Split(text, place)
	out := parts[0]
	for i, p := range parts[1:] {
		out += f(parts[i], p) + p
	}
	return out
}

// values are those of an integer in each function: -1 where it has none, or waits for nothing.
func (s *stage) values(l line, k int, wait bool) []int {
	out := make([]int, len(s.members))
	for i, v := range l.ints {
		if out[i] = -1; v != nil {
			out[i] = v[k]
		} else if wait {
			out[i] = 0
		}
	}
	return out
}

func first(v []int) int {
	return v[slices.IndexFunc(v, func(i int) bool { return i >= 0 })]
}

func constant(v []int) bool {
	return !slices.ContainsFunc(v, func(i int) bool { return i >= 0 && i != first(v) })
}

// factor is by what an integer is more than a base, or says that it is the same in all functions.
func factor(v, base []int) (f int, same, ok bool) {
	if constant(v) {
		return 0, true, true
	}
	for i := range v {
		switch {
		case v[i] < 0:
		case base == nil || v[i]%base[i] != 0 || f > 0 && f != v[i]/base[i]:
			return 0, false, false
		default:
			f = v[i] / base[i]
		}
	}
	return f, false, f > 0
}

// base is the integer of each function that others are multiples of, nil where none differ.
func (s *stage) base() (base []int, ok bool) {
	var all [][]int
	for _, l := range s.lines {
		for k := range strings.Count(l.text, place) {
			if v := s.values(l, k, false); !(l.waits() && k == 0) && !constant(v) {
				all = append(all, v)
			}
		}
	}
	if len(all) == 0 {
		return nil, true
	}
	base = slices.MinFunc(all, func(a, b []int) int { return cmp.Compare(first(a), first(b)) })
	for _, v := range all {
		if _, _, ok := factor(v, base); !ok || slices.Contains(base, -1) || slices.Contains(base, 0) {
			return nil, false
		}
	}
	return base, true
}

// Stages makes functions of the stages of kernels, which differ in waits, in how many heads there are and in what they keep, the same in all
// files, so that files may share them: waits and numbers of heads are arguments.
func Stages(files []string) []string {
	all := make([][]piece, len(files))
	groups := map[string][]*stage{}
	for i, f := range files {
		all[i] = pieces(f)
		for j, p := range all[i] {
			if s := newStage(i, j, p.text); s != nil && called(f, s.members[0].name) {
				key := prefixes.ReplaceAllString(s.members[0].name, "_")
				groups[key] = append(groups[key], s)
			}
		}
	}
	for _, key := range keys(groups) {
		for rest := groups[key]; len(rest) > 0; {
			one, left := rest[0], []*stage(nil)
			for _, s := range rest[1:] {
				if m := merge(one, s); m != nil {
					if _, _, ok := m.text("_"); ok {
						one = m
						continue
					}
				}
				left = append(left, s)
			}
			if len(one.members) > 1 {
				rewrite(all, one)
			}
			rest = left
		}
	}
	var out []string
	for _, f := range all {
		var texts []string
		for _, p := range f {
			if p.text != "" {
				texts = append(texts, p.text)
			}
		}
		out = append(out, joined(texts))
	}
	return out
}

// called says whether a file has a function to call it, and for nothing else.
func called(text, name string) bool {
	return len(regexp.MustCompile(`\b`+name+`\b`).FindAllString(text, -1)) == strings.Count(text, name+"(")
}

// rewrite puts one function in the place of several, and has their callers call it.
func rewrite(all [][]piece, s *stage) {
	name := slices.MinFunc(s.members, func(a, b member) int { return cmp.Compare(len(a.name), len(b.name)) }).name
	for _, m := range s.members {
		for j, p := range all[m.file] {
			if slices.Contains(p.names, name) && !slices.ContainsFunc(s.members, func(o member) bool { return o.file == m.file && o.at == j }) {
				return // of another text
			}
		}
	}
	text, args, _ := s.text(name)
	seen := map[int]bool{}
	for i, m := range s.members {
		f := all[m.file]
		old := f[m.at].text
		if f[m.at] = (piece{[]string{name}, text}); seen[m.file] {
			f[m.at] = piece{}
		}
		seen[m.file] = true
		call := regexp.MustCompile(`(yield from )?\b` + m.name + `\(([^()]*)\)`)
		for j := range f {
			if j == m.at {
				continue
			}
			how := ""
			if strings.HasPrefix(s.result, "Work[") {
				if how = "yield from "; !strings.Contains(old, "yield") && !strings.Contains(f[j].text, "yield") {
					how = "_run("
				}
			}
			f[j].text = call.ReplaceAllStringFunc(f[j].text, func(t string) string {
				c := call.FindStringSubmatch(t)
				t = how + name + "(" + c[2] + args[i] + ")"
				if how == "_run(" {
					t += ")"
				}
				return t
			})
		}
		if !slices.ContainsFunc(f, func(p piece) bool { return slices.Contains(p.names, "_run") }) && slices.ContainsFunc(f, func(p piece) bool { return strings.Contains(p.text, "_run(") }) {
			all[m.file] = append([]piece{{[]string{"_run"}, Runs}}, f...)
		}
	}
}
