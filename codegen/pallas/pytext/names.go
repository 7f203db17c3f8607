package pytext

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/gdngen/gdngen/codegen/python"
)

var (
	words    = regexp.MustCompile(`\.?\b[A-Za-z_]\w*`)
	assigned = regexp.MustCompile(`(?m)^\s*(\w+(?:, \w+)*) = `)
	numbered = regexp.MustCompile(`_\d+$`)
)

// OwnNames returns the text of a function with its local names, including parameters, renumbered independently of other functions.
func OwnNames(text string) string {
	header, _, _ := strings.Cut(text, "\n")
	_, header, _ = strings.Cut(header, "(")
	made := map[string]bool{}
	for _, n := range words.FindAllString(header, -1) {
		made[n] = true
	}
	for _, m := range assigned.FindAllStringSubmatch(text, -1) {
		for _, n := range strings.Split(m[1], ", ") {
			made[n] = true
		}
	}
	uses := words.FindAllString(text, -1)
	taken, own := map[string]bool{}, map[string]string{}
	for _, n := range uses {
		taken[n] = taken[n] || !made[n] || !numbered.MatchString(n)
	}
	for _, n := range uses {
		if !made[n] || !numbered.MatchString(n) || own[n] != "" {
			continue
		}
		base := numbered.ReplaceAllString(n, "")
		name := base
		for i := 2; taken[name] || slices.Contains(python.Keywords, name); i++ {
			name = fmt.Sprintf("%s_%d", base, i)
		}
		taken[name], own[n] = true, name
	}
	return words.ReplaceAllStringFunc(text, func(n string) string {
		if m := own[n]; m != "" {
			return m
		}
		return n
	})
}
