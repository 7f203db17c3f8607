package autotune

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gdngen/gdngen/autotune/promoted"
	"github.com/gdngen/gdngen/autotune/strategy"
	"github.com/gdngen/gdngen/codegen/route"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/target"
)

// promoted returns the user's champions for the search's spec, targets and least precision.
func (c *Config) promoted(least string, targets []string) (rows []promoted.Row, variants []gdn.Variant, err error) {
	for _, t := range targets {
		row := promoted.Find(c.Promoted, c.Spec, t, promoted.ClassOf(c.Objective, least))
		if row == nil {
			continue
		}
		v, err := gdn.ParseVariant(row.Variant)
		if err != nil {
			return nil, nil, err
		}
		if strategy.Reaches(v.Precision().String(), least) {
			rows, variants = append(rows, *row), append(variants, v)
		}
	}
	return rows, variants, nil
}

// seeds returns the texts of the variants proposed first, and of a reserve if the user named seeds. auto includes the
// user's champions next to the table's, so that a run ranks both.
func (c *Config) seeds(least string, targets []string, own []gdn.Variant) (first, reserve []string, err error) {
	class := promoted.ClassOf(c.Objective, least)
	best, err := champions(c.Spec, class.Text(), targets)
	if err != nil {
		return nil, nil, err
	}
	best = append(best, own...)
	for _, v := range best {
		if p := v.Precision().String(); !strategy.Reaches(p, least) && c.Warn != nil {
			c.Warn(fmt.Sprintf("auto computes in %s, below the precision %s of this search, and is not tried: --precision %s lets it take part", p, least, p))
			break
		}
	}
	all := DefaultSeeds(c.Spec, least, best)
	if len(c.Seeds) == 0 {
		return all, nil, nil
	}
	for _, text := range c.Seeds {
		variants, err := champions(c.Spec, text, targets)
		if err != nil {
			return nil, nil, err
		}
		if wish, auto := gdn.ParseAuto(text); auto && !strings.Contains(text, ",") && wish.For(c.Spec) == class {
			for _, v := range own {
				if !slices.Contains(variants, v) {
					variants = append(variants, v)
				}
			}
		}
		for _, v := range variants {
			first = append(first, v.String())
		}
	}
	return first, slices.DeleteFunc(all, func(text string) bool { return slices.Contains(first, text) }), nil
}

// champions resolves a text on the targets, each variant once: gdn.Auto gives the best known ones.
func champions(s gdn.Spec, text string, targets []string) ([]gdn.Variant, error) {
	var list []gdn.Variant
	for _, name := range targets {
		t, err := target.Lookup(name)
		if err != nil {
			return nil, err
		}
		f, err := route.Resolve(s, text, t, nil)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(list, f.Variant) {
			list = append(list, f.Variant)
		}
	}
	return list, nil
}

// inBF16 lists the changes that adapt a float32 variant to bf16 tensors; the first that keeps its numbers is taken.
var inBF16 = [][2]string{{"bf16x1", "bf16x1"}, {"bf16x1", "bf16x3"}, {"bf16x1", "f32"}}

// DefaultSeeds returns the best known variants for a spec and the named ones of a precision, each program once. If
// tensors are not float32, variants without a precision of their own compute in bf16. The naive variant is first, then
// variants made for bf16, then the best known, so that a short run ends with a good kernel; then the rest. Other
// variants with a pipeline compile slowest and are last. Negative examples are left out: the gates would refuse them.
func DefaultSeeds(s gdn.Spec, least string, best []gdn.Variant) []string {
	var naive, low, made, rest, slow []string
	seen := map[gdn.Variant]bool{}
	for _, v := range best {
		if strategy.Reaches(v.Precision().String(), least) && !seen[v.Fit(s)] {
			seen[v.Fit(s)] = true
			made = append(made, v.String())
		}
	}
	for _, n := range gdn.Variants {
		v, err := gdn.ParseVariant(n.Text)
		if err != nil || n.Negative || !strategy.Reaches(v.Precision().String(), least) || v.Check(s) != nil {
			continue // a test checks the whole table; some variants are not for every spec
		}
		own := v.Precision() == ir.PrecBF16x1
		if s.DType != ir.F32 && v.Precision() == ir.PrecF32 && v.Algo == gdn.AlgoChunk {
			v = lowered(v, s, least)
		}
		if f := v.Fit(s); seen[f] {
			continue
		} else {
			seen[f] = true
		}
		switch text := v.String(); {
		case n.Name == "naive":
			naive = append(naive, text)
		case v.Forward.PhasesBefore > 0:
			slow = append(slow, text)
		case own:
			low = append(low, text)
		default:
			rest = append(rest, text)
		}
	}
	return slices.Concat(naive, low, made, rest, slow)
}

// lowered returns v in the lowest allowed precision that keeps its numbers; the inverse may need a higher one.
func lowered(v gdn.Variant, s gdn.Spec, least string) gdn.Variant {
	for _, p := range inBF16 {
		w, err := v.With("prec", p[0])
		if err == nil {
			w, err = w.With("precinv", p[1])
		}
		if err == nil && w.Unsafe(s) == "" && strategy.Reaches(w.Precision().String(), least) {
			return w
		}
	}
	return v
}

// seedDoc returns the hypothesis of a seed: the description in the table of champions, or of a named variant in the same cell.
func seedDoc(v gdn.Variant, s gdn.Spec, targets []*target.Target) string {
	for _, n := range gdn.Variants {
		if w, err := gdn.ParseVariant(n.Text); err == nil {
			w.Numerics.PrecInv, w.Numerics.PrecIntra, w.Numerics.PrecState = v.Numerics.PrecInv, v.Numerics.PrecIntra, v.Numerics.PrecState
			if w.Canon() == v {
				return "seed " + n.Name + ": " + n.Doc
			}
		}
	}
	for _, auto := range gdn.AutoNames() {
		for _, t := range targets {
			choices, _ := gdn.Choices(auto, s, gdn.HostTPU, t.Machine()) // the spec was checked
			for _, c := range choices {
				if c.Variant == v {
					return "seed " + auto + " on " + t.Name + ": " + c.From.Why
				}
			}
		}
	}
	return "seed given by the user"
}
