package target

import "fmt"

// XLA returns the GPU's description for XLA's compiler, a GpuTargetConfigProto in text form, so that it can compile without the GPU. Versions are the
// assumed toolkit's; limits on threads and registers hold for every GPU since compute capability 7.0.
func (g *GPU) XLA() string {
	return fmt.Sprintf(`gpu_device_info {
  threads_per_block_limit: 1024 threads_per_warp: 32 thread_dim_limit_x: 1024 thread_dim_limit_y: 1024 thread_dim_limit_z: 64
  block_dim_limit_x: 2147483647 block_dim_limit_y: 65535 block_dim_limit_z: 65535
  registers_per_block_limit: 65536 registers_per_core_limit: %d threads_per_core_limit: %d
  shared_memory_per_block: 49152 shared_memory_per_block_optin: %d shared_memory_per_core: %d
  core_count: %d fpus_per_core: 128 clock_rate_ghz: %g l2_cache_size: %d memory_bandwidth: %.0f device_memory_size: %d
  cuda_compute_capability { major: %d minor: %d feature_extension: ACCELERATED_FEATURES }
  device_vendor: "NVIDIA Corporation" name: %q
  driver_version: "13.0.0" runtime_version: "13.0.0" compile_time_toolkit_version: "13.0.0" dnn_version: "9.10.0"
}
platform_name: "CUDA"
dnn_version_info { major: 9 minor: 10 patch: 0 }
device_description_str: %q
`, g.Registers, g.Threads, g.SharedProgram, g.Shared, g.SMs, g.Clock/1e9, g.L2, g.DRAM, g.Memory, g.Capability/10, g.Capability%10, g.Kind, g.Kind)
}
