package gdn

import (
	"fmt"
	"slices"
	"strings"
)

// needs says which values of other axes a choice can not do without, as axis=value, where several will do separated by bars: a
// variant without them is refused, or fitted to one without the choice. One change at a time seldom leads to such a choice.
var needs = map[string]string{
	"pack=aligned": "algo=chunk flow=fused form=vprime layout=token heads=0 fold=no feedback=0 out=separate turn=value decay=base2|clamp",
	"pack=stream":  "algo=chunk flow=fused form=vprime layout=token heads=0 out=separate turn=value parts=late ahead=0",
	"pack=masked":  "heads=0",
	"fetch=copies": "ahead=1|2 heads=0 steps=1",
	"layout=token": "heads=0",
	"layout=lane":  "heads=0",
	"out=joined":   "fold=yes",
	"out=shared":   "turn=key",
	"mask=words":   "chunk=64|16|32|128|256 solve=merge merge=packed leafby=subst leaf=16|32 store=bf16 precinv=bf16x1 parts=late",
	"refine=yes":   "flow=fused form=vprime low=no|rows|operands mask=words",
}

// Towards is v with one choice and with all that it needs. An example: with pack=aligned, v also takes its tokens as they lie
// (layout=token) and separate products (out=separate), whatever it had before.
func (v Variant) Towards(axis, value string) (Variant, error) {
	a := lookupAxis(axis)
	if a == nil {
		return v, unknownAxis(axis)
	}
	v = v.Canon()
	for _, need := range strings.Fields(needs[axis+"="+value]) {
		name, values, _ := strings.Cut(need, "=")
		will := strings.Split(values, "|")
		wanted := lookupAxis(name).Get(&v)
		if !slices.Contains(will, wanted) {
			wanted = will[0]
		}
		w, err := v.Towards(name, wanted)
		if err != nil {
			return v, err
		}
		v = w
	}
	if err := a.Set(&v, value); err != nil {
		return v, fmt.Errorf("variant: %s (%s): %w", a.Name, a.Doc, err)
	}
	if v = v.Canon(); a.Get(&v) != value {
		return v, fmt.Errorf("variant: %s (%s) does not apply to %s", a.Name, a.Doc, v)
	}
	return v, nil
}
