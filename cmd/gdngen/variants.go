package main

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/internal/terminal"
)

// variantRow is a named variant, seen from a spec.
type variantRow struct {
	Name      string `json:"name"`
	Doc       string `json:"doc"`
	Variant   string `json:"variant"`
	Cell      string `json:"cell"` // structural axes alone
	Precision string `json:"precision"`
	Status    string `json:"status"` // ok, negative, unsafe or illegal
	Reason    string `json:"reason,omitempty"`
	Hash      string `json:"hash"`
}

func (a *app) variantsCmd() *cobra.Command {
	var spec string
	c := &cobra.Command{
		Use:   "variants",
		Short: "List the named variants, and whether they suit a spec",
		Long: `variants lists the named variants: what each is, its precision, and for a spec whether it can be built (illegal: it can not) and is safe. An
unsafe variant loses its numbers on correlated keys; negative ones do so by design, and show that check and search reject them.`,
		Example: "  gdngen variants\n  gdngen variants --spec contest-prefill -o json",
		GroupID: "know",
		Args:    args(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			s, err := parseSpec(spec)
			if err != nil {
				return err
			}
			var rows []variantRow
			for _, n := range gdn.Variants {
				v, err := gdn.ParseVariant(n.Text)
				if err != nil {
					return err
				}
				rows = append(rows, describeVariant(n, v, s))
			}
			return emit(a, rows, rows, func(w io.Writer) {
				t := terminal.NewTable("NAME", "STATUS", "PRECISION", "WHAT OR WHY", "VARIANT")
				for _, r := range rows {
					why := r.Reason
					if why == "" {
						why = r.Doc
					}
					t.Add(r.Name, r.Status, r.Precision, why, r.Variant)
				}
				t.Write(w)
			})
		},
	}
	specFlag(c, &spec, "bench")
	return c
}

func describeVariant(n gdn.NamedVariant, v gdn.Variant, s gdn.Spec) variantRow {
	r := variantRow{Name: n.Name, Doc: n.Doc, Variant: v.String(), Cell: v.Cell(), Precision: v.Precision().String(), Status: "ok", Hash: v.Hash()}
	if err := v.Check(s); err != nil {
		r.Status, r.Reason = "illegal", err.Error()
		return r
	}
	r.Reason = v.Unsafe(s)
	switch {
	case n.Negative:
		r.Status = "negative"
	case r.Reason != "":
		r.Status = "unsafe"
	}
	return r
}
