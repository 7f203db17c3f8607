package target

import (
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
)

var (
	plainName = regexp.MustCompile(`^[a-z][a-z0-9]*$`)
	topology  = regexp.MustCompile(`^[a-z][a-z0-9]*:[1-9][0-9]?(x[1-9][0-9]?){1,2}$`)
	pci       = regexp.MustCompile(`^0x[0-9a-f]{4}$`)
)

// Check returns all faults of a row joined: missing facts, names that cannot be given on a command line, and
// an unsupported register shape.
func (t *Target) Check() error {
	var faults []error
	add := func(format string, args ...any) {
		faults = append(faults, fmt.Errorf("target "+t.Name+": "+format, args...))
	}
	for _, name := range append([]string{t.Name}, t.OtherNames...) {
		if !plainName.MatchString(name) {
			add("name %q: use small letters and digits, a letter first", name)
		}
	}
	if !topology.MatchString(t.Topology) {
		add("topology %q: a generation and chips per dimension, such as v6e:2x2", t.Topology)
	}
	if !pci.MatchString(t.PCI) {
		add("PCI id %q: four digits as Linux writes them, such as 0x006f", t.PCI)
	}
	if t.Register != (Shape{Sublanes, Lanes}) {
		add("registers of %d x %d: kernels are tiled for %d x %d", t.Register.Rows, t.Register.Lanes, Sublanes, Lanes)
	}
	faults = append(faults, facts(t.Name, reflect.ValueOf(*t), t.Unknown)...)
	return errors.Join(faults...)
}

// facts returns errors for zero fields that are neither tagged nor listed in unknown, and for a wrong list.
func facts(target string, row reflect.Value, unknown []string) (faults []error) {
	known := map[string]bool{}
	for i := range row.NumField() {
		field := row.Type().Field(i)
		known[field.Name] = true
		listed := slices.Contains(unknown, field.Name)
		switch missing := zeros(field, row.Field(i)); {
		case len(missing) > 0 && !listed:
			faults = append(faults, fmt.Errorf("target %s: %v: give the fact, or name %s in Unknown", target, missing, field.Name))
		case len(missing) == 0 && listed:
			faults = append(faults, fmt.Errorf("target %s: %s is given and in Unknown", target, field.Name))
		}
	}
	for _, name := range unknown {
		if !known[name] {
			faults = append(faults, fmt.Errorf("target %s: Unknown has %q, which is no field", target, name))
		}
	}
	return faults
}

// zeros lists the zero fields at and below a field, without fields whose tag allows zero.
func zeros(field reflect.StructField, v reflect.Value) (missing []string) {
	if v.Kind() == reflect.Pointer && !v.IsNil() {
		v = v.Elem()
	}
	switch _, fact := field.Tag.Lookup("zero"); {
	case fact, v.Kind() == reflect.Bool:
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			for _, below := range zeros(v.Type().Field(i), v.Field(i)) {
				missing = append(missing, field.Name+"."+below)
			}
		}
	case v.IsZero():
		missing = append(missing, field.Name)
	}
	return missing
}
