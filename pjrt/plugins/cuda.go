package plugins

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Environment variables that name another build of the CUDA plugin, and another CUDA toolkit: a folder with bin/ptxas and
// nvvm/libdevice.
const (
	CUDAPluginEnv  = "GDNGEN_CUDA_PLUGIN"
	CUDAToolkitEnv = "GDNGEN_CUDA_TOOLKIT"
)

// setupGPU is the command that downloads what GPU targets need.
const setupGPU = "gdngen setup --only gpu"

// The pinned CUDA plugin, and the two files of a CUDA toolkit that its compiler needs: the PTX assembler and the math library. Each file
// is from its own wheel.
var (
	cudaRelease = release{
		name: "jax-cuda13-pjrt", version: "0.11.2", env: CUDAPluginEnv, setup: setupGPU,
		platform: "manylinux_2_27_x86_64",
		sha256:   "e5ff589d43064913bb74027682d89639c7ea48f9f81c2bae6fc75117e913f93e", bytes: 134162640,
		library: "jax_plugins/xla_cuda13/xla_cuda_plugin.so", size: 411465856,
		sum: "43d3efd6fd43d8a5d9aa67176e830d81e4ad5fc19fda4ad09cdcc4aebd9f3920",
	}
	ptxasRelease = release{
		name: "nvidia-cuda-nvcc", version: "13.0.88", env: CUDAToolkitEnv, setup: setupGPU,
		platform: "manylinux_2_17_x86_64",
		sha256:   "56fe502eb77625a12f25172caa3cdddb4e4c8ba2c8c17dba44b164761b380f03", bytes: 37384532,
		library: "nvidia/cu13/bin/ptxas", size: 37741528,
		sum:    "daba837a68265cae38c832d13399b61dab811891de9b8914defddef143b849f2",
		folder: toolkitFolder, place: toolkitPTXAS,
	}
	libdeviceRelease = release{
		name: "nvidia-nvvm", version: "13.0.88", env: CUDAToolkitEnv, setup: setupGPU,
		platform: "manylinux_2_12_x86_64",
		sha256:   "c5f41ffeb6466944a026dfa5317d7d85355c119bbec279205d22f1869d1054e0", bytes: 61601415,
		library: "nvidia/cu13/nvvm/libdevice/libdevice.10.bc", size: 464132,
		sum:    "91334d6e12748f6cb5bbf0a1cd965a56bcd93dc4f496d2e5c5f8c6e523094356",
		folder: toolkitFolder, place: toolkitLibdevice,
	}
)

// The files of a CUDA toolkit that XLA uses.
const (
	toolkitFolder    = "cuda-toolkit-13.0.88"
	toolkitPTXAS     = "bin/ptxas"
	toolkitLibdevice = "nvvm/libdevice/libdevice.10.bc"
)

// CUDATools is a CUDA plugin with the toolkit that it compiles with.
type CUDATools struct {
	Plugin
	Toolkit string // a folder with bin/ptxas and nvvm/libdevice
}

// PTXAS returns the path of the PTX assembler.
func (c CUDATools) PTXAS() string { return filepath.Join(c.Toolkit, toolkitPTXAS) }

// CUDA obtains the plugin that compiles StableHLO for NVIDIA GPUs, without a GPU or driver, and its toolkit: about 222 MiB of downloads,
// 429 MiB in the cache. Only GPU targets need it.
func CUDA(ctx context.Context, opts Options) (CUDATools, error) {
	announceCUDA(opts)
	plugin, err := cudaRelease.obtain(ctx, opts)
	if err != nil {
		return CUDATools{}, err
	}
	tools := CUDATools{Plugin: plugin}
	if dir := os.Getenv(CUDAToolkitEnv); dir != "" {
		tools.Toolkit, err = filepath.Abs(dir)
		for _, place := range []string{toolkitPTXAS, toolkitLibdevice} {
			if err == nil {
				_, err = os.Stat(filepath.Join(tools.Toolkit, place))
			}
		}
		if err != nil {
			return CUDATools{}, ptxasRelease.missing(NoFile, err.Error(), "correct or unset "+CUDAToolkitEnv, err)
		}
		return tools, nil
	}
	opts.Path = ""
	for _, r := range []release{ptxasRelease, libdeviceRelease} {
		if _, err := r.obtain(ctx, opts); err != nil {
			return CUDATools{}, err
		}
	}
	cache, err := CacheDir()
	if err != nil {
		return CUDATools{}, err
	}
	tools.Toolkit = ptxasRelease.dir(cache)
	return tools, nil
}

// PTXAS obtains only the PTX assembler, about 36 MiB, and returns its path.
func PTXAS(ctx context.Context, opts Options) (path string, err error) {
	opts.Path = ""
	if dir := os.Getenv(CUDAToolkitEnv); dir != "" {
		opts.Path = filepath.Join(dir, toolkitPTXAS)
	}
	p, err := ptxasRelease.obtain(ctx, opts)
	return p.Path, err
}

// announceCUDA reports the size of the downloads, if more than one file is missing.
func announceCUDA(opts Options) {
	cache, err := CacheDir()
	if err != nil || opts.Offline {
		return
	}
	var absent []string
	var bytes int64
	for _, r := range []release{cudaRelease, ptxasRelease, libdeviceRelease} {
		if os.Getenv(r.env) == "" && !r.present(r.cached(cache)) {
			absent, bytes = append(absent, r.name), bytes+r.bytes
		}
	}
	if len(absent) > 1 {
		report(opts.Progress, "fetching %s, once, for targets that are GPUs: %s", strings.Join(absent, ", "), mib(bytes))
	}
}

// checkGPUTools reports whether the GPU tools are present. Their absence is not a failure: they are downloaded when a GPU target first
// needs them.
func checkGPUTools(ctx context.Context) []Check {
	offline := Options{Offline: true}
	triton, tritonErr := gpu(ctx, offline)
	c, cudaErr := CUDA(ctx, offline)
	checks := []Check{pluginCheck("Triton", triton, tritonErr), pluginCheck("CUDA plugin", c.Plugin, cudaErr)}
	for i, err := range []error{tritonErr, cudaErr} {
		if missing := (*MissingError)(nil); errors.As(err, &missing) && missing.Why != NoFile {
			checks[i] = Check{Name: checks[i].Name, OK: true, Detail: fmt.Sprintf("not there (%s), and needed for targets that are GPUs alone: `%s` fetches it", missing.Why, setupGPU)}
		}
	}
	return checks
}

// cuda is CUDA as a row of kinds.
func cuda(ctx context.Context, o Options) (Plugin, error) {
	c, err := CUDA(ctx, o)
	return c.Plugin, err
}
