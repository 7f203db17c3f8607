package report

import (
	"fmt"
	"strings"

	"github.com/gdngen/gdngen/gdn"
)

// mostDiffs is how many axes a row names by their difference; a variant that is farther away has its short name.
const mostDiffs = 6

// axisDiff is an axis in which a variant differs from the champion.
type axisDiff struct{ Axis, Was, Is string }

// short is the shortest text of a variant: by the name of a variant that it extends, or in full where it changes what the name stands for.
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

// contradicts says whether changes move an axis that the text of a named variant sets, or are made to one that is for a CPU.
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

// Label names a candidate by what was changed in its parent or, where it has none, by the text of its variant.
func (r *Row) Label() string {
	if len(r.Change) == 0 {
		return short(r.Variant)
	}
	return fmt.Sprintf("%s on #%d", strings.Join(r.Change, ","), r.Parent)
}

// diffs lists the axes in which a variant differs from the champion; none where one is no variant, or they are far apart.
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

// cellOf is the structure of a variant, or its text where it is none.
func cellOf(variant string) string {
	v, err := gdn.ParseVariant(variant)
	if variant == "" || err != nil {
		return variant
	}
	return v.Cell()
}

// families marks the rows whose structure a better row has, and counts them there. Texts of programs are no family.
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
