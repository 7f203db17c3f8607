package llo

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// locations shares the cycles of every bundle among the locations of its instructions. A bundle without any waits for what comes next, so
// its cycles go to the next bundle that has some, if no branch lands between; the shares add up to the cycles of the op.
func locations(p *program, bundles []bundle, tr *trace) []Location {
	at := map[string]*Location{}
	get := func(loc string) *Location {
		l := at[loc]
		if l == nil {
			l = parseLocation(loc)
			at[loc] = l
		}
		return l
	}
	located := false
	var carried, carriedWait, carriedRuns int64
	for i, b := range bundles {
		if carriedRuns != tr.counts[i] {
			get("").Cycles += carried
			get("").Wait += carriedWait
			carried, carriedWait, carriedRuns = 0, 0, tr.counts[i]
		}
		cycles, wait := tr.cyclesAt(p, i)+carried, tr.waitAt(i)+carriedWait
		carried, carriedWait = 0, 0
		var locs []*Location
		for _, in := range b.ins {
			if in.loc != "" && in.op != "sphi" && in.op != "int_to_ptr" {
				locs = append(locs, get(in.loc))
			}
		}
		n := int64(len(locs))
		if n == 0 {
			carried, carriedWait = cycles, wait
			continue
		}
		located = true
		for k, l := range locs {
			l.Cycles += cycles*int64(k+1)/n - cycles*int64(k)/n
			l.Wait += wait*int64(k+1)/n - wait*int64(k)/n
			l.Instructions += tr.counts[i]
		}
	}
	if !located {
		return nil
	}
	get("").Cycles += carried
	get("").Wait += carriedWait
	merged := map[Location]*Location{}
	for _, l := range at {
		key := Location{File: l.File, Line: l.Line, Column: l.Column}
		if m := merged[key]; m != nil {
			m.Cycles += l.Cycles
			m.Wait += l.Wait
			m.Instructions += l.Instructions
		} else {
			merged[key] = l
		}
	}
	var list []Location
	for _, l := range merged {
		if l.Cycles > 0 || l.Wait != 0 || l.Instructions > 0 {
			list = append(list, *l)
		}
	}
	sortLocations(list)
	return list
}

// waitAt is what a bundle waits in the wall model, on top of what its cycles have for matrix units.
func (tr *trace) waitAt(i int) int64 {
	if len(tr.clocks) == 0 {
		return 0
	}
	return tr.clocks[1].at[i] - tr.waits[i]
}

func sortLocations(list []Location) {
	slices.SortFunc(list, func(x, y Location) int {
		return cmp.Or(cmp.Compare(y.Cycles, x.Cycles), strings.Compare(x.File, y.File), cmp.Compare(x.Line, y.Line), cmp.Compare(x.Column, y.Column))
	})
}

// parseLocation reads `"file":line:column`, with or without an end; anything else is a file by that name.
func parseLocation(text string) *Location {
	l := &Location{File: text}
	quoted, err := strconv.QuotedPrefix(text)
	if err != nil {
		return l
	}
	file, err := strconv.Unquote(quoted)
	if err != nil {
		return l
	}
	start, _, _ := strings.Cut(text[len(quoted):], " ")
	parts := strings.Split(start, ":")
	if len(parts) != 3 || parts[0] != "" {
		return l
	}
	line, err1 := strconv.Atoi(parts[1])
	column, err2 := strconv.Atoi(parts[2])
	if err1 != nil || err2 != nil {
		return l
	}
	return &Location{File: file, Line: line, Column: column}
}
