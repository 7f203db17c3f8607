"""@DEFINITION@ by programs that gdngen generates, one for each shape, run through JAX.

Needs jax, and gdngen on the path or named by the variable GDNGEN. Tensors may be of any library that speaks DLPack; results are
those of torch if the arguments are, else arrays of JAX.
"""

import functools
import os
import subprocess

import jax
from jax._src.lib import xla_client

jax.config.update("jax_enable_x64", True)  # cu_seqlens is int64

SPEC = "@SPEC@"
VARIANT = "@VARIANT@"
BACKEND = [@BACKEND@]
OPTIONS = @OPTIONS@  # of the compiler


@functools.lru_cache(maxsize=None)
def program(spec):
    command = [os.environ.get("GDNGEN", "gdngen"), "gen", "--spec", spec, "--variant", VARIANT, "--backend", *BACKEND, "-o", "-"]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    device = jax.devices()[0]
    options = xla_client.CompileOptions()
    if OPTIONS:
        options.env_option_overrides = list(OPTIONS.items())
    return device.client.compile_and_load(text, xla_client.DeviceList((device,)), options)


def compute(q, k, v, state, A_log, a, dt_bias, b, cu_seqlens, scale):
    fields = [f"b={q.shape[0]},t={q.shape[1]}" if q.ndim == 4 else f"b=1,t={q.shape[0]},packed", SPEC]
    tensors = [q, k, v, A_log, a, dt_bias, b]
    if state is not None:
        fields.append("init")
        tensors.append(state)
    if cu_seqlens is not None:
        fields.append(f"seqs={len(cu_seqlens) - 1}" + (",empty=zero" if state is not None else ""))
        tensors.append(cu_seqlens)
    if scale:
        fields.append(f"scale={scale!r}")
    arguments = [jax.dlpack.from_dlpack(x) for x in tensors]
    for i in (3, 5):  # A_log, dt_bias
        arguments[i] = arguments[i].astype("float32")
    if cu_seqlens is not None:
        arguments[-1] = arguments[-1].astype("int64")
    results = program(",".join(fields)).execute(arguments)
    if type(q).__module__.startswith("torch"):
        import torch

        results = [torch.from_dlpack(x) for x in results]
    return tuple(results)


def run(@ARGUMENTS@):
    return compute(q, k, v, @STATE@, A_log, a, dt_bias, b, @BOUNDS@, @SCALE@)
