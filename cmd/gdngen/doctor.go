package main

import (
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/gdngen/gdngen/internal/interrupt"
	"github.com/gdngen/gdngen/internal/terminal"
	"github.com/gdngen/gdngen/pjrt/plugins"
)

func (a *app) doctorCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "doctor",
		Short: "Say what this machine has and lacks",
		Long: `doctor examines the tools, the cache, the plugins and the devices, and says how to mend what is wrong. It downloads nothing. The status is 6 if
something is missing. Machines that remote hold took, and nobody gave back, are warnings.`,
		Example: "  gdngen doctor\n  gdngen doctor --libtpu ./libtpu.so -o json",
		GroupID: "self",
		Args:    args(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			// the examination looks at the environment alone
			for name, value := range map[string]string{"GDNGEN_LIBTPU": a.libtpu, "GDNGEN_CPU_PLUGIN": a.cpuPlugin} {
				if value != "" {
					if err := os.Setenv(name, value); err != nil {
						return err
					}
				}
			}
			checks, err := interrupt.Await(a.ctx, func() ([]plugins.Check, error) { return plugins.Doctor(a.ctx), nil })
			if err != nil {
				return err
			}
			a.warnOfLeases()
			missing := 0
			if err := emit(a, checks, checks, func(w io.Writer) {
				t := terminal.NewTable("CHECK", "STATUS", "DETAIL")
				for _, c := range checks {
					status := "ok"
					if !c.OK {
						status = "absent"
					}
					t.Add(c.Name, status, c.Detail)
					if c.Mend != "" {
						t.Add("", "", "to mend: "+c.Mend)
					}
				}
				t.Write(w)
			}); err != nil {
				return err
			}
			for _, c := range checks {
				if !c.OK {
					missing++
				}
			}
			if missing > 0 {
				return failed(exitNoEngine, "%d of %d checks found something missing", missing, len(checks))
			}
			return nil
		},
	}
}
