package ir

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// field prints and parses one attribute of a grid.
type field[T any] struct {
	name string
	show func(T) (text string, needed bool) // needed is false for a default, which is not printed
	read func(*parser, T) error
}

// gridFields are the attributes of a grid in printing order. They parse in any order, except that the axes come
// before the windows that use them.
var gridFields = slices.Concat([]field[*Grid]{
	always(word("name", func(g *Grid) *string { return &g.Name })),
	always(list("dims", func(g *Grid) *[]GridDim { return &g.Dims }, GridDim.text, (*parser).gridDim)),
	number("tables", func(g *Grid) *int { return &g.Tables }),
	windows("in", func(g *Grid) *[]Window { return &g.In }, nil),
	windows("out", func(g *Grid) *[]Window { return &g.Out }, func(g *Grid) *[]Type { return &g.Outs }),
	numbers("into", func(g *Grid) *[]int { return &g.Into }),
	windows("carry", func(g *Grid) *[]Window { return &g.Carry }, nil),
	number("copies", func(g *Grid) *int { return &g.Copies }),
	flag("main", func(g *Grid) *bool { return &g.Main }),
	number("live", func(g *Grid) *int { return &g.Live }),
	flag("inside", func(g *Grid) *bool { return &g.Inside }),
}, ofSchedule(schedFields), []field[*Grid]{
	list("scratch", func(g *Grid) *[]Type { return &g.Scratch }, Type.String, (*parser).typ),
	list("alias", func(g *Grid) *[][2]int { return &g.Alias }, aliasText, (*parser).alias),
})

// String returns the grid's part of the text form.
func (g *Grid) String() string {
	var out []string
	for _, f := range gridFields {
		if text, needed := f.show(g); needed {
			out = append(out, f.name+"="+text)
		}
	}
	return strings.Join(out, ", ")
}

// grid parses the grid of a grid or kernel op, in braces.
func (p *parser) grid() (*Grid, error) {
	g := &Grid{}
	err := p.commaList(func() error {
		name := p.word()
		if err := p.expect("="); err != nil {
			return err
		}
		for _, f := range gridFields {
			if f.name == name {
				return f.read(p, g)
			}
		}
		var known []string
		for _, f := range gridFields {
			known = append(known, f.name)
		}
		return p.errf("unknown grid attribute %q (known: %s)", name, strings.Join(known, " "))
	})
	return g, err
}

// always returns a field that is printed even at its default.
func always[T any](f field[T]) field[T] {
	show := f.show
	f.show = func(x T) (string, bool) {
		text, _ := show(x)
		return text, true
	}
	return f
}

// ofSchedule turns fields of a schedule into fields of its grid. Parsing one creates the schedule.
func ofSchedule(fields []field[*Sched]) []field[*Grid] {
	var out []field[*Grid]
	for _, f := range fields {
		out = append(out, field[*Grid]{f.name, func(g *Grid) (string, bool) {
			if g.Sched == nil {
				return "", false
			}
			return f.show(g.Sched)
		}, func(p *parser, g *Grid) error {
			if g.Sched == nil {
				g.Sched = &Sched{Lags: []int{}}
			}
			return f.read(p, g.Sched)
		}})
	}
	return out
}

func word[T any](name string, at func(T) *string) field[T] {
	return field[T]{name, func(x T) (string, bool) {
		return *at(x), *at(x) != ""
	}, func(p *parser, x T) error {
		*at(x) = p.word()
		return nil
	}}
}

func number[T any](name string, at func(T) *int) field[T] {
	return field[T]{name, func(x T) (string, bool) {
		return strconv.Itoa(*at(x)), *at(x) != 0
	}, func(p *parser, x T) error {
		return p.int(at(x))
	}}
}

// numbers is [1,2,3], printed unless the slice is nil.
func numbers[T any](name string, at func(T) *[]int) field[T] {
	return field[T]{name, func(x T) (string, bool) {
		return ints(*at(x)), *at(x) != nil
	}, func(p *parser, x T) error {
		return p.ints(at(x))
	}}
}

// flag is 1, printed if set.
func flag[T any](name string, at func(T) *bool) field[T] {
	return field[T]{name, func(x T) (string, bool) {
		return "1", *at(x)
	}, func(p *parser, x T) error {
		on := 0
		err := p.int(&on)
		*at(x) = on != 0
		return err
	}}
}

// list is (item, item, ...).
func list[T, E any](name string, at func(T) *[]E, show func(E) string, read func(*parser) (E, error)) field[T] {
	return field[T]{name, func(x T) (string, bool) {
		var out []string
		for _, e := range *at(x) {
			out = append(out, show(e))
		}
		return "(" + strings.Join(out, ", ") + ")", len(out) > 0
	}, func(p *parser, x T) error {
		return p.items(func() error {
			e, err := read(p)
			*at(x) = append(*at(x), e)
			return err
		})
	}}
}

func words[T any](name string, at func(T) *[]string) field[T] {
	return list(name, at, func(s string) string { return s }, func(p *parser) (string, error) { return p.word(), nil })
}

// windows is (window, ...), or (window:type, ...) if the grid lists the types.
func windows(name string, at func(*Grid) *[]Window, types func(*Grid) *[]Type) field[*Grid] {
	return field[*Grid]{name, func(g *Grid) (string, bool) {
		var out []string
		for i, w := range *at(g) {
			text := g.windowText(w)
			if types != nil && i < len(*types(g)) {
				text += ":" + (*types(g))[i].String()
			}
			out = append(out, text)
		}
		return "(" + strings.Join(out, ", ") + ")", len(out) > 0
	}, func(p *parser, g *Grid) error {
		return p.items(func() error {
			w, err := p.window(g)
			*at(g) = append(*at(g), w)
			if types == nil || err != nil {
				return err
			}
			if err := p.expect(":"); err != nil {
				return err
			}
			t, err := p.typ()
			*types(g) = append(*types(g), t)
			return err
		})
	}}
}

// items reads (item, item, ...), or ().
func (p *parser) items(item func() error) error {
	if err := p.expect("("); err != nil || p.accept(")") {
		return err
	}
	if err := p.commaList(item); err != nil {
		return err
	}
	return p.expect(")")
}

// text is axis:size[:seq][:bound].
func (d GridDim) text() string {
	s := fmt.Sprintf("%s:%d", d.Name, d.Size)
	if d.Seq {
		s += ":seq"
	}
	if d.Bound {
		s += ":bound"
	}
	return s
}

func (p *parser) gridDim() (GridDim, error) {
	d := GridDim{Name: p.word()}
	if err := p.expect(":"); err != nil {
		return d, err
	}
	if err := p.int(&d.Size); err != nil || !p.accept(":") {
		return d, err
	}
	if d.Seq = p.word() == "seq"; !d.Seq {
		return d, p.errf("expected seq")
	}
	if p.accept(":") {
		if d.Bound = p.word() == "bound"; !d.Bound {
			return d, p.errf("expected bound")
		}
	}
	return d, nil
}

// aliasText is array=input.
func aliasText(a [2]int) string { return fmt.Sprintf("%d=%d", a[0], a[1]) }

func (p *parser) alias() (a [2]int, err error) {
	if err := p.int(&a[0]); err != nil {
		return a, err
	}
	if err := p.expect("="); err != nil {
		return a, err
	}
	err = p.int(&a[1])
	return a, err
}

// windowText is [block]@(index,index,...).
func (g *Grid) windowText(w Window) string {
	var index []string
	for _, x := range w.Index {
		index = append(index, g.indexText(x))
	}
	return ints(w.Block) + "@(" + strings.Join(index, ",") + ")"
}

func (p *parser) window(g *Grid) (w Window, err error) {
	if err := p.ints(&w.Block); err != nil {
		return w, err
	}
	if err := p.expect("@"); err != nil {
		return w, err
	}
	err = p.items(func() error {
		x, err := p.index(g)
		w.Index = append(w.Index, x)
		return err
	})
	return w, err
}

// indexText prints 3, c, c-1, clamp(c-1,31) or down(c-1,31) (31 minus the clamped value); around one of these every(4,...) and plus(7,...); around
// any of them t0[...].
func (g *Grid) indexText(x Index) string {
	s := strconv.Itoa(x.Const)
	if x.Axis >= 0 {
		s = "?"
		if x.Axis < len(g.Dims) {
			s = g.Dims[x.Axis].Name
		}
		if x.Shift != 0 {
			s += fmt.Sprintf("%+d", x.Shift)
		}
		if x.Max >= 0 {
			s = fmt.Sprintf("%s(%s,%d)", map[bool]string{false: "clamp", true: "down"}[x.Down], s, x.Max)
		}
		if x.Every > 1 {
			s = fmt.Sprintf("every(%d,%s)", x.Every, s)
		}
		if x.Const != 0 {
			s = fmt.Sprintf("plus(%d,%s)", x.Const, s)
		}
	}
	if x.Table >= 0 {
		s = fmt.Sprintf("t%d[%s]", x.Table, s)
	}
	return s
}

// index parses a block index: [t<n> "["] (const | ["plus(" const ","] ["every(" const ","] ["clamp("] axis [shift] ["," max ")"] [")"] [")"]) ["]"].
func (p *parser) index(g *Grid) (Index, error) {
	table := -1
	p.space()
	start := p.pos
	if w := p.word(); len(w) > 1 && w[0] == 't' && p.accept("[") {
		n, err := strconv.Atoi(w[1:])
		if err != nil || n < 0 {
			return Index{}, p.errf("malformed table %q", w)
		}
		table = n
	} else {
		p.pos = start
	}
	x, err := p.axisIndex(g)
	if err != nil || table < 0 {
		return x, err
	}
	x.Table = table
	return x, p.expect("]")
}

// ofAxis parses the arguments of plus and every: a number and an index.
func (p *parser) ofAxis(g *Grid) (n int, x Index, err error) {
	if err = p.int(&n); err != nil {
		return n, x, err
	}
	if err = p.expect(","); err != nil {
		return n, x, err
	}
	x, err = p.axisIndex(g)
	return n, x, err
}

func (p *parser) axisIndex(g *Grid) (Index, error) {
	x := IndexConst(0)
	p.space()
	if c := p.src[p.pos:]; c != "" && (c[0] == '-' || c[0] >= '0' && c[0] <= '9') {
		return x, p.int(&x.Const)
	}
	if p.accept("plus(") {
		n, x, err := p.ofAxis(g)
		if err == nil && (x.Axis < 0 || x.Const != 0) {
			err = p.errf("plus wants an axis")
		}
		if err != nil {
			return x, err
		}
		x.Const = n
		return x, p.expect(")")
	}
	if p.accept("every(") {
		n, x, err := p.ofAxis(g)
		if err == nil && (n < 2 || x.Axis < 0 || x.Const != 0 || x.Every != 0) {
			err = p.errf("every wants a number of points, 2 or more, and an axis")
		}
		if err != nil {
			return x, err
		}
		x.Every = n
		return x, p.expect(")")
	}
	clamp := p.accept("clamp(")
	down := !clamp && p.accept("down(")
	w := p.word()
	for i, d := range g.Dims {
		if d.Name == w {
			x = IndexAxis(i)
		}
	}
	if x.Axis < 0 {
		return x, p.errf("unknown grid axis %q", w)
	}
	if p.peek("+") || p.peek("-") {
		if err := p.int(&x.Shift); err != nil {
			return x, err
		}
	}
	if !clamp && !down {
		return x, nil
	}
	x.Down = down
	if err := p.expect(","); err != nil {
		return x, err
	}
	if err := p.int(&x.Max); err != nil {
		return x, err
	}
	if x.Max < 0 {
		return x, p.errf("clamp to a negative index")
	}
	return x, p.expect(")")
}
