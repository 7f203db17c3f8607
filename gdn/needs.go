package gdn

import (
	"fmt"
	"slices"
	"strings"
)

// noMap lists the values of form except map.
const noMap = "form=vprime|uw"

// needs maps "axis=value" to the values of other axes that it requires. "axis=a|b" allows both. Without them the variant is refused, unsafe, or fitted
// to one without the choice. Changing one axis at a time seldom reaches such a choice.
var needs = map[string]string{
	"pack=aligned":      "algo=chunk flow=fused form=vprime layout=bthd heads=0 fold=no error_feedback=0 out=separate transpose_k=value decay=base2|clamp mask=words",
	"pack=stream":       "algo=chunk flow=fused form=vprime layout=bthd heads=0 out=separate transpose_k=value split_at=use phases_before=0",
	"pack=masked":       "heads=0",
	"pack=segments":     "algo=chunk flow=fused",
	"prefetch=dma":      "phases_before=1|2 heads=0 steps=1",
	"layout=bthd":       "heads=0",
	"layout=bt_hd":      "heads=0",
	"out=joined":        "fold=yes " + noMap,
	"out=shared":        "transpose_k=key " + noMap,
	"flow=split":        noMap,
	"flow=solve":        noMap,
	"fold=no":           noMap,
	"tail_decay=v":      noMap,
	"transpose_k=value": noMap,
	"form=map":          "algo=chunk flow=fused fold=yes out=separate transpose_k=key tail_decay=k error_feedback=0",
	"mask=words":        "chunk=64|16|32|128|256 solve=merge merge=packed leafby=subst leaf=16|32 store=bf16 precinv=bf16x1 split_at=use",
	"refine=yes":        "flow=fused form=vprime decay_bf16=none|rows|operands mask=words",
}

// Towards returns v with an axis set to value, and the axes that this value requires changed too. Example: pack=aligned also sets
// layout=bthd and out=separate. It fails for an unknown axis or value, and if the value does not apply.
func (v Variant) Towards(axis, value string) (Variant, error) {
	a := lookupAxis(axis)
	if a == nil {
		return v, unknownAxis(axis)
	}
	v, value = v.Canon(), a.now(value)
	for _, need := range strings.Fields(needs[a.Name+"="+value]) {
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
