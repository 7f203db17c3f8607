// Package share moves definitions that several Python files share into a common file, which they import.
package share

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
)

// piece is a top-level definition of a file: a function, a class, or an assignment of names.
type piece struct {
	names []string
	text  string
}

var (
	functionOrClass = regexp.MustCompile(`(?m)^(?:def|class) (\w+)`)
	assigned        = regexp.MustCompile(`^(\w+(?:, \w+)*)(?:: [^=\n]+)? = `)
	added           = regexp.MustCompile(`^\w+ \|= `) // to a name assigned before
	word            = regexp.MustCompile(`\.?\b\w+`)
	docText         = regexp.MustCompile(`(?s)""".*?"""|#[^\n]*`)
	quoted          = regexp.MustCompile(`f?"[^"\n]*"`)
	singly          = regexp.MustCompile(`'[^']*'`)
	braced          = regexp.MustCompile(`\{[^{}]*\}`)
)

// Code returns Python text without docstrings and strings; of formatted strings, the expressions are kept.
func Code(text string) string {
	return quoted.ReplaceAllStringFunc(docText.ReplaceAllString(text, ""), func(s string) string {
		if s[0] == 'f' {
			return singly.ReplaceAllString(strings.Join(braced.FindAllString(s, -1), " "), "")
		}
		return ""
	})
}

// Names returns the names that a text uses, except attributes.
func Names(text string) []string {
	return slices.DeleteFunc(word.FindAllString(Code(text), -1), func(s string) bool { return s[0] == '.' })
}

// pieces splits a text into its definitions. Decorators and comments belong to the definition after them.
func pieces(text string) []piece {
	var out []piece
	open := false // the next line belongs to the last piece
	for _, line := range strings.Split(strings.TrimSpace(text), "\n") {
		top := line != "" && !strings.ContainsAny(line[:1], " )]}") && !added.MatchString(line)
		if top && !open || len(out) == 0 {
			out = append(out, piece{})
		}
		if top {
			open = line[0] == '@' || line[0] == '#'
		}
		out[len(out)-1].text += line + "\n"
	}
	for i := range out {
		p := &out[i]
		p.text = strings.TrimSpace(p.text)
		if m := functionOrClass.FindStringSubmatch(p.text); m != nil {
			p.names = m[1:]
		} else {
			p.names = assigns(p.text)
		}
	}
	return out
}

// assigns returns the names that a text starts by assigning; nil if it starts otherwise.
func assigns(text string) []string {
	m := assigned.FindStringSubmatch(strings.TrimSpace(docText.ReplaceAllString(text, "")))
	if m == nil {
		return nil
	}
	return strings.Split(m[1], ", ")
}

// Out moves definitions that several files share, with all that they use, into a common text. It returns that text, the rest of each
// file, and the names that each file imports from it. Definitions named in own stay.
func Out(files []string, own ...string) (common string, left []string, taken [][]string) {
	all := make([][]piece, len(files))
	count := map[string]map[string]int{} // by first name and text
	for i, f := range files {
		all[i] = pieces(f)
		for _, p := range all[i] {
			if len(p.names) == 0 || slices.Contains(own, p.names[0]) {
				continue
			}
			if count[p.names[0]] == nil {
				count[p.names[0]] = map[string]int{}
			}
			count[p.names[0]][p.text]++
		}
	}
	chosen := map[string]string{}
	for name, texts := range count {
		best := slices.MaxFunc(keys(texts), func(a, b string) int { return cmp.Or(texts[a]-texts[b], strings.Compare(a, b)) })
		if texts[best] > 1 {
			chosen[name] = best
		}
	}
	shared := make([]map[string]bool, len(files)) // names that a file imports
	for changed := true; changed; {
		changed = false
		uses := map[string]int{}
		for i := range files {
			shared[i] = takes(all[i], chosen)
			for _, p := range all[i] {
				if len(p.names) > 0 && shared[i][p.names[0]] {
					uses[p.names[0]]++
				}
			}
		}
		for name := range chosen {
			if uses[name] < 2 {
				delete(chosen, name)
				changed = true
			}
		}
	}
	var texts []string
	for i := range files {
		var rest []string
		for _, p := range all[i] {
			if len(p.names) == 0 || !shared[i][p.names[0]] {
				rest = append(rest, p.text)
				continue
			}
			if !slices.Contains(texts, p.text) {
				texts = append(texts, p.text)
			}
		}
		left = append(left, joined(rest))
		taken = append(taken, keys(shared[i]))
	}
	slices.SortStableFunc(texts, func(a, b string) int { // constants first
		rank := map[bool]int{true: 0, false: 1}
		return rank[assigns(a) != nil] - rank[assigns(b) != nil]
	})
	return joined(texts), left, taken
}

// From removes from a file the definitions that one of modules also has, with everything that they use. It returns the
// rest, and for each module the names to import from it. It keeps definitions named in own, and names that several
// modules define, since each module may mean another.
func From(modules []string, file string, own ...string) (left string, taken [][]string) {
	chosen, where := map[string]string{}, map[string]int{} // by first name; by each name
	for i, m := range modules {
		for _, p := range pieces(m) {
			if len(p.names) == 0 || slices.Contains(own, p.names[0]) {
				continue
			}
			if _, twice := where[p.names[0]]; twice {
				chosen[p.names[0]] = ""
				continue
			}
			chosen[p.names[0]] = p.text
			for _, n := range p.names {
				where[n] = i
			}
		}
	}
	all := pieces(file)
	shared := takes(all, chosen)
	var rest []string
	for _, p := range all {
		if len(p.names) == 0 || !shared[p.names[0]] {
			rest = append(rest, p.text)
		}
	}
	taken = make([][]string, len(modules))
	for _, n := range keys(shared) {
		taken[where[n]] = append(taken[where[n]], n)
	}
	return joined(rest), taken
}

// joined concatenates definitions.
func joined(texts []string) string {
	var b strings.Builder
	for i, t := range texts {
		switch {
		case i == 0:
		case assigns(t) != nil && assigns(texts[i-1]) != nil:
			b.WriteString("\n")
		default:
			b.WriteString("\n\n\n")
		}
		b.WriteString(t)
	}
	return b.String()
}

// takes returns the names that a file can import: their text is the chosen one, and so is all that they use.
func takes(file []piece, chosen map[string]string) map[string]bool {
	same, defines := map[string]bool{}, map[string]bool{}
	for _, p := range file {
		for _, n := range p.names {
			defines[n], same[n] = true, chosen[p.names[0]] == p.text
		}
	}
	for changed := true; changed; {
		changed = false
		for _, p := range file {
			if len(p.names) == 0 || !same[p.names[0]] {
				continue
			}
			for _, w := range Names(p.text) {
				if defines[w] && !same[w] {
					for _, n := range p.names {
						same[n] = false
					}
					changed = true
					break
				}
			}
		}
	}
	for n, is := range same {
		if !is {
			delete(same, n)
		}
	}
	return same
}

// keys returns the keys of a map in the order of an import: constants, classes, then the rest.
func keys[V any](m map[string]V) []string {
	var out []string
	for k := range m {
		out = append(out, k)
	}
	kind := func(s string) int {
		switch {
		case len(s) > 1 && s == strings.ToUpper(s):
			return 0
		case s[0] >= 'A' && s[0] <= 'Z':
			return 1
		}
		return 2
	}
	slices.SortFunc(out, func(a, b string) int {
		return cmp.Or(kind(a)-kind(b), strings.Compare(strings.ToLower(a), strings.ToLower(b)))
	})
	return out
}
