// Package helpers has the constants and functions that generated Python kernels use.
package helpers

import (
	_ "embed"
	"regexp"
	"strings"
)

//go:embed helpers.py
var texts string

// Pipeline is the Python text that orders the phases of kernels while JAX traces them; in a package it is a module.
//
//go:embed pipeline.py
var Pipeline string

var optional = regexp.MustCompile(`.*  #\? \w+\n`)

// needs lists the helpers that a helper uses.
var needs = map[string][]string{"rows": {"half"}, "half": {"HIGH"}, "word_mask": {"HIGH"}, "finite": {"halves", "words"}, "feedback": {"bf16", "f32"}, "store_words": {"halves"},
	"eliminate": {"half", "take", "Tiles"}, "merge": {"ALL", "Tiles", "bf16", "dot", "finite", "halves", "stacked", "take", "union", "words"}, "union": {"Tiles"}, "stacked": {"Tiles"}, "joined": {"Tiles"}}

// Need adds a helper to all, with the helpers that it uses.
func Need(all map[string]bool, name string) {
	all[name] = true
	for _, other := range needs[name] {
		Need(all, other)
	}
	if strings.HasPrefix(name, "dot_") || name == "dot" {
		all["dot_general"] = true
	}
}

// Text returns the named helpers from helpers.py, constants first. There, a line "#: NAME" begins a helper, and a line that ends in "#?
// NAME" is included only if NAME is in names.
func Text(names map[string]bool) string {
	constants, functions := "", ""
	for _, part := range strings.Split(texts, "#: ")[1:] {
		head, text, _ := strings.Cut(part, "\n")
		name, kind, _ := strings.Cut(head, " ")
		switch {
		case !names[name]:
		case kind == "constant":
			constants += strings.TrimSpace(text) + "\n"
		default:
			functions += "\n\n" + strings.TrimSpace(text) + "\n"
		}
	}
	return optional.ReplaceAllStringFunc(constants+functions, func(line string) string {
		text, name, _ := strings.Cut(line, "  #? ")
		if !names[strings.TrimSpace(name)] {
			return ""
		}
		return text + "\n"
	})
}
