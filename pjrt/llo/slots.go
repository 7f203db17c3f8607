package llo

import "strings"

// droppedSlots are the slots that remain where some were dropped, least first: a target whose branches say how many they have (MostDelay)
// schedules the most, and from a forward branch may then drop empty ones.
var droppedSlots = []int{1, 3}

// delaySlots is how many bundles after the branch in bundle i execute before its target. Slots hold the rest of the region that the branch
// ends, and what runs under the guard that the branch is not taken; never another branch or the start of a region. The last of all slots
// carries the end of the region; where slots were dropped, that mark went with it.
func (d *decoder) delaySlots(bundles []bundle, i int) int {
	most := d.target.MostDelay
	if most == 0 {
		return d.target.BranchDelay
	}
	opposite := oppositeGuards(&bundles[i])
	var needed, slots int // slots up to the last that must be one, and bundles that may be slots
	for slots < most && i+slots+1 < len(bundles) {
		b := &bundles[i+slots+1]
		if len(b.regions) > 0 || b.branches() {
			break
		}
		slots++
		if b.endsRegion || b.guarded(opposite) {
			needed = slots
		}
	}
	if slots == most && bundles[i+most].endsRegion {
		return most
	}
	for _, n := range droppedSlots {
		if needed <= n {
			return min(n, slots)
		}
	}
	return needed // a region ends in a later slot too, and what is behind its end, as the way out of a loop, is none
}

func (b *bundle) branches() bool {
	for i := range b.ins {
		if isBranch(b.ins[i].op) {
			return true
		}
	}
	return false
}

func isBranch(op string) bool { return op == "sbr" || strings.HasPrefix(op, "sbr.") }

// oppositeGuards are the texts of a guard that holds where that of the branch in a bundle does not; none for a branch always taken.
func oppositeGuards(b *bundle) []string {
	for i := range b.ins {
		_, inner, _ := strings.Cut(b.ins[i].args, "(")
		p, _, ok := strings.Cut(inner, ")")
		if !isBranch(b.ins[i].op) || !ok {
			continue
		}
		if q, negated := strings.CutPrefix(p, "!"); negated {
			p = q
		} else {
			p = "!" + p
		}
		return []string{"(" + p + ")", "(" + p + ","}
	}
	return nil
}

// guarded reports whether an instruction of the bundle runs under one of the guards.
func (b *bundle) guarded(guards []string) bool {
	for i := range b.ins {
		for _, g := range guards {
			if strings.Contains(b.ins[i].args, g) {
				return true
			}
		}
	}
	return false
}
