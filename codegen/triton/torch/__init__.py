"""The gated delta rule for NVIDIA GPUs: Triton kernels behind functions of torch, with gradients. Written by gdngen @VERSION@."""

import os

from . import flashinfer, serving
from .kda import chunk_kda, fused_recurrent_kda
from .rule import chunk_gated_delta_rule, fused_recurrent_gated_delta_rule, workspace_bytes

if os.environ.get("TRITON_INTERPRET") == "1":  # Triton's interpreter multiplies the bits of bf16 as integers, unless it is mended
    from .interpreter import emulate_rounding

    emulate_rounding()

__all__ = ["chunk_gated_delta_rule", "chunk_kda", "flashinfer", "fused_recurrent_gated_delta_rule", "fused_recurrent_kda", "serving", "workspace_bytes"]
