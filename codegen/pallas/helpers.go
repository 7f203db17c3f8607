package pallas

import (
	_ "embed"
	"strings"
)

// helper is a constant or function of the module that is written where it is used.
type helperText struct {
	name     string
	constant bool
	text     string
}

//go:embed helpers.py
var helperTexts string

// helpers are what stands in helpers.py behind lines that name them.
var helpers = func() (out []helperText) {
	for _, part := range strings.Split(helperTexts, "#: ")[1:] {
		head, text, _ := strings.Cut(part, "\n")
		name, kind, _ := strings.Cut(head, " ")
		out = append(out, helperText{name: name, constant: kind == "constant", text: strings.TrimSpace(text)})
	}
	return out
}()
