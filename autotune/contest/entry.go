package contest

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/gdngen/gdngen/autotune/flashinfer"
)

// python lists the languages whose sources are Python.
var python = []string{"python", "triton", "tilelang"}

// checkEntry looks for the function that the benchmark calls. In Python it must be defined at the top level with a
// fitting number of parameters; in other languages its name must occur.
func checkEntry(s *flashinfer.Solution, d *flashinfer.Definition) error {
	file, function, _ := strings.Cut(s.Spec.EntryPoint, "::")
	i := slices.IndexFunc(s.Sources, func(x flashinfer.Source) bool { return x.Path == file })
	text := s.Sources[i].Content
	if !slices.Contains(python, s.Spec.Language) {
		if !regexp.MustCompile(`\b` + regexp.QuoteMeta(function) + `\b`).MatchString(text) {
			return fmt.Errorf("entry_point %s: %s does not name %s", s.Spec.EntryPoint, file, function)
		}
		return nil
	}
	at := regexp.MustCompile(`(?m)^(?:async\s+)?def\s+` + regexp.QuoteMeta(function) + `\s*\(`).FindStringIndex(text)
	if at == nil {
		return fmt.Errorf("entry_point %s: %s has no `def %s` at its top level", s.Spec.EntryPoint, file, function)
	}
	least, most, ok := parameters(text[at[1]:])
	if !ok {
		return fmt.Errorf("entry_point %s: the parameters of %s do not end", s.Spec.EntryPoint, function)
	}
	called, how := len(d.Inputs), fmt.Sprintf("%d inputs", len(d.Inputs))
	if s.Spec.DestinationLast {
		called += len(d.Outputs)
		how += fmt.Sprintf(" and %d outputs, by destination_passing_style", len(d.Outputs))
	}
	if called < least || most >= 0 && called > most {
		return fmt.Errorf("entry_point %s: %s is called with %s of %s, and takes %s", s.Spec.EntryPoint, function, how, d.Name, counted(least, most))
	}
	return nil
}

func counted(least, most int) string {
	switch {
	case most < 0:
		return fmt.Sprintf("%d or more", least)
	case least == most:
		return fmt.Sprint(least)
	}
	return fmt.Sprintf("%d to %d", least, most)
}

// parameters counts the parameters of a Python function: a call by position must give least and can give most (-1: any number).
// text begins after the opening parenthesis. Example: `q, k, scale: float = 1.0, *, out=None):` needs 2 and takes 3.
func parameters(text string) (least, most int, ended bool) {
	depth, start, quote := 0, 0, byte(0)
	named := false // after *: by name only
	add := func(x string) {
		switch x = strings.TrimSpace(x); {
		case x == "" || x == "/" || strings.HasPrefix(x, "**"):
		case strings.HasPrefix(x, "*"):
			if x != "*" {
				most = -1
			}
			named = true
		case named:
		default:
			if most++; !strings.Contains(x, "=") {
				least++
			}
		}
	}
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quote != 0:
			if c == '\\' {
				i++
			} else if c == quote {
				quote = 0
			}
		case c == '"' || c == '\'':
			quote = c
		case c == '#':
			end := strings.IndexByte(text[i:], '\n')
			if end < 0 {
				return 0, 0, false
			}
			text = text[:i] + strings.Repeat(" ", end) + text[i+end:]
		case strings.IndexByte("([{", c) >= 0:
			depth++
		case c == ')' && depth == 0:
			add(text[start:i])
			return least, most, true
		case strings.IndexByte(")]}", c) >= 0:
			depth--
		case c == ',' && depth == 0:
			add(text[start:i])
			start = i + 1
		}
	}
	return 0, 0, false
}
