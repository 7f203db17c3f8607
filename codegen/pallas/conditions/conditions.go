// Package conditions makes one function of what stands under several conditions of a Python function alike.
package conditions

import (
	"regexp"
	"strings"
)

// fewLines are those that are written as often as they stand.
const fewLines = 8

var (
	acts     = regexp.MustCompile(`\b_(start|wait)\(`)
	nextStep = regexp.MustCompile(`\bstep \+ 1\b`)
)

// text is what stands under the condition of a statement, the same where copies begin and where they are waited for, of this step and of
// the next; empty for other statements, and for what is short.
func text(lines []string) string {
	if len(lines) < fewLines || !strings.HasPrefix(lines[0], "@pl.when(") || lines[1] != "def _():" {
		return ""
	}
	return acts.ReplaceAllString(nextStep.ReplaceAllString(strings.Join(lines[2:], "\n"), "step"), "act(")
}

// Share takes the lines of each statement, and gives them with one function for what stands under several conditions alike, but that copies
// begin in one place and are waited for in another, of this step or of the next.
func Share(statements [][]string) (out [][]string) {
	count, names := map[string]int{}, map[string]string{}
	for _, s := range statements {
		count[text(s)]++
	}
	for _, s := range statements {
		t := text(s)
		if t == "" || count[t] < 2 {
			out = append(out, s)
			continue
		}
		if names[t] == "" {
			names[t] = "copies" + strings.Repeat("_", len(names))
			out = append(out, append([]string{"def " + names[t] + "(act: Callable, step: jax.Array) -> None:"}, strings.Split(t, "\n")...))
		}
		act, step, whole := "_start", "step", strings.Join(s[2:], "\n")
		if strings.Contains(whole, "_wait(") {
			act = "_wait"
		}
		if nextStep.MatchString(whole) {
			step = "step + 1"
		}
		out = append(out, []string{strings.TrimPrefix(s[0], "@") + "(functools.partial(" + names[t] + ", " + act + ", " + step + "))"})
	}
	return out
}
