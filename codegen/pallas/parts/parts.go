// Package parts cuts functions of Python that are too long, where few values pass.
package parts

import (
	"regexp"
	"slices"
	"strings"

	"github.com/gdngen/gdngen/codegen/pallas/pytext"
)

// Value is a name and its type.
type Value struct{ Name, Hint string }

// Function is one that may be cut.
type Function struct {
	Params  []Value
	Locals  map[string]string // types of the names that it sets
	Lines   []string          // its body
	Returns []string          // names

	at index
}

// Part is a run of statements as a function of its own.
type Part struct {
	Params, Results []Value
	Lines           []string
}

const (
	mostParts = 4  // which a function may become: what is longer is a straight line, of which parts are no easier to read
	fewLines  = 12 // of a part
	perLine   = 2  // lines of statements that a line around them is worth
	nameWidth = 36 // of a header and of a call, without values
)

var (
	numbers = regexp.MustCompile(`\b\d{2,}\b`)
	words   = regexp.MustCompile(`\.?\b[A-Za-z_]\w*`)
	quoted  = regexp.MustCompile(`"[^"]*"`)
	sets    = regexp.MustCompile(`^ *(\w+(?:, \w+)*) = `)
	appends = regexp.MustCompile(`^ *(\w+)\.append\(`)
	rounds  = regexp.MustCompile(`^ *for (\w+) in `)
)

// Cut takes runs of statements out of a function until it has no more lines than most, and none of them has. Each is that which spares most lines for the
// values that pass; call gives the text of its call.
func (f *Function) Cut(most int, call func(Part) string) {
	for n := f.length(); n > most && n <= mostParts*most; n = f.length() {
		f.index()
		r := f.best(most)
		if r == nil {
			return
		}
		text := strings.Repeat(" ", 4*r.depth) + call(r.part())
		f.Lines = slices.Concat(f.Lines[:r.from], []string{text}, f.Lines[r.to:])
	}
}

// length is that of a function as it is formatted, whatever the numbers in it.
func (f *Function) length() int { return 2 + formatted(f.Lines) + len(f.Params)/4 }

func formatted(lines []string) int {
	text := "def f():\n    " + numbers.ReplaceAllString(strings.Join(lines, "\n    "), "000") + "\n"
	return strings.Count(pytext.Format(text), "\n") - 1
}

// run is some statements of a body.
type run struct {
	f        *Function
	from, to int // lines
	depth    int // of their loops
	ins      []Value
	outs     []Value
}

// best is the run that spares most; nil where there is none.
func (f *Function) best(most int) (best *run) {
	score := 0
	for _, list := range f.lists() {
		for a := range list.lines {
			n := 0
			for b := a; b < len(list.lines) && n+list.lines[b] <= most; b++ {
				n += list.lines[b]
				r := &run{f: f, from: list.at[a], to: list.at[b+1], depth: list.depth}
				if n < fewLines || r.to-r.from < 2 || !r.pass() { // a call alone may be many lines
					continue
				}
				own, calls := r.around()
				if s := n - perLine*(own+calls) - len(r.ins) - len(r.outs); own+n <= most && calls < n && (best == nil || s > score) {
					best, score = r, s
				}
			}
		}
	}
	return best
}

// list is statements that follow one another: where each begins, and where the last ends; and how many lines each has.
type list struct {
	at, lines []int
	depth     int
}

// lists are the statements of the function, and of each of its outer loops.
func (f *Function) lists() (out []list) {
	out = []list{f.list(0, len(f.Lines), 0)}
	for i, at := range out[0].at[:len(out[0].lines)] {
		if rounds.MatchString(f.Lines[at]) {
			out = append(out, f.list(at+1, out[0].at[i+1], 1))
		}
	}
	return out
}

func (f *Function) list(from, to, depth int) list {
	l := list{depth: depth}
	for i := from; i < to; i++ {
		t := f.Lines[i]
		if t != "" && len(t)-len(strings.TrimLeft(t, " ")) == 4*depth && (i == from || !strings.HasPrefix(strings.TrimSpace(f.Lines[i-1]), "@")) {
			l.at = append(l.at, i)
		}
	}
	l.at = append(l.at, to)
	for i, at := range l.at[1:] {
		l.lines = append(l.lines, formatted(f.Lines[l.at[i]:at]))
	}
	return l
}

// scope is the names that a line sets and reads, and the list to which it adds.
type scope struct{ sets, reads, adds []string }

// index is what the lines of a function do, and where names are first and last set, read and added to.
type index struct {
	lines                                  []scope
	firstSet, firstRead, lastRead, lastAdd map[string]int
}

func (f *Function) index() {
	x := index{firstSet: map[string]int{}, firstRead: map[string]int{}, lastRead: map[string]int{}, lastAdd: map[string]int{}}
	first := func(at map[string]int, names []string, i int) {
		for _, n := range names {
			if _, ok := at[n]; !ok {
				at[n] = i
			}
		}
	}
	for i, l := range f.Lines {
		var s scope
		if m := sets.FindStringSubmatch(l); m != nil {
			s.sets = strings.Split(m[1], ", ")
		}
		if m := appends.FindStringSubmatch(l); m != nil {
			s.adds = m[1:]
			x.lastAdd[m[1]] = i
		}
		s.reads = words.FindAllString(quoted.ReplaceAllString(l, ""), -1)
		first(x.firstSet, s.sets, i)
		first(x.firstRead, s.reads, i)
		for _, n := range s.reads {
			x.lastRead[n] = i
		}
		x.lines = append(x.lines, s)
	}
	for _, n := range f.Returns {
		x.lastRead[n] = len(f.Lines)
	}
	f.at = x
}

// pass finds the values that pass into a run and out of it, and says whether it can be a function: it begins the lists to which it adds, and no others add
// to them.
func (r *run) pass() bool {
	x, f := r.f.at, r.f
	seen := map[Value]bool{}
	r.ins, r.outs = nil, nil
	add := func(to *[]Value, v Value) bool {
		if !seen[v] {
			*to, seen[v] = append(*to, v), true
		}
		return v.Hint != ""
	}
	loop := ""
	if r.depth > 0 {
		for _, l := range slices.Backward(f.Lines[:r.from]) {
			if m := rounds.FindStringSubmatch(l); m != nil && !strings.HasPrefix(l, " ") {
				loop = m[1]
				break
			}
		}
	}
	for _, l := range x.lines[r.from:r.to] {
		for _, n := range l.adds {
			if at, ok := x.firstSet[n]; !ok || at < r.from {
				return false
			}
		}
		for _, n := range l.reads {
			i := slices.IndexFunc(f.Params, func(v Value) bool { return v.Name == n })
			at, set := x.firstSet[n]
			switch {
			case i >= 0:
				add(&r.ins, f.Params[i])
			case n == loop:
				add(&r.ins, Value{n, "int"})
			case set && at < r.from && !add(&r.ins, Value{n, f.Locals[n]}):
				return false
			}
		}
	}
	slices.SortStableFunc(r.ins, func(a, b Value) int { return r.rank(a) - r.rank(b) })
	clear(seen)
	for _, l := range x.lines[r.from:r.to] {
		for _, n := range l.sets {
			if at, ok := x.lastAdd[n]; ok && at >= r.to {
				return false
			}
			read, ok := x.firstRead[n]
			if later := x.lastRead[n] >= r.to || r.depth > 0 && ok && read < r.from; later && !add(&r.outs, Value{n, f.Locals[n]}) { // and the next round
				return false
			}
		}
	}
	return true
}

// rank is the order of parameters: those of the function, then as they are set, a loop's variable last.
func (r *run) rank(v Value) int {
	if i := slices.Index(r.f.Params, v); i >= 0 {
		return i - len(r.f.Params)
	}
	if at, ok := r.f.at.firstSet[v.Name]; ok {
		return at
	}
	return len(r.f.Lines)
}

// around is how many lines a part has beside its statements, and how many its call has.
func (r *run) around() (own, call int) {
	var params, args, types, results []string
	for _, v := range r.ins {
		params, args = append(params, v.Name+": "+v.Hint), append(args, v.Name)
	}
	for _, v := range r.outs {
		types, results = append(types, v.Hint), append(results, v.Name)
	}
	rows := func(before int, list []string, behind int) int {
		n := len(strings.Join(list, ", "))
		switch {
		case before+n+behind <= pytext.LineWidth:
			return 1
		case n+4 <= pytext.LineWidth:
			return 3
		}
		return len(list) + 2
	}
	names := strings.Join(results, ", ")
	own = rows(nameWidth, params, len(strings.Join(types, ", "))) + 2
	if len(results) > 0 && len(names)+11 > pytext.LineWidth {
		own += len(results) + 1
	}
	return own, rows(4*r.depth+nameWidth+len(names), args, 0) + len(names)/pytext.LineWidth*2
}

var numeral = regexp.MustCompile(`_\d+$`)

// Subject is what a part with results of some names is about: what most of them are. One without them stores.
func Subject(results []string) string {
	subject, count := "stores", map[string]int{"stores": 0}
	for _, n := range results {
		count[numeral.ReplaceAllString(n, "")]++
	}
	for _, n := range results {
		if n = numeral.ReplaceAllString(n, ""); count[n] > count[subject] {
			subject = n
		}
	}
	return subject
}

func (r *run) part() Part {
	p := Part{Params: r.ins, Results: r.outs}
	for _, l := range r.f.Lines[r.from:r.to] {
		p.Lines = append(p.Lines, l[4*r.depth:])
	}
	return p
}
