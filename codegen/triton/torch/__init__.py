"""The gated delta rule for NVIDIA GPUs: Triton kernels behind functions of torch, with gradients. Written by gdngen @VERSION@."""

from . import flashinfer, serving
from .kda import chunk_kda, fused_recurrent_kda
from .rule import chunk_gated_delta_rule, fused_recurrent_gated_delta_rule

__all__ = ["chunk_gated_delta_rule", "chunk_kda", "flashinfer", "fused_recurrent_gated_delta_rule", "fused_recurrent_kda", "serving"]
