package kernels

import (
	"io"

	"github.com/gdngen/gdngen/cmd/gdngen/internal/app"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/internal/terminal"
	"github.com/spf13/cobra"
)

func (a CLI) VariantsCmd() *cobra.Command {
	var spec string
	c := &cobra.Command{
		Use:   "variants",
		Short: "List the named variants, and whether they are legal for a spec",
		Long: `variants lists the named variants: what each is, its precision, and for a spec whether it can be built (illegal: it can not) and is safe. An
unsafe variant loses its numbers on correlated keys; negative ones do so by design, and show that check and search reject them.`,
		Example: "  gdngen list variants\n  gdngen list variants --spec contest-prefill -o json",
		GroupID: "know",
		Args:    app.Args(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			s, err := app.ParseSpec(spec)
			if err != nil {
				return err
			}
			rows, err := gdn.Standings(s)
			if err != nil {
				return err
			}
			return app.Emit(a.App, rows, rows, func(w io.Writer) {
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
	app.SpecFlag(c, &spec, "bench")
	return c
}
