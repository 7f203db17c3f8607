package aot

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/gdngen/gdngen/ir/target"
)

var (
	dimensions = regexp.MustCompile(`^[1-9][0-9]?(x[1-9][0-9]?){1,2}$`)
	flagName   = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)
)

// validate refuses requests that the plugin would misread, silently change, or crash on.
func (r *Request) validate(on *platform) error {
	if err := on.checkTopology(r.Topology); err != nil {
		return err
	}
	if strings.TrimSpace(r.Module) == "" {
		return &RequestError{Field: "Module", Msg: "is empty; give StableHLO text"}
	}
	for name := range r.Flags {
		if !flagName.MatchString(name) {
			return &RequestError{Field: "Flags", Msg: strconv.Quote(name) + " is not a flag name; write it without dashes, as in xla_tpu_scoped_vmem_limit_kib"}
		}
	}
	if r.Passes != "" && on.passes == "" {
		return &RequestError{Field: "Passes", Msg: on.plugin + " has none to choose from: leave it empty"}
	}
	if strings.ContainsAny(r.Passes, " \t\n'\"") {
		return &RequestError{Field: "Passes", Msg: fmt.Sprintf("%q holds a space or a quote, which %s can not carry", r.Passes, on.passes)}
	}
	if _, err := regexp.Compile(r.Passes); err != nil {
		return &RequestError{Field: "Passes", Msg: err.Error()}
	}
	return nil
}

// checkTopology requires a generation, a colon and the chips per dimension; code for one core does not depend on the size. It refuses
// the empty name, which libtpu silently takes as v2, and sizes that crash libtpu.
func checkTopology(name string) error {
	var known []string
	gen, dims, _ := strings.Cut(name, ":")
	for _, t := range target.All() {
		known = append(known, t.Topology)
		if t.Name != gen {
			continue
		}
		if !dimensions.MatchString(dims) {
			return &RequestError{Field: "Topology", Msg: fmt.Sprintf("%q needs two or three sizes from 1 to 99, as in %s", name, t.Topology)}
		}
		return nil
	}
	return &RequestError{Field: "Topology", Msg: fmt.Sprintf("%q names no known generation; one of each: %s", name, strings.Join(known, " "))}
}
