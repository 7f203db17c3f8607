package results

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gdngen/gdngen/autotune/check"
	"github.com/gdngen/gdngen/ir/target"
)

// errorColumn is the first column of errors in a table.
const errorColumn = 8

// entry is a line of a page: a champion, or a candidate that was left out for its errors.
type entry struct {
	line   int // of the page
	row    *Row
	target string
	name   string
	form   string // the candidate's resolved variant; empty if its text is explicit, or if it was left out
	out    bool   // left out
}

// entries returns the champions of a page, and the candidates left out for their errors. Tables are matched to rows of the plan by title.
func (p *Plan) entries(lines []string) ([]entry, error) {
	var list []entry
	var row *Row
	for i, line := range lines {
		if title, ok := strings.CutPrefix(line, "## "); ok {
			row = nil
			if at := slices.IndexFunc(p.Rows, func(r Row) bool { return r.Title == title }); at >= 0 {
				row = &p.Rows[at]
			}
			continue
		}
		if row == nil {
			continue
		}
		cells := cellsOf(line)
		switch {
		case len(cells) > errorColumn && cells[0] == "target":
			if !slices.Equal(cells[errorColumn:], p.Classes) {
				return nil, fmt.Errorf("line %d: the page has errors on %s, the plan on %s: make the page anew", i+1, strings.Join(cells[errorColumn:], " "), strings.Join(p.Classes, " "))
			}
		case len(cells) > errorColumn && cells[1] != "none":
			list = append(list, entry{line: i, row: row, target: cells[0], name: cells[1], form: cells[2]})
		case strings.Contains(line, " is allowed"):
			if words := strings.SplitN(strings.TrimPrefix(line, "- "), " ", 3); len(words) == 3 && words[1] == "without" {
				name, _, _ := strings.Cut(words[2], ": ")
				list = append(list, entry{line: i, row: row, target: words[0], name: name, out: true})
			}
		}
	}
	if len(list) == 0 {
		return nil, errors.New("no line of the page is a champion of the plan")
	}
	return list, nil
}

// cellsOf returns the cells of a line of a table; nil for another line.
func cellsOf(line string) []string {
	line, ok := strings.CutPrefix(line, "| ")
	if !ok {
		return nil
	}
	cells := strings.Split(strings.TrimSuffix(line, " |"), " | ")
	for i := range cells {
		cells[i] = strings.TrimSpace(cells[i])
	}
	return cells
}

// trial returns the candidate in the page's form, so that its cycles and errors are of one kernel.
func (e *entry) trial(p *Plan) (*trial, error) {
	t, err := target.Lookup(e.target)
	if err != nil {
		return nil, err
	}
	for _, c := range p.candidatesFor(e.row) {
		if c.Name != e.name {
			continue
		}
		if e.form != "" {
			c.Variant = e.form
		}
		return newTrial(e.row.spec, c, t)
	}
	return nil, fmt.Errorf("%s on %s: the plan has no candidate %q", e.row.Title, e.target, e.name)
}

// moved returns auto's present choice if it is not the page's form, or "".
func (e *entry) moved(p *Plan) (string, error) {
	if e.form == "" {
		return "", nil
	}
	today := *e
	today.form = ""
	try, err := today.trial(p)
	if err != nil || try.Form.Variant.Short() == e.form {
		return "", err
	}
	return try.Form.Variant.Short(), nil
}

// again returns the line of the page with today's errors. A champion that would now be left out, or a candidate that
// would no longer be, needs a new cost: both are errors.
func (e *entry) again(line string, rows []check.Row, classes []string) (string, error) {
	why := refused(rows)
	switch {
	case e.out && why == "":
		return "", fmt.Errorf("%s on %s: %s is within the limits now", e.row.Title, e.target, e.name)
	case e.out:
		return fmt.Sprintf("- %s without %s: %s", e.target, e.name, why), nil
	case why != "":
		return "", fmt.Errorf("%s on %s: %s is no champion any more: %s", e.row.Title, e.target, e.name, why)
	}
	cells := strings.SplitAfterN(line, "|", errorColumn+2)
	return strings.Join(cells[:errorColumn+1], "") + errorCells(rows, classes), nil
}

// Errors measures the errors of a page again, for the variants that it names, and returns the new page with the old
// cycles: compiling takes hours, and errors depend only on the programs.
func (l *Maker) Errors(ctx context.Context, p *Plan, page string) (string, error) {
	lines := strings.Split(page, "\n")
	list, err := p.entries(lines)
	if err != nil {
		return "", err
	}
	var faults []error
	for i, e := range list {
		try, err := e.trial(p)
		if err != nil {
			return "", err
		}
		rows, err := try.errors(ctx, l.Instrument.Cache, e.row.Field)
		if err != nil {
			return "", err
		}
		text, err := e.again(lines[e.line], rows, p.Classes)
		if err != nil {
			faults = append(faults, err)
			continue
		}
		lines[e.line] = text
		form, err := e.moved(p)
		if err != nil {
			return "", err
		}
		if form != "" {
			l.Note("%s on %s: %s is %s today, and the page has cycles and errors of %s", e.row.Title, e.target, e.name, form, e.form)
		}
		l.Note("[%d/%d] %s, %s: %s", i+1, len(list), e.row.Title, e.target, e.name)
	}
	if err := errors.Join(faults...); err != nil {
		return "", fmt.Errorf("these works must be costed anew (results --only):\n%w", err)
	}
	if p.Front != nil {
		if err := l.frontAgain(ctx, p, lines); err != nil {
			return "", err
		}
	}
	return noteAgain(strings.Join(lines, "\n"))
}

// noteAgain replaces the page's note about its last columns by the present one.
func noteAgain(page string) (string, error) {
	note := errorsNote()
	head, rest, ok := strings.Cut(page, note[:strings.Index(note, " are")])
	_, tail, ended := strings.Cut(rest, "\n\n")
	if !ok || !ended {
		return "", errors.New("the page does not say what its last columns are")
	}
	return head + note + "\n" + tail, nil
}

// frontAgain measures the errors of the front again, and sets the points in bold anew. The page's cycles have two decimals, where Make has
// exact ones. Among points with equal rounded cycles the smaller error is in bold, even if another point takes slightly fewer cycles.
func (l *Maker) frontAgain(ctx context.Context, p *Plan, lines []string) error {
	begin := slices.Index(lines, frontTitle)
	if begin < 0 {
		return nil
	}
	f := &Front{Spec: p.Front.Spec}
	var at []int
	for i := begin + 1; i < len(lines) && !strings.HasPrefix(lines[i], "## "); i++ {
		cells := cellsOf(lines[i])
		if len(cells) < 3 {
			continue
		}
		if cells[0] == "variant" {
			f.Targets = cells[2:slices.Index(cells, "worst")]
			continue
		}
		text, ok := strings.CutPrefix(cells[0], "`")
		if !ok || len(f.Targets) == 0 {
			continue
		}
		point := Point{Text: strings.TrimSuffix(text, "`"), Precision: cells[1]}
		for _, cell := range cells[2 : 2+len(f.Targets)] {
			n, _ := strconv.ParseFloat(strings.Trim(cell, "*"), 64) // a dash means refused
			point.PerToken = append(point.PerToken, n)
		}
		f.Points, at = append(f.Points, point), append(at, i)
	}
	for i := range f.Points {
		point := &f.Points[i]
		t, err := target.Lookup(f.Targets[0])
		if err != nil {
			return err
		}
		try, err := newTrial(p.Front.spec, Candidate{Name: point.Text, Variant: point.Text}, t)
		if err != nil {
			return err
		}
		if point.Errors, err = try.errors(ctx, l.Instrument.Cache, false); err != nil {
			return err
		}
		point.Worst = worstRMS(point.Errors, p.Classes)
	}
	f.mark()
	for i := range f.Points {
		lines[at[i]] = f.Points[i].markdown(p.Classes)
	}
	return nil
}
