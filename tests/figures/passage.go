package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"

	"github.com/gdngen/gdngen/autotune/measure"
)

// passage is a text of a document with sources in place of its figures.
type passage struct {
	file    string
	text    string // with sources in braces
	sources []string
	form    *regexp.Regexp // finds the passage, whatever its figures are
}

func (p *passage) String() string { return p.file + ": " + p.text }

var (
	braces = regexp.MustCompile(`\{[^{}]*\}`)
	number = `([0-9]*\.?[0-9]+(?:e-?[0-9]+)?)`
)

// readPassages reads the table.
func readPassages(path string) ([]*passage, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var list []*passage
	for i, line := range strings.Split(strings.TrimSpace(string(data)), "\n") {
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		p, err := parsePassage(line)
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", path, i+1, err)
		}
		list = append(list, p)
	}
	return list, nil
}

func parsePassage(line string) (*passage, error) {
	file, text, ok := strings.Cut(line, "\t")
	if !ok {
		return nil, fmt.Errorf("want a document, a tab and a text, not %q", line)
	}
	p := &passage{file: file, text: text}
	form, at := "", 0
	for _, span := range braces.FindAllStringIndex(text, -1) {
		source := text[span[0]+1 : span[1]-1]
		if _, err := parseSource(source); err != nil {
			return nil, err
		}
		p.sources = append(p.sources, source)
		form += words(text[at:span[0]]) + number
		at = span[1]
	}
	if len(p.sources) == 0 {
		return nil, fmt.Errorf("%q has no figure in braces", text)
	}
	p.form = regexp.MustCompile(form + words(text[at:]))
	return p, nil
}

// words returns a pattern that matches a text however its lines are wrapped.
func words(text string) string {
	return strings.ReplaceAll(regexp.QuoteMeta(text), " ", `\s+`)
}

// stated returns the positions of the figures in a document. The passage must occur exactly once.
func (p *passage) stated(document string) ([][2]int, error) {
	found := p.form.FindAllStringSubmatchIndex(document, -1)
	if len(found) != 1 {
		return nil, fmt.Errorf("the passage is %d times in the document, not once: mend its row of figures.tsv", len(found))
	}
	var places [][2]int
	for i := range p.sources {
		places = append(places, [2]int{found[0][2*i+2], found[0][2*i+3]})
	}
	return places, nil
}

// figure is a figure in a document with its present value, or why it has none.
type figure struct{ source, stated, is string }

// comparison is the result for a passage.
type comparison struct {
	differ  []figure
	left    int    // figures not selected, or not measured yet
	refused int    // figures that no longer exist
	text    string // of the document with the present values, as far as they exist
}

// compare compares the figures in a document with the measured ones, for sources that contain a text.
func (p *passage) compare(ctx context.Context, document, only string, m *meter) (*comparison, error) {
	places, err := p.stated(document)
	if err != nil {
		return nil, err
	}
	c := &comparison{}
	at := 0
	for i, span := range places {
		stated := document[span[0]:span[1]]
		is := stated
		var value float64
		var err error
		if strings.Contains(p.sources[i], only) {
			value, err = m.value(ctx, p.sources[i])
		} else {
			err = errCold
		}
		refusal := (*measure.Refusal)(nil)
		switch {
		case errors.Is(err, errCold):
			c.left++
		case errors.As(err, &refusal) && refusal.Verdict != measure.Timeout:
			why, _, _ := strings.Cut(err.Error(), "\n")
			c.differ, c.refused = append(c.differ, figure{p.sources[i], stated, why}), c.refused+1
		case err != nil:
			return nil, fmt.Errorf("%s: %w", p.sources[i], err)
		default:
			is = like(stated, value)
		}
		if is != stated {
			c.differ = append(c.differ, figure{p.sources[i], stated, is})
		}
		c.text += document[at:span[0]] + is
		at = span[1]
	}
	c.text += document[at:]
	return c, nil
}

// like formats a number with as many decimals as another, and without a leading zero if that has none.
func like(stated string, value float64) string {
	mantissa, _, exponent := strings.Cut(stated, "e")
	_, behind, _ := strings.Cut(mantissa, ".")
	if exponent {
		text := strconv.FormatFloat(value, 'e', len(behind), 64)
		head, tail, _ := strings.Cut(text, "e")
		n, _ := strconv.Atoi(tail) // FormatFloat wrote it
		return fmt.Sprintf("%se%d", head, n)
	}
	text := strconv.FormatFloat(value, 'f', len(behind), 64)
	if strings.HasPrefix(stated, ".") {
		text = strings.TrimPrefix(text, "0")
	}
	return text
}
