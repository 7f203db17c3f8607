// Package share takes out of Python files what several of them have alike, so that they import it.
package share

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
)

// piece is a definition at the top level of a file: a function, a class, or the assignment of names.
type piece struct {
	names []string
	text  string
}

var (
	functionOrClass = regexp.MustCompile(`(?m)^(?:def|class) (\w+)`)
	assigned        = regexp.MustCompile(`^(\w+(?:, \w+)*)(?:: [^=\n]+)? = `)
	added           = regexp.MustCompile(`^\w+ \|= `) // to what is assigned before
	word            = regexp.MustCompile(`\.?\b\w+`)
	docText         = regexp.MustCompile(`(?s)""".*?"""|#[^\n]*`)
	quoted          = regexp.MustCompile(`f?"[^"\n]*"`)
	singly          = regexp.MustCompile(`'[^']*'`)
	braced          = regexp.MustCompile(`\{[^{}]*\}`)
)

// Code is a text of Python without what is stated in it: of strings what formatted ones compute is left.
func Code(text string) string {
	return quoted.ReplaceAllStringFunc(docText.ReplaceAllString(text, ""), func(s string) string {
		if s[0] == 'f' {
			return singly.ReplaceAllString(strings.Join(braced.FindAllString(s, -1), " "), "")
		}
		return ""
	})
}

// Names are the names that a text uses, without attributes.
func Names(text string) []string {
	return slices.DeleteFunc(word.FindAllString(Code(text), -1), func(s string) bool { return s[0] == '.' })
}

// pieces cuts a text at its definitions. Decorators and comments belong to what follows.
func pieces(text string) []piece {
	var out []piece
	open := false // what comes next belongs to the last piece
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

// assigns are the names that a text begins to assign, nil where it begins otherwise.
func assigns(text string) []string {
	m := assigned.FindStringSubmatch(strings.TrimSpace(docText.ReplaceAllString(text, "")))
	if m == nil {
		return nil
	}
	return strings.Split(m[1], ", ")
}

// Out takes out of files what several of them have alike, with all that it uses: the text of a file that has it, and for each file what is
// left, and the names that it takes from there. What is named own stays.
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
	shared := make([]map[string]bool, len(files)) // names that a file takes
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

// From takes out of a file what modules that it may import have alike, with all that it uses: what is left, and the names that it takes from
// each. What is named own stays, and what several modules define: one of them may use its own.
func From(modules []string, file string, own ...string) (left string, taken [][]string) {
	chosen, where := map[string]string{}, map[string]int{} // by first name, and by each
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

// joined puts definitions one after another.
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

// takes are the names that a file can take from what was chosen: their text is that, and so is all that they use.
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

// keys are the keys of a map, sorted as names are in an import: constants, classes, then the rest.
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
