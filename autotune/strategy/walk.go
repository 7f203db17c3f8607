package strategy

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gdngen/gdngen/autotune/journal"
)

// Table is a table of axes whose variants are texts. Texts are canonical: equal programs have equal ones.
type Table interface {
	// Kind names the kind of variants, such as "Triton".
	Kind() string
	Axes() []TableAxis
	// Canon returns the canonical text of a variant; an error says what is wrong with it, or why it can not compute the
	// spec.
	Canon(text string) (string, error)
	// With returns the canonical text of a variant with another value of an axis, or an error like Canon's.
	With(variant, axis, value string) (string, error)
	// Value returns the value of an axis; ok is false if it has no effect on the program.
	Value(variant, axis string) (value string, ok bool)
	// Cell returns the structural part of a variant.
	Cell(variant string) string
	// Precision returns the precision whose error limits apply to a variant.
	Precision(variant string) string
}

// TableAxis is an axis of a Table.
type TableAxis struct {
	Name, Doc string
	Values    []string
	Stages    []string // of a cost, that it influences; none: all, slightly
	Rising    bool     // values are ordered from cheap to dear
}

// number reports whether the values are numbers in rising order.
func (c TableAxis) number() bool {
	_, err := strconv.Atoi(c.Values[0])
	return err == nil
}

// steps returns the values that are one move from another: the neighbours if the values are many numbers, else all. A
// first value 0 means none: it is one move from all, and moves to the middle value.
func (c TableAxis) steps(from string) []string {
	i := slices.Index(c.Values, from)
	if i < 0 || len(c.Values) < 4 || !c.number() {
		return c.Values
	}
	none := c.Values[0] == "0"
	if none && i == 0 {
		return []string{c.Values[(len(c.Values)+1)/2]}
	}
	var l []string
	for _, j := range []int{i - 1, i + 1} {
		if j >= 0 && j < len(c.Values) {
			l = append(l, c.Values[j])
		}
	}
	if none && i > 1 {
		l = append(l, "0")
	}
	return l
}

// walk is a strategy in a Table: it changes the best cells by expected gain. Each proposal weighs all single moves from
// each of them, and combinations of moves that gained alone. It escalates like all strategies, and handles refused
// seeds.
type walk struct {
	space  Space
	width  int  // number of cells whose candidates are changed
	random bool // one of the options is drawn
	policy policy
}

// gpuName is the strategy that changes the best cells.
const gpuName = "beam"

// walks are the strategies in a Table.
var walks = []string{gpuName, "random"}

// walkVersion is the version of both strategies.
const walkVersion = 1

// WalkVersion returns the name and version of a strategy in a Table.
func WalkVersion(text string) string {
	name, _, _ := strings.Cut(text, ":")
	return fmt.Sprintf("%s in a table %d", name, walkVersion)
}

func parseWalk(text string, s Space) (Strategy, error) {
	name, argument, given := strings.Cut(text, ":")
	if !slices.Contains(walks, name) {
		return nil, fmt.Errorf("strategy %q is for TPUs: %s variants are searched by %s", text, s.Table.Kind(), strings.Join(walks, " or "))
	}
	w := &walk{space: s, width: 4, random: name == "random", policy: policy{space: s, seeds: map[string]bool{}}}
	if given {
		n, err := strconv.Atoi(argument)
		if err != nil || n < 1 || n > 1000 || w.random {
			return nil, fmt.Errorf("strategy %q: beam:N takes an N from 1 to 1000, random none", text)
		}
		w.width = n
	}
	for _, seed := range slices.Concat(s.Seeds, s.Reserve) {
		w.policy.seeds[w.focus(seed.Text)] = true
	}
	return w, nil
}

// checkTable returns what is wrong with the axes of a space with a Table, or nil.
func (s Space) checkTable() error {
	if s.Directive != "" {
		return fmt.Errorf("directive %s names axes of TPUs: name those of %s with --axes", s.Directive, s.Table.Kind())
	}
	names, values := []string{}, map[string][]string{}
	for _, c := range s.Table.Axes() {
		names = append(names, c.Name)
		values[c.Name] = c.Values
	}
	known := strings.Join(names, " ")
	for _, name := range s.Axes {
		if values[name] == nil {
			return fmt.Errorf("there is no axis %q of %s (axes: %s)", name, s.Table.Kind(), known)
		}
	}
	for name, value := range s.Focus {
		switch {
		case values[name] == nil:
			return fmt.Errorf("focus: there is no axis %q of %s (axes: %s)", name, s.Table.Kind(), known)
		case !slices.Contains(values[name], value):
			return fmt.Errorf("focus: %s can not be %q (values: %s)", name, value, strings.Join(values[name], " "))
		}
	}
	return nil
}

func (w *walk) Close() error { return nil }

// focus sets the held axes that apply.
func (w *walk) focus(text string) string {
	for _, c := range w.space.Table.Axes() {
		if value, held := w.space.Focus[c.Name]; held {
			if moved, err := w.space.Table.With(text, c.Name, value); err == nil {
				text = moved
			}
		}
	}
	return text
}

// admits reports whether a variant is precise enough, and has the held values.
func (w *walk) admits(text string) bool {
	return Reaches(w.space.Table.Precision(text), w.space.Least) && w.focus(text) == text
}

func (w *walk) Next(_ context.Context, judged journal.View, pending []string) *Proposal {
	known := func(text string) bool {
		_, ok := judged.Fitted(text)
		return ok || slices.Contains(pending, text)
	}
	if x := w.seed(w.space.Seeds, known); x != nil {
		return x
	}
	parents := champions(judged, w.width)
	if len(parents) == 0 {
		return w.lead(judged, known)
	}
	next := judged.Len() + len(pending) + 1
	if e := w.policy.escalation(judged, next); e != nil {
		visited := map[string]bool{}
		for _, c := range judged.Candidates() {
			visited[c.Cell] = true
		}
		for _, text := range pending {
			visited[w.space.Table.Cell(text)] = true
		}
		x := w.best(judged, parents, next, func(text string) bool { return known(text) || visited[w.space.Table.Cell(text)] })
		if x != nil {
			x.Escalated = true
			x.Hypothesis = fmt.Sprintf("%s, so a cell that nobody has visited: %s", e, x.Hypothesis)
			return x
		}
	}
	return w.best(judged, parents, next, known)
}

// seed proposes the first unknown seed.
func (w *walk) seed(seeds []Seed, known func(string) bool) *Proposal {
	for _, s := range seeds {
		if text := w.focus(s.Text); !known(text) {
			return &Proposal{Text: w.text(text), Hypothesis: s.Doc}
		}
	}
	return nil
}

func (w *walk) text(text string) Text { return Text{text, text, w.space.Table.Cell(text)} }

// lead proposes while no candidate has a rank: changes of the refused ones, the first first, then reserve seeds.
func (w *walk) lead(judged journal.View, known func(string) bool) *Proposal {
	for _, s := range w.space.Seeds {
		if _, ok := judged.Fitted(w.focus(s.Text)); !ok {
			return nil // it may get a rank
		}
	}
	for _, c := range judged.Candidates() {
		if !w.policy.seeds[c.Fitted] {
			continue
		}
		for _, o := range w.singles(c, known) {
			return &Proposal{Text: w.text(o.to), Parent: c.ID, Moves: o.moves, Hypothesis: fmt.Sprintf("candidate %d was refused (%s): %s may not be", c.ID, c.Verdict, texts(o.moves))}
		}
	}
	return w.seed(w.space.Reserve, known)
}

// singles returns the new single moves from a candidate.
func (w *walk) singles(c *journal.Candidate, known func(string) bool) (l []option) {
	t := w.space.Table
	for _, a := range t.Axes() {
		from, ok := t.Value(c.Variant, a.Name)
		if !ok || !w.space.walks(a.Name) {
			continue
		}
		for _, value := range a.steps(from) {
			to, err := t.With(c.Variant, a.Name, value)
			if err != nil || to == c.Variant || known(to) || !w.admits(to) || slices.ContainsFunc(l, func(o option) bool { return o.to == to }) {
				continue
			}
			l = append(l, option{to: to, parent: c, moves: []Move{{a.Name, value}}, scalar: t.Cell(to) == c.Cell})
		}
	}
	return l
}

// best proposes the option with the highest score: single moves of each parent, and combinations of moves that gained
// alone.
func (w *walk) best(judged journal.View, parents []*journal.Candidate, next int, known func(string) bool) *Proposal {
	r := recordOf(judged, w.space.Table.Value)
	targets := judged.Header().Targets
	var l []option
	for i, c := range parents {
		behind, _ := loss(targets, c, parents[0])
		for _, o := range w.singles(c, known) {
			from, _ := w.space.Table.Value(c.Variant, o.moves[0].Axis)
			o.gain, o.risk = w.expect(r, o.moves[0], from, c.Cost(targets[0]))
			o.value = o.gain*(1-o.risk) - handicap*behind - perCell*float64(i) + tie*key(w.space.Seed, c.Variant, o.to)
			l = append(l, o)
		}
	}
	l = append(l, w.joined(r, parents[0], known)...)
	if len(l) == 0 {
		l = w.pairs(parents, known)
	}
	if len(l) == 0 {
		return nil
	}
	rank(l)
	if w.random {
		l[0] = l[draw(w.space.Seed, "random", next).IntN(len(l))]
	}
	o := l[0]
	why := fmt.Sprintf("%s: what gains apart may gain together", o.text())
	switch {
	case w.random:
		why = "drawn at random"
	case o.scalar:
		why = fmt.Sprintf("tune %s within the cell", o.text())
	case len(o.moves) == 1:
		why = fmt.Sprintf("%s may suit candidate %d, whose hot spots are %s", o.text(), o.parent.ID, hot(o.parent, targets[0]))
	}
	p := propose(l, why)
	p.Text = w.text(o.to)
	return p
}

// expect returns the expected saving of a move, as a logarithm, and its risk of getting no rank: from trials, or else
// from the share of the cost in the stages that the axis influences.
func (w *walk) expect(r *record, m Move, from string, cost *journal.Cost) (gain, risk float64) {
	n, failed, drift := r.trials(m)
	risk = (failed + .3) / (failed + float64(n) + 2)
	if gain, ok := r.level(m, from); ok {
		return gain + drifted*drift, risk
	}
	axes := w.space.Table.Axes()
	a := axes[slices.IndexFunc(axes, func(c TableAxis) bool { return c.Name == m.Axis })]
	if a.Rising && slices.Index(a.Values, m.Value) > slices.Index(a.Values, from) {
		return 0, risk
	}
	prior := priorGain
	if cost != nil && cost.Took() > 0 {
		var cycles int64
		for _, s := range cost.Stages {
			if slices.Contains(a.Stages, s.Name) {
				cycles += s.Cycles
			}
		}
		prior += priorStage * min(1, float64(cycles)/float64(cost.Took()))
	}
	return prior / (1 + .5*float64(n) + failed), risk
}

// joined returns combinations of moves on the best: all that gained alone, with the best value of each axis, then the
// half that gained most.
func (w *walk) joined(r *record, best *journal.Candidate, known func(string) bool) (l []option) {
	type gain struct {
		Move
		worth float64
	}
	var gains []gain
	for _, a := range w.space.Table.Axes() {
		from, ok := w.space.Table.Value(best.Variant, a.Name)
		most := gain{}
		for _, value := range a.Values {
			if worth, compared := r.level(Move{a.Name, value}, from); ok && compared && w.space.walks(a.Name) && worth > max(certain, most.worth) {
				most = gain{Move{a.Name, value}, worth}
			}
		}
		if most.worth > 0 {
			gains = append(gains, most)
		}
	}
	slices.SortStableFunc(gains, func(x, y gain) int { return cmp.Compare(y.worth, x.worth) })
	for n := len(gains); n >= 2; n = (n + 1) / 2 {
		o := option{to: best.Variant, parent: best, risk: .1}
		for _, g := range gains[:n] {
			if to, err := w.space.Table.With(o.to, g.Axis, g.Value); err == nil && to != o.to {
				o.to, o.moves, o.gain = to, append(o.moves, g.Move), o.gain+mergedGain*g.worth
			}
		}
		if len(o.moves) > 1 && !known(o.to) && w.admits(o.to) && !r.made[o.text()] {
			o.value = o.gain * (1 - o.risk)
			l = append(l, o)
		}
		if n == 2 {
			break
		}
	}
	return l
}

// pairs returns pairs of moves, for when no single one is left.
func (w *walk) pairs(parents []*journal.Candidate, known func(string) bool) (l []option) {
	none := func(string) bool { return false }
	for _, c := range parents {
		for _, first := range w.singles(c, none) {
			for _, o := range w.singles(&journal.Candidate{Variant: first.to, Cell: c.Cell}, known) {
				o.parent, o.moves, o.gain, o.risk = c, append(slices.Clone(first.moves), o.moves...), priorGain/4, .3
				o.value = tie * key(w.space.Seed, c.Variant, o.to)
				l = append(l, o)
			}
		}
		if len(l) > 0 {
			return l
		}
	}
	return nil
}
