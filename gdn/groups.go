package gdn

import (
	"fmt"
	"slices"
	"strings"
)

// Group is the subject of an axis. What is said of several axes at once (which a search crosses together, which a forward kernel has
// no use for, which order instructions and leave them as they are) is said of groups.
type Group uint8

// The groups. Form is what is computed; its inverse, (I + A)^-1, has a group of its own. Mapping is what shares a program; the order
// of dimensions has a group of its own.
const (
	GroupForm Group = iota
	GroupInverse
	GroupNumerics
	GroupMapping
	GroupLayout
	GroupForward
	GroupBackward
	GroupTraining
	groups
)

var groupNames = [groups]string{"form", "inverse", "numerics", "mapping", "layout", "forward schedule", "backward schedule", "training"}

func (g Group) String() string { return groupNames[g] }

// MarshalText writes the name.
func (g Group) MarshalText() ([]byte, error) { return []byte(g.String()), nil }

// UnmarshalText reads a name.
func (g *Group) UnmarshalText(text []byte) error {
	i := slices.Index(groupNames[:], string(text))
	if i < 0 {
		return fmt.Errorf("%q is no group of axes (groups: %s)", text, strings.Join(groupNames[:], ", "))
	}
	*g = Group(i)
	return nil
}

// Groups lists them.
func Groups() (l []Group) {
	for g := range groups {
		l = append(l, g)
	}
	return l
}

// Schedules says whether the axes of the group change the order of instructions alone.
func (g Group) Schedules() bool { return g == GroupForward || g == GroupBackward }

// Concerns says whether the axis is of one of the groups, or touches its subject.
func (a Axis) Concerns(groups ...Group) bool {
	return slices.ContainsFunc(groups, func(g Group) bool { return a.Group == g || slices.Contains(a.Also, g) })
}

// Number says whether the values are numbers.
func (a Axis) Number() bool {
	return !slices.ContainsFunc(a.Values, func(s string) bool { return strings.Trim(s, "0123456789") != "" })
}

// Structural says whether the axis changes the structure of a program. The others are scalars, sizes and the numbers of a schedule,
// which are tuned inside a structural cell. How many heads, batch rows or chunks share a program is no size: it is their mapping.
func (a Axis) Structural() bool { return !a.Number() || a.Group == GroupMapping }

// wholes maps an axis to the one that sets it together with others.
var wholes = func() map[string]string {
	m := map[string]string{}
	for _, a := range Axes {
		for _, part := range a.Sets {
			m[part] = a.Name
		}
	}
	return m
}()

// Part names the axis that sets this one together with others, or nothing.
func (a Axis) Part() string { return wholes[a.Name] }

// reset puts the axes of some groups at their default.
func (v Variant) reset(in func(Group) bool) Variant {
	for _, a := range Axes {
		if in(a.Group) && a.Sets == nil {
			_ = a.Set(&v, a.Default)
		}
	}
	return v.Canon()
}

// Unscheduled is v with the instructions of its kernels in the order in which they are built.
func (v Variant) Unscheduled() Variant { return v.reset(Group.Schedules) }

// ofTraining says whether a forward kernel has no use for a group.
func (g Group) ofTraining() bool { return g == GroupBackward || g == GroupTraining }

// judged is the order in which axes are judged to apply, each after those that it reads. The order of the text is another: fetch, for
// one, is written before feedback and ahead, on which it depends. It panics where axes depend on one another.
var judged = func() (order []*Axis) {
	const (
		unseen = iota
		open
		done
	)
	state := map[string]int{}
	var visit func(name string)
	visit = func(name string) {
		a := lookupAxis(name)
		switch {
		case a == nil:
			panic(fmt.Sprintf("axes: %s is read and is no axis", name))
		case state[name] == done:
			return
		case state[name] == open:
			panic(fmt.Sprintf("axes: whether %s applies depends on itself", name))
		}
		state[name] = open
		for _, other := range a.reads {
			visit(other)
		}
		state[name] = done
		if a.Applies != nil {
			order = append(order, a)
		}
	}
	for _, a := range Axes {
		visit(a.Name)
	}
	return order
}()
