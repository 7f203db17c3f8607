package gdn

import (
	"fmt"
	"slices"
	"strings"
)

// Group is the subject of an axis. Properties that several axes share are set by group: whether a search crosses them together, whether a forward
// kernel uses them, whether they only reorder instructions.
type Group uint8

// The groups. GroupForm has the mathematical form except the inverse (I + A)^-1, which is GroupInverse. GroupMapping decides which work shares a program,
// GroupLayout the order of dimensions.
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

// MarshalText returns the name.
func (g Group) MarshalText() ([]byte, error) { return []byte(g.String()), nil }

// UnmarshalText sets g by its name; an unknown name is an error.
func (g *Group) UnmarshalText(text []byte) error {
	i := slices.Index(groupNames[:], string(text))
	if i < 0 {
		return fmt.Errorf("%q is no group of axes (groups: %s)", text, strings.Join(groupNames[:], ", "))
	}
	*g = Group(i)
	return nil
}

// Groups returns all groups.
func Groups() (l []Group) {
	for g := range groups {
		l = append(l, g)
	}
	return l
}

// Schedules reports whether axes of the group only change the order of instructions.
func (g Group) Schedules() bool { return g == GroupForward || g == GroupBackward }

// Concerns reports whether the axis is in one of the groups, by Group or Also.
func (a Axis) Concerns(groups ...Group) bool {
	return slices.ContainsFunc(groups, func(g Group) bool { return a.Group == g || slices.Contains(a.Also, g) })
}

// Number reports whether all values are non-negative integers.
func (a Axis) Number() bool {
	return !slices.ContainsFunc(a.Values, func(s string) bool { return strings.Trim(s, "0123456789") != "" })
}

// Structural reports whether the axis changes the structure of a program. Others are sizes and schedule numbers, tuned within a structural cell.
// Numbers of heads, batch rows or chunks a program are structural: they are its mapping.
func (a Axis) Structural() bool { return !a.Number() || a.Group == GroupMapping }

// wholes maps an axis to the shorthand axis that sets it together with others.
var wholes = func() map[string]string {
	m := map[string]string{}
	for _, a := range Axes {
		for _, part := range a.Sets {
			m[part] = a.Name
		}
	}
	return m
}()

// Part returns the name of the shorthand axis that sets this axis together with others, or "".
func (a Axis) Part() string { return wholes[a.Name] }

// reset returns v with the axes of the selected groups at their defaults.
func (v Variant) reset(in func(Group) bool) Variant {
	for _, a := range Axes {
		if in(a.Group) && a.Sets == nil {
			_ = a.Set(&v, a.Default)
		}
	}
	return v.Canon()
}

// Unscheduled returns v with default schedules: instructions in the order in which the program is built.
func (v Variant) Unscheduled() Variant { return v.reset(Group.Schedules) }

// ofTraining reports whether only training programs use the group.
func (g Group) ofTraining() bool { return g == GroupBackward || g == GroupTraining }

// judged lists the axes with a condition, each after the axes that its condition reads. The text order differs: prefetch precedes two axes that
// it depends on. Initialization panics on a cycle.
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
