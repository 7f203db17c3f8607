package share

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/gdngen/gdngen/codegen/pallas/pytext"
)

// fewLines are those of a function that each file keeps.
const fewLines = 6

var (
	number    = regexp.MustCompile(`, 0x\w+|[\w.]+`)
	token     = regexp.MustCompile(`"[^"]*"|\.?[A-Za-z_]\w*|[\d.]+\w*|.`)
	defined   = regexp.MustCompile(`^def (_\w+)\((.*)\) -> (.*):$`)
	prefixes  = regexp.MustCompile(`^_(forward|backward)_|_\d+$`)
	calling   = regexp.MustCompile(`\b(_\w+)\(([^()]*)\)`)
	headed    = regexp.MustCompile(`^def \w+\((.*)\) ->`)
	shapes    = regexp.MustCompile(`: [^:]*\[[^:]*\]\."""$`)
	nothing   = regexp.MustCompile(`^ *\w+(, \w+)* = \[\](, \[\])*$`)
	appending = regexp.MustCompile(`^( *)(\w+)\.append\((.*)\)$`)
	naming    = regexp.MustCompile(`^( *)(\w+(?:, \w+)*) = (.*)$`)
	storing   = regexp.MustCompile(`^ *refs\.\w+\[.*\] = \w+$`)
)

// place stands for an integer, and option for a last argument that some calls have not.
const place, option = "\x00", "\x01"

// line is a line of several functions; values are those of each at its places and options, nil where it has no such line.
type line struct {
	text   string
	values [][]string
	guard  string // the parameter without which it is left out
}

func (l line) indent() int   { return len(l.text) - len(strings.TrimLeft(l.text, " ")) }
func (l line) stores() bool  { return storing.MatchString(l.text) }
func (l line) returns() bool { return strings.HasPrefix(l.text, "    return ") }

// is is the line with another text, of which it has all values.
func (l line) is(text string) line {
	l.text = text
	return l
}

// spare says whether a function may have a line for the sake of another: it makes or fills a list that nobody needs to read.
func (l line) spare() bool {
	m := appending.FindStringSubmatch(l.text)
	return l.returns() || nothing.MatchString(l.text) || m != nil && !strings.ContainsAny(m[3], "([ ")
}

// stage is a function of one or several kernels.
type stage struct {
	members []member
	params  []param
	result  string
	doc     string
	lines   []line
	own     map[string]bool // names that it sets
}

type param struct{ name, hint string }

// member is a function of a file, and the names of its parameters in the stage.
type member struct {
	file, at int
	name     string
	params   []string
}

// newStage reads a function; nil where it is none of a stage.
func newStage(file, at int, text string) *stage {
	l := strings.Split(text, "\n")
	m := defined.FindStringSubmatch(l[0])
	if m == nil || len(l) < fewLines || !strings.HasPrefix(l[1], `    """`) || strings.ContainsAny(m[2], "*=") {
		return nil
	}
	s := &stage{result: m[3], doc: shapes.ReplaceAllString(l[1], `."""`), own: map[string]bool{}}
	one := member{file: file, at: at, name: m[1]}
	for _, p := range strings.Split(m[2], ", ") {
		name, hint, _ := strings.Cut(p, ": ")
		if s.own[name] = true; name == "refs" {
			hint = "Any"
		}
		s.params, one.params = append(s.params, param{name, hint}), append(one.params, name)
	}
	s.members = []member{one}
	for _, t := range l[2:] {
		if !strings.HasPrefix(t, "    ") {
			return nil
		}
		for _, n := range sets(t) {
			s.own[n] = true
		}
		n := line{values: [][]string{{}}}
		n.text = number.ReplaceAllStringFunc(t, func(w string) string {
			if strings.HasPrefix(w, ",") {
				n.values[0] = append(n.values[0], w[2:])
				return option
			}
			if _, err := strconv.Atoi(w); err != nil {
				return w
			}
			n.values[0] = append(n.values[0], w)
			return place
		})
		if last := len(s.lines) - 1; last >= 0 && nothing.MatchString(t) && nothing.MatchString(s.lines[last].text) && s.lines[last].indent() == n.indent() {
			s.lines[last].text = empty(n.indent(), slices.Concat(sets(s.lines[last].text), sets(t)))
			continue
		}
		s.lines = append(s.lines, n)
	}
	return s
}

// sets are the names that a line sets.
func sets(text string) []string {
	if m := naming.FindStringSubmatch(text); m != nil {
		return strings.Split(m[2], ", ")
	}
	return nil
}

func empty(indent int, names []string) string {
	return strings.Repeat(" ", indent) + strings.Join(names, ", ") + " = []" + strings.Repeat(", []", len(names)-1)
}

// header is the parameters, those of all functions before others.
func (s *stage) header() []string {
	var params []string
	for _, p := range s.params {
		switch all := s.takes(p.name); {
		case all && len(params) > 0 && strings.Contains(params[len(params)-1], " = "), !all && p.name == "place":
			params = append(params, p.name+": "+p.hint+" = 0")
		case all:
			params = append(params, p.name+": "+p.hint)
		case p.name == "refs":
			params = append(params, "refs: Any = None")
		default:
			params = append(params, p.name+": "+p.hint+" | None = None")
		}
	}
	return params
}

// text is the function, and what each member's calls add.
func (s *stage) text(name string) (text string, args []string, ok bool) {
	args = make([]string, len(s.members))
	base, ok := s.base()
	if !ok {
		return "", nil, false
	}
	params := s.header()
	var bits []string
	var lines []string
	for i, l := range s.lines {
		line := replaceNumbers(l.text, func(k int, kind, before, after string) string {
			if kind == option {
				v := s.texts(l, k)
				if c := slices.Compact(slices.DeleteFunc(slices.Clone(v), func(t string) bool { return t == "" })); len(c) == 1 {
					return strings.TrimSuffix(", "+c[0], ", None")
				}
				ok = ok && (bits == nil || slices.Equal(bits, v))
				bits = v
				return ", bits"
			}
			v := s.values(l, k)
			switch f, same, _ := factor(v, base); {
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
		if l.guard != "" {
			if i == 0 || s.lines[i-1].guard != l.guard {
				lines = append(lines, strings.Repeat(" ", l.indent())+"if "+l.guard+" is not None:")
			}
			line = "    " + line
		}
		lines = append(lines, line)
	}
	own := arguments(args, base, bits)
	if len(own) > 0 {
		params = append(append(params, "*"), own...)
	}
	return "def " + name + "(" + strings.Join(params, ", ") + ") -> " + s.result + ":\n" + s.doc + "\n" + strings.Join(lines, "\n"), args, ok
}

// arguments are the parameters by keyword; it adds to what calls give.
func arguments(args []string, base []int, bits []string) (own []string) {
	if base != nil {
		own = append(own, "count: int")
		for i := range args {
			args[i] += fmt.Sprintf(", count=%d", base[i])
		}
	}
	if bits != nil {
		own = append(own, "bits: int | None")
		for i, b := range bits {
			args[i] += ", bits=" + cmp.Or(b, "None")
		}
	}
	return own
}

// takes says whether all functions have a parameter.
func (s *stage) takes(name string) bool {
	return !slices.ContainsFunc(s.members, func(m member) bool { return !slices.Contains(m.params, name) })
}

var places = regexp.MustCompile(place + "|" + option)

// replaceNumbers replaces each integer and option of a text by what f makes of its number and of what stands before and behind it.
func replaceNumbers(text string, f func(k int, kind, before, after string) string) string {
	out, last := "", 0
	for k, at := range places.FindAllStringIndex(text, -1) {
		out += text[last:at[0]] + f(k, text[at[0]:at[1]], text[last:at[0]], text[at[1]:])
		last = at[1]
	}
	return out + text[last:]
}

// texts are what functions have at a place; nothing for those that have no such line.
func (s *stage) texts(l line, k int) []string {
	out := make([]string, len(s.members))
	for i, v := range l.values {
		if v != nil {
			out[i] = v[k]
		}
	}
	return out
}

// values has an integer's value in each function, -1 where a function lacks it.
func (s *stage) values(l line, k int) []int {
	out := make([]int, len(s.members))
	for i, t := range s.texts(l, k) {
		if v, err := strconv.Atoi(t); err == nil {
			out[i] = v
		} else {
			out[i] = -1
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
		for k, kind := range places.FindAllString(l.text, -1) {
			if v := s.values(l, k); kind == place && !constant(v) {
				all = append(all, v)
			}
		}
	}
	if len(all) == 0 {
		return nil, true
	}
	base = slices.MinFunc(all, func(a, b []int) int { return cmp.Compare(first(a), first(b)) })
	if slices.Contains(base, -1) || slices.Contains(base, 0) {
		return nil, false
	}
	for _, v := range all {
		if _, _, ok := factor(v, base); !ok {
			return nil, false
		}
	}
	return base, true
}

// Stages makes functions of the stages of kernels, which differ in how many heads there are and in what they keep, the same in all
// files, so that files may share them: numbers of heads are arguments.
func Stages(files []string) []string {
	all := make([][]piece, len(files))
	for i, f := range files {
		all[i] = pieces(f)
	}
	for _, group := range groups(files, all) {
		var rest []*stage
		for _, at := range group {
			if s := newStage(at[0], at[1], all[at[0]][at[1]].text); s != nil { // its calls are those of before by now
				rest = append(rest, s)
			}
		}
		for len(rest) > 0 {
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

// groups are the places, in files, of the functions that may become one: of a name, and of as many calls of others below them. Those that
// are called come before their callers.
func groups(files []string, all [][]piece) (out [][][2]int) {
	type kind struct {
		below int
		key   string
	}
	of := map[kind][][2]int{}
	for i, f := range all {
		at := map[string]int{} // functions by name
		for j, p := range f {
			if s := newStage(i, j, p.text); s != nil && called(files[i], s.members[0].name) {
				at[s.members[0].name] = j
			}
		}
		below := map[string]int{}
		var depth func(name string) int
		depth = func(name string) int {
			if n, ok := below[name]; ok {
				return n
			}
			n := 0
			below[name] = n
			for _, c := range calling.FindAllStringSubmatch(f[at[name]].text, -1) {
				if _, ok := at[c[1]]; ok && c[1] != name {
					n = max(n, depth(c[1])+1)
				}
			}
			below[name] = n
			return n
		}
		for _, j := range slices.Sorted(maps.Values(at)) {
			name := f[j].names[0]
			k := kind{depth(name), prefixes.ReplaceAllString(name, "_")}
			of[k] = append(of[k], [2]int{i, j})
		}
	}
	kinds := slices.SortedFunc(maps.Keys(of), func(a, b kind) int { return cmp.Or(a.below-b.below, strings.Compare(a.key, b.key)) })
	for _, k := range kinds {
		out = append(out, of[k])
	}
	return out
}

// called says whether a file has a function to call it, and for nothing else.
func called(text, name string) bool {
	return len(regexp.MustCompile(`\b`+name+`\b`).FindAllString(text, -1)) == strings.Count(text, name+"(")
}

// call is the arguments of a member's call, in the order of the stage's parameters; those behind one that it has not go by their names.
func (s *stage) call(m member, header string, given []string) string {
	var out []string
	missing := false
	for i, p := range s.params {
		switch j := slices.Index(m.params, p.name); {
		case j < 0:
			missing = true
		case missing:
			name, _, _ := strings.Cut(strings.Split(header, ", ")[i], ":")
			out = append(out, name+"="+given[j])
		default:
			out = append(out, given[j])
		}
	}
	return strings.Join(out, ", ")
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
	if !slices.ContainsFunc(s.members, func(m member) bool { return all[m.file][m.at].text != text }) {
		return
	}
	text = pytext.OwnNames(text)
	names := headed.FindStringSubmatch(text)[1]
	calls := map[int]map[string]int{} // of each file, its members by name
	for i, m := range s.members {
		f := all[m.file]
		if f[m.at] = (piece{[]string{name}, text}); calls[m.file] != nil {
			f[m.at] = piece{}
		} else {
			calls[m.file] = map[string]int{}
		}
		calls[m.file][m.name] = i
	}
	for file, members := range calls {
		f := all[file]
		for j, p := range f {
			if p.text == text {
				continue
			}
			f[j].text = calling.ReplaceAllStringFunc(p.text, func(t string) string {
				c := calling.FindStringSubmatch(t)
				i, ok := members[c[1]]
				if !ok {
					return t
				}
				return name + "(" + s.call(s.members[i], names, strings.Split(c[2], ", ")) + args[i] + ")"
			})
		}
	}
}
