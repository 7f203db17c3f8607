package gdn

import (
	"fmt"
	"strings"
)

// was gives an axis its former name, and as FORMER=NOW its values that had others. Journals and scripts have them, so they are read
// as what they are called now; they are never written.
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

// now is what a value is called now.
func (a Axis) now(value string) string {
	if now, ok := a.formerValues[value]; ok {
		return now
	}
	return value
}

// Renamed lists the entries of a variant's text that have former names, each with its present name: "late=3 is
// state_delay=3 now".
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

// known says whether a value is legal, by its present or former name.
func (a Axis) known(value string) bool {
	var v Variant
	return a.Set(&v, strings.TrimSpace(value)) == nil
}
