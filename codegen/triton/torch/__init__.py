"""The gated delta rule for NVIDIA GPUs: Triton kernels behind functions of torch, with gradients. Written by gdngen @VERSION@."""

from . import serving
from .rule import chunk_gated_delta_rule, fused_recurrent_gated_delta_rule

__all__ = ["chunk_gated_delta_rule", "fused_recurrent_gated_delta_rule", "serving"]
