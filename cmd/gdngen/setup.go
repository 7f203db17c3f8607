package main

import (
	"io"

	"github.com/gdngen/gdngen/cmd/gdngen/internal/app"
	"github.com/gdngen/gdngen/pjrt/plugins"
	"github.com/spf13/cobra"
)

// plugins obtains the named plugins, or all. missing is the error of the first that could not be obtained.
func (a CLI) plugins(only string, offline, verify bool) (rows []plugins.Obtained, missing error, err error) {
	rows, missing, err = plugins.Obtain(a.Ctx, only, map[string]string{"cpu": a.CPUPlugin, "tpu": a.Libtpu}, plugins.Options{Progress: a.Stderr, Offline: offline, Verify: verify})
	if app.IsA[*plugins.UnknownError](err) {
		return nil, nil, app.Usage(err)
	}
	return rows, missing, err
}

func (a CLI) setupCmd() *cobra.Command {
	var only string
	c := &cobra.Command{
		Use:   "setup",
		Short: "Fetch the plugins that run and compile programs",
		Long: `setup fetches the pinned plugins with pip into the user's cache, and verifies their hashes, also of those that are in the cache. Other
commands fetch a plugin when they need it; setup is for a machine that will be offline. --libtpu, --cpu-plugin and the
variables GDNGEN_LIBTPU and GDNGEN_CPU_PLUGIN name other builds, and GDNGEN_CACHE moves the cache.

The tools for GPU targets are fetched only by --only gpu, or when such a target first needs them: Triton and NumPy (289
MiB, 1056 on disk), and the CUDA plugin with two files of a CUDA toolkit (222 MiB, 429 on disk). GDNGEN_TRITON names a
Python that has Triton, GDNGEN_CUDA_PLUGIN another
build of the plugin, and GDNGEN_CUDA_TOOLKIT a folder with bin/ptxas and nvvm/libdevice.`,
		Example: "  gdngen setup\n  gdngen setup --only cpu",
		GroupID: "self",
		Args:    app.Args(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			rows, missing, err := a.plugins(only, a.Offline, true)
			if err != nil {
				return err
			}
			if err := app.Emit(a.App, rows, rows, func(w io.Writer) { plugins.WriteObtained(w, rows) }); err != nil {
				return err
			}
			return missing
		},
	}
	c.Flags().StringVar(&only, "only", "", "fetch only cpu, tpu or gpu")
	app.Complete(c, "only", []string{"cpu", "tpu", "gpu"})
	return c
}
