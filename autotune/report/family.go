package report

import (
	"fmt"
	"strings"

	"github.com/gdngen/gdngen/gdn"
)

// mostDiffs is the largest number of differing axes that a row lists; a variant with more has its short name.
const mostDiffs = 6

// axisDiff is an axis in which a variant differs from the champion.
type axisDiff struct{ Axis, Was, Is string }

// short returns the shortest text of a variant: a named variant with changes, or in full if the changes contradict the name.
func short(variant string) string {
	v, err := gdn.ParseVariant(variant)
	if variant == "" || err != nil {
		return named(variant)
	}
	text := v.Short()
	name, changes, _ := strings.Cut(text, ",")
	for _, n := range gdn.Variants {
		if n.Name == name && changes != "" && contradicts(n, changes) {
			return variant
		}
	}
	return text
}

// contradicts reports whether changes set an axis that a named variant's text sets, or change one for a CPU.
func contradicts(n gdn.NamedVariant, changes string) bool {
	if strings.HasPrefix(n.Name, "cpu") {
		return true
	}
	for change := range strings.SplitSeq(changes, ",") {
		axis, _, _ := strings.Cut(change, "=")
		if strings.Contains(","+n.Text, ","+axis+"=") {
			return true
		}
	}
	return false
}

// Label names a candidate by its change of the parent or, without a parent, by the text of its variant.
func (r *Row) Label() string {
	if len(r.Change) == 0 {
		return short(r.Variant)
	}
	return fmt.Sprintf("%s on #%d", strings.Join(r.Change, ","), r.Parent)
}

// diffs lists the axes in which a variant differs from the champion; nil if one is no variant, or if there are more than mostDiffs.
func diffs(champion, variant string) []axisDiff {
	a, errA := gdn.ParseVariant(champion)
	b, errB := gdn.ParseVariant(variant)
	if champion == "" || variant == "" || errA != nil || errB != nil {
		return nil
	}
	a, b = a.Canon(), b.Canon()
	var list []axisDiff
	for _, x := range gdn.Axes {
		applies := x.Applies == nil || x.Applies(a) || x.Applies(b)
		if was, is := x.Get(&a), x.Get(&b); was != is && applies && len(x.Sets) == 0 {
			list = append(list, axisDiff{x.Name, was, is})
		}
	}
	if len(list) > mostDiffs {
		return nil
	}
	return list
}

// cellOf returns the structure of a variant, or its text if it is no variant.
func cellOf(variant string) string {
	v, err := gdn.ParseVariant(variant)
	if variant == "" || err != nil {
		return variant
	}
	return v.Cell()
}

// families marks the rows whose structure a better row has, and counts them there. Texts of programs belong to no family.
func families(rows []pageRanked, cells []string) {
	first := map[string]int{}
	for i, cell := range cells {
		at, known := first[cell]
		switch {
		case strings.TrimSpace(cell) == "":
		case known:
			rows[i].Kin = true
			rows[at].Family++
		default:
			first[cell] = i
		}
	}
}
