package gdn

import (
	"fmt"
	"strings"
)

// was returns the axis with a former name, and former values given as "FORMER=NOW". They are accepted when read, since journals and scripts have them,
// and never written.
func (a Axis) was(name string, values ...string) Axis {
	a.Former, a.formerValues = name, map[string]string{}
	for _, pair := range values {
		former, now, _ := strings.Cut(pair, "=")
		a.formerValues[former] = now
	}
	set := a.Set
	a.Set = func(v *Variant, text string) error { return set(v, a.now(text)) }
	return a
}

// now returns the present name of a value.
func (a Axis) now(value string) string {
	if now, ok := a.formerValues[value]; ok {
		return now
	}
	return value
}

// Renamed returns a note for each entry of a variant's text that uses a former name or value, such as "late=3 is
// state_delay=3 now". Unknown entries get no note.
func Renamed(text string) (notes []string) {
	for entry := range strings.SplitSeq(text, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(entry), "=")
		a := lookupAxis(strings.TrimSpace(name))
		if a == nil {
			continue
		}
		if is, was := a.Name+"="+a.now(strings.TrimSpace(value)), strings.TrimSpace(entry); is != was && a.known(value) {
			notes = append(notes, fmt.Sprintf("%s is %s now", was, is))
		}
	}
	return notes
}

// known reports whether a value is legal under its present or former name.
func (a Axis) known(value string) bool {
	var v Variant
	return a.Set(&v, strings.TrimSpace(value)) == nil
}
