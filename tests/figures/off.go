package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gdngen/gdngen/autotune/check"
	"github.com/gdngen/gdngen/autotune/results"
	"github.com/gdngen/gdngen/codegen/route"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/exam"
	"github.com/gdngen/gdngen/ir/target"
)

// off is an error that gdngen check finds of the kernels for a target: on one class of inputs or all, of some kind, of
// one output or the largest over the outputs.
type off struct {
	spec                         gdn.Spec
	variant, class, kind, output string
	target                       *target.Target
}

// parseOff parses SPEC VARIANT TARGET CLASS KIND, and optionally an output.
func parseOff(words []string) (*term, error) {
	if len(words) != 5 && len(words) != 6 || !slices.Contains(exam.Kinds[:3], words[4]) {
		return nil, fmt.Errorf("want error SPEC VARIANT TARGET CLASS KIND [OUTPUT], with all for the worst class, and rms, max or bias as the kind")
	}
	s, err := gdn.Parse(words[0])
	if err != nil {
		return nil, err
	}
	t, err := target.Lookup(words[2])
	if err != nil {
		return nil, err
	}
	x := &off{spec: s, variant: words[1], target: t, class: words[3], kind: words[4]}
	if len(words) == 6 {
		x.output = words[5]
	}
	if x.class != "all" {
		if _, err := check.Classes(s, []string{x.class}); err != nil {
			return nil, err
		}
	}
	return &term{off: x}, nil
}

// quick reports whether a test may compute it: some ten processor seconds for all classes of a forward pass, or for one of a training step.
func (x *off) quick() bool {
	return x.spec.Tokens <= offTokens && (x.spec.Direction == gdn.Forward || x.class != "all")
}

// offTokens is the largest number of tokens of a program whose errors a test computes.
const offTokens = 512

// value returns the error as gdngen check computes it in the interpreter, with its three seeds.
func (x *off) value(ctx context.Context, m *meter) (float64, error) {
	var names []string
	if x.class != "all" {
		names = []string{x.class}
	}
	classes, err := check.Classes(x.spec, names)
	if err != nil {
		return 0, err
	}
	form, err := route.Resolve(x.spec, x.variant, x.target, nil)
	if err != nil {
		return 0, err
	}
	rows, err := results.OfKernels(ctx, m.Cache, form, classes)
	if err != nil {
		return 0, err
	}
	worst := -1.0
	for _, row := range rows {
		if row.Kind == x.kind && (x.output == "" || row.Output == x.output) {
			worst = max(worst, float64(row.Error))
		}
	}
	if worst < 0 {
		return 0, fmt.Errorf("%s has no %s of %s", x.spec, x.kind, x.output)
	}
	return worst, nil
}

// parsePeer parses QUANTITY NAME TARGET of a public kernel, with dashes for blanks.
func parsePeer(words []string) (*term, error) {
	if len(words) != 3 || words[0] != "in-order-token" && words[0] != "token" {
		return nil, errors.New("want peer QUANTITY NAME TARGET, with in-order-token or token as the quantity")
	}
	t, err := target.Lookup(words[2])
	if err != nil {
		return nil, err
	}
	plan, err := results.Default()
	if err != nil {
		return nil, err
	}
	var known []string
	for i := range plan.Peers {
		peer := &plan.Peers[i]
		if name := plain(peer.Name); name != words[1] {
			known = append(known, name)
			continue
		}
		if len(peer.Cycles) > 0 { // a kernel that a newer run refuses may have an older row
			return &term{quantity: words[0], target: t, peer: peer}, nil
		}
	}
	return nil, fmt.Errorf("no public kernel %q has figures (known: %s)", words[1], strings.Join(known, " "))
}

// ofPeer returns a figure of a public kernel, per token and value head.
func (t *term) ofPeer() (float64, error) {
	of := t.peer.Cycles
	if t.quantity == "in-order-token" {
		of = t.peer.Wall
	}
	x, ok := of[t.target.Name]
	if !ok {
		return 0, fmt.Errorf("%s has no %s on %s", t.peer.Name, t.quantity, t.target.Name)
	}
	return x, nil
}
