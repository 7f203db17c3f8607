package aot

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Topologies lists the generations that can be compiled for, each with a topology of one host. Others have the same
// form: generation, colon, chips per dimension. The code of a program for one core does not depend on the size.
var Topologies = []struct{ Generation, Example string }{
	{"v4", "v4:2x2x1"},
	{"v5e", "v5e:2x2"},
	{"v5p", "v5p:2x2x1"},
	{"v6e", "v6e:2x2"},
	{"tpu7x", "tpu7x:2x2x1"},
}

var (
	dimensions = regexp.MustCompile(`^[1-9][0-9]?(x[1-9][0-9]?){1,2}$`)
	flagName   = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)
)

// validate refuses what libtpu would misread, silently replace or die of.
func (r *Request) validate() error {
	if err := checkTopology(r.Topology); err != nil {
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
	if strings.ContainsAny(r.Passes, " \t\n'\"") {
		return &RequestError{Field: "Passes", Msg: fmt.Sprintf("%q holds a space or a quote, which LIBTPU_INIT_ARGS can not carry", r.Passes)}
	}
	if _, err := regexp.Compile(r.Passes); err != nil {
		return &RequestError{Field: "Passes", Msg: err.Error()}
	}
	return nil
}

// checkTopology refuses the empty name, which libtpu silently takes for v2, and sizes of which it dies.
func checkTopology(name string) error {
	var known []string
	gen, dims, _ := strings.Cut(name, ":")
	for _, t := range Topologies {
		known = append(known, t.Example)
		if t.Generation != gen {
			continue
		}
		if !dimensions.MatchString(dims) {
			return &RequestError{Field: "Topology", Msg: fmt.Sprintf("%q needs two or three sizes from 1 to 99, as in %s", name, t.Example)}
		}
		return nil
	}
	return &RequestError{Field: "Topology", Msg: fmt.Sprintf("%q names no known generation; one of each: %s", name, strings.Join(known, " "))}
}
