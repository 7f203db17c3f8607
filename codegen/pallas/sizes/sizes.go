// Package sizes generalizes Python functions written for single sizes to functions for every size.
//
// A program is written at a few sizes. Its texts may differ only in integers, and each such integer is a formula of the size: the number of
// rows and the number of steps along the tokens. The formula replaces the integer, and a function takes the sizes that its formulas use as
// parameters. One size more than the formulas need is a check; texts that differ otherwise are an error, never a guess.
package sizes

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Size is the size that a program is written for.
type Size struct {
	Rows  int // groups of batch rows, or sequences
	Steps int // steps along the tokens
}

// Probes are sizes that tell the formulas apart: no two terms, and no sum of rows and steps, grow equally from the first size to the
// others. None of the numbers is a common number of heads, chunks or lanes, with which a pass might merge it.
var Probes = []Size{{17, 29}, {18, 26}, {22, 39}, {23, 28}}

// Small tells the formulas apart too, for specs with so many heads that arrays would be too large at Probes.
var Small = []Size{{5, 13}, {6, 10}, {10, 23}, {11, 12}}

// Params are the names of the sizes, as parameters of functions.
var Params = []string{"rows", "steps"}

type term struct {
	text string
	of   func(Size) int
}

// growth lists the terms that an integer may grow with, simplest first. Packed sequences have rows + steps varlen blocks: one per block,
// and one more per sequence.
var growth = []term{
	{"rows", func(s Size) int { return s.Rows }},
	{"steps", func(s Size) int { return s.Steps }},
	{"rows * steps", func(s Size) int { return s.Rows * s.Steps }},
	{"(rows + steps)", func(s Size) int { return s.Rows + s.Steps }},
}

// terms are the sizes, and positions of a step or varlen block in a ring in scratch.
var terms = slices.Concat(growth, rings(growth[1]), rings(growth[3]))

// LongestRing is the longest ring whose positions the probes tell apart: a ring of eight would be taken for one of four.
const LongestRing = 4

func rings(size term) []term {
	out := []term{{"(" + size.text + " % 2)", func(s Size) int { return size.of(s) % 2 }}}
	for n := 3; n <= LongestRing; n++ {
		for shift := range n {
			at := size.text
			if shift > 0 {
				at = fmt.Sprintf("(%s + %d)", unbracketed(size.text), shift)
			}
			out = append(out, term{fmt.Sprintf("(%s %% %d)", at, n), func(s Size) int { return (size.of(s) + shift) % n }})
		}
	}
	return out
}

// Unify takes the functions of a program, written at each of the sizes. It returns functions for every size, with the sizes that they
// use as parameters; it errs if no formulas fit.
func Unify(texts [][]string, at []Size) ([]string, error) {
	out := make([]string, len(texts[0]))
	uses := make([]map[string]bool, len(out))
	for i := range out {
		var versions [][]string
		for _, t := range texts {
			if len(t) != len(out) {
				return nil, fmt.Errorf("%d functions at %v, %d at %v", len(out), at[0], len(t), at[len(versions)])
			}
			versions = append(versions, token.FindAllString(t[i], -1))
		}
		text, used, err := unify(versions, at)
		if err != nil {
			return nil, fmt.Errorf("function %s: %w", name(texts[0][i]), err)
		}
		out[i], uses[i] = text, used
	}
	for i, text := range thread(out, uses) {
		out[i] = Unpack(text)
	}
	return out, nil
}

// bound matches a bound of a slice; sums may be in brackets.
const bound = `(?:[^\[\](),:{}"]|\([^\[\](),:{}"]*\))*`

var (
	token  = regexp.MustCompile(`(?s)""".*?"""|"[^"\n]*"|#[^\n]*|\w+\.\d[\w.]*|\w+|\s+|//|.`)
	number = regexp.MustCompile(`\b\d+\b`)
	quiet  = regexp.MustCompile(`^("""|#)`)
	whole  = regexp.MustCompile(`^\d+$`)
	slice  = regexp.MustCompile(`[\[,] ?` + bound + `:` + bound)
)

// unify writes one function, and returns which sizes its formulas use.
func unify(versions [][]string, at []Size) (string, map[string]bool, error) {
	first, used := versions[0], map[string]bool{}
	for _, v := range versions[1:] {
		if len(v) != len(first) {
			return "", nil, fmt.Errorf("%d tokens, and %d at another size", len(first), len(v))
		}
	}
	out := slices.Clone(first)
	for i, t := range first {
		same := true
		for _, v := range versions {
			same = same && v[i] == t
		}
		switch {
		case same:
		case quiet.MatchString(t): // shapes in a docstring
			text, err := prose(versions, i, at)
			if err != nil {
				return "", nil, err
			}
			out[i] = text
		default:
			e, err := formula(column(versions, i), at)
			if err != nil {
				return "", nil, fmt.Errorf("%w in %s", err, strings.Join(first[max(0, i-12):min(len(first), i+6)], ""))
			}
			for _, p := range Params {
				used[p] = used[p] || strings.Contains(e, p)
			}
			out[i] = bracketed(e, out[:i], first[i+1:])
		}
	}
	return slice.ReplaceAllStringFunc(strings.Join(out, ""), spaced), used, nil
}

// spaced puts spaces around the colon of a slice whose bounds are more than names or numbers.
func spaced(text string) string {
	begin, end, _ := strings.Cut(text, ":")
	if strings.HasPrefix(begin, ", *") || !strings.ContainsAny(begin+end, "+*%") && !strings.Contains(begin+end, " - ") {
		return text
	}
	if strings.TrimLeft(begin, "[, ") != "" {
		begin = strings.TrimRight(begin, " ") + " "
	}
	return strings.TrimRight(begin+": "+strings.TrimSpace(end), " ")
}

func column(versions [][]string, i int) []string {
	var c []string
	for _, v := range versions {
		c = append(c, v[i])
	}
	return c
}

// prose unifies the numbers of a comment.
func prose(versions [][]string, i int, at []Size) (string, error) {
	var parts, numbers [][]string
	for _, v := range versions {
		parts, numbers = append(parts, number.Split(v[i], -1)), append(numbers, number.FindAllString(v[i], -1))
		if !slices.Equal(parts[0], parts[len(parts)-1]) {
			return "", fmt.Errorf("what is said differs: %s", v[i])
		}
	}
	var b strings.Builder
	for j, part := range parts[0] {
		b.WriteString(part)
		if j < len(numbers[0]) {
			e, err := formula(column(numbers, j), at)
			if err != nil {
				return "", err
			}
			b.WriteString(e)
		}
	}
	return b.String(), nil
}

// formula returns the expression with the given value at each size.
func formula(texts []string, at []Size) (string, error) {
	y := make([]int, len(texts))
	for i, t := range texts {
		t = strings.TrimSuffix(t, ".0") // an integer among floats
		if !whole.MatchString(t) {
			return "", fmt.Errorf("%s is no integer", strings.Join(texts, ", "))
		}
		fmt.Sscan(t, &y[i])
	}
	if len(slices.Compact(slices.Clone(y))) == 1 {
		return texts[0], nil
	}
	for _, t := range terms {
		if a, b, ok := line(y, at, t.of); ok {
			return linear(a, t.text, b), nil
		}
	}
	if e, ok := plane(y, at); ok {
		return e, nil
	}
	return "", fmt.Errorf("%s at %v has no formula", strings.Join(texts, ", "), at)
}

// line finds integers a and b with y = a x + b at every size.
func line(y []int, at []Size, x func(Size) int) (a, b int, ok bool) {
	for i := range at {
		if dx := x(at[i]) - x(at[0]); dx != 0 {
			a = (y[i] - y[0]) / dx
			break
		}
	}
	b = y[0] - a*x(at[0])
	for i := range at {
		if y[i] != a*x(at[i])+b {
			return 0, 0, false
		}
	}
	return a, b, a != 0
}

// plane finds integers with y = a rows + b steps + c at every size.
func plane(y []int, at []Size) (string, bool) {
	if len(at) < 4 {
		return "", false
	}
	r1, s1, y1 := at[1].Rows-at[0].Rows, at[1].Steps-at[0].Steps, y[1]-y[0]
	r2, s2, y2 := at[2].Rows-at[0].Rows, at[2].Steps-at[0].Steps, y[2]-y[0]
	det := r1*s2 - r2*s1
	if det == 0 {
		return "", false
	}
	a, b := (y1*s2-y2*s1)/det, (r1*y2-r2*y1)/det
	c := y[0] - a*at[0].Rows - b*at[0].Steps
	for i, s := range at {
		if y[i] != a*s.Rows+b*s.Steps+c {
			return "", false
		}
	}
	return sum(part{b, "steps"}, part{a, "rows"}, part{c, ""}), true
}

// part is a multiple of a term, or of 1.
type part struct {
	n    int
	term string
}

// linear writes a x + b, with a negative term last.
func linear(a int, x string, b int) string {
	if a < 0 && b > 0 {
		return sum(part{b, ""}, part{a, x})
	}
	return sum(part{a, x}, part{b, ""})
}

// sum writes a sum of parts.
func sum(parts ...part) string {
	parts = slices.DeleteFunc(parts, func(p part) bool { return p.n == 0 })
	var b strings.Builder
	for i, p := range parts {
		n := p.n
		switch {
		case n < 0 && i == 0:
			b.WriteString("-")
			n = -n
		case n < 0:
			b.WriteString(" - ")
			n = -n
		case i > 0:
			b.WriteString(" + ")
		}
		switch {
		case p.term == "":
			fmt.Fprint(&b, n)
		case n != 1:
			fmt.Fprintf(&b, "%d * %s", n, p.term)
		case len(parts) == 1, i == 0 && p.n > 0 && !strings.Contains(p.term, "%"):
			b.WriteString(unbracketed(p.term))
		default:
			b.WriteString(p.term)
		}
	}
	return b.String()
}

// unbracketed removes the brackets around a whole term.
func unbracketed(x string) string {
	if strings.HasPrefix(x, "(") {
		return x[1 : len(x)-1]
	}
	return x
}

// bracketed adds brackets to an expression if its neighbours bind tighter.
func bracketed(e string, before, after []string) string {
	edge := func(l []string, ends string) bool {
		for _, t := range l {
			if strings.TrimSpace(t) != "" {
				return strings.Contains(ends, t)
			}
			if strings.Contains(t, "\n") {
				return true
			}
		}
		return true
	}
	reversed := slices.Clone(before[max(0, len(before)-3):])
	slices.Reverse(reversed)
	if !strings.Contains(e, " ") || edge(reversed, "([,:=") && edge(after, ")],:+-") {
		return e
	}
	return "(" + e + ")"
}
